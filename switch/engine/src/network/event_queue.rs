//! The pending events of one node, in the order in which they happen: by time; at the same time
//! arrivals come first, by port and then in the order of the link, then departures by port. What a
//! switch has set itself to do comes between them ([`goes_before`](EventQueue::goes_before)).
//!
//! Frames arrive on a link in the order in which they were sent, and a port has at most one
//! departure to come. So each port has a queue of arrivals, and only the first event of each port
//! competes, in a tree of winners. That costs a handful of small comparisons per event, whatever
//! the number of frames under way.

use std::collections::VecDeque;

use ebb_units::Instant;

use super::event::Event;
use crate::prefetch::{HEADER_LINES, prefetch};
use crate::switch::PortId;

/// The pending events of one node.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The slot of each port, by port number; `None` for ports that never had an event.
    slots: Vec<Option<u16>>,
    /// Arrivals that are to come, by slot.
    arrivals: Vec<VecDeque<(Instant, Event)>>,
    /// A tree in an array: node n holds the earlier of the keys at 2n and 2n + 1, so node 1 holds
    /// the first event. The second half are the leaves: the next arrival and the next departure of
    /// each slot.
    winners: Vec<Key>,
}

/// Time, kind, port and slot of an event in one number, whose order is that of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

/// Cache lines of a queue of arrivals that are fetched before a turn. They hold as many frames as a
/// link of 100 Gbit/s carries in a microsecond, half of them control packets.
const QUEUE_LINES: usize = 10;

/// Most frames per link whose headers are fetched before a turn; the headers of one link must not
/// push each other out of the cache.
const PREFETCHED: usize = 32;

/// Kind of an arrival in a [`Key`], which comes before departures of the same time.
const ARRIVAL: usize = 0;
/// Kind of a departure in a [`Key`].
const DEPARTURE: usize = 1;

impl Key {
    /// The key of a slot without an event, later than all others.
    const NEVER: Key = Key(u128::MAX);

    /// The key of an event.
    fn new(at: Instant, kind: usize, port: PortId, slot: u16) -> Self {
        let what = (kind as u64) << 32 | u64::from(port) << 16 | u64::from(slot);
        Key(u128::from(at.as_picos()) << 64 | u128::from(what))
    }

    /// When the event happens.
    fn at(self) -> Instant {
        Instant::from_picos((self.0 >> 64) as u64)
    }

    /// [`ARRIVAL`] or [`DEPARTURE`].
    fn kind(self) -> usize {
        (self.0 >> 32) as usize & 1
    }

    /// The port at which it happens.
    fn port(self) -> PortId {
        (self.0 >> 16) as PortId
    }

    /// The slot of that port.
    fn slot(self) -> u16 {
        self.0 as u16
    }
}

impl EventQueue {
    /// A queue without events or ports.
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            arrivals: Vec::new(),
            winners: vec![Key::NEVER; 4],
        }
    }

    /// Adds an event. If a port has several departures, only the earliest counts.
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        let port = event.port();
        let slot = self.slot(port);
        match event {
            Event::Serve(_) => {
                let key = Key::new(at, DEPARTURE, port, slot);
                let leaf = self.leaf(DEPARTURE, slot);
                if key < self.winners[leaf] {
                    self.set(leaf, key);
                }
            }
            Event::Receive { .. } | Event::Fault { .. } => {
                let queue = &mut self.arrivals[usize::from(slot)];
                // If the link has become faster, what it carries now may overtake earlier frames.
                let overtaken = queue.iter().rev().take_while(|(other, _)| *other > at);
                let index = queue.len() - overtaken.count();
                if index == queue.len() {
                    queue.push_back((at, event));
                } else {
                    queue.insert(index, (at, event));
                }
                if index == 0 {
                    let leaf = self.leaf(ARRIVAL, slot);
                    self.set(leaf, Key::new(at, ARRIVAL, port, slot));
                }
            }
        }
    }

    /// When the next event happens; `None` if there is none.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let first = self.winners[1];
        (first != Key::NEVER).then(|| first.at())
    }

    /// Whether an arrival is due until then, or a departure before.
    pub(crate) fn goes_before(&self, then: Instant) -> bool {
        self.winners[1] < Key::new(then, DEPARTURE, 0, 0)
    }

    /// The next event, if its time is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Event)> {
        self.next_time().filter(|at| *at <= now)?;
        self.pop()
    }

    /// The next event, if its time is before `horizon`.
    pub(crate) fn pop_before(&mut self, horizon: Instant) -> Option<(Instant, Event)> {
        self.next_time().filter(|at| *at < horizon)?;
        self.pop()
    }

    fn pop(&mut self) -> Option<(Instant, Event)> {
        let first = self.winners[1];
        let (kind, slot, port) = (first.kind(), first.slot(), first.port());
        let leaf = self.leaf(kind, slot);
        let event = if kind == DEPARTURE {
            self.set(leaf, Key::NEVER);
            (first.at(), Event::Serve(port))
        } else {
            let queue = &mut self.arrivals[usize::from(slot)];
            let event = queue.pop_front()?;
            if queue.is_empty() {
                // This moves an empty deque back to the start of its memory, which is in the
                // caches.
                queue.clear();
            }
            let next = queue.front().map(|(at, _)| *at);
            let next = next.map_or(Key::NEVER, |at| Key::new(at, ARRIVAL, port, slot));
            self.set(leaf, next);
            event
        };
        Some(event)
    }

    /// Fetches the headers of the frames that arrive before `horizon` into the caches, and returns
    /// how many frames these are.
    pub(crate) fn prefetch_arrivals(&self, horizon: Instant) -> usize {
        // First it must be known where the frames lie, for all links.
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
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> {
        let ports = (0..).zip(&self.slots);
        ports.filter_map(|(port, slot)| slot.map(|_| port))
    }

    /// The ports with a known departure before `horizon`.
    pub(crate) fn departures(&self, horizon: Instant) -> impl Iterator<Item = PortId> {
        let (leaves, _) = self.winners[self.winners.len() / 2..].as_chunks::<2>();
        let keys = leaves.iter().map(|leaf| leaf[DEPARTURE]);
        // A slot without a departure has the latest key of all.
        keys.filter(move |key| key.at() < horizon).map(Key::port)
    }

    /// Fetches what leads to a port's queue of arrivals into the caches.
    pub(crate) fn prefetch_slot(&self, port: PortId) {
        if let Some(Some(slot)) = self.slots.get(usize::from(port)) {
            prefetch(&self.arrivals[usize::from(*slot)..], 1);
            prefetch(&self.winners[self.leaf(ARRIVAL, *slot)..], 1);
        }
    }

    /// Fetches the end of a port's queue of arrivals into the caches.
    pub(crate) fn prefetch_end(&self, port: PortId) {
        if let Some(Some(slot)) = self.slots.get(usize::from(port))
            && let Some(last) = self.arrivals[usize::from(*slot)].back()
        {
            prefetch(std::slice::from_ref(last), 2);
        }
    }

    /// Index in `winners` of the leaf for this kind of event.
    fn leaf(&self, kind: usize, slot: u16) -> usize {
        self.winners.len() / 2 + 2 * usize::from(slot) + kind
    }

    /// Replaces a leaf, and the winners above it as far as they change.
    fn set(&mut self, leaf: usize, key: Key) {
        self.winners[leaf] = key;
        let (mut node, mut winner) = (leaf, key);
        while node > 1 {
            winner = winner.min(self.winners[node ^ 1]);
            node /= 2;
            if self.winners[node] == winner {
                return;
            }
            self.winners[node] = winner;
        }
    }

    /// The slot of a port, which gets one if it has none.
    fn slot(&mut self, port: PortId) -> u16 {
        match self.slots.get(usize::from(port)) {
            Some(Some(slot)) => *slot,
            _ => self.add(port),
        }
    }

    /// Gives a port a slot, and doubles the tree if it is full.
    fn add(&mut self, port: PortId) -> u16 {
        let index = usize::from(port);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        let slot = self.arrivals.len() as u16;
        self.slots[index] = Some(slot);
        self.arrivals.push(VecDeque::new());
        let leaves = 2 * self.arrivals.len();
        if leaves > self.winners.len() / 2 {
            let old = self.winners.split_off(self.winners.len() / 2);
            self.winners = vec![Key::NEVER; 4 * old.len()];
            for (leaf, key) in (2 * old.len()..).zip(old) {
                if key != Key::NEVER {
                    self.set(leaf, key);
                }
            }
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::drops::DropReason;

    /// What happens, to be compared.
    fn told((at, event): (Instant, Event)) -> (Instant, bool, PortId, usize) {
        match event {
            Event::Receive { port, frame } => (at, false, port, frame.len()),
            Event::Fault { port, bytes, .. } => (at, false, port, bytes as usize),
            Event::Serve(port) => (at, true, port, 0),
        }
    }

    /// An arrival tells by its length which of all it is.
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
