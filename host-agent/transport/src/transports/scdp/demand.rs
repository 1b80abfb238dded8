//! Requests of a receiver to its senders, and when it gives up what it asked for.
//!
//! Every pull asks one sender for one symbol. In this order:
//!
//! 1. a repair symbol of the lowest block that needs more symbols than are there or to come, unless
//!    the sender has source symbols of it left, which it sends first;
//! 2. the sender's next source symbol, if its block is among the `max_open_blocks` first;
//! 3. in place of a source symbol that a slower sender has not been asked for yet, a repair symbol
//!    of the lowest block that lacks one.
//!
//! Nothing is asked for if nothing is needed: without loss `K - window` pulls in all, with t trims
//! `K + 2 + t - window`.

use std::ops::Range;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::blocks::Share;
use super::receiver::{Membership, Receiver};
use super::supplier::{Lost, Probe, State};
use crate::receiver_driven::{Ending, Outbox};

/// Kind of symbol that a pull asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Source,
    /// A repair symbol of the block at this place of `open`.
    Repair(usize),
}

impl Receiver {
    /// Symbols that are needed and have not been asked for.
    fn left(&self) -> u64 {
        let deficits: u64 = self.open.iter().map(|b| u64::from(b.deficit())).sum();
        let sources: u64 = self.suppliers.iter().map(|s| s.left()).sum();
        // Blocks not opened yet need more if a sender's share of them does not come.
        let opened = self.next_delivered + self.open.len() as u32;
        let more =
            opened < self.blocks.count() && self.suppliers.iter().any(|s| !s.sends_sources());
        deficits + sources + u64::from(more)
    }

    fn queued(&self) -> u64 {
        self.suppliers.iter().map(|s| s.queued).sum()
    }

    /// All that is needed has been asked for.
    pub(super) fn all_asked(&self) -> bool {
        self.queued() == 0 && self.left() == 0
    }

    /// Puts the pulls of a sender that are due into the queue.
    pub(super) fn enqueue(&mut self, index: usize, out: &mut Outbox) {
        let supplier = &self.suppliers[index];
        if self.paused || self.ending.is_some() || !supplier.can_be_asked() {
            return;
        }
        let left = self.left().saturating_sub(self.queued());
        let mut pulls = supplier.room().min(left);
        if self.suppliers.len() == 1 && supplier.sends_sources() {
            // With one sender it is certain what is asked for: no more than the open blocks take.
            let deficits: u64 = self.open.iter().map(|b| u64::from(b.deficit())).sum();
            let end = self.next_delivered.saturating_add(self.max_open_blocks);
            let within = self.blocks.share_start(supplier.share, end);
            let sources = within.saturating_sub(supplier.position);
            pulls = pulls.min((deficits + sources).saturating_sub(supplier.queued));
        }
        self.suppliers[index].queued += pulls;
        out.pulls += pulls;
    }

    /// The same for all of them, in turn.
    pub(super) fn enqueue_all(&mut self, out: &mut Outbox) {
        for n in 0..self.suppliers.len() {
            self.enqueue((self.turn + n) % self.suppliers.len(), out);
        }
    }

    /// The next pull of the queue, if it is still of use.
    pub(super) fn take_pull(&mut self, now: Instant) -> Option<EbbHeader> {
        let senders = self.suppliers.len();
        for _ in 0..senders {
            let index = self.turn;
            self.turn = (self.turn + 1) % senders;
            while self.suppliers[index].queued > 0 {
                self.suppliers[index].queued -= 1;
                if let Some(ask) = self.choose(index) {
                    return Some(self.pull(now, index, ask));
                }
            }
        }
        None
    }

    fn pull(&mut self, now: Instant, index: usize, ask: Ask) -> EbbHeader {
        let supplier = &mut self.suppliers[index];
        supplier.last_activity = now;
        let counter = supplier.pull(matches!(ask, Ask::Repair(_)));
        let of = match ask {
            Ask::Repair(at) => {
                self.open[at].ask_repairs(index, 1);
                Some(at)
            }
            Ask::Source => None,
        };
        let pull = EbbHeader {
            flags: EbbFlags::FIN.when(self.all_asked()),
            pull: counter,
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        };
        self.addressed(index, self.speaking_of(index, of, pull))
    }

    /// Adds to a pull how many symbols of a block are needed from this sender in all, how much of
    /// the object has been delivered, and how many blocks after that it is to skip. The block: that
    /// of the repair symbol that the pull asks for, else the first that is not complete, in case
    /// that a pull was lost.
    pub(super) fn speaking_of(
        &self,
        index: usize,
        of: Option<usize>,
        pull: EbbHeader,
    ) -> EbbHeader {
        let first = || self.open.iter().position(|block| block.is_receiving());
        let at = of.or_else(first).unwrap_or(0);
        let number = self.next_delivered + at as u32;
        let share = self.suppliers[index].share;
        let sources = share.symbols(self.blocks.source_symbols(number));
        let repairs = self.open.get(at).map_or(0, |b| b.repairs_asked(index));
        EbbHeader {
            block: number,
            symbol: (u32::from(sources) + repairs).min(EbbHeader::SYMBOL_LIMIT - 1),
            object_bytes: self.blocks.offset(self.next_delivered),
            block_symbols: self.suppliers[index]
                .skips_to
                .saturating_sub(self.next_delivered)
                .min(u16::MAX.into()) as u16,
            ..pull
        }
    }

    fn choose(&mut self, index: usize) -> Option<Ask> {
        let end = self.next_delivered.saturating_add(self.max_open_blocks);
        self.skip(index);
        let supplier = &self.suppliers[index];
        let next = (supplier.left() > 0)
            .then(|| self.blocks.share_block(supplier.share, supplier.position));
        if let Some(at) = self.open.iter().position(|block| block.deficit() > 0) {
            let number = self.next_delivered + at as u32;
            return Some(match next {
                Some(block) if block <= number => Ask::Source,
                _ => Ask::Repair(at),
            });
        }
        if next.is_some_and(|block| block < end) {
            return Some(Ask::Source);
        }
        let alone = self.suppliers.len() == 1;
        if alone && supplier.sends_sources() {
            return None;
        }
        for number in self.next_delivered..end.min(self.blocks.count()) {
            let at = self.open_block(number)?;
            if self.open[at].deficit() > 0 || self.take_over(index, at) {
                return Some(Ask::Repair(at));
            }
        }
        None
    }

    /// Takes the last source symbol of the block at `at` that a slower sender has not been asked
    /// for off its share. A sender that is behind by no more than its window will catch up.
    fn take_over(&mut self, by: usize, at: usize) -> bool {
        let number = self.next_delivered + at as u32;
        for index in 0..self.suppliers.len() {
            let supplier = &self.suppliers[index];
            // Its share may be larger, by a symbol per block.
            let larger = supplier.total.saturating_sub(self.suppliers[by].total);
            let patience = match () {
                () if supplier.is_suspect() => 0,
                () if supplier.is_slow => supplier.window(),
                () => supplier.window() + larger,
            };
            if index == by || supplier.left() <= patience {
                continue;
            }
            let share = supplier.share;
            let start = self.blocks.share_start(share, number);
            let asked = supplier.position.saturating_sub(start) as u32;
            let block = &mut self.open[at];
            let sources = u32::from(share.symbols(block.source_symbols()));
            let last = (asked..sources).rev().map(|n| share.nth(n));
            if block.is_receiving()
                && let Some(esi) = last.clone().find(|&esi| block.is_due(esi))
            {
                block.abandon_source(esi);
                self.suppliers[index].is_slow = true;
                self.suppliers[index].taken_over += 1;
                return true;
            }
        }
        false
    }

    /// Moves a sender's position over source symbols that are not wanted from it any more: those
    /// of complete blocks, and those that others have taken over.
    fn skip(&mut self, index: usize) {
        loop {
            let supplier = &self.suppliers[index];
            if !supplier.sends_sources() || supplier.position >= supplier.total {
                return;
            }
            let number = self.blocks.share_block(supplier.share, supplier.position);
            let start = self.blocks.share_start(supplier.share, number);
            let esi = supplier.share.nth((supplier.position - start) as u32);
            let at = number.checked_sub(self.next_delivered);
            let Some(block) = at.and_then(|at| self.open.get(at as usize)) else {
                return;
            };
            if block.is_receiving() && block.is_due(esi) {
                return;
            }
            self.pass_block(index, number);
        }
    }

    /// Moves a sender's position behind `number`, which is open.
    fn pass_block(&mut self, index: usize, number: u32) {
        let supplier = &mut self.suppliers[index];
        let share = supplier.share;
        let start = self.blocks.share_start(share, number);
        let symbols = u64::from(share.symbols(self.blocks.source_symbols(number)));
        let asked = supplier.position.saturating_sub(start).min(symbols);
        if supplier.position >= start + symbols {
            return;
        }
        if let Some(block) = self.open.get((number - self.next_delivered) as usize) {
            let passed = (asked..symbols).filter(|&n| !block.is_due(share.nth(n as u32)));
            let taken_over = passed.count() as u64;
            supplier.taken_over = supplier.taken_over.saturating_sub(taken_over);
        }
        supplier.position = start + symbols;
        supplier.skips_to = number + 1;
    }

    /// The first block is about to be delivered.
    pub(super) fn skip_first_block(&mut self) {
        for index in 0..self.suppliers.len() {
            if self.suppliers[index].sends_sources() {
                self.pass_block(index, self.next_delivered);
            }
        }
    }

    /// Gives up the packets that a sender was asked for.
    pub(super) fn write_off(&mut self, index: usize) {
        let supplier = &mut self.suppliers[index];
        supplier.write_off();
        let (share, position) = (supplier.share, supplier.position);
        let reached = match position.checked_sub(1) {
            Some(last) if supplier.sends_sources() => self.blocks.share_block(share, last),
            _ => 0,
        };
        let end = self.next_delivered.saturating_add(self.max_open_blocks);
        if reached >= self.next_delivered {
            self.open_block(reached.min(end));
        }
        self.abandon_sources(share, 0..position);
        for block in &mut self.open {
            block.abandon_repairs(index);
        }
    }

    /// Counts no longer on these source symbols of a share; returns how many of them had been
    /// counted on.
    fn abandon_sources(&mut self, share: Share, positions: Range<u64>) -> u64 {
        let mut abandoned = 0;
        for (number, block) in (self.next_delivered..).zip(&mut self.open) {
            let start = self.blocks.share_start(share, number);
            let symbols = u64::from(share.symbols(block.source_symbols()));
            let place = |position: u64| position.saturating_sub(start).min(symbols);
            for n in place(positions.start)..place(positions.end) {
                abandoned += u64::from(block.abandon_source(share.nth(n as u32)));
            }
        }
        abandoned
    }

    /// Gives up what is lost of a sender's symbols. What keeps arriving restarts the timer, and the
    /// window would stay smaller by what was lost.
    pub(super) fn give_up_lost(&mut self, now: Instant, index: usize, out: &mut Outbox) {
        if let Some(lost) = self.suppliers[index].lost(now) {
            self.give_up(index, lost, out);
        }
    }

    fn give_up(&mut self, index: usize, lost: Lost, out: &mut Outbox) {
        let supplier = &mut self.suppliers[index];
        // Each position once: a peer may cause this as often as it likes.
        let positions = supplier.given_up..lost.before;
        supplier.given_up = supplier.given_up.max(lost.before);
        let share = supplier.share;
        let sources = self.abandon_sources(share, positions);
        let at = lost
            .repairs_of
            .and_then(|block| block.checked_sub(self.next_delivered));
        let block = at.and_then(|at| self.open.get_mut(at as usize));
        let repairs = block.map_or(0, |block| block.abandon_repairs(index));
        if sources > 0 || repairs > 0 {
            self.suppliers[index].give_up(sources, repairs.into());
            self.decode_all(out);
        }
    }

    /// Something is missing, nothing is under way, and nothing that happens here will change that.
    fn is_stuck(&self) -> bool {
        let first_waits = self.open.front().is_none_or(|block| block.is_receiving());
        first_waits
            && self
                .suppliers
                .iter()
                .all(|s| !s.can_be_asked() || s.under_way() + s.queued == 0)
    }

    /// When a sender has kept us waiting for too long.
    fn timeout_of(&self, index: usize) -> Option<Instant> {
        let supplier = &self.suppliers[index];
        match supplier.state {
            State::Unheard => Some(supplier.retry.deadline(supplier.last_activity)),
            State::Late | State::Gone(_) => None,
            State::Heard | State::RepairsOnly => {
                let waits = supplier.queued == 0 && supplier.under_way() > 0;
                (waits || self.is_stuck()).then(|| supplier.retry.deadline(supplier.last_activity))
            }
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        if self.ending.is_some() || self.paused {
            return None;
        }
        (0..self.suppliers.len())
            .filter_map(|index| self.timeout_of(index))
            .chain(self.progress_deadline())
            .min()
    }

    pub(super) fn time_out(&mut self, now: Instant, out: &mut Outbox) {
        if self.ending.is_some() || self.paused {
            return;
        }
        if self.progress_deadline().is_some_and(|at| at <= now) {
            self.ending = Some(Ending::Failed(
                "no symbol of use has arrived for `scdp.progress_timeout_ns`".into(),
            ));
            return;
        }
        for index in 0..self.suppliers.len() {
            if self.timeout_of(index).is_some_and(|at| at <= now) {
                self.counters.timeouts += 1;
                self.time_out_of(now, index, out);
            }
        }
    }

    fn time_out_of(&mut self, now: Instant, index: usize, out: &mut Outbox) {
        let stuck = self.is_stuck();
        let supplier = &mut self.suppliers[index];
        if supplier.state == State::Unheard {
            // Others do its work until it comes.
            supplier.is_late(self.blocks.share_start(supplier.share, self.next_delivered));
            self.enqueue_all(out);
            return;
        }
        let alive = supplier.retry.expired(now);
        if !alive {
            let reason = supplier.retry.gave_up_reason(now);
            self.lose_supplier(index, reason, out);
            return;
        }
        if supplier.retry.is_exhausted() {
            // It has pulls enough. A sender that lives and has lost them all asks by itself.
            return;
        }
        supplier.stalled += 1;
        if supplier.stalled > 2 * supplier.retry.max_retries() {
            let stalled = supplier.stalled;
            let reason = format!("no progress in {stalled} timeouts, but the peer lives");
            self.lose_supplier(index, reason, out);
        } else if supplier.stalled == 1 && supplier.counter() > 0 {
            // Symbols that were overtaken are lost. All under way may be, or the last pull: its
            // counter is cumulative, so the next one, or the same again, makes up for it.
            let overtaken = Lost {
                before: supplier.overtaken,
                repairs_of: None,
            };
            self.give_up(index, overtaken, out);
            let pull = self.probe(now, index);
            out.control.push(pull);
            self.enqueue(index, out);
        } else {
            self.write_off(index);
            if stuck {
                self.abandon_first_block();
            }
            self.decode_all(out);
            self.enqueue_all(out);
        }
    }

    /// A pull for one symbol beyond the window, or in a group the last one again: it may be waiting
    /// for others.
    fn probe(&mut self, now: Instant, index: usize) -> EbbHeader {
        self.skip(index);
        let ask = match self.next_source(index) {
            Some(_) => Some(Ask::Source),
            None => {
                let at = self.open.iter().position(|block| block.is_receiving());
                at.map(Ask::Repair)
            }
        };
        let Some(ask) = ask.filter(|_| self.membership == Membership::Alone) else {
            return self.repeated_pull(index);
        };
        let supplier = &self.suppliers[index];
        let repair = match ask {
            Ask::Source => None,
            Ask::Repair(at) => {
                let block = &self.open[at];
                let asked = supplier.share.nth(block.repairs_asked(index));
                let esi = u32::from(block.source_symbols()) + asked;
                Some((self.next_delivered + at as u32, esi))
            }
        };
        let position = supplier.position;
        self.suppliers[index].probe = Some(Probe { position, repair });
        self.pull(now, index, ask)
    }

    /// The block of a sender's next source symbol, if it is open or next to be.
    fn next_source(&self, index: usize) -> Option<u32> {
        let supplier = &self.suppliers[index];
        let end = self.next_delivered.saturating_add(self.max_open_blocks);
        let block = self.blocks.share_block(supplier.share, supplier.position);
        (supplier.left() > 0 && block < end).then_some(block)
    }

    /// Our accounts are wrong somewhere: what the first block lacks comes as repair symbols.
    fn abandon_first_block(&mut self) {
        let Some(at) = self.open_block(self.next_delivered) else {
            return;
        };
        for esi in 0..u32::from(self.open[at].source_symbols()) {
            self.open[at].abandon_source(esi);
        }
        for index in 0..self.suppliers.len() {
            self.open[at].abandon_repairs(index);
        }
    }
}
