//! A histogram of delays in nanoseconds, whose buckets are a fixed share of their value wide
//! ([`ebb_units::buckets`]).

use ebb_units::Duration;
use ebb_units::buckets::{bucket, lowest};
use serde::{Deserialize, Serialize};

/// Buckets per octave. Delays below this many nanoseconds have buckets of 1 ns.
const PARTS: u64 = 32;

/// One bucket: how many packets waited for at least `from_ns` and less than `below_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayBucket {
    /// Shortest delay of the bucket, in nanoseconds.
    pub from_ns: u64,
    /// The first delay beyond the bucket, in nanoseconds.
    pub below_ns: u64,
    /// Packets with such a delay; not 0.
    pub packets: u64,
}

/// Percentiles of delays, too long by at most 1 / `PARTS`, and their exact maximum. All are 0 if
/// there were no delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelaySummary {
    /// Number of delays.
    pub count: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds.
    pub p999_ns: u64,
    /// The longest delay, in nanoseconds.
    pub max_ns: u64,
}

/// Collects delays of which a [`DelaySummary`] is wanted.
#[derive(Debug, Default)]
pub struct DelayTally {
    delays: DelayHistogram,
    count: u64,
    max: Duration,
}

impl DelayTally {
    /// Counts one delay.
    pub fn add(&mut self, delay: Duration) {
        self.delays.add(delay);
        self.count += 1;
        self.max = self.max.max(delay);
    }

    /// The summary of all delays counted so far.
    pub fn summary(&self) -> DelaySummary {
        let (buckets, max_ns) = (self.delays.buckets(), self.max.as_nanos());
        let percentile = |per_mille: u128| {
            let rank = (u128::from(self.count) * per_mille).div_ceil(1000) as u64;
            let mut seen = 0;
            let bucket = buckets.iter().find(|bucket| {
                seen += bucket.packets;
                seen >= rank
            });
            bucket.map_or(0, |bucket| (bucket.below_ns - 1).min(max_ns))
        };
        DelaySummary {
            count: self.count,
            p99_ns: percentile(990),
            p999_ns: percentile(999),
            max_ns,
        }
    }
}

/// Number of delays that are buffered and then counted together. With many queues, each counter is a
/// cache miss; misses that overlap take little longer than a single one.
const TOGETHER: usize = 19;

/// The histogram of one queue: the buffer fills one cache line, the counters lie elsewhere.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct DelayHistogram {
    /// Bucket numbers of the latest delays, which are not counted yet.
    latest: [u16; TOGETHER],
    /// Number of entries of `latest` in use.
    latest_len: u16,
    /// The counters.
    counters: Counters,
}

/// The packets of each bucket.
#[derive(Clone, Debug, Default)]
struct Counters {
    /// A counter per bucket number, octave by octave up to the last one that ever had a packet;
    /// `None` for those that had none: the delays of a queue are in few of them.
    octaves: Vec<Option<Box<[u32; PARTS as usize]>>>,
    /// Packets that these counters have together, so that none overflows.
    counted: u32,
    /// Packets by bucket number that these counters had before they were last set to zero; empty until then.
    before: Vec<u64>,
}

impl DelayHistogram {
    /// Counts one delay.
    #[inline]
    pub(crate) fn add(&mut self, delay: Duration) {
        // The number fits: there are fewer than 2000 buckets.
        self.latest[usize::from(self.latest_len)] = bucket::<PARTS>(delay.as_nanos()) as u16;
        self.latest_len += 1;
        if usize::from(self.latest_len) == TOGETHER {
            self.latest_len = 0;
            self.counters.count(&self.latest);
        }
    }

    /// The buckets that are not empty, shortest delay first.
    pub(crate) fn buckets(&self) -> Vec<DelayBucket> {
        let mut counters = self.counters.clone();
        counters.count(&self.latest[..usize::from(self.latest_len)]);
        let octaves = (0..).zip(&counters.octaves);
        let octaves = octaves.filter_map(|(octave, packets)| Some((octave, packets.as_ref()?)));
        octaves
            .flat_map(|(octave, packets)| (octave * PARTS as usize..).zip(packets.iter()))
            .map(|(bucket, &packets)| (bucket, counters.before(bucket) + u64::from(packets)))
            .filter(|&(_, packets)| packets > 0)
            .map(|(bucket, packets)| DelayBucket {
                from_ns: lowest::<PARTS>(bucket),
                below_ns: lowest::<PARTS>(bucket + 1),
                packets,
            })
            .collect()
    }
}

impl Counters {
    /// Adds one packet to each of the buckets with these numbers.
    #[inline(never)]
    fn count(&mut self, buckets: &[u16]) {
        if self.counted > u32::MAX - TOGETHER as u32 {
            self.begin_again();
        }
        self.counted += buckets.len() as u32;
        for bucket in buckets {
            let (octave, part) = (bucket / PARTS as u16, bucket % PARTS as u16);
            let packets = match self.octaves.get_mut(usize::from(octave)) {
                Some(Some(packets)) => packets,
                _ => self.add(octave.into()),
            };
            packets[usize::from(part)] += 1;
        }
    }

    /// Sets the counters to zero, and keeps what they had.
    #[cold]
    fn begin_again(&mut self) {
        self.before.resize(self.octaves.len() * PARTS as usize, 0);
        let before = self.before.chunks_exact_mut(PARTS as usize);
        for (before, packets) in before.zip(&mut self.octaves) {
            let Some(packets) = packets else { continue };
            for (before, packets) in before.iter_mut().zip(packets.iter_mut()) {
                *before += u64::from(std::mem::take(packets));
            }
        }
        self.counted = 0;
    }

    /// Packets of a bucket from before the counters began again.
    fn before(&self, bucket: usize) -> u64 {
        self.before.get(bucket).copied().unwrap_or_default()
    }

    /// Counters for an octave that had none.
    #[cold]
    fn add(&mut self, octave: usize) -> &mut [u32; PARTS as usize] {
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        self.octaves[octave].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_counter_overflows() {
        let mut histogram = DelayHistogram::default();
        let four_billion = 4_000_000_000;
        for round in 1..4 {
            histogram.counters.add(0)[7] = four_billion;
            histogram.counters.counted = u32::MAX;
            (0..TOGETHER).for_each(|_| histogram.add(Duration::from_nanos(7)));
            let packets = round * u64::from(four_billion) + TOGETHER as u64;
            assert_eq!(histogram.buckets()[0].packets, packets);
        }
    }

    #[test]
    fn what_was_added_is_found_again() {
        let mut histogram = DelayHistogram::default();
        let delays = [0, 31, 32, 12_000, 12_001, 24_000];
        // Some of them have been counted by then, some have not.
        for ns in delays.into_iter().cycle().take(10 * delays.len()) {
            histogram.add(Duration::from_nanos(ns));
        }
        let found: Vec<_> = histogram
            .buckets()
            .iter()
            .map(|b| (b.from_ns, b.below_ns, b.packets))
            .collect();
        assert_eq!(
            found,
            [
                (0, 1, 10),
                (31, 32, 10),
                (32, 33, 10),
                (11_776, 12_032, 20),
                (23_552, 24_064, 10)
            ]
        );
    }
}
