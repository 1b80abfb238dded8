//! The host's link: packets come and go, Ethernet is added and removed here.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use ebb_packet_io::{
    Bits, Filter, MAX_FRAME_BYTES, MAX_SEND_BATCH, PacketIo, PacketSocket, PortOffset,
    ReceiveBuffers, ReceiveRing, ReceivedFrame, SendError, SocketOptions, Withheld, Withholding,
};
use ebb_transport::{Condition, Selector};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetFrame, EthernetHeader, MacAddress, PfcFrame, Protocol};

use crate::engine::faults::Faults;
use crate::engine::frame_paths::{FramePath, FramePaths};
use crate::engine::params::Params;
use crate::engine::transports::OurPackets;
use crate::machine::interface::Interface;
use crate::machine::next_hop::NextHops;
use crate::machine::waker::Waker;

/// The most frames that one system call sends or receives.
const BATCH_FRAMES: usize = 64;
/// Memory of the ring: 2048 frames, 240 ms of full ones at 100 Mbit/s.
const RING_BYTES: usize = 4 << 20;
/// Memory of a ring for frames that are longer than Ethernet's: 1024 of 9000 bytes.
const LONG_RING_BYTES: usize = 16 << 20;
/// Wait before a frame is sent again for which the interface's queue, or a ring, had no room; nothing says when it has.
const QUEUE_PAUSE: Duration = Duration::from_micros(100);
const ETHERNET_MTU_BYTES: u16 = 1500;
const IPV4_SOURCE_AT: usize = 12;
const IPV4_DESTINATION_AT: usize = 16;

/// Packets that did not reach the wire, or us, by what became of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct LinkCounters {
    /// No next hop was known.
    pub unroutable: u64,
    /// The interface was down.
    pub down: u64,
    /// Longer than the interface's MTU, which has become smaller since we started.
    pub too_long: u64,
    /// Arrived faster than we took them: the socket's buffer was full.
    pub overrun: u64,
}

/// A frame that has arrived.
pub enum Arrived<'a> {
    /// An IPv4 packet, probably.
    Packet {
        bytes: &'a [u8],
        /// CLOCK_REALTIME of its arrival at the kernel, in ns. None: the link does not ask for it, or
        /// a fault has held the packet up.
        realtime_ns: Option<u64>,
    },
    /// A MAC control frame.
    Control(&'a EthernetFrame<'a>),
}

/// The paths to the switch, with what stands between them and the transports.
pub struct Link {
    interface: Interface,
    hops: NextHops,
    paths: FramePaths,
    /// Whether MAC control frames are let through.
    obeys_pfc: bool,
    /// Keeps our packets from the kernel. `None`: the kernel drops them where it routes them.
    withholding: Option<(Withheld, Withholding)>,
    outgoing: Outgoing,
    /// Faults made on purpose. `None`: there are none in this direction.
    leaving: Option<Faults>,
    arriving: Option<Faults>,
    /// The peer of the last packet in each direction, so that a burst is looked up once.
    last_destination: Option<(Ipv4Addr, MacAddress)>,
    last_source: Option<(Ipv4Addr, MacAddress)>,
    /// Why frames wait. `None`: they do not.
    stuck: Option<Stuck>,
    counters: LinkCounters,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stuck {
    /// The socket's buffer is full; it becomes writable when it is not.
    Socket,
    /// The interface's queue, or the ring, is full; frames are tried again at this time.
    Queue(Instant),
}

impl Link {
    /// `ring`: the socket where the switch gives a ring, if it shall.
    pub fn open(
        interface: Interface,
        hops: NextHops,
        params: &Params,
        ring: Option<&Path>,
    ) -> anyhow::Result<Self> {
        // Nothing else passes until a transport is open.
        let filter = Filter::new().with_mac_control(params.nic.pfc);
        Self::open_with(interface, hops, params, Some(filter), ring)
    }

    /// A link of virtual machines, whose addresses are not those of the interface: every frame passes,
    /// with the time of its arrival.
    pub fn open_for_vms(
        interface: Interface,
        hops: NextHops,
        params: &Params,
    ) -> anyhow::Result<Self> {
        Self::open_with(interface, hops, params, None, None)
    }

    fn open_with(
        interface: Interface,
        hops: NextHops,
        params: &Params,
        filter: Option<Filter>,
        ring: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let options = SocketOptions {
            timestamps: filter.is_none(),
            filter,
            ..Default::default()
        };
        let socket = PacketSocket::open(&interface.name, &options).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run as root or with CAP_NET_RAW",
                _ => "",
            };
            let name = &interface.name;
            anyhow::Error::from(error)
                .context(format!("cannot open a packet socket on `{name}`{hint}"))
        })?;
        let frame_bytes = usize::from(interface.mtu_bytes) + EthernetHeader::BYTES;
        let bytes = match interface.mtu_bytes {
            ..=ETHERNET_MTU_BYTES => RING_BYTES,
            _ => LONG_RING_BYTES,
        };
        // Frames of virtual machines have times of arrival.
        let mapped = (!options.timestamps)
            .then(|| ReceiveRing::map_for(&socket, bytes, frame_bytes))
            .transpose()
            .inspect_err(|error| tracing::debug!("frames are read by system calls: {error}"))
            .unwrap_or_default();
        let buffers = ReceiveBuffers::new(BATCH_FRAMES, MAX_FRAME_BYTES);
        Ok(Link {
            interface,
            hops,
            paths: FramePaths::open(PacketIo::new(socket, mapped, buffers), ring)?,
            obeys_pfc: params.nic.pfc,
            withholding: None,
            outgoing: Outgoing::default(),
            leaving: Faults::leaving(&params.faults, params.dscp),
            arriving: Faults::arriving(&params.faults, params.dscp),
            last_destination: None,
            last_source: None,
            stuck: None,
            counters: LinkCounters::default(),
        })
    }

    pub fn hops(&self) -> &NextHops {
        &self.hops
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    pub fn address(&self) -> Ipv4Addr {
        self.interface.address
    }

    /// The counters since the last call.
    pub fn take_counters(&mut self) -> LinkCounters {
        self.counters.overrun += self.paths.take_drops();
        std::mem::take(&mut self.counters)
    }

    /// Lets these packets through from now on, and MAC control frames if the NIC obeys them; and, if there is no room
    /// for so many rules, others too, which are nobody's. A DSCP is left to whom they are handed to.
    pub fn filter(&mut self, packets: &[OurPackets]) -> anyhow::Result<()> {
        let rules = |packets: &[OurPackets]| {
            let control = Filter::new().with_mac_control(self.obeys_pfc);
            packets.iter().fold(control, with_rule)
        };
        let (exact, wide) = (rules(packets), rules(&covering(packets)));
        self.paths
            .set_filter(&exact)
            .or_else(|error| {
                tracing::debug!("packets to other ports are read as well: {error}");
                self.paths.set_filter(&wide)
            })
            .context("cannot filter what arrives at the packet socket")?;
        let withheld = withheld(self.interface.address, packets);
        // To replace it takes the kernel tens of milliseconds, in which no packet is read.
        if self
            .withholding
            .as_ref()
            .is_some_and(|(last, _)| *last == withheld)
        {
            return Ok(());
        }
        match self.paths.socket().withhold(&withheld) {
            Ok(withholding) => self.withholding = Some((withheld, withholding)),
            Err(error) => {
                tracing::debug!("the kernel routes our packets before it drops them: {error}")
            }
        }
        Ok(())
    }

    /// Hands what arrived to `handle`, a bounded number of packets and frames. True: there may be
    /// more.
    pub fn receive(
        &mut self,
        now: Instant,
        mut handle: impl FnMut(Arrived<'_>),
    ) -> anyhow::Result<bool> {
        if let Some(faults) = &mut self.arriving {
            while let Some(packet) = faults.poll(now) {
                handle(late(&packet));
            }
        }
        let (interface, hops, last_source) = (&self.interface, &self.hops, &mut self.last_source);
        let arriving = &mut self.arriving;
        let take = |received: ReceivedFrame<'_>, path: FramePath| {
            let realtime_ns = received.realtime_ns;
            let Ok(frame) = EthernetHeader::parse(received.bytes) else {
                return;
            };
            if frame.header.dst != interface.mac && !frame.header.dst.is_group() {
                return;
            }
            if frame.header.ethertype == PfcFrame::ETHERTYPE {
                return match path {
                    FramePath::BesideRing => {}
                    FramePath::Interface | FramePath::Ring => handle(Arrived::Control(&frame)),
                };
            }
            let source = address_at(frame.payload, IPV4_SOURCE_AT);
            if let Some(source) = source.map(|source| (source, frame.header.src))
                && *last_source != Some(source)
            {
                *last_source = Some(source);
                hops.learn(source.0, source.1);
            }
            match arriving {
                None => handle(Arrived::Packet {
                    bytes: frame.payload,
                    realtime_ns,
                }),
                Some(faults) => faults.pass(now, frame.payload, |packet| handle(late(packet))),
            }
        };
        match self.paths.receive(BATCH_FRAMES, take) {
            Ok(more) => Ok(more),
            // It may come up again; until then flows time out. One that was deleted will not.
            Err(error)
                if error.kind() == io::ErrorKind::NetworkDown
                    && self.paths.socket().interface_exists() =>
            {
                tracing::warn!("interface `{}` is down", self.interface.name);
                Ok(false)
            }
            Err(error) => {
                let name = &self.interface.name;
                Err(error)
                    .with_context(|| format!("cannot receive on `{name}`; does it still exist?"))
            }
        }
    }

    /// Takes a packet to be sent with the next [`flush`](Self::flush).
    pub fn push(&mut self, now: Instant, packet: &[u8]) {
        let Some(header) = self.header_for(packet) else {
            self.counters.unroutable += 1;
            return;
        };
        let outgoing = &mut self.outgoing;
        match &mut self.leaving {
            None => outgoing.push(&header, packet),
            Some(faults) => faults.pass(now, packet, |packet| outgoing.push(&header, packet)),
        }
    }

    /// Takes a whole frame to be sent with the next [`flush`](Self::flush).
    pub fn push_frame(&mut self, frame: &[u8]) {
        self.outgoing.push_frame(frame);
    }

    /// MAC address of the interface.
    pub fn mac(&self) -> MacAddress {
        self.interface.mac
    }

    fn header_for(&mut self, packet: &[u8]) -> Option<EthernetHeader> {
        let destination = address_at(packet, IPV4_DESTINATION_AT)?;
        let dst = match self.last_destination {
            Some((known, mac)) if known == destination => mac,
            _ => {
                let mac = self.hops.mac(destination)?;
                self.last_destination = Some((destination, mac));
                mac
            }
        };
        Some(EthernetHeader {
            dst,
            src: self.interface.mac,
            ethertype: EthernetHeader::IPV4,
        })
    }

    /// No more should be pushed before the next [`flush`](Self::flush).
    pub fn is_full(&self) -> bool {
        self.outgoing.len() >= BATCH_FRAMES
    }

    /// Sends what was pushed, as far as there is room. False: some of it waits.
    pub fn flush(&mut self, now: Instant) -> anyhow::Result<bool> {
        // The next hop of this burst may be another for the next one.
        self.last_destination = None;
        self.release_late(now);
        if let Some(Stuck::Queue(until)) = self.stuck
            && until > now
        {
            return Ok(false);
        }
        self.stuck = None;
        while self.outgoing.len() > 0 {
            match self.paths.send(self.outgoing.frames()) {
                Ok(sent) => self.outgoing.advance(sent),
                Err(SendError::Full) if self.paths.says_when_there_is_room() => {
                    self.stuck = Some(Stuck::Socket);
                    return Ok(false);
                }
                Err(SendError::Full) => {
                    self.stuck = Some(Stuck::Queue(now + QUEUE_PAUSE));
                    return Ok(false);
                }
                Err(SendError::QueueFull) => {
                    self.stuck = Some(Stuck::Queue(now + QUEUE_PAUSE));
                    return Ok(false);
                }
                // Lost, as on a cable that is not plugged in.
                Err(SendError::Down) => {
                    self.counters.down += 1;
                    self.outgoing.advance(1);
                }
                Err(SendError::TooLong | SendError::Malformed) => {
                    self.counters.too_long += 1;
                    self.outgoing.advance(1);
                }
                Err(SendError::Other(error)) => {
                    let name = &self.interface.name;
                    return Err(error)
                        .with_context(|| format!("cannot send on `{name}`; does it still exist?"));
                }
            }
        }
        Ok(true)
    }

    /// Late packets go wherever their first try would have gone.
    fn release_late(&mut self, now: Instant) {
        while let Some(packet) = self.leaving.as_mut().and_then(|faults| faults.poll(now)) {
            if let Some(header) = self.header_for(&packet) {
                self.outgoing.push(&header, &packet);
            }
        }
    }

    /// When something happens here although nothing arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let late = [&self.leaving, &self.arriving];
        let late = late.into_iter().flatten().filter_map(Faults::next_deadline);
        let retry = match self.stuck {
            Some(Stuck::Queue(until)) => Some(until),
            _ => None,
        };
        late.chain(retry).min()
    }

    /// Sleeps until a frame arrives, there is room for those that wait, the waker is called, or
    /// `patience` is over (`None`: no limit).
    pub fn wait(&mut self, patience: Option<Duration>, waker: &Waker) -> io::Result<()> {
        let stuck = self.stuck == Some(Stuck::Socket);
        let patience = patience.map(std::time::Duration::from);
        self.paths.wait(patience, stuck, waker)
    }
}

fn with_rule(filter: Filter, ours: &OurPackets) -> Filter {
    let protocol = ours.selector.protocol.0;
    let port_at = PortOffset(ours.selector.port_at);
    let ports = ours.ports.first..=ours.ports.last;
    match ours.selector.condition {
        Some(Condition::Bits { at, mask }) => {
            filter.or_if(protocol, Bits { at, mask }, port_at, ports)
        }
        Some(Condition::Dscp(_)) | None => filter.or(protocol, port_at, ports),
    }
}

/// These packets and others: of those that are selected alike, all from the first port to the last.
fn covering(packets: &[OurPackets]) -> Vec<OurPackets> {
    let mut covering: Vec<OurPackets> = Vec::new();
    for ours in packets {
        match covering
            .iter_mut()
            .find(|all| all.selector == ours.selector)
        {
            Some(all) => {
                all.ports.first = all.ports.first.min(ours.ports.first);
                all.ports.last = all.ports.last.max(ours.ports.last);
            }
            None => covering.push(*ours),
        }
    }
    covering
}

/// Packets that the kernel would drop for its rules ([`crate::machine::kernel_rules`]).
fn withheld(address: Ipv4Addr, packets: &[OurPackets]) -> Withheld {
    let mut withheld = Withheld::to(address);
    if packets
        .iter()
        .any(|ours| ours.selector.protocol == Protocol::EBB)
    {
        withheld = withheld.or(Protocol::EBB.0);
    }
    let of_tcp = packets
        .iter()
        .filter(|ours| ours.selector == Selector::any(Protocol::TCP, PortOffset::TCP.0));
    of_tcp.fold(withheld, |withheld, ours| {
        withheld.or_ports(Protocol::TCP.0, ours.ports.first..=ours.ports.last)
    })
}

/// A packet that a fault has held up, or may have.
fn late(bytes: &[u8]) -> Arrived<'_> {
    Arrived::Packet {
        bytes,
        realtime_ns: None,
    }
}

fn address_at(packet: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
    Some(octets.into())
}

/// Frames on their way out, oldest first. Their buffers are used again and again.
#[derive(Default)]
struct Outgoing {
    frames: Vec<Vec<u8>>,
    /// The oldest frame that waits.
    first: usize,
    /// One behind the last frame that waits; buffers from here on are free.
    end: usize,
}

impl Outgoing {
    fn push(&mut self, header: &EthernetHeader, packet: &[u8]) {
        let frame = self.next();
        header.emit(frame);
        frame.extend_from_slice(packet);
    }

    fn push_frame(&mut self, whole: &[u8]) {
        self.next().extend_from_slice(whole);
    }

    /// An empty buffer behind the last frame.
    fn next(&mut self) -> &mut Vec<u8> {
        if self.end == self.frames.len() {
            self.frames.push(Vec::new());
        }
        let frame = &mut self.frames[self.end];
        self.end += 1;
        frame.clear();
        frame
    }

    fn len(&self) -> usize {
        self.end - self.first
    }

    fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let frames = self.frames[self.first..self.end].iter();
        frames.map(Vec::as_slice).take(MAX_SEND_BATCH)
    }

    fn advance(&mut self, frames: usize) {
        self.first += frames;
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::port_lock::PortRange;

    const HEADER: EthernetHeader = EthernetHeader {
        dst: MacAddress([2; 6]),
        src: MacAddress([4; 6]),
        ethertype: EthernetHeader::IPV4,
    };

    #[test]
    fn what_waits_goes_first_and_buffers_are_used_again() {
        let mut outgoing = Outgoing::default();
        for packet in [b"a", b"b", b"c"] {
            outgoing.push(&HEADER, packet);
        }
        outgoing.advance(2);
        outgoing.push(&HEADER, b"d");
        let rest: Vec<u8> = outgoing.frames().map(|frame| frame[14]).collect();
        assert_eq!(rest, b"cd");
        outgoing.advance(2);
        assert_eq!(outgoing.len(), 0);
        outgoing.push(&HEADER, b"e");
        assert_eq!(outgoing.frames().next().map(|frame| frame[14]), Some(b'e'));
        assert_eq!(outgoing.frames.len(), 4);
    }

    #[test]
    fn addresses_are_read_from_whole_headers_only() {
        let packet: Vec<u8> = (0..20).collect();
        let destination = address_at(&packet, IPV4_DESTINATION_AT);
        assert_eq!(destination, Some(Ipv4Addr::new(16, 17, 18, 19)));
        assert_eq!(address_at(&packet[..19], IPV4_DESTINATION_AT), None);
    }

    #[test]
    fn few_rules_cover_many_ports() {
        let ours = |selector, first, last| OurPackets {
            selector,
            ports: PortRange { first, last },
        };
        let tcp = Selector::any(Protocol::TCP, PortOffset::TCP.0);
        let ebb = Selector::any(Protocol::EBB, 6);
        let notified = Selector::only(Protocol::TCP, 2, Condition::Dscp(33));
        let mut packets = vec![ours(tcp, 7002, 7002), ours(ebb, 7000, 7000)];
        packets.extend((10_000..10_500).map(|port| ours(tcp, port, port)));
        packets.extend([ours(notified, 7010, 7010), ours(tcp, 500, 563)]);
        let expected = [
            ours(tcp, 500, 10_499),
            ours(ebb, 7000, 7000),
            ours(notified, 7010, 7010),
        ];
        assert_eq!(covering(&packets), expected);
        assert_eq!(covering(&expected), expected);
    }
}
