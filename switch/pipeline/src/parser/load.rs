//! Loads a parser of the BMv2 JSON.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{Expression, ParserOpKind, ParserParameter, TransitionKind, Value};

use super::{Case, ExtractTo, KeyPart, Op, Parser, ShortSelect, State, Test};
use crate::action::Target;
use crate::error::LoadError;
use crate::expr::Compiler;
use crate::layout::{Layout, Stack};
use crate::program::ActionCompiler;
use crate::slot::Slot;

/// Loads one parser.
pub(crate) struct ParserLoader<'a> {
    /// Where headers and fields lie.
    pub layout: &'a Layout,
    /// Compiles primitives of parser states.
    pub actions: &'a ActionCompiler<'a>,
    /// Numbers of value sets by name.
    pub value_sets: &'a HashMap<String, u32>,
    /// To be filled in: for each value set, the widths of the key fields of the select that uses
    /// it.
    pub value_set_fields: &'a mut Vec<Vec<u32>>,
}

type Result<T> = std::result::Result<T, LoadError>;

impl ParserLoader<'_> {
    /// Loads all states, which are numbered from `first` on.
    pub fn load(&mut self, parser: &json::Parser, first: u32) -> Result<Parser> {
        let names: HashMap<&str, u32> = parser
            .parse_states
            .iter()
            .enumerate()
            .map(|(i, s)| (s.name.as_str(), first + i as u32))
            .collect();
        let start = names.get(parser.init_state.as_str()).copied();
        if start.is_none() && !parser.init_state.is_empty() {
            return Err(LoadError::missing("parser state", &parser.init_state));
        }
        let states = parser
            .parse_states
            .iter()
            .map(|s| {
                self.state(s, &names)
                    .map_err(|e| e.within(format_args!("parser state {}", s.name)))
            })
            .collect::<Result<_>>()?;
        Ok(Parser { states, start })
    }

    fn state(&mut self, s: &json::ParseState, names: &HashMap<&str, u32>) -> Result<State> {
        let ops = s
            .parser_ops
            .iter()
            .map(|op| {
                self.op(op)
                    .map_err(|e| e.within(format_args!("{:?}", op.op)))
            })
            .collect::<Result<_>>()?;
        let key = s
            .transition_key
            .iter()
            .map(|v| self.key_part(v))
            .collect::<Result<Vec<_>>>()?;
        let widths: Vec<u32> = key.iter().map(KeyPart::bits).collect();
        let key_bytes = widths.iter().map(|w| w.div_ceil(8) as usize).sum();
        let mut state = State {
            name: s.name.clone(),
            ops,
            key,
            key_bytes,
            cases: Vec::new(),
            default: None,
            short: None,
        };
        for t in &s.transitions {
            let next = match &t.next_state {
                None => None,
                Some(name) => Some(
                    *names
                        .get(name.as_str())
                        .ok_or_else(|| LoadError::missing("parser state", name))?,
                ),
            };
            let value = t.value.as_deref().unwrap_or("default");
            let kind = t.kind.unwrap_or(TransitionKind::Hexstr);
            if kind == TransitionKind::Default || value == "default" {
                state.default = next;
                continue;
            }
            let mask = t
                .mask
                .as_ref()
                .map(|m| self.key_value(&m.0, key_bytes))
                .transpose()?;
            let test = if kind == TransitionKind::ParseVset {
                Test::ValueSet(self.value_set(value, &widths)?, mask)
            } else {
                Test::Value {
                    value: self.key_value(value, key_bytes)?,
                    mask,
                }
            };
            state.cases.push(Case { test, next });
        }
        if self.layout.shortcuts {
            state.short = ShortSelect::new(&state.key, &state.cases, state.default);
        }
        Ok(state)
    }

    /// Number of a value set that is used in a select with key fields of these widths, which are noted.
    fn value_set(&mut self, name: &str, widths: &[u32]) -> Result<u32> {
        let set = *self
            .value_sets
            .get(name)
            .ok_or_else(|| LoadError::missing("parser value set", name))?;
        let fields = &mut self.value_set_fields[set as usize];
        if fields.is_empty() {
            *fields = widths.to_vec();
        } else if *fields != widths {
            return Err(LoadError::new(
                format!("parser value set {name}"),
                "it is used in selects with keys of different widths",
            ));
        }
        Ok(set)
    }

    /// A value or mask of a select, padded to the length of its key.
    fn key_value(&self, hex: &str, key_bytes: usize) -> Result<Box<[u8]>> {
        let bytes = json::HexStr(hex.to_owned())
            .to_bytes()
            .map_err(|e| LoadError::new("transition", e.to_string()))?;
        let excess = bytes.len().saturating_sub(key_bytes);
        if bytes[..excess].iter().any(|b| *b != 0) {
            return Err(LoadError::new(
                "transition",
                format!("value {hex} has more than the {key_bytes} bytes of the key"),
            ));
        }
        let mut padded = vec![0; key_bytes];
        let n = bytes.len() - excess;
        padded[key_bytes - n..].copy_from_slice(&bytes[excess..]);
        Ok(padded.into())
    }

    fn op(&mut self, op: &json::ParserOp) -> Result<Op> {
        let expr = Compiler {
            layout: self.layout,
            registers: &self.actions.names.registers,
            params: &[],
        };
        let missing = || {
            LoadError::new(
                "parameters",
                format!("{} are not enough", op.parameters.len()),
            )
        };
        let value = |i: usize| match op.parameters.get(i) {
            Some(ParserParameter::Value(v)) => Ok(v),
            _ => Err(missing()),
        };
        Ok(match op.op {
            ParserOpKind::Extract | ParserOpKind::ExtractVl => {
                let (to, first) = self.extract_to(value(0)?)?;
                let header = self.layout.header_at(first);
                let length = match (op.op, &header.length_exp) {
                    (ParserOpKind::ExtractVl, _) => Some(expr.number(value(1)?)?),
                    (_, Some(length)) => Some(expr.number(length)?),
                    _ if header.variable.is_some() => {
                        return Err(LoadError::new(
                            format!("header {}", header.name),
                            "it has a variable-length field, so it needs extract_VL",
                        ));
                    }
                    _ => None,
                };
                Op::Extract(to, length)
            }
            ParserOpKind::Set => {
                let Value::Field(field) = value(0)? else {
                    return Err(LoadError::new("target", "it is not a field"));
                };
                let slot = self.layout.slot(field)?;
                match unwrap(value(1)?) {
                    Value::Lookahead(offset, bits) => {
                        check_lookahead(*bits)?;
                        Op::SetLookahead(Target::Field(slot), *offset, *bits)
                    }
                    v => Op::Set(Target::Field(slot), expr.number_for(v, slot.bits)?),
                }
            }
            ParserOpKind::Verify => {
                let error = match op.parameters.get(1) {
                    Some(ParserParameter::Value(v)) => expr.number(v)?,
                    Some(ParserParameter::Number(n)) => {
                        expr.number(&Value::Hexstr(json::HexStr::number(u128::from(*n))))?
                    }
                    _ => return Err(missing()),
                };
                Op::Verify(expr.condition(value(0)?)?, error)
            }
            ParserOpKind::Shift => match op.parameters.first() {
                Some(ParserParameter::Number(bytes)) => Op::Advance(
                    expr.number(&Value::Hexstr(json::HexStr::number(8 * u128::from(*bytes))))?,
                ),
                _ => return Err(missing()),
            },
            ParserOpKind::Advance => Op::Advance(expr.number(value(0)?)?),
            ParserOpKind::Primitive => {
                let primitives: Vec<json::Primitive> = op
                    .parameters
                    .iter()
                    .filter_map(|p| match p {
                        ParserParameter::Primitive(p) => Some(p.clone()),
                        _ => None,
                    })
                    .collect();
                Op::Primitives(self.actions.body(&primitives, &[])?)
            }
        })
    }

    /// Destination of an `extract`, and a header of its type.
    fn extract_to(&self, value: &Value) -> Result<(ExtractTo, u32)> {
        let of_stack = |s: &Stack, headers: Vec<u32>| match headers.first().copied() {
            Some(first) => Ok((ExtractTo::Stack(s.next_at, headers.into()), first)),
            None => Err(LoadError::new(format!("stack {}", s.name), "it is empty")),
        };
        match value {
            Value::Regular(name) => {
                let h = self.layout.header(name)?;
                Ok((ExtractTo::Header(h), h))
            }
            Value::Stack(name) => {
                let s = self.layout.stack(name)?;
                of_stack(s, s.elements.clone())
            }
            Value::UnionStack(name, member) => {
                let s = self.layout.union_stack(name)?;
                of_stack(s, self.union_members(s, member)?)
            }
            other => Err(LoadError::new(
                "extract",
                format!("{other:?} is not a header"),
            )),
        }
    }

    /// The headers that are this member in each union of a stack.
    fn union_members(&self, stack: &Stack, member: &str) -> Result<Vec<u32>> {
        stack
            .elements
            .iter()
            .map(|u| {
                let union = &self.layout.unions[*u as usize];
                union
                    .member_names
                    .iter()
                    .position(|n| n == member)
                    .and_then(|i| union.headers.get(i).copied())
                    .ok_or_else(|| {
                        LoadError::new(
                            format!("header union {}", union.name),
                            format!("it has no member {member}"),
                        )
                    })
            })
            .collect()
    }

    fn key_part(&self, value: &Value) -> Result<KeyPart> {
        let fields = |headers: &[u32], field: &str| {
            headers
                .iter()
                .map(|h| Ok(self.layout.header_at(*h).field(field)?.slot))
                .collect::<Result<Box<[Slot]>>>()
        };
        Ok(match value {
            Value::Field(f) => KeyPart::Field(self.layout.slot(f)?),
            Value::StackField(f) => {
                let s = self.layout.stack(f.header())?;
                KeyPart::Last(s.next_at, fields(&s.elements, f.field())?)
            }
            Value::UnionStackField(name, member, field) => {
                let s = self.layout.union_stack(name)?;
                KeyPart::Last(s.next_at, fields(&self.union_members(s, member)?, field)?)
            }
            Value::Lookahead(offset, bits) => {
                check_lookahead(*bits)?;
                KeyPart::Lookahead(*offset, *bits)
            }
            other => {
                return Err(LoadError::new(
                    "transition key",
                    format!("{other:?} is not supported"),
                ));
            }
        })
    }
}

/// Most bits that a parser can look ahead.
const MAX_LOOKAHEAD_BITS: u32 = 1024;

fn check_lookahead(bits: u32) -> Result<()> {
    if bits > MAX_LOOKAHEAD_BITS {
        return Err(LoadError::new(
            "lookahead",
            format!("it has {bits} bits, at most {MAX_LOOKAHEAD_BITS} are supported"),
        ));
    }
    Ok(())
}

/// The value inside an expression that is just a value.
fn unwrap(value: &Value) -> &Value {
    match value {
        Value::Expression(e) => match &**e {
            Expression::Value(v) => unwrap(v),
            Expression::Op(_) => value,
        },
        v => v,
    }
}
