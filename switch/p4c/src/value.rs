//! Values known at compile time.

use num_bigint::BigInt;

/// A value known at compile time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Value of type `bool`.
    Bool(bool),
    /// Value of type `int`, `bit<W>` or `int<W>`, or of an enum with an underlying type.
    Int(BigInt),
    /// Value of type `string`.
    Str(String),
    /// Value of type `error`: name of the member.
    Error(String),
    /// Member of an enum without representation, or of `match_kind`.
    Member(String),
}
