//! The pending events of one node, in the order in which they happen: by time; at the same time
//! arrivals come first, by port and then in the order of the link, then departures by port. A switch's own
//! timers come between them ([`goes_before`](EventQueue::goes_before)).
//!
//! All that arrives in a turn of the node was sent before it. So arrivals are gathered as they come,
//! and put into order together when the node looks for its next event ([`Arrivals`]). A port has at most one
//! departure to come; these compete in a tree of winners, whose leaves are the ports in order, so that the
//! first leaf with the winning time is the one whose turn it is.

use ebb_units::{Duration, Instant};

use super::arrivals::{Arrivals, Spare};
use super::event::Event;
use crate::switch::PortId;

/// The pending events of one node.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct EventQueue {
    /// Arrivals to come.
    arrivals: Arrivals,
    /// The slot of each port, by port number; `None` for ports that never had a departure.
    slots: Vec<Option<u16>>,
    /// The port of each slot, in ascending order.
    ports: Vec<PortId>,
    /// The tree of departures in an array: node n holds the earlier of the times at 2n and 2n + 1. The
    /// second half are the leaves, one for each slot; [`NEVER`] where there is none.
    winners: Vec<Instant>,
}

/// Root of the tree of departures.
const ROOT: usize = 1;

/// Time in place of an event, where there is none.
const NEVER: Instant = Instant::FAR_FUTURE;

impl EventQueue {
    /// A queue without events or ports.
    pub(crate) fn new() -> Self {
        Self {
            arrivals: Arrivals::default(),
            slots: Vec::new(),
            ports: Vec::new(),
            winners: vec![NEVER; 2],
        }
    }

    /// Adds something that arrives.
    #[inline]
    pub(crate) fn push_arrival(&mut self, at: Instant, event: Event) {
        self.arrivals.push(at, event);
    }

    /// Adds a departure. If a port has several, only the earliest counts.
    #[inline]
    pub(crate) fn push_departure(&mut self, at: Instant, port: PortId) {
        let slot = self.slot(port);
        let leaf = self.capacity() + slot;
        if at < self.winners[leaf] {
            self.set(leaf, at);
        }
    }

    /// Time of the next event; `None` if there is none.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let first = self.arrivals.next_time().min(self.winners[ROOT]);
        (first != NEVER).then_some(first)
    }

    /// Time of the next event, as far as arrivals are [in order](Self::prepare); `None` if there is none.
    #[inline]
    pub(crate) fn next_in_order(&self) -> Option<Instant> {
        let first = self.arrivals.next_in_order().min(self.winners[ROOT]);
        (first != NEVER).then_some(first)
    }

    /// Whether an arrival is due until then, or a departure before, as far as arrivals are [in order](Self::prepare).
    pub(crate) fn goes_before(&self, then: Instant) -> bool {
        self.arrivals.next_in_order() <= then || self.winners[ROOT] < then
    }

    /// The next event, if its time is not after `now`, as far as arrivals are [in order](Self::prepare).
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Event)> {
        self.pop_before(now + Duration::from_picos(1))
    }

    /// The next event, if its time is before `horizon`, as far as arrivals are [in order](Self::prepare).
    #[inline]
    pub(crate) fn pop_before(&mut self, horizon: Instant) -> Option<(Instant, Event)> {
        let arrival = self.arrivals.next_in_order();
        let departure = self.winners[ROOT];
        if arrival.min(departure) >= horizon {
            return None;
        }
        if departure < arrival {
            let leaf = self.first();
            self.set(leaf, NEVER);
            let port = self.ports[leaf - self.capacity()];
            return Some((departure, Event::Serve(port)));
        }
        Some((arrival, self.arrivals.pop()?))
    }

    /// Puts all arrivals into order and fetches the headers of the first ones into the caches.
    pub(crate) fn prepare(&mut self, spare: &mut Spare) {
        self.arrivals.settle(spare);
        self.arrivals.prefetch_first();
    }

    /// To be called after events were taken out, before others are added.
    pub(crate) fn forget_taken(&mut self, spare: &mut Spare) {
        self.arrivals.forget_taken(spare);
    }

    /// Whether at least this many arrivals come before `horizon`, as far as they are
    /// [in order](Self::prepare).
    pub(crate) fn has_arrivals(&self, count: usize, horizon: Instant) -> bool {
        self.arrivals.has(count, horizon)
    }

    /// The ports that have had departures.
    pub(crate) fn ports(&self) -> &[PortId] {
        &self.ports
    }

    /// The ports with a known departure before `horizon`.
    pub(crate) fn departures(&self, horizon: Instant) -> impl Iterator<Item = PortId> {
        let leaves = &self.winners[self.capacity()..];
        let ports = self.ports.iter().zip(leaves);
        ports
            .filter(move |(_, at)| **at < horizon)
            .map(|(port, _)| *port)
    }

    /// Fetches the place of the next arrival that is added into the caches.
    pub(crate) fn prefetch_end(&self) {
        self.arrivals.prefetch_end();
    }

    /// How many slots the tree has leaves for, which is the index of the first leaf.
    fn capacity(&self) -> usize {
        self.winners.len() / 2
    }

    /// The first leaf with the time of the root.
    fn first(&self) -> usize {
        let winners = self.winners.as_slice();
        let time = winners[ROOT];
        let mut node = ROOT;
        while node < winners.len() / 2 {
            node = 2 * node + usize::from(winners[2 * node] != time);
        }
        node
    }

    /// Replaces a leaf, and the winners above it as far as they change.
    #[inline]
    fn set(&mut self, leaf: usize, at: Instant) {
        let winners = self.winners.as_mut_slice();
        winners[leaf] = at;
        let (mut node, mut winner) = (leaf, at);
        while node > ROOT {
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

    /// Gives a port a slot, and makes the tree anew.
    #[cold]
    fn add(&mut self, port: PortId) -> usize {
        let leaves = self.winners[self.capacity()..].iter();
        let mut departures: Vec<Instant> = leaves.copied().take(self.ports.len()).collect();
        let place = self.ports.partition_point(|other| *other < port);
        self.ports.insert(place, port);
        departures.insert(place, NEVER);
        self.slots = Vec::new();
        for (slot, port) in (0..).zip(&self.ports) {
            self.slots.resize(usize::from(*port), None);
            self.slots.push(Some(slot));
        }
        self.winners = vec![NEVER; 2 * self.ports.len().next_power_of_two()];
        for (slot, departure) in departures.into_iter().enumerate() {
            self.set(self.capacity() + slot, departure);
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
            let mut spare = Spare::default();
            let mut now = 0;
            for (number, step) in steps.into_iter().enumerate() {
                let at = |after| Instant::from_picos(now + after);
                match step {
                    Step::Arrive { port, after } => {
                        let event = arrival(port, number);
                        list.push(told((at(after), arrival(port, number))));
                        queue.push_arrival(at(after), event);
                    }
                    Step::Depart { port, after } => {
                        list.push((at(after), true, port, 0));
                        queue.push_departure(at(after), port);
                    }
                    Step::Pop { until } => {
                        prop_assert_eq!(queue.next_time(), list.0.iter().map(|e| e.0).min());
                        queue.prepare(&mut spare);
                        let expected = list.pop_due(at(until));
                        prop_assert_eq!(queue.pop_due(at(until)).map(told), expected);
                        now = expected.map_or(now, |e| e.0.as_picos());
                        queue.forget_taken(&mut spare);
                    }
                }
            }
        }
    }

    #[test]
    fn the_horizon_itself_is_not_before_it() {
        let mut queue = EventQueue::new();
        let at = Instant::from_micros(1);
        queue.push_departure(at, 3);
        assert!(queue.pop_before(at).is_none());
        assert!(
            queue
                .pop_before(at + ebb_units::Duration::from_picos(1))
                .is_some()
        );
        assert_eq!(queue.next_time(), None);
    }
}
