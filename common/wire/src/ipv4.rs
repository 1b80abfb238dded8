//! IPv4 (RFC 791), with DSCP (RFC 2474) and ECN (RFC 3168).

use std::net::Ipv4Addr;

use crate::checksum::internet_checksum;
use crate::{Layer, ParseError};

/// The protocol field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP (RFC 792).
    pub const ICMP: Protocol = Protocol(1);
    /// TCP (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// The receiver-driven transports, on the first number RFC 3692 gives to experiments.
    pub const EBB: Protocol = Protocol(253);
}

/// The two ECN bits (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ecn {
    /// The sender does not understand ECN.
    NotEct = 0,
    /// ECN-capable, ECT(1).
    Ect1 = 1,
    /// ECN-capable, ECT(0): the codepoint that senders use here.
    Ect0 = 2,
    /// Congestion Experienced: a switch has marked the packet.
    Ce = 3,
}

impl Ecn {
    fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// A header without options. Options of received packets are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Header {
    /// 6 bits.
    pub dscp: u8,
    /// ECN field, the low two bits of the traffic class (RFC 3168, 5).
    pub ecn: Ecn,
    /// Identification, the same in all fragments of a packet (RFC 6864).
    pub id: u16,
    /// Hops that are left.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
}

/// A parsed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Packet<'a> {
    /// The header, without its options.
    pub header: Ipv4Header,
    /// As long as the total length says; link-layer padding is gone.
    pub payload: &'a [u8],
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;

impl Ipv4Header {
    /// Length of a header without options, in bytes.
    pub const BYTES: usize = 20;

    /// A header as the transports send it: DF set, id 0 (RFC 6864), TTL 64.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, dscp: u8, ecn: Ecn) -> Self {
        Ipv4Header {
            dscp: dscp & 0x3f,
            ecn,
            id: 0,
            ttl: 64,
            protocol,
            src,
            dst,
        }
    }

    /// Parses the payload of a frame. Fragments and damaged headers are refused; options are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Ipv4Packet<'_>, ParseError> {
        let (header, payload, original_bytes) = Self::parse_cut(bytes)?;
        if payload.len() < original_bytes {
            let header_bytes = bytes.len() - payload.len();
            return Err(ParseError::TotalLength {
                total: header_bytes + original_bytes,
                header: header_bytes,
                have: bytes.len(),
            });
        }
        Ok(Ipv4Packet { header, payload })
    }

    /// Parses a packet of which a switch may have cut off the end: header, what is left of the payload,
    /// and the bytes of payload that there were.
    pub(crate) fn parse_cut(bytes: &[u8]) -> Result<(Self, &[u8], usize), ParseError> {
        let Some(head) = bytes.first_chunk::<{ Self::BYTES }>() else {
            return Err(ParseError::Truncated {
                layer: Layer::Ipv4,
                need: Self::BYTES,
                have: bytes.len(),
            });
        };
        if head[0] >> 4 != 4 {
            return Err(ParseError::Version {
                layer: Layer::Ipv4,
                found: head[0] >> 4,
                expected: 4,
            });
        }
        let header_bytes = usize::from(head[0] & 0xf) * 4;
        if header_bytes < Self::BYTES {
            return Err(ParseError::HeaderLength {
                layer: Layer::Ipv4,
                bytes: header_bytes,
            });
        }
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let left = bytes.get(header_bytes..total.min(bytes.len()));
        let (Some(payload), Some(original_bytes)) = (left, total.checked_sub(header_bytes)) else {
            return Err(ParseError::TotalLength {
                total,
                header: header_bytes,
                have: bytes.len(),
            });
        };
        if internet_checksum(&bytes[..header_bytes]) != 0 {
            return Err(ParseError::Checksum { layer: Layer::Ipv4 });
        }
        if u16::from_be_bytes([head[6], head[7]]) & MORE_FRAGMENTS_AND_OFFSET != 0 {
            return Err(ParseError::Fragment);
        }
        let header = Ipv4Header {
            dscp: head[1] >> 2,
            ecn: Ecn::from_bits(head[1]),
            id: u16::from_be_bytes([head[4], head[5]]),
            ttl: head[8],
            protocol: Protocol(head[9]),
            src: Ipv4Addr::new(head[12], head[13], head[14], head[15]),
            dst: Ipv4Addr::new(head[16], head[17], head[18], head[19]),
        };
        Ok((header, payload, original_bytes))
    }

    /// Appends the header of a packet with `payload_bytes` of payload.
    pub fn emit(&self, payload_bytes: usize, out: &mut Vec<u8>) {
        let total = (Self::BYTES + payload_bytes).min(usize::from(u16::MAX)) as u16;
        let [t0, t1] = total.to_be_bytes();
        let [i0, i1] = self.id.to_be_bytes();
        let [f0, f1] = DONT_FRAGMENT.to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        let tos = self.dscp << 2 | self.ecn as u8;
        let mut head: [u8; Self::BYTES] = [
            0x45,
            tos,
            t0,
            t1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            self.protocol.0,
            0,
            0,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ];
        [head[10], head[11]] = internet_checksum(&head).to_be_bytes();
        out.extend_from_slice(&head);
    }
}
