//! How many packets a receiver may ask for (SCDP thesis, section "pull accounting").

/// The receiver's count of one session, in packets.
///
/// The sender may make `window` transmissions unasked, and one more per pull. In all `needed`
/// transmissions are needed: the packets of the object, one for each that arrived trimmed, and
/// what else the scheme adds after a loss. Two rules follow:
///
/// * never ask for more than is needed: without a trim, `needed - window` pulls in all;
/// * keep at most `window` packets under way. While much is left this gives one pull per arrival;
///   over the last `window` packets arrivals ask for nothing, but trims still do.
#[derive(Clone, Debug)]
pub struct PullCredit {
    window: u64,
    needed: u64,
    /// Transmissions that arrived, whole or trimmed, plus those given up for lost.
    arrived: u64,
    /// Pulls waiting in the host's pull queue.
    queued: u64,
    /// Pulls sent: the cumulative counter of the last one.
    sent: u64,
}

impl PullCredit {
    pub fn new(window: u64, needed: u64) -> Self {
        PullCredit {
            window: window.clamp(1, needed.max(1)),
            needed,
            arrived: 0,
            queued: 0,
            sent: 0,
        }
    }

    pub fn arrived(&mut self, packets: u64) {
        self.arrived += packets;
    }

    pub fn need_more(&mut self, packets: u64) {
        self.needed += packets;
    }

    /// Transmissions asked for (the initial window included) that have not arrived.
    pub fn under_way(&self) -> u64 {
        (self.window + self.sent + self.queued).saturating_sub(self.arrived)
    }

    /// Moves the pulls that are due now into the queue and returns how many. After a timeout
    /// (`probing`) only one packet is kept under way, until something arrives.
    pub fn enqueue(&mut self, probing: bool) -> u64 {
        let window = if probing { 1 } else { self.window };
        let left = self
            .needed
            .saturating_sub(self.window + self.sent + self.queued);
        let pulls = left.min(window.saturating_sub(self.under_way()));
        self.queued += pulls;
        pulls
    }

    /// Puts one pull into the queue that the rules do not ask for.
    pub fn enqueue_extra(&mut self) {
        self.needed += 1;
        self.queued += 1;
    }

    pub fn has_queued(&self) -> bool {
        self.queued > 0
    }

    /// A pull leaves the queue; returns its cumulative counter.
    pub fn send(&mut self) -> u32 {
        self.queued = self.queued.saturating_sub(1);
        self.sent += 1;
        self.counter()
    }

    /// The cumulative counter of the last pull.
    pub fn counter(&self) -> u32 {
        u32::try_from(self.sent).unwrap_or(u32::MAX)
    }

    /// True when everything needed has been asked for.
    pub fn all_asked(&self) -> bool {
        self.queued == 0 && self.window + self.sent >= self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a session in which every pull is answered at once; the n-th transmission is trimmed
    /// when `trimmed(n)`. Returns transmissions and pulls.
    fn play(object: u64, window: u64, trimmed: impl Fn(u64) -> bool) -> (u64, u64) {
        let mut credit = PullCredit::new(window, object);
        let (mut transmissions, mut whole, mut arrivals) = (window.min(object), 0, 0);
        while whole < object {
            assert!(
                arrivals < transmissions,
                "nothing under way after {arrivals}"
            );
            credit.arrived(1);
            if trimmed(arrivals) {
                credit.need_more(1);
            } else {
                whole += 1;
            }
            arrivals += 1;
            for _ in 0..credit.enqueue(false) {
                transmissions = window.min(object) + u64::from(credit.send());
            }
            assert!(transmissions - arrivals <= window);
        }
        (transmissions, u64::from(credit.counter()))
    }

    #[test]
    fn without_trims_pulls_are_the_object_less_the_window() {
        assert_eq!(play(100, 12, |_| false), (100, 88));
    }

    #[test]
    fn an_object_within_the_window_is_never_pulled() {
        assert_eq!(play(5, 12, |_| false), (5, 0));
    }

    #[test]
    fn every_trim_earns_one_pull() {
        assert_eq!(play(100, 12, |n| n % 3 == 0 && n < 30), (110, 98));
        // Also the trims of the last window.
        assert_eq!(play(20, 12, |n| (15..20).contains(&n)), (25, 13));
        assert_eq!(play(5, 12, |n| n < 5), (10, 5));
    }

    #[test]
    fn probing_keeps_one_packet_under_way() {
        let mut credit = PullCredit::new(12, 100);
        credit.arrived(12);
        assert_eq!(credit.enqueue(true), 1);
        assert_eq!(credit.enqueue(true), 0);
        assert_eq!(credit.enqueue(false), 11);
    }
}
