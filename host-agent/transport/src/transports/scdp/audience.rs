//! The receivers that a sender serves (thesis, section III-D). A symbol leaves when all of them have
//! pulled it.

use std::collections::BTreeMap;
use std::ops::Range;

use ebb_units::{Duration, Instant};

use crate::receiver_driven;

/// Blocks of which one receiver may want repair symbols at a time. Honest ones want them of those
/// that they have open; a forged pull must not make us remember more.
const MAX_WANTED_BLOCKS: usize = 4096;

/// A sender's state of one receiver.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The highest pull counter seen.
    pub pulled: u32,
    /// Whether its last pull said that it asks for all that is missing.
    pub finishing: bool,
    /// Repair symbols wanted in all, by block, as pulls said.
    wanted: BTreeMap<u32, u32>,
    /// First block of which it may want something: nothing of those before.
    first_wanted: u32,
    /// When it last pulled something new.
    last_progress: Instant,
}

/// The receivers of one sender.
pub type Audience = receiver_driven::Audience<Listener>;

impl Audience {
    /// Symbols that all of them have pulled together.
    pub fn pulled(&self) -> u32 {
        self.served().map(|l| l.pulled).min().unwrap_or(0)
    }

    /// Whether all that is missing anywhere has been asked for.
    pub fn all_finishing(&self) -> bool {
        self.served().all(|l| l.finishing)
    }

    pub fn any_finishing(&self) -> bool {
        self.served().any(|l| l.finishing)
    }

    /// Whether somebody does not wait for us and has not said either that it has everything.
    pub fn any_waits_for_nothing(&self) -> bool {
        self.served().any(|l| l.pulled == 0 || l.finishing)
    }

    /// The first of `blocks` of which somebody wants more repair symbols than `sent` were sent.
    pub fn lacking(&self, blocks: Range<u32>, sent: impl Fn(u32) -> u32) -> Option<u32> {
        let lacks = |&(&block, &wanted): &(&u32, &u32)| sent(block) < wanted;
        // Without losses nobody wants any, and every packet asks.
        self.served()
            .filter(|l| !l.wanted.is_empty())
            .filter_map(|l| l.wanted.range(blocks.clone()).find(lacks))
            .map(|(&block, _)| block)
            .min()
    }

    /// Pulls of all of them, without the repair symbols of blocks below `end` that they
    /// have not been sent.
    pub fn pulled_otherwise(&self, end: u32, sent: impl Fn(u32) -> u32) -> u32 {
        let otherwise = |listener: &Listener| {
            let wanted = listener.wanted.range(..end);
            let lacking = wanted.map(|(&block, wanted)| wanted.saturating_sub(sent(block)));
            let lacking = lacking.fold(0, u32::saturating_add);
            listener.pulled.saturating_sub(lacking)
        };
        self.served().map(otherwise).min().unwrap_or(0)
    }

    /// The first block of which anybody still wants anything.
    pub fn first_wanted(&self) -> u32 {
        self.served().map(|l| l.first_wanted).min().unwrap_or(0)
    }

    /// When the first of those that keep the others waiting is to be detached. `since`: when the
    /// others began to wait.
    pub fn straggler_at(&self, since: Instant, patience: Duration) -> Option<Instant> {
        let least = self.pulled();
        if self.served().all(|l| l.pulled == least) {
            return None;
        }
        let behind = self.served().filter(|l| l.pulled == least);
        behind.map(|l| l.last_progress.max(since) + patience).min()
    }

    /// Takes a straggler out of the group; returns the audience of its own session.
    pub fn detach_straggler(
        &mut self,
        now: Instant,
        since: Instant,
        patience: Duration,
    ) -> Option<(usize, Audience)> {
        if self.straggler_at(since, patience)? > now {
            return None;
        }
        let least = self.pulled();
        let is_silent = |l: &Listener| l.last_progress.max(since) + patience <= now;
        self.detach(|l| l.pulled == least && is_silent(l), Listener::clone)
    }
}

impl Listener {
    pub fn new(now: Instant) -> Self {
        Listener {
            pulled: 0,
            finishing: false,
            wanted: BTreeMap::new(),
            first_wanted: 0,
            last_progress: now,
        }
    }

    /// Notes a pull whose counter is not below that of the last one.
    pub fn advance(&mut self, now: Instant, counter: u32, finishing: bool) {
        if counter > self.pulled {
            self.last_progress = now;
        }
        self.pulled = counter;
        self.finishing = finishing;
    }

    /// A pull said that `repairs` repair symbols of `block` are needed in all. False: it asks for
    /// more blocks at a time than any receiver has open.
    pub fn want(&mut self, block: u32, repairs: u32) -> bool {
        if block < self.first_wanted {
            return true;
        }
        let is_new = !self.wanted.contains_key(&block);
        if is_new && self.wanted.len() >= MAX_WANTED_BLOCKS {
            return false;
        }
        let wanted = self.wanted.entry(block).or_insert(0);
        *wanted = repairs.max(*wanted);
        true
    }

    /// Notes that a pull wants nothing more of the blocks before `block`.
    pub fn has_all_before(&mut self, block: u32) {
        self.first_wanted = self.first_wanted.max(block);
        while let Some(entry) = self.wanted.first_entry()
            && *entry.key() < self.first_wanted
        {
            entry.remove();
        }
    }
}
