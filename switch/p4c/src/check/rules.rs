//! Rules of the language that neither grammar nor types express.

use super::{Checker, Entity, Place};
use crate::annotations;
use crate::ast::{self, Direction};
use crate::diagnostics::Diagnostic;
use crate::ir::{
    ActionRef, Callee, Constructed, Expr, ExprKind, Param, Priority, Signature, State, Table,
    Target, Transition, same,
};
use crate::source::Span;
use crate::types::{StructKind, Type};

impl Checker<'_> {
    /// `extract` fills headers, the form with two arguments those with a varbit, `lookahead` anything of
    /// fixed size; `verify` belongs in parsers.
    pub(super) fn check_packet_call(
        &self,
        callee: &Callee,
        name: &str,
        type_args: &[Type],
        args: &[Expr],
        span: Span,
    ) {
        match callee {
            Callee::ExternFunction(_) if name == "verify" && self.place != Place::ParserState => {
                self.report(
                    Diagnostic::error(
                        "misplaced-call",
                        span,
                        "`verify` is only allowed in parsers",
                    )
                    .help("in a control, use `if` and `exit`, or `assert`"),
                );
            }
            Callee::Method { extern_type, .. }
                if self.program.externs[*extern_type].name == "packet_in" =>
            {
                match (name, args) {
                    ("extract", [header, ..]) => self.check_extract(header, args.len() > 1),
                    ("lookahead", _) => self.check_lookahead(type_args.first(), span),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn check_extract(&self, header: &Expr, with_size: bool) {
        let Type::Struct(ty) = header.ty.stored() else {
            if !matches!(header.ty, Type::Poison | Type::DontCare | Type::Var(_)) {
                let message = format!(
                    "only headers are extracted, not `{}`",
                    self.show(&header.ty)
                );
                self.error("bad-extract", header.span, message);
            }
            return;
        };
        if ty.kind != StructKind::Header {
            let message = format!(
                "only headers are extracted, not `{}`",
                self.show(&header.ty)
            );
            self.report(
                Diagnostic::error("bad-extract", header.span, message)
                    .help("extract its headers one by one"),
            );
            return;
        }
        let varbits = ty.fields.iter().filter(|f| is_varbit(&f.ty)).count();
        if varbits > 1 {
            let message = format!("header `{}` has {varbits} varbit fields", ty.name);
            self.report(
                Diagnostic::error("bad-extract", header.span, message)
                    .help("one length is given, so there may be one such field"),
            );
            return;
        }
        let has_varbit = varbits > 0;
        if has_varbit != with_size {
            let (problem, help) = match with_size {
                true => ("has no varbit field", "leave the second argument out"),
                false => (
                    "has a varbit field",
                    "give its length in bits as a second argument",
                ),
            };
            let message = format!("header `{}` {problem}", ty.name);
            self.report(Diagnostic::error("bad-extract", header.span, message).help(help));
        }
    }

    fn check_lookahead(&self, ty: Option<&Type>, span: Span) {
        let Some(ty) = ty else { return };
        if !has_fixed_size(ty) {
            let message = format!("`{}` has no fixed size to look ahead for", self.show(ty));
            self.error("bad-extract", span, message);
        }
    }

    /// `next`, `last` and `lastIndex` follow the parser's extractions.
    pub(super) fn is_misplaced(&self, member: &str, span: Span) -> bool {
        let misplaced = matches!(self.place, Place::Control | Place::Action);
        if misplaced {
            let message = format!("`{member}` of a header stack is only known in a parser");
            self.report(
                Diagnostic::error("misplaced-member", span, message)
                    .help("use an index: `stack[0]` is the first header"),
            );
        }
        misplaced
    }

    /// An argument that is written back has to be given.
    pub(super) fn check_default(&self, param: &Param) {
        if param.default.is_some() && matches!(param.direction, Direction::Out | Direction::InOut) {
            let message = format!(
                "parameter `{}` is written, so it has no default value",
                param.name
            );
            self.error("bad-default", param.span, message);
        }
    }

    pub(super) fn check_action_param(&self, param: &Param) {
        if matches!(
            param.ty,
            Type::Int | Type::String | Type::Extern(..) | Type::Block(..) | Type::MatchKind
        ) {
            let message = format!(
                "an action has no parameter of type `{}`",
                self.show(&param.ty)
            );
            self.error("bad-parameter-type", param.span, message);
        }
    }

    /// Functions of one name differ in number or names of their parameters (specification, section 6.8).
    pub(super) fn check_overload(&self, new: &Signature) {
        let Some(Entity::Functions(all)) = self.lookup(&new.name, true) else {
            return;
        };
        let names = |s: &Signature| s.params.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        let before = all.iter().map(|id| &self.program.functions[*id].signature);
        if let Some(first) = before.into_iter().find(|s| names(s) == names(new)) {
            let message = format!(
                "function `{}` with these parameters is declared twice",
                new.name
            );
            self.report(
                Diagnostic::error("duplicate-name", new.span, message)
                    .label("second declaration")
                    .note(first.span, "first declaration")
                    .help("functions of one name differ in number or names of their parameters"),
            );
        }
    }

    /// A property of a table is given once.
    pub(super) fn check_properties(&self, properties: &[ast::TableProperty]) {
        for (i, property) in properties.iter().enumerate() {
            let name = &property.name;
            let mut before = properties[..i].iter().map(|p| &p.name);
            if let Some(first) = before.find(|n| n.text == name.text) {
                let message = format!("the table has `{}` already", name.text);
                self.report(
                    Diagnostic::error("duplicate-name", name.span, message)
                        .note(first.span, "first given here")
                        .help("put both into one"),
                );
            }
        }
    }

    pub(super) fn check_state_name(&self, name: &ast::Ident) {
        if matches!(name.text.as_str(), "accept" | "reject") {
            let message = format!("state `{}` is there already", name.text);
            self.report(
                Diagnostic::error("duplicate-name", name.span, message)
                    .help("give this one another name; `accept` and `reject` end the parser"),
            );
        }
    }

    /// From `start`, the first state, there is a way to an end.
    pub(super) fn check_ends(&self, parser: &ast::Ident, states: &[State]) {
        let mut seen = vec![false; states.len()];
        let mut waiting = vec![0];
        while let Some(at) = waiting.pop() {
            let Some(state) = states.get(at) else {
                continue;
            };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let targets: Vec<Target> = match &state.transition {
                Transition::Direct(target) => vec![*target],
                // What no case covers is rejected.
                Transition::Select { cases, .. } => {
                    let all = |e: &Expr| matches!(e.kind, ExprKind::Default);
                    if !cases.iter().any(|c| c.keyset.iter().all(all)) {
                        return;
                    }
                    cases.iter().map(|c| c.target).collect()
                }
            };
            for target in targets {
                match target {
                    Target::Accept | Target::Reject => return,
                    Target::State(next) => waiting.push(next),
                }
            }
        }
        let message = format!("parser `{}` never ends", parser.text);
        self.report(
            Diagnostic::error("endless-parser", parser.span, message)
                .help("some state has to go to `accept` or `reject`"),
        );
    }

    /// Controls and parsers are instantiated where they are used.
    pub(super) fn check_top_level(&self, what: Constructed, span: Span) {
        let kind = match what {
            Constructed::Control(_) => "control",
            Constructed::Parser(_) => "parser",
            _ => return,
        };
        if self.place == Place::TopLevel && self.scopes.len() == 1 {
            let message = format!("a {kind} is not instantiated at the top level");
            self.report(
                Diagnostic::error("misplaced-instance", span, message)
                    .help("do it inside of another one, or in the arguments of the package"),
            );
        }
    }

    /// `default` comes last in a `switch`, and no label twice.
    pub(super) fn check_labels<T: PartialEq>(&self, labels: &[(Option<T>, Span)]) {
        for (i, (label, span)) in labels.iter().enumerate() {
            let before = labels[..i].iter().find(|(l, _)| l == label);
            if let Some((_, first)) = before {
                self.report(
                    Diagnostic::error("bad-label", *span, "this label was given before")
                        .note(*first, "here"),
                );
            } else if label.is_none() && i + 1 < labels.len() {
                self.error("bad-label", *span, "`default` must be the last label");
            }
        }
    }

    /// Arguments that the list of actions binds may be repeated, but not changed.
    pub(super) fn check_bound(&mut self, reference: &ActionRef, repeated: &[ast::Arg]) {
        for (bound, repeated) in reference.args.iter().zip(repeated) {
            let again = self.expr(&repeated.value);
            let again = self.coerce(again, &bound.ty);
            // Whether two calls give the same is not known here.
            let known = is_plain(bound) && is_plain(&again);
            if known && !same(bound, &again) {
                self.report(
                    Diagnostic::error(
                        "bad-bound-argument",
                        repeated.value.span,
                        "the list of actions binds another argument",
                    )
                    .note(bound.span, "this one")
                    .help("give the same one, or leave it out"),
                );
            }
        }
    }

    /// What is passed with a direction is a value.
    pub(super) fn check_direction(&self, param: &Param) {
        if param.direction != Direction::None
            && matches!(param.ty, Type::Extern(..) | Type::Block(..) | Type::String)
        {
            let message = format!(
                "a parameter of type `{}` has no direction",
                self.show(&param.ty)
            );
            self.report(
                Diagnostic::error("bad-parameter-type", param.span, message)
                    .help("leave `in`, `out` or `inout` out"),
            );
        }
    }

    /// `type` makes a new one of a number, a bool or another `type`.
    pub(super) fn check_new_type(&self, underlying: &Type, span: Span) {
        let fits = match underlying {
            Type::Poison | Type::Bits { .. } | Type::Bool | Type::New(_) => true,
            Type::Enum(e) => e.underlying.is_some(),
            _ => false,
        };
        if !fits {
            let message = format!("`type` cannot rename a `{}`", self.show(underlying));
            self.report(
                Diagnostic::error("bad-new-type", span, message)
                    .help("it makes a type of its own of bit<W>, int<W>, bool; use `typedef`"),
            );
        }
    }

    pub(super) fn check_actions(&self, table: &Table) {
        for (i, reference) in table.actions.iter().enumerate() {
            let before = &table.actions[..i];
            if let Some(first) = before.iter().find(|r| r.action == reference.action) {
                let name = &self.program.actions[reference.action].name;
                let message = format!("action `{name}` is listed twice");
                self.report(
                    Diagnostic::error("duplicate-name", reference.span, message)
                        .note(first.span, "first here"),
                );
            }
        }
        let has = |index: usize, name| annotations::has(&table.actions[index].annotations, name);
        if let Some(call) = &table.default_action
            && has(call.action_ref, "tableonly")
        {
            let span = table.actions[call.action_ref].span;
            let message = "an action that is @tableonly is no default action";
            self.error("bad-action-scope", span, message);
        }
        for entry in &table.entries {
            if has(entry.action.action_ref, "defaultonly") {
                let message = "an action that is @defaultonly is in no entry";
                self.error("bad-action-scope", entry.span, message);
            }
        }
    }

    pub(super) fn check_entries(&self, table: &Table) {
        let Some(first) = table.entries.first() else {
            return;
        };
        if table.key.is_empty() {
            let message = format!("table `{}` has no key, so it has no entries", table.name);
            self.report(
                Diagnostic::error("bad-entries", first.span, message)
                    .help("set `default_action` instead"),
            );
            return;
        }
        let given = |p: &Option<Priority>| matches!(p, Some(Priority::Table(_)));
        let Some(with) = table.entries.iter().find(|e| given(&e.priority)) else {
            return;
        };
        let ordered = |k: &str| !matches!(k, "exact" | "lpm" | "selector");
        if !table.key.iter().any(|k| ordered(&k.match_kind)) {
            let message = "entries of a table with exact and lpm keys have no priorities";
            self.error("bad-priority", with.span, message);
        } else if !given(&first.priority) && first.priority.is_none() {
            self.report(
                Diagnostic::error(
                    "bad-priority",
                    first.span,
                    "the first entry needs a priority",
                )
                .help("the others count on from it"),
            );
        } else if table.largest_priority_wins {
            self.check_countdown(table);
        }
    }

    /// Entries without priority come `priority_delta` below the one before.
    fn check_countdown(&self, table: &Table) {
        let mut last: Option<u64> = None;
        for entry in &table.entries {
            last = match (entry.priority, last) {
                (Some(Priority::Table(number) | Priority::Bmv2(number)), _) => Some(number),
                (None, Some(before)) => match before.checked_sub(table.priority_delta) {
                    Some(number) => Some(number),
                    None => {
                        let message = format!(
                            "the priority of this entry would be {before} - {}, below 0",
                            table.priority_delta
                        );
                        self.report(
                            Diagnostic::error("bad-priority", entry.span, message)
                                .help("begin with a higher one, or lower `priority_delta`"),
                        );
                        return;
                    }
                },
                (None, None) => None,
            };
        }
    }

    /// A number of the control or parser around it may stand for a size.
    pub(super) fn size_property(&mut self, value: &ast::Expr) -> Option<Expr> {
        let size = self.expr(value);
        let known = size.as_int().is_some() || matches!(size.kind, ExprKind::Var(_));
        match size.ty.stored() {
            Type::Poison => None,
            Type::Int | Type::Bits { .. } if known => Some(size),
            _ => {
                let message = "an integer known at compile time is needed here";
                self.error("not-constant", value.span, message);
                None
            }
        }
    }
}

/// A type variable will be checked where it is known.
fn has_fixed_size(ty: &Type) -> bool {
    match ty.stored() {
        Type::Poison | Type::Var(_) => true,
        Type::Struct(s) if s.kind == StructKind::Union => false,
        Type::Struct(s) => s.fields.iter().all(|f| has_fixed_size(&f.ty)),
        Type::Tuple(items) => items.iter().all(has_fixed_size),
        Type::Stack(element, _) => has_fixed_size(element),
        // Enums and errors without representation have no bits that a packet could hold.
        ty => matches!(ty, Type::Bool | Type::Bits { .. }),
    }
}

fn is_varbit(ty: &Type) -> bool {
    matches!(ty.stored(), Type::Varbit(_))
}

/// A constant or a place.
fn is_plain(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Var(_) => true,
        ExprKind::Field(base, _) | ExprKind::Slice { base, .. } => is_plain(base),
        ExprKind::Index(base, index) => is_plain(base) && is_plain(index),
        _ => false,
    }
}
