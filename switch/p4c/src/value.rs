//! Values known at compile time.

use num_bigint::BigInt;

/// A value known at compile time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Of type `bool`.
    Bool(bool),
    /// Of type `int`, `bit<W>` or `int<W>`, or of an enum with an underlying type.
    Int(BigInt),
    /// Of type `string`.
    Str(String),
    /// Of type `error`: name of the member.
    Error(String),
    /// Member of an enum without representation, or of `match_kind`.
    Member(String),
}
