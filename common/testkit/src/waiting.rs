//! Waiting for events instead of for a while.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen: longer than a busy machine takes for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often one looks whether it has happened.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits for [`PATIENCE`] at most; fails with what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_until_it_has_happened_and_no_longer() {
        let (mut looks, begun) = (0, Instant::now());
        wait_until("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        assert!(begun.elapsed() >= 2 * LOOK_EVERY);
    }
}
