//! Headers out of bytes and into bytes, and the checksums in them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::calls::offset;
use super::code::Code;
use crate::expr::{Compare, Condition};
use crate::layout::NO_HOME;
use crate::program::{Checksum, OwnChecksum};
use crate::wire::{Piece, Pieces};

impl Code<'_, '_> {
    /// Reads fields from bytes, all of which exist, but for those that the parser leaves in the frame.
    pub fn read_pieces(&mut self, pieces: &Pieces, from: Value) {
        let left = &self.program.usage.left;
        self.read_those(pieces, from, |piece| !left[piece.at as usize]);
    }

    /// Reads all fields from bytes, all of which exist.
    pub fn read_all_pieces(&mut self, pieces: &Pieces, from: Value) {
        self.read_those(pieces, from, |_| true);
    }

    fn read_those(&mut self, pieces: &Pieces, from: Value, is_wanted: impl Fn(&Piece) -> bool) {
        for (i, chunk) in pieces.chunks().enumerate() {
            let mut whole_chunk = None;
            for piece in chunk.iter().filter(|p| is_wanted(p)) {
                match Window::around(pieces, 8 * i, piece) {
                    Some(_) if piece.continues => {}
                    Some(window) => self.read_window(&window, from, piece),
                    None => {
                        let bytes = whole_chunk.unwrap_or_else(|| self.chunk(pieces, from, 8 * i));
                        whole_chunk = Some(bytes);
                        self.read_piece(piece, bytes);
                    }
                }
            }
        }
    }

    /// Reads a word that lies across two chunks.
    fn read_window(&mut self, window: &Window, from: Value, piece: &Piece) {
        let mut bits = self.load_bytes(from, window.first, 8);
        if window.behind != 0 {
            bits = self.b.ins().ushr_imm(bits, i64::from(window.behind));
        }
        if piece.mask != u64::MAX >> window.behind {
            bits = self.b.ins().band_imm(bits, piece.mask as i64);
        }
        self.set_word(piece.at, bits);
    }

    fn read_piece(&mut self, piece: &Piece, chunk: Value) {
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
    fn joined<'a>(&mut self, parts: impl IntoIterator<Item = &'a Piece>) -> Value {
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

    /// Writes the fields, and nothing behind them.
    pub fn write_chunks(&mut self, pieces: &Pieces, to: Value) {
        for (i, chunk) in pieces.chunks().enumerate() {
            let value = self.joined(chunk);
            self.store_chunk(pieces, to, i, value);
        }
    }

    /// Stores a chunk, as far as the header goes.
    fn store_chunk(&mut self, pieces: &Pieces, to: Value, i: usize, value: Value) {
        let bytes = (pieces.bytes - 8 * i).min(8);
        let value = match bytes {
            8 => value,
            _ => self.b.ins().ushr_imm(value, 8 * (8 - bytes) as i64),
        };
        self.store_bytes(to, 8 * i, bytes, value);
    }

    /// Writes the fields that something may have stored over those in the frame, and a checksum of them all.
    pub fn write_stored(&mut self, pieces: &Pieces, to: Value, checksum: Option<&Checksum>) {
        let stored = &self.program.usage.stored;
        let own = checksum.and_then(|c| Some((c.own?.byte as usize, c.target.at)));
        let mut sum = None;
        for (i, chunk) in pieces.chunks().enumerate() {
            let is_stored =
                |p: &&Piece| stored[p.at as usize] && own.is_none_or(|(_, at)| at != p.at);
            let new: Vec<&Piece> = chunk.iter().filter(is_stored).collect();
            let value = if own.is_none() && new.is_empty() {
                continue;
            } else if new.len() == chunk.len() {
                self.joined(chunk)
            } else if own.is_none()
                && let Some((first, bytes)) = whole_bytes(&new)
            {
                let value = self.joined(new.iter().copied());
                let value = self.b.ins().ushr_imm(value, 8 * (8 - first - bytes) as i64);
                self.store_bytes(to, 8 * i + first, bytes, value);
                continue;
            } else {
                let old = self.chunk_alone(pieces, to, i);
                let replaced = |p: &&Piece| own.is_some_and(|(_, at)| at == p.at) || is_stored(p);
                let kept = !chunk
                    .iter()
                    .filter(replaced)
                    .fold(0, |bits, p| bits | bits_of(p));
                let old = self.b.ins().band_imm(old, kept as i64);
                match new.is_empty() {
                    true => old,
                    false => {
                        let new_bits = self.joined(new.iter().copied());
                        self.b.ins().bor(old, new_bits)
                    }
                }
            };
            if !new.is_empty() {
                self.store_chunk(pieces, to, i, value);
            }
            if own.is_some() {
                // In the order of the processor, in which the frame is summed up.
                let swapped = self.b.ins().bswap(value);
                sum = Some(self.add_halves(sum, swapped));
            }
        }
        if let (Some((byte, _)), Some(sum)) = (own, sum) {
            let value = self.complement(sum);
            self.store_little(to, byte, 2, value);
        }
    }

    /// Bytes of a chunk, which nothing but them may be read for; zeros behind them.
    fn chunk_alone(&mut self, pieces: &Pieces, from: Value, i: usize) -> Value {
        let bytes = (pieces.bytes - 8 * i).min(8);
        let value = self.load_bytes(from, 8 * i, bytes);
        match bytes {
            8 => value,
            _ => self.b.ins().ishl_imm(value, 8 * (8 - bytes) as i64),
        }
    }

    /// The Internet checksum of a header in the frame but two bytes of it; in the order of the processor.
    fn checksum_in_frame(&mut self, pieces: &Pieces, from: Value, without: usize) -> Value {
        let mut sum = None;
        let mut first = 0;
        while first < pieces.bytes {
            let bytes = match pieces.bytes - first {
                8.. => 8,
                4..8 => 4,
                2..4 => 2,
                _ => 1,
            };
            let mut part = self.load_little(from, first, bytes);
            if (first..first + bytes).contains(&without) {
                let kept = !(0xffff_u64 << (8 * (without - first)));
                part = self.b.ins().band_imm(part, kept as i64);
            }
            sum = Some(match bytes {
                8 => self.add_halves(sum, part),
                _ => match sum {
                    Some(sum) => self.add(sum, part),
                    None => part,
                },
            });
            first += bytes;
        }
        let sum = sum.unwrap_or_else(|| self.constant(0));
        self.complement(sum)
    }

    /// Adds both halves of a word to a sum. As 2^16 is 1 in one's complement arithmetic, they count as what they are.
    fn add_halves(&mut self, sum: Option<Value>, word: Value) -> Value {
        let high = self.b.ins().ushr_imm(word, 32);
        let low = self.low(word, 32);
        let both = self.add(high, low);
        match sum {
            None => both,
            Some(sum) => self.add(sum, both),
        }
    }

    /// The complement of a sum in one's complement arithmetic of 16 bits. Rotated by half and added to itself, a
    /// number has in its upper half the sum of both halves, with the carry.
    fn complement(&mut self, sum: Value) -> Value {
        let turned = self.b.ins().rotl_imm(sum, 32);
        let folded = self.add(sum, turned);
        let folded = self.b.ins().ushr_imm(folded, 32);
        let folded = self.b.ins().ireduce(I32, folded);
        let turned = self.b.ins().rotl_imm(folded, 16);
        let folded = self.b.ins().iadd(folded, turned);
        let folded = self.b.ins().bnot(folded);
        let folded = self.b.ins().ushr_imm(folded, 16);
        self.b.ins().uextend(I64, folded)
    }

    /// Whether all checksums that apply are right, as a word.
    pub fn verify_checksums(&mut self) -> Value {
        let program = self.program;
        let mut right = self.constant(1);
        for (checksum, in_frame) in program.verify.iter().zip(&program.usage.verified_in_frame) {
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
                Some(Condition::Field(Compare::Ne, at, 0)) if *at == checksum.target_valid_at => {
                    self.jump(check);
                }
                Some(condition) => {
                    let skip = self.block();
                    self.branch_on(condition, data, check, skip);
                    self.go_on_in(skip);
                    self.jump_with(done, right);
                }
            }
            self.go_on_in(check);
            let same = match checksum.own {
                Some(own) if *in_frame => self.is_right_in_frame(checksum, own),
                _ => self.is_right(checksum),
            };
            let both = self.b.ins().band(right, same);
            self.jump_with(done, both);
            self.go_on_in(done);
            right = result;
        }
        right
    }

    /// Whether a checksum is that of its inputs, as a word.
    fn is_right(&mut self, checksum: &Checksum) -> Value {
        let expected = self.calculate(checksum.calculation);
        let found = self.word(checksum.target.at + checksum.target.words - 1);
        let difference = self.b.ins().bxor(expected, found);
        let difference = self.low(difference, checksum.target.bits);
        let same = self.is(IntCC::Equal, difference, 0);
        self.flag(same)
    }

    /// The same for one of bytes in the frame, unless its header has no place there.
    fn is_right_in_frame(&mut self, checksum: &Checksum, own: OwnChecksum) -> Value {
        let Some(home_at) = self.home_of(own.header) else {
            return self.is_right(checksum);
        };
        let (away, done) = (self.block(), self.block());
        let result = self.b.append_block_param(done, I64);
        let home = self.word(home_at);
        let is_away = self.is(IntCC::Equal, home, NO_HOME);
        self.leave_if(is_away, away);
        let frame = self.load_context(offset::FRAME);
        let from = self.add(frame, home);
        let pieces = &self.program.layout.header_at(own.header).pieces;
        let byte = own.byte as usize;
        let expected = self.checksum_in_frame(pieces, from, byte);
        let found = self.load_little(from, byte, 2);
        let same = self.b.ins().icmp(IntCC::Equal, expected, found);
        let same = self.flag(same);
        self.jump_with(done, same);
        self.go_on_in(away);
        let same = self.is_right(checksum);
        self.jump_with(done, same);
        self.go_on_in(done);
        result
    }

    /// Updates the checksums that are not made when their header is written.
    pub fn update_checksums(&mut self) {
        let program = self.program;
        let updates = program.update.iter().zip(&program.usage.updated_in_frame);
        for (checksum, _) in updates.filter(|(_, in_frame)| !**in_frame) {
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
        self.update_word(checksum);
        self.jump(done);
        self.go_on_in(done);
    }

    /// Stores a checksum in its field.
    pub fn update_word(&mut self, checksum: &Checksum) {
        let value = self.calculate(checksum.calculation);
        self.store_wide(checksum.target, value);
    }
}

/// Eight bytes of a header with all bits of a word that lies across two chunks.
struct Window {
    /// The first of the bytes.
    first: usize,
    /// How many bits follow the word in them.
    behind: u32,
}

impl Window {
    /// The window of a part of a word, in the chunk from this byte on; `None` if the word is in one chunk, or in no
    /// eight bytes of the header.
    fn around(pieces: &Pieces, chunk: usize, part: &Piece) -> Option<Window> {
        let behind_chunk = match (part.continues, part.right) {
            (true, _) => u64::BITS as usize - usize::from(part.left),
            (false, 0) => return None,
            (false, right) => u64::BITS as usize + usize::from(right),
        };
        let end = 8 * chunk + behind_chunk;
        let start = end - part.mask.count_ones() as usize;
        let first = (start / 8).min(pieces.bytes.checked_sub(8)?);
        let behind = (8 * (first + 8)).checked_sub(end)?;
        let behind = behind as u32;
        Some(Window { first, behind })
    }
}

/// Ones in the bits of a chunk that a piece takes.
fn bits_of(piece: &Piece) -> u64 {
    piece.mask << piece.left >> piece.right
}

/// The bytes that pieces take of a chunk, as the first one and their number, if one instruction stores just these.
fn whole_bytes(pieces: &[&Piece]) -> Option<(usize, usize)> {
    let bits = pieces.iter().fold(0, |bits, piece| bits | bits_of(piece));
    let (before, behind) = (
        bits.leading_zeros() as usize,
        bits.trailing_zeros() as usize,
    );
    let count = 64 - before - behind;
    let whole = before.is_multiple_of(8) && matches!(count, 8 | 16 | 32);
    (whole && bits.count_ones() as usize == count).then_some((before / 8, count / 8))
}
