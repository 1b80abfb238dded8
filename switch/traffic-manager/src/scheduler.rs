//! The scheduler of a port: weighted round robin, counted in packets, between groups of queues, and
//! strict priority or order of arrival inside a group. Groups with a share of the link are elsewhere (`shares`).

use crate::config::{self, Order, Profile};
use crate::limits::{CLASSES, MAX_QUEUES};
use crate::per_queue::PerQueue;

/// A set of queues: bit i stands for queue i.
pub(crate) type QueueSet = u32;

/// The first eight queues, which lie in one piece of memory with the port.
pub(crate) const FIRST: QueueSet = (1 << CLASSES) - 1;

/// The set of queues with these ids.
pub(crate) fn set_of(ids: &[u8]) -> QueueSet {
    ids.iter().fold(0, |set, id| set | 1 << id)
}

/// The queues of a set, lowest first.
#[inline]
pub(crate) fn ids(mut set: QueueSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        // This has the lowest bit cleared.
        let rest = set & set.checked_sub(1)?;
        let queue = set.trailing_zeros() as usize;
        set = rest;
        Some(queue)
    })
}

/// The queues of a set, highest first.
pub(crate) fn ids_from_highest(mut set: QueueSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let queue = highest(set)?;
        set &= !(1 << queue);
        Some(queue)
    })
}

/// The highest queue of a set; `None` if it is empty.
pub(crate) fn highest(queues: QueueSet) -> Option<usize> {
    queues.checked_ilog2().map(|queue| queue as usize)
}

/// The groups of a port and whose turn it is.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Scheduler {
    /// Index of the group whose turn it is.
    current: usize,
    /// Number of groups.
    len: usize,
    /// The groups; only the first `len` are used.
    groups: PerQueue<Group>,
}

/// One group of queues.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// The queues of the group.
    queues: QueueSet,
    /// The queue whose head came first is served, instead of the highest one.
    by_arrival: bool,
    /// Packets the group may send per round.
    weight: u32,
    /// Packets the group may still send in this round.
    credit: u32,
}

impl Group {
    fn new(group: &config::Group) -> Self {
        Self {
            queues: set_of(&group.queues),
            by_arrival: group.order == Order::Arrival,
            weight: group.weight,
            credit: group.weight,
        }
    }
}

impl Scheduler {
    /// The scheduler of a profile. Without groups, one group holds all queues.
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut groups = PerQueue::new(Group::default);
        groups[0] = Group {
            queues: QueueSet::MAX,
            by_arrival: false,
            weight: 1,
            credit: 1,
        };
        // Each queue is in one group, so there are no more groups than queues; groups without queues
        // are left out.
        let by_weight = profile.group.iter().filter(|g| g.share.is_none());
        let with_queues = by_weight.filter(|g| !g.queues.is_empty());
        let mut len = 0;
        for g in with_queues.take(MAX_QUEUES) {
            groups.reach(len, Group::default);
            groups[len] = Group::new(g);
            len += 1;
        }
        Self {
            current: 0,
            len: len.max(1),
            groups,
        }
    }

    /// Chooses the next queue among those whose heads are `ready`. A group that has no packet when its
    /// turn comes loses the rest of its round, so the link never idles for it.
    /// `oldest` returns the queue of a set whose head arrived first.
    pub(crate) fn pick(
        &mut self,
        ready: QueueSet,
        oldest: impl Fn(QueueSet) -> Option<usize>,
    ) -> Option<usize> {
        // One step more than there are groups, because the current one may come round with new
        // credit.
        for _ in 0..=self.len {
            let group = &mut self.groups[self.current];
            let candidates = group.queues & ready;
            if candidates != 0 && group.credit > 0 {
                group.credit -= 1;
                return match group.by_arrival {
                    false => highest(candidates),
                    true => oldest(candidates),
                };
            }
            group.credit = group.weight;
            self.current += 1;
            if self.current == self.len {
                self.current = 0;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(groups: &[(&[u8], u32)]) -> Scheduler {
        let group = |&(queues, weight): &(&[u8], u32)| config::Group {
            queues: queues.to_vec(),
            weight,
            ..config::Group::default()
        };
        Scheduler::new(&Profile {
            group: groups.iter().map(group).collect(),
            ..Profile::default()
        })
    }

    /// Groups in strict priority are not asked.
    fn unasked(_: QueueSet) -> Option<usize> {
        None
    }

    #[test]
    fn without_groups_the_highest_queue_wins() {
        let mut s = scheduler(&[]);
        assert_eq!(s.pick(0b1001_0001, unasked), Some(7));
        assert_eq!(s.pick(0b0001_0001, unasked), Some(4));
        assert_eq!(s.pick(0b0000_0001, unasked), Some(0));
        assert_eq!(s.pick(0, unasked), None);
    }

    #[test]
    fn backlogged_groups_share_by_weight() {
        let mut s = scheduler(&[(&[7], 10), (&[1, 0], 1)]);
        let picks: Vec<_> = (0..22)
            .filter_map(|_| s.pick(0b1000_0001, unasked))
            .collect();
        assert_eq!(picks.iter().filter(|q| **q == 7).count(), 20);
        assert_eq!((picks[10], picks[21]), (0, 0));
    }

    #[test]
    fn a_group_in_order_of_arrival_serves_the_oldest_head() {
        let mut s = Scheduler::new(&Profile {
            group: vec![config::Group {
                queues: vec![0, 1, 2],
                order: Order::Arrival,
                ..config::Group::default()
            }],
            ..Profile::default()
        });
        assert_eq!(
            s.pick(0b110, |queues| (queues == 0b110).then_some(1)),
            Some(1)
        );
    }

    #[test]
    fn an_empty_group_gives_up_its_turn() {
        let mut s = scheduler(&[(&[7], 10), (&[0], 1)]);
        assert_eq!(s.pick(0b0000_0001, unasked), Some(0));
        assert_eq!(s.pick(0b0000_0001, unasked), Some(0));
        assert_eq!(s.pick(0b1000_0001, unasked), Some(7));
    }
}
