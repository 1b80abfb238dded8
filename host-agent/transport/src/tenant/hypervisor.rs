//! The hypervisor of a host: its virtual machines behind one NIC, paced as they are guaranteed.
//!
//! ```text
//!  VM with a guarantee ──► pacer ──► batches, with void frames ──┐
//!  VM without ───────────► queue, in the room of void frames ────┴─► NIC
//! ```
//!
//! Frames between VMs of one host do not leave it. It knows nothing of what runs in the VMs: the
//! simulator and the agent have it between these and their links.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_nic::{Classes, NicParams, Pauses, Serialiser};
use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{
    EthernetFrame, EthernetHeader, HoseMessage, Ipv4Header, MacAddress, ParseError, PfcFrame,
    VoidFrame,
};

use super::batch::{Batcher, MIN_VOID_BYTES, Slot};
use super::coordination::{Coordination, CoordinationParams};
use super::guarantee::{Guarantee, WIRE_OVERHEAD_BYTES};
use super::pacer::{Departure, VmPacer};

/// Frames that wait for a pacer, or for the NIC, of each VM: as in Linux (`txqueuelen`).
const QUEUE_FRAMES: u64 = 1_000;
/// From a VM to another of the same host.
const LOCAL_DELAY: Duration = Duration::from_micros(1);

/// How the hypervisors of a network work.
#[derive(Clone, Copy, Debug)]
pub struct HypervisorParams {
    /// Length of a batch.
    pub batch: Duration,
    /// Coordination of the hose.
    pub hose: CoordinationParams,
    /// Whether they write DSCP and identification of packets, by which delays are measured; not
    /// those of transports that need both themselves.
    pub marks: bool,
}

/// A virtual machine, as its hypervisor knows it.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// Its address.
    pub address: Ipv4Addr,
    /// DSCP of all that it sends.
    pub dscp: u8,
    /// Its guarantee, and the rate at which its peers may send to it without messages. None: it is not
    /// paced.
    pub guarantee: Option<(Guarantee, BitRate)>,
}

/// Where hypervisors find when packets of each other's VMs conformed.
pub trait Departures {
    /// A packet of a VM conformed at `at`, or left its VM then if nobody paces that.
    fn note(&self, from: Ipv4Addr, identification: u16, at: Instant);

    /// When a packet that has arrived did so. None: it is of no VM.
    fn at(&self, from: Ipv4Addr, identification: u16) -> Option<Instant>;
}

/// Packets of a VM that have arrived at one of another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// Number of these packets.
    pub packets: u64,
    /// The longest time until the last bit of a packet arrived, from when it conformed, or from when
    /// its VM sent it if nobody paces that.
    pub longest: Duration,
    /// The sum of these times.
    pub sum: Duration,
}

/// Counts of a hypervisor since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HypervisorCounters {
    /// Void frames that left.
    pub void_frames: u64,
    /// Bytes of these frames on the wire.
    pub void_bytes: u64,
    /// Frames of VMs for which there was no room.
    pub dropped_frames: u64,
    /// Messages about the hose that left.
    pub messages: u64,
    /// Messages that had waited too long, in whose place a void frame left.
    pub stale_messages: u64,
}

/// A frame or message that waits in a pacer.
enum Paced {
    Frame(Vec<u8>),
    /// A message about the hose, of no use from a time on.
    Message {
        frame: Vec<u8>,
        until: Instant,
    },
}

/// Fields that a hypervisor writes into packets of a VM.
#[derive(Clone, Copy)]
struct Label {
    address: Ipv4Addr,
    dscp: u8,
    /// Identification of the next packet.
    next: u16,
}

/// The pacer of a VM.
struct Pacing {
    guest: usize,
    hose: Coordination<Ipv4Addr>,
    peak: BitRate,
}

/// The hypervisor of a host.
pub struct Hypervisor {
    mac: MacAddress,
    gateway: MacAddress,
    params: HypervisorParams,
    /// Bytes of a full frame on the wire.
    frame_bytes: u64,
    labels: Vec<Label>,
    addresses: BTreeMap<Ipv4Addr, usize>,
    /// Place of each VM's pacer in `pacers`. None: it has none.
    paced: Vec<Option<usize>>,
    pacers: Vec<VmPacer<Option<Ipv4Addr>, Paced>>,
    pacings: Vec<Pacing>,
    /// Class of packets for the neighbour's pauses, and these. None: it obeys none.
    pauses: Option<(Classes, Pauses)>,
    /// All that waits is of classes that are stopped, until then.
    stopped: Option<Instant>,
    batcher: Batcher,
    /// The rest of a batch.
    batch: VecDeque<Slot<Paced>>,
    /// Frames without a guarantee, and the VMs that they are of.
    queue: VecDeque<(usize, Vec<u8>)>,
    /// Frames in the queue, by VM.
    queued: Vec<u64>,
    link: Serialiser,
    rate: BitRate,
    /// Frames between VMs of this host, with their times and receivers.
    local: VecDeque<(Instant, usize, Vec<u8>)>,
    departures: Arc<dyn Departures + Send + Sync>,
    /// By receiver and address of the sender.
    delays: BTreeMap<(usize, Ipv4Addr), Delays>,
    counters: HypervisorCounters,
}

impl Hypervisor {
    /// A hypervisor behind an interface with a rate, which has these VMs. `stations`: MAC addresses
    /// of the interface and of its gateway. `departures`: of all VMs of the network.
    pub fn new(
        stations: (MacAddress, MacAddress),
        nic: NicParams,
        params: HypervisorParams,
        guests: &[Guest],
        departures: Arc<dyn Departures + Send + Sync>,
    ) -> Self {
        let mut hypervisor = Hypervisor {
            mac: stations.0,
            gateway: stations.1,
            params,
            frame_bytes: nic.frame_bytes(usize::from(nic.mtu_bytes)),
            addresses: BTreeMap::new(),
            labels: Vec::new(),
            paced: Vec::new(),
            pacers: Vec::new(),
            pacings: Vec::new(),
            pauses: nic
                .pfc
                .then(|| (nic.classes, Pauses::new(nic.pfc_response()))),
            stopped: None,
            batcher: Batcher::new(
                nic.rate(),
                params.batch,
                nic.frame_bytes(usize::from(nic.mtu_bytes)),
            ),
            batch: VecDeque::new(),
            queue: VecDeque::new(),
            queued: vec![0; guests.len()],
            link: Serialiser::new(nic),
            rate: nic.rate(),
            local: VecDeque::new(),
            departures,
            delays: BTreeMap::new(),
            counters: HypervisorCounters::default(),
        };
        for (number, guest) in guests.iter().enumerate() {
            hypervisor.add(number, guest);
        }
        hypervisor
    }

    fn add(&mut self, number: usize, guest: &Guest) {
        self.addresses.insert(guest.address, number);
        self.labels.push(Label {
            address: guest.address,
            dscp: guest.dscp,
            next: 0,
        });
        let paced = guest.guarantee.map(|(guarantee, receives)| {
            let room = self.frame_bytes * QUEUE_FRAMES;
            self.pacers
                .push(VmPacer::new(guarantee, self.frame_bytes, room));
            self.pacings.push(Pacing {
                guest: number,
                hose: Coordination::new(receives, self.params.hose),
                peak: guarantee.peak,
            });
            self.pacers.len() - 1
        });
        self.paced.push(paced);
    }

    /// Its counts since it started.
    pub fn counters(&self) -> HypervisorCounters {
        self.counters
    }

    /// Number of each of its VMs, address of each VM that packets came from, and their delays.
    pub fn delays(&self) -> impl Iterator<Item = (usize, Ipv4Addr, Delays)> {
        self.delays
            .iter()
            .map(|(&(guest, from), delays)| (guest, from, *delays))
    }

    /// A VM sends a frame.
    pub fn send(&mut self, now: Instant, guest: usize, mut frame: Vec<u8>) {
        let destination = addresses(&frame).map(|(_, to)| to);
        let local = destination.and_then(|to| self.addresses.get(&to));
        if let Some(receiver) = local {
            frame[..6].copy_from_slice(&self.mac.0);
            self.local.push_back((now + LOCAL_DELAY, *receiver, frame));
            return;
        }
        let kept = match (self.paced[guest], destination) {
            (Some(pacer), Some(to)) => {
                let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
                let rate = self.pacings[pacer].hose.handle_packet(now, to);
                let frame = Paced::Frame(frame);
                self.pacers[pacer]
                    .enqueue(now, Some(to), wire_bytes, frame, rate)
                    .is_ok()
            }
            _ if self.queued[guest] < QUEUE_FRAMES => {
                self.mark(guest, now, &mut frame);
                self.queued[guest] += 1;
                self.queue.push_back((guest, frame));
                true
            }
            _ => false,
        };
        self.counters.dropped_frames += u64::from(!kept);
    }

    /// Says to the hypervisors of peers what is due.
    fn coordinate(&mut self, now: Instant) {
        for (pacing, pacer) in self.pacings.iter_mut().zip(&mut self.pacers) {
            if pacing.hose.next_deadline().is_none_or(|at| at > now) {
                continue;
            }
            let mut messages = Vec::new();
            pacing
                .hose
                .poll(now, pacer, |to, message| messages.push((to, message)));
            for (to, message) in messages {
                let mut frame = Vec::new();
                let from = self.labels[pacing.guest];
                let stations = (self.mac, self.gateway);
                message.emit((from.address, to), stations, from.dscp, &mut frame);
                let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
                let until = now + self.params.hose.period;
                let paced = Paced::Message { frame, until };
                let messages = Coordination::<Ipv4Addr>::MESSAGES;
                let kept = pacer.enqueue(now, messages, wire_bytes, paced, pacing.peak);
                self.counters.dropped_frames += u64::from(kept.is_err());
            }
        }
    }

    /// The next frame from a VM of this host to another, and the number of that one.
    pub fn poll_local(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        if self.local.front().is_none_or(|(at, _, _)| *at > now) {
            return None;
        }
        let (_, guest, frame) = self.local.pop_front()?;
        Some((guest, frame))
    }

    /// Whether a packet waits that has a rate.
    fn has_backlog(&self) -> bool {
        let next = |pacer: &VmPacer<_, _>| pacer.next_departure();
        let mut departures = self.pacers.iter().filter_map(next);
        departures.any(|at| at < Instant::FAR_FUTURE)
    }

    /// The frame that starts to leave now. None: nothing waits, or only for a grant.
    fn next_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.batch.is_empty() && self.has_backlog() {
            let mut slots = Vec::new();
            // A late batch does not shift the next one, which is counted from when the wire would be free.
            let start = self.link.next_start(now);
            self.batcher.fill(start, &mut self.pacers, &mut slots);
            self.batch.extend(slots);
        }
        match self.batch.pop_front() {
            None => self.next_queued(now),
            Some(Slot {
                content: Some((pacer, departure)),
                ..
            }) => Some(self.next_paced(now, pacer, departure)),
            Some(void) => {
                self.batch.push_front(void);
                if self.replace_voids() {
                    return self.next_queued(now);
                }
                let bytes = self.batch.pop_front().map_or(0, |void| void.wire_bytes);
                Some(self.void_frame(bytes))
            }
        }
    }

    /// The next frame without a guarantee, of a class that the neighbour has not stopped.
    fn next_queued(&mut self, now: Instant) -> Option<Vec<u8>> {
        let next = match &mut self.pauses {
            None => 0,
            Some((classes, pauses)) => {
                let open = pauses.open(now);
                let class = |frame: &[u8]| {
                    classes.of_packet(frame.get(EthernetHeader::BYTES..).unwrap_or_default())
                };
                let mut waiting = self.queue.iter();
                let next = waiting.position(|(_, frame)| open >> class(frame) & 1 == 1);
                let is_stopped = next.is_none() && !self.queue.is_empty();
                self.stopped = pauses.next_change(now).filter(|_| is_stopped);
                next?
            }
        };
        let (guest, frame) = self.queue.remove(next)?;
        self.queued[guest] -= 1;
        Some(frame)
    }

    /// A MAC control frame arrived. It counts only with `pfc` of the interface.
    pub fn handle_control(
        &mut self,
        now: Instant,
        frame: &EthernetFrame<'_>,
    ) -> Result<(), ParseError> {
        if let Some((_, pauses)) = &mut self.pauses {
            pauses.handle_frame(now, &PfcFrame::parse(frame)?, self.rate);
            self.stopped = None;
        }
        Ok(())
    }

    fn next_paced(&mut self, now: Instant, pacer: usize, departure: Departure<Paced>) -> Vec<u8> {
        let mut frame = match departure.packet {
            Paced::Frame(frame) => frame,
            Paced::Message { until, .. } if until < now => {
                self.counters.stale_messages += 1;
                return self.void_frame(departure.wire_bytes);
            }
            Paced::Message { frame, .. } => {
                self.counters.messages += 1;
                frame
            }
        };
        self.mark(self.pacings[pacer].guest, departure.at, &mut frame);
        frame
    }

    /// Writes class and number of a packet that leaves its VM, or its pacer, at `at`.
    fn mark(&mut self, guest: usize, at: Instant, frame: &mut [u8]) {
        if !self.params.marks {
            return;
        }
        let label = &mut self.labels[guest];
        mark(frame, label.dscp, label.next);
        self.departures.note(label.address, label.next, at);
        label.next = label.next.wrapping_add(1);
    }

    /// Makes room for the first frame of the queue where the batch begins with void frames: the
    /// times of what comes after stay. False: there is not enough.
    fn replace_voids(&mut self) -> bool {
        let Some((_, frame)) = self.queue.front() else {
            return false;
        };
        let needed = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
        let (mut room, mut voids) = (0, 0);
        for slot in self.batch.iter().take_while(|slot| slot.content.is_none()) {
            room += slot.wire_bytes;
            voids += 1;
            if room == needed || room >= needed + MIN_VOID_BYTES {
                break;
            }
        }
        if room != needed && room < needed + MIN_VOID_BYTES {
            return false;
        }
        let Some(last) = self.batch.drain(..voids).next_back() else {
            return false;
        };
        let rest = room - needed;
        // Before the last frame there may have been too little left for one.
        let first = if rest > self.frame_bytes { rest / 2 } else { 0 };
        for wire_bytes in [first, rest - first] {
            if wire_bytes > 0 {
                self.batch.push_front(Slot {
                    starts: last.starts,
                    wire_bytes,
                    content: None,
                });
            }
        }
        true
    }

    fn void_frame(&mut self, wire_bytes: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let bytes = wire_bytes - WIRE_OVERHEAD_BYTES;
        VoidFrame { address: self.mac }.emit(bytes as usize, &mut frame);
        self.counters.void_frames += 1;
        self.counters.void_bytes += wire_bytes;
        frame
    }

    /// Notes how long a packet of a VM has taken.
    fn note_arrival(&mut self, now: Instant, guest: usize, from: Ipv4Addr, identification: u16) {
        if !self.params.marks {
            return;
        }
        if let Some(at) = self.departures.at(from, identification) {
            let delays = self.delays.entry((guest, from)).or_default();
            let delay = now.since(at);
            delays.packets += 1;
            delays.longest = delays.longest.max(delay);
            delays.sum += delay;
        }
    }

    /// An IPv4 packet that arrived at `arrived` is read at `now`, perhaps late. The number of the VM
    /// that gets it; none: no VM does.
    pub fn receive(&mut self, now: Instant, arrived: Instant, packet: &[u8]) -> Option<usize> {
        let packet = Ipv4Header::parse(packet).ok()?;
        let header = packet.header;
        let guest = *self.addresses.get(&header.dst)?;
        self.note_arrival(arrived, guest, header.src, header.id);
        if header.protocol != HoseMessage::PROTOCOL {
            return Some(guest);
        }
        if let (Some(pacer), Ok(message)) = (self.paced[guest], HoseMessage::parse(packet.payload))
        {
            let hose = &mut self.pacings[pacer].hose;
            hose.handle_message(now, header.src, message, &mut self.pacers[pacer]);
        }
        None
    }

    /// When it has something to do although nothing arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let waiting = !self.batch.is_empty() || !self.queue.is_empty() || self.has_backlog();
        let link = waiting.then(|| self.link.free_at().max(self.stopped.unwrap_or_default()));
        let local = self.local.front().map(|(at, _, _)| *at);
        let hoses = self.pacings.iter().filter_map(|p| p.hose.next_deadline());
        Instant::earliest([link, local, hoses.min()])
    }

    /// The frame that starts to leave now, and when its last bit is out.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.coordinate(now);
        if !self.link.is_free(now) {
            return None;
        }
        let Some(frame) = self.next_frame(now) else {
            self.link.idle(now);
            return None;
        };
        let packet_bytes = frame.len() - EthernetHeader::BYTES;
        Some((self.link.send(now, packet_bytes), frame))
    }
}

/// Source and destination of the IPv4 packet in a frame. None: there is none.
fn addresses(frame: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let address = |at: usize| {
        let octets = frame.get(at..)?.first_chunk::<4>()?;
        Some(Ipv4Addr::from(*octets))
    };
    let source = EthernetHeader::BYTES + 12;
    Some((address(source)?, address(source + 4)?))
}

/// Writes DSCP and identification into the IPv4 header of a frame of our transports, which has no
/// options.
fn mark(frame: &mut [u8], dscp: u8, identification: u16) {
    let header = frame.get_mut(EthernetHeader::BYTES..);
    let Some(header) = header.and_then(|packet| packet.first_chunk_mut::<20>()) else {
        return;
    };
    header[1] = dscp << 2 | header[1] & 3;
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    header[10..12].fill(0);
    let sum = internet_checksum(&header[..]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
