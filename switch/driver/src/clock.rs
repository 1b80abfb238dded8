//! The wall clock as the cores' time: picoseconds of CLOCK_MONOTONIC since the start.

use ebb_units::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            epoch_ns: monotonic_ns(),
        }
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.epoch_ns))
    }

    /// How to convert CLOCK_REALTIME, as of now: that clock may be stepped.
    pub(crate) fn realtime(self) -> RealtimeOffset {
        let offset = realtime_ns().saturating_sub(monotonic_ns());
        RealtimeOffset(offset + self.epoch_ns)
    }
}

/// CLOCK_REALTIME at the clock's epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealtimeOffset(u64);

impl RealtimeOffset {
    pub(crate) fn to_instant(self, realtime_ns: u64) -> Instant {
        Instant::from_nanos(realtime_ns.saturating_sub(self.0))
    }

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
