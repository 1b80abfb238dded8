//! Tables.

use num_traits::ToPrimitive;

use super::arguments::{ArgumentRule, written_order};
use super::key_names::written_name;
use super::places::Place;
use super::rules::{action_scopes, bound_arguments, distinct_names, table_entries};
use super::statements::is_known;
use super::{Checker, Entity};
use crate::annotations;
use crate::architecture::Architecture;
use crate::ast::{self, Direction, ExprKind as Ast, TablePropertyValue as Property};
use crate::diagnostics::Diagnostic;
use crate::eval::Value;
use crate::ir::{
    ActionCall, ActionId, ActionRef, Annotation, AnnotationValue, Entry, Expr, ExprKind, Instance,
    Key, Priority, Signature, Table,
};
use crate::source::Span;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn table(
        &mut self,
        declaration: &ast::Declaration,
        properties: &[ast::TableProperty],
    ) -> Option<Table> {
        let mut table = Table {
            name: declaration.name.text.clone(),
            annotations: self.annotations(&declaration.annotations),
            key: Vec::new(),
            actions: Vec::new(),
            default_action: None,
            default_is_const: false,
            entries: Vec::new(),
            entries_are_const: false,
            size: None,
            largest_priority_wins: true,
            priority_delta: 1,
            support_timeout: false,
            implementation: None,
            counters: None,
            meters: None,
            span: declaration.name.span,
        };
        distinct_names::check_properties(properties, self.diagnostics);
        // Other properties refer to the key and the actions, wherever they stand.
        for property in properties {
            match &property.value {
                Property::Key(elements) => {
                    table.key = elements.iter().map(|e| self.key_element(e)).collect();
                }
                Property::Actions(list) => {
                    table.actions = list.iter().filter_map(|a| self.action_ref(a)).collect();
                }
                _ => {}
            }
        }
        if !properties.iter().any(|p| p.name.text == "actions") {
            let message = format!("table `{}` has no actions", table.name);
            let help = "add `actions = { ...; }`";
            self.error_with_help("missing-actions", declaration.name.span, message, help);
            return None;
        }
        for property in properties {
            let annotations = self.annotations(&property.annotations);
            self.table_property(&mut table, property, annotations);
        }
        if table.default_action.is_none()
            && !properties.iter().any(|p| p.name.text == "default_action")
        {
            self.add_no_action(&mut table);
        }
        distinct_names::check_actions(&table, &self.program, self.diagnostics);
        action_scopes::check(&table, self.diagnostics);
        table_entries::check(&table, self.diagnostics);
        Some(table)
    }

    fn table_property(
        &mut self,
        table: &mut Table,
        property: &ast::TableProperty,
        annotations: Vec<Annotation>,
    ) {
        let name = property.name.text.as_str();
        let architecture = self.program.architecture;
        match (&property.value, name) {
            (Property::Key(_) | Property::Actions(_), _) => {}
            (Property::Entries(entries), _) => {
                table.entries_are_const = property.is_const;
                let affordable = self
                    .diagnostics
                    .check_entry_count(entries.len(), table.span);
                for entry in entries.iter().filter(|_| affordable) {
                    if let Some(entry) = self.entry(table, entry, property.is_const) {
                        table.entries.push(entry);
                    }
                }
            }
            (Property::Expression(value), "default_action") => {
                table.default_action = self.action_call(table, value);
                table.default_is_const = property.is_const;
            }
            (Property::Expression(value), "size") => {
                table.size = self.size_property(value);
            }
            (Property::Expression(value), "largest_priority_wins") => {
                let value = self.expr_of(value, &Type::Bool);
                table.largest_priority_wins = value.as_value() != Some(&Value::Bool(false));
            }
            (Property::Expression(value), "priority_delta") => {
                if let Some(delta) = self.constant_int(value) {
                    let positive = delta.to_u64().filter(|d| *d > 0);
                    if positive.is_none() {
                        let message = format!("`priority_delta` is {delta}, below 1");
                        self.error("bad-priority", value.span, message);
                    }
                    table.priority_delta = positive.unwrap_or(1);
                }
            }
            (Property::Expression(value), name) if name == architecture.timeout_property() => {
                table.support_timeout = self.wants_timeouts(value);
            }
            (Property::Expression(value), name) => {
                let objects = architecture.object_properties();
                let Some((_, allowed)) = objects.iter().find(|(known, _)| *known == name) else {
                    return self.unknown_property(property);
                };
                let object = self.extern_property(property, annotations, value, allowed);
                match name.trim_start_matches("psa_") {
                    // How the chip stores the entries changes nothing of what they mean.
                    "implementation" if object.as_ref().is_some_and(|e| self.is_storage(&e.ty)) => {
                    }
                    "implementation" => table.implementation = object,
                    "counters" | "direct_counter" => table.counters = object,
                    "meters" | "direct_meter" => table.meters = object,
                    // Objects of other architectures, which no backend reads.
                    _ => {}
                }
            }
        }
    }

    /// Whether the property that asks for idle timeouts does so: a truth, or PSA's value for it.
    fn wants_timeouts(&mut self, value: &ast::Expr) -> bool {
        if self.program.architecture == Architecture::Psa {
            let value = self.expr(value);
            return matches!(value.as_value(), Some(Value::Member(m)) if m == "NOTIFY_CONTROL");
        }
        let value = self.expr_of(value, &Type::Bool);
        value.as_value() == Some(&Value::Bool(true))
    }

    /// Whether an object says how a table is laid out in the memories of Tofino.
    fn is_storage(&self, ty: &Type) -> bool {
        let Type::Extern(id, _) = ty else {
            return false;
        };
        matches!(self.program.externs[*id].name.as_str(), "Alpm" | "Atcam")
    }

    fn unknown_property(&self, property: &ast::TableProperty) {
        let name = property.name.text.as_str();
        let objects = self.program.architecture.object_properties();
        let known = [
            "key",
            "actions",
            "entries",
            "default_action",
            "size",
            self.program.architecture.timeout_property(),
            "largest_priority_wins",
            "priority_delta",
        ];
        let known = known
            .into_iter()
            .chain(objects.iter().map(|(name, _)| *name));
        let message = format!("the target has no table property `{name}`; it is ignored");
        self.report(
            Diagnostic::warning("unknown-property", property.name.span, message)
                .suggest(name, known),
        );
    }

    /// The value of a property that attaches an object of the architecture to a table; `allowed` are its extern types.
    fn extern_property(
        &mut self,
        property: &ast::TableProperty,
        annotations: Vec<Annotation>,
        value: &ast::Expr,
        allowed: &[&str],
    ) -> Option<Expr> {
        let checked = self.expr(value);
        match &checked.ty {
            Type::Poison => None,
            Type::Extern(id, _) if allowed.contains(&self.program.externs[*id].name.as_str()) => {
                Some(self.named_object(property, annotations, checked))
            }
            other => {
                let message = format!(
                    "expected {}, found `{}`",
                    allowed.join(" or "),
                    self.show(other)
                );
                self.error("type-mismatch", value.span, message);
                None
            }
        }
    }

    /// `implementation = action_profile(32);` declares an object on the spot. Its control-plane name is
    /// the `@name` of the property, and not prefixed.
    fn named_object(
        &mut self,
        property: &ast::TableProperty,
        mut annotations: Vec<Annotation>,
        value: Expr,
    ) -> Expr {
        let ExprKind::Construct(construct) = value.kind else {
            return value;
        };
        let name =
            annotations::string(&annotations, "name").unwrap_or_else(|| property.name.text.clone());
        let absolute = AnnotationValue::of(Value::Str(format!(".{name}")));
        annotations.retain(|a| a.name.text != "name");
        annotations.push(Annotation::new("name", vec![absolute], value.span));
        let id = self.add_instance(Instance {
            name,
            annotations,
            construct: *construct,
            ty: value.ty.clone(),
            methods: Vec::new(),
            span: value.span,
        });
        Expr {
            kind: ExprKind::Instance(id),
            ..value
        }
    }

    /// A field of the key. A wrong one is reported and keeps its place, so that entries have a set for it.
    fn key_element(&mut self, element: &ast::KeyElement) -> Key {
        // Keys are evaluated where the table is applied, so they may apply other tables.
        let mut expr = self.in_body(Place::Control, Type::Void, |c| c.expr(&element.expr));
        let kind = &element.match_kind;
        if self.match_kinds.place(&kind.text).is_none() {
            let message = format!("there is no match kind `{}`", kind.text);
            let mut diagnostic = Diagnostic::error("unknown-match-kind", kind.span, message)
                .suggest(&kind.text, self.match_kinds.iter().map(String::as_str));
            if diagnostic.help.is_none() {
                diagnostic = diagnostic.help(format!("there are {}", self.match_kinds.join(", ")));
            }
            self.report(diagnostic);
        }
        if !expr.ty.is_scalar() && !expr.ty.is_poison() {
            let message = format!(
                "a key is a number, bool, enum or error, not `{}`",
                self.show(&expr.ty)
            );
            self.error("bad-key-type", expr.span, message);
            expr = Expr::poison(expr.span);
        }
        let annotations = self.annotations(&element.annotations);
        let name = annotations::string(&annotations, "name")
            .or_else(|| written_name(&element.expr, Some(&expr)));
        Key {
            expr,
            match_kind: kind.text.clone(),
            name,
            annotations,
        }
    }

    /// The action that an expression names; what is no action is reported.
    fn action_named(&mut self, expr: &ast::Expr) -> Option<usize> {
        let Ast::Name { name, global } = &expr.kind else {
            let message = "an action name is expected here";
            self.error("unknown-action", expr.span, message);
            return None;
        };
        match self.resolve(name, *global, "action")? {
            Entity::Action(id) => Some(id),
            other => {
                let message = format!("`{}` is {}, not an action", name.text, other.kind());
                self.error("unknown-action", expr.span, message);
                None
            }
        }
    }

    fn action_ref(&mut self, reference: &ast::ActionReference) -> Option<ActionRef> {
        let (callee, args): (_, &[ast::Arg]) = match &reference.expr.kind {
            Ast::Call { callee, args, .. } => (&**callee, args),
            _ => (&reference.expr, &[]),
        };
        let action = self.action_named(callee)?;
        let signature = self.action_signature(action);
        let directional = signature.params.iter();
        let directional = directional.filter(|p| p.direction != Direction::None);
        let order = written_order(directional, args);
        let (args, _) = self.arguments(
            &signature,
            &[],
            args,
            ArgumentRule::Directional,
            reference.expr.span,
        )?;
        Some(ActionRef {
            action,
            args,
            order,
            annotations: self.annotations(&reference.annotations),
            span: reference.expr.span,
        })
    }

    pub(super) fn action_signature(&self, action: ActionId) -> Signature {
        let action = &self.program.actions[action];
        Signature::of(&action.name, action.params.clone(), action.span)
    }

    /// An action with the data the control plane would give it: default actions and entries.
    fn action_call(&mut self, table: &Table, expr: &ast::Expr) -> Option<ActionCall> {
        let (callee, args): (_, &[ast::Arg]) = match &expr.kind {
            Ast::Call { callee, args, .. } => (&**callee, args),
            _ => (expr, &[]),
        };
        let action = self.action_named(callee)?;
        let Some(action_ref) = table.actions.iter().position(|r| r.action == action) else {
            let message = format!(
                "action `{}` is not in the list of actions of table `{}`",
                self.program.actions[action].name, table.name
            );
            let help = "add it to `actions = { ... }`";
            self.error_with_help("unknown-action", expr.span, message, help);
            return None;
        };
        let mut signature = self.action_signature(action);
        let all = signature.params.len();
        signature.params.retain(|p| p.direction == Direction::None);
        // The directional arguments may be repeated in front; they must be those of the list.
        let bound = all - signature.params.len();
        let data = if args.len() == all && bound > 0 {
            self.repeated_arguments(&table.actions[action_ref], &args[..bound]);
            &args[bound..]
        } else {
            args
        };
        let (data, _) = self.arguments(&signature, &[], data, ArgumentRule::All, expr.span)?;
        for value in &data {
            self.check_constant(value);
        }
        Some(ActionCall { action_ref, data })
    }

    /// Arguments of a default action or entry that the list of actions binds already.
    fn repeated_arguments(&mut self, reference: &ActionRef, repeated: &[ast::Arg]) {
        for (bound, repeated) in reference.args.iter().zip(repeated) {
            let again = self.expr_of(&repeated.value, &bound.ty);
            bound_arguments::check(bound, &again, repeated.value.span, self.diagnostics);
        }
    }

    /// The value of the property `size`: a number, which may be a constructor parameter of the control around it.
    pub(super) fn size_property(&mut self, value: &ast::Expr) -> Option<Expr> {
        let size = self.expr(value);
        match size.ty.stored() {
            Type::Poison => None,
            Type::Int | Type::Bits { .. } if is_known(&size) => Some(size),
            _ => {
                let message = "an integer known at compile time is needed here";
                self.error("not-constant", value.span, message);
                None
            }
        }
    }

    fn check_constant(&self, value: &Expr) {
        if !is_known(value) {
            let message = "action data must be known at compile time";
            self.error("not-constant", value.span, message);
        }
    }

    /// A table without default action does nothing on a miss (specification, section 14.2.1.3).
    fn add_no_action(&mut self, table: &mut Table) {
        let Some(Entity::Action(no_action)) = self.lookup("NoAction", true) else {
            return;
        };
        let found = table.actions.iter().position(|r| r.action == no_action);
        let action_ref = found.unwrap_or_else(|| {
            table.actions.push(ActionRef {
                action: no_action,
                args: Vec::new(),
                order: Vec::new(),
                annotations: default_only(table.span),
                span: table.span,
            });
            table.actions.len() - 1
        });
        table.default_action = Some(ActionCall {
            action_ref,
            data: Vec::new(),
        });
    }

    fn entry(&mut self, table: &Table, entry: &ast::Entry, all_const: bool) -> Option<Entry> {
        let keys: Vec<Type> = table.key.iter().map(|k| k.expr.ty.clone()).collect();
        let keyset = self.keyset(&entry.keyset, &keys, entry.span)?;
        let lpm = table
            .key
            .iter()
            .zip(&entry.keyset)
            .filter(|(k, _)| k.match_kind == "lpm");
        lpm.for_each(|(_, set)| self.check_prefix(set));
        let action = self.action_call(table, &entry.action)?;
        let annotations = self.annotations(&entry.annotations);
        let priority = match &entry.priority {
            Some(priority) => Some(Priority::Table(self.entry_priority(priority)?)),
            None => annotations::number(&annotations, "priority").map(Priority::Bmv2),
        };
        Some(Entry {
            keyset,
            action,
            priority,
            is_const: all_const || entry.is_const,
            span: entry.span,
        })
    }

    /// A priority that P4Runtime and BMv2 can give an entry.
    fn entry_priority(&mut self, priority: &ast::Expr) -> Option<u64> {
        let number = self.constant_int(priority)?;
        let found = number.to_u64().filter(|n| *n <= i32::MAX as u64);
        if found.is_none() {
            let message = format!("the priority {number} is not between 0 and {}", i32::MAX);
            self.error("bad-priority", priority.span, message);
        }
        found
    }

    /// Warns of a quotient of two numbers that is meant as a prefix.
    fn check_prefix(&self, set: &ast::Expr) {
        if let Ast::Binary(ast::BinaryOp::Div, _, length) = &set.kind
            && matches!(length.kind, Ast::Number { .. })
        {
            let message = "this is a quotient, which matches one value, not a prefix";
            self.report(
                Diagnostic::warning("mismatch", set.span, message)
                    .help("a prefix is a value and a mask: `0x0a000000 &&& 0xff000000`"),
            );
        }
    }

    /// The sets of one select case or table entry, one for each key.
    pub(super) fn keyset(
        &mut self,
        sets: &[ast::Expr],
        keys: &[Type],
        span: Span,
    ) -> Option<Vec<Expr>> {
        // A lone `default` or `_` covers all keys.
        if let [set] = sets
            && matches!(set.kind, Ast::Default | Ast::DontCare)
        {
            return Some(keys.iter().map(|k| any_value(k, set.span)).collect());
        }
        // A struct constant or tuple may give all keys at once.
        if sets.len() == 1
            && keys.len() > 1
            && let Ast::List { items, .. } = &sets[0].kind
        {
            return self.keyset(items, keys, span);
        }
        // `{ x }` is a tuple with one member, and stands for it.
        if let ([set], [key]) = (sets, keys)
            && key.is_scalar()
            && let Ast::List { items, .. } = &set.kind
            && items.len() == 1
        {
            return self.keyset(items, keys, span);
        }
        // A value set gives all keys.
        if let [set] = sets
            && let Ast::Name { name, global } = &set.kind
            && let Some(Entity::ValueSet(_)) = self.lookup(&name.text, *global)
        {
            let set = self.expr(set);
            return self.is_of_keys(&set, keys).then(|| vec![set]);
        }
        if sets.len() != keys.len() {
            let message = format!(
                "there are {} keys, but {} values here",
                keys.len(),
                sets.len()
            );
            self.error("keyset-count", span, message);
            return None;
        }
        Some(
            sets.iter()
                .zip(keys)
                .map(|(set, key)| self.key_set(set, key))
                .collect(),
        )
    }

    fn key_set(&mut self, set: &ast::Expr, key: &Type) -> Expr {
        let span = set.span;
        let (kind, a, b): (fn(_, _) -> _, _, _) = match &set.kind {
            Ast::Default | Ast::DontCare => return any_value(key, span),
            Ast::Mask(value, mask) => (ExprKind::Mask, value, mask),
            Ast::Range(low, high) => (ExprKind::Range, low, high),
            _ => {
                let value = self.expr(set);
                if matches!(value.kind, ExprKind::ValueSet(_)) {
                    return value;
                }
                return self.coerce_compared(value, key);
            }
        };
        // `1 &&& 2` of a serializable enum is written in numbers.
        let stored = match key {
            Type::Enum(_) => key.stored().clone(),
            _ => key.clone(),
        };
        let (a, b) = (self.expr_of(a, &stored), self.expr_of(b, &stored));
        Expr::new(kind(Box::new(a), Box::new(b)), key.clone(), span)
    }
}

fn any_value(ty: &Type, span: Span) -> Expr {
    Expr::new(ExprKind::Default, ty.clone(), span)
}

fn default_only(span: Span) -> Vec<Annotation> {
    vec![Annotation::new("defaultonly", Vec::new(), span)]
}
