//! How many times are spread: mean, percentiles, maximum.

/// Sixteen classes per power of two: a percentile is at most a sixteenth too high.
const CLASSES_PER_OCTAVE: u64 = 16;
const CLASSES: usize = 64 * CLASSES_PER_OCTAVE as usize;

/// Times in ns, in classes: a constant amount of memory, whatever their number.
#[derive(Clone, Debug)]
pub struct Histogram {
    classes: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram {
            classes: vec![0; CLASSES].into(),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }

    pub fn add(&mut self, ns: u64) {
        self.classes[class(ns)] += 1;
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

    /// An upper bound of the quantile `share`, in thousandths: that of the class that holds it, and no
    /// more than the maximum. At most a sixteenth above the quantile.
    pub fn per_mille_ns(&self, share: u64) -> u64 {
        let rank = (self.count * share).div_ceil(1000).max(1);
        let mut below = 0;
        for (class, count) in self.classes.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_bound(class as u64).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn class(ns: u64) -> usize {
    let octave = u64::from(ns.checked_ilog2().unwrap_or(0)).saturating_sub(3);
    // Below 16 each value is a class.
    let class = match octave {
        0 => ns,
        _ => octave * CLASSES_PER_OCTAVE + (ns >> (octave - 1)) % CLASSES_PER_OCTAVE,
    };
    class as usize
}

fn upper_bound(class: u64) -> u64 {
    let (octave, part) = (class / CLASSES_PER_OCTAVE, class % CLASSES_PER_OCTAVE);
    match octave {
        0 => part,
        _ => ((CLASSES_PER_OCTAVE + part + 1) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_contiguous_and_narrow() {
        let mut last = 0;
        for ns in (0..100_000).chain((40..64).map(|n| 1 << n)) {
            let class = class(ns);
            assert!(class == last || class == last + 1 || ns > 100_000, "{ns}");
            last = class;
            let bound = upper_bound(class as u64);
            assert!(bound >= ns && bound - ns <= ns / 16, "{ns}: {bound}");
        }
        assert!(class(u64::MAX) < CLASSES);
    }

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
