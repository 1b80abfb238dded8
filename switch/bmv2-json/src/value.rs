//! The type-value objects that the format uses for operands, and the expressions built from them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `["header", "field"]`. The pseudo field `$valid$` is the header's validity bit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldRef(pub String, pub String);

impl FieldRef {
    /// The field of a header.
    pub fn new(header: impl Into<String>, field: impl Into<String>) -> Self {
        FieldRef(header.into(), field.into())
    }
    /// Name of the header.
    pub fn header(&self) -> &str {
        &self.0
    }
    /// Name of the field.
    pub fn field(&self) -> &str {
        &self.1
    }
}

impl fmt::Display for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// An object of the form `{"type": ..., "value": ...}`: an operand of an expression, an argument of
/// a primitive, a parameter of a parser operation, an input of a calculation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Value {
    /// A field of a header.
    Field(FieldRef),
    /// A constant.
    Hexstr(HexStr),
    /// A Boolean constant.
    Bool(bool),
    /// A text, as arguments of `log_msg`.
    String(String),
    /// Name of a header.
    Header(String),
    /// Name of a header stack.
    HeaderStack(String),
    /// Name of a header union.
    HeaderUnion(String),
    /// Name of a stack of header unions.
    HeaderUnionStack(String),
    /// Field of the last valid header of a stack: `["stack", "field"]`.
    StackField(FieldRef),
    /// `["union stack", "member", "field"]`, only in transition keys.
    UnionStackField(String, String, String),
    /// `[bit offset, bit width]`, only in parsers.
    Lookahead(u32, u32),
    /// `["register array", index]`.
    Register(String, Box<Value>),
    /// Name of an array of registers.
    RegisterArray(String),
    /// Name of an array of counters.
    CounterArray(String),
    /// Name of an array of meters.
    MeterArray(String),
    /// Name of an array of filters.
    FilterArray(String),
    /// Name of a calculation.
    Calculation(String),
    /// Name of an extern object.
    Extern(String),
    /// An operator with its operands.
    Expression(Box<Expression>),
    /// The parameter of this index of the action, inside of an expression.
    Local(usize),
    /// The parameter of this index of the action, as an argument of a primitive.
    RuntimeData(usize),
    /// Several arguments as one, for `log_msg`.
    ParametersVector(#[serde(deserialize_with = "list_or_empty_map")] Vec<Value>),
    /// Values that are hashed together.
    FieldList(Vec<Value>),
    /// `extract` to a header instance.
    Regular(String),
    /// `extract` to the next element of a header stack.
    Stack(String),
    /// `extract` to the next element of a header union stack: `["union stack", "member"]`.
    UnionStack(String, String),
    /// The rest of the packet behind its headers, in a calculation.
    Payload(Nothing),
}

/// A value that is written as null. In a file that is read it may be anything, or be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // A type that is read as an option may be missing.
        Option::<serde::de::IgnoredAny>::deserialize(d).map(|_| Nothing)
    }
}

/// p4c writes an empty vector as `{}`.
fn list_or_empty_map<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Value>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        List(Vec<Value>),
        Empty {},
    }
    match Either::deserialize(d)? {
        Either::List(values) => Ok(values),
        Either::Empty {} => Ok(Vec::new()),
    }
}

impl Value {
    /// The field of a header.
    pub fn field(header: impl Into<String>, field: impl Into<String>) -> Self {
        Value::Field(FieldRef::new(header, field))
    }

    /// `left op right`.
    pub fn binary(op: impl Into<String>, left: Value, right: Value) -> Self {
        let (left, right) = (Some(Operand::Value(left)), Some(Operand::Value(right)));
        Value::operation(op.into(), left, right, None)
    }

    /// `op right`.
    pub fn unary(op: impl Into<String>, right: Value) -> Self {
        Value::operation(op.into(), None, Some(Operand::Value(right)), None)
    }

    /// `cond ? then : otherwise`.
    pub fn ternary(cond: Value, then: Value, otherwise: Value) -> Self {
        let (left, right) = (Some(Operand::Value(then)), Some(Operand::Value(otherwise)));
        Value::operation("?".into(), left, right, Some(Box::new(cond)))
    }

    fn operation(
        op: String,
        left: Option<Operand>,
        right: Option<Operand>,
        cond: Option<Box<Value>>,
    ) -> Self {
        let operation = Operation {
            op,
            left,
            right,
            cond,
        };
        Value::Expression(Box::new(Expression::Op(operation)))
    }

    /// `access_field` or `access_union_header`: `left` is a header or union, `offset` a member index.
    pub fn access(op: impl Into<String>, left: Value, offset: usize) -> Self {
        let (left, right) = (Some(Operand::Value(left)), Some(Operand::Offset(offset)));
        Value::operation(op.into(), left, right, None)
    }

    /// The extra `{"type": "expression", "value": self}` that arguments of primitives have around
    /// an expression.
    pub fn wrapped(self) -> Self {
        Value::Expression(Box::new(Expression::Value(self)))
    }
}

/// The value of an `expression` object: an operation, or another type-value object in a wrapper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expression {
    /// An operation.
    Op(Operation),
    /// Another object in a wrapper.
    Value(Value),
}

/// An operator with its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Operator as P4 writes it, or a name such as `access_field`, `valid`, `d2b`.
    pub op: String,
    /// Left operand. None: a unary operation.
    #[serde(default)]
    pub left: Option<Operand>,
    /// Right operand, or that of a unary operation.
    #[serde(default)]
    pub right: Option<Operand>,
    /// The condition of the ternary operator `?`; none for other operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cond: Option<Box<Value>>,
}

/// An operand; the right one of `access_field` and `access_union_header` is a bare integer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Operand {
    /// A value or expression.
    Value(Value),
    /// Index of a member.
    Offset(usize),
}

/// A number in hexadecimal, `0x` in front, big-endian, a `-` before it when negative. The number of
/// digits carries the width where the format wants one (match keys, transition values).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HexStr(pub String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a hexadecimal number: expected digits 0-9, a-f after an optional `-` and `0x`"
)]
/// A text that is not a hexadecimal number.
pub struct BadHex(pub String);

impl HexStr {
    /// A number with as few digits as it needs.
    pub fn number(value: u128) -> Self {
        HexStr(format!("{value:#x}"))
    }

    /// A number of exactly `bytes.len()` bytes, big-endian.
    pub fn bytes(bytes: &[u8]) -> Self {
        let mut s = String::with_capacity(2 + 2 * bytes.len());
        s.push_str("0x");
        for b in bytes {
            s.push_str(&format!("{b:02x}"));
        }
        HexStr(s)
    }

    /// `value` padded to the bytes of a field of `bits` bits.
    pub fn padded(value: u128, bits: u32) -> Self {
        let digits = 2 * bits.div_ceil(8) as usize;
        HexStr(format!("0x{value:0digits$x}"))
    }

    /// Whether there is a minus sign.
    pub fn is_negative(&self) -> bool {
        self.0.trim_start().starts_with('-')
    }

    /// The magnitude, big-endian, one byte for every two digits written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadHex> {
        let bad = || BadHex(self.0.clone());
        let s = self.0.trim();
        let s = s.strip_prefix('-').unwrap_or(s);
        let s = s
            .strip_prefix("0x")
            .or_else(|| s.strip_prefix("0X"))
            .unwrap_or(s);
        if s.is_empty() {
            return Err(bad());
        }
        let digits: Vec<u8> = s
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8).ok_or_else(bad))
            .collect::<Result<_, _>>()?;
        let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
        let (odd, pairs) = digits.split_at(digits.len() % 2);
        bytes.extend_from_slice(odd);
        bytes.extend(pairs.chunks_exact(2).map(|p| p[0] << 4 | p[1]));
        Ok(bytes)
    }

    /// The magnitude as a number; none if it needs more than 128 bits.
    pub fn magnitude(&self) -> Result<Option<u128>, BadHex> {
        let bytes = self.to_bytes()?;
        let significant = bytes.iter().skip_while(|b| **b == 0);
        if significant.clone().count() > 16 {
            return Ok(None);
        }
        Ok(Some(significant.fold(0, |n, b| n << 8 | u128::from(*b))))
    }
}

impl From<u128> for HexStr {
    fn from(value: u128) -> Self {
        HexStr::number(value)
    }
}
