//! The math unit of Tofino's registers: a table of 16 entries, so it sees the four leading bits of its operand, and has
//! results of eight. How it rounds is a guess.

use ebb_bmv2_json::Value;

use crate::error::LoadError;

/// Leading bits of the operand that count, and of the result.
const OPERAND_BITS: u32 = 4;
const RESULT_BITS: u32 = 8;

/// `a / b * op(x)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MathUnit {
    op: Op,
    a: u64,
    b: u64,
    /// The largest result.
    most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Multiply,
    Square,
    SquareRoot,
    Divide,
    DivideBySquare,
    DivideByRoot,
}

impl MathUnit {
    /// The unit that the last parameters of a primitive describe: operation, `a`, `b`, bits of the result.
    pub fn load(parameters: &[Value]) -> Result<MathUnit, LoadError> {
        use Op::{Divide, DivideByRoot, DivideBySquare, Multiply, Square, SquareRoot};
        const OPS: [Op; 6] = [
            Multiply,
            Square,
            SquareRoot,
            Divide,
            DivideBySquare,
            DivideByRoot,
        ];
        let number = |at: usize| match parameters.get(at) {
            Some(Value::Hexstr(number)) => {
                u64::from_str_radix(number.0.trim_start_matches("0x"), 16).ok()
            }
            _ => None,
        };
        let op = number(0).and_then(|op| OPS.get(usize::try_from(op).ok()?));
        match (op, number(1), number(2), number(3)) {
            (Some(op), Some(a), Some(b), Some(bits)) if b > 0 => Ok(MathUnit {
                op: *op,
                a,
                b,
                most: crate::bits::low_mask(u32::try_from(bits).unwrap_or(64)),
            }),
            _ => Err(LoadError::new(
                "math_unit",
                "its parameters are target, operand, operation 0 to 5, a, b above 0, and bits of the result",
            )),
        }
    }

    /// The function of a number. Of 0 the quotients are the largest number.
    pub fn of(self, x: u64) -> u64 {
        let x = leading(x, OPERAND_BITS) as f64;
        let value = match self.op {
            Op::Multiply => x,
            Op::Square => x * x,
            Op::SquareRoot => x.sqrt(),
            Op::Divide => 1.0 / x,
            Op::DivideBySquare => 1.0 / (x * x),
            Op::DivideByRoot => 1.0 / x.sqrt(),
        };
        // A conversion to whole numbers saturates.
        let value = (value * self.a as f64 / self.b as f64) as u64;
        leading(value, RESULT_BITS).min(self.most)
    }
}

/// A number with as many leading bits, and zeros below.
fn leading(x: u64, bits: u32) -> u64 {
    let length = u64::BITS - x.leading_zeros();
    let below = length.saturating_sub(bits);
    x >> below << below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(op: Op, a: u64, b: u64) -> MathUnit {
        let most = u64::from(u32::MAX);
        MathUnit { op, a, b, most }
    }

    #[test]
    fn the_operand_has_four_bits_and_the_result_eight() {
        assert_eq!(unit(Op::Multiply, 1, 1).of(0b1_1111), 0b1_1110);
        assert_eq!(unit(Op::Square, 1, 1).of(0b1111_0000), 0b1110_0001 << 8);
        assert_eq!(unit(Op::SquareRoot, 10, 1).of(4), 20);
        assert_eq!(unit(Op::Multiply, 7, 2).of(10), 35);
        assert_eq!(unit(Op::Multiply, 1001, 1).of(1), 1000);
    }

    #[test]
    fn quotients_fall_and_saturate() {
        assert_eq!(unit(Op::Divide, 100, 1).of(8), 12);
        assert_eq!(unit(Op::DivideBySquare, 100, 1).of(5), 4);
        assert_eq!(unit(Op::DivideByRoot, 100, 1).of(4), 50);
        assert_eq!(unit(Op::Divide, 100, 1).of(0), u64::from(u32::MAX));
        assert_eq!(unit(Op::Square, 1, 1).of(1 << 40), u64::from(u32::MAX));
    }
}
