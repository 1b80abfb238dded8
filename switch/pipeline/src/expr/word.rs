//! Expressions in 64-bit arithmetic, for those where it gives the right result, which are nearly
//! all.
//!
//! They are compiled from [`Num`] and [`Bool`], which stay for all others and as the oracle of the
//! tests. Two facts justify it. The low n bits of sums, products, bitwise operations and left
//! shifts depend only on the low n bits of their operands. And a value that is known to lie in
//! `0..2^64` equals its low 64 bits.

use super::range::bound;
use super::{BinaryOp, Bool, Cast, Compare, HeaderRef, Num, Scope};
use crate::bits::low_mask;
use crate::layout::Layout;
use crate::slot::Slot;

/// A number whose low bits are right, as many as were requested; the others may have any value.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Const(u64),
    /// A word of the packet, by index.
    Field(u32),
    /// A word of the action data, by index.
    Param(u32),
    /// The value shifted left and back by this many bits, so that its sign fills them.
    SignExtend(Box<Word>, u32),
    /// A word of the packet and a constant.
    FieldConst(BinaryOp, u32, u64),
    /// Two words of the packet.
    Fields(BinaryOp, u32, u32),
    /// A number and a constant.
    WithConst(BinaryOp, Box<Word>, u64),
    Binary(BinaryOp, Box<Word>, Box<Word>),
    Not(Box<Word>),
    If(Box<Test>, Box<Word>, Box<Word>),
    /// 1 if the condition holds, else 0.
    FromTest(Box<Test>),
}

/// A condition.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Const(bool),
    /// Compares a word of the packet with a constant.
    Field(Compare, u32, u64),
    /// Compares two words of the packet.
    Fields(Compare, u32, u32),
    Compare(Compare, Box<Word>, Box<Word>),
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    /// Both conditions have the same value.
    Same(Box<Test>, Box<Test>),
    If(Box<Test>, Box<Test>, Box<Test>),
    /// A condition that takes wider arithmetic.
    Plain(Bool),
}

impl Word {
    /// The number, right in its low `bits` bits (at most 64); `None` if that takes wider
    /// arithmetic.
    pub fn low(num: &Num, bits: u32, layout: &Layout) -> Option<Word> {
        if !layout.shortcuts {
            return None;
        }
        let low = |n: &Num, bits| Word::low(n, bits, layout);
        let exact = |n: &Num| Word::exact(n, layout);
        Some(match num {
            Num::Const(n) => Word::Const(*n as u64),
            Num::Field(slot) => extend(Word::Field(last_word(slot)), slot),
            Num::Param(slot) => extend(Word::Param(last_word(slot)), slot),
            Num::StackCount(next, false) => Word::Field(*next),
            Num::StackCount(next, true) => Word::FieldConst(BinaryOp::Sub, *next, 1),
            Num::Not(a) => Word::Not(Box::new(low(a, bits)?)),
            Num::FromBool(b) => Word::FromTest(Box::new(Test::new(b, layout))),
            Num::If(c, a, b) => Word::If(
                Box::new(Test::new(c, layout)),
                Box::new(low(a, bits)?),
                Box::new(low(b, bits)?),
            ),
            Num::Cast(Cast::Wrap, a, width) if *width >= bits => low(a, bits)?,
            Num::Cast(Cast::Wrap, a, width) if *width > 0 => {
                Word::SignExtend(Box::new(low(a, *width)?), 64 - width)
            }
            Num::Cast(Cast::SaturateUnsigned, a, width) => saturated(a, *width, layout)?,
            Num::Binary(op, a, b) => match op {
                BinaryOp::And => match mask(a).map(|m| (b, m)).or(mask(b).map(|m| (a, m))) {
                    Some((of, m)) => masked(of, m, bits, layout)?,
                    None => binary(*op, low(a, bits)?, low(b, bits)?),
                },
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Or | BinaryOp::Xor => {
                    binary(*op, low(a, bits)?, low(b, bits)?)
                }
                BinaryOp::Shl => binary(*op, low(a, bits)?, exact(b)?),
                BinaryOp::Shr | BinaryOp::Div | BinaryOp::Mod => binary(*op, exact(a)?, exact(b)?),
            },
            Num::BigConst(_)
            | Num::Register(..)
            | Num::Last(..)
            | Num::Element(..)
            | Num::Cast(..) => return None,
        })
    }

    /// The number itself; `None` if it may be negative or need more than 64 bits.
    pub fn exact(num: &Num, layout: &Layout) -> Option<Word> {
        let bound = bound(num);
        (!bound.negative && bound.bits <= 64)
            .then(|| Word::low(num, 64, layout))
            .flatten()
    }

    /// The value. Leaves are evaluated here, where they are inlined; `eval_inner` has the rest.
    #[inline]
    pub fn eval(&self, scope: &Scope) -> u64 {
        let field = |at: u32| scope.words[at as usize];
        match self {
            Word::Const(n) => *n,
            Word::Field(at) => field(*at),
            Word::Param(at) => scope.data[*at as usize],
            Word::FieldConst(op, a, b) => compute(*op, field(*a), *b),
            Word::Fields(op, a, b) => compute(*op, field(*a), field(*b)),
            inner => inner.eval_inner(scope),
        }
    }

    fn eval_inner(&self, scope: &Scope) -> u64 {
        match self {
            Word::WithConst(op, a, b) => compute(*op, a.eval(scope), *b),
            Word::Binary(op, a, b) => compute(*op, a.eval(scope), b.eval(scope)),
            Word::SignExtend(a, unused) => ((a.eval(scope) << unused) as i64 >> unused) as u64,
            Word::Not(a) => !a.eval(scope),
            Word::If(c, a, b) => {
                if c.eval(scope) {
                    a.eval(scope)
                } else {
                    b.eval(scope)
                }
            }
            Word::FromTest(test) => u64::from(test.eval(scope)),
            leaf => leaf.eval(scope),
        }
    }
}

/// A number saturated to `bit<width>`: 0 if it is negative, the largest value if it is above that.
fn saturated(of: &Num, width: u32, layout: &Layout) -> Option<Word> {
    if width > 64 {
        return None;
    }
    let (word, most_bits) = match of {
        Num::Binary(BinaryOp::Sub, from, less) => {
            let most_bits = bound(from).bits;
            let (from, less) = (Word::exact(from, layout)?, Word::exact(less, layout)?);
            let difference = binary(BinaryOp::Sub, from.clone(), less.clone());
            let is_negative = Box::new(Test::compare(Compare::Lt, from, less));
            let zero = Box::new(Word::Const(0));
            (Word::If(is_negative, zero, Box::new(difference)), most_bits)
        }
        of => (Word::exact(of, layout)?, bound(of).bits),
    };
    if most_bits <= width {
        return Some(word);
    }
    let most = Word::Const(low_mask(width));
    let is_above = Test::compare(Compare::Gt, word.clone(), most.clone());
    Some(Word::If(Box::new(is_above), Box::new(most), Box::new(word)))
}

/// Words whose unsigned comparison gives that of two numbers, which may be negative.
fn comparable(a: &Num, b: &Num, layout: &Layout) -> Option<(Word, Word)> {
    if let (Some(a), Some(b)) = (Word::exact(a, layout), Word::exact(b, layout)) {
        return Some((a, b));
    }
    let word = |n: &Num| {
        let is_signed_word = bound(n).bits < u64::BITS;
        let word = is_signed_word.then(|| Word::low(n, 64, layout)).flatten()?;
        // The offset makes negative numbers less than the others.
        Some(binary(BinaryOp::Xor, word, Word::Const(1 << 63)))
    };
    Some((word(a)?, word(b)?))
}

/// The index of the lowest word of a field.
fn last_word(slot: &Slot) -> u32 {
    slot.at + slot.words - 1
}

/// Extends the sign of a signed field.
fn extend(word: Word, slot: &Slot) -> Word {
    if slot.signed && (1..64).contains(&slot.bits) {
        Word::SignExtend(Box::new(word), 64 - slot.bits)
    } else {
        word
    }
}

/// The low bits of a constant that can serve as a mask.
fn mask(num: &Num) -> Option<u64> {
    match num {
        Num::Const(n) if *n >= 0 => Some(*n as u64),
        _ => None,
    }
}

/// `of & mask`, without the mask if it changes none of the low `bits` bits.
fn masked(of: &Num, mask: u64, bits: u32, layout: &Layout) -> Option<Word> {
    let bound = bound(of);
    let can_be_set = if bound.negative {
        low_mask(bits)
    } else {
        low_mask(bits.min(bound.bits))
    };
    if can_be_set & !mask == 0 {
        return Word::low(of, bits, layout);
    }
    let wanted = bits.min(64 - mask.leading_zeros());
    let word = Word::low(of, wanted, layout)?;
    Some(binary(BinaryOp::And, word, Word::Const(mask)))
}

fn binary(op: BinaryOp, a: Word, b: Word) -> Word {
    match (a, b) {
        (Word::Const(a), Word::Const(b)) => Word::Const(compute(op, a, b)),
        (Word::Field(a), Word::Const(b)) => Word::FieldConst(op, a, b),
        (Word::Field(a), Word::Field(b)) => Word::Fields(op, a, b),
        (a, Word::Const(b)) => Word::WithConst(op, Box::new(a), b),
        (a, b) => Word::Binary(op, Box::new(a), Box::new(b)),
    }
}

#[inline]
fn compute(op: BinaryOp, a: u64, b: u64) -> u64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        // Division by zero is undefined in P4.
        BinaryOp::Div => a.checked_div(b).unwrap_or(0),
        BinaryOp::Mod => a.checked_rem(b).unwrap_or(0),
        BinaryOp::Shl if b < 64 => a << b,
        BinaryOp::Shr if b < 64 => a >> b,
        BinaryOp::Shl | BinaryOp::Shr => 0,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
    }
}

impl Test {
    /// The condition, in 64-bit arithmetic where that is enough.
    pub fn new(condition: &Bool, layout: &Layout) -> Test {
        if !layout.shortcuts {
            return Test::Plain(condition.clone());
        }
        let test = |b: &Bool| Box::new(Test::new(b, layout));
        let comparison = |op, a: &Num, b: &Num| {
            let (a, b) = comparable(a, b, layout)?;
            Some(Test::compare(op, a, b))
        };
        let narrow = match condition {
            Bool::Const(b) => Some(Test::Const(*b)),
            Bool::NonZero(n) | Bool::NonZeroBig(n) => comparison(Compare::Ne, n, &Num::Const(0)),
            Bool::Compare(op, a, b) | Bool::CompareBig(op, a, b) => comparison(*op, a, b),
            Bool::Valid(HeaderRef::Fixed(h)) => {
                Some(Test::Field(Compare::Ne, layout.header_at(*h).valid_at, 0))
            }
            Bool::Not(a) => Some(Test::Not(test(a))),
            Bool::And(a, b) => Some(Test::And(test(a), test(b))),
            Bool::Or(a, b) => Some(Test::Or(test(a), test(b))),
            Bool::Same(a, b) => Some(Test::Same(test(a), test(b))),
            Bool::If(c, a, b) => Some(Test::If(test(c), test(a), test(b))),
            Bool::Valid(HeaderRef::Element(..))
            | Bool::UnionValid(_)
            | Bool::SameHeader(..)
            | Bool::SameUnion(..) => None,
        };
        narrow.unwrap_or_else(|| Test::Plain(condition.clone()))
    }

    fn compare(op: Compare, a: Word, b: Word) -> Test {
        match (a, b) {
            (Word::Const(a), Word::Const(b)) => Test::Const(op.holds(a, b)),
            (Word::Field(a), Word::Const(b)) => Test::Field(op, a, b),
            (Word::Field(a), Word::Field(b)) => Test::Fields(op, a, b),
            (a, b) => Test::Compare(op, Box::new(a), Box::new(b)),
        }
    }

    /// Whether the condition holds.
    #[inline]
    pub fn eval(&self, scope: &Scope) -> bool {
        let field = |at: u32| scope.words[at as usize];
        match self {
            Test::Field(op, a, b) => op.holds(field(*a), *b),
            inner => inner.eval_inner(scope),
        }
    }

    fn eval_inner(&self, scope: &Scope) -> bool {
        let field = |at: u32| scope.words[at as usize];
        match self {
            Test::Const(b) => *b,
            Test::Fields(op, a, b) => op.holds(field(*a), field(*b)),
            Test::Compare(op, a, b) => op.holds(a.eval(scope), b.eval(scope)),
            Test::Not(a) => !a.eval(scope),
            Test::And(a, b) => a.eval(scope) && b.eval(scope),
            Test::Or(a, b) => a.eval(scope) || b.eval(scope),
            Test::Same(a, b) => a.eval(scope) == b.eval(scope),
            Test::If(c, a, b) => {
                if c.eval(scope) {
                    a.eval(scope)
                } else {
                    b.eval(scope)
                }
            }
            Test::Plain(condition) => plain(condition, scope),
            leaf @ Test::Field(..) => leaf.eval(scope),
        }
    }
}

/// Kept out of line, so that the other cases need no stack space for it.
#[inline(never)]
fn plain(condition: &Bool, scope: &Scope) -> bool {
    condition.eval(scope)
}
