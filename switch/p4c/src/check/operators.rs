//! Unary and binary operators (specification, section 8.5 to 8.9).

use super::Checker;
use super::conversions::enum_to_number;
use crate::ast::{BinaryOp, UnaryOp};
use crate::diagnostics::Diagnostic;
use crate::eval;
use crate::ir::Expr;
use crate::source::Span;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, operand: Expr, span: Span) -> Expr {
        let operand = enum_to_number(operand);
        let allowed = match (op, &operand.ty) {
            (_, Type::Poison) => return Expr::poison(span),
            (UnaryOp::Not, Type::Bool) => true,
            (UnaryOp::Minus | UnaryOp::Plus, Type::Int) => true,
            (UnaryOp::Minus | UnaryOp::Plus | UnaryOp::Complement, Type::Bits { .. }) => true,
            _ => false,
        };
        if !allowed {
            self.bad_operand(op.symbol(), &operand.ty, span);
            return Expr::poison(span);
        }
        let ty = operand.ty.clone();
        if op == UnaryOp::Plus {
            return operand;
        }
        Expr::folded_unary(op, operand, ty, span)
    }

    fn bad_operand(&self, op: &str, ty: &Type, span: Span) {
        let message = format!("`{op}` is not defined for `{}`", self.show(ty));
        let mut diagnostic = Diagnostic::error("bad-operand", span, message);
        match ty {
            Type::New(n) => {
                let underlying = self.show(&n.underlying);
                diagnostic = diagnostic.help(format!("cast it to `{underlying}` first"));
            }
            Type::Bool => {
                diagnostic =
                    diagnostic.help("the operators of bool are `!`, `&&`, `||`, `==`, `!=`")
            }
            Type::Bits { .. } if op == "!" => {
                diagnostic = diagnostic.help("`~` inverts the bits of a number")
            }
            _ => {}
        }
        self.report(diagnostic);
    }

    /// Brings two operands to one type: numbers of `int` and lists take the type of the other side, enums meet what is
    /// no enum of theirs as numbers.
    pub(super) fn same_type(
        &self,
        left: Expr,
        right: Expr,
        op: &str,
        span: Span,
    ) -> Option<(Expr, Expr)> {
        if left.ty.is_poison() || right.ty.is_poison() {
            return None;
        }
        if left.ty == right.ty {
            return Some((left, right));
        }
        let written = [left.ty.clone(), right.ty.clone()];
        let (left, right) = (enum_to_number(left), enum_to_number(right));
        if let Some(right) = self.try_coerce(right.clone(), &left.ty) {
            return Some((left, right));
        }
        if let Some(left) = self.try_coerce(left.clone(), &right.ty) {
            return Some((left, right));
        }
        self.different_types(&written, op, span);
        None
    }

    pub(super) fn different_types(&self, [left, right]: &[Type; 2], op: &str, span: Span) {
        let (l, r) = (self.show(left), self.show(right));
        let message = format!("`{op}` needs operands of one type, found `{l}` and `{r}`");
        let mut diagnostic =
            Diagnostic::error("type-mismatch", span, message).label(format!("`{l}` {op} `{r}`"));
        if let (Type::Bits { .. }, Type::Bits { .. }) = (left.stored(), right.stored()) {
            diagnostic = diagnostic.help(format!("cast one side, for example `({l}) ...`"));
        }
        self.report(diagnostic);
    }

    pub(super) fn binary(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        use BinaryOp as B;
        let typed = match op {
            B::And | B::Or => {
                let (left, right) = (
                    self.coerce(left, &Type::Bool),
                    self.coerce(right, &Type::Bool),
                );
                Some((left, right, Type::Bool))
            }
            B::Eq | B::Ne => self.equality(op, left, right, span),
            B::Shl | B::Shr => self.shift(op, left, right),
            B::Concat => self.concat(left, right, span),
            _ => self.arithmetic(op, left, right, span),
        };
        let Some((left, right, ty)) = typed else {
            return Expr::poison(span);
        };
        if left.ty.is_poison() || right.ty.is_poison() {
            return Expr::poison(span);
        }
        let result = Expr::folded_binary(op, left, right, ty, span);
        result.unwrap_or_else(|problem| {
            self.error(problem.code(), span, problem.message());
            Expr::poison(span)
        })
    }

    fn equality(
        &self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Option<(Expr, Expr, Type)> {
        let (left, right) = self.same_type(left, right, op.symbol(), span)?;
        let comparable = !matches!(
            left.ty,
            Type::Void | Type::Extern(..) | Type::Block(..) | Type::DontCare | Type::Var(_)
        );
        if !comparable {
            self.bad_operand(op.symbol(), &left.ty, span);
            return None;
        }
        Some((left, right, Type::Bool))
    }

    fn shift(&self, op: BinaryOp, left: Expr, right: Expr) -> Option<(Expr, Expr, Type)> {
        let (left, right) = (enum_to_number(left), enum_to_number(right));
        if left.ty.is_poison() || right.ty.is_poison() {
            return None;
        }
        if !matches!(left.ty, Type::Int | Type::Bits { .. }) {
            self.bad_operand(op.symbol(), &left.ty, left.span);
            return None;
        }
        let amount_ok = match &right.ty {
            Type::Int => right.as_int().is_none_or(|v| *v >= 0.into()),
            Type::Bits { signed, .. } => !signed || right.as_int().is_some_and(|v| *v >= 0.into()),
            _ => false,
        };
        if !amount_ok {
            let message = format!(
                "shift amounts are unsigned numbers, not `{}`",
                self.show(&right.ty)
            );
            self.error("bad-operand", right.span, message);
            return None;
        }
        if let (Type::Bits { width, .. }, Some(amount)) = (&left.ty, right.as_int())
            && *amount >= (*width).into()
        {
            let message = format!("all {width} bits are shifted out by {amount}");
            self.report(Diagnostic::warning("overflow", right.span, message));
        }
        if matches!(left.ty, Type::Int) && right.as_int().is_none() && right.ty != Type::Int {
            let message = "the width of the shifted value is not known";
            let help = "give the literal a width, such as 32w1";
            self.error_with_help("unknown-width", left.span, message, help);
            return None;
        }
        let ty = left.ty.clone();
        Some((left, right, ty))
    }

    fn concat(&self, left: Expr, right: Expr, span: Span) -> Option<(Expr, Expr, Type)> {
        let (left, right) = (enum_to_number(left), enum_to_number(right));
        match (&left.ty, &right.ty) {
            (Type::Poison, _) | (_, Type::Poison) => None,
            (Type::String, Type::String) => Some((left, right, Type::String)),
            (Type::Bits { width: a, signed }, Type::Bits { width: b, .. }) => {
                let ty = Type::Bits {
                    width: a + b,
                    signed: *signed,
                };
                Some((left, right, ty))
            }
            (Type::Int, _) | (_, Type::Int) => {
                let message = "`++` needs operands of known width";
                let help = "give the literal a width, such as 8w1";
                self.error_with_help("unknown-width", span, message, help);
                None
            }
            (Type::Bits { .. }, other) | (other, _) => {
                self.bad_operand("++", other, span);
                None
            }
        }
    }

    fn arithmetic(
        &self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Option<(Expr, Expr, Type)> {
        use BinaryOp as B;
        let (left, right) = (enum_to_number(left), enum_to_number(right));
        for side in [&left, &right] {
            let defined = match &side.ty {
                Type::Poison => return None,
                Type::Int => true,
                Type::Bits { .. } => true,
                _ => false,
            };
            if !defined {
                self.bad_operand(op.symbol(), &side.ty, side.span);
                return None;
            }
        }
        let (left, right) = self.same_type(left, right, op.symbol(), span)?;
        if matches!(op, B::SatAdd | B::SatSub) && matches!(left.ty, Type::Int) {
            let message = format!("`{}` needs operands of known width", op.symbol());
            let help = "where numbers end is a matter of their width: give one, such as 8w1";
            self.error_with_help("unknown-width", span, message, help);
            return None;
        }
        if matches!(op, B::Div | B::Mod) && matches!(left.ty, Type::Bits { signed: true, .. }) {
            self.bad_operand(op.symbol(), &left.ty, span);
            return None;
        }
        if matches!(op, B::Div | B::Mod) && right.as_int().is_some_and(num_traits::Zero::is_zero) {
            let message = eval::EvalError::DivisionByZero.message();
            self.error("bad-constant", right.span, message);
            return None;
        }
        let ty = match op {
            B::Lt | B::Le | B::Gt | B::Ge => Type::Bool,
            _ => left.ty.clone(),
        };
        Some((left, right, ty))
    }
}
