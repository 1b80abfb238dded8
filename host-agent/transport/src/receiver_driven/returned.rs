//! Packets that switches returned (NDP, section 3.2), at the sender.

/// The accounts of packets whose headers came back.
///
/// They go again with the next pulls, so that senders whose headers overflow a control queue do not
/// fill it again at once. But the receiver knows nothing of them and goes on to count them as under
/// way. So the credit with which each was sent is owed: it is paid back when the congestion is
/// over, and at the latest when nothing more will be pulled.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    owed: u32,
    /// Signs of progress since the last header came back.
    progress: u32,
    /// Packets sent again without a pull since the receiver was last heard.
    unasked: u32,
}

impl Returned {
    pub fn came_back(&mut self) {
        self.owed += 1;
        self.progress = 0;
    }

    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Allows one packet that came back to go again without a pull; false if none has come back.
    #[must_use]
    pub fn pay_back(&mut self) -> bool {
        let owes = self.owes();
        self.owed -= u32::from(owes);
        owes
    }

    /// Notes that a packet has got through, and returns whether one more may go for it. The credit
    /// that is owed comes back by one packet per `window` of them; at the end, when nothing more is
    /// pulled, by one for each.
    #[must_use]
    pub fn progressed(&mut self, window: u32, at_the_end: bool) -> bool {
        self.progress += 1;
        if at_the_end || self.progress >= window {
            self.progress = 0;
            return self.pay_back();
        }
        false
    }

    /// Notes that the receiver was heard.
    pub fn heard(&mut self) {
        self.unasked = 0;
    }

    /// Returns whether one packet may go although no pull can be waited for: up to `most` of them
    /// go at once until the receiver is heard. If these come back too, a timer has to decide.
    #[must_use]
    pub fn at_once(&mut self, most: u32) -> bool {
        let may = self.unasked < most && self.pay_back();
        self.unasked += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_back_by_one_packet_per_window() {
        let mut returned = Returned::default();
        (0..3).for_each(|_| returned.came_back());
        let paid = (0..100).filter(|_| returned.progressed(10, false)).count();
        assert_eq!(paid, 3);
        returned.came_back();
        assert!(returned.progressed(10, true));
        assert!(!returned.progressed(10, true) && !returned.owes());
    }

    #[test]
    fn what_goes_unasked_is_bounded_until_the_receiver_is_heard() {
        let mut returned = Returned::default();
        (0..5).for_each(|_| returned.came_back());
        assert!(returned.at_once(2) && returned.at_once(2));
        assert!(!returned.at_once(2));
        returned.heard();
        assert!(returned.at_once(1) && !returned.at_once(1));
    }
}
