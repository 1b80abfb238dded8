//! A histogram of delays with buckets a fixed share of their value wide, as HdrHistogram's: each
//! octave of nanoseconds is cut into [`PARTS`] equal parts, so that a percentile read off it is
//! right within 1 / [`PARTS`].

use ebb_units::Duration;
use serde::{Deserialize, Serialize};

/// Buckets in an octave. Delays below so many nanoseconds have buckets of 1 ns.
const PARTS: u64 = 32;

/// How many packets waited from `from_ns` to below `below_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayBucket {
    pub from_ns: u64,
    pub below_ns: u64,
    pub packets: u64,
}

/// Percentiles of delays, at most 1 / [`PARTS`] too long, and the longest of them; zero if there are
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelaySummary {
    pub count: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Delays that are of interest as a [`DelaySummary`].
#[derive(Debug, Default)]
pub struct DelayTally {
    delays: DelayHistogram,
    count: u64,
    max: Duration,
}

impl DelayTally {
    pub fn add(&mut self, delay: Duration) {
        self.delays.add(delay);
        self.count += 1;
        self.max = self.max.max(delay);
    }

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

/// Delays that are counted together. The buckets of many queues are in no cache, and each delay has another one:
/// waiting for all of them at once takes little longer than for one.
const TOGETHER: usize = 19;

/// One cache line, and the counts.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct DelayHistogram {
    /// Buckets of the latest delays, not yet counted.
    latest: [u16; TOGETHER],
    latest_len: u16,
    /// By number of the bucket, as far as there was a delay.
    packets: Vec<u64>,
}

impl DelayHistogram {
    pub(crate) fn add(&mut self, delay: Duration) {
        // There are fewer than 2000 buckets.
        self.latest[usize::from(self.latest_len)] = bucket(delay.as_nanos()) as u16;
        self.latest_len += 1;
        if usize::from(self.latest_len) == TOGETHER {
            self.latest_len = 0;
            count(&mut self.packets, &self.latest);
        }
    }

    /// In the order of delays, without the empty ones.
    pub(crate) fn buckets(&self) -> Vec<DelayBucket> {
        let mut packets = self.packets.clone();
        count(&mut packets, &self.latest[..usize::from(self.latest_len)]);
        packets
            .iter()
            .enumerate()
            .filter(|&(_, &packets)| packets > 0)
            .map(|(bucket, &packets)| DelayBucket {
                from_ns: lowest(bucket),
                below_ns: lowest(bucket + 1),
                packets,
            })
            .collect()
    }
}

fn count(packets: &mut Vec<u64>, buckets: &[u16]) {
    let last = buckets.iter().max().map_or(0, |last| usize::from(*last));
    if packets.len() <= last {
        packets.resize(last + 1, 0);
    }
    for bucket in buckets {
        packets[usize::from(*bucket)] += 1;
    }
}

fn bucket(ns: u64) -> usize {
    // Octaves are counted from PARTS on: what is below has one bucket per value.
    let octave = ns.max(PARTS).ilog2() - PARTS.ilog2();
    (u64::from(octave) * PARTS + (ns >> octave)) as usize
}

/// The shortest delay of a bucket; of the one after the last, the longest there is.
fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / PARTS).saturating_sub(1);
    let part = u128::from(bucket - octave * PARTS);
    u64::try_from(part << octave).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_delays() {
        assert_eq!(lowest(0), 0);
        for number in 0..=bucket(u64::MAX) {
            let (from, below) = (lowest(number), lowest(number + 1));
            assert!(from < below, "{number}");
            assert_eq!(bucket(from), number);
            assert_eq!(bucket(below - 1), number);
            assert!(
                below - from == 1 || (below - from) * PARTS <= from,
                "{number}"
            );
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
