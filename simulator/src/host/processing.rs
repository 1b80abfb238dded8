//! Processing time of packets that have arrived, several packets at a time.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

/// Processors that take packets in the order in which these arrive.
pub struct Processing {
    /// Processing time of each packet; 0: none.
    each: Duration,
    /// When each processor will be free, the earliest first.
    free_at: VecDeque<Instant>,
    /// Packets that are being worked on or wait, and when they are done: in order, since all take
    /// as long.
    done: VecDeque<(Instant, Vec<u8>)>,
    /// Memory of packets that have been done.
    spare: Vec<Vec<u8>>,
}

impl Processing {
    /// This many idle processors, at least one.
    pub fn new(each: Duration, at_once: usize) -> Self {
        let used = if each.is_zero() { 0 } else { at_once.max(1) };
        Processing {
            each,
            free_at: std::iter::repeat_n(Instant::ZERO, used).collect(),
            done: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Takes a packet; `deliver` gets it at once if that takes no time.
    pub fn take(&mut self, now: Instant, packet: &[u8], deliver: impl FnOnce(&[u8])) {
        let Some(free_at) = self.free_at.pop_front() else {
            return deliver(packet);
        };
        let done = free_at.max(now) + self.each;
        self.free_at.push_back(done);
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        self.done.push_back((done, kept));
    }

    /// Hands over what is done by `now`.
    pub fn release(&mut self, now: Instant, mut deliver: impl FnMut(&[u8])) {
        while self.next().is_some_and(|done| done <= now) {
            if let Some((_, packet)) = self.done.pop_front() {
                deliver(&packet);
                self.spare.push(packet);
            }
        }
    }

    /// When the next packet is done. None: there is none.
    pub fn next(&self) -> Option<Instant> {
        self.done.front().map(|(done, _)| *done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    /// When each of six packets is done, of which the last arrives later.
    fn done(at_once: usize) -> Vec<(u64, u8)> {
        let mut processing = Processing::new(Duration::from_micros(5), at_once);
        for packet in 0..5 {
            processing.take(us(10), &[packet], |_| panic!("it takes time"));
        }
        processing.take(us(22), &[5], |_| panic!("it takes time"));
        let mut done = Vec::new();
        while let Some(at) = processing.next() {
            processing.release(Instant::from_picos(at.as_picos() - 1), |_| panic!("early"));
            processing.release(at, |packet| done.push((at.as_micros(), packet[0])));
        }
        done
    }

    #[test]
    fn packets_wait_for_a_free_processor() {
        assert_eq!(
            done(1),
            [(15, 0), (20, 1), (25, 2), (30, 3), (35, 4), (40, 5)]
        );
        assert_eq!(
            done(2),
            [(15, 0), (15, 1), (20, 2), (20, 3), (25, 4), (27, 5)]
        );
        assert_eq!(
            done(16),
            [(15, 0), (15, 1), (15, 2), (15, 3), (15, 4), (27, 5)]
        );
    }

    #[test]
    fn without_a_time_packets_do_not_wait() {
        let mut processing = Processing::new(Duration::ZERO, 1);
        let mut got = 0;
        processing.take(us(10), &[7], |packet| got = packet[0]);
        assert_eq!((got, processing.next()), (7, None));
    }
}
