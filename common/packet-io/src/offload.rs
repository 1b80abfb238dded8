//! Work on a frame that its sender left to hardware, or to the kernel in its place: `struct
//! virtio_net_hdr`.

/// How a frame that is longer than the MTU is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// The frame is sent as it is.
    None,
    /// As TCP over IPv4: payload of each segment in bytes.
    TcpV4(u16),
    /// As TCP over IPv6: payload of each segment in bytes.
    TcpV6(u16),
    /// As something else that the kernel knows how to cut: payload of each piece in bytes.
    Other(u16),
}

/// Work that is left to do on a frame. Offsets count from the first byte of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    flags: u8,
    gso_type: u8,
    header_bytes: u16,
    segment_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// A bit beside the type: the first segment alone keeps CWR.
const GSO_ECN: u8 = 0x80;

impl Offload {
    /// Length of the header, in bytes.
    pub const BYTES: usize = 10;
    /// A frame that is as it should be on a wire.
    pub const NONE: Offload = Offload {
        flags: 0,
        gso_type: 0,
        header_bytes: 0,
        segment_bytes: 0,
        checksum_start: 0,
        checksum_offset: 0,
    };

    /// A TCP frame over IPv4 that is to be cut: where the TCP header starts, payload per segment.
    pub fn tcp_v4(tcp_at: u16, segment_bytes: u16) -> Self {
        Offload {
            flags: NEEDS_CHECKSUM,
            gso_type: GSO_TCPV4,
            header_bytes: tcp_at + 20,
            segment_bytes,
            checksum_start: tcp_at,
            checksum_offset: 16,
        }
    }

    /// The same over IPv6.
    pub fn tcp_v6(tcp_at: u16, segment_bytes: u16) -> Self {
        Offload {
            gso_type: GSO_TCPV6,
            ..Self::tcp_v4(tcp_at, segment_bytes)
        }
    }

    /// Segmentation that the kernel has left to the interface.
    pub fn segmentation(&self) -> Segmentation {
        match self.gso_type & !GSO_ECN {
            0 => Segmentation::None,
            GSO_TCPV4 => Segmentation::TcpV4(self.segment_bytes),
            GSO_TCPV6 => Segmentation::TcpV6(self.segment_bytes),
            _ => Segmentation::Other(self.segment_bytes),
        }
    }

    /// Start of the checksummed bytes, and offset of the checksum from there, which holds the sum of
    /// the pseudo header. `None`: the checksum is complete.
    pub fn partial_checksum(&self) -> Option<(usize, usize)> {
        (self.flags & NEEDS_CHECKSUM != 0)
            .then(|| (self.checksum_start.into(), self.checksum_offset.into()))
    }

    /// Completes a partial checksum; false if the offsets point outside of the frame. Not for frames
    /// that are still to be segmented.
    pub(crate) fn complete_checksum(&self, frame: &mut [u8]) -> bool {
        let Some((start, offset)) = self.partial_checksum() else {
            return true;
        };
        let Some(summed) = frame.get_mut(start..) else {
            return false;
        };
        if offset + 2 > summed.len() {
            return false;
        }
        let sum = match !ones_complement_sum(summed) {
            // For UDP zero would mean "no checksum"; for TCP both are right.
            0 => 0xffff,
            sum => sum,
        };
        summed[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    /// Moves the offsets, after a VLAN tag has been inserted before the bytes that they point to.
    pub(crate) fn shift(&mut self, bytes: u16) {
        if self.flags & NEEDS_CHECKSUM != 0 {
            self.checksum_start = self.checksum_start.saturating_add(bytes);
        }
        if self.gso_type != 0 {
            self.header_bytes = self.header_bytes.saturating_add(bytes);
        }
    }

    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            flags: bytes[0],
            gso_type: bytes[1],
            header_bytes: word(2),
            segment_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    pub(crate) fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // The only flag that a sender may set says that the checksum is missing.
        bytes[0] = self.flags & NEEDS_CHECKSUM;
        bytes[1] = self.gso_type;
        let words = [
            self.header_bytes,
            self.segment_bytes,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// RFC 1071, folded to 16 bits, not inverted.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let mut chunks = bytes.chunks_exact(4);
    // 2^32 words of 32 bits fit before this overflows.
    let mut sum: u64 = (&mut chunks)
        .map(|c| u64::from(u32::from_be_bytes([c[0], c[1], c[2], c[3]])))
        .sum();
    let mut rest = [0; 4];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    sum += u64::from(u32::from_be_bytes(rest));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // Section 3 of the RFC: the sum of these bytes is ddf2.
        assert_eq!(
            ones_complement_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0xddf2
        );
        assert_eq!(ones_complement_sum(&[0x12, 0x34, 0x56]), 0x6834);
    }

    #[test]
    fn a_completed_checksum_sums_to_all_ones() {
        let offload = Offload {
            flags: NEEDS_CHECKSUM,
            checksum_start: 3,
            checksum_offset: 2,
            ..Offload::NONE
        };
        let mut frame: Vec<u8> = (0..50).collect();
        // The pseudo header's sum is part of what is summed, as the kernel leaves it there.
        let pseudo = u16::from_be_bytes([frame[5], frame[6]]);
        assert!(offload.complete_checksum(&mut frame));
        let with_pseudo = u32::from(ones_complement_sum(&frame[3..])) + u32::from(pseudo);
        assert_eq!((with_pseudo & 0xffff) + (with_pseudo >> 16), 0xffff);
    }

    #[test]
    fn offsets_outside_the_frame_change_nothing() {
        for (start, offset) in [(60, 0), (40, 9), (49, 0)] {
            let offload = Offload {
                flags: NEEDS_CHECKSUM,
                checksum_start: start,
                checksum_offset: offset,
                ..Offload::NONE
            };
            let mut frame = [7; 50];
            assert!(!offload.complete_checksum(&mut frame));
            assert_eq!(frame, [7; 50]);
        }
    }

    #[test]
    fn what_is_parsed_is_what_was_emitted() {
        let offload = Offload {
            flags: NEEDS_CHECKSUM,
            gso_type: GSO_TCPV4 | GSO_ECN,
            header_bytes: 66,
            segment_bytes: 1448,
            checksum_start: 34,
            checksum_offset: 16,
        };
        assert_eq!(Offload::parse(&offload.emit()), offload);
        assert_eq!(offload.segmentation(), Segmentation::TcpV4(1448));
    }
}
