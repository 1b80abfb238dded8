//! Expressions that externs of Tofino stand for.

use crate::ir::{BinaryOp, Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

use super::super::backend::Backend;

/// A number of a width.
pub(in super::super) fn number(value: u64, bits: u32, span: Span) -> Expr {
    Expr::int(value, Type::bit(bits), span)
}

/// Bits `low` to `high` of a value.
pub(super) fn slice(base: Expr, high: u32, low: u32) -> Expr {
    let span = base.span;
    let kind = ExprKind::Slice {
        base: Box::new(base),
        high,
        low,
    };
    Expr::new(kind, Type::bit(high - low + 1), span)
}

/// `if condition then, else otherwise`, as a value.
pub(in super::super) fn choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    let (ty, span) = (then.ty.clone(), then.span);
    let parts = [condition, then, otherwise].map(Box::new);
    let [condition, then, otherwise] = parts;
    Expr::new(ExprKind::Conditional(condition, then, otherwise), ty, span)
}

/// A comparison.
pub(in super::super) fn compare(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let span = left.span;
    Expr::binary(op, left, right, Type::Bool, span)
}

/// The scalar parts of a value one after the other, as unsigned bits; none if there are none.
pub(in super::super) fn concatenated(value: &Expr) -> Option<Expr> {
    let bits = |leaf: Expr| match leaf.ty.stored() {
        Type::Bits { signed: false, .. } => leaf,
        ty => {
            let width = ty.width().unwrap_or(1);
            leaf.cast(Type::bit(width))
        }
    };
    let leaves = value.leaves().into_iter().map(bits);
    leaves.reduce(|high, low| {
        let width = high.ty.width().unwrap_or(0) + low.ty.width().unwrap_or(0);
        let span = high.span;
        Expr::binary(BinaryOp::Concat, high, low, Type::bit(width), span)
    })
}

/// The bits of a value so many times.
pub(in super::super) fn repeated(value: &Expr, times: u32) -> Expr {
    let width = value.ty.width().unwrap_or(0);
    (1..times).fold(value.clone(), |high, count| {
        let (low, span) = (value.clone(), value.span);
        Expr::binary(
            BinaryOp::Concat,
            high,
            low,
            Type::bit(width * (count + 1)),
            span,
        )
    })
}

impl Backend<'_> {
    /// Adds in one's complement to a variable of 16 bits: what is carried out comes in at the other end.
    pub(in super::super) fn add_ones_complement(&mut self, sum: &Expr, addend: &Expr, span: Span) {
        let wide = Type::bit(32);
        let whole = self.temp(&wide, span);
        let [a, b] = [sum, addend].map(|e| e.clone().cast(wide.clone()));
        let added = Expr::binary(BinaryOp::Add, a, b, wide, span);
        self.assign(&whole, &added, span);
        let [low, carry] = [(15, 0), (31, 16)].map(|(h, l)| slice(whole.clone(), h, l));
        let folded = Expr::binary(BinaryOp::Add, low, carry, Type::bit(16), span);
        self.assign(sum, &folded, span);
    }

    /// A cell of a register as one number, whose first part is the most significant one.
    pub(in super::super) fn unpack(&mut self, cell: &Expr, target: &Expr, span: Span) {
        let mut above = cell.ty.width().unwrap_or(0);
        for leaf in target.leaves() {
            let width = leaf.ty.width().unwrap_or(0);
            let Some(below) = above.checked_sub(width).filter(|_| width > 0) else {
                continue;
            };
            let part = slice(cell.clone(), above - 1, below).cast(leaf.ty.clone());
            self.assign(&leaf, &part, span);
            above = below;
        }
    }
}
