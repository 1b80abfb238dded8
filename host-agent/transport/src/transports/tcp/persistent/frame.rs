//! Frames of a connection that stays open: 16 bytes, some with a body
//! (`docs/wire-format.md`).

/// Bytes of a frame without its body.
pub(super) const FRAME_BYTES: usize = 16;
/// Longest reason of a refusal, in bytes; the rest is cut off.
pub(super) const MAX_REASON_BYTES: usize = 512;

const OBJECT: u8 = 1;
const TAKEN: u8 = 2;
const REFUSED: u8 = 3;

/// A frame. Numbers count the objects of one direction from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// An object of this length follows, for whoever listens on the port.
    Object { number: u32, port: u16, bytes: u64 },
    /// The object of this number, which came the other way, has been taken.
    Taken { number: u32 },
    /// It has not been taken; the reason follows, a text of this length.
    Refused { number: u32, bytes: u16 },
}

impl Frame {
    pub(super) fn encode(self) -> [u8; FRAME_BYTES] {
        let (kind, port, number, bytes) = match self {
            Frame::Object {
                number,
                port,
                bytes,
            } => (OBJECT, port, number, bytes),
            Frame::Taken { number } => (TAKEN, 0, number, 0),
            Frame::Refused { number, bytes } => (REFUSED, 0, number, u64::from(bytes)),
        };
        let mut out = [0; FRAME_BYTES];
        out[0] = kind;
        out[2..4].copy_from_slice(&port.to_be_bytes());
        out[4..8].copy_from_slice(&number.to_be_bytes());
        out[8..].copy_from_slice(&bytes.to_be_bytes());
        out
    }

    /// Parses a frame. The error describes an invalid one.
    pub(super) fn parse(bytes: &[u8; FRAME_BYTES]) -> Result<Frame, String> {
        let &[
            kind,
            zero,
            p0,
            p1,
            n0,
            n1,
            n2,
            n3,
            b0,
            b1,
            b2,
            b3,
            b4,
            b5,
            b6,
            b7,
        ] = bytes;
        let port = u16::from_be_bytes([p0, p1]);
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        let bytes = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        match (kind, zero, port, bytes) {
            (OBJECT, 0, 1.., _) => Ok(Frame::Object {
                number,
                port,
                bytes,
            }),
            (TAKEN, 0, 0, 0) => Ok(Frame::Taken { number }),
            (REFUSED, 0, 0, _) if bytes <= MAX_REASON_BYTES as u64 => Ok(Frame::Refused {
                number,
                bytes: bytes as u16,
            }),
            _ => Err(format!(
                "a frame of kind {kind} with {zero}, port {port} and {bytes} bytes"
            )),
        }
    }
}

/// The part of a reason that is sent: at most [`MAX_REASON_BYTES`], cut between characters.
pub(super) fn cut_reason(reason: &str) -> &[u8] {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason.as_bytes()[..end]
}

/// The sequence number of the byte at `offset` of a stream.
pub(super) fn sequence(initial: u32, offset: u64) -> u32 {
    initial.wrapping_add(1).wrapping_add(offset as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        let frames = [
            Frame::Object {
                number: 7,
                port: 7008,
                bytes: 1 << 40,
            },
            Frame::Taken { number: u32::MAX },
            Frame::Refused {
                number: 1,
                bytes: 512,
            },
        ];
        for frame in frames {
            assert_eq!(Frame::parse(&frame.encode()), Ok(frame));
        }
        let object = Frame::Object {
            number: 1,
            port: 2,
            bytes: 3,
        };
        let expected = [1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(object.encode(), expected);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let taken = Frame::Taken { number: 1 }.encode();
        for (at, to) in [(0, 0), (0, 4), (1, 1), (2, 1), (15, 1)] {
            let mut bytes = taken;
            bytes[at] = to;
            assert!(Frame::parse(&bytes).is_err(), "{bytes:?}");
        }
        let long = Frame::Refused {
            number: 0,
            bytes: 513,
        };
        assert!(Frame::parse(&long.encode()).is_err());
        let mut nowhere = taken;
        nowhere[0] = OBJECT;
        assert!(Frame::parse(&nowhere).is_err(), "port 0");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(cut_reason("no"), b"no");
        let long = "é".repeat(400);
        assert_eq!(cut_reason(&long).len(), 512);
        let odd = format!("x{long}");
        assert_eq!(cut_reason(&odd).len(), 511);
    }
}
