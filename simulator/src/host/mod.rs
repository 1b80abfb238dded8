//! A simulated host: its transports, the client that an agent would have, and its NIC.

mod application;
mod arrivals;
mod coding;
mod forger;
mod objects;
mod overheard;
mod processing;
mod transports;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_engine::simulation::Host;
use ebb_pipeline::Frames;
use ebb_transport::nic::{Nic, NicParams, NicStatistics};
use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::{EthernetFrame, EthernetHeader, MacAddress, PfcFrame};
use ebb_workload::{HostId, Open, Transfer};

use application::Application;
pub use application::{Ended, Notice};
use arrivals::Clock;
pub use arrivals::{Arrivals, Unfinished};
use coding::Coding;
use forger::Forger;
pub use forger::Forgery;
pub use overheard::Overheard;
use processing::Processing;
pub use transports::Transports;

use crate::catalog::Catalog;

/// The shortest time between two wake-ups. Without it, a transport that asks to be woken at a time
/// that has passed, and then does nothing, would stop the clock.
const SHORTEST_SLEEP: Duration = Duration::from_nanos(1);

/// Names and addresses of a host.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: MacAddress,
    /// MAC address of its gateway.
    pub gateway: MacAddress,
    /// Its number in the workload; `None` if it has no part in it.
    pub id: Option<HostId>,
}

/// The parts that a host is made of.
pub struct Parts {
    /// Its transports.
    pub transports: Transports,
    /// Parameters of its interface.
    pub nic: NicParams,
    /// How fast it codes blocks, in bits per second; 0 means in no time.
    pub coding: BitRate,
    /// Processing time of each arriving packet, and number of packets that are processed at a time.
    pub processing: (Duration, usize),
    /// Notifications that it forges; `None` if it is honest.
    pub forgery: Option<Forgery>,
    /// Record of the packets that it sends, for hosts that forge notifications of them; `None` if none does.
    pub overheard: Option<Arc<Overheard>>,
    /// Common knowledge of the hosts.
    pub catalog: Arc<Catalog>,
    /// Seed of the session ids of its many-to-one flows, and of its forgeries.
    pub seed: u64,
    /// Counts the ended transfers of all hosts.
    pub ended: Arc<AtomicU64>,
    /// Interval at which the arrivals of every object are sampled; 0 means never.
    pub arrivals_every: Duration,
}

/// A host of the simulation.
pub struct SimHost {
    /// Its names and addresses.
    identity: Identity,
    /// Its transports.
    transports: Transports,
    /// Its client.
    application: Application,
    /// The processor that codes blocks.
    coding: Coding,
    /// The processors that handle arriving packets before its transports do.
    processing: Processing,
    /// Sends forged notifications.
    forger: Option<Forger>,
    /// Record of the packets that it sends.
    overheard: Option<Arc<Overheard>>,
    /// Its network interface.
    nic: Nic,
    /// Whether its NIC obeys PFC.
    obeys_pfc: bool,
    /// Rate of its interface in bits per second, while the link is not slower.
    rate_bps: u64,
    /// Memory for the packet that leaves.
    packet: Vec<u8>,
    /// Memory of frames that have arrived, for frames that leave.
    frames: Frames,
    /// When it wants to be woken; `None` if only by a frame.
    wake: Option<Instant>,
    /// When a transport has something to do, as of the last event; `None` if none has.
    deadline: Option<Instant>,
    /// Number of added transfers that it starts.
    starts: u64,
    /// Counts the ended transfers of all hosts.
    ended: Arc<AtomicU64>,
    /// Number of transfers in `ended` that it starts.
    counted: u64,
    /// When arrivals are sampled; `None` if never.
    clock: Option<Clock>,
}

impl SimHost {
    /// A host of these parts, which listens from now on.
    pub fn new(identity: Identity, parts: Parts) -> anyhow::Result<Self> {
        let mut transports = parts.transports;
        // A host without a part in the workload must not have the number of another one.
        let me = identity.id.unwrap_or(HostId(u32::MAX));
        let place = (me, identity.address);
        let application = Application::new(parts.catalog, place, parts.seed, &mut transports)?;
        let forge = |forgery| Forger::new(identity.address, forgery, parts.seed);
        let forger = parts.forgery.map(forge);
        Ok(SimHost {
            identity,
            transports,
            application,
            coding: Coding::new(parts.coding),
            processing: Processing::new(parts.processing.0, parts.processing.1),
            // Nobody wakes up late in virtual time, so nothing is to be caught up with.
            nic: Nic::new(NicParams {
                catch_up_packets: 0,
                ..parts.nic
            }),
            obeys_pfc: parts.nic.pfc,
            rate_bps: parts.nic.rate_bps,
            packet: Vec::new(),
            frames: Frames::default(),
            wake: forger.as_ref().and_then(Forger::due),
            deadline: None,
            forger,
            overheard: parts.overheard,
            starts: 0,
            ended: parts.ended,
            counted: 0,
            clock: Clock::new(parts.arrivals_every),
        })
    }

    /// Takes a transfer that concerns this host, before it starts.
    pub fn add(&mut self, now: Instant, transfer: Arc<Transfer>) {
        self.starts += u64::from(Some(transfer.initiator()) == self.identity.id);
        self.application.add(now, transfer, &mut self.transports);
        let due = self.application.next_deadline();
        self.wake = Instant::earliest([self.wake, due]);
        self.deadline = self.transports.next_deadline();
    }

    /// Flows and transfers that have ended since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.application.take_notices()
    }

    /// The transfers of this host that have failed since the last call, or will never start.
    pub fn take_failed(&mut self) -> Vec<Arc<Transfer>> {
        self.application.take_failed()
    }

    /// A transfer to this host has failed, or will never start, at the host that starts it: transfers that wait for it
    /// here will never start either.
    pub fn handle_failed_elsewhere(&mut self, now: Instant, id: u64) {
        self.application.handle_failed_elsewhere(now, id);
        self.count_ended();
    }

    /// Whether a transfer that this host starts waits for another one.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.application.is_waiting(id)
    }

    /// Removes a transfer that waits for another one, as if it had ended.
    pub fn take_off(&mut self, id: u64) {
        self.application.take_off(id);
        self.count_ended();
    }

    /// Number of transfers of this host, and of sends for others, that have not ended; only those
    /// in the named parts of the workload, unless none is named.
    pub fn unfinished(&self, traffic: &[String]) -> usize {
        self.application.unfinished(traffic)
    }

    /// Takes the samples of arrivals that are due by `now`.
    pub fn sample(&mut self, now: Instant) {
        if let Some(clock) = &mut self.clock {
            self.application.sample(now, clock, &self.transports);
        }
    }

    /// Objects of which a part has arrived.
    pub fn incomplete(&self) -> impl Iterator<Item = Unfinished<'_>> {
        self.application.incomplete(&self.transports)
    }

    /// Transfers that this host starts and that have not ended.
    pub fn rest(&self) -> impl Iterator<Item = &Open> {
        self.application.rest()
    }

    /// Handles jobs and events of the transports, and actions of the client that are due; true if there were any.
    fn take_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            while let Some((transport, job)) = self.transports.poll_job() {
                self.coding.start(now, transport, job);
            }
            if let Some((transport, result)) = self.coding.poll(now) {
                self.transports.handle_job(now, transport, result);
            } else if let Some((transport, event)) = self.transports.poll_event() {
                self.application
                    .handle_event(now, transport, event, &mut self.transports);
            } else if self.application.next_deadline().is_some_and(|at| at <= now) {
                self.application.act(now, &mut self.transports);
            } else {
                break;
            }
            any = true;
        }
        self.count_ended();
        any
    }

    fn count_ended(&mut self) {
        let ended = self.starts - self.application.to_end() as u64;
        if ended != self.counted {
            self.ended
                .fetch_add(ended - self.counted, Ordering::Relaxed);
            self.counted = ended;
        }
    }

    /// A frame for this host has arrived.
    fn take(&mut self, now: Instant, frame: &EthernetFrame<'_>) {
        if frame.header.ethertype == PfcFrame::ETHERTYPE {
            // The NIC counts damaged frames.
            let _ = self.nic.handle_control(now, frame);
            return;
        }
        let (transports, processing) = (&mut self.transports, &mut self.processing);
        self.nic.receive(now, frame.payload, |packet| {
            processing.take(now, packet, |packet| transports.handle_packet(now, packet));
        });
        self.take_events(now);
    }

    /// Gives the NIC packets of the transports as long as it takes any.
    fn fill(&mut self, now: Instant) {
        loop {
            let wanted = self.nic.wants(now);
            if wanted.is_empty() {
                return;
            }
            if let Some(forged) = self.forger.as_mut().and_then(|forger| forger.poll(now)) {
                self.nic.push(forged);
                continue;
            }
            let packet = &mut self.packet;
            if self
                .transports
                .poll_transmit_of(now, wanted, packet)
                .is_some()
            {
                self.nic.push(packet);
            } else if !self.take_events(now) {
                // Otherwise sending has ended a flow, and that may have started other flows.
                return;
            }
        }
    }

    /// Sets when to be woken, once nothing more can leave now.
    fn plan(&mut self, now: Instant) {
        let deadline = self.transports.next_deadline();
        self.deadline = deadline;
        let start = self.nic.next_start(now);
        let wake = match start {
            // A packet that is due by now waits for the link, or for a class that is stopped.
            Some(_) => deadline.filter(|at| *at > now),
            None => deadline.map(|at| at.max(now + SHORTEST_SLEEP)),
        };
        let coded = self.coding.next_deadline();
        let due = self.application.next_deadline();
        let arrived = self.nic.next_delivery();
        let processed = self.processing.next();
        // One that is due by now waits for the link.
        let forged = self.forger.as_ref().and_then(Forger::due);
        let forged = forged.filter(|at| *at > now);
        self.wake = Instant::earliest([wake, start, coded, due, arrived, processed, forged]);
    }

    /// Pauses by neighbours of its NIC until `now`; none if that does not obey them.
    pub fn nic_statistics(&mut self, now: Instant) -> Option<NicStatistics> {
        self.obeys_pfc.then(|| self.nic.statistics(now))
    }
}

impl Host for SimHost {
    fn name(&self) -> &str {
        &self.identity.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.sample(now);
        if let Ok(parsed) = EthernetHeader::parse(&frame) {
            let to = parsed.header.dst;
            if to == self.identity.mac || to.is_group() {
                self.take(now, &parsed);
            }
        }
        self.frames.give(frame);
    }

    fn wake(&mut self, now: Instant) {
        let acted = self.application.act(now, &mut self.transports);
        let (transports, processing) = (&mut self.transports, &mut self.processing);
        self.nic.release(now, |packet| {
            processing.take(now, packet, |packet| transports.handle_packet(now, packet));
        });
        processing.release(now, |packet| transports.handle_packet(now, packet));
        if acted || self.deadline.is_some_and(|at| at <= now) {
            self.transports.handle_timeout(now);
        }
        self.take_events(now);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.fill(now);
        let Some(last_bit) = self.nic.poll(now, &mut self.packet) else {
            self.plan(now);
            return None;
        };
        if let Some(overheard) = &self.overheard {
            overheard.note(now, &self.packet);
        }
        let header = EthernetHeader {
            dst: next_hop(&self.packet, self.identity.gateway),
            src: self.identity.mac,
            ethertype: EthernetHeader::IPV4,
        };
        let mut frame = self.frames.take(EthernetHeader::BYTES + self.packet.len());
        header.emit(&mut frame);
        frame.extend_from_slice(&self.packet);
        Some((last_bit, frame))
    }

    fn exchange_frames(&mut self, frames: &mut Frames) {
        std::mem::swap(&mut self.frames, frames);
    }

    fn limit_rate(&mut self, rate: Option<BitRate>) -> bool {
        let rate = match rate.map(BitRate::as_bps) {
            None => self.rate_bps,
            // A rate of 0 means that the interface has no limit of its own.
            Some(rate) if self.rate_bps == 0 => rate,
            Some(rate) => rate.min(self.rate_bps),
        };
        self.nic.set_rate_bps(rate);
        true
    }
}

/// The MAC address of the next hop of an IPv4 packet.
fn next_hop(packet: &[u8], gateway: MacAddress) -> MacAddress {
    let destination = packet.get(16..20);
    let destination = destination.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match destination.map(Ipv4Addr::from) {
        Some(group) if group.is_multicast() => MacAddress::of_group(group),
        _ => gateway,
    }
}
