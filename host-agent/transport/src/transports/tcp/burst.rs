//! Segmentation offload: a flow waits until it has a burst for the network card, and hands it over
//! whole. When it waits is what Linux does (`tcp_tso_should_defer`, with `tcp_tso_win_divisor` 3).

/// A third of the window is worth a burst.
const WINDOW_DIVISOR: u64 = 3;

/// Bytes that a sender has, and those that it may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Rest of the stream.
    pub(super) rest: u64,
    /// Bytes that the receive window and the congestion window leave.
    pub(super) allowed: u64,
    /// The congestion window.
    pub(super) window: u64,
}

/// The bursts of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    /// Most bytes of a burst; 0: none is waited for.
    most: u64,
    /// Offset at which the burst that is being handed over ends.
    end: u64,
}

impl Bursts {
    pub(super) fn new(most: u32) -> Self {
        Bursts {
            most: most.into(),
            end: 0,
        }
    }

    /// Whether what is sent at offset `next` belongs to the burst that has begun.
    pub(super) fn continues(&self, next: u64) -> bool {
        next < self.end
    }

    /// Whether the sender waits for more room, with something in flight whose ACK will give it. If
    /// not, a burst begins at `next`.
    pub(super) fn waits(&mut self, next: u64, room: Room) -> bool {
        if self.most == 0 || self.continues(next) {
            return false;
        }
        let worth = self.most.min(room.window / WINDOW_DIVISOR).min(room.rest);
        if room.allowed < worth {
            return true;
        }
        self.begin(next, room);
        false
    }

    /// A burst begins at `next`, however much may leave.
    pub(super) fn begin(&mut self, next: u64, room: Room) {
        self.end = next + room.allowed.min(room.rest).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        rest: 1_000_000,
        allowed: 0,
        window: 300_000,
    };

    fn waits(bursts: &mut Bursts, next: u64, allowed: u64) -> bool {
        bursts.waits(next, Room { allowed, ..ROOM })
    }

    #[test]
    fn without_offload_nothing_waits() {
        let mut bursts = Bursts::new(0);
        assert!(!waits(&mut bursts, 1, 1));
        assert!(!bursts.continues(1));
    }

    #[test]
    fn a_burst_is_64_kb_or_a_third_of_the_window() {
        let mut bursts = Bursts::new(65_536);
        assert!(waits(&mut bursts, 1, 65_535));
        assert!(!waits(&mut bursts, 1, 65_536));
        let small = |allowed| Room {
            window: 30_000,
            allowed,
            ..ROOM
        };
        let mut bursts = Bursts::new(65_536);
        assert!(bursts.waits(1, small(9_999)));
        assert!(!bursts.waits(1, small(10_000)));
    }

    #[test]
    fn what_has_begun_is_handed_over_whole_and_no_further() {
        let mut bursts = Bursts::new(65_536);
        assert!(!waits(&mut bursts, 1, 100_000));
        assert!(!waits(&mut bursts, 65_536, 10));
        assert!(bursts.continues(65_536) && !bursts.continues(65_537));
        assert!(waits(&mut bursts, 65_537, 34_464));
    }

    #[test]
    fn the_rest_of_a_stream_does_not_wait() {
        let mut bursts = Bursts::new(65_536);
        let end = Room {
            rest: 2_000,
            allowed: 2_000,
            window: 300_000,
        };
        assert!(!bursts.waits(1, end));
    }
}
