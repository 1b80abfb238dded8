//! The events of one node, in the order in which they happen: by time, then arrivals by port and
//! order on the link, then departures by port.
//!
//! Frames arrive on a link in the order in which they were sent, and a port has one departure to
//! come at most. So there is a queue for each port's arrivals, and only what comes first at each
//! port competes, in a tree of winners: a handful of small comparisons per event, whatever the number
//! of frames under way.

use std::collections::VecDeque;

use ebb_units::Instant;

use super::event::Event;
use crate::prefetch::{HEADER_LINES, prefetch};
use crate::switch::PortId;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// By port: its place among the ports that have had events.
    places: Vec<Option<u16>>,
    /// By place.
    arrivals: Vec<VecDeque<(Instant, Event)>>,
    /// The winner of the nodes 2n and 2n + 1 is at n. The leaves, in the second half: by place, what
    /// arrives next and what departs next.
    winners: Vec<Key>,
}

/// When, what and where, in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

/// Cache lines of a queue of arrivals that are fetched before a turn: as many frames as a link of 100 Gbit/s carries in
/// a microsecond, half of them control packets.
const QUEUE_LINES: usize = 10;

/// Frames of a link that are fetched before a turn: all headers of one must not push each other out of the cache.
const PREFETCHED: usize = 32;

const ARRIVAL: usize = 0;
const DEPARTURE: usize = 1;

impl Key {
    const NEVER: Key = Key(u128::MAX);

    fn new(at: Instant, kind: usize, port: PortId, place: u16) -> Self {
        let what = (kind as u64) << 32 | u64::from(port) << 16 | u64::from(place);
        Key(u128::from(at.as_picos()) << 64 | u128::from(what))
    }

    fn at(self) -> Instant {
        Instant::from_picos((self.0 >> 64) as u64)
    }

    fn kind(self) -> usize {
        (self.0 >> 32) as usize & 1
    }

    fn port(self) -> PortId {
        (self.0 >> 16) as PortId
    }

    fn place(self) -> u16 {
        self.0 as u16
    }
}

impl Agenda {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            arrivals: Vec::new(),
            winners: vec![Key::NEVER; 4],
        }
    }

    /// Adds an event; of several departures of a port the earliest counts.
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        let port = event.port();
        let place = self.place(port);
        match event {
            Event::Serve(_) => {
                let key = Key::new(at, DEPARTURE, port, place);
                let leaf = self.leaf(DEPARTURE, place);
                if key < self.winners[leaf] {
                    self.set(leaf, key);
                }
            }
            Event::Receive { .. } | Event::Fault { .. } => {
                let queue = &mut self.arrivals[usize::from(place)];
                // A link that has become faster: what it sends now may overtake.
                let overtaken = queue.iter().rev().take_while(|(other, _)| *other > at);
                let index = queue.len() - overtaken.count();
                if index == queue.len() {
                    queue.push_back((at, event));
                } else {
                    queue.insert(index, (at, event));
                }
                if index == 0 {
                    let leaf = self.leaf(ARRIVAL, place);
                    self.set(leaf, Key::new(at, ARRIVAL, port, place));
                }
            }
        }
    }

    pub(crate) fn next_time(&self) -> Option<Instant> {
        let first = self.winners[1];
        (first != Key::NEVER).then(|| first.at())
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
        let (kind, place, port) = (first.kind(), first.place(), first.port());
        let leaf = self.leaf(kind, place);
        let event = if kind == DEPARTURE {
            self.set(leaf, Key::NEVER);
            (first.at(), Event::Serve(port))
        } else {
            let queue = &mut self.arrivals[usize::from(place)];
            let event = queue.pop_front()?;
            if queue.is_empty() {
                // From the start of its memory again, which is in the caches.
                queue.clear();
            }
            let next = queue.front().map(|(at, _)| *at);
            let next = next.map_or(Key::NEVER, |at| Key::new(at, ARRIVAL, port, place));
            self.set(leaf, next);
            event
        };
        Some(event)
    }

    /// Has the headers of the frames fetched that arrive before `horizon`, of which it says how many there are.
    pub(crate) fn prefetch_arrivals(&self, horizon: Instant) -> usize {
        // Where the frames are is to be known first, for all links.
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

    /// Ports that have had events.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> {
        let ports = (0..).zip(&self.places);
        ports.filter_map(|(port, place)| place.map(|_| port))
    }

    /// The ports of which a departure before `horizon` is known.
    pub(crate) fn departures(&self, horizon: Instant) -> impl Iterator<Item = PortId> {
        let (leaves, _) = self.winners[self.winners.len() / 2..].as_chunks::<2>();
        let keys = leaves.iter().map(|leaf| leaf[DEPARTURE]);
        // That there is none is the latest time.
        keys.filter(move |key| key.at() < horizon).map(Key::port)
    }

    /// Has fetched what leads to the queue of a port's arrivals.
    pub(crate) fn prefetch_place(&self, port: PortId) {
        if let Some(Some(place)) = self.places.get(usize::from(port)) {
            prefetch(&self.arrivals[usize::from(*place)..], 1);
            prefetch(&self.winners[self.leaf(ARRIVAL, *place)..], 1);
        }
    }

    /// Has the end of that queue fetched.
    pub(crate) fn prefetch_end(&self, port: PortId) {
        if let Some(Some(place)) = self.places.get(usize::from(port))
            && let Some(last) = self.arrivals[usize::from(*place)].back()
        {
            prefetch(std::slice::from_ref(last), 2);
        }
    }

    fn leaf(&self, kind: usize, place: u16) -> usize {
        self.winners.len() / 2 + 2 * usize::from(place) + kind
    }

    /// Replaces a leaf, and the winners above it as far as they change.
    fn set(&mut self, leaf: usize, key: Key) {
        self.winners[leaf] = key;
        let mut node = leaf;
        while node > 1 {
            let winner = self.winners[node].min(self.winners[node ^ 1]);
            node /= 2;
            if self.winners[node] == winner {
                return;
            }
            self.winners[node] = winner;
        }
    }

    fn place(&mut self, port: PortId) -> u16 {
        match self.places.get(usize::from(port)) {
            Some(Some(place)) => *place,
            _ => self.add(port),
        }
    }

    fn add(&mut self, port: PortId) -> u16 {
        let index = usize::from(port);
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        let place = self.arrivals.len() as u16;
        self.places[index] = Some(place);
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
        place
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
            let (mut agenda, mut list) = (Agenda::new(), List::default());
            let mut now = 0;
            for (number, step) in steps.into_iter().enumerate() {
                let at = |after| Instant::from_picos(now + after);
                match step {
                    Step::Arrive { port, after } => {
                        let event = arrival(port, number);
                        list.push(told((at(after), arrival(port, number))));
                        agenda.push(at(after), event);
                    }
                    Step::Depart { port, after } => {
                        list.push((at(after), true, port, 0));
                        agenda.push(at(after), Event::Serve(port));
                    }
                    Step::Pop { until } => {
                        prop_assert_eq!(agenda.next_time(), list.0.iter().map(|e| e.0).min());
                        let expected = list.pop_due(at(until));
                        prop_assert_eq!(agenda.pop_due(at(until)).map(told), expected);
                        now = expected.map_or(now, |e| e.0.as_picos());
                    }
                }
            }
        }
    }

    #[test]
    fn the_horizon_itself_is_not_before_it() {
        let mut agenda = Agenda::new();
        let at = Instant::from_micros(1);
        agenda.push(at, Event::Serve(3));
        assert!(agenda.pop_before(at).is_none());
        assert!(
            agenda
                .pop_before(at + ebb_units::Duration::from_picos(1))
                .is_some()
        );
        assert_eq!(agenda.next_time(), None);
    }
}
