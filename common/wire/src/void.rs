//! Void frames: what a pacer sends to fill a link until the next frame may leave (Silo, SIGCOMM 2015).

use crate::{EthernetFrame, EthernetHeader, MacAddress};

/// A frame to the address that it comes from. Its content means nothing; ours is zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VoidFrame {
    /// Address of the NIC, source and destination.
    pub address: MacAddress,
}

impl VoidFrame {
    /// The first type for local experiments (IEEE 802, clause 9.2.4): nobody else takes it for a protocol of theirs.
    pub const ETHERTYPE: u16 = 0x88b5;
    /// Length of the shortest frame without FCS: 84 bytes of the wire, with preamble, FCS and gap.
    pub const LEAST_BYTES: usize = 60;

    /// Whether a frame is void: by its addresses alone, as for a switch.
    pub fn is_void(frame: &EthernetFrame<'_>) -> bool {
        frame.header.src == frame.header.dst
    }

    /// Appends a frame of this length in bytes, without FCS, [`LEAST_BYTES`](Self::LEAST_BYTES) at least.
    pub fn emit(&self, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes.max(Self::LEAST_BYTES);
        EthernetHeader {
            dst: self.address,
            src: self.address,
            ethertype: Self::ETHERTYPE,
        }
        .emit(out);
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

    #[test]
    fn a_frame_is_void_by_its_addresses_and_as_long_as_asked() {
        for (asked, bytes) in [(0, 60), (60, 60), (61, 61), (1_514, 1_514)] {
            let mut frame = vec![9];
            VoidFrame { address: ADDRESS }.emit(asked, &mut frame);
            assert_eq!(frame.len(), 1 + bytes);
            let parsed = EthernetHeader::parse(&frame[1..]).expect("a whole frame");
            assert!(VoidFrame::is_void(&parsed));
            assert_eq!(parsed.header.ethertype, VoidFrame::ETHERTYPE);
        }
    }

    #[test]
    fn a_frame_to_somebody_else_is_not() {
        let mut frame = Vec::new();
        EthernetHeader {
            dst: MacAddress([2, 0, 0, 0, 0, 8]),
            src: ADDRESS,
            ethertype: VoidFrame::ETHERTYPE,
        }
        .emit(&mut frame);
        let parsed = EthernetHeader::parse(&frame).expect("a whole frame");
        assert!(!VoidFrame::is_void(&parsed));
    }
}
