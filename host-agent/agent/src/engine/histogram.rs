//! How many times are spread: mean, percentiles, maximum.

use ebb_units::buckets::{bucket, lowest};

/// Buckets per octave: a percentile is at most a sixteenth too high.
const PARTS: u64 = 16;

/// Times in ns, in buckets: a constant amount of memory, whatever their number.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram {
            buckets: vec![0; bucket::<PARTS>(u64::MAX) + 1].into(),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }

    pub fn add(&mut self, ns: u64) {
        self.buckets[bucket::<PARTS>(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// An upper bound of the quantile `share`, in thousandths: that of the bucket that holds it, and no
    /// more than the maximum. At most a sixteenth above the quantile.
    pub fn per_mille_ns(&self, share: u64) -> u64 {
        let rank = (self.count * share).div_ceil(1000).max(1);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return (lowest::<PARTS>(bucket + 1) - 1).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_observed() {
        let mut delays = Histogram::new();
        (1..=1000).for_each(|us| delays.add(us * 1000));
        let near = |found: u64, exact: u64| assert!(found >= exact && found <= exact + exact / 16);
        near(delays.per_mille_ns(500), 500_000);
        near(delays.per_mille_ns(990), 990_000);
        assert_eq!(delays.per_mille_ns(1000), 1_000_000);
        assert_eq!(delays.mean_ns(), 500_500.0);
    }
}
