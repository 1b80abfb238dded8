//! Limit of one a minute for warnings whose number peers control, so that they fill no log.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(60);

/// Occurrences that one kind of warning is about.
#[derive(Default)]
pub struct WarningLimit {
    /// Time of the last warning. None: there was none.
    warned_at: Option<Instant>,
    /// Occurrences since then.
    since: u64,
}

impl WarningLimit {
    /// Counts an occurrence. Returns their number since the last warning if another one is due. None: not yet.
    pub fn count(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        if self.warned_at.is_some_and(|at| now < at + INTERVAL) {
            return None;
        }
        self.warned_at = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_warns_at_once_and_the_others_once_a_minute() {
        let (mut limit, start) = (WarningLimit::default(), Instant::now());
        assert_eq!(limit.count(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(limit.count(start), None);
        }
        assert_eq!(limit.count(start + INTERVAL), Some(1001));
        assert_eq!(limit.count(start + INTERVAL), None);
    }
}
