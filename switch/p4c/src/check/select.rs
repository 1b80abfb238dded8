//! `select` on tuples and structs: they are looked at member by member (specification, section 13.6).
//!
//! ```text
//! select(s)  { {1, 2}: a;  {y = 4, x = 3}: b; }     // struct S { bit<8> x; bit<8> y; } s;
//!     ==>  select(s.x, s.y)  { (1, 2): a;  (3, 4): b; }
//! ```

use num_bigint::BigInt;

use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostics::Diagnostic;
use crate::ir::Expr;
use crate::types::{StructKind, Type};

/// A member of a tuple or struct.
struct Part {
    index: usize,
    /// The name of the field; none for a member of a tuple.
    field: Option<String>,
    ty: Type,
}

/// The members of a tuple or struct; none if the type has no members to look at.
fn parts(ty: &Type) -> Option<Vec<Part>> {
    let (fields, types): (Vec<_>, Vec<_>) = match ty {
        Type::Tuple(types) => types.iter().map(|t| (None, t.clone())).unzip(),
        Type::Struct(s) if s.kind == StructKind::Struct && !s.fields.is_empty() => s
            .fields
            .iter()
            .map(|f| (Some(f.name.clone()), f.ty.clone()))
            .unzip(),
        _ => return None,
    };
    let all = fields.into_iter().zip(types).enumerate();
    Some(
        all.map(|(index, (field, ty))| Part { index, field, ty })
            .collect(),
    )
}

impl Checker<'_> {
    /// The keys, with the members of tuples and structs in their place, and the types of the expressions that are
    /// written.
    pub(super) fn select_keys(&mut self, written: &[ast::Expr]) -> (Vec<Expr>, Vec<Type>) {
        let (mut keys, mut types) = (Vec::new(), Vec::new());
        for expr in written {
            let key = self.expr(expr);
            types.push(key.ty.clone());
            self.add_key(expr, key, &mut keys);
        }
        (keys, types)
    }

    fn add_key(&mut self, written: &ast::Expr, key: Expr, keys: &mut Vec<Expr>) {
        if let Some(parts) = parts(&key.ty) {
            // Each member is looked at by itself, so that what is called would be called for each.
            let is_written_out = matches!(written.kind, Ast::List { .. } | Ast::Record { .. });
            if is_call(written) || (!is_written_out && key.has_effects()) {
                let what = match key.ty {
                    Type::Tuple(_) => "tuple",
                    _ => "struct",
                };
                let message = format!("select cannot look at a call's {what}");
                let help = "assign it to a variable, and give that to `select`";
                self.error_with_help("bad-key-type", key.span, message, help);
                keys.extend(vec![Expr::poison(key.span); leaves(&key.ty)]);
                return;
            }
            for part in parts {
                let written = member(written, &part);
                let key = self.expr(&written);
                self.add_key(&written, key, keys);
            }
            return;
        }
        if !key.ty.is_scalar() && !key.ty.is_poison() {
            let message = format!("select cannot look at `{}`", self.show(&key.ty));
            let mut diagnostic = Diagnostic::error("bad-key-type", key.span, message);
            diagnostic = match &key.ty {
                Type::Int => diagnostic.help("give the number a width, such as 8w1"),
                Type::Struct(s) if !s.fields.is_empty() => {
                    let fields: Vec<&str> = s.fields.iter().map(|f| f.name.as_str()).collect();
                    diagnostic.help(format!("give its fields one by one: {}", fields.join(", ")))
                }
                _ => diagnostic,
            };
            self.report(diagnostic);
        }
        keys.push(key);
    }

    /// The sets of a case for keys of these types, with the members of tuples and structs in their place. A wrong
    /// number of sets is left as it is, for `keyset` to report.
    pub(super) fn select_sets(&mut self, sets: &[ast::Expr], keys: &[Type]) -> Vec<ast::Expr> {
        let has_parts = keys.iter().any(|k| parts(k).is_some());
        if !has_parts || self.covers_all(sets) {
            return sets.to_vec();
        }
        // `(a, b)` may be two sets or one of a tuple or struct.
        if let [key] = keys
            && let Some(parts) = parts(key)
            && sets.len() == parts.len()
            && sets.len() > 1
        {
            let types: Vec<Type> = parts.into_iter().map(|p| p.ty).collect();
            return self.select_sets(sets, &types);
        }
        if sets.len() != keys.len() {
            return sets.to_vec();
        }
        let mut out = Vec::new();
        for (set, key) in sets.iter().zip(keys) {
            let Some(parts) = parts(key) else {
                out.push(set.clone());
                continue;
            };
            let any = matches!(set.kind, Ast::Default | Ast::DontCare);
            if any || !self.check_set(set, key, &parts) {
                // A lone `_` would be taken for all keys.
                let any = ast::Expr {
                    kind: Ast::DontCare,
                    span: set.span,
                };
                out.extend(vec![any; leaves(key)]);
                continue;
            }
            let types: Vec<Type> = parts.iter().map(|p| p.ty.clone()).collect();
            let members: Vec<ast::Expr> = parts.iter().map(|p| member(set, p)).collect();
            out.extend(self.select_sets(&members, &types));
        }
        out
    }

    /// Whether a set has these parts; one that has others is reported.
    fn check_set(&mut self, set: &ast::Expr, key: &Type, parts: &[Part]) -> bool {
        let shown = self.show(key);
        match &set.kind {
            Ast::List { items, rest } if *rest || items.len() != parts.len() => {
                let message = format!(
                    "`{shown}` has {} members, but {} values here",
                    parts.len(),
                    items.len()
                );
                self.error("keyset-count", set.span, message);
                false
            }
            Ast::Record { fields, .. } => {
                let names: Vec<&str> = parts.iter().filter_map(|p| p.field.as_deref()).collect();
                if let Some((name, _)) = fields.iter().find(|(n, _)| !names.contains(&&*n.text)) {
                    let message = format!("`{shown}` has no field `{}`", name.text);
                    self.unknown("unknown-field", name, message, names);
                    return false;
                }
                let given = |name: &str| fields.iter().any(|(n, _)| n.text == name);
                if let Some(name) = names.into_iter().find(|n| !given(n)) {
                    let message = format!("field `{name}` of `{shown}` has no value");
                    let help = format!("any value will do: `{name} = _`");
                    self.error_with_help("missing-field", set.span, message, help);
                    return false;
                }
                true
            }
            Ast::List { .. } => true,
            Ast::Mask(..) | Ast::Range(..) => {
                let message = format!("masks and ranges are of numbers, the key is `{shown}`");
                let help = "give its members to `select` one by one: each takes a mask or range";
                self.error_with_help("misplaced-set", set.span, message, help);
                false
            }
            _ => {
                let value = self.expr(set);
                !self.coerce(value, key).ty.is_poison()
            }
        }
    }

    /// Whether elements of a value set are values of all keys; a set of others is reported.
    pub(super) fn is_of_keys(&self, set: &Expr, keys: &[Type]) -> bool {
        let mut types = Vec::new();
        add_leaves(&set.ty, &mut types);
        let is_right = |(ty, key): (&Type, &Type)| {
            ty.stored() == key.stored() || ty.is_poison() || key.is_poison()
        };
        if types.len() == keys.len() && types.iter().zip(keys).all(is_right) {
            return true;
        }
        let shown: Vec<String> = keys.iter().map(|key| self.show(key)).collect();
        let message = format!(
            "the value set has elements of `{}`, the keys are `{}`",
            self.show(&set.ty),
            shown.join(", ")
        );
        self.error("type-mismatch", set.span, message);
        false
    }

    /// Whether the sets are a single `default`, `_` or value set, which stands for all keys.
    fn covers_all(&self, sets: &[ast::Expr]) -> bool {
        let [set] = sets else { return false };
        match &set.kind {
            Ast::Default | Ast::DontCare => true,
            Ast::Name { name, global } => {
                matches!(self.lookup(&name.text, *global), Some(Entity::ValueSet(_)))
            }
            _ => false,
        }
    }
}

fn is_call(expr: &ast::Expr) -> bool {
    match &expr.kind {
        Ast::Call { .. } => true,
        Ast::Index(base, _) | Ast::Member(base, _) | Ast::Cast(_, base) => is_call(base),
        _ => false,
    }
}

/// How many keys a value of a type becomes.
fn leaves(ty: &Type) -> usize {
    let mut types = Vec::new();
    add_leaves(ty, &mut types);
    types.len()
}

/// Adds the types of the keys that a value of a type becomes.
fn add_leaves(ty: &Type, types: &mut Vec<Type>) {
    match parts(ty) {
        Some(parts) => parts.iter().for_each(|part| add_leaves(&part.ty, types)),
        None => types.push(ty.clone()),
    }
}

/// The expression for a member: `tuple[i]` or `struct.field`, or what a list or record that is written out has there.
fn member(whole: &ast::Expr, part: &Part) -> ast::Expr {
    let span = whole.span;
    match (&whole.kind, &part.field) {
        (Ast::List { items, .. }, _) if part.index < items.len() => items[part.index].clone(),
        (Ast::Record { fields, .. }, Some(name))
            if let Some((_, value)) = fields.iter().find(|(n, _)| n.text == *name) =>
        {
            value.clone()
        }
        (_, Some(name)) => ast::Expr {
            kind: Ast::Member(
                Box::new(whole.clone()),
                ast::Ident {
                    text: name.clone(),
                    span,
                },
            ),
            span,
        },
        (_, None) => {
            let number = ast::Expr {
                kind: Ast::Number {
                    value: BigInt::from(part.index),
                    width: None,
                    radix: 10,
                },
                span,
            };
            ast::Expr {
                kind: Ast::Index(Box::new(whole.clone()), Box::new(number)),
                span,
            }
        }
    }
}
