//! CLOCK_MONOTONIC as the transports' time, the same for all processes of a machine.

use ebb_units::Instant;
use rustix::time::{ClockId, clock_gettime};

pub fn now() -> Instant {
    Instant::from_nanos(read(ClockId::Monotonic))
}

/// CLOCK_REALTIME, in ns: the kernel's time of arrival of a frame.
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// Processor time of this thread, in ns.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of this process, in ns.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
