//! Compile-time values and arithmetic on them (specification, sections 8.5 to 8.11).

use num_bigint::{BigInt, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::ast::{BinaryOp, UnaryOp};
use crate::limits::{MAX_INT_BITS, MAX_STRING_BYTES};
use crate::types::Type;
pub use crate::value::Value;

/// Reason why an operation has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The divisor is 0.
    DivisionByZero,
    /// An operand of `/` or `%` is negative.
    NegativeOperand,
    /// A shift by a negative or too large number of bits.
    ShiftTooLarge,
    /// The value would have more than [`MAX_INT_BITS`] bits.
    TooLarge,
}

impl EvalError {
    /// The code under which diagnostics report it.
    pub fn code(self) -> &'static str {
        match self {
            EvalError::TooLarge => "too-large",
            _ => "bad-constant",
        }
    }

    /// The reason for users.
    pub fn message(self) -> &'static str {
        match self {
            EvalError::DivisionByZero => "division by zero",
            EvalError::NegativeOperand => "division and modulo need non-negative operands",
            EvalError::ShiftTooLarge => "shift amounts must be between 0 and 65535",
            EvalError::TooLarge => "the value is too large for a constant",
        }
    }
}

/// Most bits of a left shift: larger ones of `int` constants only make the compiler run out of memory.
const MAX_SHIFT: u32 = 65_535;

/// `2^width - 1`
pub fn mask(width: u32) -> BigInt {
    (BigInt::one() << width) - 1
}

/// Smallest and largest value of a type.
pub fn limits(width: u32, signed: bool) -> (BigInt, BigInt) {
    if signed && width > 0 {
        let half = BigInt::one() << (width - 1);
        (-half.clone(), half - 1)
    } else {
        (BigInt::zero(), mask(width))
    }
}

/// Brings a value into the range of `bit<width>` or `int<width>`, modulo `2^width`.
pub fn wrap(value: &BigInt, width: u32, signed: bool) -> BigInt {
    // BigInt `&` works on infinite two's complement, which is what is wanted here.
    let low = value & mask(width);
    if signed && width > 0 && low.bit(u64::from(width) - 1) {
        low - (BigInt::one() << width)
    } else {
        low
    }
}

/// Whether a value is in the range of `bit<width>` or `int<width>`.
pub fn fits(value: &BigInt, width: u32, signed: bool) -> bool {
    let (low, high) = limits(width, signed);
    *value >= low && *value <= high
}

fn fit(value: BigInt, ty: &Type) -> Value {
    Value::Int(match ty.stored() {
        Type::Bits { width, signed } => wrap(&value, *width, *signed),
        _ => value,
    })
}

/// Value of `op operand`, of type `ty`. None: the operator does not take this operand.
pub fn unary(op: UnaryOp, operand: &Value, ty: &Type) -> Option<Value> {
    match (op, operand) {
        (UnaryOp::Not, Value::Bool(b)) => Some(Value::Bool(!b)),
        (UnaryOp::Minus, Value::Int(i)) => Some(fit(-i, ty)),
        (UnaryOp::Plus, Value::Int(i)) => Some(Value::Int(i.clone())),
        (UnaryOp::Complement, Value::Int(i)) => Some(fit(-i - 1, ty)),
        _ => None,
    }
}

/// Value of `left op right`. `ty`: type of the result; `right_width`: width of the right operand of a concatenation.
/// None: the operator does not take these operands.
pub fn binary(
    op: BinaryOp,
    left: &Value,
    right: &Value,
    ty: &Type,
    right_width: u32,
) -> Option<Result<Value, EvalError>> {
    let value = match (left, right) {
        (Value::Int(a), Value::Int(b)) => return Some(integers(op, a, b, ty, right_width)),
        (Value::Bool(a), Value::Bool(b)) => match op {
            BinaryOp::And => *a && *b,
            BinaryOp::Or => *a || *b,
            BinaryOp::Eq => a == b,
            BinaryOp::Ne => a != b,
            _ => return None,
        },
        (Value::Str(a), Value::Str(b)) if op == BinaryOp::Concat => {
            let fits = a.len() + b.len() <= MAX_STRING_BYTES;
            let joined = fits.then(|| Value::Str(format!("{a}{b}")));
            return Some(joined.ok_or(EvalError::TooLarge));
        }
        (a, b) => match op {
            BinaryOp::Eq => a == b,
            BinaryOp::Ne => a != b,
            _ => return None,
        },
    };
    Some(Ok(Value::Bool(value)))
}

fn integers(
    op: BinaryOp,
    a: &BigInt,
    b: &BigInt,
    ty: &Type,
    right_width: u32,
) -> Result<Value, EvalError> {
    let shift = || {
        b.to_u32()
            .filter(|s| *s <= MAX_SHIFT)
            .ok_or(EvalError::ShiftTooLarge)
    };
    let value = match op {
        BinaryOp::Lt => return Ok(Value::Bool(a < b)),
        BinaryOp::Le => return Ok(Value::Bool(a <= b)),
        BinaryOp::Gt => return Ok(Value::Bool(a > b)),
        BinaryOp::Ge => return Ok(Value::Bool(a >= b)),
        BinaryOp::Eq => return Ok(Value::Bool(a == b)),
        BinaryOp::Ne => return Ok(Value::Bool(a != b)),
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div | BinaryOp::Mod => {
            if b.is_zero() {
                return Err(EvalError::DivisionByZero);
            }
            if a.sign() == Sign::Minus || b.sign() == Sign::Minus {
                return Err(EvalError::NegativeOperand);
            }
            if op == BinaryOp::Div { a / b } else { a % b }
        }
        BinaryOp::SatAdd | BinaryOp::SatSub => {
            let exact = if op == BinaryOp::SatAdd { a + b } else { a - b };
            match ty.stored() {
                Type::Bits { width, signed } => {
                    let (low, high) = limits(*width, *signed);
                    exact.clamp(low, high)
                }
                _ => exact,
            }
        }
        BinaryOp::Shl => a << shift()?,
        // A shift by more than the width gives 0, or -1 for negative numbers.
        BinaryOp::Shr => {
            a >> if b.is_negative() {
                return Err(EvalError::ShiftTooLarge);
            } else {
                b.to_u32().unwrap_or(MAX_SHIFT)
            }
        }
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Concat => (a << right_width) | (b & mask(right_width)),
        BinaryOp::And | BinaryOp::Or => a.clone(),
    };
    match fit(value, ty) {
        Value::Int(value) if value.bits() > MAX_INT_BITS => Err(EvalError::TooLarge),
        value => Ok(value),
    }
}

/// The value of an explicit cast, if `from` can be cast to `to`.
pub fn cast(value: &Value, to: &Type) -> Option<Value> {
    match (value, to.stored()) {
        (Value::Int(i), Type::Bits { .. }) => Some(fit(i.clone(), to)),
        (Value::Int(i), Type::Int) => Some(Value::Int(i.clone())),
        (Value::Int(i), Type::Bool) => Some(Value::Bool(!i.is_zero())),
        (Value::Bool(b), Type::Bits { .. }) => Some(Value::Int(u8::from(*b).into())),
        (v, Type::Bool | Type::Error | Type::Enum(_) | Type::String) => Some(v.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calculate(op: BinaryOp, a: i64, b: i64, ty: Type) -> Result<Value, EvalError> {
        integers(op, &a.into(), &b.into(), &ty, 8)
    }

    const INT8: Type = Type::Bits {
        width: 8,
        signed: true,
    };

    #[test]
    fn arithmetic_wraps_and_saturates() {
        let int = |v: i64| Ok(Value::Int(v.into()));
        assert_eq!(calculate(BinaryOp::Add, 250, 10, Type::bit(8)), int(4));
        assert_eq!(calculate(BinaryOp::Sub, 1, 2, Type::bit(8)), int(255));
        assert_eq!(calculate(BinaryOp::Add, 127, 1, INT8), int(-128));
        assert_eq!(calculate(BinaryOp::SatAdd, 250, 10, Type::bit(8)), int(255));
        assert_eq!(calculate(BinaryOp::SatSub, -100, 100, INT8), int(-128));
        assert_eq!(calculate(BinaryOp::Shr, -2, 1, INT8), int(-1));
        assert_eq!(
            calculate(BinaryOp::Concat, 1, -1, Type::bit(16)),
            int(0x1ff)
        );
    }

    #[test]
    fn impossible_operations_are_errors() {
        assert_eq!(
            calculate(BinaryOp::Div, 1, 0, Type::Int),
            Err(EvalError::DivisionByZero)
        );
        assert_eq!(
            calculate(BinaryOp::Shl, 1, 1 << 40, Type::Int),
            Err(EvalError::ShiftTooLarge)
        );
    }
}
