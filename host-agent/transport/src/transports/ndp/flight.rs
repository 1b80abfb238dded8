//! State at the sender of every packet from the oldest unacknowledged one on.

use std::collections::VecDeque;

use ebb_units::Instant;

/// No packet has this number.
const NONE: u32 = u32::MAX;

/// A packet that was sent is in one of these states until it falls out of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Sent; neither an ACK nor a NACK has come, nor has its header come back.
    InFlight,
    /// To be sent again.
    Waiting,
    Acknowledged,
}

/// `before` and `after` are the neighbours in the list of its state.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    sent_at: Instant,
    before: u32,
    after: u32,
}

/// A list through the slots, so that nothing is allocated per packet.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    len: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
    len: 0,
};

/// The ring: packet numbers `base..next()`, the two lists, and all operations in constant time.
#[derive(Debug)]
pub struct Flight {
    /// Every packet below is acknowledged.
    base: u32,
    slots: VecDeque<Slot>,
    /// In order of sending.
    in_flight: List,
    /// In the order in which they are to be sent.
    waiting: List,
}

/// Where in the order of packets to be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    First,
    Last,
}

impl Flight {
    pub fn new() -> Self {
        Flight {
            base: 0,
            slots: VecDeque::new(),
            in_flight: EMPTY,
            waiting: EMPTY,
        }
    }

    /// The packet that has never been sent.
    pub fn next(&self) -> u32 {
        self.base + self.slots.len() as u32
    }

    /// Packets from the oldest unacknowledged one on that have been sent.
    pub fn span(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.len
    }

    /// Packets to be sent again.
    pub fn waiting(&self) -> u32 {
        self.waiting.len
    }

    /// When a packet that is in flight was sent.
    pub fn sent_at(&self, number: u32) -> Option<Instant> {
        let slot = self.slot(number)?;
        (slot.state == State::InFlight).then_some(slot.sent_at)
    }

    /// The packet in flight that was sent first, and when.
    pub fn oldest(&self) -> Option<(Instant, u32)> {
        let number = self.in_flight.first;
        self.slot(number).map(|slot| (slot.sent_at, number))
    }

    /// Sends a packet for the first time.
    pub fn send_new(&mut self, now: Instant) -> u32 {
        let number = self.next();
        self.slots.push_back(Slot {
            state: State::InFlight,
            sent_at: now,
            before: NONE,
            after: NONE,
        });
        self.enlist(number, State::InFlight, Place::Last);
        number
    }

    /// Sends the first of those that wait for it.
    pub fn send_waiting(&mut self, now: Instant) -> Option<u32> {
        let number = self.waiting.first;
        self.resend(number, now)
    }

    /// Sends the oldest packet in flight once more, in case that it was lost.
    pub fn send_oldest(&mut self, now: Instant) -> Option<u32> {
        let number = self.in_flight.first;
        self.resend(number, now)
    }

    fn resend(&mut self, number: u32, now: Instant) -> Option<u32> {
        self.delist(number)?;
        self.enlist(number, State::InFlight, Place::Last);
        if let Some(slot) = self.slot_mut(number) {
            slot.sent_at = now;
        }
        Some(number)
    }

    /// A packet in flight has not arrived whole. False: it is not in flight.
    pub fn lose(&mut self, number: u32, place: Place) -> bool {
        if self.sent_at(number).is_none() {
            return false;
        }
        self.delist(number);
        self.enlist(number, State::Waiting, place);
        true
    }

    /// The oldest packet that is not acknowledged, if there is one.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// A packet has arrived. False: that was known, or it was never sent.
    pub fn acknowledge(&mut self, number: u32) -> bool {
        if self.delist(number).is_none() {
            return false;
        }
        if let Some(slot) = self.slot_mut(number) {
            slot.state = State::Acknowledged;
        }
        while self
            .slots
            .front()
            .is_some_and(|slot| slot.state == State::Acknowledged)
        {
            self.slots.pop_front();
            self.base += 1;
        }
        true
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number.checked_sub(self.base)? as usize)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut(number.checked_sub(self.base)? as usize)
    }

    fn list(&mut self, state: State) -> Option<&mut List> {
        match state {
            State::InFlight => Some(&mut self.in_flight),
            State::Waiting => Some(&mut self.waiting),
            State::Acknowledged => None,
        }
    }

    /// Takes a packet out of the list it is in. `None`: it is in none.
    fn delist(&mut self, number: u32) -> Option<()> {
        let Slot {
            state,
            before,
            after,
            ..
        } = *self.slot(number)?;
        let list = self.list(state)?;
        list.len -= 1;
        if list.first == number {
            list.first = after;
        }
        if list.last == number {
            list.last = before;
        }
        if let Some(slot) = self.slot_mut(before) {
            slot.after = after;
        }
        if let Some(slot) = self.slot_mut(after) {
            slot.before = before;
        }
        Some(())
    }

    /// Puts a packet that is in no list into that of `state`.
    fn enlist(&mut self, number: u32, state: State, place: Place) {
        let Some(list) = self.list(state) else {
            return;
        };
        list.len += 1;
        let (before, after) = match place {
            Place::First => (NONE, list.first),
            Place::Last => (list.last, NONE),
        };
        if before == NONE {
            list.first = number;
        }
        if after == NONE {
            list.last = number;
        }
        if let Some(slot) = self.slot_mut(before) {
            slot.after = number;
        }
        if let Some(slot) = self.slot_mut(after) {
            slot.before = number;
        }
        if let Some(slot) = self.slot_mut(number) {
            slot.state = state;
            slot.before = before;
            slot.after = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn the_lost_go_in_order_of_their_loss_but_the_urgent_first() {
        let mut flight = Flight::new();
        for us in 0..6 {
            flight.send_new(at(us));
        }
        assert!(flight.lose(4, Place::Last));
        assert!(flight.lose(1, Place::Last));
        assert!(flight.lose(3, Place::First));
        assert!(!flight.lose(3, Place::Last) && !flight.lose(9, Place::Last));
        let order: Vec<u32> = (0..)
            .map_while(|us| flight.send_waiting(at(10 + us)))
            .collect();
        assert_eq!(order, [3, 4, 1]);
        assert_eq!(flight.oldest(), Some((at(0), 0)));
        assert_eq!(flight.send_oldest(at(20)), Some(0));
        assert_eq!(flight.oldest(), Some((at(2), 2)));
    }

    #[test]
    fn the_ring_is_as_long_as_what_is_unacknowledged() {
        let mut flight = Flight::new();
        for n in 0..1000 {
            assert_eq!(flight.send_new(at(0)), n);
            if n >= 10 {
                assert!(flight.acknowledge(n - 10));
                assert!(!flight.acknowledge(n - 10));
            }
            assert!(flight.span() <= 11);
        }
    }

    /// A model of [`Flight`] without a ring.
    #[derive(Default)]
    struct Model {
        in_flight: Vec<u32>,
        waiting: Vec<u32>,
        next: u32,
    }

    fn take(list: &mut Vec<u32>, number: u32) -> bool {
        let found = list.iter().position(|&n| n == number);
        found.map(|at| list.remove(at)).is_some()
    }

    proptest! {
        #[test]
        fn it_does_what_two_vectors_do(steps in prop::collection::vec((0..6u8, 0..40u32), 1..300)) {
            let (mut flight, mut model) = (Flight::new(), Model::default());
            for (step, number) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(flight.send_new(at(0)), model.next);
                        model.in_flight.push(model.next);
                        model.next += 1;
                    }
                    1 | 2 => {
                        let known = take(&mut model.in_flight, number);
                        let place = if step == 1 { Place::First } else { Place::Last };
                        prop_assert_eq!(flight.lose(number, place), known);
                        if known {
                            let end = if step == 1 { 0 } else { model.waiting.len() };
                            model.waiting.insert(end, number);
                        }
                    }
                    3 => {
                        let known = take(&mut model.in_flight, number)
                            || take(&mut model.waiting, number);
                        prop_assert_eq!(flight.acknowledge(number), known);
                    }
                    4 => {
                        let first = model.waiting.first().copied();
                        prop_assert_eq!(flight.send_waiting(at(0)), first);
                        if let Some(number) = first {
                            take(&mut model.waiting, number);
                            model.in_flight.push(number);
                        }
                    }
                    _ => {
                        let first = model.in_flight.first().copied();
                        prop_assert_eq!(flight.send_oldest(at(0)), first);
                        if let Some(number) = first {
                            take(&mut model.in_flight, number);
                            model.in_flight.push(number);
                        }
                    }
                }
                prop_assert_eq!(flight.oldest().map(|(_, n)| n), model.in_flight.first().copied());
                prop_assert_eq!(flight.in_flight() as usize, model.in_flight.len());
                prop_assert_eq!(flight.waiting() as usize, model.waiting.len());
                let open = model.in_flight.iter().chain(&model.waiting).min();
                prop_assert_eq!(flight.next() - flight.span(), *open.unwrap_or(&model.next));
            }
        }
    }
}
