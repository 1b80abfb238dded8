//! Expressions, compiled to trees in which every name is resolved.
//!
//! BMv2 computes with integers of any size and cuts the result when it is stored. `i128` gives the
//! same answer for all that real programs compute. When a program is loaded, `range` finds the
//! expressions for which it does not, and those are evaluated with big integers; `word` compiles
//! those for which 64 bits are enough.

mod compile;
mod eval;
mod range;
#[cfg(test)]
mod tests;
mod word;

use num_bigint::BigInt;

use crate::layout::Layout;
use crate::slot::Slot;
use crate::stateful::RegisterRef;
pub(crate) use compile::Compiler;
pub(crate) use eval::Scope;
use range::{Demand, fits};
use word::Test;
pub(crate) use word::Word;

/// A number, ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    /// The expression.
    pub tree: Num,
    /// Whether `i128` is not enough.
    pub big: bool,
    /// The expression in 64-bit arithmetic; `None` if that is not enough.
    pub word: Option<Word>,
}

impl Number {
    /// The value of a constant; `None` if it is none, or does not fit into a word.
    pub fn constant(&self) -> Option<u64> {
        match self.word {
            Some(Word::Const(n)) => Some(n),
            _ => None,
        }
    }

    /// How many bits the number has at most, if all numbers of so many bits are indices of an array of this size.
    pub fn bits_inside(&self, size: u32) -> Option<u32> {
        let bound = range::bound(&self.tree);
        let is_inside = !bound.negative && bound.bits < u32::BITS && 1 << bound.bits <= size;
        is_inside.then_some(bound.bits)
    }

    /// A number whose value matters as a whole.
    pub fn exact(tree: Num, layout: &Layout) -> Number {
        Number {
            big: !layout.shortcuts || !fits(&tree, Demand::Exact),
            word: Word::exact(&tree, layout),
            tree,
        }
    }

    /// A number of which only the low `bits` bits will be stored.
    pub fn low(tree: Num, bits: u32, layout: &Layout) -> Number {
        let demand = if bits <= 128 {
            Demand::Low
        } else {
            Demand::Exact
        };
        Number {
            big: !layout.shortcuts || !fits(&tree, demand),
            word: if bits <= 64 {
                Word::low(&tree, bits, layout)
            } else {
                Word::exact(&tree, layout)
            },
            tree,
        }
    }
}

/// A condition, ready to be evaluated. Its comparisons know which arithmetic they need.
pub(crate) type Condition = Test;

/// An expression that is a number.
#[derive(Clone, Debug)]
pub(crate) enum Num {
    /// A constant.
    Const(i128),
    /// A constant that `i128` cannot hold.
    BigConst(Box<BigInt>),
    /// A field of the packet.
    Field(Slot),
    /// An argument of the action; [`Slot::at`] counts from the start of the action data.
    Param(Slot),
    /// The cell of a register array that an index chooses.
    Register(RegisterRef, Box<Num>),
    /// A field of the last element of a stack: the word of the stack's counter, and the field in
    /// each element.
    Last(u32, Box<[Slot]>),
    /// A field of the stack element that an index chooses.
    Element(Box<[Slot]>, Box<Num>),
    /// The counter of a stack, minus one if `true`.
    StackCount(u32, bool),
    Binary(BinaryOp, Box<Num>, Box<Num>),
    Not(Box<Num>),
    If(Box<Bool>, Box<Num>, Box<Num>),
    /// 1 if the condition holds, else 0.
    FromBool(Box<Bool>),
    /// A number cast to a width in bits.
    Cast(Cast, Box<Num>, u32),
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    And,
    Or,
    Xor,
}

/// How a number is cut to a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    /// To the low bits, as two's complement.
    Wrap,
    /// To the nearest signed number of this width.
    Saturate,
    /// To the nearest unsigned number of this width.
    SaturateUnsigned,
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Compare {
    /// Whether the comparison of `a` with `b` is true.
    #[inline]
    pub fn holds<T: Ord>(self, a: T, b: T) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Gt => a > b,
            Compare::Ge => a >= b,
        }
    }
}

/// An expression that is a condition.
#[derive(Clone, Debug)]
pub(crate) enum Bool {
    Const(bool),
    /// The number is not zero.
    NonZero(Box<Num>),
    /// The number, which takes big integers, is not zero.
    NonZeroBig(Box<Num>),
    Not(Box<Bool>),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    /// Both conditions have the same value.
    Same(Box<Bool>, Box<Bool>),
    If(Box<Bool>, Box<Bool>, Box<Bool>),
    Compare(Compare, Box<Num>, Box<Num>),
    /// A comparison that takes big integers.
    CompareBig(Compare, Box<Num>, Box<Num>),
    /// The header is valid.
    Valid(HeaderRef),
    /// A member of the union is valid.
    UnionValid(UnionRef),
    /// P4's equality of headers.
    SameHeader(HeaderRef, HeaderRef),
    /// P4's equality of header unions.
    SameUnion(UnionRef, UnionRef),
}

/// A header, or the one that an index chooses from a list.
#[derive(Clone, Debug)]
pub(crate) enum HeaderRef {
    Fixed(u32),
    Element(Box<[u32]>, Box<Num>),
}

/// A header union, or the one that an index chooses from a list.
#[derive(Clone, Debug)]
pub(crate) enum UnionRef {
    Fixed(u32),
    Element(Box<[u32]>, Box<Num>),
}
