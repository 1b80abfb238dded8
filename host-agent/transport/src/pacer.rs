//! HULL's packet pacer (HULL, NSDI 2012, sections 4.2 and 5.1; docs/pacer.md).
//!
//! One token bucket with a FIFO in front of it for the *associated* flows; every other packet
//! passes untouched. The rate of the bucket follows what the host sends: every T_r,
//!
//! ```text
//! R <- (1 - eta) R + eta * M_r / T_r + beta * Q          (equation 4; bytes per second)
//! ```
//!
//! where M_r is what the host handed over in the last T_r and Q the backlog. A flow becomes
//! associated with probability p_a for each ECN-Echo it receives, for T_i.
//!
//! Nothing here needs a timer while the FIFO is empty: the updates missed meanwhile have a closed
//! form. With a backlog, what should have happened since the last call is replayed in order, so a
//! caller that wakes up late neither lowers the rate nor misses an update.

mod bucket;
mod frames;
mod table;

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use bucket::Bucket;
pub use frames::{FrameCounters, FramePacer, TcpFlow, Verdict};
use table::AssociationTable;

/// Section `pacer` of the parameters file. Defaults: HULL, table 3 and section 5.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacerParams {
    /// T_r: how often the rate is updated. T_r / eta should be a few round trips.
    pub update_period_ns: u64,
    /// Weight of the newest rate measurement.
    pub eta: f64,
    /// Bytes per second that each update adds per byte of backlog. Larger: less delay, less pacing.
    pub beta_hz: f64,
    /// p_a: chance of an ECN-Echo to associate its flow.
    pub association_probability: f64,
    /// T_i: how long an association lasts unless it is renewed.
    pub association_timeout_ns: u64,
    /// Depth of the token bucket.
    pub bucket_bytes: u32,
    /// Capacity of the FIFO.
    pub queue_bytes: u32,
    /// Flows that can be associated at a time.
    pub table_entries: usize,
}

impl Default for PacerParams {
    fn default() -> Self {
        PacerParams {
            update_period_ns: 64_000,
            eta: 0.125,
            beta_hz: 16.0,
            association_probability: 0.125,
            association_timeout_ns: 10_000_000,
            bucket_bytes: 3_000,
            queue_bytes: 128_000,
            table_entries: 64,
        }
    }
}

/// A parameter outside the range in which the pacer works.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("pacer.{name} is {value}: expected {expected}")]
pub struct InvalidPacerParams {
    name: &'static str,
    value: f64,
    expected: &'static str,
}

impl PacerParams {
    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), InvalidPacerParams> {
        let period = self.update_period_ns as f64;
        let checks = [
            (period > 0.0, "update_period_ns", period, "more than 0"),
            (
                self.eta > 0.0 && self.eta < 1.0,
                "eta",
                self.eta,
                "between 0 and 1",
            ),
            (
                self.beta_hz > 0.0 && self.beta_hz.is_finite(),
                "beta_hz",
                self.beta_hz,
                "more than 0, or a backlog at rate 0 never drains",
            ),
            (
                (0.0..=1.0).contains(&self.association_probability),
                "association_probability",
                self.association_probability,
                "0 to 1",
            ),
            (
                self.bucket_bytes > 0,
                "bucket_bytes",
                f64::from(self.bucket_bytes),
                "more than 0",
            ),
            (
                self.queue_bytes >= 1514,
                "queue_bytes",
                f64::from(self.queue_bytes),
                "at least one packet (1514)",
            ),
        ];
        match checks.into_iter().find(|(ok, ..)| !ok) {
            Some((_, name, value, expected)) => Err(InvalidPacerParams {
                name,
                value,
                expected,
            }),
            None => Ok(()),
        }
    }
}

/// Fate of a packet that was handed to the pacer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission<P> {
    /// Not paced: send it at once.
    Pass(P),
    /// In the FIFO; [`Pacer::poll`] gives it back.
    Queued,
    /// The FIFO is full. See [`Pacer::has_room`].
    Full(P),
}

/// Counters of a pacer since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacerCounters {
    /// Packets of flows that were not paced.
    pub passed_packets: u64,
    /// Packets that entered the FIFO.
    pub paced_packets: u64,
    /// Packets for which the FIFO had no room.
    pub refused_packets: u64,
    /// Flows that began to be paced.
    pub associations: u64,
    /// Largest number of bytes in the FIFO.
    pub max_backlog_bytes: u64,
}

/// The pacer of one host, for packets `P` of flows named by `K`.
#[derive(Debug)]
pub struct Pacer<K, P> {
    bucket: Bucket,
    table: AssociationTable<K>,
    fifo: VecDeque<(P, usize, K)>,
    /// Left the bucket, waiting to be polled.
    released: VecDeque<(P, K)>,
    backlog_bytes: u64,
    queue_bytes: u64,
    association_probability: f64,
    association_timeout: Duration,
    rng: SmallRng,
    counters: PacerCounters,
}

impl<K: Copy + Eq, P> Pacer<K, P> {
    /// A pacer without associations. `seed`: of the draws by which flows are associated.
    pub fn new(params: &PacerParams, seed: u64) -> Self {
        Pacer {
            bucket: Bucket::new(params),
            table: AssociationTable::new(params.table_entries),
            fifo: VecDeque::new(),
            released: VecDeque::new(),
            backlog_bytes: 0,
            queue_bytes: u64::from(params.queue_bytes),
            association_probability: params.association_probability,
            association_timeout: Duration::from_nanos(params.association_timeout_ns),
            rng: SmallRng::seed_from_u64(seed),
            counters: PacerCounters::default(),
        }
    }

    /// Counters since it was made.
    pub fn counters(&self) -> PacerCounters {
        self.counters
    }

    /// Q: bytes in the FIFO.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// R in bytes per second, as of `now`.
    pub fn rate_bytes_per_second(&mut self, now: Instant) -> f64 {
        self.advance(now);
        self.bucket.rate()
    }

    /// Whether the packets of a flow are paced.
    #[cfg(test)]
    pub(crate) fn is_associated(&mut self, now: Instant, flow: K) -> bool {
        self.table.contains(now, flow)
    }

    /// Packets of this flow wait in the pacer, so that one sent now would overtake them.
    pub fn holds(&self, flow: K) -> bool {
        self.table.queued(flow) > 0
    }

    /// Would a packet of `bytes` of this flow be accepted? Ask before making the packet, so that
    /// none has to be thrown away.
    pub fn has_room(&mut self, now: Instant, flow: K, bytes: usize) -> bool {
        self.advance(now);
        !self.table.contains(now, flow) || self.fits(bytes)
    }

    fn fits(&self, bytes: usize) -> bool {
        self.backlog_bytes + bytes as u64 <= self.queue_bytes
    }

    /// An ACK with ECN-Echo arrived for `flow` (HULL 4.2, "Which flows need pacing?").
    pub fn on_ecn_echo(&mut self, now: Instant, flow: K) {
        use rand::Rng;
        if self.rng.random_bool(self.association_probability) {
            let until = now + self.association_timeout;
            self.counters.associations += u64::from(self.table.associate(now, flow, until));
        }
    }

    /// The host sends a packet of `flow` that occupies `bytes`.
    pub fn enqueue(&mut self, now: Instant, packet: P, bytes: usize, flow: K) -> Admission<P> {
        self.enqueue_with(now, bytes, flow, packet, |_| {})
    }

    /// The same with a packet that `fill` completes only if it is queued.
    pub fn enqueue_with(
        &mut self,
        now: Instant,
        bytes: usize,
        flow: K,
        mut packet: P,
        fill: impl FnOnce(&mut P),
    ) -> Admission<P> {
        self.advance(now);
        // M_r is what the host sends in all, paced or not: that is how the rate is right already
        // when the first flow becomes associated.
        let associated = self.table.contains(now, flow);
        if associated && !self.fits(bytes) {
            self.counters.refused_packets += 1;
            return Admission::Full(packet);
        }
        self.bucket.on_received(bytes);
        if !associated {
            self.counters.passed_packets += 1;
            return Admission::Pass(packet);
        }
        fill(&mut packet);
        self.counters.paced_packets += 1;
        self.table.on_queued(flow);
        self.fifo.push_back((packet, bytes, flow));
        self.backlog_bytes += bytes as u64;
        self.counters.max_backlog_bytes = self.counters.max_backlog_bytes.max(self.backlog_bytes);
        self.advance(now);
        Admission::Queued
    }

    /// Does what was due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// A packet has left the bucket and waits to be polled.
    pub fn has_ready(&self) -> bool {
        !self.released.is_empty()
    }

    /// The packet that [`poll`](Self::poll) would give.
    pub fn next_ready(&mut self, now: Instant) -> Option<&P> {
        self.advance(now);
        self.released.front().map(|(packet, _)| packet)
    }

    /// The next packet that the bucket has let go by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let (packet, flow) = self.released.pop_front()?;
        self.table.on_departed(flow);
        Some(packet)
    }

    /// When [`Self::poll`] will have a packet if nothing is enqueued before. None without backlog.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.released.is_empty() {
            return Some(self.bucket.now());
        }
        let &(_, head_bytes, _) = self.fifo.front()?;
        Some(self.bucket.departure(head_bytes, self.backlog_bytes))
    }

    /// Replays rate updates and departures up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(&(_, head_bytes, _)) = self.fifo.front() {
            if !self
                .bucket
                .advance_to_departure(head_bytes, self.backlog_bytes, now)
            {
                return;
            }
            if let Some((packet, bytes, flow)) = self.fifo.pop_front() {
                self.backlog_bytes -= bytes as u64;
                self.released.push_back((packet, flow));
            }
        }
        self.bucket.advance_idle(now);
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
