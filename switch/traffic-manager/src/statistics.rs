//! Counters of queues and ports, and the recorder that fills them.

use std::collections::BTreeMap;
use std::fmt;

use ebb_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::delay_histogram::{DelayBucket, DelayHistogram};
use crate::depth::Depth;

/// A number of packets and the sum of their lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet of this many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Whether no packet was counted.
    pub fn is_zero(&self) -> bool {
        self.packets == 0
    }
}

/// The reasons for which the traffic manager drops packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The profile of the port has no such queue.
    NoSuchQueue,
    /// The queue has reached its own capacity.
    QueueFull,
    /// The shared pool of the port has reached its limit.
    PoolFull,
    /// The packet had been deflected before and did not fit again: its new queue does not deflect,
    /// or it was deflected as often as is allowed.
    DeflectFailed,
    /// A new configuration or program left no place for the packet while it waited.
    Flushed,
    /// The ingress buffer of the port that the packet came in on is full.
    IngressFull,
    /// The packet waited and gave way to one that matters more.
    PushedOut,
}

impl DropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DropReason; 7] = [
        DropReason::NoSuchQueue,
        DropReason::QueueFull,
        DropReason::PoolFull,
        DropReason::DeflectFailed,
        DropReason::Flushed,
        DropReason::IngressFull,
        DropReason::PushedOut,
    ];

    /// The name of the reason in statistics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::NoSuchQueue => "no-such-queue",
            DropReason::QueueFull => "queue-full",
            DropReason::PoolFull => "pool-full",
            DropReason::DeflectFailed => "deflect-failed",
            DropReason::Flushed => "flushed",
            DropReason::IngressFull => "ingress-full",
            DropReason::PushedOut => "pushed-out",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Counters of one queue since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatistics {
    /// Id of the queue, 0 to 31.
    pub queue: u8,
    /// Packets that were queued.
    pub enqueued: Count,
    /// Packets that were given to egress.
    pub dequeued: Count,
    /// Packets that did not fit and went back to ingress.
    pub deflected: Count,
    /// Dropped packets by reason; reasons that never occurred are absent.
    pub dropped: BTreeMap<DropReason, Count>,
    /// Packets that were dequeued and then dropped by egress, other than pruned ones.
    pub egress_dropped: Count,
    /// Replicas that egress dropped at the port by which their packet came in, which are no losses.
    pub pruned: Count,
    /// Packets that were sent, with the length that egress left them.
    pub transmitted: Count,
    /// Packets that were sent with "congestion experienced" in their ECN field.
    pub ecn_ce: Count,
    /// How often the neighbour at this port was asked to pause the queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pauses_sent: u64,
    /// How often the queue was paused, by the neighbour at this port or by the program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pauses_received: u64,
    /// How often such a pause ended because it was not renewed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pauses_expired: u64,
    /// How often such a pause lasted for longer than the watchdog allows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pause_storms: u64,
    /// How long the neighbour or the program kept the queue paused, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused_ns: u64,
    /// Packets that wait now.
    pub depth_packets: u64,
    /// Bytes that wait now.
    pub depth_bytes: u64,
    /// Packets that wait for room in the queue at the ports they came in on.
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    pub ingress_depth: Count,
    /// Most packets that waited at once.
    pub max_depth_packets: u64,
    /// Most bytes that waited at once.
    pub max_depth_bytes: u64,
    /// Mean over time from the first enqueue to the last dequeue.
    pub average_depth_packets: f64,
    /// Like `average_depth_packets`, in bytes.
    pub average_depth_bytes: f64,
    /// Mean of the depths that offered packets found, whether they were queued or not.
    pub arrival_depth_packets: f64,
    /// Like `arrival_depth_packets`, in bytes.
    pub arrival_depth_bytes: f64,
    /// Mean time from enqueue to dequeue, in nanoseconds.
    pub average_delay_ns: f64,
    /// Longest time from enqueue to dequeue, in nanoseconds.
    pub max_delay_ns: u64,
    /// Histogram of these times: 32 buckets per octave, without the empty ones.
    pub delays: Vec<DelayBucket>,
}

/// Counters of one port since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStatistics {
    /// Number of the port.
    pub port: u16,
    /// Name of its profile.
    pub profile: String,
    /// Packets that were sent.
    pub transmitted: Count,
    /// MAC control frames that were sent.
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    pub control: Count,
    /// MAC control frames that came in and were taken.
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    pub control_received: Count,
    /// How long the serialiser was busy, in nanoseconds.
    pub busy_ns: u64,
    /// Queues that exist, and those that packets were sent to although they do not.
    pub queues: Vec<QueueStatistics>,
}

/// Fills the statistics of a queue. The fields are in the order in which a packet touches them, and
/// what is rare is apart: with many switches, none of them is in the caches when its turn comes.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Recorder {
    /// Packets that were offered to the queue, whatever became of them.
    offered: u64,
    /// Sum of the depths they found, in packets.
    arrival_depth_packets: u64,
    /// Sum of the depths they found, in bytes.
    arrival_depth_bytes: u64,
    /// Longest time from enqueue to dequeue.
    delay_max: Duration,
    pub(crate) enqueued: Count,
    /// Greatest depth in packets and, on its own, in bytes.
    max: Depth,
    /// Mean depth over time.
    average: TimeAverage,
    pub(crate) dequeued: Count,
    /// Sum of the times from enqueue to dequeue, in picoseconds.
    delay_total: u128,
    delays: DelayHistogram,
    pub(crate) transmitted: Count,
    pub(crate) ecn_ce: Count,
    /// Depth of ingress buffers that wait for room in the queue.
    pub(crate) staged: Depth,
    /// Counters that most queues never need; `None` while all of them are zero.
    rare: Option<Box<Rare>>,
}

/// Counters of a queue that most packets do not touch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rare {
    pub(crate) deflected: Count,
    /// Dropped packets, indexed by [`DropReason`].
    dropped: [Count; DropReason::ALL.len()],
    pub(crate) egress_dropped: Count,
    pub(crate) pruned: Count,
    /// Depth when the counters were last reset; the balance starts from it.
    initial: Depth,
    /// Those of `dropped` and `deflected` that had waited in the queue.
    removed: Count,
    /// Depth of ingress buffers when the counters were last reset.
    initial_staged: Depth,
    /// How often the neighbour was asked to pause the queue.
    pub(crate) pauses_sent: u64,
    /// Pauses by the neighbour that ended because they were not renewed.
    pub(crate) pauses_expired: u64,
    /// Pauses by the neighbour that lasted for too long.
    pub(crate) pause_storms: u64,
    /// Pauses of the queue by the neighbour.
    pauses: Pauses,
}

/// Pauses of a queue by the neighbour behind the port.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    /// How many there were.
    count: u64,
    /// How long those took that have ended.
    ended: Duration,
    /// When the present one began; `None` if the queue is not paused.
    since: Option<Instant>,
}

impl Rare {
    /// Packets dropped for any reason, other than by egress.
    pub(crate) fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }
}

impl Recorder {
    /// Bytes at the start of a recorder that every packet touches.
    pub(crate) const OFTEN_BYTES: usize = std::mem::offset_of!(Recorder, staged);

    /// The counters that most packets do not touch.
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The values of these counters.
    pub(crate) fn rarely(&self) -> Rare {
        self.rare.as_deref().copied().unwrap_or_default()
    }

    /// A recorder in its place that starts from zero with what waits now.
    pub(crate) fn restart(&self, now: Instant, depth: Depth) -> Self {
        let paused = self.rarely().pauses.since.is_some();
        let rare = Rare {
            initial: depth,
            initial_staged: self.staged,
            pauses: Pauses {
                since: paused.then_some(now),
                ..Pauses::default()
            },
            ..Rare::default()
        };
        let zero = depth.packets == 0 && self.staged.packets == 0 && !paused;
        let mut recorder = Self {
            staged: self.staged,
            max: depth,
            rare: (!zero).then(|| Box::new(rare)),
            ..Self::default()
        };
        if depth.packets > 0 {
            recorder.average.advance(now, Depth::default());
        }
        recorder
    }

    /// A packet was offered and found this depth.
    #[inline]
    pub(crate) fn offered(&mut self, depth: Depth) {
        self.offered += 1;
        self.arrival_depth_packets += depth.packets;
        self.arrival_depth_bytes += depth.bytes;
    }

    /// A packet was queued; `before` is the depth it found.
    #[inline]
    pub(crate) fn enqueued(&mut self, now: Instant, before: Depth, len: u64) {
        self.average.advance(now, before);
        self.enqueued.add(len);
        self.max.packets = self.max.packets.max(before.packets + 1);
        self.max.bytes = self.max.bytes.max(before.bytes + len);
    }

    /// A packet left after `delay`; `before` is the depth with it.
    #[inline]
    pub(crate) fn dequeued(&mut self, now: Instant, before: Depth, len: u64, delay: Duration) {
        self.average.advance(now, before);
        self.average.mark();
        self.dequeued.add(len);
        self.delay_total += u128::from(delay.as_picos());
        self.delay_max = self.delay_max.max(delay);
        self.delays.add(delay);
    }

    /// A packet of `len` bytes was offered to the empty queue and left at once.
    #[inline]
    pub(crate) fn passed(&mut self, now: Instant, len: u64) {
        self.offered(Depth::default());
        self.enqueued(now, Depth::default(), len);
        let alone = Depth {
            packets: 1,
            bytes: len,
        };
        self.dequeued(now, alone, len, Duration::ZERO);
    }

    /// An offered packet was dropped.
    pub(crate) fn dropped(&mut self, reason: DropReason, len: u64) {
        self.rare().dropped[reason as usize].add(len);
    }

    /// Packets dropped for any reason, by egress too, pruned ones included.
    pub(crate) fn dropped_packets(&self) -> u64 {
        let rare = self.rarely();
        rare.dropped_packets() + rare.egress_dropped.packets + rare.pruned.packets
    }

    /// A packet that waited was dropped for a reason, or deflected; `before` is the depth with it.
    pub(crate) fn removed(
        &mut self,
        now: Instant,
        before: Depth,
        reason: Option<DropReason>,
        len: u64,
    ) {
        self.average.advance(now, before);
        let rare = self.rare();
        rare.removed.add(len);
        match reason {
            Some(reason) => rare.dropped[reason as usize].add(len),
            None => rare.deflected.add(len),
        }
    }

    /// The queue is paused.
    pub(crate) fn paused(&mut self, now: Instant) {
        let pauses = &mut self.rare().pauses;
        pauses.count += 1;
        pauses.since = Some(now);
    }

    /// The queue resumes.
    pub(crate) fn resumed(&mut self, now: Instant) {
        let pauses = &mut self.rare().pauses;
        if let Some(since) = pauses.since.take() {
            pauses.ended += now.since(since);
        }
    }

    /// Whether in = out + dropped + deflected + queued, both in packets and in bytes.
    pub(crate) fn balances(&self, depth: Depth) -> bool {
        let rare = self.rarely();
        let gone = rare.deflected.packets + rare.dropped_packets();
        rare.initial.packets + self.enqueued.packets
            == self.dequeued.packets + rare.removed.packets + depth.packets
            && rare.initial.bytes + self.enqueued.bytes
                == self.dequeued.bytes + rare.removed.bytes + depth.bytes
            && rare.initial_staged.packets + self.offered + rare.removed.packets
                == self.staged.packets + self.enqueued.packets + gone
    }

    /// The statistics of the queue with this id and depth.
    pub(crate) fn snapshot(&self, now: Instant, queue: u8, depth: Depth) -> QueueStatistics {
        let rare = self.rarely();
        let lasting = rare.pauses.since.map(|since| now.since(since));
        let mean = |sum: u64| ratio(sum as f64, self.offered as f64);
        let (average_packets, average_bytes) = self.average.value();
        let dropped = DropReason::ALL
            .into_iter()
            .map(|reason| (reason, rare.dropped[reason as usize]))
            .filter(|(_, count)| !count.is_zero())
            .collect();
        QueueStatistics {
            queue,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            deflected: rare.deflected,
            dropped,
            egress_dropped: rare.egress_dropped,
            pruned: rare.pruned,
            transmitted: self.transmitted,
            ecn_ce: self.ecn_ce,
            pauses_sent: rare.pauses_sent,
            pauses_received: rare.pauses.count,
            pauses_expired: rare.pauses_expired,
            pause_storms: rare.pause_storms,
            paused_ns: (rare.pauses.ended + lasting.unwrap_or(Duration::ZERO)).as_nanos(),
            depth_packets: depth.packets,
            depth_bytes: depth.bytes,
            ingress_depth: Count {
                packets: self.staged.packets,
                bytes: self.staged.bytes,
            },
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

/// The mean depth of a queue over time, from the first change to the last dequeue.
#[derive(Debug, Default)]
#[repr(C)]
struct TimeAverage {
    /// Integral of the depth in packets over time in picoseconds.
    packet_ps: u128,
    /// Integral of the depth in bytes over time in picoseconds.
    byte_ps: u128,
    /// When the depth last changed.
    last: Instant,
    /// When it first changed; `None` if it never did.
    first: Option<Instant>,
    /// Time since the first change and both integrals, as of the last dequeue.
    marked: (Duration, u128, u128),
}

impl TimeAverage {
    /// The depth was `depth` from the last change until `now`.
    #[inline]
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

    /// The mean counts until the last change.
    #[inline]
    fn mark(&mut self) {
        let span = self
            .first
            .map_or(Duration::ZERO, |first| self.last.since(first));
        self.marked = (span, self.packet_ps, self.byte_ps);
    }

    /// Mean depth in packets and in bytes.
    fn value(&self) -> (f64, f64) {
        let (span, packet_ps, byte_ps) = self.marked;
        let span = span.as_picos() as f64;
        (ratio(packet_ps as f64, span), ratio(byte_ps as f64, span))
    }
}

/// The quotient, or 0 without a denominator.
fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}
