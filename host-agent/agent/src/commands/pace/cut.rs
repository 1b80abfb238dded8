//! Cuts a TCP frame that the kernel left for hardware to cut (TCP segmentation offload), because
//! the pacer works on what is on the wire: "after the last source of bursts" (HULL, section 4.2).

use ebb_packet_io::{Offload, Segmentation};
use ebb_wire::checksum::{Checksum, internet_checksum};
use ebb_wire::{EthernetHeader, Protocol, TcpFlags, TcpHeader};

const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
const VLAN_TAG_BYTES: usize = 4;
/// The most VLAN tags of a frame: two with 802.1ad.
const MAX_VLAN_TAGS: usize = 2;
const ETHERTYPE_AT: usize = 12;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const IPV6_BYTES: usize = 40;
const TCP_CHECKSUM_AT: usize = 16;
/// Bytes of the shortest segments that a sender may ask for: Linux's smallest MSS, 48, less the most
/// options. A frame cut into shorter ones would become tens of thousands.
const MIN_SEGMENT_BYTES: u16 = 8;

/// A frame that says it is to be cut and contradicts itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Cuts `frame` into segments with right lengths and checksums; each goes to `deliver` in a buffer
/// of `pool`.
pub fn cut(
    frame: &[u8],
    offload: &Offload,
    pool: &mut Vec<Vec<u8>>,
    mut deliver: impl FnMut(Vec<u8>),
) -> Result<(), Malformed> {
    let (Segmentation::TcpV4(size) | Segmentation::TcpV6(size)) = offload.segmentation() else {
        return Err(Malformed);
    };
    let layout = Layout::of(frame, offload)?;
    if size < MIN_SEGMENT_BYTES {
        return Err(Malformed);
    }
    let (headers, payload) = frame.split_at(layout.payload);
    let pieces = payload.chunks(size.into());
    let last = pieces.len().saturating_sub(1);
    for (index, piece) in pieces.enumerate() {
        let mut segment = pool.pop().unwrap_or_default();
        segment.clear();
        segment.extend_from_slice(headers);
        segment.extend_from_slice(piece);
        let position = Position {
            index,
            bytes_before: index * usize::from(size),
            is_last: index == last,
        };
        layout.fix(&mut segment, position);
        deliver(segment);
    }
    Ok(())
}

struct Position {
    index: usize,
    bytes_before: usize,
    is_last: bool,
}

/// Where the headers of a frame start, in bytes.
struct Layout {
    network: usize,
    is_ipv4: bool,
    transport: usize,
    payload: usize,
}

impl Layout {
    fn of(frame: &[u8], offload: &Offload) -> Result<Self, Malformed> {
        let (network, ethertype) = network_header_at(frame).ok_or(Malformed)?;
        let is_ipv4 = match ethertype {
            EthernetHeader::IPV4 => true,
            ETHERTYPE_IPV6 => false,
            _ => return Err(Malformed),
        };
        let minimum = if is_ipv4 { 20 } else { IPV6_BYTES };
        let (transport, _) = offload.partial_checksum().ok_or(Malformed)?;
        let header = frame.get(transport..).ok_or(Malformed)?;
        let header = header.first_chunk::<{ TcpHeader::BYTES }>();
        let header_bytes = usize::from(header.ok_or(Malformed)?[12] >> 4) * 4;
        let payload = transport + header_bytes;
        if transport < network + minimum || header_bytes < TcpHeader::BYTES || payload > frame.len()
        {
            return Err(Malformed);
        }
        Ok(Layout {
            network,
            is_ipv4,
            transport,
            payload,
        })
    }

    /// Headers that were copied from the frame become those of one segment of it.
    fn fix(&self, segment: &mut [u8], position: Position) {
        let network_bytes = segment.len() - self.network;
        let transport_bytes = segment.len() - self.transport;
        let (front, tcp) = segment.split_at_mut(self.transport);
        let network = &mut front[self.network..];
        let addresses = if self.is_ipv4 {
            put16(network, 2, network_bytes as u16);
            let id = u16::from_be_bytes([network[4], network[5]]);
            put16(network, 4, id.wrapping_add(position.index as u16));
            put16(network, 10, 0);
            put16(network, 10, internet_checksum(network));
            &network[12..20]
        } else {
            put16(network, 4, (network_bytes - IPV6_BYTES) as u16);
            &network[8..40]
        };
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let seq = seq.wrapping_add(position.bytes_before as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if !position.is_last {
            tcp[13] &= !(TcpFlags::FIN | TcpFlags::PSH).0;
        }
        if position.index > 0 {
            tcp[13] &= !TcpFlags::CWR.0;
        }
        put16(tcp, TCP_CHECKSUM_AT, 0);
        let sum = Checksum::default()
            .over(addresses)
            .over(&[0, Protocol::TCP.0])
            .over(&(transport_bytes as u32).to_be_bytes())
            .over(tcp);
        put16(tcp, TCP_CHECKSUM_AT, sum.finish());
    }
}

/// Where the network header starts, behind the VLAN tags, and its type.
fn network_header_at(frame: &[u8]) -> Option<(usize, u16)> {
    let mut at = ETHERTYPE_AT;
    for _ in 0..=MAX_VLAN_TAGS {
        let ethertype = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        if !VLAN_TYPES.contains(&ethertype) {
            return Some((at + 2, ethertype));
        }
        at += VLAN_TAG_BYTES;
    }
    None
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::pace::testing::tcp_frame;
    use ebb_wire::Ipv4Header;

    fn pieces(frame: &[u8], offload: &Offload) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut segments = Vec::new();
        cut(frame, offload, &mut Vec::new(), |segment| {
            segments.push(segment)
        })?;
        Ok(segments)
    }

    fn super_frame() -> (Vec<u8>, Vec<u8>) {
        let payload: Vec<u8> = (0..3500_u32).map(|i| (i * 7) as u8).collect();
        let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR;
        let mut frame = tcp_frame(1, 2, flags, u32::MAX - 999, &payload);
        // The kernel leaves only the sum of the pseudo header there.
        frame[50..52].fill(0xee);
        (frame, payload)
    }

    #[test]
    fn every_segment_is_a_good_packet_and_together_they_are_the_stream() {
        let (frame, payload) = super_frame();
        let segments = pieces(&frame, &Offload::tcp_v4(34, 1000)).unwrap();
        let mut stream = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            // `parse` checks lengths and checksums.
            let ip = Ipv4Header::parse(&segment[14..]).unwrap();
            assert_eq!(ip.header.id, 0xfffe_u16.wrapping_add(index as u16));
            let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
            let expected = (u32::MAX - 999).wrapping_add(stream.len() as u32);
            assert_eq!(tcp.header.seq, expected);
            let has = |flag| tcp.header.flags.contains(flag);
            assert_eq!(has(TcpFlags::FIN | TcpFlags::PSH), index == 3);
            assert_eq!(has(TcpFlags::CWR), index == 0);
            assert!(has(TcpFlags::ACK));
            stream.extend_from_slice(tcp.payload);
        }
        assert_eq!(segments.len(), 4);
        assert!(stream == payload);
    }

    #[test]
    fn ipv6_has_no_header_checksum_and_counts_without_its_header() {
        let (frame, payload) = super_frame();
        let mut v6 = frame[..12].to_vec();
        v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]);
        v6.extend([0x20; 32]);
        v6.extend_from_slice(&frame[34..]);
        let segments = pieces(&v6, &Offload::tcp_v6(54, 1400)).unwrap();
        assert_eq!(segments.len(), 3);
        let mut bytes = 0;
        for segment in &segments {
            let tcp = &segment[54..];
            assert_eq!(segment[18..20], (tcp.len() as u16).to_be_bytes());
            let sum = Checksum::default()
                .over(&[0x20; 32])
                .over(&[0, 6])
                .over(&(tcp.len() as u32).to_be_bytes())
                .over(tcp);
            assert_eq!(sum.finish(), 0);
            bytes += tcp.len() - 20;
        }
        assert_eq!(bytes, payload.len());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let (frame, _) = super_frame();
        assert!(pieces(&frame, &Offload::tcp_v4(34, 1000)).is_ok());
        assert!(pieces(&frame, &Offload::NONE).is_err());
        for start in [0, 20, 33, 3540, 9999] {
            let offload = Offload::tcp_v4(start, 1000);
            assert_eq!(pieces(&frame, &offload), Err(Malformed), "{start}");
        }
        for size in [0, 1, MIN_SEGMENT_BYTES - 1] {
            assert_eq!(
                pieces(&frame, &Offload::tcp_v4(34, size)),
                Err(Malformed),
                "{size}"
            );
        }
        for len in 0..54 {
            let offload = Offload::tcp_v4(34, 1000);
            assert_eq!(pieces(&frame[..len], &offload), Err(Malformed), "{len}");
        }
    }
}
