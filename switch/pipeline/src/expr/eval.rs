//! Evaluates the trees of expressions, with `i128` or with big integers.

use num_bigint::{BigInt, Sign};

use super::{BinaryOp, Bool, Cast, HeaderRef, Num, Number, UnionRef};
use crate::layout::Layout;
use crate::slot::{Slot, load, load_big};
use crate::stateful::Registers;

/// Left shifts by more than this give zero: no field is as wide, so nothing of the result could be
/// seen.
const WIDEST_SHIFT: i128 = 1 << 17;

/// State that an expression can refer to.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// Words of the packet.
    pub words: &'a [u64],
    /// Words of the action data.
    pub data: &'a [u64],
    /// The registers of the switch.
    pub registers: &'a Registers,
    /// Where fields and headers lie.
    pub layout: &'a Layout,
}

impl Number {
    /// The value for indices, lengths and the like: clamped to `u64`, where negative numbers give
    /// `u64::MAX`.
    #[inline]
    pub fn index(&self, scope: &Scope) -> u64 {
        match &self.word {
            Some(word) => word.eval(scope),
            None => self.wide_index(scope),
        }
    }

    fn wide_index(&self, scope: &Scope) -> u64 {
        if self.big {
            u64::try_from(&self.tree.eval_big(scope)).unwrap_or(u64::MAX)
        } else {
            u64::try_from(self.tree.eval(scope)).unwrap_or(u64::MAX)
        }
    }

    /// The value; not for numbers that need big integers.
    #[inline]
    pub fn value(&self, scope: &Scope) -> i128 {
        match &self.word {
            Some(word) => i128::from(word.eval(scope)),
            None => self.tree.eval(scope),
        }
    }

    /// The value in decimal.
    pub fn text(&self, scope: &Scope) -> String {
        if self.big {
            self.tree.eval_big(scope).to_string()
        } else {
            self.tree.eval(scope).to_string()
        }
    }
}

impl Num {
    /// The value in `i128` arithmetic, which wraps.
    pub fn eval(&self, scope: &Scope) -> i128 {
        match self {
            Num::Const(n) => *n,
            Num::BigConst(n) => i128::try_from(&**n).unwrap_or(0),
            Num::Field(slot) => load(scope.words, *slot),
            Num::Param(slot) => load(scope.data, *slot),
            Num::Register(register, index) => {
                let index = u64::try_from(index.eval(scope)).unwrap_or(u64::MAX);
                scope.registers.get(*register, index).unwrap_or(0)
            }
            Num::Last(next, fields) => match self.last(scope, *next, fields) {
                Some(slot) => load(scope.words, slot),
                None => 0,
            },
            Num::Element(fields, index) => match pick(fields, index, scope) {
                Some(slot) => load(scope.words, *slot),
                None => 0,
            },
            Num::StackCount(next, last) => {
                i128::from(scope.words[*next as usize]) - i128::from(*last)
            }
            Num::Binary(op, a, b) => binary(*op, a.eval(scope), b.eval(scope)),
            Num::Not(a) => !a.eval(scope),
            Num::If(c, a, b) => {
                if c.eval(scope) {
                    a.eval(scope)
                } else {
                    b.eval(scope)
                }
            }
            Num::FromBool(b) => i128::from(b.eval(scope)),
            Num::Cast(cast, a, width) => cast_to(*cast, a.eval(scope), *width),
        }
    }

    /// The field of the last element of a stack; `None` if the stack is empty.
    fn last(&self, scope: &Scope, next: u32, fields: &[Slot]) -> Option<Slot> {
        let count = scope.words[next as usize] as usize;
        fields.get(count.checked_sub(1)?).copied()
    }

    /// The value, with big integers.
    pub fn eval_big(&self, scope: &Scope) -> BigInt {
        match self {
            Num::BigConst(n) => (**n).clone(),
            Num::Field(slot) => load_big(scope.words, *slot),
            Num::Param(slot) => load_big(scope.data, *slot),
            Num::Last(next, fields) => match self.last(scope, *next, fields) {
                Some(slot) => load_big(scope.words, slot),
                None => BigInt::ZERO,
            },
            Num::Element(fields, index) => match pick(fields, index, scope) {
                Some(slot) => load_big(scope.words, *slot),
                None => BigInt::ZERO,
            },
            Num::Binary(op, a, b) => binary_big(*op, a.eval_big(scope), b.eval_big(scope)),
            Num::Not(a) => -a.eval_big(scope) - 1,
            Num::If(c, a, b) => {
                if c.eval(scope) {
                    a.eval_big(scope)
                } else {
                    b.eval_big(scope)
                }
            }
            Num::Cast(cast, a, width) => cast_big(*cast, a.eval_big(scope), *width),
            Num::Register(register, index) => {
                let index = u64::try_from(index.eval_big(scope)).unwrap_or(u64::MAX);
                let cell = scope.registers.get_big(*register, index);
                cell.unwrap_or_default()
            }
            Num::Const(_) | Num::StackCount(..) | Num::FromBool(_) => {
                BigInt::from(self.eval(scope))
            }
        }
    }
}

/// The element that an index chooses; `None` if it lies outside.
fn pick<'a, T>(elements: &'a [T], index: &Num, scope: &Scope) -> Option<&'a T> {
    elements.get(usize::try_from(index.eval(scope)).ok()?)
}

#[inline]
fn binary(op: BinaryOp, a: i128, b: i128) -> i128 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        // Division by zero is undefined in P4 and must not end the switch.
        BinaryOp::Div => a.checked_div(b).unwrap_or(0),
        BinaryOp::Mod => a.checked_rem(b).unwrap_or(0),
        BinaryOp::Shl => u32::try_from(b)
            .ok()
            .and_then(|n| a.checked_shl(n))
            .unwrap_or(0),
        BinaryOp::Shr => a >> b.clamp(0, 127),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
    }
}

fn binary_big(op: BinaryOp, a: BigInt, b: BigInt) -> BigInt {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a.checked_div(&b).unwrap_or_default(),
        BinaryOp::Mod if b.sign() == Sign::NoSign => BigInt::ZERO,
        BinaryOp::Mod => a % b,
        BinaryOp::Shl => match i128::try_from(&b) {
            Ok(n) if (0..WIDEST_SHIFT).contains(&n) => a << n,
            _ => BigInt::ZERO,
        },
        BinaryOp::Shr => {
            a >> i128::try_from(&b)
                .unwrap_or(WIDEST_SHIFT)
                .clamp(0, WIDEST_SHIFT)
        }
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
    }
}

fn cast_to(cast: Cast, value: i128, width: u32) -> i128 {
    if width == 0 {
        return 0;
    }
    // The width is at most 127, see `range`.
    let unused = 128 - width.min(127);
    match cast {
        Cast::Wrap => (value << unused) >> unused,
        Cast::Saturate => value.clamp(i128::MIN >> unused, i128::MAX >> unused),
        Cast::SaturateUnsigned => value.clamp(0, i128::MAX >> (unused - 1)),
    }
}

fn cast_big(cast: Cast, value: BigInt, width: u32) -> BigInt {
    if width == 0 {
        return BigInt::ZERO;
    }
    let one = BigInt::from(1);
    match cast {
        Cast::Wrap => {
            let low: BigInt = value & ((&one << width) - 1);
            if low.bit(u64::from(width) - 1) {
                low - (one << width)
            } else {
                low
            }
        }
        Cast::Saturate => {
            let half = one << (width - 1);
            value.clamp(-half.clone(), half - 1)
        }
        Cast::SaturateUnsigned => value.clamp(BigInt::ZERO, (one << width) - 1),
    }
}

impl Bool {
    /// Whether the condition holds.
    pub fn eval(&self, scope: &Scope) -> bool {
        match self {
            Bool::Const(b) => *b,
            Bool::NonZero(n) => n.eval(scope) != 0,
            Bool::NonZeroBig(n) => n.eval_big(scope).sign() != Sign::NoSign,
            Bool::Not(a) => !a.eval(scope),
            Bool::And(a, b) => a.eval(scope) && b.eval(scope),
            Bool::Or(a, b) => a.eval(scope) || b.eval(scope),
            Bool::Same(a, b) => a.eval(scope) == b.eval(scope),
            Bool::If(c, a, b) => {
                if c.eval(scope) {
                    a.eval(scope)
                } else {
                    b.eval(scope)
                }
            }
            Bool::Compare(op, a, b) => op.holds(a.eval(scope), b.eval(scope)),
            Bool::CompareBig(op, a, b) => op.holds(a.eval_big(scope), b.eval_big(scope)),
            Bool::Valid(h) => h
                .resolve(scope)
                .is_some_and(|h| scope.layout.header_at(h).is_valid(scope.words)),
            Bool::UnionValid(u) => u.resolve(scope).is_some_and(|u| union_valid(scope, u)),
            Bool::SameHeader(a, b) => match (a.resolve(scope), b.resolve(scope)) {
                (Some(a), Some(b)) => same_header(scope, a, b),
                _ => false,
            },
            Bool::SameUnion(a, b) => match (a.resolve(scope), b.resolve(scope)) {
                (Some(a), Some(b)) => {
                    let unions = &scope.layout.unions;
                    let (a, b) = (&unions[a as usize].headers, &unions[b as usize].headers);
                    a.iter().zip(b).all(|(a, b)| same_header(scope, *a, *b))
                }
                _ => false,
            },
        }
    }
}

fn union_valid(scope: &Scope, union: u32) -> bool {
    scope.layout.unions[union as usize]
        .headers
        .iter()
        .any(|h| scope.layout.header_at(*h).is_valid(scope.words))
}

/// P4_16 section 8.17: headers are equal if both are invalid, or both valid with equal fields.
fn same_header(scope: &Scope, a: u32, b: u32) -> bool {
    let (a, b) = (scope.layout.header_at(a), scope.layout.header_at(b));
    let words =
        |h: &crate::layout::Header| &scope.words[h.first as usize..(h.first + h.words) as usize];
    match (a.is_valid(scope.words), b.is_valid(scope.words)) {
        (true, true) => words(a) == words(b),
        (a, b) => a == b,
    }
}

impl HeaderRef {
    #[inline]
    pub fn resolve(&self, scope: &Scope) -> Option<u32> {
        match self {
            HeaderRef::Fixed(h) => Some(*h),
            HeaderRef::Element(headers, index) => pick(headers, index, scope).copied(),
        }
    }
}

impl UnionRef {
    pub fn resolve(&self, scope: &Scope) -> Option<u32> {
        match self {
            UnionRef::Fixed(u) => Some(*u),
            UnionRef::Element(unions, index) => pick(unions, index, scope).copied(),
        }
    }
}
