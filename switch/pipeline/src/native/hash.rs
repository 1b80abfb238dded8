//! Checksums and hashes over fields.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value};

use super::calls;
use super::code::Code;
use crate::hash::{Algorithm, Crc};

/// Longer inputs than this are summed up by the plain functions.
const MAX_SUMMED_BYTES: usize = 256;
/// Longer inputs than this are hashed by the plain functions.
const MAX_HASHED_BYTES: usize = 64;

impl Code<'_, '_> {
    /// The hash of a calculation's inputs.
    pub fn calculate(&mut self, calculation: u32) -> Value {
        let program = self.program;
        let number = self.constant(u64::from(calculation));
        let Some(usual) = &program.calculations[calculation as usize].usual else {
            return self.call(calls::address::calculate(), &[number]);
        };
        let (unusual, done) = (self.block(), self.block());
        let result = self.b.append_block_param(done, I64);
        for at in &usual.valid {
            let word = self.word(*at);
            let missing = self.is(IntCC::Equal, word, 0);
            self.leave_if(missing, unusual);
        }
        for at in &usual.lengths {
            let word = self.word(*at);
            let present = self.is(IntCC::NotEqual, word, 0);
            self.leave_if(present, unusual);
        }
        let pieces = &usual.pieces;
        let chunks = self.chunks(pieces);
        let generated = self.is_generated(calculation);
        let hash = match &program.algorithms[calculation as usize] {
            Algorithm::Csum16 if generated => self.internet_checksum(chunks),
            Algorithm::Crc(crc) if generated => self.crc(crc, &chunks, pieces.bytes),
            _ => {
                let slot = self.b.create_sized_stack_slot(StackSlotData::new(
                    StackSlotKind::ExplicitSlot,
                    8 * chunks.len().max(1) as u32,
                    3,
                ));
                let bytes = self.b.ins().stack_addr(I64, slot, 0);
                for (i, chunk) in chunks.into_iter().enumerate() {
                    self.store_bytes(bytes, 8 * i, 8, chunk);
                }
                let length = self.constant(pieces.bytes as u64);
                self.call(calls::address::hash(), &[number, bytes, length])
            }
        };
        self.jump_with(done, hash);
        self.go_on_in(unusual);
        let hash = self.call(calls::address::calculate(), &[number]);
        self.jump_with(done, hash);
        self.go_on_in(done);
        result
    }

    /// Whether the calculation has instructions of its own, and keeps no state.
    pub fn is_generated(&self, calculation: u32) -> bool {
        let usual = &self.program.calculations[calculation as usize].usual;
        let bytes = usual.as_ref().map_or(usize::MAX, |u| u.pieces.bytes);
        match &self.program.algorithms[calculation as usize] {
            Algorithm::Csum16 => bytes <= MAX_SUMMED_BYTES,
            Algorithm::Crc(crc) => crc.sliced.is_some() && bytes <= MAX_HASHED_BYTES,
            _ => false,
        }
    }

    /// The Internet checksum (RFC 1071). As 2^16 is 1 in one's complement arithmetic, the words may
    /// have 32 bits until the end.
    fn internet_checksum(&mut self, chunks: Vec<Value>) -> Value {
        let mut sum = self.constant(0);
        for chunk in chunks {
            let high = self.b.ins().ushr_imm(chunk, 32);
            let low = self.low(chunk, 32);
            sum = self.b.ins().iadd(sum, high);
            sum = self.b.ins().iadd(sum, low);
        }
        // The sum of at most 2^6 words of 32 bits has 38 bits; folding leaves 23, 17 and then 16.
        for _ in 0..3 {
            let high = self.b.ins().ushr_imm(sum, 16);
            let low = self.low(sum, 16);
            sum = self.b.ins().iadd(high, low);
        }
        let complement = self.b.ins().bnot(sum);
        self.low(complement, 16)
    }

    /// A reflected CRC of at most 32 bits, up to eight bytes at once ("slicing by 8").
    fn crc(&mut self, crc: &Crc, chunks: &[Value], bytes: usize) -> Value {
        let Some(tables) = &crc.sliced else {
            return self.constant(0);
        };
        // In a register, as an address takes it along with four times a byte.
        let place = self.address(tables);
        let tables = self.load_constant(place, 0);
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let memory = self.b.ins().stack_addr(I64, slot, 0);
        let mut state = self.b.ins().iconst(I32, i64::from(crc.init as u32));
        for (i, chunk) in chunks.iter().enumerate() {
            let length = (bytes - 8 * i).min(8);
            // The first byte of the input meets the low byte of the state. Out of memory a byte takes one instruction.
            let wide = self.b.ins().uextend(I64, state);
            let swapped = self.b.ins().bswap(*chunk);
            let word = self.b.ins().bxor(swapped, wide);
            self.store_little(memory, 0, 8, word);
            let mut sum = match length {
                // This is what remains of the state after these bytes.
                1..4 => Some(self.b.ins().ushr_imm(state, 8 * length as i64)),
                _ => None,
            };
            for k in 0..length {
                let byte = self.load_little(memory, k, 1);
                let offset = self.b.ins().ishl_imm(byte, 2);
                let place = self.add(tables, offset);
                let part = self.load_i32(place, 1024 * (length - 1 - k));
                sum = Some(match sum {
                    None => part,
                    Some(sum) => self.b.ins().bxor(sum, part),
                });
            }
            state = sum.unwrap_or(state);
        }
        let state = self.b.ins().uextend(I64, state);
        let xor_out = self.constant(crc.xor_out);
        self.b.ins().bxor(state, xor_out)
    }
}
