//! Priority-based flow control: the MAC control frame of IEEE 802.1Qbb (IEEE 802.1Q clause 36, IEEE
//! 802.3 annex 31D).

use crate::{EthernetFrame, EthernetHeader, Layer, MacAddress, ParseError};

/// A frame that pauses or resumes some of the receiver's eight classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PfcFrame {
    /// How long each class stops, in quanta; 0: it resumes. `None`: the frame does not name it.
    pub quanta: [Option<u16>; PfcFrame::CLASSES],
}

impl PfcFrame {
    /// Classes that a frame can name.
    pub const CLASSES: usize = 8;
    /// Bits whose time on the link is one quantum (802.3, 31B.2).
    pub const QUANTUM_BITS: u64 = 512;
    /// Where the frames go: no bridge forwards them.
    pub const DESTINATION: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    /// The type of MAC control frames.
    pub const ETHERTYPE: u16 = 0x8808;
    /// Opcode of priority-based flow control.
    pub const OPCODE: u16 = 0x0101;
    /// Length of every frame without FCS: MAC control frames have the least that Ethernet has.
    pub const BYTES: usize = 60;

    /// A frame that names the classes of `mask`, bit 0 for class 0, each with the same quanta.
    pub fn of_classes(mask: u8, quanta: u16) -> Self {
        PfcFrame {
            quanta: std::array::from_fn(|class| (mask >> class & 1 == 1).then_some(quanta)),
        }
    }

    /// Reads a frame whose type is [`ETHERTYPE`](Self::ETHERTYPE). One that names no class is an
    /// error: nobody has a reason to send it.
    pub fn parse(frame: &EthernetFrame<'_>) -> Result<Self, ParseError> {
        if frame.header.dst != Self::DESTINATION || frame.header.ethertype != Self::ETHERTYPE {
            return Err(ParseError::NotMacControl);
        }
        let have = EthernetHeader::BYTES + frame.payload.len();
        if have < Self::BYTES {
            return Err(ParseError::Truncated {
                layer: Layer::MacControl,
                need: Self::BYTES,
                have,
            });
        }
        if have > Self::BYTES {
            return Err(ParseError::FrameLength {
                layer: Layer::MacControl,
                expected: Self::BYTES,
                found: have,
            });
        }
        let field = |at: usize| u16::from_be_bytes([frame.payload[at], frame.payload[at + 1]]);
        if field(0) != Self::OPCODE {
            return Err(ParseError::Opcode {
                expected: Self::OPCODE,
                found: field(0),
            });
        }
        // The upper half of the vector is reserved and ignored (802.3, 31D.3).
        let vector = field(2) as u8;
        if vector == 0 {
            return Err(ParseError::NoClass);
        }
        let quanta = |class| (vector >> class & 1 == 1).then(|| field(4 + 2 * class));
        Ok(PfcFrame {
            quanta: std::array::from_fn(quanta),
        })
    }

    /// Appends the frame, padded to its length.
    pub fn emit(&self, src: MacAddress, out: &mut Vec<u8>) {
        let end = out.len() + Self::BYTES;
        EthernetHeader {
            dst: Self::DESTINATION,
            src,
            ethertype: Self::ETHERTYPE,
        }
        .emit(out);
        out.extend_from_slice(&Self::OPCODE.to_be_bytes());
        let named = self.quanta.iter().enumerate();
        let vector = named.fold(0u16, |vector, (class, quanta)| {
            vector | u16::from(quanta.is_some()) << class
        });
        out.extend_from_slice(&vector.to_be_bytes());
        for quanta in self.quanta {
            out.extend_from_slice(&quanta.unwrap_or(0).to_be_bytes());
        }
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

    fn bytes(frame: &PfcFrame) -> Vec<u8> {
        let mut out = Vec::new();
        frame.emit(SOURCE, &mut out);
        out
    }

    fn parse(bytes: &[u8]) -> Result<PfcFrame, ParseError> {
        PfcFrame::parse(&EthernetHeader::parse(bytes).unwrap())
    }

    #[test]
    fn the_bytes_are_those_of_the_standard() {
        let mut frame = PfcFrame::of_classes(0b0000_0001, 0xffff);
        frame.quanta[7] = Some(0);
        let mut expected = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08];
        expected.extend([0x01, 0x01, 0x00, 0x81, 0xff, 0xff]);
        expected.resize(60, 0);
        assert_eq!(bytes(&frame), expected);
        assert_eq!(parse(&expected), Ok(frame));
    }

    #[test]
    fn every_class_has_its_own_time() {
        let frame = PfcFrame {
            quanta: std::array::from_fn(|class| Some(0x1000 + class as u16)),
        };
        assert_eq!(parse(&bytes(&frame)), Ok(frame));
    }

    #[test]
    fn times_of_classes_that_are_not_named_are_ignored() {
        let mut changed = bytes(&PfcFrame::of_classes(0b10, 3));
        changed[18..20].copy_from_slice(&[9, 9]);
        changed[16] = 0xff;
        assert_eq!(parse(&changed), Ok(PfcFrame::of_classes(0b10, 3)));
    }

    #[test]
    fn what_is_no_such_frame_is_refused_with_its_cause() {
        let whole = bytes(&PfcFrame::of_classes(1, 1));
        let with = |at: usize, byte: u8| {
            let mut changed = whole.clone();
            changed[at] = byte;
            parse(&changed).unwrap_err().to_string()
        };
        assert_eq!(with(17, 0), "the PFC frame names no class");
        assert_eq!(with(15, 2), "MAC control opcode is 0x0102, expected 0x0101");
        assert!(with(5, 0).contains("not a MAC control frame"));
        assert!(with(13, 0).contains("not a MAC control frame"));
        let short = parse(&whole[..59]).unwrap_err().to_string();
        assert_eq!(short, "MAC control header needs 60 bytes, 59 are there");
        let long = [&whole[..], &[0]].concat();
        let long = parse(&long).unwrap_err().to_string();
        assert_eq!(long, "MAC control frame has 61 bytes, expected 60");
        for length in EthernetHeader::BYTES..whole.len() {
            assert!(parse(&whole[..length]).is_err());
        }
    }
}
