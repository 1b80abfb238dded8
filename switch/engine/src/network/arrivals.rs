//! Arrivals at a node, in order: by time, at the same time by port, and then as they were added, which
//! is the order of the link.
//!
//! A node adds all its events for another one together, and frames on a link come in order. So the keys of added
//! events form few sorted runs, which are merged; the events themselves stay in their places.

use std::iter::repeat_n;

use ebb_units::Instant;

use super::event::Event;
use crate::prefetch::{HEADER_LINES, prefetch, prefetch_at};
use crate::switch::PortId;

/// Number of arrivals by which the headers of a frame are prefetched before its turn: handling that
/// many events takes longer than the fetch.
const AHEAD: usize = 4;

/// Time in place of an arrival, where there is none.
const NEVER: Instant = Instant::FAR_FUTURE;

/// Sort key of an arrival. From the highest bit: time, port, and place in `events`, which grows in the order of adding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    /// Bits of a place: no memory holds 2^48 arrivals.
    const PLACE_BITS: u32 = u128::BITS - u64::BITS - PortId::BITS;

    #[inline]
    fn new(at: Instant, port: PortId, place: usize) -> Self {
        let low = u64::from(port) << Self::PLACE_BITS | place as u64;
        Self(u128::from(at.as_picos()) << u64::BITS | u128::from(low))
    }

    #[inline]
    fn at(self) -> Instant {
        Instant::from_picos((self.0 >> u64::BITS) as u64)
    }

    #[inline]
    fn place(self) -> usize {
        (self.0 as u64 & ((1 << Self::PLACE_BITS) - 1)) as usize
    }

    /// The key of the same arrival at another place.
    #[inline]
    fn moved(self, place: usize) -> Self {
        Self(self.0 >> Self::PLACE_BITS << Self::PLACE_BITS | place as u128)
    }
}

/// The pending arrivals at a node. Adding one touches only the fields in front.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Arrivals {
    /// Earliest time in `fresh`; [`NEVER`] if it is empty.
    fresh_from: Instant,
    /// Keys that have not been merged into `keys` yet, as they were added.
    fresh: Vec<Key>,
    /// The arrivals, each at the place that its key has; `None` where it was taken out.
    events: Vec<Option<Event>>,
    /// Time of the first sorted key; [`NEVER`] if there is none.
    next_at: Instant,
    /// Sorted keys, from index `first` on. The room in front is for earlier ones.
    keys: Vec<Key>,
    /// Index of the first sorted key.
    first: usize,
}

/// Memory for merging and moving. The nodes of a partition use it in turn, so that it stays in the caches.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    keys: Vec<Key>,
    merged: Vec<Key>,
    ends: Vec<usize>,
    events: Vec<Option<Event>>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            fresh_from: NEVER,
            fresh: Vec::new(),
            events: Vec::new(),
            next_at: NEVER,
            keys: Vec::new(),
            first: 0,
        }
    }
}

impl Arrivals {
    /// Adds an arrival.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        self.fresh_from = self.fresh_from.min(at);
        let key = Key::new(at, event.port(), self.events.len());
        self.fresh.push(key);
        self.events.push(Some(event));
    }

    /// Time of the next arrival; far in the future if there is none.
    #[inline]
    pub(crate) fn next_time(&self) -> Instant {
        self.next_at.min(self.fresh_from)
    }

    /// Time of the next arrival among those [in order](Self::settle).
    #[inline]
    pub(crate) fn next_in_order(&self) -> Instant {
        self.next_at
    }

    /// The next arrival, as far as they are [in order](Self::settle).
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let ahead = &self.keys[self.first..];
        let event = self.events[ahead.first()?.place()].take();
        self.next_at = ahead.get(1).map_or(NEVER, |next| next.at());
        if let Some(ahead) = ahead.get(AHEAD) {
            self.prefetch_headers(*ahead);
        }
        self.first += 1;
        event
    }

    /// Puts all arrivals into order.
    #[inline]
    pub(crate) fn settle(&mut self, spare: &mut Spare) {
        if !self.fresh.is_empty() {
            self.merge(spare);
        }
    }

    /// Whether at least this many arrivals come before `horizon`, as far as they are
    /// [in order](Self::settle).
    pub(crate) fn has(&self, count: usize, horizon: Instant) -> bool {
        let last = self.in_order().get(count.saturating_sub(1));
        last.is_some_and(|key| key.at() < horizon)
    }

    /// Fetches the headers of the first ones into the caches, as far as they are [in order](Self::settle).
    pub(crate) fn prefetch_first(&self) {
        for key in self.in_order().iter().take(AHEAD) {
            self.prefetch_headers(*key);
        }
    }

    /// Fetches the place of the next arrival that is added into the caches.
    pub(crate) fn prefetch_end(&self) {
        prefetch_at(Some((
            self.fresh.as_ptr_range().end.cast(),
            size_of::<Key>(),
        )));
        let end = self.events.as_ptr_range().end;
        prefetch_at(Some((end.cast(), size_of::<Option<Event>>())));
    }

    /// Starts to fetch the headers of a frame that arrives.
    #[inline]
    fn prefetch_headers(&self, key: Key) {
        if let Some(Event::Receive { frame, .. }) = &self.events[key.place()] {
            prefetch(frame, HEADER_LINES);
        }
    }

    /// Keys of the arrivals in order.
    #[inline]
    fn in_order(&self) -> &[Key] {
        &self.keys[self.first..]
    }

    /// Merges the sorted runs of keys, neighbours in pairs, until there is one run. Keys that are later than all fresh
    /// ones stay where they are, so that a backlog costs nothing.
    #[inline(never)]
    fn merge(&mut self, spare: &mut Spare) {
        let Spare {
            keys, merged, ends, ..
        } = spare;
        let end = self.end_of_earlier();
        keys.clear();
        keys.extend_from_slice(&self.keys[self.first..end]);
        keys.append(&mut self.fresh);
        ends.clear();
        let pairs = keys.windows(2).enumerate();
        ends.extend(pairs.filter_map(|(i, pair)| (pair[1] < pair[0]).then_some(i + 1)));
        ends.push(keys.len());
        merged.resize(keys.len(), Key::default());
        while ends.len() > 1 {
            let (mut start, mut runs) = (0, 0);
            for first in (0..ends.len()).step_by(2) {
                let middle = ends[first];
                let end = ends.get(first + 1).copied().unwrap_or(middle);
                let (left, right) = (&keys[start..middle], &keys[middle..end]);
                merge_two(left, right, &mut merged[start..end]);
                ends[runs] = end;
                (start, runs) = (end, runs + 1);
            }
            ends.truncate(runs);
            std::mem::swap(keys, merged);
        }
        self.put_before(end, keys);
        self.next_at = self.in_order().first().map_or(NEVER, |key| key.at());
        self.fresh_from = NEVER;
    }

    /// Index after the sorted keys that are earlier than the last fresh one.
    #[inline]
    fn end_of_earlier(&self) -> usize {
        let in_order = self.in_order();
        if in_order.is_empty() {
            return self.first;
        }
        let last = self.fresh.iter().max();
        self.first + last.map_or(0, |last| in_order.partition_point(|key| key < last))
    }

    /// Replaces the keys in order up to index `end` by these.
    #[inline]
    fn put_before(&mut self, mut end: usize, keys: &[Key]) {
        if end == self.keys.len() {
            self.keys.clear();
            self.keys.extend_from_slice(keys);
            self.first = 0;
            return;
        }
        if keys.len() > end {
            // Room for as many keys as there are, so that it is seldom made.
            let room = self.keys.len().max(keys.len());
            self.keys.splice(..0, repeat_n(Key::default(), room));
            end += room;
        }
        self.first = end - keys.len();
        self.keys[self.first..end].copy_from_slice(keys);
    }

    /// Puts all arrivals into order. If no more of them are left than were taken out, moves them to the first places.
    pub(crate) fn forget_taken(&mut self, spare: &mut Spare) {
        self.settle(spare);
        let ahead = self.in_order().len();
        if self.events.len() - ahead < ahead {
            return;
        }
        self.keys.drain(..self.first);
        self.first = 0;
        for (place, key) in self.keys.iter_mut().enumerate() {
            spare.events.push(self.events[key.place()].take());
            *key = key.moved(place);
        }
        self.events.clear();
        self.events.append(&mut spare.events);
    }
}

/// Merges two runs into `into`, which is as long as both.
#[inline]
fn merge_two(left: &[Key], right: &[Key], into: &mut [Key]) {
    let (mut l, mut r) = (0, 0);
    // Without branches: which run has the lesser key is random, so a branch predictor would fail.
    while l < left.len() && r < right.len() {
        let (a, b) = (left[l], right[r]);
        let goes_left = a < b;
        into[l + r] = if goes_left { a } else { b };
        l += usize::from(goes_left);
        r += usize::from(!goes_left);
    }
    let rest = if l < left.len() {
        &left[l..]
    } else {
        &right[r..]
    };
    into[l + r..].copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop_all(arrivals: &mut Arrivals) -> Vec<(u64, PortId)> {
        arrivals.settle(&mut Spare::default());
        std::iter::from_fn(|| {
            let at = arrivals.next_time().as_picos();
            arrivals.pop().map(|event| (at, event.port()))
        })
        .collect()
    }

    fn push(arrivals: &mut Arrivals, at: u64, port: PortId) {
        let frame = Vec::new();
        arrivals.push(Instant::from_picos(at), Event::Receive { port, frame });
    }

    #[test]
    fn runs_of_any_length_are_merged() {
        for seed in 0..200u64 {
            let mut arrivals = Arrivals::default();
            let mut expected = Vec::new();
            let mut draw = seed;
            for port in 0..(seed % 7) as PortId {
                let mut at = 0;
                for _ in 0..seed % (u64::from(port) + 3) {
                    draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
                    at += draw >> 62;
                    push(&mut arrivals, at, port);
                    expected.push((at, port));
                }
            }
            expected.sort_unstable();
            assert_eq!(pop_all(&mut arrivals), expected, "seed {seed}");
        }
    }

    #[test]
    fn what_comes_later_than_all_that_is_added_keeps_its_place() {
        let (mut arrivals, mut spare) = (Arrivals::default(), Spare::default());
        for at in 0..1000 {
            push(&mut arrivals, 10_000 + at, 1);
        }
        arrivals.settle(&mut spare);
        push(&mut arrivals, 0, 2);
        arrivals.settle(&mut spare);
        let latest = arrivals.keys.as_ptr_range().end;
        for at in 0..500 {
            arrivals.forget_taken(&mut spare);
            push(&mut arrivals, at, 2);
            arrivals.settle(&mut spare);
            assert_eq!(arrivals.pop().map(|event| event.port()), Some(2));
            assert_eq!(arrivals.keys.as_ptr_range().end, latest);
        }
    }

    #[test]
    fn a_backlog_is_merged_with_what_comes_between() {
        for seed in 0..100u64 {
            let (mut arrivals, mut spare) = (Arrivals::default(), Spare::default());
            let (mut draw, mut expected) = (seed, Vec::new());
            let mut next = |below: u64| {
                draw = draw
                    .wrapping_mul(0x5851_f42d_4c95_7f2d)
                    .wrapping_add(seed | 1);
                (draw >> 33) % below
            };
            let (mut now, mut popped) = (0, Vec::new());
            for _ in 0..60 {
                let mut at = now + 1;
                let port = next(4) as PortId;
                for _ in 0..next(20) {
                    let most = 1 << next(12);
                    at += next(most);
                    push(&mut arrivals, at, port);
                    expected.push((at, port));
                }
                arrivals.settle(&mut spare);
                for _ in 0..next(15) {
                    now = arrivals.next_time().as_picos().max(now);
                    popped.extend(arrivals.pop().map(|event| (now, event.port())));
                }
                now = popped.last().map_or(0, |(at, _)| *at);
                arrivals.forget_taken(&mut spare);
            }
            popped.extend(pop_all(&mut arrivals));
            expected.sort_unstable();
            assert_eq!(popped, expected, "seed {seed}");
        }
    }

    #[test]
    fn places_of_what_was_taken_out_are_used_again() {
        let (mut arrivals, mut spare) = (Arrivals::default(), Spare::default());
        for at in 0..1000 {
            push(&mut arrivals, at, 1);
            push(&mut arrivals, at + 3, 2);
            arrivals.settle(&mut spare);
            arrivals.pop();
            arrivals.pop();
            arrivals.forget_taken(&mut spare);
        }
        assert!(arrivals.events.len() < 20, "{}", arrivals.events.len());
        assert!(arrivals.keys.len() < 20, "{}", arrivals.keys.len());
    }
}
