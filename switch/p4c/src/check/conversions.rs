//! Implicit conversions: literals, other values of `int`, lists, records and serializable enums take the type that is
//! wanted (P4_16, section 8.11.2).

use super::Checker;
use super::expressions::anonymous_struct;
use crate::diagnostics::Diagnostic;
use crate::eval;
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::{StructKind, StructType, Type};

impl Checker<'_> {
    /// Converts `expr` to `target` if P4 does so by itself, and reports a mismatch otherwise.
    pub(super) fn coerce(&self, expr: Expr, target: &Type) -> Expr {
        let span = expr.span;
        let from = expr.ty.clone();
        match self.try_coerce(expr, target) {
            Some(converted) => converted,
            None => {
                let (want, have) = (self.show(target), self.show(&from));
                let message = format!("expected type `{want}`, found `{have}`");
                let mut diagnostic = Diagnostic::error("type-mismatch", span, message)
                    .label(format!("this is `{have}`"));
                if let Some(help) = conversion_help(&from, target, &want) {
                    diagnostic = diagnostic.help(help);
                }
                self.report(diagnostic);
                Expr::poison(span)
            }
        }
    }

    pub(super) fn try_coerce(&self, expr: Expr, target: &Type) -> Option<Expr> {
        if expr.ty == *target || expr.ty.is_poison() || matches!(target, Type::DontCare) {
            return Some(expr);
        }
        let span = expr.span;
        if target.is_poison() {
            return Some(Expr::poison(span));
        }
        let retyped = |expr: Expr| Expr {
            ty: target.clone(),
            ..expr
        };
        match (&expr.ty, target) {
            (Type::DontCare, _) => Some(retyped(expr)),
            (Type::Dots, _) => Some(Expr::new(ExprKind::DefaultValue, target.clone(), span)),
            (Type::InvalidHeader, Type::Struct(s)) if s.kind != StructKind::Struct => {
                Some(retyped(expr))
            }
            (Type::Int, Type::Bits { width, signed }) => {
                let Some(value) = expr.as_int() else {
                    return Some(expr.cast(target.clone()));
                };
                if !eval::fits(value, *width, *signed) {
                    let message = format!("{value} does not fit in `{target}`");
                    let wrapped = eval::wrap(value, *width, *signed);
                    self.report(
                        Diagnostic::warning("value-truncated", span, message)
                            .label(format!("becomes {wrapped}")),
                    );
                }
                Some(Expr::int(
                    eval::wrap(value, *width, *signed),
                    target.clone(),
                    span,
                ))
            }
            // A literal may stand for a `type` of a number, as with p4c.
            (Type::Int, Type::New(new)) => {
                let number = self.try_coerce(expr, &new.underlying)?;
                Some(Expr {
                    ty: target.clone(),
                    ..number
                })
            }
            // A serializable enum is also a number of its underlying type.
            (Type::Enum(e), _) if e.underlying.is_some() => {
                self.try_coerce(enum_to_number(expr), target)
            }
            (Type::Tuple(_) | Type::Struct(_), _) if matches!(expr.kind, ExprKind::List(_)) => {
                self.coerce_list(expr, target)
            }
            _ => None,
        }
    }

    /// Converts a value that is compared with one of type `other`, as a label is: beside what converts to an enum,
    /// there are the numbers that its members stand for.
    pub(super) fn coerce_compared(&self, expr: Expr, other: &Type) -> Expr {
        let is_number = matches!(other, Type::Enum(_)) && expr.ty != *other;
        if !is_number {
            return self.coerce(expr, other);
        }
        match self.coerce(expr, other.stored()) {
            failed if failed.ty.is_poison() => failed,
            number => Expr {
                ty: other.clone(),
                ..number
            },
        }
    }

    fn coerce_list(&self, expr: Expr, target: &Type) -> Option<Expr> {
        let (span, from) = (expr.span, expr.ty);
        let ExprKind::List(items) = expr.kind else {
            return None;
        };
        let items: Vec<Expr> = match (&from, target) {
            (Type::Struct(source), Type::Struct(s)) => {
                return self.coerce_record(source, items, s, target, span);
            }
            // Names belong to fields, of which a tuple has none.
            (Type::Struct(source), Type::Tuple(_)) if source.name.is_empty() => return None,
            (_, Type::Struct(s)) => {
                self.coerce_items(items, s.fields.iter().map(|f| &f.ty).collect(), span)?
            }
            (_, Type::Tuple(types)) => self.coerce_items(items, types.iter().collect(), span)?,
            (_, Type::Stack(element, size)) => {
                self.coerce_items(items, vec![element; *size as usize], span)?
            }
            (_, Type::List(element)) => {
                items.into_iter().map(|i| self.coerce(i, element)).collect()
            }
            _ => return None,
        };
        Some(Expr::new(ExprKind::List(items), target.clone(), span))
    }

    fn coerce_items(
        &self,
        mut items: Vec<Expr>,
        types: Vec<&Type>,
        span: Span,
    ) -> Option<Vec<Expr>> {
        // A final `...` stands for the default values of what is missing.
        if items.last().is_some_and(|i| matches!(i.ty, Type::Dots))
            && items.len() <= types.len() + 1
        {
            items.pop();
            while items.len() < types.len() {
                items.push(Expr::new(
                    ExprKind::DefaultValue,
                    types[items.len()].clone(),
                    span,
                ));
            }
        }
        if items.len() != types.len() {
            return None;
        }
        Some(
            items
                .into_iter()
                .zip(types)
                .map(|(i, t)| self.coerce(i, t))
                .collect(),
        )
    }

    fn coerce_record(
        &self,
        source: &StructType,
        items: Vec<Expr>,
        s: &StructType,
        target: &Type,
        span: Span,
    ) -> Option<Expr> {
        if !source.name.is_empty() {
            return None;
        }
        let has_rest = source.field("...").is_some();
        let named = source.fields.iter().filter(|f| f.name != "...");
        for field in named.clone() {
            if s.field(&field.name).is_none() {
                let message = format!("`{}` has no field `{}`", s.name, field.name);
                self.report(
                    Diagnostic::error("unknown-field", span, message)
                        .suggest(&field.name, s.fields.iter().map(|f| f.name.as_str())),
                );
                return Some(Expr::poison(span));
            }
        }
        let mut ordered = Vec::new();
        for field in &s.fields {
            let given = source.field(&field.name).map(|(i, _)| items[i].clone());
            match given {
                Some(value) => ordered.push(self.coerce(value, &field.ty)),
                None if has_rest => {
                    ordered.push(Expr::new(ExprKind::DefaultValue, field.ty.clone(), span))
                }
                None => {
                    let message = format!("field `{}` of `{}` has no value", field.name, s.name);
                    self.error("missing-field", span, message);
                    return Some(Expr::poison(span));
                }
            }
        }
        let indices = named.filter_map(|f| s.field(&f.name)).map(|(i, _)| i);
        let written: Vec<usize> = indices.collect();
        let value = match !written.is_sorted() && ordered.iter().any(Expr::has_effects) {
            true => as_written(&ordered, &written, s, span),
            false => return Some(Expr::new(ExprKind::List(ordered), target.clone(), span)),
        };
        Some(Expr::new(
            ExprKind::Cast(Box::new(value)),
            target.clone(),
            span,
        ))
    }
}

/// Serializable enums take part in operations as numbers.
pub(super) fn enum_to_number(expr: Expr) -> Expr {
    let Type::Enum(e) = expr.ty.clone() else {
        return expr;
    };
    match &e.underlying {
        Some((ty, _)) => expr.folded_cast(ty),
        None => expr,
    }
}

/// The values of a struct in the order in which a record has them, which is that of their evaluation: as a value of a
/// type without a name, whose fields are in this order.
fn as_written(values: &[Expr], written: &[usize], s: &StructType, span: Span) -> Expr {
    let fields = written.iter().map(|i| s.fields[*i].clone());
    let ty = anonymous_struct(fields.collect(), span);
    let values = written.iter().map(|i| values[*i].clone());
    Expr::new(ExprKind::List(values.collect()), ty, span)
}

/// `from` converts to `to` without a cast (literals, lists, serializable enums).
pub(super) fn convertible(from: &Type, to: &Type) -> bool {
    match (from, to) {
        _ if from == to => true,
        (Type::Int, Type::Bits { .. }) | (Type::Dots, _) => true,
        (Type::Int, Type::New(new)) => convertible(from, &new.underlying),
        (Type::InvalidHeader, Type::Struct(s)) => s.kind != StructKind::Struct,
        (Type::Enum(e), _) => e
            .underlying
            .as_ref()
            .is_some_and(|(underlying, _)| convertible(underlying, to)),
        (Type::Tuple(items), Type::Struct(s)) => {
            let rest = items.last().is_some_and(|t| matches!(t, Type::Dots));
            (items.len() == s.fields.len() || rest)
                && items
                    .iter()
                    .zip(&s.fields)
                    .all(|(i, f)| convertible(i, &f.ty))
        }
        (Type::Tuple(items), Type::Tuple(types)) => {
            items.len() == types.len()
                && items
                    .iter()
                    .zip(types.iter())
                    .all(|(i, t)| convertible(i, t))
        }
        (Type::Tuple(items), Type::List(element) | Type::Stack(element, _)) => {
            items.iter().all(|i| convertible(i, element))
        }
        (Type::Struct(source), Type::Struct(s)) => {
            source.name.is_empty()
                && source.fields.iter().all(|f| {
                    f.name == "..."
                        || s.field(&f.name)
                            .is_some_and(|(_, g)| convertible(&f.ty, &g.ty))
                })
        }
        _ => false,
    }
}

/// Conversion from one type to the other, as the user can write it.
fn conversion_help(from: &Type, to: &Type, shown: &str) -> Option<String> {
    if let (Some((a, s)), Some((b, t))) = (from.as_bits(), to.as_bits()) {
        return Some(match a == b || s == t {
            true => format!("cast it: `({shown}) ...`"),
            false => format!("cast in two steps, first the width, then the sign, to `{shown}`"),
        });
    }
    match (from.stored(), to.stored()) {
        (Type::Bool, Type::Bits { width: 1, .. }) => Some(format!("cast it: `({shown}) ...`")),
        (Type::Bool, Type::Bits { .. }) => Some(format!("cast to bit<1>, then to `{shown}`")),
        (Type::Void, Type::Bool) => {
            Some("`.apply().hit` tells whether a table had an entry".into())
        }
        (Type::Bits { .. } | Type::Int, Type::Bool) => {
            Some("compare it, for example with `!= 0`".into())
        }
        _ => None,
    }
}
