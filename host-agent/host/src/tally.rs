//! Counts by key.

use std::collections::BTreeMap;

/// A count for each key; keys whose count is 0 are not stored.
pub struct Tally<Key> {
    counts: BTreeMap<Key, usize>,
    sum: usize,
}

impl<Key> Default for Tally<Key> {
    fn default() -> Self {
        Tally {
            counts: BTreeMap::new(),
            sum: 0,
        }
    }
}

impl<Key: Ord> Tally<Key> {
    /// Count of a key; 0 if it was never added.
    pub fn of(&self, key: &Key) -> usize {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// Sum over all keys.
    pub fn sum(&self) -> usize {
        self.sum
    }

    /// Counts a key once more.
    pub fn add(&mut self, key: Key) {
        *self.counts.entry(key).or_default() += 1;
        self.sum += 1;
    }

    /// Counts a key once less, unless its count is 0.
    pub fn subtract(&mut self, key: &Key) {
        if let Some(count) = self.counts.get_mut(key) {
            *count -= 1;
            self.sum -= 1;
            if *count == 0 {
                self.counts.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_down_to_0_is_forgotten() {
        let mut tally = Tally::default();
        for key in ["a", "b", "a"] {
            tally.add(key);
        }
        assert_eq!((tally.of(&"a"), tally.of(&"b"), tally.sum()), (2, 1, 3));
        for key in ["a", "b", "a", "c"] {
            tally.subtract(&key);
        }
        assert!(tally.counts.is_empty() && tally.sum() == 0);
    }
}
