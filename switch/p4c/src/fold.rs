//! Expressions made of others: computed at once where the operands are constants, as the specification asks
//! (P4_16, section 18.1: compile-time known values).

use num_traits::{Signed, Zero};

use crate::ast::{BinaryOp, UnaryOp};
use crate::eval::{self, EvalError, Value};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

impl Expr {
    /// `op operand`, of type `ty`.
    pub fn folded_unary(op: UnaryOp, operand: Expr, ty: Type, span: Span) -> Expr {
        match operand.as_value().and_then(|v| eval::unary(op, v, &ty)) {
            Some(value) => Expr::constant(value, ty, span),
            None => Expr::new(ExprKind::Unary(op, Box::new(operand)), ty, span),
        }
    }

    /// `left op right`, of type `ty`; the error is that of operands that give no result.
    pub fn folded_binary(
        op: BinaryOp,
        left: Expr,
        right: Expr,
        ty: Type,
        span: Span,
    ) -> Result<Expr, EvalError> {
        if let Some(number) = right.as_int() {
            match op {
                BinaryOp::Shl | BinaryOp::Shr if number.is_negative() => {
                    return Err(EvalError::ShiftTooLarge);
                }
                BinaryOp::Div | BinaryOp::Mod if number.is_zero() => {
                    return Err(EvalError::DivisionByZero);
                }
                _ => {}
            }
        }
        if let (BinaryOp::Eq | BinaryOp::Ne, ExprKind::List(_)) = (op, &left.kind)
            && let Some(same) = are_equal(&left, &right)
        {
            let value = Value::Bool(same == (op == BinaryOp::Eq));
            return Ok(Expr::constant(value, ty, span));
        }
        if let (Some(a), Some(b)) = (left.as_value(), right.as_value()) {
            let right_width = right.ty.width().unwrap_or(0);
            if let Some(result) = eval::binary(op, a, b, &ty, right_width) {
                return Ok(Expr::constant(result?, ty, span));
            }
        }
        Ok(Expr::binary(op, left, right, ty, span))
    }

    /// `(to) self`, at the place of `self`.
    pub fn folded_cast(self, to: &Type) -> Expr {
        let span = self.span;
        match self.as_value().and_then(|v| eval::cast(v, to)) {
            Some(value) => Expr::constant(value, to.clone(), span),
            None => Expr::new(ExprKind::Cast(Box::new(self)), to.clone(), span),
        }
    }

    /// `self[high:low]`
    pub fn folded_slice(self, high: u32, low: u32, span: Span) -> Expr {
        let width = high - low + 1;
        if let Some(value) = self.as_int() {
            let bits = eval::wrap(&(value >> low), width, false);
            return Expr::int(bits, Type::bit(width), span);
        }
        let base = Box::new(self);
        Expr::new(ExprKind::Slice { base, high, low }, Type::bit(width), span)
    }
}

/// Whether two values of one type are equal, with all their members; none: the compiler does not know one of them.
fn are_equal(left: &Expr, right: &Expr) -> Option<bool> {
    match (&left.kind, &right.kind) {
        (ExprKind::Const(a), ExprKind::Const(b)) => Some(a == b),
        (ExprKind::List(a), ExprKind::List(b)) => {
            let members = a.iter().zip(b);
            let results: Option<Vec<bool>> = members.map(|(a, b)| are_equal(a, b)).collect();
            results.map(|all| a.len() == b.len() && !all.contains(&false))
        }
        _ => None,
    }
}
