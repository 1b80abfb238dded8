//! Headers out of bytes and into bytes, and the checksums in them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::code::Code;
use crate::expr::Condition;
use crate::program::Checksum;
use crate::wire::{Piece, Pieces};

impl Code<'_, '_> {
    /// Reads fields from bytes, all of which exist.
    pub fn read_pieces(&mut self, pieces: &Pieces, from: Value) {
        let mut first = 0;
        let mut chunk = self.chunk(pieces, from, 0);
        for piece in &pieces.pieces {
            let mut bits = chunk;
            if piece.right != 0 {
                bits = self.b.ins().ishl_imm(bits, i64::from(piece.right));
            }
            if piece.left != 0 {
                bits = self.b.ins().ushr_imm(bits, i64::from(piece.left));
            }
            // A field at the start of a chunk is cut by the shift alone.
            if piece.mask != u64::MAX >> piece.left {
                bits = self.b.ins().band_imm(bits, piece.mask as i64);
            }
            if piece.continues {
                let above = self.word(piece.at);
                bits = self.b.ins().bor(above, bits);
            }
            self.set_word(piece.at, bits);
            if piece.ends {
                first += 8;
                chunk = self.chunk(pieces, from, first);
            }
        }
    }

    /// Eight bytes of the header; what lies behind its end does not matter.
    fn chunk(&mut self, pieces: &Pieces, from: Value, first: usize) -> Value {
        let bytes = pieces.bytes.saturating_sub(first).min(8);
        match bytes {
            0 => self.constant(0),
            8 => self.load_bytes(from, first, 8),
            // This loads the end of the header, and what precedes it.
            _ if pieces.bytes >= 8 => {
                let last = self.load_bytes(from, pieces.bytes - 8, 8);
                self.b.ins().ishl_imm(last, 8 * (8 - bytes) as i64)
            }
            _ => {
                let short = self.load_bytes(from, first, bytes);
                self.b.ins().ishl_imm(short, 8 * (8 - bytes) as i64)
            }
        }
    }

    /// The fields as chunks of eight bytes, the last of which is filled up with zeros.
    pub fn chunks(&mut self, pieces: &Pieces) -> Vec<Value> {
        pieces.chunks().map(|chunk| self.joined(chunk)).collect()
    }

    /// A chunk of eight bytes of these parts, of which there is at least one.
    fn joined(&mut self, parts: &[Piece]) -> Value {
        let mut chunk = None;
        for piece in parts {
            let mut bits = self.word(piece.at);
            if piece.left != 0 {
                bits = self.b.ins().ishl_imm(bits, i64::from(piece.left));
            }
            if piece.right != 0 {
                bits = self.b.ins().ushr_imm(bits, i64::from(piece.right));
            }
            chunk = Some(match chunk {
                None => bits,
                Some(others) => self.b.ins().bor(others, bits),
            });
        }
        chunk.unwrap_or_else(|| self.constant(0))
    }

    /// Writes the fields, and nothing behind them: the chunks with a word that `wanted` says yes to.
    pub fn write_chunks(&mut self, pieces: &Pieces, to: Value, wanted: impl Fn(u32) -> bool) {
        for (i, chunk) in pieces.chunks().enumerate() {
            if !chunk.iter().any(|piece| wanted(piece.at)) {
                continue;
            }
            let value = self.joined(chunk);
            let bytes = (pieces.bytes - 8 * i).min(8);
            let value = match bytes {
                8 => value,
                _ => self.b.ins().ushr_imm(value, 8 * (8 - bytes) as i64),
            };
            self.store_bytes(to, 8 * i, bytes, value);
        }
    }

    /// Whether all checksums that apply are right, as a word.
    pub fn verify_checksums(&mut self) -> Value {
        let program = self.program;
        let mut right = self.constant(1);
        for checksum in &program.verify {
            let (check, done) = (self.block(), self.block());
            let result = self.b.append_block_param(done, I64);
            let valid = self.word(checksum.target_valid_at);
            let valid = self.is(IntCC::NotEqual, valid, 0);
            let applies = self.block();
            self.b
                .ins()
                .brif(valid, applies, &[], done, &[right.into()]);
            self.go_on_in(applies);
            let data = self.no_data();
            match &checksum.condition {
                None | Some(Condition::Const(true)) => self.jump(check),
                Some(condition) => {
                    let skip = self.block();
                    self.branch_on(condition, data, check, skip);
                    self.go_on_in(skip);
                    self.jump_with(done, right);
                }
            }
            self.go_on_in(check);
            let expected = self.calculate(checksum.calculation);
            let found = self.word(checksum.target.at + checksum.target.words - 1);
            let difference = self.b.ins().bxor(expected, found);
            let difference = self.low(difference, checksum.target.bits);
            let same = self.is(IntCC::Equal, difference, 0);
            let same = self.flag(same);
            let both = self.b.ins().band(right, same);
            self.jump_with(done, both);
            self.go_on_in(done);
            right = result;
        }
        right
    }

    pub fn update_checksums(&mut self) {
        let program = self.program;
        for checksum in &program.update {
            self.update_checksum(checksum);
        }
    }

    fn update_checksum(&mut self, checksum: &Checksum) {
        let (update, done) = (self.block(), self.block());
        let data = self.no_data();
        match &checksum.condition {
            None => self.jump(update),
            Some(condition) => self.branch_on(condition, data, update, done),
        }
        self.go_on_in(update);
        let value = self.calculate(checksum.calculation);
        if checksum.target.words == 1 {
            self.store(checksum.target, value);
        } else {
            let above = checksum.target.words - 1;
            for at in checksum.target.at..checksum.target.at + above {
                self.set_word_to(at, 0);
            }
            self.set_word(checksum.target.at + above, value);
        }
        self.jump(done);
        self.go_on_in(done);
    }
}
