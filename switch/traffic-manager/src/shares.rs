//! Groups of queues that are served before all others within their share of the link, and after all
//! others beyond it.
//!
//! Each group has a token bucket: it fills at the share of the link's rate, and holds `burst_bytes`.
//! A packet of the group goes first if its bucket holds what the packet costs on the wire, and then
//! takes it. What goes beyond the share, because nobody else has a packet, takes nothing.

use ebb_units::{BitRate, Instant};

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
    /// What the bucket holds when it is full.
    burst: u128,
    /// What it holds.
    bucket: u128,
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
            let cost = u128::from(cost(queue)) * PARTS_OF_BYTE;
            group.bucket = group.bucket.checked_sub(cost)?;
            Some(queue)
        })
    }

    /// The queue that is served because no group without a share has a packet.
    pub(crate) fn pick_last(&self, ready: QueueSet) -> Option<usize> {
        let mut groups = self.groups.iter();
        groups.find_map(|group| highest(group.queues & ready))
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
    fn silence_gains_no_more_than_the_burst() {
        let mut shares = shares();
        shares.fill(Instant::FAR_FUTURE, BitRate::from_bps(u64::MAX));
        assert_eq!(shares.pick_first(READY, |_| 100), Some(3));
        assert_eq!(shares.pick_first(READY, |_| 1), None);
    }
}
