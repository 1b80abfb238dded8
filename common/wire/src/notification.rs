//! Headers of a TCP packet that a switch dropped, on the way back to its sender
//! (`docs/drop-notification.md`): addresses swapped, cut after the TCP header, all else as it was.

use std::net::SocketAddrV4;

use crate::tcp::be32;
use crate::{Ipv4Header, Layer, ParseError, Protocol, TcpFlags, TcpHeader};

/// A notification. Nothing authenticates it, and its TCP checksum cannot be verified: that covers the payload, which
/// is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropNotification {
    /// Sender of the packet, who is notified.
    pub sender: SocketAddrV4,
    /// Where the packet was to go.
    pub receiver: SocketAddrV4,
    /// Sequence number of the dropped segment.
    pub seq: u32,
    /// Acknowledgment number of the dropped segment; meaningful only with the ACK flag.
    pub ack: u32,
    /// Flags of the dropped segment.
    pub flags: TcpFlags,
    /// Payload of the packet that was dropped, in bytes.
    pub payload_bytes: usize,
}

impl DropNotification {
    /// Sequence numbers that the segment took, the SYN's not counted: a byte of payload takes one, and so does a FIN.
    pub fn stream_length(&self) -> u64 {
        self.payload_bytes as u64 + u64::from(self.flags.contains(TcpFlags::FIN))
    }

    /// Parses an IPv4 packet that its class (DSCP) marks as a notification. Bytes after the first 20
    /// of the TCP header are ignored.
    pub fn parse(bytes: &[u8]) -> Result<DropNotification, ParseError> {
        let (header, left, original_bytes) = Ipv4Header::parse_cut(bytes)?;
        if header.protocol != Protocol::TCP {
            return Err(ParseError::Protocol {
                found: header.protocol.0,
                expected: Protocol::TCP.0,
            });
        }
        let truncated = |need, have| ParseError::Truncated {
            layer: Layer::Tcp,
            need,
            have,
        };
        let head = left
            .first_chunk::<{ TcpHeader::BYTES }>()
            .ok_or(truncated(TcpHeader::BYTES, left.len()))?;
        let header_bytes = usize::from(head[12] >> 4) * 4;
        if header_bytes < TcpHeader::BYTES {
            return Err(ParseError::HeaderLength {
                layer: Layer::Tcp,
                bytes: header_bytes,
            });
        }
        let payload_bytes = original_bytes
            .checked_sub(header_bytes)
            .ok_or(truncated(header_bytes, original_bytes))?;
        let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        Ok(DropNotification {
            // The addresses are swapped, the ports are not.
            sender: SocketAddrV4::new(header.dst, port(0)),
            receiver: SocketAddrV4::new(header.src, port(2)),
            seq: be32(head, 4),
            ack: be32(head, 8),
            flags: TcpFlags(head[13]),
            payload_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::{Ecn, TcpOptions};

    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
    const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);

    /// The notification of a packet of `payload_bytes` from SENDER to RECEIVER, port 5001 to 40000,
    /// sequence number 1000, with `options`.
    fn notification(payload_bytes: usize, options: TcpOptions) -> Vec<u8> {
        let header = TcpHeader {
            source_port: 5001,
            destination_port: 40_000,
            seq: 1000,
            ack: 77,
            flags: TcpFlags::ACK,
            window: 500,
            options,
        };
        let (mut tcp, payload) = (Vec::new(), vec![0; payload_bytes]);
        header.emit(SENDER, RECEIVER, &payload, &mut tcp);
        let mut packet = Vec::new();
        Ipv4Header::new(RECEIVER, SENDER, Protocol::TCP, 56, Ecn::NotEct)
            .emit(tcp.len(), &mut packet);
        packet.extend_from_slice(&tcp[..header.emitted_bytes()]);
        packet
    }

    #[test]
    fn the_sender_finds_its_packet_and_how_long_it_was() {
        let mut packet = notification(1460, TcpOptions::default());
        assert_eq!((packet.len(), &packet[2..4]), (40, &[0x05, 0xdc][..]));
        let expected = DropNotification {
            sender: SocketAddrV4::new(SENDER, 5001),
            receiver: SocketAddrV4::new(RECEIVER, 40_000),
            seq: 1000,
            ack: 77,
            flags: TcpFlags::ACK,
            payload_bytes: 1460,
        };
        assert_eq!(DropNotification::parse(&packet), Ok(expected));
        // A frame of 54 bytes is padded to 60.
        packet.extend_from_slice(&[0; 6]);
        assert_eq!(DropNotification::parse(&packet), Ok(expected));
        // To all others it is no packet.
        assert!(matches!(
            Ipv4Header::parse(&packet),
            Err(ParseError::TotalLength { total: 1500, .. })
        ));
    }

    #[test]
    fn options_are_no_payload() {
        let options = TcpOptions {
            timestamps: Some((1, 2)),
            ..TcpOptions::default()
        };
        let packet = notification(1448, options.clone());
        assert_eq!(
            DropNotification::parse(&packet).unwrap().payload_bytes,
            1448
        );
        let packet = notification(0, options);
        assert_eq!(DropNotification::parse(&packet).unwrap().payload_bytes, 0);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let packet = notification(100, TcpOptions::default());
        for bytes in 0..packet.len() {
            assert!(
                DropNotification::parse(&packet[..bytes]).is_err(),
                "{bytes}"
            );
        }
        let changed = |at: usize, value: u8| {
            let mut changed = packet.clone();
            changed[at] = value;
            DropNotification::parse(&changed)
        };
        // A TCP header longer than the packet was; one shorter than any.
        let mut short = notification(0, TcpOptions::default());
        short[32] = 0x60;
        assert!(DropNotification::parse(&short).is_err());
        assert!(changed(32, 0x40).is_err());
        // Every change of the IPv4 header breaks its checksum, its version or its length.
        for (at, byte) in packet.iter().enumerate().take(Ipv4Header::BYTES) {
            assert!(changed(at, byte ^ 0x10).is_err(), "{at}");
        }
        let udp = {
            let mut packet = Vec::new();
            Ipv4Header::new(RECEIVER, SENDER, Protocol(17), 56, Ecn::NotEct).emit(20, &mut packet);
            packet.extend_from_slice(&[0x50; 20]);
            packet
        };
        assert_eq!(
            DropNotification::parse(&udp),
            Err(ParseError::Protocol {
                found: 17,
                expected: 6
            })
        );
    }
}
