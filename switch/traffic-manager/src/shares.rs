//! Groups of queues that are served before all others within their share of the link, and after all
//! others beyond it.
//!
//! Each group has a token bucket: it fills at the share of the link's rate, and holds `burst_bytes`.
//! A packet of the group goes first if its bucket holds what the packet costs on the wire, and then
//! takes it. What goes beyond the share, because nobody else has a packet, takes nothing. A group with
//! a cap does not go beyond it: its packets may leave only when the bucket holds what they cost.

use ebb_units::{BitRate, Duration, Instant};

use crate::config::{self, Profile};
use crate::scheduler::{QueueSet, highest, set_of};

/// Parts of a byte in which buckets are counted, so that they are exact: bits per byte, picoseconds
/// per second and steps of a share.
const PARTS_OF_BYTE: u128 = 8 * 1_000_000_000_000 * 1_000_000;

/// The groups of a port that have a share, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct Shares {
    groups: Vec<Group>,
    /// The queues of all of them.
    pub(crate) queues: QueueSet,
    /// Until when the buckets are filled.
    filled_at: Instant,
}

/// One group.
#[derive(Debug)]
struct Group {
    queues: QueueSet,
    /// Share of the link in millionths.
    share: u64,
    /// Capacity of the bucket.
    burst: u128,
    /// Level of the bucket.
    bucket: u128,
    /// The group never goes beyond its share.
    capped: bool,
}

impl Group {
    /// Tokens of a packet with this length on the wire, in bytes. A group with a cap
    /// takes no more than its bucket can hold, or the packet would wait for ever.
    fn price(&self, wire_bytes: u64) -> u128 {
        let price = u128::from(wire_bytes) * PARTS_OF_BYTE;
        if self.capped {
            price.min(self.burst)
        } else {
            price
        }
    }
}

impl Shares {
    /// The groups of a profile that have a share, with full buckets; `None` if there is none.
    pub(crate) fn new(now: Instant, profile: &Profile) -> Option<Box<Self>> {
        let with_share = |group: &config::Group| {
            let share = (group.share? * config::SHARE_STEPS).round() as u64;
            let burst = u128::from(group.burst_bytes) * PARTS_OF_BYTE;
            Some(Group {
                queues: set_of(&group.queues),
                share,
                burst,
                bucket: burst,
                capped: group.capped,
            })
        };
        let groups: Vec<_> = profile.group.iter().filter_map(with_share).collect();
        let queues = groups.iter().fold(0, |set, group| set | group.queues);
        (!groups.is_empty()).then(|| {
            Box::new(Self {
                groups,
                queues,
                filled_at: now,
            })
        })
    }

    /// Fills the buckets until a time, during which the link had this rate.
    pub(crate) fn fill(&mut self, until: Instant, rate: BitRate) {
        let time = u128::from(until.since(self.filled_at).as_picos());
        self.filled_at = self.filled_at.max(until);
        let bits = time.saturating_mul(rate.as_bps().into());
        for group in &mut self.groups {
            let gained = bits.saturating_mul(group.share.into());
            group.bucket = group.bucket.saturating_add(gained).min(group.burst);
        }
    }

    /// The queue that is served first because its group is within its share; `None` if there is no
    /// such group. `cost` says how many bytes the next packet of a queue takes on the wire.
    pub(crate) fn pick_first(
        &mut self,
        ready: QueueSet,
        cost: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        self.groups.iter_mut().find_map(|group| {
            let queue = highest(group.queues & ready)?;
            group.bucket = group.bucket.checked_sub(group.price(cost(queue)))?;
            Some(queue)
        })
    }

    /// The queue that is served because no group without a share has a packet.
    pub(crate) fn pick_last(&self, ready: QueueSet) -> Option<usize> {
        let mut groups = self.groups.iter().filter(|group| !group.capped);
        groups.find_map(|group| highest(group.queues & ready))
    }

    /// Whether a queue's group has a cap.
    pub(crate) fn is_capped(&self, queue: usize) -> bool {
        let mut capped = self.groups.iter().filter(|group| group.capped);
        capped.any(|group| group.queues & 1 << queue != 0)
    }

    /// The earliest time from `at` on at which the group of a queue has what its next packet costs on
    /// the wire. Without a cap: at once.
    pub(crate) fn affordable_at(
        &self,
        queue: usize,
        at: Instant,
        cost: impl Fn() -> u64,
        rate: BitRate,
    ) -> Instant {
        let has_queue = |group: &&Group| group.capped && group.queues & 1 << queue != 0;
        let Some(group) = self.groups.iter().find(has_queue) else {
            return at;
        };
        let lacks = group.price(cost()).saturating_sub(group.bucket);
        if lacks == 0 {
            return at;
        }
        let per_picosecond = u128::from(rate.as_bps()) * u128::from(group.share);
        let wait = lacks.div_ceil(per_picosecond.max(1));
        let wait = Duration::from_picos(u64::try_from(wait).unwrap_or(u64::MAX));
        at.max(self.filled_at + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: QueueSet = 1 << 3;

    /// Queue 3 has a hundredth of a link of 8 Gbit/s, on which a byte takes a nanosecond.
    fn shares() -> Shares {
        let group = config::Group {
            queues: vec![3],
            share: Some(0.01),
            burst_bytes: 100,
            ..config::Group::default()
        };
        let profile = Profile {
            group: vec![group],
            ..Profile::default()
        };
        *Shares::new(Instant::ZERO, &profile).expect("a group with a share")
    }

    #[test]
    fn the_bucket_is_exact_to_the_byte_and_the_picosecond() {
        let rate = BitRate::from_mbps(8_000);
        let mut shares = shares();
        assert_eq!(shares.pick_first(READY, |_| 101), None);
        assert_eq!(shares.pick_first(READY, |_| 100), Some(3));
        // Seven bytes take 700 ns.
        shares.fill(Instant::from_picos(699_999), rate);
        assert_eq!(shares.pick_first(READY, |_| 7), None);
        shares.fill(Instant::from_picos(700_000), rate);
        assert_eq!(shares.pick_first(READY, |_| 7), Some(3));
        assert_eq!(shares.pick_first(READY, |_| 1), None);
        assert_eq!(shares.pick_last(READY), Some(3));
        assert_eq!(
            (shares.pick_last(0), shares.pick_last(!READY)),
            (None, None)
        );
    }

    #[test]
    fn a_cap_lets_packets_go_when_the_bucket_holds_what_they_cost() {
        let rate = BitRate::from_mbps(8_000);
        let mut shares = shares();
        shares.groups[0].capped = true;
        let ns = Instant::from_nanos;
        assert_eq!(shares.affordable_at(3, ns(5), || 100, rate), ns(5));
        assert_eq!(shares.pick_first(READY, |_| 100), Some(3));
        assert_eq!(shares.affordable_at(3, ns(5), || 7, rate), ns(700));
        assert_eq!(shares.affordable_at(3, ns(900), || 7, rate), ns(900));
        // Half of the bytes are there after half of the time, also at another rate from then on.
        shares.fill(ns(350), rate);
        assert_eq!(shares.affordable_at(3, ns(5), || 7, rate), ns(700));
        let slow = BitRate::from_mbps(4_000);
        assert_eq!(shares.affordable_at(3, ns(5), || 7, slow), ns(1050));
        // One longer than the burst waits for all of it; another queue for nothing.
        assert_eq!(shares.affordable_at(3, ns(5), || 5000, rate), ns(10_000));
        assert_eq!(shares.affordable_at(2, ns(5), || 5000, rate), ns(5));
        assert_eq!(shares.pick_last(READY), None);
    }

    #[test]
    fn silence_gains_no_more_than_the_burst() {
        let mut shares = shares();
        shares.fill(Instant::FAR_FUTURE, BitRate::from_bps(u64::MAX));
        assert_eq!(shares.pick_first(READY, |_| 100), Some(3));
        assert_eq!(shares.pick_first(READY, |_| 1), None);
    }
}
