//! The function that parses and verifies checksums, and the one that deparses.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::action::Exit;
use super::calls::{self, offset};
use super::code::Code;
use crate::action::Primitive;
use crate::packet::Packet;
use crate::program::{Checksum, Emit};

impl<'p> Code<'p, '_> {
    /// Parses the packet and verifies checksums. The result is the P4 error, with 2^32 if the
    /// checksums are right.
    pub fn begin(&mut self) -> Value {
        self.set_on_arrival();
        let (error, at) = self.parse(self.program.parser.start);
        let header_bytes = match self.program.usage.in_order {
            true => at,
            false => self.measure(&self.program.emit),
        };
        self.store_packet(offset_of!(Packet, header_bytes), header_bytes);
        let right = self.verify_checksums();
        let standard = &self.program.standard;
        let (parser_error, checksum_error) = (standard.parser_error, standard.checksum_error);
        if let Some(place) = parser_error {
            self.set_place(place, error);
        }
        if let Some(place) = checksum_error {
            let wrong = self.b.ins().bxor_imm(right, 1);
            self.set_place(place, wrong);
        }
        let right = self.b.ins().ishl_imm(right, 32);
        self.b.ins().bor(error, right)
    }

    /// The word that holds the place of a header in the frame; `None` if nothing is gained by knowing it, since
    /// something may be stored in all of its fields.
    pub fn home_of(&self, header: u32) -> Option<u32> {
        let (header, usage) = (self.program.layout.header_at(header), &self.program.usage);
        let mut pieces = header.pieces.pieces.iter();
        header
            .home_at
            .filter(|_| pieces.any(|piece| !usage.stored[piece.at as usize]))
    }

    /// The deparser of a program for Tofino: it asks for headers and copies, which are made behind it. The result is 0.
    pub fn deparser_of(&mut self, body: &[Primitive]) -> Value {
        let data = self.no_data();
        let end = self.block();
        self.body(body, data, &Exit { block: end });
        self.jump(end);
        self.go_on_in(end);
        self.constant(0)
    }

    /// Updates checksums and writes the headers into the frame. The result is 0.
    pub fn deparse(&mut self) -> Value {
        let program = self.program;
        self.update_checksums();
        let data = self.no_data();
        let emit = self.block();
        self.body(&program.deparser_calls, data, &Exit { block: emit });
        self.jump(emit);
        self.go_on_in(emit);
        // A call that breaks off may leave another length behind than that of the headers.
        let header_bytes = match program.deparser_calls.is_empty() {
            true => self.load_packet(offset_of!(Packet, header_bytes)),
            false => self.measure(&program.emit),
        };
        self.write_headers(&program.emit, header_bytes)
    }

    /// Where in the frame headers of this length are to be written, with the payload behind them.
    pub fn make_room(&mut self, header_bytes: Value) -> Value {
        let (same, move_it, done) = (self.block(), self.block(), self.block());
        let out = self.b.append_block_param(done, I64);
        self.b.set_cold_block(move_it);
        let payload_at = self.load_packet(offset_of!(Packet, payload_at));
        let fits = self.b.ins().icmp(IntCC::Equal, payload_at, header_bytes);
        self.branch(fits, same, move_it);
        self.go_on_in(same);
        let length = self.load_context(offset::FRAME_LENGTH);
        let most = self.load_packet(offset_of!(Packet, truncated_to));
        let whole = self
            .b
            .ins()
            .icmp(IntCC::UnsignedLessThanOrEqual, length, most);
        let frame = self.load_context(offset::FRAME);
        self.b
            .ins()
            .brif(whole, done, &[frame.into()], move_it, &[]);
        self.go_on_in(move_it);
        let moved = self.call(calls::address::make_room(), &[header_bytes]);
        self.jump_with(done, moved);
        self.go_on_in(done);
        out
    }

    /// Writes those of these headers that are valid into the frame, `header_bytes` in all. The result is 0.
    fn write_headers(&mut self, emits: &[Emit], header_bytes: Value) -> Value {
        let out = self.make_room(header_bytes);
        let start = self.constant(0);
        self.write_from(emits, out, start);
        self.constant(0)
    }

    /// Writes those of these headers that are valid, from a position of the frame on.
    pub fn write_from(&mut self, emits: &[Emit], out: Value, start: Value) {
        let mut position = start;
        for emit in emits {
            let (present, done) = (self.block(), self.block());
            let end = self.b.append_block_param(done, I64);
            let valid = self.word(emit.valid_at);
            self.b
                .ins()
                .brif(valid, present, &[], done, &[position.into()]);
            self.go_on_in(present);
            let behind = self.write_header(emit, out, position);
            self.jump_with(done, behind);
            self.go_on_in(done);
            position = end;
        }
    }

    /// Writes a header to this position of the frame. The result is where it ends.
    fn write_header(&mut self, emit: &Emit, out: Value, position: Value) -> Value {
        let program = self.program;
        let header = program.layout.header_at(emit.header);
        let (plain, done) = (self.block(), self.block());
        let end = self.b.append_block_param(done, I64);
        let whole_bytes = emit.fixed_bits.is_multiple_of(8);
        match emit.length_at {
            Some(at) if whole_bytes => {
                let length = self.word(at);
                self.leave_if(length, plain);
            }
            None if whole_bytes => {}
            _ => {
                self.jump(plain);
                let never = self.block();
                self.go_on_in(never);
            }
        }
        let to = self.add(out, position);
        let behind = self.add_const(position, u64::from(emit.fixed_bits / 8));
        let checksum = self.own_checksum(emit.header);
        if let Some(home_at) = self.home_of(emit.header) {
            // Where the header stays at its place, the frame has what was not stored.
            let (stays, moves) = (self.block(), self.block());
            let home = self.word(home_at);
            let at_home = self.b.ins().icmp(IntCC::Equal, home, position);
            self.b.set_cold_block(moves);
            self.branch(at_home, stays, moves);
            self.go_on_in(stays);
            self.write_stored(&header.pieces, to, checksum);
            self.jump_with(done, behind);
            self.go_on_in(moves);
        }
        if let Some(checksum) = checksum {
            self.update_word(checksum);
        }
        self.write_chunks(&header.pieces, to);
        self.jump_with(done, behind);
        self.go_on_in(plain);
        if let Some(checksum) = checksum {
            self.update_word(checksum);
        }
        let address = self.address(emit);
        let length = self.call(calls::address::emit(), &[address, position]);
        let behind = self.add(position, length);
        self.jump_with(done, behind);
        self.go_on_in(done);
        end
    }

    /// The checksum of a header that is updated when that is written; `None` if it is before, or if there is none.
    fn own_checksum(&self, header: u32) -> Option<&'p Checksum> {
        let (program, in_frame) = (self.program, &self.program.usage.updated_in_frame);
        let updates = program.update.iter().zip(in_frame);
        let mut own = updates.filter_map(|(checksum, in_frame)| in_frame.then_some(checksum));
        own.find(|checksum| checksum.own.is_some_and(|own| own.header == header))
    }
}
