//! Packets into their frames and out of them again: see [`Parking`].

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::calls::offset;
use super::code::Code;
use crate::parking::{ParkedHeader, Parking};

impl Code<'_, '_> {
    /// 1, or 0 if the packet has to wait as it is.
    pub fn park(&mut self, parking: &Parking) -> Value {
        let (cannot, done) = (self.block(), self.block());
        let result = self.b.append_block_param(done, I64);
        let mut bytes = self.constant(0);
        for header in &parking.headers {
            let of_this = self.check_header(header, cannot);
            bytes = self.add(bytes, of_this);
        }
        let room = self.load_context(offset::PAYLOAD_AT);
        let condition = IntCC::UnsignedGreaterThan;
        let too_long = self.b.ins().icmp(condition, bytes, room);
        self.leave_if(too_long, cannot);
        let frame = self.load_context(offset::FRAME);
        let mut at = frame;
        for header in &parking.headers {
            at = self.if_valid(header, at, |code, valid| {
                if valid {
                    code.write_pieces(&header.pieces, at);
                }
            });
        }
        let kept = self.load_context(offset::KEPT);
        self.write_pieces(&parking.kept, kept);
        let parked = self.constant(1);
        self.jump_with(done, parked);
        self.go_on_in(cannot);
        let whole = self.constant(0);
        self.jump_with(done, whole);
        self.go_on_in(done);
        result
    }

    pub fn unpark(&mut self, parking: &Parking) -> Value {
        let kept = self.load_context(offset::KEPT);
        self.read_pieces(&parking.kept, kept);
        for at in &parking.ones {
            self.set_word_to(*at, 1);
        }
        let mut at = self.load_context(offset::FRAME);
        for header in &parking.headers {
            at = self.if_valid(header, at, |code, valid| {
                let zeros = match valid {
                    true => {
                        code.read_pieces(&header.pieces, at);
                        header.empty.iter().chain(&header.length_at)
                    }
                    false => header.zero.iter().chain(&None),
                };
                zeros.for_each(|zero| code.set_word_to(*zero, 0));
            });
        }
        self.constant(0)
    }

    /// How many bytes it takes. Goes to `cannot` if it has something unusual.
    fn check_header(&mut self, header: &ParkedHeader, cannot: Block) -> Value {
        let valid = self.word(header.valid_at);
        let zero = self.constant(0);
        if let Some(length_at) = header.length_at {
            let length = self.word(length_at);
            let length = self.b.ins().select(valid, length, zero);
            self.leave_if(length, cannot);
        }
        let left = header.zero.iter().fold(zero, |any, at| {
            let word = self.word(*at);
            self.b.ins().bor(any, word)
        });
        if !header.zero.is_empty() {
            let left = self.b.ins().select(valid, zero, left);
            self.leave_if(left, cannot);
        }
        let bytes = self.constant(header.pieces.bytes as u64);
        self.b.ins().select(valid, bytes, zero)
    }

    /// Does one thing for a valid header, another for one that is not; where the next one is in the frame.
    fn if_valid(
        &mut self,
        header: &ParkedHeader,
        at: Value,
        mut each: impl FnMut(&mut Self, bool),
    ) -> Value {
        let (present, absent, done) = (self.block(), self.block(), self.block());
        let next = self.b.append_block_param(done, I64);
        let valid = self.word(header.valid_at);
        self.branch(valid, present, absent);
        self.go_on_in(present);
        each(self, true);
        let behind = self.add_const(at, header.pieces.bytes as u64);
        self.jump_with(done, behind);
        self.go_on_in(absent);
        each(self, false);
        self.jump_with(done, at);
        self.go_on_in(done);
        next
    }
}
