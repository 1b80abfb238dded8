//! A simulated host: its transport, what its agent would do with it, and the serialiser of its link.

mod application;
mod arrivals;
mod coding;
mod objects;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_engine::simulation::Host;
use ebb_pipeline::Frames;
use ebb_transport::Transport;
use ebb_transport::nic::{Nic, NicParams};
use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::{EthernetHeader, MacAddress};
use ebb_workload::{HostId, Open, Transfer};

use application::Application;
pub use application::{Ended, Told};
use arrivals::Clock;
pub use arrivals::{Arrivals, Unfinished};
use coding::Coding;

use crate::catalog::Catalog;

/// A transport that asks to be woken at a time that has passed, and then does nothing, must not
/// stop the clock.
const SHORTEST_SLEEP: Duration = Duration::from_nanos(1);

/// How a host is attached.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    pub address: Ipv4Addr,
    pub mac: MacAddress,
    pub gateway: MacAddress,
    /// Its number in the workload; `None`: it is not in it.
    pub id: Option<HostId>,
}

/// What a host is made of.
pub struct Parts {
    pub transport: Box<dyn Transport + Send>,
    pub nic: NicParams,
    /// How fast it codes blocks. 0: in no time.
    pub coding: BitRate,
    pub catalog: Arc<Catalog>,
    /// Seed of the session ids of many-to-one flows.
    pub seed: u64,
    /// Ended transfers of all hosts, for whoever watches.
    pub ended: Arc<AtomicU64>,
    /// How often it is noted how much of every object has arrived. 0: never.
    pub arrivals_every: Duration,
}

pub struct SimHost {
    identity: Identity,
    transport: Box<dyn Transport + Send>,
    application: Application,
    coding: Coding,
    nic: Nic,
    /// Rate of the NIC while the link is as it should be.
    rate_bps: u64,
    packet: Vec<u8>,
    /// Memory of frames that have arrived, for those that leave.
    frames: Frames,
    wake: Option<Instant>,
    /// Transfers that this host starts and that have been told to it.
    starts: u64,
    ended: Arc<AtomicU64>,
    /// How many of `ended` are this host's.
    counted: u64,
    clock: Option<Clock>,
}

impl SimHost {
    pub fn new(identity: Identity, parts: Parts) -> anyhow::Result<Self> {
        let mut transport = parts.transport;
        // A host that is not in the workload is none of its hosts.
        let me = identity.id.unwrap_or(HostId(u32::MAX));
        let place = (me, identity.address);
        let application = Application::new(parts.catalog, place, parts.seed, &mut *transport)?;
        Ok(SimHost {
            identity,
            transport,
            application,
            coding: Coding::new(parts.coding),
            // Nobody wakes up late here.
            nic: Nic::new(NicParams {
                catch_up_packets: 0,
                ..parts.nic
            }),
            rate_bps: parts.nic.rate_bps,
            packet: Vec::new(),
            frames: Frames::default(),
            wake: None,
            starts: 0,
            ended: parts.ended,
            counted: 0,
            clock: Clock::new(parts.arrivals_every),
        })
    }

    /// Tells it of a transfer that concerns it, before its time.
    pub fn add(&mut self, now: Instant, transfer: Arc<Transfer>) {
        self.starts += u64::from(Some(transfer.initiator()) == self.identity.id);
        self.application.add(now, transfer, &mut *self.transport);
        let due = self.application.next_deadline();
        self.wake = self.wake.into_iter().chain(due).min();
    }

    /// What has ended since the last call.
    pub fn take_told(&mut self) -> Vec<Told> {
        self.application.take_told()
    }

    /// Transfers of this host that have not ended, and what it still sends to others; of the named
    /// parts of the workload, or of all if none is.
    pub fn unfinished(&self, traffic: &[String]) -> usize {
        self.application.unfinished(traffic)
    }

    /// Takes the samples of arrivals that are due by `now`.
    pub fn sample(&mut self, now: Instant) {
        if let Some(clock) = &mut self.clock {
            self.application.sample(now, clock, &*self.transport);
        }
    }

    /// Objects that have begun to come and are not complete.
    pub fn incomplete(&self) -> impl Iterator<Item = Unfinished<'_>> {
        self.application.incomplete(&*self.transport)
    }

    /// Transfers that this host starts and that have not ended, and those that never will have
    /// started because what they wait for failed.
    pub fn rest(&self) -> (impl Iterator<Item = &Open>, impl Iterator<Item = &Open>) {
        self.application.rest()
    }

    /// Does what follows from what has happened. Whether there was anything.
    fn take_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            while let Some(job) = self.transport.poll_job() {
                self.coding.start(now, job);
            }
            if let Some(result) = self.coding.poll(now) {
                self.transport.handle_job(now, result);
            } else if let Some(event) = self.transport.poll_event() {
                self.application
                    .handle_event(now, event, &mut *self.transport);
            } else if self.application.next_deadline().is_some_and(|at| at <= now) {
                self.application.act(now, &mut *self.transport);
            } else {
                break;
            }
            any = true;
        }
        let ended = self.starts - self.application.to_end() as u64;
        if ended != self.counted {
            self.ended
                .fetch_add(ended - self.counted, Ordering::Relaxed);
            self.counted = ended;
        }
        any
    }

    /// When to be woken. `held`: the transport may have more to send, and the link is busy.
    fn plan(&mut self, now: Instant, held: bool) {
        let deadline = self.transport.next_deadline();
        let wake = if held {
            // What is due already waits for the link.
            let later = deadline.filter(|at| *at > now);
            later.into_iter().chain([self.nic.free_at()]).min()
        } else {
            deadline.map(|at| at.max(now + SHORTEST_SLEEP))
        };
        let coded = self.coding.next_deadline();
        let due = self.application.next_deadline();
        self.wake = [wake, coded, due].into_iter().flatten().min();
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
                self.transport.handle_packet(now, parsed.payload);
                self.take_events(now);
            }
        }
        self.frames.give(frame);
    }

    fn wake(&mut self, now: Instant) {
        self.application.act(now, &mut *self.transport);
        self.transport.handle_timeout(now);
        self.take_events(now);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        if !self.nic.is_free(now) {
            self.plan(now, true);
            return None;
        }
        while self
            .transport
            .poll_transmit(now, &mut self.packet)
            .is_none()
        {
            // Sending can end a flow, and that can start others.
            if !self.take_events(now) {
                self.nic.idle(now);
                self.plan(now, false);
                return None;
            }
        }
        let last_bit = self.nic.send(now, self.packet.len());
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
            // 0: no limit of its own.
            Some(rate) if self.rate_bps == 0 => rate,
            Some(rate) => rate.min(self.rate_bps),
        };
        self.nic.set_rate_bps(rate);
        true
    }
}

/// The MAC address that an IPv4 packet is sent to.
fn next_hop(packet: &[u8], gateway: MacAddress) -> MacAddress {
    let destination = packet.get(16..20);
    let destination = destination.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match destination.map(Ipv4Addr::from) {
        Some(group) if group.is_multicast() => MacAddress::of_group(group),
        _ => gateway,
    }
}
