//! The one pull queue of a host: pulls of all sessions leave it at the pace at which the packets
//! they ask for fit through the host's link (NDP, section 3.2), the most urgent sessions first and
//! those of equal priority in turn.

use std::collections::{BTreeMap, VecDeque};

use ebb_units::{Duration, Instant};

use crate::FlowId;

/// The most urgent priority; 0 is normal. A larger number counts as this one.
pub(super) const MAX_PRIORITY: u8 = 7;

#[derive(Debug)]
pub(super) struct PullQueue {
    /// Time of a full frame on the host's link.
    pace: Duration,
    /// How much of a late wake-up may be made up for by sending pulls closer together.
    catch_up: Duration,
    next_at: Instant,
    /// Pulls waiting, by flow. A flow that has had pulls stays listed, at 0, until it is removed.
    waiting: BTreeMap<FlowId, u64>,
    /// The flows with pulls waiting, next one first, by priority.
    turns: [VecDeque<FlowId>; MAX_PRIORITY as usize + 1],
}

impl PullQueue {
    pub fn new(pace: Duration, catch_up: Duration) -> Self {
        PullQueue {
            pace,
            catch_up,
            next_at: Instant::ZERO,
            waiting: BTreeMap::new(),
            turns: Default::default(),
        }
    }

    /// `priority` is that of the session and does not change while it lives.
    pub fn push(&mut self, now: Instant, flow: FlowId, priority: u8, pulls: u64) {
        if pulls == 0 {
            return;
        }
        if self.is_empty() {
            // The time until now was idle, not lateness.
            self.next_at = self.next_at.max(now);
        }
        let count = self.waiting.entry(flow).or_insert(0);
        if *count == 0 {
            self.turns[usize::from(priority.min(MAX_PRIORITY))].push_back(flow);
        }
        *count += pulls;
    }

    /// The flow whose pull leaves now, if one is due.
    pub fn pop(&mut self, now: Instant) -> Option<FlowId> {
        if now < self.next_at {
            return None;
        }
        let turns = self.turns.iter_mut().rev().find(|t| !t.is_empty())?;
        let flow = turns.pop_front()?;
        self.next_at = self.next_at.max(now - self.catch_up) + self.pace;
        if let Some(count) = self.waiting.get_mut(&flow) {
            *count -= 1;
            if *count > 0 {
                turns.push_back(flow);
            }
        }
        Some(flow)
    }

    /// When the next pull leaves.
    pub fn next_at(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.next_at)
    }

    /// Forgets a flow that has ended.
    pub fn remove(&mut self, flow: FlowId) {
        if self.waiting.remove(&flow).is_some_and(|count| count > 0) {
            for turns in &mut self.turns {
                turns.retain(|&f| f != flow);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.turns.iter().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Duration = Duration::from_micros(12);

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn sessions_take_turns_however_much_they_ask_for() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(0), FlowId(1), 0, 3);
        queue.push(at(0), FlowId(2), 0, 1);
        queue.push(at(0), FlowId(3), 0, 2);
        let order: Vec<u64> = (0..6)
            .filter_map(|i| queue.pop(at(12 * i)))
            .map(|f| f.0)
            .collect();
        assert_eq!(order, [1, 2, 3, 1, 3, 1]);
        assert_eq!(queue.next_at(), None);
    }

    #[test]
    fn pulls_leave_at_the_pace_of_the_link() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(5), FlowId(1), 0, 2);
        assert!(queue.pop(at(5)).is_some());
        assert_eq!(queue.next_at(), Some(at(17)));
        assert!(queue.pop(at(16)).is_none());
        assert!(queue.pop(at(17)).is_some());
    }

    #[test]
    fn an_idle_queue_earns_no_burst_and_keeps_its_pace() {
        let mut queue = PullQueue::new(PACE, Duration::from_micros(100));
        queue.push(at(0), FlowId(1), 0, 1);
        assert!(queue.pop(at(0)).is_some());
        queue.push(at(4), FlowId(1), 0, 1);
        assert!(queue.pop(at(4)).is_none(), "sooner than the pace");
        assert!(queue.pop(at(12)).is_some());
        queue.push(at(1000), FlowId(1), 0, 2);
        assert!(queue.pop(at(1000)).is_some());
        assert!(queue.pop(at(1000)).is_none(), "a burst after idle time");
    }

    #[test]
    fn a_late_wake_up_is_made_up_for_within_bounds() {
        let mut queue = PullQueue::new(PACE, Duration::from_micros(36));
        queue.push(at(0), FlowId(1), 0, 100);
        assert!(queue.pop(at(0)).is_some());
        let burst = (0..).take_while(|_| queue.pop(at(1000)).is_some()).count();
        assert_eq!(burst, 4);
    }

    #[test]
    fn a_removed_session_asks_for_nothing() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(0), FlowId(1), 0, 5);
        queue.push(at(0), FlowId(2), 0, 1);
        queue.remove(FlowId(1));
        assert_eq!(queue.pop(at(0)), Some(FlowId(2)));
        assert_eq!(queue.next_at(), None);
    }

    /// The order in which `pulls` pulls leave.
    fn order(queue: &mut PullQueue, from_us: u64, pulls: u64) -> Vec<u64> {
        (0..pulls)
            .filter_map(|i| queue.pop(at(from_us + 12 * i)))
            .map(|f| f.0)
            .collect()
    }

    #[test]
    fn the_most_urgent_go_first_and_equals_take_turns() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        for (flow, priority, pulls) in [(1, 0, 2), (2, 3, 2), (3, 7, 1), (4, 3, 3), (5, 0, 1)] {
            queue.push(at(0), FlowId(flow), priority, pulls);
        }
        assert_eq!(order(&mut queue, 0, 9), [3, 2, 4, 2, 4, 4, 1, 5, 1]);
    }

    #[test]
    fn an_urgent_session_goes_before_what_waits_already() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(0), FlowId(1), 0, 4);
        assert_eq!(order(&mut queue, 0, 2), [1, 1]);
        queue.push(at(13), FlowId(2), 1, 2);
        assert_eq!(order(&mut queue, 24, 4), [2, 2, 1, 1]);
    }

    #[test]
    fn more_than_the_highest_priority_counts_as_the_highest() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(0), FlowId(1), 7, 2);
        queue.push(at(0), FlowId(2), 255, 2);
        assert_eq!(order(&mut queue, 0, 4), [1, 2, 1, 2]);
    }

    #[test]
    fn turns_are_fair_to_the_pull_while_sessions_come_and_go() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        let mut served = [0u64; 5];
        for step in 0..1000 {
            for flow in 0..5 {
                // Each asks for more when it likes, so that the queue of none runs dry.
                if step % (flow + 2) == 0 {
                    queue.push(at(12 * step), FlowId(flow), 2, flow + 2);
                }
            }
            served[queue.pop(at(12 * step)).unwrap().0 as usize] += 1;
        }
        assert_eq!(served, [200; 5]);
    }
}
