//! Fixed sequences of fields, read from and written to bytes with offsets and shifts that are
//! worked out when a program is loaded.
//!
//! Where a variable-length field is not empty, or a header is missing, `bits` does it field by
//! field.

use crate::bits::{first_word_bits, low_mask};
use crate::slot::Slot;

/// One word of a field and its place in the bytes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Index of the word in the packet.
    at: u32,
    /// First bit in the bytes.
    bit: u32,
    /// Bits of the word that belong to the field, 1 to 64.
    bits: u32,
}

/// The words of consecutive fields, of which the first begins at `bit`. A field of width 0 has none.
fn cuts(mut bit: u32, fields: impl IntoIterator<Item = Slot>) -> Vec<Cut> {
    let mut all = Vec::new();
    for slot in fields.into_iter().filter(|s| s.bits > 0) {
        let mut bits = first_word_bits(slot.bits);
        for at in slot.at..slot.at + slot.words {
            all.push(Cut { at, bit, bits });
            bit += bits;
            bits = 64;
        }
    }
    all
}

/// The words of fields as parts of chunks of eight bytes.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    /// The parts, in the order of the bytes.
    pub pieces: Box<[Piece]>,
    /// Length of the fields in bytes, rounded up.
    pub bytes: usize,
}

/// A part of a chunk: a word of the packet, shifted left and then right. The same shifts, undone in
/// the opposite order and cut by the mask, give the word again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Ones in its bits of the word.
    pub mask: u64,
    /// Index of the word in the packet.
    pub at: u32,
    /// How far the word is shifted left, which cuts off the bits that belong to other chunks.
    pub left: u8,
    /// How far it is then shifted right, to its place in the chunk.
    pub right: u8,
    /// Whether it is the last part of its chunk.
    pub ends: bool,
    /// Whether it is the rest of a word that began in the chunk before.
    pub continues: bool,
}

impl Pieces {
    /// Fields that begin at the first bit.
    pub fn new(fields: impl IntoIterator<Item = Slot>) -> Pieces {
        Pieces::behind(0, fields)
    }

    /// Fields that begin after this many zero bits.
    pub fn behind(zeros: u32, fields: impl IntoIterator<Item = Slot>) -> Pieces {
        let cuts = cuts(zeros, fields);
        let mut pieces = Vec::new();
        for cut in &cuts {
            let free = 64 - cut.bit % 64;
            let mut piece = |left: u32, right: u32, ends, continues| {
                pieces.push(Piece {
                    mask: low_mask(cut.bits),
                    at: cut.at,
                    left: left as u8,
                    right: right as u8,
                    ends,
                    continues,
                });
            };
            match cut.bits.checked_sub(free) {
                None => piece(free - cut.bits, 0, false, false),
                Some(0) => piece(0, 0, true, false),
                Some(over) => {
                    piece(0, over, true, false);
                    piece(64 - over, 0, false, true);
                }
            }
        }
        if let Some(last) = pieces.last_mut() {
            last.ends = true;
        }
        let bits = cuts.last().map_or(0, |c| c.bit + c.bits);
        Pieces {
            pieces: pieces.into(),
            bytes: bits.div_ceil(8) as usize,
        }
    }

    /// The parts of each chunk of eight bytes.
    pub fn chunks(&self) -> impl Iterator<Item = &[Piece]> {
        self.pieces.split_inclusive(|piece| piece.ends)
    }

    /// Reads the fields from the start of `data`, as if zeros followed it.
    #[inline]
    pub fn read(&self, data: &[u8], words: &mut [u64]) {
        self.read_those(data, words, |_| true);
    }

    /// Reads only words whose indices `wanted` accepts.
    #[inline]
    pub fn read_those(&self, mut data: &[u8], words: &mut [u64], wanted: impl Fn(u32) -> bool) {
        let mut chunk = take_chunk(&mut data);
        for piece in &self.pieces {
            if wanted(piece.at) {
                let word = &mut words[piece.at as usize];
                let bits = chunk << piece.right >> piece.left & piece.mask;
                *word = if piece.continues { *word | bits } else { bits };
            }
            if piece.ends {
                chunk = take_chunk(&mut data);
            }
        }
    }

    /// Appends the fields; the last byte is padded with zeros.
    #[inline]
    pub fn append(&self, words: &[u64], out: &mut Vec<u8>) {
        let end = out.len() + self.bytes;
        let mut chunk = 0;
        for piece in &self.pieces {
            chunk |= words[piece.at as usize] << piece.left >> piece.right;
            if piece.ends {
                out.extend_from_slice(&chunk.to_be_bytes());
                chunk = 0;
            }
        }
        out.truncate(end);
    }

    /// Writes the fields into `out`, which has exactly the right length.
    #[inline]
    pub fn write(&self, words: &[u64], mut out: &mut [u8]) {
        let mut chunk = 0;
        for piece in &self.pieces {
            chunk |= words[piece.at as usize] << piece.left >> piece.right;
            if piece.ends {
                out = put_chunk(chunk, out);
                chunk = 0;
            }
        }
    }
}

#[inline]
fn put_chunk(chunk: u64, out: &mut [u8]) -> &mut [u8] {
    let bytes = chunk.to_be_bytes();
    let (to, rest) = out.split_at_mut(out.len().min(8));
    match <&mut [u8; 8]>::try_from(&mut *to) {
        Ok(whole) => *whole = bytes,
        Err(_) => to.copy_from_slice(&bytes[..to.len()]),
    }
    rest
}

#[inline]
fn take_chunk(data: &mut &[u8]) -> u64 {
    match data.split_first_chunk() {
        Some((chunk, rest)) => {
            *data = rest;
            u64::from_be_bytes(*chunk)
        }
        None => {
            let mut last = [0; 8];
            last[..data.len()].copy_from_slice(data);
            *data = &[];
            u64::from_be_bytes(last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{BitWriter, read_words, words_for};
    use proptest::prelude::*;

    fn slots(widths: &[u32]) -> Vec<Slot> {
        let mut at = 0;
        widths
            .iter()
            .map(|bits| {
                let words = words_for(*bits) as u32;
                at += words;
                Slot {
                    at: at - words,
                    words,
                    bits: *bits,
                    signed: false,
                }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_same_as_field_by_field(
            widths in proptest::collection::vec(prop_oneof![0u32..20, 0u32..200], 1..16),
            random in proptest::collection::vec(any::<u64>(), 64),
        ) {
            let slots = slots(&widths);
            let mut words = random;
            for s in &slots {
                words[s.at as usize] &= low_mask(first_word_bits(s.bits));
            }
            let mut expected = vec![9];
            let mut writer = BitWriter::new(&mut expected);
            for s in &slots {
                writer.append(s.bits, s.of(&words));
            }
            writer.finish();
            let pieces = Pieces::new(slots.iter().copied());
            let mut out = vec![9];
            pieces.append(&words, &mut out);
            prop_assert_eq!(&out, &expected);
            let mut written = vec![9; out.len() - 1];
            pieces.write(&words, &mut written);
            prop_assert_eq!(&written, &expected[1..]);

            let (mut fast, mut plain) = (vec![0; 64], vec![0; 64]);
            pieces.read(&out[1..], &mut fast);
            let mut bit = 0;
            for s in &slots {
                let to = &mut plain[s.at as usize..(s.at + s.words) as usize];
                read_words(&out[1..], bit, s.bits, to);
                bit += s.bits as usize;
            }
            prop_assert_eq!(fast, plain);
        }
    }
}
