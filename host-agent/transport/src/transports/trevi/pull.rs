//! The requests of a receiver that pulls, and the window that bounds them.

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader};

use super::params::TreviParams;
use super::requests::{Answer, Requests};
use super::window::Window;

#[derive(Debug)]
pub struct Pull {
    pub requests: Requests,
    pub window: Window,
    /// Blocks below are asked for symbol by symbol; the sender still pushes the others.
    pub until: u32,
    /// Requests that may still be made of a sender that has answered none. None: it has.
    unverified: Option<u32>,
    /// The last round trip that was measured.
    last_rtt: Option<Duration>,
}

impl Pull {
    /// `pushes`: whether the sender begins by pushing.
    pub fn new(params: &TreviParams, seed: u64, pushes: bool) -> Self {
        let initial = Duration::from_nanos(params.label_timeout_ns);
        let longest = Duration::from_nanos(params.max_rto_ns);
        Pull {
            requests: Requests::new(seed, initial, longest),
            window: Window::new(params),
            until: if pushes { 0 } else { u32::MAX },
            unverified: Some(params.request_window_packets),
            last_rtt: None,
        }
    }

    /// Whether the sender still pushes, as far as we know.
    pub fn is_pushed(&self) -> bool {
        self.until != u32::MAX
    }

    pub fn has_room(&self) -> bool {
        self.requests.pending() < self.window.requests() && self.unverified != Some(0)
    }

    /// Notes a request that leaves, and returns its label.
    pub fn ask(&mut self, now: Instant, block: u32) -> u32 {
        self.unverified = self.unverified.map(|left| left.saturating_sub(1));
        self.requests.ask(now, block)
    }

    /// Learns from a symbol that arrived.
    pub fn arrived(&mut self, now: Instant, header: &EbbHeader) {
        if header.pull == 0 {
            // It was pushed, and those of the blocks before it have been.
            let last = header.flags.contains(EbbFlags::FIN);
            self.until = if last {
                u32::MAX
            } else {
                self.until.max(header.block)
            };
            return;
        }
        match self.requests.answer(now, header.pull) {
            Answer::InTime(rtt) => {
                self.last_rtt = Some(rtt);
                self.window.answered(now, rtt);
            }
            Answer::Late => self.window.was_late(),
            Answer::Unasked => {
                if header.flags.contains(EbbFlags::MULTICAST) {
                    self.arrived_for_another(now, header.block);
                }
                return;
            }
        }
        self.unverified = None;
    }

    /// A symbol that answers requests of all receivers of a group brings the label of one. It took the
    /// oldest request of each, so that a round trip is as long as when a label of ours was last there.
    fn arrived_for_another(&mut self, now: Instant, block: u32) {
        if self.requests.answer_oldest(block)
            && let Some(rtt) = self.last_rtt
        {
            self.window.answered(now, rtt);
        }
    }

    /// Gives up the requests that have waited for too long.
    pub fn expire(&mut self, now: Instant) {
        let expired = self.requests.expire(now);
        if expired > 0 {
            self.window.expired(expired);
        }
    }

    /// Nothing is pushed any more, as far as we know.
    pub fn ask_for_all(&mut self) {
        self.until = u32::MAX;
    }

    /// Nothing was heard for a while: what was to be pushed is lost, and maybe the requests were.
    pub fn ask_again(&mut self) {
        self.ask_for_all();
        self.unverified = self.unverified.map(|left| left + 1);
    }
}
