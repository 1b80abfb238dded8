//! `select` on tuples: they are looked at member by member (specification, section 13.6).

use num_bigint::BigInt;

use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostics::Diagnostic;
use crate::ir::Expr;
use crate::types::{StructKind, Type};

impl Checker<'_> {
    /// The keys, members in the place of tuples, and the types of what was written.
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
        if let Type::Tuple(members) = &key.ty {
            if is_call(written) {
                self.report(
                    Diagnostic::error(
                        "bad-key-type",
                        key.span,
                        "select cannot look at a call's tuple",
                    )
                    .help("assign it to a variable, and give that to `select`"),
                );
                keys.extend(vec![Expr::poison(key.span); leaves(&key.ty)]);
                return;
            }
            for i in 0..members.len() {
                let part = member(written, i);
                let key = self.expr(&part);
                self.add_key(&part, key, keys);
            }
            return;
        }
        if !key.ty.is_scalar() && !key.ty.is_poison() {
            let message = format!("select cannot look at `{}`", self.show(&key.ty));
            let mut diagnostic = Diagnostic::error("bad-key-type", key.span, message);
            diagnostic = match &key.ty {
                Type::Int => diagnostic.help("give the number a width, such as 8w1"),
                Type::Struct(s) if s.kind == StructKind::Struct && !s.fields.is_empty() => {
                    let fields: Vec<&str> = s.fields.iter().map(|f| f.name.as_str()).collect();
                    diagnostic.help(format!("give its fields one by one: {}", fields.join(", ")))
                }
                _ => diagnostic,
            };
            self.report(diagnostic);
        }
        keys.push(key);
    }

    /// The sets of a case for keys of these types, members in the place of tuples. What does not fit is left as it
    /// is, for `keyset` to report.
    pub(super) fn select_sets(&self, sets: &[ast::Expr], keys: &[Type]) -> Vec<ast::Expr> {
        let has_tuple = keys.iter().any(|k| matches!(k, Type::Tuple(_)));
        if !has_tuple || self.covers_all(sets) {
            return sets.to_vec();
        }
        // `(a, b)` may be two sets or one of a tuple.
        if let [Type::Tuple(members)] = keys
            && sets.len() == members.len()
            && sets.len() > 1
        {
            return self.select_sets(sets, members);
        }
        if sets.len() != keys.len() {
            return sets.to_vec();
        }
        let mut out = Vec::new();
        for (set, key) in sets.iter().zip(keys) {
            match (key, &set.kind) {
                (Type::Tuple(members), Ast::List { items, .. }) if items.len() != members.len() => {
                    return sets.to_vec();
                }
                (Type::Tuple(members), kind) => {
                    let any = matches!(kind, Ast::Default | Ast::DontCare);
                    let part = |i| if any { set.clone() } else { member(set, i) };
                    let parts: Vec<ast::Expr> = (0..members.len()).map(part).collect();
                    match any {
                        // A lone `_` would be taken for all keys.
                        true => out.extend(vec![set.clone(); leaves(key)]),
                        false => out.extend(self.select_sets(&parts, members)),
                    }
                }
                _ => out.push(set.clone()),
            }
        }
        out
    }

    /// A lone `default` or value set.
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
        Ast::Index(base, _) => is_call(base),
        _ => false,
    }
}

/// How many keys a type is.
fn leaves(ty: &Type) -> usize {
    match ty {
        Type::Tuple(members) => members.iter().map(leaves).sum(),
        _ => 1,
    }
}

fn member(tuple: &ast::Expr, i: usize) -> ast::Expr {
    if let Ast::List { items, .. } = &tuple.kind
        && let Some(item) = items.get(i)
    {
        return item.clone();
    }
    let span = tuple.span;
    let number = ast::Expr {
        kind: Ast::Number {
            value: BigInt::from(i),
            width: None,
            radix: 10,
        },
        span,
    };
    ast::Expr {
        kind: Ast::Index(Box::new(tuple.clone()), Box::new(number)),
        span,
    }
}
