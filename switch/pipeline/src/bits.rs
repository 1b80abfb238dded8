//! Fields as big-endian 64-bit words, and their place in packet bytes.
//!
//! A value of n bits occupies `ceil(n / 64)` words, the most significant first and zero above bit n.
//! So two values of one width compare like their slices.

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

/// Bits that the first of `words_for(bits)` words carries.
fn first_word_bits(bits: u32) -> u32 {
    match bits % 64 {
        0 if bits > 0 => 64,
        n => n,
    }
}

/// Reads up to 64 bits at a bit offset. The caller has checked that `data` is long enough.
#[inline]
pub(crate) fn read_word(data: &[u8], bit_offset: usize, bits: u32) -> u64 {
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
pub(crate) fn read_words(data: &[u8], bit_offset: usize, bits: u32, words: &mut [u64]) {
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
        fn what_is_written_is_read(words in proptest::collection::vec(any::<u64>(), 1..4), offset in 0usize..20, cut in 0u32..64) {
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
