//! How keys without `@name` are called.

use num_bigint::BigInt;

use crate::annotations;
use crate::ast::{self, ExprKind as Ast};
use crate::ir::{Callee, Expr, ExprKind};
use crate::lex::radix_prefix;
use crate::types::Type;

/// The control-plane name of a key that has no `@name`: its source text, for simple expressions
/// (specification, section 18.3.2). `checked` knows fields whose own `@name` stands for them; one that
/// starts with a dot stands for all before it too.
pub(super) fn written_name(expr: &ast::Expr, checked: Option<&Expr>) -> Option<String> {
    let of = checked.and_then(base);
    match &expr.kind {
        Ast::Name { name, .. } => Some(name.text.clone()),
        Ast::Number { .. } => number(expr),
        Ast::Member(base, name) => {
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
            let index = written_name(index, None)?;
            Some(format!("{}[{index}]", written_name(base, of)?))
        }
        Ast::Slice { base, high, low } => {
            let base = written_name(base, of)?;
            Some(format!("{base}[{}:{}]", number(high)?, number(low)?))
        }
        Ast::SliceFrom { base, low, width } => {
            let (low, width) = (literal(low)?, literal(width)?);
            let base = written_name(base, of)?;
            Some(format!("{base}[{}:{low}]", low + width - 1u32))
        }
        Ast::Call { callee, args, .. } => match &callee.kind {
            Ast::Member(base, method) if method.text == "isValid" && args.is_empty() => {
                Some(format!("{}.$valid$", written_name(base, of)?))
            }
            _ => None,
        },
        Ast::Binary(ast::BinaryOp::BitAnd, left, right) => {
            Some(format!("{} & {}", written_name(left, of)?, number(right)?))
        }
        _ => None,
    }
}

/// The operand of a field, index, slice or `isValid()`, or the first operand of an expression.
fn base(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::Slice { base, .. }
        | ExprKind::Binary(_, base, _) => Some(base),
        ExprKind::Call(call) => match &call.callee {
            Callee::IsValid(header) => Some(header),
            _ => None,
        },
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
            let (prefix, digits) = (radix_prefix(*radix), value.to_str_radix(*radix));
            Some(format!("{prefix}{digits}"))
        }
        _ => None,
    }
}
