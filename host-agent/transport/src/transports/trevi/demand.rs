//! Demand of a receiver: the symbols that it requests of its senders, and requests again after a timeout.

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::blocks::MAX_OPEN;
use super::pull::Pull;
use super::receiver::Receiver;
use super::supplier::State;
use super::tract::Tract;
use crate::receiver_driven::{Ending, Outbox};

impl Receiver {
    /// The first block that needs symbols. None: nothing is to be sent.
    pub(super) fn wanted(&self) -> Option<u32> {
        if self.paused || self.ending.is_some() {
            return None;
        }
        let at = self.open.iter().position(Tract::is_receiving);
        let offset = at.map_or(self.open.len() as u32, |at| at as u32);
        let block = self.next_delivered + offset;
        (block < self.blocks.count() && offset < MAX_OPEN).then_some(block)
    }

    /// The header of a packet for one of several senders says for which.
    pub(super) fn addressed(&self, to: usize, header: EbbHeader) -> EbbHeader {
        if self.suppliers.len() == 1 {
            return header;
        }
        EbbHeader {
            flags: header.flags | EbbFlags::MULTI_SOURCE,
            sender: to as u8,
            senders: self.suppliers.len() as u8,
            ..header
        }
    }

    /// A request that says how far we are. `label` 0: it asks for no symbol in particular.
    fn request(&self, to: usize, block: u32, label: u32) -> EbbHeader {
        let request = EbbHeader {
            block,
            pull: label,
            object_bytes: self.blocks.offset(self.next_delivered),
            ..EbbHeader::new(PacketType::Request, 0, 0)
        };
        self.addressed(to, request)
    }

    /// Sends a sender the request for the next block, or a stop if none is wanted.
    pub(super) fn send_demand(
        &mut self,
        now: Instant,
        to: usize,
        flags: EbbFlags,
        out: &mut Outbox,
    ) {
        let fin = EbbFlags::FIN.when(self.ending == Some(Ending::Finished));
        out.control.push(match self.wanted() {
            Some(block) => {
                let request = self.request(to, block, 0);
                let flags = request.flags | flags;
                EbbHeader { flags, ..request }
            }
            None => self.addressed(to, self.blocks.stop(flags | fin)),
        });
        let supplier = &mut self.suppliers[to];
        supplier.has_spoken = true;
        supplier.unwanted = 0;
        supplier.last_demand = now;
    }

    /// Sends it to all senders that have been heard.
    pub(super) fn send_demand_to_all(&mut self, now: Instant, out: &mut Outbox) {
        for index in 0..self.suppliers.len() {
            if self.suppliers[index].is_heard() {
                self.send_demand(now, index, EbbFlags::NONE, out);
            }
        }
    }

    /// Asks senders for as many symbols as their windows and what is missing allow, `first` first.
    pub(super) fn ask_all(&mut self, now: Instant, first: usize, out: &mut Outbox) {
        let senders = self.suppliers.len();
        for n in 0..senders {
            self.ask(now, (first + n) % senders, out);
        }
    }

    fn ask(&mut self, now: Instant, to: usize, out: &mut Outbox) {
        if self.wanted().is_none() {
            return;
        }
        let end = self.next_delivered.saturating_add(MAX_OPEN);
        let end = end.min(self.blocks.count());
        let mut block = self.next_delivered;
        while let Some(pull) = &self.suppliers[to].pull
            && pull.has_room()
            && block < end.min(pull.until)
        {
            let pending = self.pending_of(block, to);
            let index = self.open_block(block);
            if self.open[index].missing() <= pending || !self.has_room(index, &out.buffers) {
                block += 1;
                continue;
            }
            let supplier = &mut self.suppliers[to];
            if let Some(pull) = &mut supplier.pull {
                let label = pull.ask(now, block);
                supplier.has_spoken = true;
                self.counters.pulls_sent += 1;
                out.control.push(self.request(to, block, label));
            }
        }
    }

    /// Symbols of a block that are to come, as far as the sender `to` is concerned: what others were
    /// asked for who do not answer is asked for again.
    fn pending_of(&self, block: u32, to: usize) -> u32 {
        let all = self.suppliers.iter().enumerate();
        let counted = all.filter(|(index, supplier)| *index == to || !supplier.is_doubtful());
        counted
            .map(|(_, supplier)| supplier.pending_of(block))
            .sum()
    }

    /// When a sender is told once more: that it is to stop, or what is wanted of one that is silent.
    /// One that was never heard cannot be told anything. None: nothing more is expected of it.
    fn told_again_at(&self, index: usize) -> Option<Instant> {
        let supplier = &self.suppliers[index];
        let retry = &supplier.retry;
        match supplier.state {
            State::Gone(_) => return None,
            State::Unheard if self.ending.is_some() => return None,
            State::Unheard => return Some(retry.give_up_at(retry.last_heard())),
            State::Heard if supplier.is_confirmed => return None,
            State::Heard => {}
        }
        let since = retry.last_heard().max(supplier.last_demand);
        Some(match self.wanted() {
            None if self.ending.is_none() && retry.silent() == 0 => {
                since + retry.longest_interval()
            }
            _ => retry.deadline(since),
        })
    }

    /// When something falls due with any of the senders.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let again = (0..self.suppliers.len()).filter_map(|index| self.told_again_at(index));
        let asking = self.suppliers.iter().filter(|_| self.ending.is_none());
        let pulls = asking.filter_map(|supplier| supplier.pull.as_ref());
        let expiries = pulls.filter_map(|pull| pull.requests.deadline());
        again.chain(expiries).min()
    }

    /// Does what is due with each of the senders.
    pub(super) fn act_on_silence(&mut self, now: Instant, out: &mut Outbox) {
        for index in 0..self.suppliers.len() {
            if let Some(pull) = &mut self.suppliers[index].pull {
                pull.expire(now);
            }
            if self.told_again_at(index).is_some_and(|at| at <= now) {
                self.tell_again(now, index, out);
            }
        }
        self.ask_all(now, 0, out);
    }

    fn tell_again(&mut self, now: Instant, index: usize, out: &mut Outbox) {
        self.counters.timeouts += 1;
        let supplier = &mut self.suppliers[index];
        let goes_on = supplier.retry.expired(now);
        match self.ending {
            // It is gone, or will hear of the end when it asks.
            Some(_) if supplier.retry.is_exhausted() => supplier.is_confirmed = true,
            None if !goes_on || !supplier.is_heard() => {
                let reason = supplier.retry.gave_up_reason(now);
                self.lose_supplier(index, reason);
            }
            // A stranger, who may never have sent anything, is asked no more.
            None if supplier.retry.is_exhausted() && !supplier.is_answered => {}
            _ => {
                if let Some(pull) = &mut supplier.pull {
                    pull.ask_again();
                }
                let flags = EbbFlags::RETRANSMIT.when(self.ending.is_none());
                self.send_demand(now, index, flags, out);
            }
        }
    }

    /// Nothing more comes from a sender; the session ends with the last one.
    pub(super) fn lose_supplier(&mut self, index: usize, reason: String) {
        let Some(supplier) = self.suppliers.get_mut(index) else {
            return;
        };
        supplier.is_confirmed = true;
        if self.ending.is_some() || supplier.is_gone() {
            return;
        }
        // Its requests are free to go to other senders.
        supplier.pull = None;
        supplier.state = State::Gone(reason.clone());
        if self.suppliers.iter().all(|s| s.is_gone()) {
            self.ending = Some(Ending::Failed(match self.suppliers.len() {
                1 => reason,
                senders => {
                    format!("none of {senders} senders is left; of the last one: {reason}")
                }
            }));
        }
    }

    /// Whoever was to push is asked symbol by symbol from now on.
    pub(super) fn ask_for_all(&mut self) {
        let pulls = self.suppliers.iter_mut().filter_map(|s| s.pull.as_mut());
        pulls.for_each(Pull::ask_for_all);
    }
}
