//! The Internet checksum (RFC 1071).

use std::net::Ipv4Addr;

/// A sum under way: ones' complement, not yet folded.
#[derive(Clone, Copy, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds bytes that start at an even offset of what is summed.
    pub fn over(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
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
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// The checksum of `bytes` alone.
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

    #[test]
    fn an_odd_byte_counts_as_the_high_half() {
        assert_eq!(internet_checksum(&[0x12]), !0x1200);
    }
}
