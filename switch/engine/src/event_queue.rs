//! Events in the order of their time; events of the same time in the order they were added, so
//! that a run is the same every time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ebb_units::Instant;

#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    sequence: u64,
    event: E,
}

impl<E> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            added: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Instant, event: E) {
        let sequence = self.added;
        self.added += 1;
        self.heap.push(Entry {
            at,
            sequence,
            event,
        });
    }

    pub(crate) fn next_time(&self) -> Option<Instant> {
        Some(self.heap.peek()?.at)
    }

    /// The next event, if its time is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        if self.next_time()? > now {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, because `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_order_of_insertion() {
        let mut queue = EventQueue::new();
        let us = Instant::from_micros;
        queue.push(us(2), 'c');
        queue.push(us(1), 'a');
        queue.push(us(1), 'b');
        assert_eq!(queue.pop_due(us(0)), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_due(us(9))).collect();
        assert_eq!(order, [(us(1), 'a'), (us(1), 'b'), (us(2), 'c')]);
    }
}
