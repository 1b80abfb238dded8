//! Decides whether `i128` arithmetic, wrapping where it overflows, gives the exact result.

use super::{BinaryOp, Bool, Cast, Num};

/// What is wanted of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The mathematical value.
    Exact,
    /// Only the low 128 bits of its two's complement.
    Low,
}

/// |value| < 2^bits.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub bits: u32,
    pub negative: bool,
}

const UNBOUNDED: Bound = Bound {
    bits: u32::MAX,
    negative: true,
};

/// The widest magnitude that `i128` holds.
const EXACT_BITS: u32 = 127;

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
        Num::FromBool(b) => bool_ok(b),
        Num::Not(a) => fits(a, demand),
        Num::If(c, a, b) => bool_ok(c) && fits(a, demand) && fits(b, demand),
        Num::Cast(Cast::Wrap, a, width) => *width <= 127 && fits(a, Demand::Low),
        Num::Cast(_, a, width) => *width <= 127 && fits(a, Demand::Exact),
        Num::Binary(op, a, b) => match op {
            // A mask makes the low bits of the other side enough.
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

fn bool_ok(_: &Bool) -> bool {
    // Comparisons choose their own arithmetic.
    true
}

fn masks(num: &Num) -> bool {
    matches!(num, Num::Const(n) if *n >= 0)
}

fn slot_bound(s: &crate::layout::Slot) -> Bound {
    Bound {
        bits: s.bits,
        negative: s.signed,
    }
}

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
        Num::Register(r, _) => Bound {
            bits: r.bits,
            negative: false,
        },
        Num::Last(_, fields) | Num::Element(fields, _) => fields.iter().map(slot_bound).fold(
            Bound {
                bits: 0,
                negative: false,
            },
            union,
        ),
        Num::StackCount(..) => Bound {
            bits: 32,
            negative: true,
        },
        Num::FromBool(_) => Bound {
            bits: 1,
            negative: false,
        },
        Num::Not(a) => Bound {
            bits: bound(a).bits.saturating_add(1),
            negative: true,
        },
        Num::If(_, a, b) => union(bound(a), bound(b)),
        Num::Cast(Cast::SaturateUnsigned, _, width) => Bound {
            bits: *width,
            negative: false,
        },
        Num::Cast(_, _, width) => Bound {
            bits: *width,
            negative: true,
        },
        Num::Binary(op, a, b) => {
            let (a, b) = (bound(a), bound(b));
            let either = union(a, b);
            match op {
                BinaryOp::Add => Bound {
                    bits: either.bits.saturating_add(1),
                    ..either
                },
                BinaryOp::Sub => Bound {
                    bits: either.bits.saturating_add(1),
                    negative: true,
                },
                BinaryOp::Mul => Bound {
                    bits: a.bits.saturating_add(b.bits),
                    ..either
                },
                BinaryOp::Shl => match num {
                    Num::Binary(_, _, by) => match **by {
                        Num::Const(n) if (0..=4096).contains(&n) => Bound {
                            bits: a.bits.saturating_add(n as u32),
                            ..a
                        },
                        _ => UNBOUNDED,
                    },
                    _ => UNBOUNDED,
                },
                BinaryOp::Shr => match num {
                    Num::Binary(_, _, by) => match **by {
                        Num::Const(n) if n >= 0 && !a.negative => Bound {
                            bits: a.bits.saturating_sub(n.min(1 << 16) as u32),
                            ..a
                        },
                        _ => a,
                    },
                    _ => a,
                },
                BinaryOp::Div => a,
                BinaryOp::Mod => union(a, b),
                BinaryOp::And => match (a.negative, b.negative) {
                    (false, false) => Bound {
                        bits: a.bits.min(b.bits),
                        negative: false,
                    },
                    (false, true) => a,
                    (true, false) => b,
                    (true, true) => either,
                },
                BinaryOp::Or | BinaryOp::Xor => either,
            }
        }
    }
}

fn union(a: Bound, b: Bound) -> Bound {
    Bound {
        bits: a.bits.max(b.bits),
        negative: a.negative || b.negative,
    }
}
