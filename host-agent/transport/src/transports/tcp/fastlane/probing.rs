//! Probing before retransmissions, and the limit of the retransmissions after it: the rule of the thesis for
//! senders of pFabric (section 6.5.4; `docs/pfabric.md`).

use ebb_units::{Duration, Instant};

/// State of one sender's probing, which finds out whether packets get through again.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// Retransmissions that may be under way: one after a drop, and one more for each that arrives, as
    /// in slow start.
    bound: u64,
    /// A probe is to be sent: a packet was dropped since the last one was answered, and none is under way.
    wanted: bool,
    /// The byte of the probe that is under way.
    under_way: Option<u64>,
    sent_at: Option<Instant>,
}

impl Probing {
    /// The network dropped a packet.
    pub(super) fn on_drop(&mut self) {
        self.bound = 1;
        self.wanted = self.under_way.is_none();
    }

    /// The network dropped the byte at `offset` by itself. True: it was the probe.
    pub(super) fn on_byte_dropped(&mut self, offset: u64) -> bool {
        let is_probe = self.under_way == Some(offset);
        if is_probe {
            self.under_way = None;
            self.on_drop();
        }
        is_probe
    }

    /// This many retransmissions have arrived.
    pub(super) fn on_arrived(&mut self, packets: u64) {
        self.bound = self.bound.saturating_add(packets);
    }

    /// An ACK came, which shows whether the byte at an offset has arrived.
    pub(super) fn on_ack(&mut self, has_arrived: impl Fn(u64) -> bool) {
        if self.under_way.is_some_and(has_arrived) {
            self.under_way = None;
        }
    }

    pub(super) fn on_sent(&mut self, offset: u64, now: Instant) {
        self.wanted = false;
        self.under_way = Some(offset);
        self.sent_at = Some(now);
    }

    /// No dropped packet is left, or the rest is left to the retransmission timer.
    pub(super) fn end(&mut self) {
        self.wanted = false;
        self.under_way = None;
    }

    /// Retransmissions that may be under way. 0: a probe has to be answered first.
    pub(super) fn bound(&self) -> u64 {
        match self.wanted || self.under_way.is_some() {
            true => 0,
            false => self.bound,
        }
    }

    /// Time at which the next probe may leave, at most one per round trip. None: none is to be sent.
    pub(super) fn due(&self, round_trip: Duration) -> Option<Instant> {
        let sent_at = self.sent_at.filter(|_| self.wanted);
        let due = sent_at.map(|sent_at| sent_at + round_trip);
        self.wanted.then(|| due.unwrap_or(Instant::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_micros(100);

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn an_answered_probe_allows_one_and_each_that_arrives_one_more() {
        let mut probing = Probing::default();
        assert_eq!(probing.due(ROUND_TRIP), None);
        probing.on_drop();
        assert_eq!((probing.due(ROUND_TRIP), probing.bound()), (Some(at(0)), 0));
        probing.on_sent(7, at(5));
        probing.on_drop();
        assert_eq!(probing.due(ROUND_TRIP), None, "one is under way");
        probing.on_ack(|offset| offset < 7);
        assert_eq!(probing.bound(), 0);
        probing.on_ack(|offset| offset <= 7);
        assert_eq!(probing.bound(), 1);
        probing.on_arrived(2);
        assert_eq!(probing.bound(), 3);
        probing.on_drop();
        assert_eq!(
            (probing.due(ROUND_TRIP), probing.bound()),
            (Some(at(105)), 0)
        );
    }

    #[test]
    fn a_probe_that_was_dropped_goes_again_a_round_trip_later() {
        let mut probing = Probing::default();
        probing.on_drop();
        probing.on_sent(7, at(5));
        assert!(!probing.on_byte_dropped(6));
        assert!(probing.on_byte_dropped(7));
        assert!(!probing.on_byte_dropped(7), "once");
        assert_eq!(probing.due(ROUND_TRIP), Some(at(105)));
        probing.end();
        assert_eq!(probing.due(ROUND_TRIP), None);
    }
}
