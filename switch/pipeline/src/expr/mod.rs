//! Expressions, compiled to trees with every name resolved.
//!
//! BMv2 computes with integers of any size and cuts the result when it is stored. `i128` gives the
//! same answer for all that real programs compute; `range` decides at load which expressions
//! it cannot, and those are evaluated with big integers; `word` compiles those for which 64 bits do.

mod compile;
mod eval;
mod range;
#[cfg(test)]
mod tests;
mod word;

use num_bigint::BigInt;

use crate::layout::{Layout, Slot};
use crate::stateful::RegisterRef;
pub(crate) use compile::Compiler;
pub(crate) use eval::{Scope, load, load_big, store, store_big};
use range::{Demand, fits};
use word::Test;
pub(crate) use word::Word;

/// A number, ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub tree: Num,
    /// `i128` is not enough.
    pub big: bool,
    /// 64 bits are.
    pub word: Option<Word>,
}

impl Number {
    /// A number wanted exactly.
    pub fn exact(tree: Num, layout: &Layout) -> Number {
        Number {
            big: !layout.shortcuts || !fits(&tree, Demand::Exact),
            word: Word::exact(&tree, layout),
            tree,
        }
    }

    /// A number of which `bits` bits will be stored.
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

#[derive(Clone, Debug)]
pub(crate) enum Num {
    Const(i128),
    BigConst(Box<BigInt>),
    Field(Slot),
    /// Action data, where [`Slot::at`] counts from the start of the data.
    Param(Slot),
    Register(RegisterRef, Box<Num>),
    /// A field of the last header of a stack: the stack's counter, the field in each element.
    Last(u32, Box<[Slot]>),
    /// A field of the element with this index.
    Element(Box<[Slot]>, Box<Num>),
    /// The stack's counter, minus one if `true`.
    StackCount(u32, bool),
    Binary(BinaryOp, Box<Num>, Box<Num>),
    Not(Box<Num>),
    If(Box<Bool>, Box<Num>, Box<Num>),
    FromBool(Box<Bool>),
    Cast(Cast, Box<Num>, u32),
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    /// Two's complement of that width.
    Wrap,
    Saturate,
    SaturateUnsigned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Debug)]
pub(crate) enum Bool {
    Const(bool),
    /// A number that is not zero.
    NonZero(Box<Num>),
    NonZeroBig(Box<Num>),
    Not(Box<Bool>),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    Same(Box<Bool>, Box<Bool>),
    If(Box<Bool>, Box<Bool>, Box<Bool>),
    Compare(Compare, Box<Num>, Box<Num>),
    CompareBig(Compare, Box<Num>, Box<Num>),
    Valid(HeaderRef),
    UnionValid(UnionRef),
    SameHeader(HeaderRef, HeaderRef),
    SameUnion(UnionRef, UnionRef),
}

/// A header, or the element of a list of headers that an index chooses.
#[derive(Clone, Debug)]
pub(crate) enum HeaderRef {
    Fixed(u32),
    Element(Box<[u32]>, Box<Num>),
}

#[derive(Clone, Debug)]
pub(crate) enum UnionRef {
    Fixed(u32),
    Element(Box<[u32]>, Box<Num>),
}
