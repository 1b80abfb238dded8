//! The three chained buckets of a virtual machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ebb_units::{BitRate, Instant};

use super::bucket::VirtualBucket;
use super::guarantee::Guarantee;

/// Destinations of a VM at a time. The tenants of the thesis have at most 49 VMs.
const MAX_DESTINATIONS: usize = 4096;

/// A packet that leaves the pacer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure<P> {
    /// When it conforms to all three buckets.
    pub at: Instant,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// The packet.
    pub packet: P,
}

#[derive(Debug)]
struct Waiting<P> {
    packet: P,
    wire_bytes: u64,
    /// When it came.
    since: Instant,
}

/// Packets of one VM to one other.
#[derive(Debug)]
struct Destination<P> {
    bucket: VirtualBucket,
    waiting: VecDeque<Waiting<P>>,
    /// Its key in `VmPacer::ready`: when its first packet conforms to its own bucket. None: nothing
    /// waits.
    ready_at: Option<Instant>,
    /// A packet has left since [`VmPacer::poll_wanting`] asked.
    used: bool,
}

/// The pacer of one virtual machine, for packets `P` to destinations named by `K`. Packets to one
/// destination leave in the order in which they came; a destination that has to wait holds no
/// other back.
#[derive(Debug)]
pub struct VmPacer<K, P> {
    guarantee: Guarantee,
    average: VirtualBucket,
    peak: VirtualBucket,
    destinations: BTreeMap<K, Destination<P>>,
    /// Destinations with waiting packets, the one that conforms first in front.
    ready: BTreeSet<(Instant, K)>,
    /// When another destination came in front because a rate changed: what was behind it until
    /// then leaves no earlier.
    in_front_since: Instant,
    backlog_bytes: u64,
    capacity_bytes: u64,
}

impl<K: Copy + Ord, P> VmPacer<K, P> {
    /// `frame_bytes`: the largest frame on the wire, depth of the peak's bucket.
    /// `capacity_bytes`: what may wait, on the wire.
    pub fn new(guarantee: Guarantee, frame_bytes: u64, capacity_bytes: u64) -> Self {
        VmPacer {
            guarantee,
            average: VirtualBucket::full(guarantee.rate, guarantee.burst_bytes),
            peak: VirtualBucket::full(guarantee.peak, frame_bytes),
            destinations: BTreeMap::new(),
            ready: BTreeSet::new(),
            in_front_since: Instant::ZERO,
            backlog_bytes: 0,
            capacity_bytes,
        }
    }

    /// Bytes on the wire that wait.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Takes a packet of `wire_bytes` for `to`, or gives it back when there is no room: for its
    /// bytes, or for one destination more. A destination that is new has a full bucket and
    /// `initial_rate`.
    pub fn enqueue(
        &mut self,
        now: Instant,
        to: K,
        wire_bytes: u64,
        packet: P,
        initial_rate: BitRate,
    ) -> Result<(), P> {
        if self.backlog_bytes + wire_bytes > self.capacity_bytes {
            return Err(packet);
        }
        if self.destinations.len() >= MAX_DESTINATIONS && !self.destinations.contains_key(&to) {
            self.forget_idle(now);
            if self.destinations.len() >= MAX_DESTINATIONS {
                return Err(packet);
            }
        }
        self.backlog_bytes += wire_bytes;
        let burst_bytes = self.guarantee.burst_bytes;
        let destination = self.destinations.entry(to).or_insert_with(|| Destination {
            bucket: VirtualBucket::full(initial_rate, burst_bytes),
            waiting: VecDeque::new(),
            ready_at: None,
            used: false,
        });
        destination.waiting.push_back(Waiting {
            packet,
            wire_bytes,
            since: now,
        });
        self.order(now, to);
        Ok(())
    }

    /// The rate to `to` from `now` on, as the receiver grants it. Nothing happens for a
    /// destination without a bucket.
    pub fn set_rate(&mut self, now: Instant, to: K, rate: BitRate) {
        let Some(destination) = self.destinations.get_mut(&to) else {
            return;
        };
        let in_front = self.ready.first().copied();
        destination.bucket.set_rate(now, rate);
        if let Some(at) = destination.ready_at.take() {
            self.ready.remove(&(at, to));
        }
        self.order(now, to);
        if self.ready.first().copied() != in_front {
            self.in_front_since = now;
        }
    }

    /// Destinations that need a rate: packets wait or have left since this was last asked, or the
    /// bucket is not full.
    pub fn poll_wanting(&mut self, now: Instant) -> impl Iterator<Item = K> + '_ {
        self.destinations.iter_mut().filter_map(move |(to, d)| {
            let used = std::mem::take(&mut d.used);
            (used || !d.waiting.is_empty() || !d.bucket.is_full(now)).then_some(*to)
        })
    }

    /// Forgets destinations for which nothing waits and whose buckets are full.
    pub fn forget_idle(&mut self, now: Instant) {
        self.destinations
            .retain(|_, d| !d.waiting.is_empty() || !d.bucket.is_full(now));
    }

    /// When the next packet leaves. None: nothing waits. [`Instant::FAR_FUTURE`]: all that waits is
    /// for destinations without a rate.
    pub fn next_departure(&self) -> Option<Instant> {
        let (ready_at, to) = *self.ready.first()?;
        let bytes = self.destinations[&to].waiting.front()?.wire_bytes;
        if ready_at == Instant::FAR_FUTURE {
            return Some(ready_at);
        }
        let ready_at = ready_at.max(self.in_front_since);
        let average = self.average.conforms_at(ready_at, bytes);
        Some(self.peak.conforms_at(average, bytes))
    }

    /// The next packet, if it leaves by `until`. Whoever asks late loses no rate: the packet has
    /// the time at which it conformed.
    pub fn poll(&mut self, until: Instant) -> Option<Departure<P>> {
        let at = self.next_departure().filter(|at| *at <= until)?;
        let (_, to) = self.ready.pop_first()?;
        let destination = self.destinations.get_mut(&to)?;
        let Waiting {
            packet, wire_bytes, ..
        } = destination.waiting.pop_front()?;
        destination.ready_at = None;
        destination.used = true;
        destination.bucket.take(at, wire_bytes);
        self.average.take(at, wire_bytes);
        self.peak.take(at, wire_bytes);
        self.backlog_bytes -= wire_bytes;
        self.order(at, to);
        Some(Departure {
            at,
            wire_bytes,
            packet,
        })
    }

    /// Enters `to` into `ready`, if something waits for it and it is not there.
    fn order(&mut self, now: Instant, to: K) {
        let Some(destination) = self.destinations.get_mut(&to) else {
            return;
        };
        if let (None, Some(first)) = (destination.ready_at, destination.waiting.front()) {
            let from = now.max(first.since);
            let at = destination.bucket.conforms_at(from, first.wire_bytes);
            destination.ready_at = Some(at);
            self.ready.insert((at, to));
        }
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
