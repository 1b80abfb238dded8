//! A constant rate: packets leave at equal intervals.

use ebb_units::{Duration, Instant};

/// Packets that may leave at once after a late wake-up, or after others had the link.
const MAX_CATCH_UP: u64 = 8;

#[derive(Debug)]
pub struct Rate {
    interval: Duration,
    /// Time at which the next packet is due.
    next_at: Instant,
    /// Packets that are due and have not left.
    due: u64,
}

impl Rate {
    /// The first packet is due at once. `packet_bytes`: of every packet, with its IPv4 header.
    pub fn new(now: Instant, bits_per_second: u64, packet_bytes: usize) -> Self {
        let ns = packet_bytes as u64 * 8_000_000_000 / bits_per_second;
        let interval = Duration::from_nanos(ns.max(1));
        Rate {
            interval,
            next_at: now + interval,
            due: 1,
        }
    }

    pub fn is_due(&self) -> bool {
        self.due > 0
    }

    /// Time at which the next packet is due. None: one is.
    pub fn deadline(&self) -> Option<Instant> {
        (self.due == 0).then_some(self.next_at)
    }

    /// Counts the packets that are due by `now`.
    pub fn advance(&mut self, now: Instant) {
        if self.due > 0 || now < self.next_at {
            return;
        }
        let missed = now.since(self.next_at).as_nanos() / self.interval.as_nanos() + 1;
        self.due = missed.min(MAX_CATCH_UP);
        self.next_at += self.interval * missed;
    }

    pub fn sent(&mut self) {
        self.due = self.due.saturating_sub(1);
    }

    /// Begins anew after a time without packets.
    pub fn restart(&mut self, now: Instant) {
        self.due = self.due.min(1);
        self.next_at = self.next_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_leaves_every_ten_microseconds_at_1_2_gbit_s() {
        let start = Instant::from_micros(3);
        let mut rate = Rate::new(start, 1_200_000_000, 1500);
        assert!(rate.is_due());
        for n in 1..5 {
            rate.sent();
            let at = Instant::from_micros(3 + 10 * n);
            assert_eq!((rate.is_due(), rate.deadline()), (false, Some(at)));
            rate.advance(at);
            assert!(rate.is_due());
        }
    }

    #[test]
    fn lateness_is_made_up_for_within_bounds_and_idle_time_is_not() {
        let mut rate = Rate::new(Instant::ZERO, 1_200_000_000, 1500);
        rate.sent();
        let burst = |rate: &mut Rate, at| {
            rate.advance(Instant::from_micros(at));
            let count = (0..).take_while(|_| {
                let due = rate.is_due();
                rate.sent();
                due
            });
            count.count()
        };
        assert_eq!(burst(&mut rate, 9), 0);
        assert_eq!(burst(&mut rate, 34), 3);
        assert_eq!(burst(&mut rate, 1000), 8);
        rate.restart(Instant::from_micros(5000));
        assert_eq!(burst(&mut rate, 5000), 1);
    }
}
