//! Fields as big-endian 64-bit words, and how they lie in the bytes of a packet.
//!
//! A value of n bits occupies `ceil(n / 64)` words, the most significant one first, with zeros
//! above bit n. So two values of the same width compare like their slices.

/// Words needed for a value of `bits` bits (at least one).
pub(crate) fn words_for(bits: u32) -> usize {
    bits.div_ceil(64).max(1) as usize
}

/// Ones in the low `bits` of a word; `bits` above 63 gives all ones.
pub(crate) const fn low_mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

/// How many bits the first of `words_for(bits)` words carries.
pub(crate) fn first_word_bits(bits: u32) -> u32 {
    match bits % 64 {
        0 if bits > 0 => 64,
        n => n,
    }
}

/// Reads 1 to 64 bits at a bit offset. The caller has checked that `data` is long enough.
#[inline]
pub(crate) fn read_word(data: &[u8], bit_offset: usize, bits: u32) -> u64 {
    let lead = bit_offset as u32 % 8;
    match data.get(bit_offset / 8..).and_then(<[u8]>::first_chunk) {
        Some(chunk) if lead + bits <= 64 => (u64::from_be_bytes(*chunk) << lead) >> (64 - bits),
        _ => read_bytewise(data, bit_offset, bits),
    }
}

/// Reads byte by byte: for the end of the data, and for values that straddle nine bytes.
fn read_bytewise(data: &[u8], bit_offset: usize, bits: u32) -> u64 {
    let first = bit_offset / 8;
    let last = (bit_offset + bits as usize).div_ceil(8);
    let n = data[first..last]
        .iter()
        .fold(0u128, |n, b| n << 8 | u128::from(*b));
    let below = last * 8 - (bit_offset + bits as usize);
    (n >> below) as u64 & low_mask(bits)
}

/// Writes up to 64 bits at a bit offset into bytes that are zero there.
#[inline]
pub(crate) fn write_word(out: &mut [u8], bit_offset: usize, bits: u32, value: u64) {
    let first = bit_offset / 8;
    let last = (bit_offset + bits as usize).div_ceil(8);
    let below = last * 8 - (bit_offset + bits as usize);
    let mut n = u128::from(value & low_mask(bits)) << below;
    for byte in out[first..last].iter_mut().rev() {
        *byte |= n as u8;
        n >>= 8;
    }
}

/// Reads `bits` bits into `words` (`words.len()` may be more than needed; the rest is zeroed).
#[inline]
pub(crate) fn read_words(data: &[u8], bit_offset: usize, bits: u32, words: &mut [u64]) {
    match words {
        [word] if bits > 0 => *word = read_word(data, bit_offset, bits),
        _ => read_many(data, bit_offset, bits, words),
    }
}

/// Reads values of any width.
fn read_many(data: &[u8], bit_offset: usize, bits: u32, words: &mut [u64]) {
    let needed = words_for(bits);
    let (above, words) = words.split_at_mut(words.len() - needed);
    above.fill(0);
    let mut at = bit_offset;
    let mut n = first_word_bits(bits);
    for word in words {
        *word = if n == 0 { 0 } else { read_word(data, at, n) };
        at += n as usize;
        n = 64;
    }
}

/// Writes the low `bits` bits of `words`.
pub(crate) fn write_words(out: &mut [u8], bit_offset: usize, bits: u32, words: &[u64]) {
    let words = &words[words.len() - words_for(bits)..];
    let mut at = bit_offset;
    let mut n = first_word_bits(bits);
    for word in words {
        if n > 0 {
            write_word(out, at, n, *word);
        }
        at += n as usize;
        n = 64;
    }
}

/// Appends values of any width to bytes, without gaps in between.
pub(crate) struct BitWriter<'a> {
    /// The bytes; whole words are appended as they fill up.
    out: &'a mut Vec<u8>,
    /// Bits that are not in `out` yet, the last one lowest; always fewer than 64.
    pending: u64,
    /// How many bits are pending.
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// A writer that appends to these bytes.
    pub fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter {
            out,
            pending: 0,
            count: 0,
        }
    }

    /// Appends the low `bits` bits of `words`.
    #[inline]
    pub fn append(&mut self, bits: u32, words: &[u64]) {
        match words {
            [word] => self.append_word(bits, *word),
            _ => self.append_many(bits, words),
        }
    }

    fn append_many(&mut self, bits: u32, words: &[u64]) {
        let mut n = first_word_bits(bits);
        for word in &words[words.len() - words_for(bits)..] {
            self.append_word(n, *word);
            n = 64;
        }
    }

    #[inline]
    fn append_word(&mut self, bits: u32, word: u64) {
        let word = word & low_mask(bits);
        let free = 64 - self.count;
        if bits < free {
            self.pending = self.pending << bits | word;
            self.count += bits;
            return;
        }
        // At least one bit is free, so fewer than 64 bits stay pending.
        let left = bits - free;
        let full = self.pending.checked_shl(free).unwrap_or(0) | word >> left;
        self.out.extend_from_slice(&full.to_be_bytes());
        self.pending = word & low_mask(left);
        self.count = left;
    }

    /// Appends the pending bits and pads the last byte with zeros.
    pub fn finish(self) {
        if self.count > 0 {
            let bytes = (self.pending << (64 - self.count)).to_be_bytes();
            self.out
                .extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
        }
    }
}

/// Big-endian bytes of a value, `ceil(bits / 8)` of them.
pub(crate) fn to_bytes(words: &[u64], bits: u32) -> Vec<u8> {
    let len = bits.div_ceil(8) as usize;
    let mut out = vec![0; len];
    write_words(&mut out, len * 8 - bits as usize, bits, words);
    out
}

/// Big-endian bytes of any length as words; `None` if the value needs more than `bits` bits.
pub(crate) fn from_bytes(bytes: &[u8], bits: u32) -> Option<Vec<u64>> {
    let mut words = vec![0; words_for(bits)];
    let significant: &[u8] = {
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        &bytes[zeros..]
    };
    if significant.len() > words.len() * 8 {
        return None;
    }
    for (i, byte) in significant.iter().rev().enumerate() {
        let word = words.len() - 1 - i / 8;
        words[word] |= u64::from(*byte) << (8 * (i % 8));
    }
    let excess = words[0] & !low_mask(first_word_bits(bits));
    (excess == 0).then_some(words)
}

/// Ones in the low `bits` bits.
pub(crate) fn ones(bits: u32) -> Vec<u64> {
    let mut words = vec![u64::MAX; words_for(bits)];
    words[0] = low_mask(first_word_bits(bits));
    words
}

/// Ones in the high `prefix` of `bits` bits.
pub(crate) fn prefix_mask(bits: u32, prefix: u32) -> Vec<u64> {
    let mut words = ones(bits);
    let below = bits - prefix;
    let n = words.len();
    for (i, word) in words.iter_mut().enumerate() {
        // Bits of this word that lie below the prefix.
        let lowest_bit = 64 * (n - 1 - i) as u32;
        *word &= !low_mask(below.saturating_sub(lowest_bit));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefix_masks() {
        assert_eq!(prefix_mask(32, 8), [0xff00_0000]);
        assert_eq!(prefix_mask(32, 0), [0]);
        assert_eq!(prefix_mask(32, 32), [0xffff_ffff]);
        assert_eq!(prefix_mask(128, 72), [u64::MAX, 0xff00_0000_0000_0000]);
        assert_eq!(prefix_mask(128, 8), [0xff00_0000_0000_0000, 0]);
    }

    #[test]
    fn bytes_that_do_not_fit_are_refused() {
        assert_eq!(from_bytes(&[0, 1, 0xff], 9), Some(vec![0x1ff]));
        assert_eq!(from_bytes(&[2, 0], 9), None);
        assert_eq!(from_bytes(&[1; 9], 64), None);
        assert_eq!(from_bytes(&[], 9), Some(vec![0]));
    }

    proptest! {
        #[test]
        fn whole_words_and_bytes_read_the_same(
            data in proptest::collection::vec(any::<u8>(), 9..24),
            offset in 0usize..72,
            bits in 1u32..=64,
        ) {
            prop_assume!(offset + bits as usize <= data.len() * 8);
            prop_assert_eq!(read_word(&data, offset, bits), read_bytewise(&data, offset, bits));
        }

        #[test]
        fn appending_is_writing_one_after_the_other(
            fields in proptest::collection::vec((0u32..200, any::<[u64; 4]>()), 0..12),
        ) {
            let total: usize = fields.iter().map(|(bits, _)| *bits as usize).sum();
            let mut expected = vec![0u8; total.div_ceil(8)];
            let mut out = vec![7];
            let mut writer = BitWriter::new(&mut out);
            let mut at = 0;
            for (bits, random) in fields {
                let words = &random[..words_for(bits)];
                write_words(&mut expected, at, bits, words);
                writer.append(bits, words);
                at += bits as usize;
            }
            writer.finish();
            prop_assert_eq!(&out[1..], &expected[..]);
        }

        #[test]
        fn what_is_written_is_read(
            words in proptest::collection::vec(any::<u64>(), 1..4),
            offset in 0usize..20,
            cut in 0u32..64,
        ) {
            let bits = words.len() as u32 * 64 - cut;
            let mut value = words.clone();
            value[0] &= low_mask(64 - cut);
            let mut buffer = vec![0u8; (offset + bits as usize).div_ceil(8)];
            write_words(&mut buffer, offset, bits, &value);
            let mut back = vec![0; value.len()];
            read_words(&buffer, offset, bits, &mut back);
            prop_assert_eq!(&back, &value);
            prop_assert_eq!(from_bytes(&to_bytes(&value, bits), bits), Some(value));
        }
    }
}
