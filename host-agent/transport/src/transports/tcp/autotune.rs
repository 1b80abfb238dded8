//! A receive window that grows with what arrives: dynamic right-sizing (Fisk and Feng 2001), as
//! Linux has it since 2.6.7 (`tcp_rcv_space_adjust`). It is at least twice what came in the last
//! round trip, so that a sender in slow start is not held back for long, and never shrinks.

use ebb_units::{Duration, Instant};

/// The receive window of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// Bytes of the window.
    size: u64,
    /// Bytes that it grows to.
    most: u64,
    /// How long a window takes to come, the shortest so far: a round trip or, of a sender that the
    /// window does not hold back, longer. None: no window has arrived whole.
    round: Option<Duration>,
    /// When the window that is coming began, and the offset at which it ends.
    coming: (Instant, u64),
    /// Since when bytes are counted, and the offset from which on.
    counted: (Instant, u64),
}

impl ReceiveWindow {
    /// A window that stays as it is.
    pub(super) fn fixed(size: u64) -> Self {
        Self::growing(size, size, 0)
    }

    /// A window of `size` bytes at first, for a stream that begins at offset `next`.
    pub(super) fn growing(size: u64, most: u64, next: u64) -> Self {
        ReceiveWindow {
            size: size.min(most),
            most,
            round: None,
            coming: (Instant::ZERO, next),
            counted: (Instant::ZERO, next),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// All before offset `next` has arrived by `now`, and been taken.
    pub(super) fn on_progress(&mut self, now: Instant, next: u64) {
        if self.size == self.most {
            return;
        }
        let (began, end) = self.coming;
        if next >= end {
            if began > Instant::ZERO {
                let took = now.since(began);
                self.round = Some(self.round.map_or(took, |round| round.min(took)));
            } else {
                self.counted = (now, next);
            }
            self.coming = (now, next + self.size);
        }
        let (since, from) = self.counted;
        if self.round.is_some_and(|round| now.since(since) >= round) {
            self.size = (2 * (next - from)).clamp(self.size, self.most);
            self.counted = (now, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender that sends a window each round trip of 100 us, at most `limit` bytes.
    fn after(rounds: u64, window: &mut ReceiveWindow, limit: u64) -> Vec<u64> {
        let mut next = 1;
        let mut sizes = Vec::new();
        for round in 1..=rounds {
            let burst = window.size().min(limit);
            // It arrives in ten pieces at the end of the round trip.
            for piece in 1..=10 {
                let now = Instant::from_micros(100 * round + piece);
                window.on_progress(now, next + burst * piece / 10);
            }
            next += burst;
            sizes.push(window.size());
        }
        sizes
    }

    #[test]
    fn it_doubles_with_a_sender_that_it_holds_back_up_to_its_most() {
        let mut window = ReceiveWindow::growing(64_000, 1_000_000, 1);
        let sizes = after(20, &mut window, u64::MAX);
        assert!(sizes.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(sizes[5] > 64_000, "{sizes:?}");
        assert_eq!(sizes.last(), Some(&1_000_000), "{sizes:?}");
    }

    #[test]
    fn it_stays_at_twice_what_a_round_trip_brings() {
        let mut window = ReceiveWindow::growing(20_000, 1_000_000, 1);
        let sizes = after(50, &mut window, 30_000);
        assert!((60_000..=64_000).contains(&sizes[49]), "{sizes:?}");
    }

    #[test]
    fn a_fixed_one_stays() {
        let mut window = ReceiveWindow::fixed(64_000);
        assert_eq!(after(20, &mut window, u64::MAX), [64_000; 20]);
    }
}
