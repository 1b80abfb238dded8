//! Events in the order of their time; of events of the same time that with the lower rank comes
//! first, so that a run is the same every time. What the rank is, is for the user to choose.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ebb_units::Instant;

#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    rank: u64,
    event: E,
}

impl<E> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
        }
    }

    pub(crate) fn push(&mut self, at: Instant, rank: u64, event: E) {
        self.heap.push(Entry { at, rank, event });
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

    /// The next event, if its time is before `horizon`.
    pub(crate) fn pop_before(&mut self, horizon: Instant) -> Option<(Instant, E)> {
        if self.next_time()? >= horizon {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, because `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.rank).cmp(&(self.at, self.rank))
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
    fn by_time_then_by_rank() {
        let mut queue = EventQueue::new();
        let us = Instant::from_micros;
        queue.push(us(2), 0, 'c');
        queue.push(us(1), 8, 'b');
        queue.push(us(1), 7, 'a');
        assert_eq!(queue.pop_due(us(0)), None);
        assert_eq!(queue.pop_before(us(1)), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_due(us(9))).collect();
        assert_eq!(order, [(us(1), 'a'), (us(1), 'b'), (us(2), 'c')]);
    }
}
