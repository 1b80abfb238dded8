//! ICMP Source Quench (RFC 792) about a TCP segment: a switch asks its sender to slow down, because
//! packets wait too long in its queue (`docs/source-quench.md`).

use std::net::SocketAddrV4;

use crate::checksum::internet_checksum;
use crate::tcp::be32;
use crate::{Ipv4Header, Layer, ParseError, Protocol};

/// A message. It is not authenticated: anybody can send one that quotes a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceQuench {
    /// Sender of the segment, which is to slow down.
    pub sender: SocketAddrV4,
    /// Destination of the segment.
    pub receiver: SocketAddrV4,
    /// Sequence number of the segment that the message quotes.
    pub seq: u32,
}

const ICMP_BYTES: usize = 8;
/// Quoted bytes of TCP, after the quoted IPv4 header: ports and sequence number.
const QUOTED_BYTES: usize = 8;
const TYPE: u8 = 4;
const CODE: u8 = 0;

impl SourceQuench {
    /// Parses an IPv4 packet.
    pub fn parse(bytes: &[u8]) -> Result<SourceQuench, ParseError> {
        let outer = Ipv4Header::parse(bytes)?;
        expect(outer.header.protocol, Protocol::ICMP)?;
        let (icmp, have) = (outer.payload, outer.payload.len());
        let quoted = icmp.get(ICMP_BYTES..).ok_or(ParseError::Truncated {
            layer: Layer::Icmp,
            need: ICMP_BYTES,
            have,
        })?;
        if (icmp[0], icmp[1]) != (TYPE, CODE) {
            return Err(ParseError::IcmpType {
                found: icmp[0],
                code: icmp[1],
            });
        }
        if internet_checksum(icmp) != 0 {
            return Err(ParseError::Checksum { layer: Layer::Icmp });
        }
        let (header, left, _) = Ipv4Header::parse_cut(quoted)?;
        expect(header.protocol, Protocol::TCP)?;
        let tcp = left
            .first_chunk::<QUOTED_BYTES>()
            .ok_or(ParseError::Truncated {
                layer: Layer::Tcp,
                need: QUOTED_BYTES,
                have: left.len(),
            })?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Ok(SourceQuench {
            sender: SocketAddrV4::new(header.src, port(0)),
            receiver: SocketAddrV4::new(header.dst, port(2)),
            seq: be32(tcp, 4),
        })
    }
}

fn expect(found: Protocol, expected: Protocol) -> Result<(), ParseError> {
    match found == expected {
        true => Ok(()),
        false => Err(ParseError::Protocol {
            found: found.0,
            expected: expected.0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A message of the switch of `ptf-tests/tests/source_quench.py`, without Ethernet: about the segment
    /// from 10.0.1.2, port 1003, to 10.0.0.2, port 80.
    const MESSAGE: &str = "4500003800004000400125c20a0000020a0001020400f7c400000000\
                           450005ce000700003f0661200a0001020a00000203eb005000000000";

    fn message() -> Vec<u8> {
        let digits = MESSAGE.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.map(|pair| byte(pair).unwrap()).collect()
    }

    #[test]
    fn what_the_switch_sends_is_understood() {
        let expected = SourceQuench {
            sender: SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 2), 1003),
            receiver: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 80),
            seq: 0,
        };
        assert_eq!(SourceQuench::parse(&message()), Ok(expected));
        // The frame's padding is not part of it.
        let mut padded = message();
        padded.extend([0xff; 4]);
        assert_eq!(SourceQuench::parse(&padded), Ok(expected));
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let message = message();
        for bytes in 0..message.len() {
            assert!(SourceQuench::parse(&message[..bytes]).is_err(), "{bytes}");
        }
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 0x10;
            assert!(SourceQuench::parse(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn other_messages_are_named() {
        let mut unreachable = message();
        unreachable[20] = 3;
        assert_eq!(
            SourceQuench::parse(&unreachable),
            Err(ParseError::IcmpType { found: 3, code: 0 })
        );
        let mut tcp = Vec::new();
        Ipv4Header::new(
            Ipv4Addr::new(10, 0, 0, 2),
            Ipv4Addr::new(10, 0, 1, 2),
            Protocol::TCP,
            0,
            crate::Ecn::NotEct,
        )
        .emit(8, &mut tcp);
        tcp.extend([0; 8]);
        assert_eq!(
            SourceQuench::parse(&tcp),
            Err(ParseError::Protocol {
                found: 6,
                expected: 1
            })
        );
    }
}
