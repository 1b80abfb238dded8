//! The wall clock as the engine's time: CLOCK_MONOTONIC since the start of the driver.

use ebb_units::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock of a driver; its zero is the time of [`Clock::start`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// CLOCK_MONOTONIC at zero, in nanoseconds.
    epoch_ns: u64,
}

impl Clock {
    /// A clock that shows zero now.
    pub(crate) fn start() -> Self {
        Self {
            epoch_ns: monotonic_ns(),
        }
    }

    /// The time it shows.
    pub(crate) fn now(self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.epoch_ns))
    }

    /// Offset of CLOCK_REALTIME from this clock, to be read anew each time: that clock may be
    /// stepped.
    pub(crate) fn realtime(self) -> RealtimeOffset {
        let offset = realtime_ns().saturating_sub(monotonic_ns());
        RealtimeOffset(offset + self.epoch_ns)
    }
}

/// CLOCK_REALTIME at the clock's zero, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealtimeOffset(u64);

impl RealtimeOffset {
    /// The engine's time at a reading of CLOCK_REALTIME in nanoseconds.
    pub(crate) fn to_instant(self, realtime_ns: u64) -> Instant {
        Instant::from_nanos(realtime_ns.saturating_sub(self.0))
    }

    /// The reading of CLOCK_REALTIME, in nanoseconds, at the engine's time.
    pub(crate) fn to_realtime_ns(self, at: Instant) -> u64 {
        at.as_nanos() + self.0
    }
}

fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

fn realtime_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
