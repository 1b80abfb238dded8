//! Compiles the type-value objects of the JSON into [`Num`], [`Bool`] and references.

use std::collections::HashMap;

use ebb_bmv2_json::{Expression, HexStr, Operand, Operation, Value};
use num_bigint::{BigInt, Sign};

use super::range::{Demand, fits};
use super::{BinaryOp, Bool, Cast, Compare, Condition, HeaderRef, Num, Number, UnionRef};
use crate::error::LoadError;
use crate::layout::Layout;
use crate::slot::Slot;
use crate::stateful::RegisterRef;

/// An expression, before it is known what is wanted of it.
enum Typed {
    Num(Num),
    Bool(Bool),
    Header(HeaderRef),
    Union(UnionRef),
    Stack(u32, Box<[u32]>),
    UnionStack(u32, Box<[u32]>),
}

impl Typed {
    fn kind(&self) -> &'static str {
        match self {
            Typed::Num(_) => "a number",
            Typed::Bool(_) => "a boolean",
            Typed::Header(_) => "a header",
            Typed::Union(_) => "a header union",
            Typed::Stack(..) => "a header stack",
            Typed::UnionStack(..) => "a header union stack",
        }
    }
}

/// Compiles expressions.
pub(crate) struct Compiler<'a> {
    /// Where fields and headers lie.
    pub layout: &'a Layout,
    /// Register arrays by name.
    pub registers: &'a HashMap<String, RegisterRef>,
    /// Parameters of the action being compiled.
    pub params: &'a [Slot],
}

type Result<T> = std::result::Result<T, LoadError>;

fn error(problem: impl Into<String>) -> LoadError {
    LoadError::new("expression", problem)
}

fn wants(expected: &str, got: &Typed) -> LoadError {
    error(format!("expected {expected}, found {}", got.kind()))
}

impl Compiler<'_> {
    /// A number that will be stored in `bits` bits.
    pub fn number_for(&self, value: &Value, bits: u32) -> Result<Number> {
        Ok(Number::low(self.num(value)?, bits, self.layout))
    }

    /// A number whose value matters as a whole.
    pub fn number(&self, value: &Value) -> Result<Number> {
        Ok(Number::exact(self.num(value)?, self.layout))
    }

    /// A condition, ready to run.
    pub fn condition(&self, value: &Value) -> Result<Condition> {
        Ok(Condition::new(&self.boolean(value)?, self.layout))
    }

    /// A number as a tree.
    pub fn num(&self, value: &Value) -> Result<Num> {
        match self.typed(value)? {
            Typed::Num(n) => Ok(n),
            // p4c sometimes leaves out the conversion.
            Typed::Bool(b) => Ok(Num::FromBool(Box::new(b))),
            other => Err(wants("a number", &other)),
        }
    }

    fn boolean(&self, value: &Value) -> Result<Bool> {
        match self.typed(value)? {
            Typed::Bool(b) => Ok(b),
            Typed::Num(n) => Ok(non_zero(n)),
            other => Err(wants("a boolean", &other)),
        }
    }

    /// A header.
    pub fn header(&self, value: &Value) -> Result<HeaderRef> {
        match self.typed(value)? {
            Typed::Header(h) => Ok(h),
            other => Err(wants("a header", &other)),
        }
    }

    /// A header union.
    pub fn union(&self, value: &Value) -> Result<UnionRef> {
        match self.typed(value)? {
            Typed::Union(u) => Ok(u),
            other => Err(wants("a header union", &other)),
        }
    }

    /// Counter and elements of a header stack or union stack; `true` for the latter.
    pub fn stack(&self, value: &Value) -> Result<(u32, Box<[u32]>, bool)> {
        match self.typed(value)? {
            Typed::Stack(next, headers) => Ok((next, headers, false)),
            Typed::UnionStack(next, unions) => Ok((next, unions, true)),
            other => Err(wants("a header stack", &other)),
        }
    }

    fn typed(&self, value: &Value) -> Result<Typed> {
        Ok(match value {
            Value::Field(f) => Typed::Num(Num::Field(self.layout.slot(f)?)),
            Value::Hexstr(h) => Typed::Num(constant(h)?),
            Value::Bool(b) => Typed::Bool(Bool::Const(*b)),
            Value::Local(i) | Value::RuntimeData(i) => {
                Typed::Num(Num::Param(*self.params.get(*i).ok_or_else(|| {
                    error(format!(
                        "parameter {i} is used, the action has {}",
                        self.params.len()
                    ))
                })?))
            }
            Value::Header(name) => Typed::Header(HeaderRef::Fixed(self.layout.header(name)?)),
            Value::HeaderStack(name) => {
                let s = self.layout.stack(name)?;
                Typed::Stack(s.next_at, s.elements.clone().into())
            }
            Value::HeaderUnion(name) => Typed::Union(UnionRef::Fixed(self.layout.union(name)?)),
            Value::HeaderUnionStack(name) => {
                let s = self.layout.union_stack(name)?;
                Typed::UnionStack(s.next_at, s.elements.clone().into())
            }
            Value::StackField(f) => {
                let s = self.layout.stack(f.header())?;
                let slots = self.field_of(&s.elements, f.field())?;
                Typed::Num(Num::Last(s.next_at, slots))
            }
            Value::Register(name, index) => {
                let register = *self
                    .registers
                    .get(name)
                    .ok_or_else(|| LoadError::missing("register array", name))?;
                Typed::Num(Num::Register(register, Box::new(self.num(index)?)))
            }
            Value::Expression(e) => match &**e {
                Expression::Value(v) => self.typed(v)?,
                Expression::Op(op) => self
                    .operation(op)
                    .map_err(|e| e.within(format_args!("operation `{}`", op.op)))?,
            },
            other => return Err(error(format!("{other:?} cannot be part of an expression"))),
        })
    }

    fn field_of(&self, headers: &[u32], field: &str) -> Result<Box<[Slot]>> {
        headers
            .iter()
            .map(|h| {
                let header = self.layout.header_at(*h);
                if field == "$valid$" {
                    return Ok(header.valid_slot());
                }
                header.field(field).map(|f| f.slot)
            })
            .collect()
    }

    fn operand<'v>(&self, operand: &'v Option<Operand>, side: &str) -> Result<&'v Value> {
        match operand {
            Some(Operand::Value(v)) => Ok(v),
            Some(Operand::Offset(_)) => Err(error(format!("the {side} operand is a bare number"))),
            None => Err(error(format!("the {side} operand is missing"))),
        }
    }

    fn operation(&self, op: &Operation) -> Result<Typed> {
        let left = || self.operand(&op.left, "left");
        let right = || self.operand(&op.right, "right");
        let binary = |kind| -> Result<Typed> {
            // Unary plus and minus have no left side.
            let a = match &op.left {
                None => Num::Const(0),
                Some(_) => self.num(left()?)?,
            };
            let b = self.num(right()?)?;
            Ok(Typed::Num(fold(kind, a, b)))
        };
        let logical = |make: fn(Box<Bool>, Box<Bool>) -> Bool| -> Result<Typed> {
            Ok(Typed::Bool(make(
                Box::new(self.boolean(left()?)?),
                Box::new(self.boolean(right()?)?),
            )))
        };
        let ordering = |kind| -> Result<Typed> {
            Ok(Typed::Bool(comparison(
                kind,
                self.num(left()?)?,
                self.num(right()?)?,
            )))
        };
        let cast = |kind| -> Result<Typed> {
            let width = match self.num(right()?)? {
                Num::Const(n) if (0..=1 << 16).contains(&n) => n as u32,
                _ => return Err(error("the width is not a constant")),
            };
            Ok(Typed::Num(Num::Cast(
                kind,
                Box::new(self.num(left()?)?),
                width,
            )))
        };
        match op.op.as_str() {
            "+" => binary(BinaryOp::Add),
            "-" => binary(BinaryOp::Sub),
            "*" => binary(BinaryOp::Mul),
            "/" => binary(BinaryOp::Div),
            "%" => binary(BinaryOp::Mod),
            "<<" => binary(BinaryOp::Shl),
            ">>" => binary(BinaryOp::Shr),
            "&" => binary(BinaryOp::And),
            "|" => binary(BinaryOp::Or),
            "^" => binary(BinaryOp::Xor),
            "~" => Ok(Typed::Num(Num::Not(Box::new(self.num(right()?)?)))),
            "<" => ordering(Compare::Lt),
            "<=" => ordering(Compare::Le),
            ">" => ordering(Compare::Gt),
            ">=" => ordering(Compare::Ge),
            "==" => self.equality(left()?, right()?).map(Typed::Bool),
            "!=" => Ok(Typed::Bool(negate(self.equality(left()?, right()?)?))),
            "and" => logical(Bool::And),
            "or" => logical(Bool::Or),
            "not" => Ok(Typed::Bool(negate(self.boolean(right()?)?))),
            "d2b" => self.boolean(right()?).map(Typed::Bool),
            "b2d" => self.num(right()?).map(Typed::Num),
            "valid" => self.header(right()?).map(|h| Typed::Bool(Bool::Valid(h))),
            "valid_union" => self
                .union(right()?)
                .map(|u| Typed::Bool(Bool::UnionValid(u))),
            "two_comp_mod" => cast(Cast::Wrap),
            "sat_cast" => cast(Cast::Saturate),
            "usat_cast" => cast(Cast::SaturateUnsigned),
            "?" => self.ternary(op, left()?, right()?),
            "last_stack_index" | "size_stack" => {
                let (next, _, _) = self.stack(right()?)?;
                Ok(Typed::Num(Num::StackCount(
                    next,
                    op.op == "last_stack_index",
                )))
            }
            "dereference_header_stack" => {
                let (_, headers, _) = self.stack(left()?)?;
                Ok(Typed::Header(match self.num(right()?)? {
                    Num::Const(n) => HeaderRef::Fixed(element(&headers, n)?),
                    index => HeaderRef::Element(headers, Box::new(index)),
                }))
            }
            "dereference_union_stack" => {
                let (_, unions, _) = self.stack(left()?)?;
                Ok(Typed::Union(match self.num(right()?)? {
                    Num::Const(n) => UnionRef::Fixed(element(&unions, n)?),
                    index => UnionRef::Element(unions, Box::new(index)),
                }))
            }
            "access_field" => self.access_field(left()?, offset(op)?).map(Typed::Num),
            "access_union_header" => self
                .access_union_header(left()?, offset(op)?)
                .map(Typed::Header),
            _ => Err(error("it is not supported")),
        }
    }

    fn equality(&self, left: &Value, right: &Value) -> Result<Bool> {
        Ok(match (self.typed(left)?, self.typed(right)?) {
            (Typed::Num(a), Typed::Num(b)) => comparison(Compare::Eq, a, b),
            (Typed::Bool(a), Typed::Bool(b)) => Bool::Same(Box::new(a), Box::new(b)),
            (Typed::Bool(a), Typed::Num(b)) | (Typed::Num(b), Typed::Bool(a)) => {
                Bool::Same(Box::new(a), Box::new(non_zero(b)))
            }
            (Typed::Header(a), Typed::Header(b)) => Bool::SameHeader(a, b),
            (Typed::Union(a), Typed::Union(b)) => Bool::SameUnion(a, b),
            (a, b) => {
                return Err(error(format!(
                    "{} cannot be compared with {}",
                    a.kind(),
                    b.kind()
                )));
            }
        })
    }

    fn ternary(&self, op: &Operation, left: &Value, right: &Value) -> Result<Typed> {
        let cond = op
            .cond
            .as_deref()
            .ok_or_else(|| error("the condition is missing"))?;
        let cond = Box::new(self.boolean(cond)?);
        Ok(match (self.typed(left)?, self.typed(right)?) {
            (Typed::Num(a), Typed::Num(b)) => Typed::Num(Num::If(cond, Box::new(a), Box::new(b))),
            (Typed::Bool(a), Typed::Bool(b)) => {
                Typed::Bool(Bool::If(cond, Box::new(a), Box::new(b)))
            }
            (a, b) => {
                return Err(error(format!(
                    "the branches are {} and {}",
                    a.kind(),
                    b.kind()
                )));
            }
        })
    }

    fn access_field(&self, header: &Value, field: usize) -> Result<Num> {
        let slot = |h: u32| {
            let header = self.layout.header_at(h);
            match header.fields.get(field) {
                Some(f) => Ok(f.slot),
                // The hidden validity bit comes after the other fields.
                None if field == header.fields.len() => Ok(header.valid_slot()),
                None => Err(error(format!(
                    "header {} has no field number {field}",
                    header.name
                ))),
            }
        };
        Ok(match self.header(header)? {
            HeaderRef::Fixed(h) => Num::Field(slot(h)?),
            HeaderRef::Element(headers, index) => Num::Element(
                headers.iter().map(|h| slot(*h)).collect::<Result<_>>()?,
                index,
            ),
        })
    }

    fn access_union_header(&self, union: &Value, member: usize) -> Result<HeaderRef> {
        let header = |u: u32| {
            let union = &self.layout.unions[u as usize];
            union
                .headers
                .get(member)
                .copied()
                .ok_or_else(|| error(format!("union {} has no member {member}", union.name)))
        };
        Ok(match self.union(union)? {
            UnionRef::Fixed(u) => HeaderRef::Fixed(header(u)?),
            UnionRef::Element(unions, index) => HeaderRef::Element(
                unions.iter().map(|u| header(*u)).collect::<Result<_>>()?,
                index,
            ),
        })
    }
}

fn element(elements: &[u32], index: i128) -> Result<u32> {
    usize::try_from(index)
        .ok()
        .and_then(|i| elements.get(i).copied())
        .ok_or_else(|| {
            error(format!(
                "index {index} is outside a stack of {}",
                elements.len()
            ))
        })
}

fn offset(op: &Operation) -> Result<usize> {
    match &op.right {
        Some(Operand::Offset(n)) => Ok(*n),
        _ => Err(error("the right operand is not a bare number")),
    }
}

fn non_zero(n: Num) -> Bool {
    if fits(&n, Demand::Exact) {
        Bool::NonZero(Box::new(n))
    } else {
        Bool::NonZeroBig(Box::new(n))
    }
}

fn comparison(op: Compare, a: Num, b: Num) -> Bool {
    // Equality of unsigned fields of up to 128 bits needs only their bits.
    let raw = |n: &Num| matches!(n, Num::Field(s) | Num::Param(s) if !s.signed);
    let demand = match op {
        Compare::Eq | Compare::Ne if raw(&a) && raw(&b) => Demand::Low,
        _ => Demand::Exact,
    };
    if fits(&a, demand) && fits(&b, demand) {
        Bool::Compare(op, Box::new(a), Box::new(b))
    } else {
        Bool::CompareBig(op, Box::new(a), Box::new(b))
    }
}

fn negate(b: Bool) -> Bool {
    match b {
        Bool::Compare(Compare::Eq, a, b) => Bool::Compare(Compare::Ne, a, b),
        Bool::Not(b) => *b,
        b => Bool::Not(Box::new(b)),
    }
}

/// Omits masks that the width of a field makes idle: p4c writes `(f & 0xff)` for every cast.
fn fold(op: BinaryOp, a: Num, b: Num) -> Num {
    if op == BinaryOp::And
        && let (Num::Field(s) | Num::Param(s), Num::Const(mask)) = (&a, &b)
        && !s.signed
        && s.bits < 127
        && *mask >= 0
        && (*mask as u128) & ((1 << s.bits) - 1) == (1 << s.bits) - 1
    {
        return a;
    }
    Num::Binary(op, Box::new(a), Box::new(b))
}

/// A constant as a number.
pub(crate) fn constant(hex: &HexStr) -> Result<Num> {
    let bytes = hex.to_bytes().map_err(|e| error(e.to_string()))?;
    let sign = if hex.is_negative() {
        Sign::Minus
    } else {
        Sign::Plus
    };
    let n = BigInt::from_bytes_be(sign, &bytes);
    Ok(match i128::try_from(&n) {
        Ok(n) => Num::Const(n),
        Err(_) => Num::BigConst(Box::new(n)),
    })
}
