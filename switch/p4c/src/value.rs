//! Values known at compile time.

use num_bigint::BigInt;

/// A value known at compile time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Bool(bool),
    Int(BigInt),
    Str(String),
    Error(String),
    /// Member of an enum without representation, or of `match_kind`.
    Member(String),
}
