//! Back pressure of an interface that is slower than the switch on its port. It uses neither clock
//! nor socket.
//!
//! A queueing discipline (tbf, htb, a network card) takes frames and sends them later. As long as
//! it takes all frames, the port knows nothing of it. Once the kernel takes no more, because what
//! it holds has reached a bound, the port gets credit for as much as fits, and frames wait in the
//! queues of the traffic manager: there they count as depth, get marked, and are dropped. Frames
//! that had left these queues in the same turn wait at the interface. An interface is free again
//! when it sends as much at once as the kernel may ever hold, or when it held nothing for a second.
//!
//! The bound is as low as it can be without the interface running dry. It doubles whenever the
//! interface had nothing left before it got more, and is halved when plenty was left, as Linux does
//! for network cards (dynamic queue limits, `lib/dynamic_queue_limits.c`).

use ebb_packet_io::FULL_FRAME_BYTES;

/// The bound at the start, as the kernel counts bytes: 28 full frames.
const FIRST_BOUND_BYTES: usize = 64 << 10;
/// The lowest bound, four full frames: the kernel reports room when it holds one frame or none.
const LEAST_BOUND_BYTES: usize = 8 << 10;
/// The highest bound, 455 full frames: what 4 Gbit/s carry in 1.4 ms.
const MOST_BOUND_BYTES: usize = 1 << 20;

/// Whether an interface keeps up with its port, and the port's credit if it does not.
#[derive(Debug)]
pub(crate) struct Pressure {
    /// Whether the interface keeps up.
    state: State,
    /// Most bytes that the kernel is to hold.
    bound_bytes: usize,
    /// Whether the kernel held nothing each time it was looked at since the last review.
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The interface takes all frames.
    Free,
    /// The port got credit for `granted` frames, of which the kernel has taken `taken`.
    Metered { granted: u64, taken: u64 },
    /// The kernel took no more, and frames are left over.
    Blocked,
}

/// Number of frames that a port may send to its interface; `None` means no limit. It is the argument of
/// [`set_credit`](ebb_engine::drive::Partition::set_credit).
pub(crate) type Credit = Option<u64>;

impl Pressure {
    /// The pressure of an interface that takes all frames.
    pub fn new() -> Self {
        Self {
            state: State::Free,
            bound_bytes: FIRST_BOUND_BYTES,
            quiet: false,
        }
    }

    /// Most bytes that the kernel is to hold.
    pub fn bound_bytes(&self) -> usize {
        self.bound_bytes
    }

    /// Whether the interface takes all frames, so that its port needs no credit.
    pub fn is_free(&self) -> bool {
        self.state == State::Free
    }

    /// Whether the kernel took no more, and frames are left over.
    pub fn is_blocked(&self) -> bool {
        self.state == State::Blocked
    }

    /// Notes that the kernel has taken this many frames, or dropped them.
    pub fn took(&mut self, frames: u64) {
        if let State::Metered { taken, .. } = &mut self.state {
            *taken += frames;
        }
    }

    /// Frees an interface that held nothing since the last review. To be called about every second,
    /// before a [`grant`](Self::grant).
    pub fn review(&mut self) {
        if self.quiet && !self.is_blocked() {
            self.state = State::Free;
        }
        self.quiet = true;
    }

    /// Notes that the kernel takes no more; the port is to have no credit.
    pub fn block(&mut self) {
        self.state = State::Blocked;
        self.quiet = false;
    }

    /// Notes that the queueing discipline dropped a frame while it held `unsent_bytes`, which is all
    /// that it has room for.
    pub fn refused(&mut self, unsent_bytes: usize) {
        let half = unsent_bytes.min(self.bound_bytes) / 2;
        self.bound_bytes = half.max(LEAST_BOUND_BYTES);
    }

    /// Adapts the bound when the kernel takes frames again, while it still holds `unsent_bytes`.
    pub fn relieve(&mut self, unsent_bytes: usize) {
        if unsent_bytes == 0 {
            self.double();
        } else if unsent_bytes > self.bound_bytes / 4 {
            self.bound_bytes = (self.bound_bytes / 2).max(LEAST_BOUND_BYTES);
        }
    }

    /// Returns what the port may send, now that the kernel has taken all frames and holds
    /// `unsent_bytes`.
    pub fn grant(&mut self, unsent_bytes: usize) -> Credit {
        if self.is_free() {
            return None;
        }
        self.quiet &= unsent_bytes == 0;
        let used_up = matches!(self.state, State::Metered { granted, taken } if taken >= granted);
        if used_up && unsent_bytes == 0 {
            if self.bound_bytes == MOST_BOUND_BYTES {
                self.state = State::Free;
                return None;
            }
            self.double();
        }
        let room = self.bound_bytes.saturating_sub(unsent_bytes);
        let granted = (room / FULL_FRAME_BYTES).max(1) as u64;
        self.state = State::Metered { granted, taken: 0 };
        Some(granted)
    }

    fn double(&mut self) {
        self.bound_bytes = (self.bound_bytes * 2).min(MOST_BOUND_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface that sends full frames, each in some time, and a port that always has more; it is
    /// looked at `late` after the kernel reports that there is room.
    fn bound_for(frame_ns: u64, late_ns: u64) -> (usize, f64) {
        let mut pressure = Pressure::new();
        pressure.block();
        let (mut held, mut idle_ns, mut busy_ns) = (FIRST_BOUND_BYTES / FULL_FRAME_BYTES, 0, 0);
        for _ in 0..200 {
            // Until half of the bound is left, and a little longer.
            let leave = held.saturating_sub(pressure.bound_bytes() / 2 / FULL_FRAME_BYTES);
            let passed = leave as u64 * frame_ns + late_ns;
            let sent = held.min((passed / frame_ns) as usize);
            held -= sent;
            busy_ns += sent as u64 * frame_ns;
            idle_ns += passed - (sent as u64 * frame_ns).min(passed);
            pressure.relieve(held * FULL_FRAME_BYTES);
            held = pressure.bound_bytes().div_ceil(FULL_FRAME_BYTES);
        }
        let all = (idle_ns + busy_ns) as f64;
        (pressure.bound_bytes(), busy_ns as f64 / all)
    }

    #[test]
    fn the_bound_is_as_low_as_the_interface_is_slow() {
        // 24 ms for a frame: 0.5 Mbit/s; looked at after 100 us.
        let (bound, _) = bound_for(24_000_000, 100_000);
        assert_eq!(bound, LEAST_BOUND_BYTES);
        // 1 Gbit/s, looked at after a millisecond, in which 83 frames leave.
        let (bound, busy) = bound_for(12_000, 1_000_000);
        assert!(bound >= 83 * FULL_FRAME_BYTES, "{bound}");
        assert!(busy > 0.9, "{busy}");
        // No lateness raises the bound above its maximum.
        assert_eq!(bound_for(1, 1_000_000).0, MOST_BOUND_BYTES);
    }

    #[test]
    fn a_port_has_credit_for_what_the_kernel_may_hold() {
        let mut pressure = Pressure::new();
        assert!(pressure.is_free());
        pressure.block();
        assert!(pressure.is_blocked());
        let full = (FIRST_BOUND_BYTES / FULL_FRAME_BYTES) as u64;
        let held = 10 * FULL_FRAME_BYTES;
        assert_eq!(pressure.grant(held), Some(full - 10));
        pressure.took(full - 10);
        assert_eq!(pressure.grant(FIRST_BOUND_BYTES + 1), Some(1));
        // That some is left and all is sent shows nothing.
        assert_eq!(pressure.grant(held), Some(full - 10));
        pressure.took(3);
        assert_eq!(pressure.grant(0), Some(full));
    }

    #[test]
    fn an_interface_that_runs_dry_gets_more_and_in_the_end_all_there_is() {
        let mut pressure = Pressure::new();
        pressure.block();
        pressure.relieve(0);
        assert_eq!(pressure.bound_bytes(), 2 * FIRST_BOUND_BYTES);
        let mut grants = 0;
        while let Some(credit) = pressure.grant(0) {
            pressure.took(credit);
            grants += 1;
        }
        assert!(pressure.is_free() && grants == 4, "{grants}");
    }

    #[test]
    fn an_interface_that_held_nothing_for_a_second_is_free() {
        let mut pressure = Pressure::new();
        pressure.block();
        pressure.review();
        assert!(pressure.is_blocked(), "frames are left");
        pressure.grant(FULL_FRAME_BYTES);
        // It held something in the second before.
        pressure.review();
        pressure.grant(FULL_FRAME_BYTES);
        pressure.review();
        assert!(pressure.grant(0).is_some());
        pressure.took(1);
        assert!(pressure.grant(0).is_some());
        pressure.review();
        assert_eq!(pressure.grant(0), None);
        assert!(pressure.is_free());
    }

    #[test]
    fn a_queueing_discipline_that_drops_gets_less() {
        let mut pressure = Pressure::new();
        pressure.refused(12 * FULL_FRAME_BYTES);
        assert_eq!(pressure.bound_bytes(), 6 * FULL_FRAME_BYTES);
        for _ in 0..5 {
            pressure.refused(0);
        }
        assert_eq!(pressure.bound_bytes(), LEAST_BOUND_BYTES);
    }
}
