//! Which of many deadlines comes first: a binary heap that knows where each of its entries is.
//!
//! A deadline is set anew for almost every packet. In place that costs O(log n) and no allocation;
//! a sorted set would allocate nodes, a heap without positions would fill with old entries.

use ebb_units::Instant;

/// Deadlines of things named by `K`, each in a slot: a small number that its owner keeps.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    /// Earliest first, by (deadline, key).
    heap: Vec<(Instant, K, usize)>,
    /// Where in the heap the entry of a slot is.
    positions: Vec<Option<usize>>,
    free_slots: Vec<usize>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers {
            heap: Vec::new(),
            positions: Vec::new(),
            free_slots: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// A slot for something new, without a deadline yet.
    pub(crate) fn open_slot(&mut self) -> usize {
        self.free_slots.pop().unwrap_or_else(|| {
            self.positions.push(None);
            // Room for all, so that a first deadline late in a flow's life takes no memory.
            self.heap.reserve(self.positions.len() - self.heap.len());
            self.positions.len() - 1
        })
    }

    /// Frees a slot.
    pub(crate) fn close_slot(&mut self, slot: usize) {
        self.clear(slot);
        self.free_slots.push(slot);
    }

    /// The earliest deadline and whose it is; of equal ones that of the smallest key.
    pub(crate) fn first(&self) -> Option<(Instant, K)> {
        self.heap.first().map(|&(at, key, _)| (at, key))
    }

    /// Sets or moves the deadline of `key`, which has this slot. None: it has none any more.
    pub(crate) fn set(&mut self, slot: usize, key: K, deadline: Option<Instant>) {
        let Some(at) = deadline else {
            return self.clear(slot);
        };
        let position = match self.positions[slot] {
            Some(position) if self.heap[position].0 == at => return,
            Some(position) => {
                self.heap[position].0 = at;
                position
            }
            None => {
                self.heap.push((at, key, slot));
                self.heap.len() - 1
            }
        };
        self.positions[slot] = Some(position);
        self.settle(position);
    }

    fn clear(&mut self, slot: usize) {
        if let Some(position) = self.positions[slot].take() {
            self.heap.swap_remove(position);
            if position < self.heap.len() {
                self.positions[self.heap[position].2] = Some(position);
                self.settle(position);
            }
        }
    }

    /// Moves the entry at `position` to where it belongs.
    fn settle(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 && before(&entry, &self.heap[(position - 1) / 2]) {
            let parent = (position - 1) / 2;
            self.put(position, self.heap[parent]);
            position = parent;
        }
        loop {
            let children = 2 * position + 1..(2 * position + 3).min(self.heap.len());
            let heap = &self.heap;
            let earliest = children.reduce(|a, b| if before(&heap[b], &heap[a]) { b } else { a });
            match earliest {
                Some(child) if before(&heap[child], &entry) => {
                    self.put(position, self.heap[child]);
                    position = child;
                }
                _ => break,
            }
        }
        self.put(position, entry);
    }

    fn put(&mut self, position: usize, entry: (Instant, K, usize)) {
        self.positions[entry.2] = Some(position);
        self.heap[position] = entry;
    }
}

/// Whether the deadline of one entry comes before that of another.
fn before<K: Ord>(a: &(Instant, K, usize), b: &(Instant, K, usize)) -> bool {
    (&a.0, &a.1) < (&b.0, &b.1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a sorted map: the same first deadline after every operation.
        #[test]
        fn the_first_is_the_first(operations in prop::collection::vec((0u8..4, 0usize..12, 0u64..50), 1..200)) {
            let mut timers = Timers::default();
            // key -> (slot, deadline)
            let mut model: BTreeMap<u64, (usize, Option<Instant>)> = BTreeMap::new();
            let mut next_key = 0;
            for (operation, which, at) in operations {
                let key = model.keys().nth(which % model.len().max(1)).copied();
                match (operation, key) {
                    (0, _) | (_, None) => {
                        model.insert(next_key, (timers.open_slot(), None));
                        next_key += 1;
                    }
                    (1, Some(key)) => {
                        let (slot, _) = model.remove(&key).unwrap();
                        timers.close_slot(slot);
                    }
                    (_, Some(key)) => {
                        let deadline = (at > 5).then(|| Instant::from_micros(at));
                        let entry = model.get_mut(&key).unwrap();
                        entry.1 = deadline;
                        timers.set(entry.0, key, deadline);
                    }
                }
                let first = model.iter().filter_map(|(&key, &(_, at))| Some((at?, key))).min();
                prop_assert_eq!(timers.first(), first);
                let with_deadline = model.values().filter(|(_, at)| at.is_some()).count();
                prop_assert_eq!(timers.heap.len(), with_deadline);
            }
        }
    }
}
