//! A packet of a load: UDP over IPv4, and in its payload who sent it, its number and when.

use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_wire::checksum::internet_checksum;
use ebb_wire::{Ecn, EthernetHeader, Ipv4Header, MacAddress, Protocol};

pub const UDP: Protocol = Protocol(17);
const UDP_BYTES: usize = 8;
const UDP_AT: usize = EthernetHeader::BYTES + Ipv4Header::BYTES;
const LOAD_AT: usize = UDP_AT + UDP_BYTES;
const LOAD_BYTES: usize = 32;
/// The shortest IP packet that has room for the payload.
pub const MIN_PACKET_BYTES: u16 = (Ipv4Header::BYTES + UDP_BYTES + LOAD_BYTES) as u16;
/// Bytes of a frame that a receiver needs, with the longest IPv4 header.
pub const HEADERS_BYTES: u32 = (EthernetHeader::BYTES + 60 + UDP_BYTES + LOAD_BYTES) as u32;
const MAGIC: [u8; 4] = *b"Ebb1";

/// Byte offsets in the payload, whose numbers are in network byte order.
const KIND_AT: usize = 4;
const PACKET_BYTES_AT: usize = 6;
const STREAM_AT: usize = 8;
const NUMBER_AT: usize = 12;
const SENT_AT: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `number` counts from 0.
    Data = 0,
    /// The stream is over; `number` packets were sent.
    End = 1,
}

/// Fields of a packet that a receiver counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub source: Ipv4Addr,
    pub kind: Kind,
    /// Chosen by the sender.
    pub stream: u32,
    pub number: u64,
    /// CLOCK_REALTIME of the sender, in ns.
    pub sent_at_ns: u64,
    /// Length of the IP packet when it was sent.
    pub packet_bytes: u16,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub ethernet: EthernetHeader,
    pub source: Ipv4Addr,
    pub to: SocketAddrV4,
    /// Class of the packets.
    pub dscp: u8,
}

/// A frame that is written once and then stamped for each packet. The UDP checksum is left out,
/// as RFC 768 allows: the fabric does not look at it and the payload does not matter.
#[derive(Clone, Debug)]
pub struct Frame(Vec<u8>);

impl Frame {
    /// An IP packet of `packet_bytes`, which are at least [`MIN_PACKET_BYTES`].
    pub fn new(path: &Path, stream: u32, packet_bytes: u16) -> Self {
        let packet_bytes = packet_bytes.max(MIN_PACKET_BYTES);
        let mut frame = Vec::new();
        path.ethernet.emit(&mut frame);
        let udp_bytes = packet_bytes - Ipv4Header::BYTES as u16;
        Ipv4Header::new(path.source, *path.to.ip(), UDP, path.dscp, Ecn::NotEct)
            .emit(udp_bytes.into(), &mut frame);
        frame.extend([0, 0]);
        frame.extend(path.to.port().to_be_bytes());
        frame.extend(udp_bytes.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(MAGIC);
        frame.extend([0, 0]);
        frame.extend(packet_bytes.to_be_bytes());
        frame.extend(stream.to_be_bytes());
        frame.resize(EthernetHeader::BYTES + usize::from(packet_bytes), 0);
        Frame(frame)
    }

    pub fn stamp(&mut self, kind: Kind, source_port: u16, number: u64, sent_at_ns: u64) {
        self.0[UDP_AT..UDP_AT + 2].copy_from_slice(&source_port.to_be_bytes());
        let load = &mut self.0[LOAD_AT..LOAD_AT + LOAD_BYTES];
        load[KIND_AT] = kind as u8;
        load[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
        load[SENT_AT..SENT_AT + 8].copy_from_slice(&sent_at_ns.to_be_bytes());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads a frame, of which only the headers need to be there, if it is a load's to `mac`. UDP is
/// what the filter of the socket lets pass.
pub fn parse(frame: &[u8], mac: MacAddress) -> Option<Arrival> {
    let frame = EthernetHeader::parse(frame).ok()?;
    if frame.header.dst != mac || frame.header.ethertype != EthernetHeader::IPV4 {
        return None;
    }
    let packet = frame.payload;
    let header_bytes = usize::from(packet.first()? & 0xf) * 4;
    let header = packet.get(..header_bytes.max(Ipv4Header::BYTES))?;
    if packet[0] >> 4 != 4 || internet_checksum(header) != 0 || header[9] != UDP.0 {
        return None;
    }
    let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    let load = packet.get(header.len() + UDP_BYTES..)?;
    let load: &[u8; LOAD_BYTES] = load.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([load[at], load[at + 1], load[at + 2], load[at + 3]]);
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    if load[..4] != MAGIC {
        return None;
    }
    Some(Arrival {
        source,
        kind: match load[KIND_AT] {
            0 => Kind::Data,
            1 => Kind::End,
            _ => return None,
        },
        stream: word(STREAM_AT),
        number: long(NUMBER_AT),
        sent_at_ns: long(SENT_AT),
        packet_bytes: u16::from_be_bytes([load[PACKET_BYTES_AT], load[PACKET_BYTES_AT + 1]]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

    fn frame(packet_bytes: u16) -> Frame {
        let path = Path {
            ethernet: EthernetHeader {
                dst: MAC,
                src: MacAddress([2, 0, 0, 0, 0, 8]),
                ethertype: EthernetHeader::IPV4,
            },
            source: Ipv4Addr::new(10, 0, 0, 2),
            to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 3), 7010),
            dscp: 10,
        };
        let mut frame = Frame::new(&path, 0xdead_beef, packet_bytes);
        frame.stamp(Kind::Data, 50_000, 1 << 40, u64::MAX - 1);
        frame
    }

    #[test]
    fn what_was_stamped_is_read_from_the_headers_alone() {
        let frame = frame(1500);
        assert_eq!(frame.bytes().len(), 1514);
        let expected = Arrival {
            source: Ipv4Addr::new(10, 0, 0, 2),
            kind: Kind::Data,
            stream: 0xdead_beef,
            number: 1 << 40,
            sent_at_ns: u64::MAX - 1,
            packet_bytes: 1500,
        };
        let headers = &frame.bytes()[..HEADERS_BYTES as usize];
        assert_eq!(parse(headers, MAC), Some(expected));
    }

    #[test]
    fn the_packet_is_good_ipv4_and_udp() {
        let frame = frame(1500);
        let packet = Ipv4Header::parse(&frame.bytes()[14..]).unwrap();
        assert_eq!((packet.header.dscp, packet.header.protocol), (10, UDP));
        let ports_and_length = [50_000_u16, 7010, 1480, 0].map(u16::to_be_bytes).concat();
        assert_eq!(packet.payload[..8], ports_and_length);
    }

    #[test]
    fn no_frame_is_shorter_than_its_headers() {
        assert_eq!(frame(0).bytes().len(), 14 + usize::from(MIN_PACKET_BYTES));
    }

    #[test]
    fn what_is_cut_or_damaged_or_not_ours_is_nothing() {
        let whole = frame(MIN_PACKET_BYTES).bytes().to_vec();
        assert!(parse(&whole, MAC).is_some());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length], MAC), None);
        }
        assert_eq!(parse(&whole, MacAddress([2; 6])), None);
        for at in (12..34).chain(42..47) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(parse(&damaged, MAC), None, "byte {at}");
        }
    }
}
