//! The receivers that a sender serves: that of a unicast session, or those of a multicast group.

use super::session::Ending;
use crate::record::GroupSummary;

/// Receivers, by their number in the group. `L`: state that the transport keeps of each.
#[derive(Debug)]
pub struct Audience<L> {
    receivers: Vec<(L, State)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Served,
    Finished,
    Detached,
    /// Its host ended the session, or has gone; the reason names it.
    Left(String),
    /// This sender gave it up; it may not know.
    GivenUp(String),
}

impl<L> Audience<L> {
    /// Receivers that are all served.
    pub fn new(listeners: impl IntoIterator<Item = L>) -> Self {
        let receivers = listeners.into_iter().map(|l| (l, State::Served));
        Audience {
            receivers: receivers.collect(),
        }
    }

    /// The receivers that are still served.
    pub fn served(&self) -> impl Iterator<Item = &L> {
        let all = self.receivers.iter();
        all.filter(|(_, state)| *state == State::Served)
            .map(|(listener, _)| listener)
    }

    /// The receivers that are still served.
    pub fn served_mut(&mut self) -> impl Iterator<Item = &mut L> {
        let all = self.receivers.iter_mut();
        all.filter(|(_, state)| *state == State::Served)
            .map(|(listener, _)| listener)
    }

    /// The receiver, if it is still served.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut L> {
        match self.receivers.get_mut(index) {
            Some((listener, State::Served)) => Some(listener),
            _ => None,
        }
    }

    fn change(&mut self, index: usize, to: State) {
        if let Some((_, state)) = self.receivers.get_mut(index)
            && *state == State::Served
        {
            *state = to;
        }
    }

    /// The receiver has everything.
    pub fn finish(&mut self, index: usize) {
        self.change(index, State::Finished);
    }

    /// The receiver's host has ended the session.
    pub fn leave(&mut self, index: usize, reason: String) {
        self.change(index, State::Left(reason));
    }

    /// Gives up the served receivers for which `why` has a reason.
    pub fn give_up(&mut self, mut why: impl FnMut(&mut L) -> Option<String>) {
        for (listener, state) in &mut self.receivers {
            if *state == State::Served
                && let Some(reason) = why(listener)
            {
                *state = State::GivenUp(reason);
            }
        }
    }

    /// None while somebody is served.
    pub fn ending(&self) -> Option<Ending> {
        if self.served().next().is_some() {
            return None;
        }
        let lost = self.receivers.iter().find_map(|(_, state)| match state {
            State::Left(reason) | State::GivenUp(reason) => Some(reason.clone()),
            _ => None,
        });
        Some(lost.map_or(Ending::Finished, Ending::Failed))
    }

    /// Whether the receiver has everything.
    pub fn has_finished(&self, index: usize) -> bool {
        matches!(self.receivers.get(index), Some((_, State::Finished)))
    }

    /// Number of receivers that have everything.
    pub fn finished(&self) -> usize {
        self.count(&State::Finished)
    }

    /// The receivers that are served or were given up.
    pub fn unfinished(&self) -> Vec<usize> {
        let all = self.receivers.iter().enumerate();
        all.filter(|(_, (_, state))| matches!(state, State::Served | State::GivenUp(_)))
            .map(|(index, _)| index)
            .collect()
    }

    /// Takes the first served receiver that is `chosen` out of the group. `alone`: its state in the session of its own
    /// that it gets, of which the audience is returned.
    pub fn detach(
        &mut self,
        chosen: impl Fn(&L) -> bool,
        alone: impl FnOnce(&L) -> L,
    ) -> Option<(usize, Self)> {
        let mut all = self.receivers.iter();
        let index =
            all.position(|(listener, state)| *state == State::Served && chosen(listener))?;
        let (listener, state) = &mut self.receivers[index];
        *state = State::Detached;
        Some((index, Audience::new([alone(listener)])))
    }

    /// Whether there are several receivers.
    pub fn is_group(&self) -> bool {
        self.receivers.len() > 1
    }

    fn count(&self, state: &State) -> usize {
        self.receivers.iter().filter(|(_, s)| s == state).count()
    }

    /// Counts for the record of the flow.
    pub fn summary(&self) -> GroupSummary {
        GroupSummary {
            receivers: self.receivers.len() as u32,
            receivers_finished: self.count(&State::Finished) as u32,
            receivers_detached: self.count(&State::Detached) as u32,
        }
    }
}
