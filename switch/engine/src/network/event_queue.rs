//! The pending events of one node, in the order in which they happen: by time; at the same time
//! arrivals come first, by port and then in the order of the link, then departures by port. A switch's own
//! timers come between them ([`goes_before`](EventQueue::goes_before)).
//!
//! Frames arrive on a link in the order in which they were sent, and a port has at most one
//! departure to come. So each port has a queue of arrivals, and only the first event of each port
//! competes, in two trees of winners: one of arrivals, one of departures. Ports have their leaves in
//! order, so the first leaf with the winning time is the one whose turn it is, and times are all
//! that is compared. That costs a handful of comparisons per event, whatever the number of frames
//! under way.

use std::collections::VecDeque;

use ebb_units::Instant;

use super::event::Event;
use crate::prefetch::{HEADER_LINES, prefetch, prefetch_one};
use crate::switch::PortId;

/// The pending events of one node.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The slot of each port, by port number; `None` for ports that never had an event.
    slots: Vec<Option<u16>>,
    /// The port of each slot, in ascending order.
    ports: Vec<PortId>,
    /// Arrivals that are to come, by slot.
    arrivals: Vec<VecDeque<(Instant, Event)>>,
    /// Both trees in an array: node n holds the earlier of the times at 2n and 2n + 1. The second
    /// half are the leaves: the next arrival of each slot, then the next departure of each slot;
    /// [`NEVER`] where there is none.
    winners: Vec<Instant>,
}

/// Cache lines of a queue of arrivals that are fetched before a turn. They hold as many frames as a
/// link of 100 Gbit/s carries in a microsecond, half of them control packets.
const QUEUE_LINES: usize = 10;

/// Most frames per link whose headers are fetched before a turn; the headers of one link must not
/// push each other out of the cache.
const PREFETCHED: usize = 32;

/// Root of the tree of arrivals.
const ARRIVALS: usize = 2;
/// Root of the tree of departures.
const DEPARTURES: usize = 3;

/// Time in place of an event, where there is none.
const NEVER: Instant = Instant::FAR_FUTURE;

impl EventQueue {
    /// A queue without events or ports.
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            ports: Vec::new(),
            arrivals: Vec::new(),
            winners: vec![NEVER; 4],
        }
    }

    /// Adds an event. If a port has several departures, only the earliest counts.
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        let slot = self.slot(event.port());
        if let Event::Serve(_) = event {
            let leaf = self.leaf(DEPARTURES, slot);
            if at < self.winners[leaf] {
                self.set(leaf, at);
            }
            return;
        }
        let queue = &mut self.arrivals[slot];
        match queue.back() {
            None => {
                queue.push_back((at, event));
                self.set(self.leaf(ARRIVALS, slot), at);
            }
            Some((last, _)) if *last <= at => queue.push_back((at, event)),
            Some(_) => self.overtake(slot, at, event),
        }
    }

    /// Adds an arrival that overtakes others: the link has become faster than it was when it sent
    /// these.
    #[cold]
    fn overtake(&mut self, slot: usize, at: Instant, event: Event) {
        let queue = &mut self.arrivals[slot];
        let overtaken = queue.iter().rev().take_while(|(other, _)| *other > at);
        let index = queue.len() - overtaken.count();
        queue.insert(index, (at, event));
        if index == 0 {
            self.set(self.leaf(ARRIVALS, slot), at);
        }
    }

    /// Time of the next event; `None` if there is none.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let first = self.winners[ARRIVALS].min(self.winners[DEPARTURES]);
        (first != NEVER).then_some(first)
    }

    /// Whether an arrival is due until then, or a departure before.
    pub(crate) fn goes_before(&self, then: Instant) -> bool {
        self.winners[ARRIVALS] <= then || self.winners[DEPARTURES] < then
    }

    /// The next event, if its time is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Event)> {
        self.next_time().filter(|at| *at <= now)?;
        self.pop()
    }

    /// The next event, if its time is before `horizon`.
    #[inline]
    pub(crate) fn pop_before(&mut self, horizon: Instant) -> Option<(Instant, Event)> {
        self.next_time().filter(|at| *at < horizon)?;
        self.pop()
    }

    /// The next event. There must be one.
    fn pop(&mut self) -> Option<(Instant, Event)> {
        let (arrival, departure) = (self.winners[ARRIVALS], self.winners[DEPARTURES]);
        if departure < arrival {
            let leaf = self.first(DEPARTURES);
            self.set(leaf, NEVER);
            let port = self.ports[leaf - 3 * self.capacity()];
            return Some((departure, Event::Serve(port)));
        }
        let leaf = self.first(ARRIVALS);
        let queue = &mut self.arrivals[leaf - self.winners.len() / 2];
        let event = queue.pop_front();
        let next = match queue.front() {
            Some((at, _)) => *at,
            None => {
                // This moves an empty deque back to the start of its memory, which is in the
                // caches.
                queue.clear();
                NEVER
            }
        };
        self.set(leaf, next);
        event
    }

    /// Fetches the headers of the frames that arrive before `horizon` into the caches, and returns
    /// how many frames these are.
    pub(crate) fn prefetch_arrivals(&self, horizon: Instant) -> usize {
        // First the addresses of the frames, for all links.
        for queue in &self.arrivals {
            let (first, wrapped) = queue.as_slices();
            prefetch(first, QUEUE_LINES);
            prefetch(wrapped, QUEUE_LINES / 2);
        }
        let mut frames = 0;
        for queue in &self.arrivals {
            let near = queue.iter().take(PREFETCHED);
            for (_, event) in near.take_while(|(at, _)| *at < horizon) {
                if let Event::Receive { frame, .. } = event {
                    prefetch(frame, HEADER_LINES);
                    frames += 1;
                }
            }
        }
        frames
    }

    /// The ports that have had events.
    pub(crate) fn ports(&self) -> &[PortId] {
        &self.ports
    }

    /// The ports with a known departure before `horizon`.
    pub(crate) fn departures(&self, horizon: Instant) -> impl Iterator<Item = PortId> {
        let leaves = &self.winners[3 * self.capacity()..];
        let ports = self.ports.iter().zip(leaves);
        ports
            .filter(move |(_, at)| **at < horizon)
            .map(|(port, _)| *port)
    }

    /// Fetches what leads to a port's queue of arrivals into the caches.
    pub(crate) fn prefetch_slot(&self, port: PortId) {
        if let Some(Some(slot)) = self.slots.get(usize::from(port)) {
            let slot = usize::from(*slot);
            prefetch_one(&self.arrivals[slot]);
            prefetch_one(&self.winners[self.leaf(ARRIVALS, slot)]);
        }
    }

    /// Fetches the end of a port's queue of arrivals into the caches.
    pub(crate) fn prefetch_end(&self, port: PortId) {
        if let Some(Some(slot)) = self.slots.get(usize::from(port))
            && let Some(last) = self.arrivals[usize::from(*slot)].back()
        {
            prefetch_one(last);
        }
    }

    /// How many slots the trees have leaves for.
    fn capacity(&self) -> usize {
        self.winners.len() / 4
    }

    /// Index in `winners` of the leaf of a slot in a tree.
    fn leaf(&self, tree: usize, slot: usize) -> usize {
        tree * self.capacity() + slot
    }

    /// The first leaf of a tree with the time of its root.
    fn first(&self, root: usize) -> usize {
        let time = self.winners[root];
        let mut node = root;
        while node < self.winners.len() / 2 {
            node = 2 * node + usize::from(self.winners[2 * node] != time);
        }
        node
    }

    /// Replaces a leaf, and the winners above it as far as they change.
    #[inline]
    fn set(&mut self, leaf: usize, at: Instant) {
        let winners = self.winners.as_mut_slice();
        winners[leaf] = at;
        let (mut node, mut winner) = (leaf, at);
        while node > DEPARTURES {
            winner = winner.min(winners[node ^ 1]);
            node /= 2;
            if winners[node] == winner {
                return;
            }
            winners[node] = winner;
        }
    }

    /// The slot of a port, which gets one if it has none.
    #[inline]
    fn slot(&mut self, port: PortId) -> usize {
        match self.slots.get(usize::from(port)) {
            Some(Some(slot)) => usize::from(*slot),
            _ => self.add(port),
        }
    }

    /// Gives a port a slot, and makes the trees anew.
    #[cold]
    fn add(&mut self, port: PortId) -> usize {
        let leaves = self.winners[3 * self.capacity()..].iter();
        let mut departures: Vec<Instant> = leaves.copied().take(self.ports.len()).collect();
        let place = self.ports.partition_point(|other| *other < port);
        self.ports.insert(place, port);
        self.arrivals.insert(place, VecDeque::new());
        departures.insert(place, NEVER);
        self.slots = Vec::new();
        for (slot, port) in (0..).zip(&self.ports) {
            self.slots.resize(usize::from(*port), None);
            self.slots.push(Some(slot));
        }
        self.winners = vec![NEVER; 4 * self.ports.len().next_power_of_two()];
        for (slot, departure) in departures.into_iter().enumerate() {
            let arrival = self.arrivals[slot].front().map_or(NEVER, |(at, _)| *at);
            self.set(self.leaf(ARRIVALS, slot), arrival);
            self.set(self.leaf(DEPARTURES, slot), departure);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::drops::DropReason;

    /// The parts of an event that tests compare.
    fn told((at, event): (Instant, Event)) -> (Instant, bool, PortId, usize) {
        match event {
            Event::Receive { port, frame } => (at, false, port, frame.len()),
            Event::Fault { port, bytes, .. } => (at, false, port, bytes as usize),
            Event::Serve(port) => (at, true, port, 0),
        }
    }

    /// An arrival whose length is its number among all.
    fn arrival(port: PortId, number: usize) -> Event {
        if number.is_multiple_of(7) {
            let (reason, bytes) = (DropReason::LinkLoss, number as u64);
            return Event::Fault {
                port,
                reason,
                bytes,
            };
        }
        let frame = vec![0; number];
        Event::Receive { port, frame }
    }

    /// Everything in one list, searched for the least.
    #[derive(Default)]
    struct List(Vec<(Instant, bool, PortId, usize)>);

    impl List {
        fn push(&mut self, entry: (Instant, bool, PortId, usize)) {
            let (at, departs, port, _) = entry;
            if departs {
                let same = |e: &(Instant, bool, PortId, usize)| e.1 && e.2 == port;
                if self.0.iter().any(|e| same(e) && e.0 <= at) {
                    return;
                }
                self.0.retain(|e| !same(e));
            }
            self.0.push(entry);
        }

        fn pop_due(&mut self, now: Instant) -> Option<(Instant, bool, PortId, usize)> {
            let first = *self.0.iter().filter(|e| e.0 <= now).min()?;
            self.0.retain(|e| *e != first);
            Some(first)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive { port: PortId, after: u64 },
        Depart { port: PortId, after: u64 },
        Pop { until: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let port = prop_oneof![0..5u16, Just(510)];
        let both = (port, 0..6u64);
        prop_oneof![
            2 => both.clone().prop_map(|(port, after)| Step::Arrive { port, after }),
            1 => both.prop_map(|(port, after)| Step::Depart { port, after }),
            3 => (0..4u64).prop_map(|until| Step::Pop { until }),
        ]
    }

    proptest! {
        #[test]
        fn as_a_list_searched_for_the_least(steps in prop::collection::vec(step(), 1..200)) {
            let (mut queue, mut list) = (EventQueue::new(), List::default());
            let mut now = 0;
            for (number, step) in steps.into_iter().enumerate() {
                let at = |after| Instant::from_picos(now + after);
                match step {
                    Step::Arrive { port, after } => {
                        let event = arrival(port, number);
                        list.push(told((at(after), arrival(port, number))));
                        queue.push(at(after), event);
                    }
                    Step::Depart { port, after } => {
                        list.push((at(after), true, port, 0));
                        queue.push(at(after), Event::Serve(port));
                    }
                    Step::Pop { until } => {
                        prop_assert_eq!(queue.next_time(), list.0.iter().map(|e| e.0).min());
                        let expected = list.pop_due(at(until));
                        prop_assert_eq!(queue.pop_due(at(until)).map(told), expected);
                        now = expected.map_or(now, |e| e.0.as_picos());
                    }
                }
            }
        }
    }

    #[test]
    fn the_horizon_itself_is_not_before_it() {
        let mut queue = EventQueue::new();
        let at = Instant::from_micros(1);
        queue.push(at, Event::Serve(3));
        assert!(queue.pop_before(at).is_none());
        assert!(
            queue
                .pop_before(at + ebb_units::Duration::from_picos(1))
                .is_some()
        );
        assert_eq!(queue.next_time(), None);
    }
}
