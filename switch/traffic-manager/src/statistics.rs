//! Counters of queues and ports, and the recorder that fills them.

use std::collections::BTreeMap;
use std::fmt;

use ebb_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::delay_histogram::{DelayBucket, DelayHistogram};
use crate::queue::Depth;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    pub fn is_zero(&self) -> bool {
        self.packets == 0
    }
}

/// Why the traffic manager dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The port's profile has no such queue.
    NoSuchQueue,
    /// The queue is at its own capacity.
    QueueFull,
    /// The shared pool of the port is at its limit.
    PoolFull,
    /// The packet had been deflected before and did not fit again, into a queue that does not
    /// deflect or for the last time that is allowed.
    DeflectFailed,
    /// A new configuration or program left no place for the packet while it waited.
    Flushed,
}

impl DropReason {
    pub const ALL: [DropReason; 5] = [
        DropReason::NoSuchQueue,
        DropReason::QueueFull,
        DropReason::PoolFull,
        DropReason::DeflectFailed,
        DropReason::Flushed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::NoSuchQueue => "no-such-queue",
            DropReason::QueueFull => "queue-full",
            DropReason::PoolFull => "pool-full",
            DropReason::DeflectFailed => "deflect-failed",
            DropReason::Flushed => "flushed",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one queue did since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatistics {
    pub queue: u8,
    pub enqueued: Count,
    pub dequeued: Count,
    pub deflected: Count,
    /// By reason; reasons that never occurred are absent.
    pub dropped: BTreeMap<DropReason, Count>,
    /// Dequeued, then dropped by egress.
    pub egress_dropped: Count,
    /// Sent, with the length that egress left.
    pub transmitted: Count,
    /// Sent with the ECN field at CE.
    pub ecn_ce: Count,
    pub depth_packets: u64,
    pub depth_bytes: u64,
    pub max_depth_packets: u64,
    pub max_depth_bytes: u64,
    /// Over the time from the first enqueue to the last dequeue.
    pub average_depth_packets: f64,
    pub average_depth_bytes: f64,
    /// Mean of the depths that offered packets found, whether they were accepted or not.
    pub arrival_depth_packets: f64,
    pub arrival_depth_bytes: f64,
    pub average_delay_ns: f64,
    pub max_delay_ns: u64,
    /// Histogram of queueing delays: 32 buckets per octave, those without packets absent.
    pub delays: Vec<DelayBucket>,
}

/// What one port did since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStatistics {
    pub port: u16,
    pub profile: String,
    pub transmitted: Count,
    /// How long the serialiser was busy.
    pub busy_ns: u64,
    /// Queues that exist or that a packet was sent to.
    pub queues: Vec<QueueStatistics>,
}

/// Fills the statistics of a queue as things happen to it. In the order in which a packet touches it, what is rare
/// last: of many switches, none is in the caches when its turn comes.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Recorder {
    offered: u64,
    arrival_depth_packets: u64,
    arrival_depth_bytes: u64,
    delay_max: Duration,
    pub(crate) enqueued: Count,
    max: Depth,
    average: TimeAverage,
    pub(crate) dequeued: Count,
    delay_total: u128,
    delays: DelayHistogram,
    pub(crate) transmitted: Count,
    pub(crate) ecn_ce: Count,
    pub(crate) deflected: Count,
    pub(crate) dropped: [Count; DropReason::ALL.len()],
    pub(crate) egress_dropped: Count,
    /// What was queued when the counters were reset, for the balance.
    initial: Depth,
}

impl Recorder {
    /// From the start, what every packet touches.
    pub(crate) const OFTEN_BYTES: usize = std::mem::offset_of!(Recorder, deflected);

    /// Starts from zero with what is queued now.
    pub(crate) fn restart(now: Instant, depth: Depth) -> Self {
        let mut recorder = Self {
            initial: depth,
            max: depth,
            ..Self::default()
        };
        if depth.packets > 0 {
            recorder.average.advance(now, Depth::default());
        }
        recorder
    }

    pub(crate) fn offered(&mut self, depth: Depth) {
        self.offered += 1;
        self.arrival_depth_packets += depth.packets;
        self.arrival_depth_bytes += depth.bytes;
    }

    pub(crate) fn enqueued(&mut self, now: Instant, before: Depth, len: u64) {
        self.average.advance(now, before);
        self.enqueued.add(len);
        self.max.packets = self.max.packets.max(before.packets + 1);
        self.max.bytes = self.max.bytes.max(before.bytes + len);
    }

    pub(crate) fn dequeued(&mut self, now: Instant, before: Depth, len: u64, delay: Duration) {
        self.average.advance(now, before);
        self.average.mark();
        self.dequeued.add(len);
        self.delay_total += u128::from(delay.as_picos());
        self.delay_max = self.delay_max.max(delay);
        self.delays.add(delay);
    }

    pub(crate) fn dropped(&mut self, reason: DropReason, len: u64) {
        self.dropped[reason as usize].add(len);
    }

    pub(crate) fn dropped_packets(&self) -> u64 {
        let dropped: u64 = self.dropped.iter().map(|count| count.packets).sum();
        dropped + self.egress_dropped.packets
    }

    /// A queued packet was thrown away.
    pub(crate) fn removed(&mut self, now: Instant, before: Depth, len: u64) {
        self.average.advance(now, before);
        self.dropped(DropReason::Flushed, len);
    }

    /// in = out + dropped + deflected + queued, in packets and in bytes.
    pub(crate) fn balances(&self, depth: Depth) -> bool {
        let removed = self.dropped[DropReason::Flushed as usize];
        self.initial.packets + self.enqueued.packets
            == self.dequeued.packets + removed.packets + depth.packets
            && self.initial.bytes + self.enqueued.bytes
                == self.dequeued.bytes + removed.bytes + depth.bytes
            && self.offered
                == self.enqueued.packets
                    + self.deflected.packets
                    + self.dropped.iter().map(|c| c.packets).sum::<u64>()
                    - removed.packets
    }

    pub(crate) fn snapshot(&self, queue: u8, depth: Depth) -> QueueStatistics {
        let mean = |sum: u64| ratio(sum as f64, self.offered as f64);
        let (average_packets, average_bytes) = self.average.value();
        let dropped = DropReason::ALL
            .into_iter()
            .map(|reason| (reason, self.dropped[reason as usize]))
            .filter(|(_, count)| !count.is_zero())
            .collect();
        QueueStatistics {
            queue,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            deflected: self.deflected,
            dropped,
            egress_dropped: self.egress_dropped,
            transmitted: self.transmitted,
            ecn_ce: self.ecn_ce,
            depth_packets: depth.packets,
            depth_bytes: depth.bytes,
            max_depth_packets: self.max.packets,
            max_depth_bytes: self.max.bytes,
            average_depth_packets: average_packets,
            average_depth_bytes: average_bytes,
            arrival_depth_packets: mean(self.arrival_depth_packets),
            arrival_depth_bytes: mean(self.arrival_depth_bytes),
            average_delay_ns: ratio(self.delay_total as f64 / 1e3, self.dequeued.packets as f64),
            max_delay_ns: self.delay_max.as_nanos(),
            delays: self.delays.buckets(),
        }
    }
}

/// The depth integrated over time, from the first change to the last dequeue.
#[derive(Debug, Default)]
#[repr(C)]
struct TimeAverage {
    packet_ps: u128,
    byte_ps: u128,
    last: Instant,
    first: Option<Instant>,
    /// Time, packet and byte integral as of the last dequeue.
    marked: (Duration, u128, u128),
}

impl TimeAverage {
    /// The depth was `depth` from the last change until now.
    fn advance(&mut self, now: Instant, depth: Depth) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            let elapsed = u128::from(now.since(self.last).as_picos());
            self.packet_ps += elapsed * u128::from(depth.packets);
            self.byte_ps += elapsed * u128::from(depth.bytes);
        }
        self.last = self.last.max(now);
    }

    fn mark(&mut self) {
        let span = self
            .first
            .map_or(Duration::ZERO, |first| self.last.since(first));
        self.marked = (span, self.packet_ps, self.byte_ps);
    }

    fn value(&self) -> (f64, f64) {
        let (span, packet_ps, byte_ps) = self.marked;
        let span = span.as_picos() as f64;
        (ratio(packet_ps as f64, span), ratio(byte_ps as f64, span))
    }
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}
