//! Packets without payload, which go out again as soon as they are known to be lost.

use ebb_units::{Duration, Instant};

/// When one goes out again: at once, but never twice within a round trip, whoever claims what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Again {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Again {
    /// The network says that it dropped the packet. True: it is to go out now.
    pub(crate) fn ask(&mut self, now: Instant, round_trip: Duration) -> bool {
        let earliest = self.last.map_or(now, |last| now.max(last + round_trip));
        self.due.get_or_insert(earliest);
        self.take(now)
    }

    /// True once for what waited until now.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.due = None;
        self.last = Some(now);
        true
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_goes_at_once_and_others_once_per_round_trip() {
        let us = Instant::from_micros;
        let round_trip = Duration::from_micros(100);
        let mut again = Again::default();
        assert!(again.ask(us(10), round_trip));
        for at in [10, 50, 90] {
            assert!(!again.ask(us(at), round_trip));
        }
        assert_eq!(again.deadline(), Some(us(110)));
        assert!(!again.take(us(109)));
        assert!(again.take(us(110)));
        assert!(!again.take(us(500)), "all of them were one");
        assert!(again.ask(us(500), round_trip));
    }
}
