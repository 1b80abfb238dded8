//! Messages between the hypervisors of a tenant: who wants to send to a VM, and at which rate it may
//! (`docs/wire-format.md`).

use std::net::Ipv4Addr;

use crate::{Ecn, EthernetHeader, Ipv4Header, Layer, MacAddress, ParseError, Protocol};

/// A message to the hypervisor of a VM, in an IPv4 packet from VM to VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoseMessage {
    /// The sender has packets for the receiver.
    Demand,
    /// Rate at which the receiver of the message may send to its sender.
    Grant {
        /// Rate that the receiver grants, bit/s.
        rate_bps: u64,
        /// How long, from the arrival of the message.
        lease_ns: u64,
    },
}

impl HoseMessage {
    /// The second number for experiments (RFC 3692): the first is that of Ebb's transports.
    pub const PROTOCOL: Protocol = Protocol(254);
    /// Length of the frame without FCS, which is the shortest.
    pub const FRAME_BYTES: usize = 60;
    /// Length of the message. Behind it there is only what fills the frame.
    const BYTES: usize = 20;
    const DEMAND: u8 = 1;
    const GRANT: u8 = 2;

    /// Parses the payload of an IPv4 packet of the protocol.
    pub fn parse(payload: &[u8]) -> Result<HoseMessage, ParseError> {
        let Some(message) = payload.first_chunk::<{ Self::BYTES }>() else {
            return Err(ParseError::Truncated {
                layer: Layer::Hose,
                need: Self::BYTES,
                have: payload.len(),
            });
        };
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| message[at + i]));
        match message[0] {
            Self::DEMAND => Ok(HoseMessage::Demand),
            Self::GRANT => Ok(HoseMessage::Grant {
                rate_bps: number(4),
                lease_ns: number(12),
            }),
            found => Err(ParseError::HoseKind { found }),
        }
    }

    /// Appends the frame from VM to VM, by way of `stations`: source and gateway.
    pub fn emit(
        &self,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        stations: (MacAddress, MacAddress),
        dscp: u8,
        out: &mut Vec<u8>,
    ) {
        let end = out.len() + Self::FRAME_BYTES;
        EthernetHeader {
            dst: stations.1,
            src: stations.0,
            ethertype: EthernetHeader::IPV4,
        }
        .emit(out);
        Ipv4Header::new(src, dst, Self::PROTOCOL, dscp, Ecn::NotEct).emit(Self::BYTES, out);
        let (kind, rate_bps, lease_ns) = match *self {
            HoseMessage::Demand => (Self::DEMAND, 0, 0),
            HoseMessage::Grant { rate_bps, lease_ns } => (Self::GRANT, rate_bps, lease_ns),
        };
        out.extend([kind, 0, 0, 0]);
        out.extend(rate_bps.to_be_bytes());
        out.extend(lease_ns.to_be_bytes());
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 2);

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let grant = HoseMessage::Grant {
            rate_bps: 250_000_000,
            lease_ns: 2_000_000,
        };
        for message in [HoseMessage::Demand, grant] {
            let mut frame = Vec::new();
            let station = MacAddress([2, 0, 0, 0, 0, 1]);
            message.emit((SRC, DST), (station, station), 34, &mut frame);
            assert_eq!(frame.len(), HoseMessage::FRAME_BYTES);
            let ethernet = EthernetHeader::parse(&frame).expect("a whole frame");
            let packet = Ipv4Header::parse(ethernet.payload).expect("a whole packet");
            assert_eq!((packet.header.src, packet.header.dst), (SRC, DST));
            assert_eq!(packet.header.protocol, HoseMessage::PROTOCOL);
            assert_eq!(HoseMessage::parse(packet.payload), Ok(message));
        }
    }

    #[test]
    fn what_is_short_or_unknown_is_refused() {
        assert!(HoseMessage::parse(&[1; 19]).is_err());
        assert_eq!(
            HoseMessage::parse(&[3; 20]),
            Err(ParseError::HoseKind { found: 3 })
        );
    }
}
