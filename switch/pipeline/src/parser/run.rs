//! Runs the parser on one packet.

use super::{ExtractTo, KeyPart, Op, State, Test};
use crate::action::Target;
use crate::bits::{read_words, words_for, write_words};
use crate::expr::Number;
use crate::layout::{Field, Header};
use crate::machine::Machine;
use crate::slot::Slot;

/// Most states that a parser may enter. One that loops without end stops with `ParserTimeout`.
pub(crate) const MAX_STATES: usize = 4096;

/// The result of a step, or the code of the P4 error that ends the parser.
type Step<T> = Result<T, u32>;

impl Machine<'_> {
    /// Parses `packet.frame` from its start and notes where the payload starts. Returns the P4
    /// error code.
    pub fn parse(&mut self) -> u32 {
        self.parse_from(self.program.parser.start)
    }

    /// As [`parse`](Self::parse), from a state.
    pub fn parse_from(&mut self, start: Option<u32>) -> u32 {
        let parser = &self.program.parser;
        let mut at = 0;
        let mut next = start;
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
        }
        self.packet.payload_at = at;
        if self.is_traced() {
            self.note_parser_end(error);
        }
        error
    }

    /// Runs a state; returns the next one, or `None` at the end.
    fn parse_state(&mut self, state: &State, at: &mut usize) -> Step<Option<u32>> {
        if self.is_traced() {
            return self.parse_state_traced(state, at);
        }
        for op in &state.ops {
            self.parser_op(op, at)?;
        }
        if state.cases.is_empty() {
            return Ok(state.default);
        }
        match &state.short {
            Some(short) => Ok(short.next(&self.packet.words)),
            None => self.choose_next(state, *at),
        }
    }

    /// Chooses the state after `state`, when `at` bytes have been parsed.
    pub fn choose_next(&mut self, state: &State, at: usize) -> Step<Option<u32>> {
        let mut key = std::mem::take(&mut self.state.scratch);
        let result = self.select(state, at, &mut key);
        self.state.scratch = key;
        result
    }

    /// Runs an operation; `at` is the number of bytes parsed.
    pub fn parser_op(&mut self, op: &Op, at: &mut usize) -> Step<()> {
        let errors = self.program.errors;
        match op {
            Op::Extract(ExtractTo::Header(h), length) => {
                let variable = self.variable_bits(length.as_ref());
                self.extract(*h, variable, at)?;
            }
            Op::Extract(ExtractTo::Stack(next_at, headers), length) => {
                let next = self.packet.words[*next_at as usize] as usize;
                let h = *headers.get(next).ok_or(errors.stack_out_of_bounds)?;
                let variable = self.variable_bits(length.as_ref());
                self.extract(h, variable, at)?;
                self.packet.words[*next_at as usize] += 1;
            }
            Op::Set(to, value) => self.assign(to, value, &[]),
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
            Op::Primitives(body) => {
                self.run(body, &[]);
                if self.packet.requests.exit {
                    return Err(errors.no_error);
                }
            }
        }
        Ok(())
    }

    /// Length of a variable-length field in bits.
    fn variable_bits(&self, length: Option<&Number>) -> u64 {
        length.map_or(0, |n| n.index(&self.scope(&[])))
    }

    /// Extracts a header whose variable-length field has `variable` bits.
    pub fn extract(&mut self, header: u32, variable: u64, at: &mut usize) -> Step<()> {
        let errors = self.program.errors;
        let h = self.program.layout.header_at(header);
        if !variable.is_multiple_of(8) {
            return Err(errors.invalid_argument);
        }
        let left = (self.packet.frame.len() - *at) as u64;
        let bytes = u64::from(h.fixed_bits / 8).saturating_add(variable / 8);
        let odd = u64::from(!h.fixed_bits.is_multiple_of(8));
        if bytes.saturating_add(odd) > left {
            return Err(errors.packet_too_short);
        }
        if h.max_bytes != 0 && bytes > u64::from(h.max_bytes) {
            return Err(errors.header_too_short);
        }
        if variable == 0 && self.program.layout.shortcuts {
            let frame = &self.packet.frame[*at..];
            h.pieces.read(frame, &mut self.packet.words);
            if let Some(field) = h.variable {
                self.empty(&h.fields[field as usize]);
            }
        } else {
            self.extract_variable(h, variable, *at * 8);
        }
        *at += bytes as usize;
        self.mark_valid(header);
        Ok(())
    }

    /// Sets a variable-length field to no bits.
    fn empty(&mut self, field: &Field) {
        let slot = field.slot;
        self.packet.words[slot.at as usize..(slot.at + slot.words) as usize].fill(0);
        if let Some(length_at) = field.length_at {
            self.packet.words[length_at as usize] = 0;
        }
    }

    /// Extracts field by field, because the fields behind the variable-length one are shifted.
    fn extract_variable(&mut self, h: &Header, variable: u64, mut bit: usize) {
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
    }

    /// Chooses the next state by comparing the bytes of the key, which are laid out in `key`.
    fn select(&self, state: &State, at: usize, key: &mut Vec<u8>) -> Step<Option<u32>> {
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
                    .members
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

    /// Writes a field into the key.
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
