//! Warnings that others can cause as often as they like: told at most once a minute, so that they fill no log.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(60);

/// Occurrences of one kind.
#[derive(Default)]
pub struct Seldom {
    told: Option<Instant>,
    /// Occurrences since then.
    untold: u64,
}

impl Seldom {
    /// Counts an occurrence. Returns how many there were since the last warning if it is time for another one.
    pub fn occurs(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now < told + INTERVAL) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_is_told_at_once_and_the_others_once_a_minute() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.occurs(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(seldom.occurs(start), None);
        }
        assert_eq!(seldom.occurs(start + INTERVAL), Some(1001));
        assert_eq!(seldom.occurs(start + INTERVAL), None);
    }
}
