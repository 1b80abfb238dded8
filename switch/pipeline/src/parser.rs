//! The parser: states with operations and a select.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{Expression, ParserOpKind, ParserParameter, TransitionKind, Value};

use crate::action::{ActionCompiler, Primitive, Target};
use crate::bits::{read_words, words_for, write_words};
use crate::error::LoadError;
use crate::expr::{Compiler, Condition, Number};
use crate::layout::{Layout, Slot, Stack};
use crate::machine::Machine;

/// A parser that loops without end stops with `ParserTimeout` after this many states.
const MAX_STATES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Parser {
    states: Vec<State>,
    start: Option<u32>,
}

#[derive(Debug)]
struct State {
    ops: Vec<Op>,
    key: Vec<KeyPart>,
    /// Bytes of the key, every part padded to whole bytes.
    key_bytes: usize,
    cases: Vec<Case>,
    default: Option<u32>,
}

#[derive(Debug)]
enum Op {
    Extract(ExtractTo, Option<Number>),
    Set(Target, Number),
    SetLookahead(Target, u32, u32),
    Verify(Condition, Number),
    Advance(Number),
    Primitives(Vec<Primitive>),
}

#[derive(Debug)]
enum ExtractTo {
    Header(u32),
    /// Counter and candidates of a header stack, or of one member of a union stack.
    Stack(u32, Box<[u32]>),
}

#[derive(Debug)]
enum KeyPart {
    Field(Slot),
    /// A field of the last element.
    Last(u32, Box<[Slot]>),
    /// Bit offset and width.
    Lookahead(u32, u32),
}

#[derive(Debug)]
struct Case {
    test: Test,
    next: Option<u32>,
}

#[derive(Debug)]
enum Test {
    Value {
        value: Box<[u8]>,
        mask: Option<Box<[u8]>>,
    },
    ValueSet(u32, Option<Box<[u8]>>),
}

/// Members of a value set: value and mask, padded like the key.
pub(crate) type CompiledMembers = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Codes of the errors that the parser itself raises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCodes {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub invalid_argument: u32,
}

impl ErrorCodes {
    pub fn load(errors: &[(String, u32)]) -> ErrorCodes {
        // Core errors that the program does not number cannot be compared with by it.
        let code = |name: &str, absent| {
            errors
                .iter()
                .find(|(n, _)| n == name)
                .map_or(absent, |(_, code)| *code)
        };
        let top = u32::MAX >> 1;
        ErrorCodes {
            no_error: code("NoError", 0),
            packet_too_short: code("PacketTooShort", top - 1),
            stack_out_of_bounds: code("StackOutOfBounds", top - 2),
            header_too_short: code("HeaderTooShort", top - 3),
            parser_timeout: code("ParserTimeout", top - 4),
            invalid_argument: code("ParserInvalidArgument", top - 5),
        }
    }
}

pub(crate) struct ParserLoader<'a> {
    pub layout: &'a Layout,
    pub actions: &'a ActionCompiler<'a>,
    pub value_sets: &'a HashMap<String, u32>,
    /// Filled in: widths of the key fields of the select that uses a value set.
    pub value_set_fields: &'a mut Vec<Vec<u32>>,
}

type Result<T> = std::result::Result<T, LoadError>;

impl ParserLoader<'_> {
    pub fn load(&mut self, parser: &json::Parser) -> Result<Parser> {
        let names: HashMap<&str, u32> = parser
            .parse_states
            .iter()
            .enumerate()
            .map(|(i, s)| (s.name.as_str(), i as u32))
            .collect();
        let start = names.get(parser.init_state.as_str()).copied();
        if start.is_none() && !parser.parse_states.is_empty() {
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
            ops,
            key,
            key_bytes,
            cases: Vec::new(),
            default: None,
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
                let set = *self
                    .value_sets
                    .get(value)
                    .ok_or_else(|| LoadError::missing("parser value set", value))?;
                let fields = &mut self.value_set_fields[set as usize];
                if fields.is_empty() {
                    *fields = widths.clone();
                } else if *fields != widths {
                    return Err(LoadError::new(
                        format!("parser value set {value}"),
                        "it is used in selects with keys of different widths",
                    ));
                }
                Test::ValueSet(set, mask)
            } else {
                Test::Value {
                    value: self.key_value(value, key_bytes)?,
                    mask,
                }
            };
            state.cases.push(Case { test, next });
        }
        Ok(state)
    }

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

    /// Where to, and one of the headers it may be.
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

fn unwrap(value: &Value) -> &Value {
    match value {
        Value::Expression(e) => match &**e {
            Expression::Value(v) => unwrap(v),
            Expression::Op(_) => value,
        },
        v => v,
    }
}

impl KeyPart {
    fn bits(&self) -> u32 {
        match self {
            KeyPart::Field(s) => s.bits,
            KeyPart::Last(_, slots) => slots.first().map_or(0, |s| s.bits),
            KeyPart::Lookahead(_, bits) => *bits,
        }
    }
}

impl Machine<'_> {
    /// Parses `packet.frame` from its start; sets the payload. Returns the P4 error code.
    pub fn parse(&mut self) -> u32 {
        let parser = &self.program.parser;
        let mut at = 0;
        let mut next = parser.start;
        let mut states = 0;
        let mut error = self.program.errors.no_error;
        while let Some(state) = next {
            states += 1;
            let step = if states > MAX_STATES {
                Err(self.program.errors.parser_timeout)
            } else {
                self.parse_state(&parser.states[state as usize], &mut at)
            };
            match step {
                Ok(state) => next = state,
                Err(code) => {
                    error = code;
                    break;
                }
            }
            if self.packet.requests.exit {
                break;
            }
        }
        self.packet.payload_at = at;
        error
    }

    fn parse_state(
        &mut self,
        state: &State,
        at: &mut usize,
    ) -> std::result::Result<Option<u32>, u32> {
        for op in &state.ops {
            self.parser_op(op, at)?;
        }
        if state.cases.is_empty() {
            return Ok(state.default);
        }
        let mut key = std::mem::take(&mut self.state.scratch);
        let result = self.select(state, *at, &mut key);
        self.state.scratch = key;
        result
    }

    fn parser_op(&mut self, op: &Op, at: &mut usize) -> std::result::Result<(), u32> {
        let errors = self.program.errors;
        match op {
            Op::Extract(ExtractTo::Header(h), length) => self.extract(*h, length.as_ref(), at)?,
            Op::Extract(ExtractTo::Stack(next_at, headers), length) => {
                let next = self.packet.words[*next_at as usize] as usize;
                let h = *headers.get(next).ok_or(errors.stack_out_of_bounds)?;
                self.extract(h, length.as_ref(), at)?;
                self.packet.words[*next_at as usize] += 1;
            }
            Op::Set(to, value) => {
                if value.big {
                    let value = value.tree.eval_big(&self.scope(&[]));
                    if let Target::Field(slot) = to {
                        crate::expr::store_big(&mut self.packet.words, *slot, &value);
                    }
                } else {
                    let value = value.tree.eval(&self.scope(&[]));
                    self.store(to, value, &[]);
                }
            }
            Op::SetLookahead(to, offset, bits) => {
                let start = *at * 8 + *offset as usize;
                if start + *bits as usize > self.packet.frame.len() * 8 {
                    return Err(errors.packet_too_short);
                }
                let mut words = [0u64; 16];
                let n = words_for(*bits).min(16);
                read_words(&self.packet.frame, start, *bits, &mut words[16 - n..]);
                if let Target::Field(slot) = to {
                    copy_low(&mut self.packet.words, *slot, &words);
                }
            }
            Op::Verify(condition, error) => {
                let scope = self.scope(&[]);
                if !condition.eval(&scope) {
                    return Err(error.index(&scope) as u32);
                }
            }
            Op::Advance(bits) => {
                let bits = bits.index(&self.scope(&[]));
                if bits % 8 != 0 {
                    return Err(errors.invalid_argument);
                }
                let left = self.packet.frame.len() - *at;
                match usize::try_from(bits / 8) {
                    Ok(n) if n <= left => *at += n,
                    _ => return Err(errors.packet_too_short),
                }
            }
            Op::Primitives(body) => self.run(body, &[]),
        }
        Ok(())
    }

    fn extract(
        &mut self,
        header: u32,
        length: Option<&Number>,
        at: &mut usize,
    ) -> std::result::Result<(), u32> {
        let errors = self.program.errors;
        let h = self.program.layout.header_at(header);
        let variable = length.map_or(0, |n| n.index(&self.scope(&[])));
        if !variable.is_multiple_of(8) {
            return Err(errors.invalid_argument);
        }
        let left = (self.packet.frame.len() - *at) as u64;
        let bytes = u64::from(h.fixed_bits / 8).saturating_add(variable / 8);
        if bytes > left {
            return Err(errors.packet_too_short);
        }
        if h.max_bytes != 0 && bytes > u64::from(h.max_bytes) {
            return Err(errors.header_too_short);
        }
        let mut bit = *at * 8;
        for field in &h.fields {
            let slot = field.slot;
            let bits = match field.length_at {
                None => slot.bits,
                Some(length_at) => {
                    let bits = variable.min(u64::from(slot.bits)) as u32;
                    self.packet.words[length_at as usize] = u64::from(bits);
                    bits
                }
            };
            let words = &mut self.packet.words[slot.at as usize..(slot.at + slot.words) as usize];
            read_words(&self.packet.frame, bit, bits, words);
            bit += bits as usize;
        }
        *at += bytes as usize;
        self.mark_valid(header);
        Ok(())
    }

    fn select(
        &self,
        state: &State,
        at: usize,
        key: &mut Vec<u8>,
    ) -> std::result::Result<Option<u32>, u32> {
        key.clear();
        key.resize(state.key_bytes, 0);
        let mut end = 0;
        for part in &state.key {
            let bits = part.bits();
            end += bits.div_ceil(8) as usize;
            let bit = end * 8 - bits as usize;
            match part {
                KeyPart::Field(slot) => self.key_field(key, bit, *slot),
                KeyPart::Last(next_at, slots) => {
                    let count = self.packet.words[*next_at as usize] as usize;
                    if let Some(slot) = count.checked_sub(1).and_then(|i| slots.get(i)) {
                        self.key_field(key, bit, *slot);
                    }
                }
                KeyPart::Lookahead(offset, bits) => {
                    let start = at * 8 + *offset as usize;
                    if start + *bits as usize > self.packet.frame.len() * 8 {
                        return Err(self.program.errors.packet_too_short);
                    }
                    let mut words = [0u64; 16];
                    let n = words_for(*bits).min(16);
                    read_words(&self.packet.frame, start, *bits, &mut words[16 - n..]);
                    write_words(key, bit, *bits, &words);
                }
            }
        }
        for case in &state.cases {
            let hit = match &case.test {
                Test::Value { value, mask: None } => **value == key[..],
                Test::Value {
                    value,
                    mask: Some(mask),
                } => masked_equal(key, value, mask),
                Test::ValueSet(set, mask) => self.state.value_sets[*set as usize]
                    .compiled
                    .iter()
                    .any(|(value, member_mask)| match mask {
                        None => masked_equal(key, value, member_mask),
                        Some(mask) => key
                            .iter()
                            .zip(value)
                            .zip(member_mask.iter().zip(mask))
                            .all(|((k, v), (m, n))| k & m & n == v & m & n),
                    }),
            };
            if hit {
                return Ok(case.next);
            }
        }
        Ok(state.default)
    }

    fn key_field(&self, key: &mut [u8], bit: usize, slot: Slot) {
        let words = &self.packet.words[slot.at as usize..(slot.at + slot.words) as usize];
        write_words(key, bit, slot.bits, words);
    }
}

fn masked_equal(key: &[u8], value: &[u8], mask: &[u8]) -> bool {
    key.iter()
        .zip(value)
        .zip(mask)
        .all(|((k, v), m)| k & m == v & m)
}

fn copy_low(words: &mut [u64], slot: Slot, from: &[u64; 16]) {
    let to = &mut words[slot.at as usize..(slot.at + slot.words) as usize];
    let n = to.len().min(16);
    let skipped = to.len() - n;
    to[..skipped].fill(0);
    to[skipped..].copy_from_slice(&from[16 - n..]);
    if !slot.bits.is_multiple_of(64) {
        to[0] &= crate::bits::low_mask(slot.bits % 64);
    }
}
