//! Consecutive segments of a flow are merged into one segment.
//!
//! As Linux does it (GRO, and LRO before it): only segments with payload, without urgent data, of
//! the same addresses, ports, class, ECN mark, identification, acknowledgment and window, each
//! beginning where the one before it ends; a shorter one, one with PSH and one with FIN is the last
//! of a merged segment. Identifications that count up, which Linux merges, are kept apart here: with
//! us they are values of hosts and switches, such as pFabric's remaining size.
//! Timestamps may differ, as with LRO: the merged segment has the oldest, the one that an
//! acknowledgment of all of them echoes (RFC 7323 4.3).

use std::net::Ipv4Addr;

use ebb_wire::{Ipv4Header, Protocol, TcpFlags, TcpHeader, TcpOptions};

/// Longest IPv4 packet.
const MOST_BYTES: usize = u16::MAX as usize;

/// Packets in the order in which they came, merged as far as they can be.
#[derive(Clone, Debug, Default)]
pub struct Merge {
    waiting: Vec<Waiting>,
    /// Packets received since the last delivery.
    packets: usize,
    /// Memory of delivered packets.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Waiting {
    /// The packet as it came, while it is alone.
    packet: Vec<u8>,
    /// The segment, if others can be appended to it.
    open: Option<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    ip: Ipv4Header,
    tcp: TcpHeader,
    payload: Vec<u8>,
    /// Payload of the first segment, the longest.
    segment_bytes: usize,
    /// Whether there is a second one.
    merged: bool,
    /// Whether no more segments can be appended.
    closed: bool,
}

impl Merge {
    /// Packets received.
    pub fn packets(&self) -> usize {
        self.packets
    }

    pub fn take(&mut self, packet: &[u8]) {
        self.packets += 1;
        let open = Open::new(packet);
        if let Some(new) = &open {
            // A packet can be appended only to the last one of its flow.
            let last = self.waiting.iter_mut().rev().find_map(|waiting| {
                let open = waiting.open.as_mut()?;
                (open.flow() == new.flow()).then_some(open)
            });
            if let Some(last) = last
                && last.append(new)
            {
                return;
            }
        } else if let Some(flow) = flow_of(packet) {
            // Nothing overtakes a packet of its flow that cannot be merged.
            for open in self.waiting.iter_mut().filter_map(|w| w.open.as_mut()) {
                open.closed |= open.flow() == flow;
            }
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        self.waiting.push(Waiting { packet: copy, open });
    }

    /// Delivers all, in the order of the first packet in each.
    pub fn give(&mut self, mut deliver: impl FnMut(&[u8])) {
        self.packets = 0;
        for Waiting { mut packet, open } in self.waiting.drain(..) {
            if let Some(open) = open.filter(|open| open.merged) {
                open.emit(&mut packet);
            }
            deliver(&packet);
            self.spare.push(packet);
        }
    }
}

type Flow = (Ipv4Addr, Ipv4Addr, u16, u16);

/// Addresses and ports of a packet of TCP, whatever else is in it.
fn flow_of(packet: &[u8]) -> Option<Flow> {
    let ip = Ipv4Header::parse(packet).ok()?;
    if ip.header.protocol != Protocol::TCP {
        return None;
    }
    let ports = ip.payload.first_chunk::<4>()?;
    let [s0, s1, d0, d1] = *ports;
    let (source, destination) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    Some((ip.header.src, ip.header.dst, source, destination))
}

impl Open {
    /// A whole segment with payload, to which others may be appended. None: any other packet.
    fn new(packet: &[u8]) -> Option<Self> {
        let ip = Ipv4Header::parse(packet).ok()?;
        if ip.header.protocol != Protocol::TCP {
            return None;
        }
        let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).ok()?;
        let unusual = [TcpFlags::SYN, TcpFlags::RST, TcpFlags::URG, TcpFlags::CWR];
        let is_plain = unusual.iter().all(|flag| !tcp.header.flags.contains(*flag));
        // Options that we do not know would be lost.
        let headers = Ipv4Header::BYTES + tcp.header.emitted_bytes();
        let known = headers + tcp.payload.len() == packet.len();
        if !is_plain || !known || tcp.payload.is_empty() {
            return None;
        }
        Some(Open {
            ip: ip.header,
            segment_bytes: tcp.payload.len(),
            payload: tcp.payload.to_vec(),
            closed: ends(tcp.header.flags),
            tcp: tcp.header,
            merged: false,
        })
    }

    fn flow(&self) -> Flow {
        let ports = (self.tcp.source_port, self.tcp.destination_port);
        (self.ip.src, self.ip.dst, ports.0, ports.1)
    }

    /// Appends a segment of the same flow. False: it does not fit, and nothing has changed.
    fn append(&mut self, next: &Open) -> bool {
        let (a, b) = (&self.tcp, &next.tcp);
        let follows = a.seq.wrapping_add(self.payload.len() as u32) == b.seq;
        let alike = a.ack == b.ack
            && a.window == b.window
            && without_end(a.flags) == without_end(b.flags)
            && self.ip.dscp == next.ip.dscp
            && self.ip.ecn == next.ip.ecn
            && self.ip.id == next.ip.id
            && self.ip.ttl == next.ip.ttl
            && without_time(&a.options) == without_time(&b.options)
            && a.options.timestamps.is_some() == b.options.timestamps.is_some();
        let headers = Ipv4Header::BYTES + self.tcp.emitted_bytes();
        let fits = headers + self.payload.len() + next.payload.len() <= MOST_BYTES;
        let mergeable = !self.closed && follows && alike && fits;
        if !mergeable || next.payload.len() > self.segment_bytes {
            return false;
        }
        self.payload.extend_from_slice(&next.payload);
        self.tcp.flags = a.flags | b.flags;
        self.closed = next.closed || next.payload.len() < self.segment_bytes;
        self.merged = true;
        true
    }

    /// Writes the segment over `packet`.
    fn emit(&self, packet: &mut Vec<u8>) {
        packet.clear();
        let bytes = self.tcp.emitted_bytes() + self.payload.len();
        self.ip.emit(bytes, packet);
        self.tcp
            .emit(self.ip.src, self.ip.dst, &self.payload, packet);
    }
}

/// The flags of the last segment of a train.
fn ends(flags: TcpFlags) -> bool {
    flags.contains(TcpFlags::PSH) || flags.contains(TcpFlags::FIN)
}

fn without_end(flags: TcpFlags) -> TcpFlags {
    TcpFlags(flags.0 & !(TcpFlags::PSH.0 | TcpFlags::FIN.0))
}

fn without_time(options: &TcpOptions) -> TcpOptions {
    TcpOptions {
        timestamps: None,
        ..options.clone()
    }
}
