//! The bytes that came in on one port and are still here, by queue, and what they make flow control
//! ask of the neighbour at that port.

use crate::config::{Accounting, Thresholds};
use crate::limits::CLASSES;

/// The account of one port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Bytes by queue, in the last place those of all queues that are no class of flow control.
    bytes: [u64; CLASSES + 1],
    /// The queues that the neighbour was asked to pause, a bit each.
    pub(crate) asked: u8,
}

impl Account {
    /// Counts bytes of a queue.
    #[inline]
    pub(crate) fn add(&mut self, queue: usize, bytes: u64) {
        self.bytes[queue.min(CLASSES)] += bytes;
    }

    /// Counts bytes of a queue no more.
    #[inline]
    pub(crate) fn remove(&mut self, queue: usize, bytes: u64) {
        self.bytes[queue.min(CLASSES)] -= bytes;
    }

    /// Counts nothing that came so far.
    pub(crate) fn clear(&mut self) {
        self.bytes = [0; CLASSES + 1];
    }

    /// The queues of these that the neighbour is to pause from now on. A queue that it was asked to
    /// pause resumes at the lower threshold.
    pub(crate) fn wanted(&self, thresholds: Thresholds, lossless: u8) -> u8 {
        let counted = match thresholds.accounting {
            Accounting::Drain => drain(self.bytes),
            Accounting::Class => self.bytes,
        };
        let pauses = |id: &usize| {
            let threshold = match self.asked & 1 << id {
                0 => thresholds.pause_bytes,
                _ => thresholds.resume_bytes,
            };
            lossless & 1 << id != 0 && counted[*id] > threshold
        };
        let paused = (0..CLASSES).filter(pauses);
        paused.fold(0, |set, id| set | 1 << id)
    }
}

/// The bytes of each queue and those above it, which a new packet of the queue finds before it.
pub(crate) fn drain<const N: usize>(mut bytes: [u64; N]) -> [u64; N] {
    for id in (0..N - 1).rev() {
        bytes[id] += bytes[id + 1];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Depths after packets of 1500 bytes at priority 7 and 0, 800 at 3 and 64 at 0, and after the
    /// one of priority 7 has left.
    #[test]
    fn drain_bytes_are_those_ahead_of_a_new_packet() {
        let full = [1564, 0, 0, 800, 0, 0, 0, 1500];
        let expected = [3864, 2300, 2300, 2300, 1500, 1500, 1500, 1500];
        assert_eq!(drain(full), expected);
        let left = [1564, 0, 0, 800, 0, 0, 0, 0];
        assert_eq!(drain(left), [2364, 800, 800, 800, 0, 0, 0, 0]);
    }
}
