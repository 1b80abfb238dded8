//! The parser: a block of code for every state.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};

use super::action::Exit;
use super::calls::{self, FAILED, offset};
use super::code::Code;
use super::control::{has_circle, reachable};
use crate::action::Target;
use crate::calculation::Input;
use crate::expr::Number;
use crate::packet::Packet;
use crate::parser::{ExtractTo, MAX_STATES, Op, State};
use crate::program::Program;
use crate::slot::Slot;
use crate::wire::{Piece, Pieces};

/// State that the code of all states shares.
struct Walk {
    /// How many bytes have been parsed.
    at: Variable,
    /// How many states have been entered; `None` if the parser cannot loop.
    entered: Option<Variable>,
    /// The address that `at` counts from: that of the frame, or the end of the bytes apart from it.
    base: Variable,
    /// Where the bytes end that lie together.
    length: Variable,
    /// Whether the frame is still to come, behind bytes that are apart from it and lie before 0; `None` if there are
    /// none.
    apart: Option<Variable>,
    /// The block of each state; `None` for states that cannot be reached.
    states: Vec<Option<Block>>,
    /// The block at the end, with the P4 error as argument.
    end: Block,
}

impl Walk {
    /// The block of the next state; `None` is the end.
    fn block(&self, next: Option<u32>) -> Option<Block> {
        next.and_then(|n| self.states[n as usize])
    }
}

impl Code<'_, '_> {
    /// Parses the frame from a state and notes where the payload starts. The results are the P4 error code, and how
    /// many bytes were parsed.
    pub fn parse(&mut self, start: Option<u32>) -> (Value, Value) {
        let (at, base, length) = (self.variable(), self.variable(), self.variable());
        let zero = self.constant(0);
        self.b.def_var(at, zero);
        let frame = self.load_context(offset::FRAME);
        self.b.def_var(base, frame);
        let bytes = self.load_context(offset::FRAME_LENGTH);
        self.b.def_var(length, bytes);
        self.parse_bytes(start, [at, base, length], None)
    }

    /// The same of bytes in front of the frame that are apart from it, and then of the frame.
    pub fn parse_apart(&mut self, start: Option<u32>) -> (Value, Value) {
        let (at, base, length) = (self.variable(), self.variable(), self.variable());
        let begin = self.load_packet(offset_of!(Packet, front.start));
        let end = self.load_packet(offset_of!(Packet, front.end));
        let before = self.b.ins().isub(begin, end);
        self.b.def_var(at, before);
        let packet = self.load_context(offset::PACKET);
        let bytes = self.add_const(packet, offset_of!(Packet, front.bytes) as u64);
        let behind = self.add(bytes, end);
        self.b.def_var(base, behind);
        let (zero, one) = (self.constant(0), self.constant(1));
        self.b.def_var(length, zero);
        let apart = self.variable();
        self.b.def_var(apart, one);
        self.parse_bytes(start, [at, base, length], Some(apart))
    }

    /// Whether a parser reads a packet by generated code alone, which can go on from one place in memory to another.
    pub fn parses_apart(program: &Program, start: Option<u32>) -> bool {
        let states = &program.parser.states;
        let reached = reachable(states.len(), start, |state| {
            following(&states[state as usize])
        });
        let mut reached = states.iter().zip(reached).filter(|(_, reached)| *reached);
        let mut inputs = program.calculations.iter().flat_map(|c| &c.inputs);
        !inputs.any(|input| matches!(input, Input::Payload))
            && reached.all(|(state, _)| {
                (state.cases.is_empty() || state.short.is_some())
                    && state.ops.iter().all(|op| is_generated(program, op))
            })
    }

    fn variable(&mut self) -> Variable {
        self.b.declare_var(I64)
    }

    fn parse_bytes(
        &mut self,
        start: Option<u32>,
        [at, base, length]: [Variable; 3],
        apart: Option<Variable>,
    ) -> (Value, Value) {
        let program = self.program;
        let states = &program.parser.states;
        let next = |state: u32| following(&states[state as usize]);
        let reached = reachable(states.len(), start, next);
        let entered = has_circle(states.len(), start, next).then(|| {
            let entered = self.variable();
            let zero = self.constant(0);
            self.b.def_var(entered, zero);
            entered
        });
        let end = self.block();
        let error = self.b.append_block_param(end, I64);
        let walk = Walk {
            at,
            entered,
            base,
            length,
            apart,
            states: reached
                .into_iter()
                .map(|reached| reached.then(|| self.block()))
                .collect(),
            end,
        };
        self.go_to_state(&walk, start);
        for (state, block) in states.iter().zip(&walk.states) {
            let Some(block) = *block else { continue };
            self.go_on_in(block);
            self.state(&walk, state);
        }
        self.go_on_in(end);
        if apart.is_some() {
            self.end_in_frame(&walk);
        }
        let at = self.b.use_var(at);
        self.store_packet(offset_of!(Packet, payload_at), at);
        (error, at)
    }

    /// Puts bytes that are apart into the frame if the parser ended inside of them.
    fn end_in_frame(&mut self, walk: &Walk) {
        let (inside, on) = (self.block(), self.block());
        let at = self.b.use_var(walk.at);
        let before = self.is(IntCC::SignedLessThan, at, 0);
        self.b.set_cold_block(inside);
        self.branch(before, inside, on);
        self.go_on_in(inside);
        self.join(walk);
        self.jump(on);
        self.go_on_in(on);
    }

    /// Puts bytes that are apart into the frame, which is read from then on.
    fn join(&mut self, walk: &Walk) {
        let begin = self.load_packet(offset_of!(Packet, front.start));
        let end = self.load_packet(offset_of!(Packet, front.end));
        let bytes = self.b.ins().isub(end, begin);
        let at = self.b.use_var(walk.at);
        let at = self.add(at, bytes);
        self.b.def_var(walk.at, at);
        let (frame, length) = self.call_for_two(calls::address::join_front(), &[]);
        self.go_to_frame(walk, frame, length);
    }

    fn go_to_frame(&mut self, walk: &Walk, frame: Value, length: Value) {
        self.b.def_var(walk.base, frame);
        self.b.def_var(walk.length, length);
        if let Some(apart) = walk.apart {
            let none = self.constant(0);
            self.b.def_var(apart, none);
        }
    }

    fn go_to_state(&mut self, walk: &Walk, next: Option<u32>) {
        match walk.block(next) {
            Some(block) => self.jump(block),
            None => {
                let no_error = self.constant(u64::from(self.program.errors.no_error));
                self.jump_with(walk.end, no_error);
            }
        }
    }

    fn fail_with(&mut self, walk: &Walk, code: u32) {
        let code = self.constant(u64::from(code));
        self.jump_with(walk.end, code);
    }

    /// Ends the parser with this error if the condition holds.
    fn fail_if(&mut self, walk: &Walk, condition: Value, code: u32) {
        let fails = self.block();
        let on = self.block();
        self.b.set_cold_block(fails);
        self.branch(condition, fails, on);
        self.go_on_in(fails);
        self.fail_with(walk, code);
        self.go_on_in(on);
    }

    fn state(&mut self, walk: &Walk, state: &State) {
        let errors = self.program.errors;
        if let Some(variable) = walk.entered {
            let entered = self.b.use_var(variable);
            let entered = self.add_const(entered, 1);
            self.b.def_var(variable, entered);
            let too_many = self.is(IntCC::UnsignedGreaterThan, entered, MAX_STATES as u64);
            self.fail_if(walk, too_many, errors.parser_timeout);
        }
        for op in &state.ops {
            self.op(walk, op);
        }
        if state.cases.is_empty() {
            return self.go_to_state(walk, state.default);
        }
        match &state.short {
            Some(short) => {
                let mut key = self.constant(0);
                for (at, shift) in &short.parts {
                    let part = self.word(*at);
                    let part = self.b.ins().ishl_imm(part, i64::from(*shift));
                    key = self.b.ins().bor(key, part);
                }
                for (value, mask, next) in &short.cases {
                    let masked = match *mask {
                        u64::MAX => key,
                        mask => self.b.ins().band_imm(key, mask as i64),
                    };
                    let hit = self.is(IntCC::Equal, masked, *value);
                    let (go, on) = (self.block(), self.block());
                    self.branch(hit, go, on);
                    self.go_on_in(go);
                    self.go_to_state(walk, *next);
                    self.go_on_in(on);
                }
                self.go_to_state(walk, short.default);
            }
            None => self.select(walk, state),
        }
    }

    /// Has the interpreter choose. It returns the number of the state plus one, 0 for the end, or
    /// an error.
    fn select(&mut self, walk: &Walk, state: &State) {
        let address = self.address(state);
        let at = self.b.use_var(walk.at);
        let chosen = self.call(calls::address::select(), &[address, at]);
        self.fail_with_result(walk, chosen);
        let mut switch = Switch::new();
        let mut ends = Vec::new();
        let mut seen = vec![];
        for next in state.cases.iter().map(|c| c.next).chain([state.default]) {
            let Some(next) = next else { continue };
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            let go = self.block();
            switch.set_entry(u128::from(next) + 1, go);
            ends.push((go, next));
        }
        let end = self.block();
        switch.emit(&mut self.b, chosen, end);
        for (go, next) in ends {
            self.go_on_in(go);
            self.go_to_state(walk, Some(next));
        }
        self.go_on_in(end);
        self.go_to_state(walk, None);
    }

    /// Ends the parser if the result of a call is an error.
    fn fail_with_result(&mut self, walk: &Walk, result: Value) {
        let (fails, on) = (self.block(), self.block());
        self.b.set_cold_block(fails);
        let failed = self.is(IntCC::UnsignedGreaterThanOrEqual, result, FAILED);
        self.branch(failed, fails, on);
        self.go_on_in(fails);
        let code = self.low(result, 32);
        self.jump_with(walk.end, code);
        self.go_on_in(on);
    }

    fn op(&mut self, walk: &Walk, op: &Op) {
        let errors = self.program.errors;
        match op {
            Op::Extract(ExtractTo::Header(h), length) if self.is_whole_bytes(*h) => {
                self.extract(walk, *h, length.as_ref());
            }
            Op::Set(
                Target::Field(slot),
                Number {
                    word: Some(word), ..
                },
            ) => {
                let data = self.no_data();
                self.assign(*slot, word, data);
            }
            Op::SetLookahead(Target::Field(slot), offset, bits)
                if is_in_word(*slot, *offset, *bits) =>
            {
                self.lookahead(walk, *slot, *offset, *bits);
            }
            Op::Advance(bits) if passed_over(bits).is_some() => {
                self.advance(walk, passed_over(bits).unwrap_or(0));
            }
            Op::Verify(condition, error) => {
                let data = self.no_data();
                let (fails, on) = (self.block(), self.block());
                self.b.set_cold_block(fails);
                self.branch_on(condition, data, on, fails);
                self.go_on_in(fails);
                let code = self.index(error, data);
                let code = self.low(code, 32);
                self.jump_with(walk.end, code);
                self.go_on_in(on);
            }
            Op::Primitives(body) => {
                let data = self.no_data();
                let stop = self.block();
                self.body(body, data, &Exit { block: stop });
                let on = self.block();
                self.jump(on);
                self.go_on_in(stop);
                self.fail_with(walk, errors.no_error);
                self.go_on_in(on);
            }
            other => {
                let other = self.address(other);
                let at = self.b.use_var(walk.at);
                let at = self.call(calls::address::parser_op(), &[other, at]);
                self.fail_with_result(walk, at);
                self.b.def_var(walk.at, at);
            }
        }
    }

    fn is_whole_bytes(&self, header: u32) -> bool {
        let bits = self.program.layout.header_at(header).fixed_bits;
        bits.is_multiple_of(8)
    }

    /// Extracts a header. The interpreter does it if the header has a variable-length field that is
    /// not empty.
    fn extract(&mut self, walk: &Walk, header: u32, length: Option<&Number>) {
        let program = self.program;
        let errors = program.errors;
        let h = program.layout.header_at(header);
        let done = self.block();
        if let Some(length) = length {
            let data = self.no_data();
            let variable = self.index(length, data);
            let (usual, unusual) = (self.block(), self.block());
            self.b.set_cold_block(unusual);
            self.branch(variable, unusual, usual);
            self.go_on_in(unusual);
            let number = self.constant(u64::from(header));
            let at = self.b.use_var(walk.at);
            let at = self.call(calls::address::extract(), &[number, variable, at]);
            self.fail_with_result(walk, at);
            self.b.def_var(walk.at, at);
            self.jump(done);
            self.go_on_in(usual);
        }
        let bytes = u64::from(h.fixed_bits / 8);
        let (at, end) = self.need(walk, bytes);
        if h.max_bytes != 0 && bytes > u64::from(h.max_bytes) {
            self.fail_with(walk, errors.header_too_short);
        } else {
            let base = self.b.use_var(walk.base);
            let from = self.add(base, at);
            self.read_fields(walk, &h.pieces, at, from);
            if let Some(field) = h.variable {
                let field = &h.fields[field as usize];
                for at in field.slot.at..field.slot.at + field.slot.words {
                    self.set_word_to(at, 0);
                }
                if let Some(at) = field.length_at {
                    self.set_word_to(at, 0);
                }
            }
            self.b.def_var(walk.at, end);
            self.mark_valid(header);
            if let Some(home_at) = self.home_of(header) {
                let home = match walk.apart {
                    None => at,
                    // Bytes before 0 are no place in the frame.
                    Some(_) => {
                        let sign = self.b.ins().sshr_imm(at, 63);
                        self.b.ins().bor(at, sign)
                    }
                };
                self.set_word(home_at, home);
            }
            self.jump(done);
        }
        self.go_on_in(done);
    }

    /// Reads the fields of a header, but for those that are left in the frame if it is there.
    fn read_fields(&mut self, walk: &Walk, pieces: &Pieces, at: Value, from: Value) {
        let left = |piece: &Piece| self.program.usage.left[piece.at as usize];
        if walk.apart.is_none() || !pieces.pieces.iter().any(left) {
            return self.read_pieces(pieces, from);
        }
        let (outside, inside, on) = (self.block(), self.block(), self.block());
        let before = self.is(IntCC::SignedLessThan, at, 0);
        self.b.set_cold_block(outside);
        self.branch(before, outside, inside);
        self.go_on_in(outside);
        self.read_all_pieces(pieces, from);
        self.jump(on);
        self.go_on_in(inside);
        self.read_pieces(pieces, from);
        self.jump(on);
        self.go_on_in(on);
    }

    /// Ends the parser if fewer bytes follow. The results are where they begin and end.
    fn need(&mut self, walk: &Walk, bytes: u64) -> (Value, Value) {
        let Some(apart) = walk.apart else {
            let at = self.b.use_var(walk.at);
            let end = self.add_const(at, bytes);
            let length = self.b.use_var(walk.length);
            let condition = IntCC::UnsignedGreaterThan;
            let short = self.b.ins().icmp(condition, end, length);
            self.fail_if(walk, short, self.program.errors.packet_too_short);
            return (at, end);
        };
        let (look, behind, on) = (self.block(), self.block(), self.block());
        let (other, fails, inside, at_end) =
            (self.block(), self.block(), self.block(), self.block());
        for cold in [behind, other, fails, inside, at_end] {
            self.b.set_cold_block(cold);
        }
        self.jump(look);
        self.go_on_in(look);
        let at = self.b.use_var(walk.at);
        let end = self.add_const(at, bytes);
        let length = self.b.use_var(walk.length);
        let condition = IntCC::SignedGreaterThan;
        let short = self.b.ins().icmp(condition, end, length);
        self.branch(short, behind, on);
        self.go_on_in(behind);
        let is_apart = self.b.use_var(apart);
        self.branch(is_apart, other, fails);
        self.go_on_in(fails);
        self.fail_with(walk, self.program.errors.packet_too_short);
        self.go_on_in(other);
        self.branch(at, inside, at_end);
        self.go_on_in(at_end);
        let frame = self.load_context(offset::FRAME);
        let length = self.load_context(offset::FRAME_LENGTH);
        self.go_to_frame(walk, frame, length);
        self.jump(look);
        self.go_on_in(inside);
        self.join(walk);
        self.jump(look);
        self.go_on_in(on);
        (at, end)
    }

    /// Passes over bytes.
    fn advance(&mut self, walk: &Walk, bytes: u64) {
        let (_, end) = self.need(walk, bytes);
        self.b.def_var(walk.at, end);
    }

    /// Reads bits ahead that lie in eight bytes.
    fn lookahead(&mut self, walk: &Walk, to: Slot, offset: u32, bits: u32) {
        let last = (offset + bits).div_ceil(8);
        let (at, _) = self.need(walk, u64::from(last));
        let first = offset / 8;
        let base = self.b.use_var(walk.base);
        let from = self.add(base, at);
        let bytes = self.load_bytes(from, first as usize, (last - first) as usize);
        let below = 8 * last - (offset + bits);
        let value = self.b.ins().ushr_imm(bytes, i64::from(below));
        let value = self.low(value, bits.min(to.bits));
        self.set_word(to.at, value);
    }
}

/// The states that may follow one.
fn following(state: &State) -> Vec<u32> {
    let all = state.cases.iter().map(|c| c.next).chain([state.default]);
    all.flatten().collect()
}

/// Whole bytes that an operation passes over; `None` if it depends on the packet.
fn passed_over(bits: &Number) -> Option<u64> {
    let bits = bits.constant()?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// Whether an operation of a parser is generated whatever the packet is.
fn is_generated(program: &Program, op: &Op) -> bool {
    match op {
        Op::Extract(ExtractTo::Header(header), None) => {
            let header = program.layout.header_at(*header);
            header.fixed_bits.is_multiple_of(8) && header.variable.is_none()
        }
        Op::Set(Target::Field(_), number) => number.word.is_some(),
        Op::SetLookahead(Target::Field(slot), offset, bits) => is_in_word(*slot, *offset, *bits),
        Op::Advance(bits) => passed_over(bits).is_some_and(|bytes| bytes <= i32::MAX as u64),
        Op::Verify(..) | Op::Primitives(_) => true,
        _ => false,
    }
}

/// Whether bits ahead lie in eight bytes, and fit into one word.
fn is_in_word(slot: Slot, offset: u32, bits: u32) -> bool {
    slot.words == 1 && (1..=64 - offset % 8).contains(&bits)
}
