//! A receiver's state of one of its senders.

use ebb_units::Instant;
use ebb_wire::EbbHeader;

use super::params::{Mode, TreviParams};
use super::pull::Pull;
use crate::receiver_driven::Retry;

#[derive(Debug)]
pub struct Supplier {
    /// Requests for single symbols. None: the sender pushes them, or nothing was heard of it.
    pub pull: Option<Pull>,
    pub state: State,
    /// Symbols since the sender was last told what is wanted, of blocks that were not.
    pub unwanted: u64,
    /// Whether the sender has been told anything.
    pub has_spoken: bool,
    /// Whether it was heard after that.
    pub is_answered: bool,
    /// When it was last told something that it has to act on.
    pub last_demand: Instant,
    pub retry: Retry,
    /// Whether it knows that it is to stop for good, or never will.
    pub is_confirmed: bool,
    /// Symbols that arrived from it.
    pub received: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing has arrived from it, so that its port is not known.
    Unheard,
    Heard,
    /// Why nothing is expected of it any more.
    Gone(String),
}

impl Supplier {
    pub fn new(now: Instant, retry: &Retry) -> Self {
        Supplier {
            pull: None,
            state: State::Unheard,
            unwanted: 0,
            has_spoken: false,
            is_answered: false,
            last_demand: now,
            retry: retry.clone(),
            is_confirmed: false,
            received: 0,
        }
    }

    /// Notes a packet from it. False: no sender has its mode. `seed`: of the labels of requests to it.
    pub fn heard(
        &mut self,
        now: Instant,
        params: &TreviParams,
        seed: u64,
        header: &EbbHeader,
    ) -> bool {
        if self.state == State::Unheard {
            let Some(mode) = Mode::of_code(header.level) else {
                return false;
            };
            self.pull = match mode {
                Mode::ConstantRate | Mode::Push => None,
                Mode::Pull => Some(Pull::new(params, seed, false)),
                Mode::Hybrid => Some(Pull::new(params, seed, true)),
            };
            self.state = State::Heard;
        }
        self.retry.heard(now);
        self.is_answered |= self.has_spoken;
        true
    }

    pub fn is_heard(&self) -> bool {
        self.state == State::Heard
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Whether it still pushes, as far as we know: then it has to be told which block is wanted.
    pub fn is_pushing(&self) -> bool {
        self.is_heard() && self.pull.as_ref().is_none_or(Pull::is_pushed)
    }

    /// Whether all that it was asked for has expired since it last answered.
    pub fn is_doubtful(&self) -> bool {
        let pull = self.pull.as_ref();
        pull.is_some_and(|pull| pull.requests.is_silent())
    }

    /// Symbols of a block that it has been asked for and that have not come.
    pub fn pending_of(&self, block: u32) -> u32 {
        let pull = self.pull.as_ref();
        pull.map_or(0, |pull| pull.requests.pending_of(block))
    }
}
