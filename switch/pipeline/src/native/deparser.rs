//! The function that parses and verifies checksums, and the one that deparses.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;

use super::action::Exit;
use super::calls;
use super::code::Code;
use crate::action::Primitive;
use crate::program::Emit;
use crate::wire::Piece;

impl Code<'_, '_> {
    /// Parses the packet and verifies checksums. The result is the P4 error, with 2^32 if the
    /// checksums are right.
    pub fn begin(&mut self) -> cranelift_codegen::ir::Value {
        let error = self.parse(self.program.parser.start);
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

    /// The word that holds the place of a header in the frame; `None` if nothing is gained by
    /// knowing it, since something may be stored in all parts of the header.
    pub fn home_of(&self, header: u32) -> Option<u32> {
        let (header, stored) = (
            self.program.layout.header_at(header),
            &self.program.usage.stored,
        );
        let is_kept = |chunk: &[Piece]| !chunk.iter().any(|piece| stored[piece.at as usize]);
        header
            .home_at
            .filter(|_| header.pieces.chunks().any(is_kept))
    }

    /// The deparser of a program for Tofino: it asks for headers and copies, which are made behind it. The result is 0.
    pub fn deparser_of(&mut self, body: &[Primitive]) -> cranelift_codegen::ir::Value {
        let data = self.no_data();
        let end = self.block();
        self.body(body, data, &Exit { block: end });
        self.jump(end);
        self.go_on_in(end);
        self.constant(0)
    }

    /// Updates checksums and writes the headers into the frame. The result is their length in
    /// bytes.
    pub fn deparse(&mut self) -> cranelift_codegen::ir::Value {
        let program = self.program;
        self.update_checksums();
        let data = self.no_data();
        let emit = self.block();
        self.body(&program.deparser_calls, data, &Exit { block: emit });
        self.jump(emit);
        self.go_on_in(emit);
        self.write_headers(&program.emit)
    }

    /// Writes those of these headers that are valid into the frame. The result is their length in bytes.
    pub fn write_headers(&mut self, emits: &[Emit]) -> cranelift_codegen::ir::Value {
        let program = self.program;
        let header_bytes = self.measure(emits);
        // This makes room for as many bytes, and nothing below changes which headers are valid.
        let out = self.call(calls::address::make_room(), &[header_bytes]);
        let mut position = self.constant(0);
        for emit in emits {
            let header = program.layout.header_at(emit.header);
            let (present, done) = (self.block(), self.block());
            let end = self.b.append_block_param(done, I64);
            let valid = self.word(emit.valid_at);
            self.b
                .ins()
                .brif(valid, present, &[], done, &[position.into()]);
            self.go_on_in(present);
            let plain = self.block();
            let whole_bytes = emit.fixed_bits.is_multiple_of(8);
            match emit.length_at {
                Some(at) if whole_bytes => {
                    let usual = self.block();
                    let length = self.word(at);
                    self.b.set_cold_block(plain);
                    self.branch(length, plain, usual);
                    self.go_on_in(usual);
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
            if let Some(home_at) = self.home_of(emit.header) {
                // Where the header stays at its place, the frame has what was not stored.
                let (stays, moves) = (self.block(), self.block());
                let home = self.word(home_at);
                let at_home = self.b.ins().icmp(IntCC::Equal, home, position);
                self.b.set_cold_block(moves);
                self.branch(at_home, stays, moves);
                self.go_on_in(stays);
                let stored = &program.usage.stored;
                self.write_chunks(&header.pieces, to, |at| stored[at as usize]);
                self.jump_with(done, behind);
                self.go_on_in(moves);
            }
            self.write_chunks(&header.pieces, to, |_| true);
            self.jump_with(done, behind);
            self.go_on_in(plain);
            let address = self.address(emit);
            let length = self.call(calls::address::emit(), &[address, position]);
            let behind = self.add(position, length);
            self.jump_with(done, behind);
            self.go_on_in(done);
            position = end;
        }
        position
    }
}
