//! Which packets the network said it dropped, and which of them may go out again: Algorithm 1 of the
//! thesis (section 6.5.4).

use std::collections::BTreeMap;

use ebb_units::{Duration, Instant};

use super::probing::Probing;
use super::{Bound, BoundLaw};

/// A packet that is not acknowledged and was dropped since the last timeout.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// How often it was.
    drops: u32,
    /// It has been sent again, and nobody has said that that was dropped too.
    in_flight: bool,
    /// When it was sent again last.
    sent_at: Option<Instant>,
}

/// [`Bound`], with what it has to know.
#[derive(Debug)]
enum Rule {
    Falling(BoundLaw),
    Probed(Probing),
}

/// The notification table of one sender. Packets are known by the offset of their first byte.
#[derive(Debug)]
pub(crate) struct NotificationTable {
    rule: Rule,
    entries: BTreeMap<u64, Entry>,
    /// Half of the window when the recovery began, in packets, at least 1; the window after it.
    alpha: u64,
    /// Drops of the packet that had been dropped most often when the last notification came.
    most_drops: u32,
    /// Entries that are in flight.
    in_flight: u64,
}

impl NotificationTable {
    pub(crate) fn new(bound: Bound) -> Self {
        NotificationTable {
            rule: match bound {
                Bound::Falling(law) => Rule::Falling(law),
                Bound::Probed => Rule::Probed(Probing::default()),
            },
            entries: BTreeMap::new(),
            alpha: 0,
            most_drops: 0,
            in_flight: 0,
        }
    }

    /// A recovery is under way.
    pub(crate) fn is_active(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The window in packets that the recovery that is under way ends with. None: it stays as it is.
    pub(crate) fn window_after(&self) -> Option<u64> {
        let is_active = self.is_active();
        self.rule.window_after(self.alpha).filter(|_| is_active)
    }

    pub(crate) fn contains(&self, start: u64) -> bool {
        self.entries.contains_key(&start)
    }

    /// How often the network has said that it dropped this packet.
    pub(crate) fn drops_of(&self, start: u64) -> u32 {
        self.entries.get(&start).map_or(0, |entry| entry.drops)
    }

    /// The network dropped the packet at `start`, which is in flight; the window has
    /// `window_packets`. True: a recovery begins.
    pub(crate) fn notify(&mut self, start: u64, window_packets: u64) -> bool {
        let begins = self.entries.is_empty();
        if begins {
            self.alpha = (window_packets / 2).max(1);
        }
        let entry = self.entries.entry(start).or_default();
        if entry.drops > 0 && !entry.in_flight {
            // It waits: nothing of it can have been dropped since.
            return false;
        }
        self.in_flight -= u64::from(entry.in_flight);
        entry.in_flight = false;
        entry.drops = entry.drops.saturating_add(1);
        self.most_drops = self.entries.values().map(|e| e.drops).max().unwrap_or(0);
        if let Rule::Probed(probing) = &mut self.rule {
            probing.on_drop();
        }
        begins
    }

    /// The network dropped the byte at `offset` by itself. True: it was a probe, which goes again.
    pub(crate) fn notify_probe(&mut self, offset: u64) -> bool {
        let is_probe = match &mut self.rule {
            Rule::Probed(probing) => probing.on_byte_dropped(offset),
            Rule::Falling(_) => false,
        };
        if let Some(mut first) = self.entries.first_entry().filter(|_| is_probe) {
            let entry = first.get_mut();
            entry.drops = entry.drops.saturating_add(1);
        }
        is_probe
    }

    /// An ACK came, which shows whether the byte at an offset has arrived.
    pub(crate) fn on_bytes_arrived(&mut self, has_arrived: impl Fn(u64) -> bool) {
        if let Rule::Probed(probing) = &mut self.rule {
            probing.on_ack(has_arrived);
        }
    }

    /// Everything before `una` has arrived, and of the rest the packets that are SACKed. At the end of
    /// the recovery: the window after it, in packets, if it changes.
    pub(crate) fn on_ack(&mut self, una: u64, is_sacked: impl Fn(u64) -> bool) -> Option<u64> {
        if self.entries.is_empty() {
            return None;
        }
        let in_flight = self.in_flight;
        self.entries.retain(|&start, entry| {
            let arrived = start < una || is_sacked(start);
            self.in_flight -= u64::from(arrived && entry.in_flight);
            !arrived
        });
        if let Rule::Probed(probing) = &mut self.rule {
            probing.on_arrived(in_flight - self.in_flight);
        }
        if self.is_active() {
            return None;
        }
        self.end();
        self.rule.window_after(self.alpha)
    }

    /// Nothing waits any more.
    fn end(&mut self) {
        if let Rule::Probed(probing) = &mut self.rule {
            probing.end();
        }
    }

    /// After a timeout the timer's rules hold.
    pub(crate) fn forget(&mut self) {
        self.entries.clear();
        self.in_flight = 0;
        self.end();
    }

    /// The packet of which a byte is to ask now whether packets get through.
    pub(crate) fn next_probe(&self, now: Instant, round_trip: Duration) -> Option<u64> {
        let due = self.probe_due(round_trip).is_some_and(|due| due <= now);
        self.entries.keys().next().copied().filter(|_| due)
    }

    fn probe_due(&self, round_trip: Duration) -> Option<Instant> {
        match &self.rule {
            Rule::Probed(probing) => probing.due(round_trip),
            Rule::Falling(_) => None,
        }
    }

    pub(crate) fn on_probe_sent(&mut self, offset: u64, now: Instant) {
        if let Rule::Probed(probing) = &mut self.rule {
            probing.on_sent(offset, now);
        }
    }

    /// The packet to send again now. The first always may, because all that is acknowledged waits for
    /// it; others as far as the bound goes; each once per round trip.
    pub(crate) fn next(&self, now: Instant, round_trip: Duration) -> Option<u64> {
        self.candidates()
            .find(|(_, entry)| entry.due(round_trip).is_none_or(|due| due <= now))
            .map(|(start, _)| start)
    }

    /// When the next call of [`next`](Self::next) finds what this one did not, without an ACK.
    pub(crate) fn next_due(&self, round_trip: Duration) -> Option<Instant> {
        let dues = self.candidates();
        let dues = dues.filter_map(|(_, entry)| entry.due(round_trip));
        dues.chain(self.probe_due(round_trip)).min()
    }

    /// Packets that wait and may go out as far as their number goes.
    fn candidates(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let all = match (self.asks_first(), self.has_room()) {
            (true, _) => 0,
            (false, true) => usize::MAX,
            (false, false) => 1,
        };
        let entries = self.entries.iter().take(all);
        entries
            .filter(|(_, entry)| !entry.in_flight)
            .map(|(&start, entry)| (start, entry))
    }

    /// Fewer are in flight than the bound allows. It is compared without division, and so not rounded.
    fn has_room(&self) -> bool {
        let divisor = match &self.rule {
            Rule::Falling(BoundLaw::Harmonic) => u64::from(self.most_drops),
            Rule::Falling(BoundLaw::Exponential) => 1 << self.most_drops.saturating_sub(1).min(32),
            Rule::Probed(probing) => return self.in_flight < probing.bound(),
        };
        self.in_flight.saturating_mul(divisor) < self.alpha
    }

    /// Nothing goes out before a probe is answered.
    fn asks_first(&self) -> bool {
        matches!(&self.rule, Rule::Probed(probing) if probing.bound() == 0)
    }

    pub(crate) fn on_sent(&mut self, start: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&start) {
            self.in_flight += u64::from(!entry.in_flight);
            entry.in_flight = true;
            entry.sent_at = Some(now);
        }
    }
}

impl Rule {
    /// The window after a recovery with this `alpha`. None: it stays as it is.
    fn window_after(&self, alpha: u64) -> Option<u64> {
        matches!(self, Rule::Falling(_)).then_some(alpha)
    }
}

impl Entry {
    /// When it may go out again. None: it has not yet, and may at any time.
    fn due(&self, round_trip: Duration) -> Option<Instant> {
        self.sent_at.map(|sent_at| sent_at + round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_micros(100);
    const NOT_SACKED: fn(u64) -> bool = |_| false;

    /// A table and a clock on which a round trip passes between any two events.
    struct Trace {
        table: NotificationTable,
        now: Instant,
        window: u64,
    }

    impl Trace {
        fn new(law: BoundLaw, window: u64) -> Self {
            Trace {
                table: NotificationTable::new(Bound::Falling(law)),
                now: Instant::ZERO,
                window,
            }
        }

        /// Bytes that are sent again now.
        fn sent(&mut self) -> Vec<u64> {
            self.now += ROUND_TRIP;
            let mut sent = Vec::new();
            while let Some(start) = self.table.next(self.now, ROUND_TRIP) {
                self.table.on_sent(start, self.now);
                sent.push(start);
            }
            sent
        }

        fn notify(&mut self, start: u64) -> Vec<u64> {
            self.table.notify(start, self.window);
            self.sent()
        }

        fn ack(&mut self, una: u64) -> Vec<u64> {
            assert_eq!(self.table.on_ack(una, NOT_SACKED), None);
            self.sent()
        }

        /// Packets in flight, and all entries: packet, drops, in flight.
        fn state(&self) -> (u64, Vec<(u64, u32, u8)>) {
            let entries = self.table.entries.iter();
            let entries = entries.map(|(&start, e)| (start, e.drops, u8::from(e.in_flight)));
            (self.table.in_flight, entries.collect())
        }
    }

    #[test]
    fn the_algorithm_step_by_step() {
        // A window of 8: alpha is 4.
        let mut t = Trace::new(BoundLaw::Harmonic, 8);
        for packet in 3..=6 {
            assert_eq!(t.notify(packet), [packet]);
            assert_eq!(t.state().0, packet - 2);
        }
        assert_eq!(t.notify(7), [0; 0], "the bound is reached");
        let all = vec![(3, 1, 1), (4, 1, 1), (5, 1, 1), (6, 1, 1), (7, 1, 0)];
        assert_eq!(t.state(), (4, all));
        assert_eq!(t.notify(3), [3], "the first always goes");
        let all = vec![(3, 2, 1), (4, 1, 1), (5, 1, 1), (6, 1, 1), (7, 1, 0)];
        assert_eq!(t.state(), (4, all));
        assert_eq!(t.notify(4), [0; 0], "3 are in flight, the bound is 2");
        let all = vec![(3, 2, 1), (4, 2, 0), (5, 1, 1), (6, 1, 1), (7, 1, 0)];
        assert_eq!(t.state(), (3, all));
        assert_eq!(t.ack(4), [4], "it has become the first");
        let all = vec![(4, 2, 1), (5, 1, 1), (6, 1, 1), (7, 1, 0)];
        assert_eq!(t.state(), (3, all));
        assert_eq!(t.ack(5), [0; 0]);
        assert_eq!(t.state(), (2, vec![(5, 1, 1), (6, 1, 1), (7, 1, 0)]));
        assert_eq!(t.ack(7), [7]);
        assert_eq!(t.state(), (1, vec![(7, 1, 1)]));
        assert_eq!(
            t.table.on_ack(8, NOT_SACKED),
            Some(4),
            "the window after recovery"
        );
        assert_eq!(t.state(), (0, vec![]));
        assert!(!t.table.is_active());
    }

    /// Retransmissions of 16 packets under way when the first has been dropped `drops` times and the
    /// window had 32.
    fn under_way(law: BoundLaw, drops: u32) -> u64 {
        let mut t = Trace::new(law, 32);
        for _ in 0..drops {
            t.notify(0);
        }
        for packet in 1..16 {
            t.notify(packet);
        }
        t.state().0
    }

    #[test]
    fn the_bound_follows_its_law() {
        let by = |law| [1, 2, 3, 4, 8, 16].map(|drops| under_way(law, drops));
        assert_eq!(by(BoundLaw::Harmonic), [16, 8, 6, 4, 2, 1]);
        assert_eq!(by(BoundLaw::Exponential), [16, 8, 4, 2, 1, 1]);
    }

    #[test]
    fn a_window_of_one_packet_still_recovers() {
        let mut t = Trace::new(BoundLaw::Harmonic, 1);
        assert_eq!(t.notify(5), [5]);
        assert_eq!(t.notify(6), [0; 0]);
        assert_eq!(t.ack(6), [6]);
        assert_eq!(t.table.on_ack(7, NOT_SACKED), Some(1));
    }

    #[test]
    fn a_timeout_forgets_and_the_next_notification_begins_anew() {
        let mut t = Trace::new(BoundLaw::Harmonic, 8);
        for _ in 0..5 {
            t.notify(3);
        }
        t.table.forget();
        assert_eq!(t.state(), (0, vec![]));
        assert!(t.table.notify(4, 20), "a recovery begins");
        assert_eq!(t.sent(), [4]);
        assert_eq!(t.table.on_ack(5, NOT_SACKED), Some(10));
    }

    #[test]
    fn repeated_notifications_send_a_packet_once_per_round_trip() {
        let mut table = NotificationTable::new(Bound::Falling(BoundLaw::Harmonic));
        let mut sent = Vec::new();
        for us in 0..1000 {
            let now = Instant::from_micros(us);
            table.notify(9, 20);
            while let Some(start) = table.next(now, ROUND_TRIP) {
                table.on_sent(start, now);
                sent.push(us);
            }
        }
        assert_eq!(sent, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        // Bytes sent and dropped say how often they were dropped, not what has been claimed.
        assert_eq!(table.drops_of(9), 11);
        assert_eq!(table.next_due(ROUND_TRIP), Some(Instant::from_micros(1000)));
    }
}
