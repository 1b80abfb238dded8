//! The integer expressions of `#if` (C11, 6.10.1), in 64 bits as in the C preprocessor.

use super::token::{Kind, Token};
use crate::source::Span;

/// An error in an expression.
pub(super) struct Problem {
    /// Its place. None: the whole directive.
    pub span: Option<Span>,
    /// Its description.
    pub message: String,
}

/// Expressions nested deeper than this are refused rather than risking the stack.
const MAX_DEPTH: usize = 200;

/// A number, as `intmax_t` or `uintmax_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    bits: u64,
    unsigned: bool,
}

impl Value {
    fn signed(value: i64) -> Value {
        Value {
            bits: value.cast_unsigned(),
            unsigned: false,
        }
    }

    fn truth(value: bool) -> Value {
        Value::signed(i64::from(value))
    }

    fn is_true(self) -> bool {
        self.bits != 0
    }

    fn as_signed(self) -> i64 {
        self.bits.cast_signed()
    }

    fn is_negative(self) -> bool {
        !self.unsigned && self.as_signed() < 0
    }
}

/// Whether an expression is true. `tokens` come with their places and have no macro left; `spelling` has their text.
pub(super) fn evaluate<'a>(
    tokens: &'a [(Token, Span)],
    spelling: &'a dyn Fn(Token) -> &'a str,
) -> Result<bool, Problem> {
    let mut parser = Parser {
        tokens,
        spelling,
        pos: 0,
        depth: 0,
        unused: 0,
    };
    let value = parser.list()?;
    match parser.peek() {
        None => Ok(value.is_true()),
        Some(text) => Err(parser.problem(format!("`{text}` is not expected here"))),
    }
}

struct Parser<'a> {
    tokens: &'a [(Token, Span)],
    spelling: &'a dyn Fn(Token) -> &'a str,
    pos: usize,
    depth: usize,
    /// Number of enclosing operands whose value is not needed, as `1 / 0` in `0 && 1 / 0`.
    unused: usize,
}

/// Binary operators by precedence, loosest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        let (token, _) = self.tokens.get(self.pos)?;
        Some((self.spelling)(*token))
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.peek() == Some(sign);
        self.pos += usize::from(found);
        found
    }

    fn problem(&self, message: impl Into<String>) -> Problem {
        let token = self.tokens.get(self.pos).or(self.tokens.last());
        Problem {
            span: token.map(|(_, place)| *place),
            message: message.into(),
        }
    }

    /// Reads an operand whose value counts only if `used`.
    fn operand_if(
        &mut self,
        used: bool,
        read: impl FnOnce(&mut Self) -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        self.unused += usize::from(!used);
        let value = read(self);
        self.unused -= usize::from(!used);
        value
    }

    fn list(&mut self) -> Result<Value, Problem> {
        let mut value = self.choice()?;
        while self.eat(",") {
            value = self.choice()?;
        }
        Ok(value)
    }

    fn choice(&mut self) -> Result<Value, Problem> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let first = condition.is_true();
        let left = self.operand_if(first, |p| p.nested(Self::list))?;
        if !self.eat(":") {
            return Err(self.problem("`:` is missing in the `#if` expression"));
        }
        let right = self.operand_if(!first, |p| p.nested(Self::choice))?;
        Ok(Value {
            unsigned: left.unsigned || right.unsigned,
            ..if first { left } else { right }
        })
    }

    fn binary(&mut self, level: usize) -> Result<Value, Problem> {
        let Some(operators) = LEVELS.get(level) else {
            return self.nested(Self::operand);
        };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.peek().filter(|text| operators.contains(text)) {
            self.pos += 1;
            let used = match operator {
                "||" => !left.is_true(),
                "&&" => left.is_true(),
                _ => true,
            };
            let right = self.operand_if(used, |p| p.binary(level + 1))?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn apply(&self, operator: &str, left: Value, right: Value) -> Result<Value, Problem> {
        let unsigned = left.unsigned || right.unsigned;
        let (a, b) = (left.bits, right.bits);
        let order = match unsigned {
            true => a.cmp(&b),
            false => left.as_signed().cmp(&right.as_signed()),
        };
        let number = |bits| Value { bits, unsigned };
        Ok(match operator {
            "||" => Value::truth(left.is_true() || right.is_true()),
            "&&" => Value::truth(left.is_true() && right.is_true()),
            "|" => number(a | b),
            "^" => number(a ^ b),
            "&" => number(a & b),
            "==" => Value::truth(a == b),
            "!=" => Value::truth(a != b),
            "<=" => Value::truth(order.is_le()),
            ">=" => Value::truth(order.is_ge()),
            "<" => Value::truth(order.is_lt()),
            ">" => Value::truth(order.is_gt()),
            "<<" | ">>" => shifted(left, right, operator == ">>"),
            "+" => number(a.wrapping_add(b)),
            "-" => number(a.wrapping_sub(b)),
            "*" => number(a.wrapping_mul(b)),
            _ if b == 0 && self.unused > 0 => number(0),
            _ if b == 0 => return Err(self.problem("division by zero in `#if`")),
            "/" if unsigned => number(a / b),
            "/" => Value::signed(left.as_signed().wrapping_div(right.as_signed())),
            _ if unsigned => number(a % b),
            _ => Value::signed(left.as_signed().wrapping_rem(right.as_signed())),
        })
    }

    fn nested<T>(&mut self, read: fn(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.problem("the `#if` expression is nested too deeply"));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn operand(&mut self) -> Result<Value, Problem> {
        let Some((token, place)) = self.tokens.get(self.pos) else {
            return Err(self.problem("the `#if` expression ends too early"));
        };
        let text = (self.spelling)(*token);
        self.pos += 1;
        let at = |message| Problem {
            span: Some(*place),
            message,
        };
        match (token.kind, text) {
            (Kind::Number, _) => {
                number(text).map_err(|why| at(format!("the number `{text}` {why}")))
            }
            (Kind::Char, _) => character(text).map_err(|why| at(format!("{text} {why}"))),
            // A name that is left after macro replacement counts as 0.
            (Kind::Name, _) => Ok(Value::signed(0)),
            (_, "!") => Ok(Value::truth(!self.nested(Self::operand)?.is_true())),
            (_, "-") => self.nested(Self::operand).map(|value| Value {
                bits: value.bits.wrapping_neg(),
                ..value
            }),
            (_, "+") => self.nested(Self::operand),
            (_, "~") => self.nested(Self::operand).map(|value| Value {
                bits: !value.bits,
                ..value
            }),
            (_, "(") => {
                let value = self.list()?;
                match self.eat(")") {
                    true => Ok(value),
                    false => Err(self.problem("`)` is missing in the `#if` expression")),
                }
            }
            _ => Err(at(format!("`{text}` is not expected in `#if`"))),
        }
    }
}

/// A shift, to the other side if the distance is negative. Bits that leave are lost, at any distance.
fn shifted(value: Value, distance: Value, right: bool) -> Value {
    let right = right != distance.is_negative();
    let places = match distance.unsigned {
        true => distance.bits,
        false => distance.as_signed().unsigned_abs(),
    };
    let places = u32::try_from(places).unwrap_or(u32::MAX);
    let bits = match (right, value.unsigned) {
        (false, _) => value.bits.checked_shl(places).unwrap_or(0),
        (true, true) => value.bits.checked_shr(places).unwrap_or(0),
        (true, false) => (value.as_signed() >> places.min(63)).cast_unsigned(),
    };
    Value { bits, ..value }
}

/// A number with the prefixes and suffixes of C. One that is too large loses its upper bits, as with cpp.
fn number(text: &str) -> Result<Value, &'static str> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', _, ..] => (16, &lower[2..]),
        [b'0', b'b', _, ..] => (2, &lower[2..]),
        [b'0', ..] => (8, &lower[..]),
        _ => (10, &lower[..]),
    };
    if text.contains('.') {
        return Err("is no integer");
    }
    let read_as = if radix == 16 { 16 } else { 10 };
    let length = digits
        .find(|c: char| !c.is_digit(read_as))
        .unwrap_or(digits.len());
    let suffix = &text[text.len() - (digits.len() - length)..];
    let suffixes = ["", "l", "ll"];
    let (mut rest, mut unsigned) = (suffix, false);
    for u in ['u', 'U'] {
        if let Some(stripped) = rest.strip_prefix(u).or_else(|| rest.strip_suffix(u)) {
            (rest, unsigned) = (stripped, true);
            break;
        }
    }
    let same_case = rest == rest.to_lowercase() || rest == rest.to_uppercase();
    if length == 0 || !same_case || !suffixes.contains(&rest.to_lowercase().as_str()) {
        return Err("has a suffix that `#if` does not know: u, l and ll are");
    }
    let mut bits = 0u64;
    let mut too_large = false;
    for digit in digits[..length].chars() {
        let digit = digit
            .to_digit(radix)
            .ok_or("has digits that do not fit its base")?;
        too_large |= bits
            .checked_mul(radix.into())
            .is_none_or(|b| b.checked_add(digit.into()).is_none());
        bits = bits.wrapping_mul(radix.into()).wrapping_add(digit.into());
    }
    // A value that does not fit a signed number is an unsigned one.
    let unsigned = unsigned || too_large || bits.cast_signed() < 0;
    Ok(Value { bits, unsigned })
}

/// A character constant; of several characters each has 8 bits of an `int`.
fn character(text: &str) -> Result<Value, &'static str> {
    let wide = text.starts_with('L');
    let inside = &text[1 + usize::from(wide)..text.len() - 1];
    let mut units: Vec<u32> = Vec::new();
    let mut rest = inside;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let mut bytes = [0; 4];
        match (c, wide) {
            ('\\', _) => {
                let (unit, after) = escape(rest).ok_or("has no character behind its `\\`")?;
                units.push(if wide { unit } else { unit & 0xff });
                rest = after;
            }
            (_, true) => units.push(c.into()),
            (_, false) => units.extend(c.encode_utf8(&mut bytes).bytes().map(u32::from)),
        }
    }
    match (&units[..], wide) {
        ([], _) => Err("has no character in it"),
        ([.., last], true) => Ok(Value::signed(last.cast_signed().into())),
        // A `char` is signed.
        ([one], false) => Ok(Value::signed((*one as u8).cast_signed().into())),
        (all, false) => {
            let bits = all.iter().fold(0u32, |bits, unit| bits << 8 | unit);
            Ok(Value::signed(bits.cast_signed().into()))
        }
    }
}

/// The character that stands behind a `\`, and what follows it.
fn escape(text: &str) -> Option<(u32, &str)> {
    let digits = |text: &'_ str, radix, most: usize| {
        let is_digit = |c: &char| c.is_digit(radix);
        let length = text.chars().take(most).take_while(is_digit).count();
        let value = text[..length].chars().fold(0u32, |value, c| {
            let digit = c.to_digit(radix).unwrap_or(0);
            value.wrapping_mul(radix).wrapping_add(digit)
        });
        (value, length)
    };
    let first = text.chars().next()?;
    let after = &text[first.len_utf8()..];
    let value = match first {
        'x' => {
            let (value, length) = digits(after, 16, usize::MAX);
            return Some((value, &after[length..]));
        }
        '0'..='7' => {
            let (value, length) = digits(text, 8, 3);
            return Some((value, &text[length..]));
        }
        'a' => 7,
        'b' => 8,
        't' => 9,
        'n' => 10,
        'v' => 11,
        'f' => 12,
        'r' => 13,
        'e' | 'E' => 27,
        other => other.into(),
    };
    Some((value, after))
}
