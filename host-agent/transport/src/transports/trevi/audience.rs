//! The receivers that a sender serves. Any symbol is of use to all that want one of its block, so one
//! symbol answers a request of each.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

use super::params::MAX_REQUESTS;
use crate::receiver_driven::{self, Retry};

/// A sender's state of one receiver.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Labels and blocks of the requests that wait to be answered, oldest first.
    pub requested: VecDeque<(u32, u32)>,
    /// The block whose symbols are to be pushed to it.
    pub wanted: u32,
    /// Blocks that it has delivered, as it says in requests.
    pub delivered: u32,
    /// It said that nothing is to be sent until it asks again.
    pub is_idle: bool,
    /// Whether it has said anything.
    pub is_verified: bool,
    pub retry: Retry,
    /// Symbols that brought back one of its labels.
    echoed: u32,
    /// Since when the others wait for it. None: they do not.
    behind_since: Option<Instant>,
}

/// The receivers of one sender.
pub type Audience = receiver_driven::Audience<Listener>;

/// Reaction to a timeout.
#[derive(Clone, Copy, Default, Debug)]
pub struct TimedOut {
    /// Whether a probe is to be sent.
    pub probe: bool,
    /// Receivers to which this is not the first probe.
    pub repeated: u64,
}

impl Listener {
    pub fn new(retry: Retry) -> Self {
        Listener {
            requested: VecDeque::new(),
            wanted: 0,
            delivered: 0,
            is_idle: false,
            is_verified: false,
            retry,
            echoed: 0,
            behind_since: None,
        }
    }

    /// Notes a request for a symbol of `block`. False: no honest receiver has so many pending.
    pub fn request(&mut self, label: u32, block: u32) -> bool {
        // It may have been overtaken by one that wants nothing more of this block.
        if block >= self.delivered {
            if self.requested.len() >= MAX_REQUESTS as usize {
                return false;
            }
            self.requested.push_back((label, block));
        }
        true
    }

    /// When it is asked for a sign of life. One that does not want anything is in no hurry.
    /// `is_pushed`: whether anything is pushed; `some_finished`: whether others have everything, so that it
    /// ought to have said that it wants nothing.
    pub fn question_at(&self, is_pushed: bool, some_finished: bool) -> Instant {
        let heard = self.retry.last_heard();
        let is_overdue = some_finished && !self.is_idle;
        let wants = is_pushed || is_overdue || !self.requested.is_empty();
        if !wants && self.is_verified && self.retry.silent() == 0 {
            return heard + self.retry.longest_interval();
        }
        self.retry.deadline(heard)
    }

    /// It has delivered the blocks before `block`.
    pub fn has_delivered(&mut self, block: u32) {
        if block > self.delivered {
            self.delivered = block;
            self.requested.retain(|&(_, of)| of >= block);
        }
    }

    /// It wants nothing, until a request says otherwise.
    pub fn set_idle(&mut self) {
        self.is_idle = true;
        self.requested.clear();
    }
}

impl Audience {
    /// The lowest block whose symbols anybody wants pushed. None: nobody wants any.
    pub fn wanted(&self) -> Option<u32> {
        let wanting = self.served().filter(|l| !l.is_idle);
        wanting.map(|l| l.wanted).min()
    }

    /// Blocks that all of them have delivered.
    pub fn delivered(&self) -> u32 {
        self.served().map(|l| l.delivered).min().unwrap_or(0)
    }

    pub fn all_verified(&self) -> bool {
        self.served().all(|l| l.is_verified)
    }

    pub fn all_idle(&self) -> bool {
        self.served().all(|l| l.is_idle)
    }

    pub fn has_requests(&self) -> bool {
        self.served().any(|l| !l.requested.is_empty())
    }

    /// The lowest block of those that receivers ask for next, of the blocks that are `at_hand`.
    /// `together`: only when all of them have asked for something.
    pub fn asked_for(&self, together: bool, at_hand: impl Fn(u32) -> bool) -> Option<u32> {
        if together && self.served().any(|l| l.requested.is_empty()) {
            return None;
        }
        let first = |l: &Listener| {
            let mut blocks = l.requested.iter().map(|&(_, block)| block);
            blocks.find(|&block| at_hand(block))
        };
        self.served().filter_map(first).min()
    }

    /// Takes a request for `block` off each receiver that has one. One of their labels comes back:
    /// that of the receiver whose labels have come back least.
    pub fn answer(&mut self, block: u32) -> u32 {
        let mut chosen: Option<(u32, &mut u32)> = None;
        for listener in self.served_mut() {
            let at = listener.requested.iter().position(|r| r.1 == block);
            let Some((label, _)) = at.and_then(|at| listener.requested.remove(at)) else {
                continue;
            };
            let echoed = &mut listener.echoed;
            if chosen.as_ref().is_none_or(|(_, least)| *echoed < **least) {
                chosen = Some((label, echoed));
            }
        }
        chosen.map_or(0, |(label, echoed)| {
            *echoed += 1;
            label
        })
    }

    /// Whether any receiver has everything.
    pub fn some_finished(&self) -> bool {
        self.finished() > 0
    }

    /// Whether one receiver is served and the others have everything.
    pub fn waits_for_last(&self) -> bool {
        self.some_finished() && self.served().nth(1).is_none()
    }

    /// Gives up those for whom the others have waited for too long.
    pub fn give_up_stragglers(&mut self, now: Instant, patience: Duration) {
        self.give_up(|listener| {
            let since = listener.behind_since?;
            (since + patience <= now).then(|| format!("it was behind all others for {patience}"))
        });
    }

    /// Counts a timeout of each receiver whose question is due, and gives up who was silent for too
    /// long.
    pub fn time_out(&mut self, now: Instant, is_pushed: bool) -> TimedOut {
        let mut timed_out = TimedOut::default();
        let some_finished = self.some_finished();
        self.give_up(|listener| {
            if listener.question_at(is_pushed, some_finished) > now {
                return None;
            }
            timed_out.repeated += u64::from(listener.retry.silent() > 0);
            if listener.retry.expired(now) {
                timed_out.probe = true;
                return None;
            }
            Some(listener.retry.gave_up_reason(now))
        });
        timed_out
    }

    /// Notes for whom the others wait.
    pub fn note_behind(&mut self, now: Instant, is_behind: impl Fn(&Listener) -> bool) {
        for listener in self.served_mut() {
            listener.behind_since = match is_behind(listener) {
                true => listener.behind_since.or(Some(now)),
                false => None,
            };
        }
    }

    /// When the first receiver that the others wait for is a straggler.
    pub fn straggler_at(&self, patience: Duration) -> Option<Instant> {
        let since = self.served().filter_map(|l| l.behind_since).min();
        since.map(|since| since + patience)
    }

    /// Takes a straggler out of the group; returns the audience of its own session.
    pub fn detach_straggler(
        &mut self,
        now: Instant,
        patience: Duration,
    ) -> Option<(usize, Audience)> {
        let is_straggler = |l: &Listener| l.behind_since.is_some_and(|at| at + patience <= now);
        self.detach(is_straggler, |listener| Listener {
            retry: listener.retry.restarted(now),
            behind_since: None,
            // Nothing is pushed to it until it is heard again.
            is_verified: false,
            ..listener.clone()
        })
    }
}
