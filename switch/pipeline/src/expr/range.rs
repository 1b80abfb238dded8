//! Decides whether `i128` arithmetic, which wraps where it overflows, gives the exact result.

use super::{BinaryOp, Cast, Num};

/// Part of a number that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Its value.
    Exact,
    /// The low 128 bits of its two's complement only.
    Low,
}

/// A bound of a number: its magnitude is below 2^bits.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// The magnitude is below two to this power.
    pub bits: u32,
    /// Whether the number can be negative.
    pub negative: bool,
}

impl Bound {
    /// A number that may be negative.
    const fn signed(bits: u32) -> Bound {
        Bound {
            bits,
            negative: true,
        }
    }

    /// A number that is never negative.
    const fn unsigned(bits: u32) -> Bound {
        Bound {
            bits,
            negative: false,
        }
    }
}

const UNBOUNDED: Bound = Bound::signed(u32::MAX);

/// Most bits of a magnitude that `i128` can hold.
const EXACT_BITS: u32 = 127;

/// Whether `i128` arithmetic gives what is wanted.
pub(crate) fn fits(num: &Num, demand: Demand) -> bool {
    if demand == Demand::Exact && bound(num).bits > EXACT_BITS {
        return false;
    }
    match num {
        Num::Const(_) | Num::StackCount(..) => true,
        Num::BigConst(_) => false,
        Num::Field(s) | Num::Param(s) => s.bits <= 128,
        Num::Register(r, index) => r.bits <= 128 && fits(index, Demand::Exact),
        Num::Last(_, fields) => fields.iter().all(|s| s.bits <= 128),
        Num::Element(fields, index) => {
            fields.iter().all(|s| s.bits <= 128) && fits(index, Demand::Exact)
        }
        // Conditions choose their own arithmetic.
        Num::FromBool(_) => true,
        Num::Not(a) => fits(a, demand),
        Num::If(_, a, b) => fits(a, demand) && fits(b, demand),
        Num::Cast(Cast::Wrap, a, width) => *width <= 127 && fits(a, Demand::Low),
        Num::Cast(_, a, width) => *width <= 127 && fits(a, Demand::Exact),
        Num::Binary(op, a, b) => match op {
            // With a mask on one side, the low bits of the other side are enough.
            BinaryOp::And if masks(a) || masks(b) => fits(a, Demand::Low) && fits(b, Demand::Low),
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor => fits(a, demand) && fits(b, demand),
            BinaryOp::Shl => fits(a, demand) && fits(b, Demand::Exact),
            BinaryOp::Shr | BinaryOp::Div | BinaryOp::Mod => {
                fits(a, Demand::Exact) && fits(b, Demand::Exact)
            }
        },
    }
}

fn masks(num: &Num) -> bool {
    matches!(num, Num::Const(n) if *n >= 0)
}

fn slot_bound(s: &crate::slot::Slot) -> Bound {
    Bound {
        bits: s.bits,
        negative: s.signed,
    }
}

/// The bound of an expression.
pub(super) fn bound(num: &Num) -> Bound {
    match num {
        Num::Const(n) => Bound {
            bits: 128 - n.unsigned_abs().leading_zeros(),
            negative: *n < 0,
        },
        Num::BigConst(n) => Bound {
            bits: u32::try_from(n.bits()).unwrap_or(u32::MAX),
            negative: n.sign() == num_bigint::Sign::Minus,
        },
        Num::Field(s) | Num::Param(s) => slot_bound(s),
        Num::Register(r, _) => Bound::unsigned(r.bits),
        Num::Last(_, fields) | Num::Element(fields, _) => fields
            .iter()
            .map(slot_bound)
            .fold(Bound::unsigned(0), union),
        Num::StackCount(..) => Bound::signed(32),
        Num::FromBool(_) => Bound::unsigned(1),
        Num::Not(a) => Bound::signed(bound(a).bits.saturating_add(1)),
        Num::If(_, a, b) => union(bound(a), bound(b)),
        Num::Cast(Cast::SaturateUnsigned, _, width) => Bound::unsigned(*width),
        Num::Cast(_, _, width) => Bound::signed(*width),
        Num::Binary(op, a, by) => {
            let (a, b) = (bound(a), bound(by));
            let either = union(a, b);
            match op {
                BinaryOp::Add => Bound {
                    bits: either.bits.saturating_add(1),
                    ..either
                },
                BinaryOp::Sub => Bound::signed(either.bits.saturating_add(1)),
                BinaryOp::Mul => Bound {
                    bits: a.bits.saturating_add(b.bits),
                    ..either
                },
                BinaryOp::Shl => match **by {
                    Num::Const(n) if (0..=4096).contains(&n) => Bound {
                        bits: a.bits.saturating_add(n as u32),
                        ..a
                    },
                    _ => UNBOUNDED,
                },
                BinaryOp::Shr => match **by {
                    Num::Const(n) if n >= 0 && !a.negative => Bound {
                        bits: a.bits.saturating_sub(n.min(1 << 16) as u32),
                        ..a
                    },
                    _ => a,
                },
                BinaryOp::Div => Bound {
                    bits: a.bits,
                    ..either
                },
                BinaryOp::Mod => union(a, b),
                BinaryOp::And => match (a.negative, b.negative) {
                    (false, false) => Bound::unsigned(a.bits.min(b.bits)),
                    (false, true) => a,
                    (true, false) => b,
                    (true, true) => either,
                },
                BinaryOp::Or | BinaryOp::Xor => either,
            }
        }
    }
}

/// The bound of a number that is one of two.
fn union(a: Bound, b: Bound) -> Bound {
    Bound {
        bits: a.bits.max(b.bits),
        negative: a.negative || b.negative,
    }
}
