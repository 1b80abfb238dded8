//! Slices: `base[high:low]`, and `base[low +: width]`, whose `low` may be known at run time only.
//!
//! ```text
//! y = x[i +: 8];    ==>  y = (x >> i)[7:0];
//! x[i +: 8] = y;    ==>  x = x & ~(0xff << i) | (bit<W>) y << i;
//! ```
//!
//! Bits beyond the end of `x` are read as 0, and dropped when written.

use num_traits::ToPrimitive;

use super::Checker;
use crate::ast::{self, BinaryOp, UnaryOp};
use crate::eval;
use crate::ir::{Expr, ExprKind, Stmt, StmtKind};
use crate::source::Span;
use crate::types::Type;

/// The highest bit position or width in bits that is looked at; no type is wider.
const MAX_BITS: u32 = 1 << 16;

impl Checker<'_> {
    pub(super) fn slice(
        &mut self,
        base: &ast::Expr,
        high: &ast::Expr,
        low: &ast::Expr,
        span: Span,
    ) -> Expr {
        let base = self.expr(base);
        let high = self.size(high, MAX_BITS, "bit position");
        let low = self.size(low, MAX_BITS, "bit position");
        match (high, low) {
            (Some(high), Some(low)) => self.fixed_slice(base, high, low, span),
            _ => Expr::poison(span),
        }
    }

    pub(super) fn slice_from(
        &mut self,
        base: &ast::Expr,
        low: &ast::Expr,
        width: &ast::Expr,
        span: Span,
    ) -> Expr {
        let base = self.expr(base);
        let low = self.expr(low);
        let Some(width) = self.size(width, MAX_BITS, "width") else {
            return Expr::poison(span);
        };
        if width == 0 {
            self.error("bad-slice", span, "a slice has at least one bit");
            return Expr::poison(span);
        }
        let Some(position) = low.as_int() else {
            return self.run_time_slice(base, low, width, span);
        };
        match position.to_u32().filter(|p| *p <= MAX_BITS) {
            Some(position) => self.fixed_slice(base, position + width - 1, position, span),
            None => {
                let message =
                    format!("the bit position {position} is not between 0 and {MAX_BITS}");
                self.error("bad-width", low.span, message);
                Expr::poison(span)
            }
        }
    }

    fn fixed_slice(&mut self, base: Expr, high: u32, low: u32, span: Span) -> Expr {
        let Some(base) = self.bits_of(base, span) else {
            return Expr::poison(span);
        };
        let width = base.ty.width().unwrap_or(u32::MAX);
        if high < low || high >= width {
            let message = format!("[{high}:{low}] is not a slice of {width} bits");
            let help = format!("the first number is the higher bit, below {width}");
            self.error_with_help("bad-slice", span, message, help);
            return Expr::poison(span);
        }
        base.folded_slice(high, low, span)
    }

    fn run_time_slice(&mut self, base: Expr, low: Expr, width: u32, span: Span) -> Expr {
        let Some(base) = self.bits_of(base, span) else {
            return Expr::poison(span);
        };
        let Some(whole) = base.ty.width() else {
            let message = "the width of the sliced value is not known";
            let help = "give the literal a width, such as 32w1";
            self.error_with_help("unknown-width", base.span, message, help);
            return Expr::poison(span);
        };
        if width > whole {
            let message = format!("{width} bits cannot be taken out of {whole}");
            self.error("bad-slice", span, message);
            return Expr::poison(span);
        }
        // The sign must not be shifted in.
        let unsigned = as_bits(base, whole);
        let shifted = self.binary(BinaryOp::Shr, unsigned, low, span);
        if shifted.ty.is_poison() {
            return shifted;
        }
        shifted.folded_slice(width - 1, 0, span)
    }

    /// The number that a slice is taken out of; none if the expression is no number, which is reported.
    fn bits_of(&self, base: Expr, span: Span) -> Option<Expr> {
        let base = match base.ty {
            Type::Enum(ref e) if e.underlying.is_some() => {
                let to = base.ty.stored().clone();
                self.coerce(base, &to)
            }
            _ => base,
        };
        match &base.ty {
            Type::Poison => None,
            Type::Bits { .. } => Some(base),
            Type::Int if base.as_int().is_some() => Some(base),
            other => {
                let message = format!("bits cannot be taken out of `{}`", self.show(other));
                self.error("bad-slice", span, message);
                None
            }
        }
    }

    /// `target = value` or `target op= value`, where `target` is a slice that starts at run time.
    pub(super) fn assign_run_time_slice(
        &mut self,
        target: Expr,
        op: Option<BinaryOp>,
        value: Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let (place, low) = run_time_parts(&target)?;
        let (place, low) = (place.clone(), low.clone());
        if !self.check_lvalue(&place) {
            return None;
        }
        let (Some(width), Some(whole)) = (target.ty.width(), place.ty.width()) else {
            return None;
        };
        // The place and the start are found once, and before the value, which may change what they are found by.
        let mut before = Vec::new();
        let once = !is_repeatable(&place) || !is_repeatable(&low);
        let (place, low) = match once || value.has_effects() {
            true => {
                let place = self.settled_place(place, &mut before);
                (place, self.settled(low, &mut before))
            }
            false => (place, low),
        };
        if !is_repeatable(&place) {
            let message = "a slice to write to cannot be found by this";
            let help = "assign it to a variable first";
            self.error_with_help("bad-slice", place.span, message, help);
            return None;
        }
        let value = match op {
            Some(op) => {
                let unsigned = as_bits(place.clone(), whole);
                let shifted = self.binary(BinaryOp::Shr, unsigned, low.clone(), span);
                let old = shifted.folded_slice(width - 1, 0, span);
                self.binary(op, old, value, span)
            }
            None => value,
        };
        let mut value = self.coerce(value, &target.ty);
        if value.has_effects() {
            value = self.settled(value, &mut before);
        }
        let bits = Type::bit(whole);
        let ones = Expr::int(eval::mask(width), bits.clone(), span);
        let hole = self.binary(BinaryOp::Shl, ones, low.clone(), span);
        let kept = self.unary(UnaryOp::Complement, hole, span);
        let kept = self.binary(BinaryOp::BitAnd, as_bits(place.clone(), whole), kept, span);
        let moved = self.binary(BinaryOp::Shl, cast(value, bits), low, span);
        let result = self.binary(BinaryOp::BitOr, kept, moved, span);
        let result = cast(result, place.ty.clone());
        let assign = StmtKind::Assign(place, result);
        if before.is_empty() {
            return Some(assign);
        }
        before.push(Stmt { kind: assign, span });
        Some(StmtKind::Block {
            atomic: false,
            body: before,
        })
    }

    /// A variable that `before` gives the value of an expression.
    fn settled(&mut self, value: Expr, before: &mut Vec<Stmt>) -> Expr {
        let (ty, span) = (value.ty.clone(), value.span);
        let text = "tmp".to_owned();
        let var = self.new_var(&ast::Ident { text, span }, ty.clone(), false);
        let kind = StmtKind::Declare(var, Some(value));
        before.push(Stmt { kind, span });
        Expr::var(var, ty, span)
    }

    /// A place with variables for the indices that are known at run time only.
    fn settled_place(&mut self, place: Expr, before: &mut Vec<Stmt>) -> Expr {
        let kind = match place.kind {
            ExprKind::Field(base, name) => {
                ExprKind::Field(Box::new(self.settled_place(*base, before)), name)
            }
            ExprKind::Index(base, index) => {
                let base = Box::new(self.settled_place(*base, before));
                let index = match index.as_value() {
                    Some(_) => index,
                    None => Box::new(self.settled(*index, before)),
                };
                ExprKind::Index(base, index)
            }
            ExprKind::Slice { base, high, low } => ExprKind::Slice {
                base: Box::new(self.settled_place(*base, before)),
                high,
                low,
            },
            kind => kind,
        };
        Expr { kind, ..place }
    }
}

/// The place and the start of a slice that [`Checker::slice_from`] made for a start known at run time.
fn run_time_parts(slice: &Expr) -> Option<(&Expr, &Expr)> {
    let ExprKind::Slice { base, .. } = &slice.kind else {
        return None;
    };
    let ExprKind::Binary(BinaryOp::Shr, whole, low) = &base.kind else {
        return None;
    };
    match &whole.kind {
        ExprKind::Cast(place) => Some((place, low)),
        _ => Some((whole, low)),
    }
}

/// Whether a slice that is written `base[low +: width]` has a start that is known at run time only.
pub(super) fn starts_at_run_time(written: &ast::Expr, checked: &Expr) -> bool {
    matches!(written.kind, ast::ExprKind::SliceFrom { .. }) && run_time_parts(checked).is_some()
}

fn as_bits(number: Expr, width: u32) -> Expr {
    cast(number, Type::bit(width))
}

fn cast(number: Expr, ty: Type) -> Expr {
    if number.ty == ty || number.ty.is_poison() {
        return number;
    }
    number.folded_cast(&ty)
}

/// Whether two evaluations give the same value and do nothing else.
fn is_repeatable(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Var(_) => true,
        ExprKind::Field(inner, _)
        | ExprKind::Slice { base: inner, .. }
        | ExprKind::Cast(inner)
        | ExprKind::StackNext(inner)
        | ExprKind::StackLast(inner)
        | ExprKind::StackLastIndex(inner)
        | ExprKind::Unary(_, inner) => is_repeatable(inner),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => is_repeatable(a) && is_repeatable(b),
        _ => false,
    }
}
