//! When packets of a constant rate are due, whatever becomes of them: an open loop.

use std::ops::Range;

use ebb_units::{Duration, Instant};

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// `count` packets from `start` on, one after the other at the rate of the line. Sans-IO.
///
/// Packets leave in groups, so that the sender wakes once per group: the last one of a group is on
/// time, the first one late by the rest of the group. Who comes later than that sends what is due
/// at once, but no more than `patience` holds: a line does not go faster for having stood still.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Instant,
    /// Bits of a packet on the line.
    bits: u64,
    rate_bps: u64,
    /// Packets in all.
    count: u64,
    /// Packets that leave together.
    group: u64,
    patience: Duration,
    /// Number of the next packet, of all that were ever due.
    next: u64,
    skipped: u64,
    max_lateness: Duration,
}

/// Parameters of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// When the first packet is due.
    pub start: Instant,
    /// Length of a packet on the line, in bytes.
    pub frame_bytes: u64,
    /// Rate of the line; above 0.
    pub rate_bps: u64,
    /// Packets in all.
    pub count: u64,
    /// How late a packet may leave for the sake of those after it.
    pub lateness: Duration,
    /// How late a packet may leave at all.
    pub patience: Duration,
}

impl Schedule {
    pub fn new(plan: Plan) -> Self {
        let bits = plan.frame_bytes * 8;
        let gap_ps = u128::from(bits) * PICOS_PER_SECOND / u128::from(plan.rate_bps);
        let group = u128::from(plan.lateness.as_picos()) / gap_ps.max(1);
        Schedule {
            start: plan.start,
            bits,
            rate_bps: plan.rate_bps,
            count: plan.count,
            group: group.clamp(1, u64::MAX.into()) as u64,
            patience: plan.patience.max(plan.lateness),
            next: 0,
            skipped: 0,
            max_lateness: Duration::ZERO,
        }
    }

    /// How many packets are to be sent now.
    pub fn due(&mut self, now: Instant) -> u64 {
        let Range { start, end } = self.due_until(now);
        if start > self.next {
            self.skipped += start - self.next;
            self.next = start;
        }
        end.saturating_sub(self.next)
    }

    /// The first `packets` of those that are due have left.
    pub fn sent(&mut self, now: Instant, packets: u64) {
        if packets > 0 {
            let lateness = now.since(self.due_at(self.next));
            self.max_lateness = self.max_lateness.max(lateness);
        }
        self.next += packets;
    }

    /// When the next group is complete; `None`: all have left.
    pub fn next_deadline(&self) -> Option<Instant> {
        let last = self.count.checked_sub(1)?;
        (self.next <= last).then(|| self.due_at((self.next + self.group - 1).min(last)))
    }

    /// Packets that were due for longer than the sender's patience: never sent.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Largest lateness of the packets that were sent.
    pub fn max_lateness(&self) -> Duration {
        self.max_lateness
    }

    fn due_at(&self, number: u64) -> Instant {
        let ps = u128::from(number) * u128::from(self.bits) * PICOS_PER_SECOND;
        let ps = ps.div_ceil(u128::from(self.rate_bps));
        self.start + Duration::from_picos(ps.min(u64::MAX.into()) as u64)
    }

    /// The packets that are due, from the oldest that is still worth sending.
    fn due_until(&self, now: Instant) -> Range<u64> {
        if now < self.start {
            return 0..0;
        }
        let bits = |time: Duration| u128::from(time.as_picos()) * u128::from(self.rate_bps);
        let one = u128::from(self.bits) * PICOS_PER_SECOND;
        let since_start = now.since(self.start);
        let too_late = since_start.saturating_sub(self.patience);
        let end = (bits(since_start) / one + 1).min(self.count.into());
        let first = bits(too_late).div_ceil(one).min(end);
        first as u64..end as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1250 bytes at 100 Mbit/s: one packet every 100 us.
    fn schedule(count: u64, lateness_us: u64, patience_us: u64) -> Schedule {
        Schedule::new(Plan {
            start: at(1000),
            frame_bytes: 1250,
            rate_bps: 100_000_000,
            count,
            lateness: Duration::from_micros(lateness_us),
            patience: Duration::from_micros(patience_us),
        })
    }

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    /// Sends all that is due when the schedule says so; the times and numbers of packets.
    fn run(schedule: &mut Schedule) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        while let Some(now) = schedule.next_deadline() {
            let due = schedule.due(now);
            schedule.sent(now, due);
            sent.push((now.as_micros(), due));
        }
        sent
    }

    #[test]
    fn without_a_budget_every_packet_leaves_on_time() {
        let sent = run(&mut schedule(4, 0, 0));
        assert_eq!(sent, [(1000, 1), (1100, 1), (1200, 1), (1300, 1)]);
    }

    #[test]
    fn a_budget_makes_groups_whose_last_packet_is_on_time() {
        let mut schedule = schedule(8, 350, 1000);
        assert_eq!(run(&mut schedule), [(1200, 3), (1500, 3), (1700, 2)]);
        assert_eq!(schedule.max_lateness(), Duration::from_micros(200));
        assert_eq!((schedule.skipped(), schedule.due(at(9000))), (0, 0));
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        let mut schedule = schedule(5, 0, 0);
        assert_eq!(schedule.due(at(999)), 0);
        assert_eq!(schedule.next_deadline(), Some(at(1000)));
    }

    #[test]
    fn who_is_late_makes_up_for_as_much_as_patience_allows() {
        let mut schedule = schedule(100, 0, 1000);
        assert_eq!(schedule.due(at(1000)), 1);
        schedule.sent(at(1000), 1);
        // 49 more have become due until 5.9 ms; those due from 4.9 ms on leave.
        assert_eq!(schedule.due(at(5900)), 11);
        assert_eq!(schedule.skipped(), 38);
        // Datagrams that did not fit wait.
        schedule.sent(at(5900), 4);
        assert_eq!(schedule.due(at(5900)), 7);
        schedule.sent(at(5900), 7);
        assert_eq!(schedule.next_deadline(), Some(at(6000)));
    }

    #[test]
    fn a_rate_that_divides_nothing_does_not_drift() {
        let mut schedule = Schedule::new(Plan {
            start: Instant::ZERO,
            frame_bytes: 1514,
            rate_bps: 99_999_999,
            count: 1_000_000,
            lateness: Duration::ZERO,
            patience: Duration::MAX,
        });
        let end =
            Instant::from_picos((1514 * 8 * 999_999 * 1_000_000_000_000_u128 / 99_999_999) as u64);
        assert_eq!(schedule.due(end), 999_999);
        assert_eq!(schedule.due(end + Duration::from_picos(1)), 1_000_000);
    }
}
