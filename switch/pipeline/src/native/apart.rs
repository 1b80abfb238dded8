//! The headers that a deparser of Tofino writes: the first one apart from the frame, if the others have the place that
//! was parsed, so that nothing moves.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::calls::offset;
use super::code::Code;
use crate::front::{MAX_HEADER, METADATA_END};
use crate::packet::Packet;
use crate::program::Emit;

impl Code<'_, '_> {
    /// Writes those of these headers that are valid, whatever that takes. The result is 0.
    pub fn write_emitted(&mut self, emits: &[Emit]) -> Value {
        let header_bytes = match emits.split_first() {
            Some((first, others)) if self.can_be_apart(first) => {
                return self.write_apart(first, others);
            }
            _ => self.measure(emits),
        };
        self.fetch_fields();
        let out = self.make_room(header_bytes);
        let start = self.constant(0);
        self.write_from(emits, out, start);
        self.constant(0)
    }

    fn can_be_apart(&self, emit: &Emit) -> bool {
        let header = self.program.layout.header_at(emit.header);
        header.variable.is_none()
            && header.fixed_bits.is_multiple_of(8)
            && (header.fixed_bits / 8) as usize <= MAX_HEADER
    }

    fn write_apart(&mut self, first: &Emit, others: &[Emit]) -> Value {
        let pieces = &self.program.layout.header_at(first.header).pieces;
        let bytes = self.measure(std::slice::from_ref(first));
        let behind = self.measure(others);
        let (stay, looks, fetch) = (self.block(), self.block(), self.block());
        let (move_it, write) = (self.block(), self.block());
        let out = self.b.append_block_param(write, I64);
        let start = self.b.append_block_param(write, I64);
        let payload_at = self.load_packet(offset_of!(Packet, payload_at));
        let fits = self.b.ins().icmp(IntCC::Equal, payload_at, behind);
        self.branch(fits, looks, move_it);
        self.go_on_in(looks);
        let length = self.load_context(offset::FRAME_LENGTH);
        let all = self.add(length, bytes);
        let most = self.load_packet(offset_of!(Packet, truncated_to));
        let whole = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, all, most);
        let at_home = self.block();
        self.branch(whole, at_home, move_it);
        self.go_on_in(at_home);
        match self.moves_left(others) {
            Some(moves) => {
                self.b.set_cold_block(fetch);
                self.branch(moves, fetch, stay);
            }
            None => self.jump(stay),
        }
        self.go_on_in(fetch);
        self.fetch_fields();
        self.jump(stay);

        self.go_on_in(stay);
        let end = self.add_const(bytes, METADATA_END as u64);
        self.store_packet(offset_of!(Packet, front.end), end);
        let packet = self.load_context(offset::PACKET);
        let place = offset_of!(Packet, front.bytes) + METADATA_END;
        let place = self.add_const(packet, place as u64);
        let (present, absent) = (self.block(), self.block());
        self.branch(bytes, present, absent);
        self.go_on_in(present);
        self.write_chunks(pieces, place);
        self.jump(absent);
        self.go_on_in(absent);
        let (frame, zero) = (self.load_context(offset::FRAME), self.constant(0));
        self.b.ins().jump(write, &[frame.into(), zero.into()]);

        self.go_on_in(move_it);
        self.fetch_fields();
        let header_bytes = self.add(bytes, behind);
        let frame = self.make_room(header_bytes);
        let zero = self.constant(0);
        self.write_from(std::slice::from_ref(first), frame, zero);
        self.b.ins().jump(write, &[frame.into(), bytes.into()]);

        self.go_on_in(write);
        self.write_from(others, out, start);
        self.constant(0)
    }

    /// Whether a header of which fields are left in the frame is written elsewhere than it was read, if these headers
    /// begin the frame; not zero if so. `None`: there are no such fields.
    fn moves_left(&mut self, emits: &[Emit]) -> Option<Value> {
        let program = self.program;
        let zero = self.constant(0);
        let (mut moves, mut position) = (None, zero);
        for emit in emits {
            let header = program.layout.header_at(emit.header);
            let mut pieces = header.pieces.pieces.iter();
            if let Some(home_at) = header.home_at
                && pieces.any(|piece| program.usage.left[piece.at as usize])
            {
                let (valid, home) = (self.word(emit.valid_at), self.word(home_at));
                let distance = self.b.ins().bxor(home, position);
                let distance = self.b.ins().select(valid, distance, zero);
                moves = Some(match moves {
                    None => distance,
                    Some(others) => self.b.ins().bor(others, distance),
                });
            }
            let bytes = self.measure(std::slice::from_ref(emit));
            position = self.add(position, bytes);
        }
        moves
    }
}
