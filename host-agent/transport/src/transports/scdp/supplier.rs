//! State of a receiver for one of its senders: requests and their outcome.

use ebb_units::Instant;

use super::blocks::{Blocks, Share};
use crate::receiver_driven::Retry;

/// A larger initial window than any sender has: bounds what a header can make us believe.
pub const MAX_WINDOW: u64 = 1024;

#[derive(Clone, Debug)]
pub struct Supplier {
    pub share: Share,
    pub state: State,
    /// Source symbols of the object in its share.
    pub total: u64,
    /// Symbols that it sends unasked.
    window: u64,
    /// Pulls sent to it: the cumulative counter of the last one.
    sent: u64,
    /// Pulls for it in the host's pull queue.
    pub queued: u64,
    /// Transmissions that arrived, whole or trimmed, or were given up.
    arrived: u64,
    /// Its source symbols before this one have been asked for or are not wanted any more.
    pub position: u64,
    /// Its source symbols before this one were sent before one that has arrived.
    pub overtaken: u64,
    /// Its source symbols before this one have arrived or were given up as lost.
    pub given_up: u64,
    /// When `overtaken` was noted, and its value then.
    noted: (Instant, u64),
    /// The symbol beyond the window that was asked for at a first timeout.
    pub probe: Option<Probe>,
    /// How many of its source symbols from `position` on have been taken over by others.
    pub taken_over: u64,
    /// Whether others have had to help it.
    pub is_slow: bool,
    /// It skips its source symbols of blocks before this one: they are not wanted any more.
    pub skips_to: u32,
    /// How many of the symbols under way are repair symbols.
    repairs_due: u64,
    pub retry: Retry,
    /// Timeouts since something of use arrived.
    pub stalled: u32,
    /// When something last arrived or a pull was sent.
    pub last_activity: Instant,
    /// Symbols that arrived whole.
    pub received: u64,
}

/// A symbol that shows what is lost: all that was asked for before it, if it arrives first.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The source symbols that were asked for before it are those before this one.
    pub position: u64,
    /// Block and ESI if it is a repair symbol: there is no further source symbol.
    pub repair: Option<(u32, u32)>,
}

/// Symbols that will not arrive any more.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Source symbols before this one.
    pub before: u64,
    /// Repair symbols of this block.
    pub repairs_of: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing has arrived from it. Its initial window is taken for under way.
    Unheard,
    /// The same for so long that nothing is taken for under way any more.
    Late,
    Heard,
    /// It sends repair symbols only: the receiver has left the group.
    RepairsOnly,
    /// Why nothing is expected of it any more.
    Gone(String),
}

impl Supplier {
    /// `window`: what the first packet of the session says of its sender.
    pub fn new(now: Instant, share: Share, blocks: &Blocks, window: u32, retry: &Retry) -> Self {
        let total = blocks.share_total(share);
        let window = u64::from(window).clamp(1, total.clamp(1, MAX_WINDOW));
        Supplier {
            share,
            state: State::Unheard,
            total,
            window,
            sent: 0,
            queued: 0,
            arrived: 0,
            position: window.min(total),
            overtaken: 0,
            given_up: 0,
            noted: (now, 0),
            probe: None,
            taken_over: 0,
            is_slow: false,
            skips_to: 0,
            repairs_due: 0,
            retry: retry.restarted(now),
            stalled: 0,
            last_activity: now,
            received: 0,
        }
    }

    /// Notes an arrival from it, which says that its initial window is `window`.
    pub fn heard(&mut self, now: Instant, window: u32) {
        self.retry.heard(now);
        self.last_activity = now;
        if matches!(self.state, State::Unheard | State::Late) {
            self.state = State::Heard;
            self.window = u64::from(window).clamp(1, self.total.clamp(1, MAX_WINDOW));
            self.position = self.position.max(self.window.min(self.total));
        }
    }

    /// Nothing arrived for a while: do not count on the initial window.
    /// `position`: where its share of what has not been delivered begins.
    pub fn is_late(&mut self, position: u64) {
        self.state = State::Late;
        self.window = 0;
        self.position = position;
    }

    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Gone(_))
    }

    /// Whether it can be pulled: its port is known.
    pub fn can_be_asked(&self) -> bool {
        matches!(self.state, State::Heard | State::RepairsOnly)
    }

    /// Whether its source symbols come when their turn comes.
    pub fn sends_sources(&self) -> bool {
        matches!(self.state, State::Unheard | State::Late | State::Heard)
    }

    /// Whether nothing has arrived for at least one timeout.
    pub fn is_suspect(&self) -> bool {
        self.state == State::Late || self.retry.silent() > 0
    }

    /// Transmissions asked for (the initial window included) that have not arrived, without those
    /// whose pulls are still queued.
    pub fn under_way(&self) -> u64 {
        (self.window + self.sent).saturating_sub(self.arrived)
    }

    /// How many more may be asked for: the window is kept under way, and after a timeout a single
    /// packet until something arrives.
    pub fn room(&self) -> u64 {
        let window = if self.retry.silent() > 0 {
            1
        } else {
            self.window.max(1)
        };
        window.saturating_sub(self.under_way() + self.queued)
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    /// Source symbols that are still to be asked for.
    pub fn left(&self) -> u64 {
        if self.sends_sources() {
            self.total.saturating_sub(self.position + self.taken_over)
        } else {
            0
        }
    }

    /// Notes that a transmission arrived that had been asked for.
    pub fn arrived(&mut self) {
        self.arrived = (self.arrived + 1).min(self.window + self.sent);
    }

    /// Notes that a source symbol arrived, so that the sender has passed it.
    pub fn passed(&mut self, position: u64) {
        self.position = self.position.max(position + 1);
        self.overtaken = self.overtaken.max(position);
    }

    /// Symbols that have not arrived although some sent after them have, and were asked for at least
    /// a timeout ago. Called at each arrival; none: nothing new is known.
    pub fn lost(&mut self, now: Instant) -> Option<Lost> {
        if let Some(probe) = self.probe.take()
            && self.overtaken >= probe.position
        {
            return Some(Lost {
                before: probe.position,
                repairs_of: probe.repair.map(|(block, _)| block),
            });
        }
        let (since, before) = self.noted;
        if now < since + self.retry.interval() {
            return None;
        }
        self.noted = (now, self.overtaken);
        Some(Lost {
            before,
            repairs_of: None,
        })
    }

    /// A repair symbol arrived, maybe in place of a source symbol: others of a group wanted it.
    pub fn repair_arrived(&mut self, block: u32, esi: u32) {
        if let Some(Probe { position, repair }) = self.probe
            && repair.is_some_and(|probe| probe.0 == block && probe.1 <= esi)
        {
            self.overtaken = self.overtaken.max(position);
        }
        if self.repairs_due > 0 {
            self.repairs_due -= 1;
        } else if self.position > 0 {
            self.position -= 1;
        }
    }

    /// Notes that a pull leaves, and returns its cumulative counter.
    pub fn pull(&mut self, for_repair: bool) -> u32 {
        self.sent += 1;
        if for_repair {
            self.repairs_due += 1;
        } else {
            self.position += 1;
        }
        self.counter()
    }

    /// The cumulative counter of the last pull.
    pub fn counter(&self) -> u32 {
        u32::try_from(self.sent).unwrap_or(u32::MAX)
    }

    /// Counts no longer on so many transmissions of source symbols and of repair symbols.
    pub fn give_up(&mut self, sources: u64, repairs: u64) {
        self.arrived = (self.arrived + sources + repairs).min(self.window + self.sent);
        self.repairs_due = self.repairs_due.saturating_sub(repairs);
    }

    /// Counts on nothing any more that is under way.
    pub fn write_off(&mut self) {
        self.arrived = self.window + self.sent;
        self.repairs_due = 0;
    }
}
