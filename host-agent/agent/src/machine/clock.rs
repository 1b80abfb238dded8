//! CLOCK_MONOTONIC as the transports' time, the same for all processes of a machine.

use ebb_units::Instant;

pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// CLOCK_REALTIME, in ns: the kernel's time of arrival of a frame.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Processor time of this thread, in ns.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of this process, in ns.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call. These clocks exist on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
