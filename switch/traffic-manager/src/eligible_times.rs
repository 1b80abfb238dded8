//! Earliest departure of the head of each queue of a port. Every packet needs it, so the times are
//! together in memory, apart from the queues.

use ebb_units::Instant;

use crate::limits::MAX_QUEUES;
use crate::scheduler::{QueueSet, highest, ids, ids_from_highest};

/// The queues with a packet that may leave, each with the time from which it may.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct EligibleTimes {
    /// Queues with a packet that may leave: not empty, not paused.
    present: QueueSet,
    /// Earliest departure of the head of each queue in `present`; meaningless for the others.
    since: [Instant; MAX_QUEUES],
}

impl EligibleTimes {
    /// Sets the earliest departure of a queue's new head; `None` if nothing may leave.
    #[inline]
    pub(crate) fn set(&mut self, queue: usize, since: Option<Instant>) {
        match since {
            Some(since) => {
                self.present |= 1 << queue;
                self.since[queue % MAX_QUEUES] = since;
            }
            None => self.present &= !(1 << queue),
        }
    }

    /// Earliest departure of a queue's head; `None` if nothing may leave.
    #[inline]
    pub(crate) fn get(&self, queue: usize) -> Option<Instant> {
        (self.present & 1 << queue != 0).then(|| self.since[queue])
    }

    /// The earliest time at which any head may leave; `None` if there is no head.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        let mut first = Instant::FAR_FUTURE;
        for queue in ids(self.present) {
            first = first.min(self.since[queue % MAX_QUEUES]);
        }
        (self.present != 0).then_some(first)
    }

    /// Whether no queue has a head that may leave.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The queue with the highest id among those with a head.
    #[inline]
    pub(crate) fn highest(&self) -> Option<usize> {
        highest(self.present)
    }

    /// The queues whose heads may leave at this time.
    #[inline]
    pub(crate) fn ready(&self, at: Instant) -> QueueSet {
        let mut ready = 0;
        for queue in ids(self.present) {
            ready |= QueueSet::from(self.since[queue % MAX_QUEUES] <= at) << queue;
        }
        ready
    }

    /// The queue whose head has the earliest departure, among these, which all have heads; of several
    /// the one with the highest id.
    pub(crate) fn earliest_of(&self, queues: QueueSet) -> Option<usize> {
        ids_from_highest(queues).min_by_key(|queue| self.since[*queue])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_present_heads_count() {
        let us = Instant::from_micros;
        let mut times = EligibleTimes::default();
        assert_eq!((times.earliest(), times.ready(us(9))), (None, 0));
        assert_eq!(times.highest(), None);
        times.set(7, Some(us(5)));
        times.set(0, Some(us(3)));
        assert_eq!(times.earliest(), Some(us(3)));
        assert_eq!(times.ready(us(2)), 0);
        assert_eq!(times.ready(us(4)), 0b0000_0001);
        assert_eq!(times.ready(us(5)), 0b1000_0001);
        assert_eq!(times.highest(), Some(7));
        assert_eq!(times.earliest_of(0b1000_0001), Some(0));
        assert_eq!(times.earliest_of(0b1000_0000), Some(7));
        times.set(2, Some(us(3)));
        assert_eq!(times.earliest_of(0b1000_0101), Some(2));
        times.set(2, None);
        times.set(0, None);
        assert_eq!((times.earliest(), times.get(0)), (Some(us(5)), None));
        times.set(31, Some(us(4)));
        times.set(8, Some(us(6)));
        assert_eq!(times.earliest(), Some(us(4)));
        assert_eq!(times.ready(us(5)), 1 << 31 | 1 << 7);
        assert_eq!((times.highest(), times.get(8)), (Some(31), Some(us(6))));
        assert_eq!(times.earliest_of(1 << 31 | 1 << 8 | 1 << 7), Some(31));
    }
}
