//! How keys without `@name` are called.

use num_bigint::BigInt;

use crate::annotations;
use crate::ast::{self, ExprKind as Ast};
use crate::ir::{Callee, Expr, ExprKind};
use crate::types::Type;

/// The control-plane name of a key that has no `@name`: its source text, for simple expressions
/// (specification, section 18.3.2). `checked` knows fields whose own `@name` stands for them; one that
/// starts with a dot stands for all before it too.
pub(super) fn written_name(expr: &ast::Expr, checked: Option<&Expr>) -> Option<String> {
    let inner = |select: fn(&ExprKind) -> Option<&Expr>| checked.and_then(|c| select(&c.kind));
    match &expr.kind {
        Ast::Name { name, .. } => Some(name.text.clone()),
        Ast::Member(base, name) => {
            let of = inner(|kind| match kind {
                ExprKind::Field(base, _) => Some(base),
                _ => None,
            });
            let renamed = of.and_then(|of| match &of.ty {
                Type::Struct(s) => {
                    let field = s.fields.iter().find(|f| f.name == name.text)?;
                    annotations::string(&field.annotations, "name")
                }
                _ => None,
            });
            let own = renamed.as_deref().unwrap_or(&name.text);
            match own.strip_prefix('.') {
                Some(absolute) => Some(absolute.to_owned()),
                None => Some(format!("{}.{own}", written_name(base, of)?)),
            }
        }
        Ast::Index(base, index) => {
            let of = inner(|kind| match kind {
                ExprKind::Index(base, _) => Some(base),
                _ => None,
            });
            let index = number(index).or_else(|| written_name(index, None))?;
            Some(format!("{}[{index}]", written_name(base, of)?))
        }
        Ast::Slice { base, high, low } => {
            let of = inner(|kind| match kind {
                ExprKind::Slice { base, .. } => Some(base),
                _ => None,
            });
            let base = written_name(base, of)?;
            Some(format!("{base}[{}:{}]", number(high)?, number(low)?))
        }
        Ast::SliceFrom { base, low, width } => {
            let (low, width) = (literal(low)?, literal(width)?);
            let of = inner(|kind| match kind {
                ExprKind::Slice { base, .. } => Some(base),
                _ => None,
            });
            let base = written_name(base, of)?;
            Some(format!("{base}[{}:{low}]", low + width - 1u32))
        }
        Ast::Call { callee, args, .. } => match &callee.kind {
            Ast::Member(base, method) if method.text == "isValid" && args.is_empty() => {
                let of = inner(|kind| match kind {
                    ExprKind::Call(call) => match &call.callee {
                        Callee::IsValid(header) => Some(header),
                        _ => None,
                    },
                    _ => None,
                });
                Some(format!("{}.$valid$", written_name(base, of)?))
            }
            _ => None,
        },
        Ast::Binary(ast::BinaryOp::BitAnd, left, right) => {
            let of = inner(|kind| match kind {
                ExprKind::Binary(_, left, _) => Some(left),
                _ => None,
            });
            Some(format!("{} & {}", written_name(left, of)?, number(right)?))
        }
        _ => None,
    }
}

fn literal(expr: &ast::Expr) -> Option<&BigInt> {
    match &expr.kind {
        Ast::Number { value, .. } => Some(value),
        _ => None,
    }
}

/// A number in the base that it is written in, but without width and leading zeros, as p4c has it.
fn number(expr: &ast::Expr) -> Option<String> {
    match &expr.kind {
        Ast::Number { value, radix, .. } => {
            let prefix = match radix {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            Some(format!("{prefix}{}", value.to_str_radix(*radix)))
        }
        _ => None,
    }
}
