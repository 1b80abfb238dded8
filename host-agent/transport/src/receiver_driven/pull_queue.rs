//! The one pull queue of a host: pulls of all sessions leave it in turn, at the pace at which the
//! packets they ask for fit through the host's link (NDP, section "receiver").

use std::collections::{BTreeMap, VecDeque};

use ebb_units::{Duration, Instant};

use crate::FlowId;

#[derive(Debug)]
pub(super) struct PullQueue {
    /// Time of a full frame on the host's link.
    pace: Duration,
    /// How much of a late wake-up may be made up for by sending pulls closer together.
    catch_up: Duration,
    next_at: Instant,
    /// Pulls waiting, by flow. No zero entries.
    waiting: BTreeMap<FlowId, u64>,
    /// The flows of `waiting`, next one first.
    turns: VecDeque<FlowId>,
}

impl PullQueue {
    pub fn new(pace: Duration, catch_up: Duration) -> Self {
        PullQueue {
            pace,
            catch_up,
            next_at: Instant::ZERO,
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }

    pub fn push(&mut self, now: Instant, flow: FlowId, pulls: u64) {
        if pulls == 0 {
            return;
        }
        if self.waiting.is_empty() {
            // The time until now was idle, not lateness.
            self.next_at = self.next_at.max(now);
        }
        let count = self.waiting.entry(flow).or_insert(0);
        if *count == 0 {
            self.turns.push_back(flow);
        }
        *count += pulls;
    }

    /// The flow whose pull leaves now, if one is due.
    pub fn pop(&mut self, now: Instant) -> Option<FlowId> {
        if now < self.next_at {
            return None;
        }
        let flow = self.turns.pop_front()?;
        self.next_at = self.next_at.max(now - self.catch_up) + self.pace;
        if let Some(count) = self.waiting.get_mut(&flow) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&flow);
            } else {
                self.turns.push_back(flow);
            }
        }
        Some(flow)
    }

    /// When the next pull leaves.
    pub fn next_at(&self) -> Option<Instant> {
        (!self.turns.is_empty()).then_some(self.next_at)
    }

    /// Forgets the pulls of a flow that has ended.
    pub fn remove(&mut self, flow: FlowId) {
        if self.waiting.remove(&flow).is_some() {
            self.turns.retain(|&f| f != flow);
        }
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
        queue.push(at(0), FlowId(1), 3);
        queue.push(at(0), FlowId(2), 1);
        queue.push(at(0), FlowId(3), 2);
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
        queue.push(at(5), FlowId(1), 2);
        assert!(queue.pop(at(5)).is_some());
        assert_eq!(queue.next_at(), Some(at(17)));
        assert!(queue.pop(at(16)).is_none());
        assert!(queue.pop(at(17)).is_some());
    }

    #[test]
    fn an_idle_queue_earns_no_burst_and_keeps_its_pace() {
        let mut queue = PullQueue::new(PACE, Duration::from_micros(100));
        queue.push(at(0), FlowId(1), 1);
        assert!(queue.pop(at(0)).is_some());
        queue.push(at(4), FlowId(1), 1);
        assert!(queue.pop(at(4)).is_none(), "sooner than the pace");
        assert!(queue.pop(at(12)).is_some());
        queue.push(at(1000), FlowId(1), 2);
        assert!(queue.pop(at(1000)).is_some());
        assert!(queue.pop(at(1000)).is_none(), "a burst after idle time");
    }

    #[test]
    fn a_late_wake_up_is_made_up_for_within_bounds() {
        let mut queue = PullQueue::new(PACE, Duration::from_micros(36));
        queue.push(at(0), FlowId(1), 100);
        assert!(queue.pop(at(0)).is_some());
        let burst = (0..).take_while(|_| queue.pop(at(1000)).is_some()).count();
        assert_eq!(burst, 4);
    }

    #[test]
    fn a_removed_session_asks_for_nothing() {
        let mut queue = PullQueue::new(PACE, Duration::ZERO);
        queue.push(at(0), FlowId(1), 5);
        queue.push(at(0), FlowId(2), 1);
        queue.remove(FlowId(1));
        assert_eq!(queue.pop(at(0)), Some(FlowId(2)));
        assert_eq!(queue.next_at(), None);
    }
}
