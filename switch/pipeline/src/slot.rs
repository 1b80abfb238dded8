//! Place of a field in the words of a packet or of a register array; its value read and written.

use num_bigint::{BigInt, Sign};

use crate::bits::low_mask;
use crate::error::LoadError;

/// Where a field lies. It is small and copied into the compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Index of its first word.
    pub at: u32,
    /// How many words it has.
    pub words: u32,
    /// Its width in bits.
    pub bits: u32,
    /// Whether it is a signed number.
    pub signed: bool,
}

impl Slot {
    /// The words of the field, out of all words of a packet.
    #[inline]
    pub fn of(self, words: &[u64]) -> &[u64] {
        &words[self.at as usize..(self.at + self.words) as usize]
    }

    /// The words of the field, out of all words of a packet.
    pub fn of_mut(self, words: &mut [u64]) -> &mut [u64] {
        &mut words[self.at as usize..(self.at + self.words) as usize]
    }
}

/// The low 128 bits of a field, sign-extended if the field is signed.
#[inline]
pub(crate) fn load(words: &[u64], slot: Slot) -> i128 {
    let at = slot.at as usize;
    let n = if slot.words == 1 {
        u128::from(words[at])
    } else {
        let last = at + slot.words as usize;
        u128::from(words[last - 2]) << 64 | u128::from(words[last - 1])
    };
    if slot.signed && slot.bits > 0 && slot.bits < 128 {
        let unused = 128 - slot.bits;
        ((n << unused) as i128) >> unused
    } else {
        n as i128
    }
}

/// The value of a field of any width.
pub(crate) fn load_big(words: &[u64], slot: Slot) -> BigInt {
    let at = slot.at as usize;
    let words = &words[at..at + slot.words as usize];
    let digits: Vec<u32> = words
        .iter()
        .rev()
        .flat_map(|w| [*w as u32, (*w >> 32) as u32])
        .collect();
    let n = BigInt::from_slice(Sign::Plus, &digits);
    if slot.signed && slot.bits > 0 && n.bit(u64::from(slot.bits) - 1) {
        n - (BigInt::from(1) << slot.bits)
    } else {
        n
    }
}

/// Stores the low bits of a number.
#[inline]
pub(crate) fn store(words: &mut [u64], slot: Slot, value: i128) {
    let at = slot.at as usize;
    if slot.words == 1 {
        words[at] = value as u64 & low_mask(slot.bits);
        return;
    }
    let fill = if value < 0 { u64::MAX } else { 0 };
    let words = &mut words[at..at + slot.words as usize];
    let last = words.len() - 1;
    words[..last - 1].fill(fill);
    words[last] = value as u64;
    words[last - 1] = (value >> 64) as u64;
    cut(words, slot.bits);
}

/// Clears the bits above the width of a field.
fn cut(words: &mut [u64], bits: u32) {
    if !bits.is_multiple_of(64) {
        words[0] &= low_mask(bits % 64);
    }
}

/// Stores the low bits of a number of any size.
pub(crate) fn store_big(words: &mut [u64], slot: Slot, value: &BigInt) {
    let modulus = BigInt::from(1) << slot.bits;
    let mut low = value % &modulus;
    if low.sign() == Sign::Minus {
        low += modulus;
    }
    let at = slot.at as usize;
    let words = &mut words[at..at + slot.words as usize];
    words.fill(0);
    for (word, digit) in words.iter_mut().rev().zip(low.iter_u64_digits()) {
        *word = digit;
    }
}

/// A field of one word, for fast access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its word in the packet.
    pub at: u32,
    /// Ones in the bits of the field.
    pub mask: u64,
}

impl Place {
    /// The place of a field, or an error with its `name` if it is too wide.
    pub fn of(name: &str, slot: Slot) -> Result<Place, LoadError> {
        match slot {
            Slot {
                at, words: 1, bits, ..
            } => Ok(Place {
                at,
                mask: low_mask(bits),
            }),
            _ => Err(LoadError::new(
                name,
                format!("it has {} bits, v1model's has at most 64", slot.bits),
            )),
        }
    }

    /// Sets the field.
    #[inline]
    pub fn set(self, words: &mut [u64], value: u64) {
        words[self.at as usize] = value & self.mask;
    }

    /// The value of the field.
    #[inline]
    pub fn get(self, words: &[u64]) -> u64 {
        words[self.at as usize]
    }
}
