//! The Internet checksum (RFC 1071).

use std::net::Ipv4Addr;

/// A sum under way: ones' complement, not yet folded.
#[derive(Clone, Copy, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds bytes that start at an even offset of what is summed.
    #[inline]
    pub fn over(mut self, bytes: &[u8]) -> Self {
        // Four bytes at a time, as they lie in memory: neither width nor byte order of the words matters to the sum
        // (RFC 1071, section 2), and several of them are added at once.
        let (words, rest) = bytes.as_chunks::<4>();
        let words = words
            .iter()
            .map(|word| u64::from(u32::from_ne_bytes(*word)));
        self.0 += u64::from(u16::from_be(fold(words.sum())));
        let mut rest = rest.chunks_exact(2);
        for word in &mut rest {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = rest.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// The pseudo-header of TCP and UDP (RFC 9293, section 3.1).
    pub fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> Self {
        let mut sum = Self::default().over(&src.octets()).over(&dst.octets());
        sum.0 += u64::from(protocol) + len as u64;
        sum
    }

    /// The value for the checksum field; 0 when the summed bytes already contain a right one.
    #[inline]
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }
}

/// The ones' complement sum of the 16-bit words of a sum; 0 only of 0.
#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of `bytes` alone.
#[inline]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    Checksum::default().over(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&bytes), !0xddf2);
    }

    /// As the definition says, word by word.
    fn by_words(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2);
        let words =
            words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        let sum = words.fold(0, |sum, word| {
            let sum = sum + word;
            (sum & 0xffff) + (sum >> 16)
        });
        !(sum as u16)
    }

    #[test]
    fn bytes_of_any_length_sum_up_word_by_word() {
        let hashed = |n: u32| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8;
        let random: Vec<u8> = (0..1510).map(hashed).collect();
        for bytes in [random, vec![0; 1510], vec![0xff; 1510]] {
            for len in (0..70).chain(1400..1500) {
                for from in 0..4 {
                    let part = &bytes[from..][..len];
                    assert_eq!(internet_checksum(part), by_words(part), "{from}, {len}");
                }
            }
        }
    }

    #[test]
    fn an_odd_byte_counts_as_the_high_half() {
        assert_eq!(internet_checksum(&[0x12]), !0x1200);
    }
}
