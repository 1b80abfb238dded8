//! The receiving side of an SCDP session.

use std::collections::BTreeMap;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::block::{Block, Effect};
use super::{Blocks, DecodeResult, Scdp, ScdpParams};
use crate::receiver_driven::{
    Ending, Outbox, PullCredit, ReceiverSession, Retry, Scheme, StreamShape,
};
use crate::record::Counters;
use crate::{FlowId, Job};

/// A larger initial window than any sender has: bounds what a header can make us keep.
const MAX_WINDOW: u32 = 1024;

pub struct Receiver {
    flow: FlowId,
    blocks: Blocks,
    overhead_symbols: u16,
    max_open_blocks: u32,
    membership: Membership,
    /// Every block below has been delivered.
    next_delivered: u32,
    /// Blocks of which something has arrived, from `next_delivered` on.
    open: BTreeMap<u32, Block>,
    credit: PullCredit,
    retry: Retry,
    /// Timeouts since a packet arrived that was of use.
    stalled: u32,
    /// When something last arrived or a pull was sent.
    last_activity: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

/// Whether the session has other receivers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    Alone,
    /// All so far came to a multicast group.
    InGroup,
    /// Something came to us alone: what the group goes on to receive is a gift that nobody counts.
    Detached,
}

impl Membership {
    /// After a packet that went to the group or to us alone.
    fn after(self, to_group: bool) -> Self {
        match (self, to_group) {
            (Membership::Alone, false) => Membership::Alone,
            (Membership::InGroup, true) => Membership::InGroup,
            _ => Membership::Detached,
        }
    }
}

impl Receiver {
    /// `first`: the packet that opens the session.
    pub fn new(now: Instant, params: &ScdpParams, flow: FlowId, first: &EbbHeader) -> Self {
        let shape = StreamShape::of(first);
        // The sender's initial window.
        let window = first.pull;
        Receiver {
            flow,
            blocks: Blocks { shape },
            overhead_symbols: params.overhead_symbols,
            // With small blocks the initial window alone spans many.
            max_open_blocks: params
                .max_open_blocks
                .max(window.min(MAX_WINDOW) / u32::from(shape.block_symbols) + 2),
            membership: if first.flags.contains(EbbFlags::MULTICAST) {
                Membership::InGroup
            } else {
                Membership::Alone
            },
            next_delivered: 0,
            open: BTreeMap::new(),
            credit: PullCredit::new(u64::from(window), shape.packets()),
            retry: Retry::new(now, Scdp::retry(params)),
            stalled: 0,
            last_activity: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    /// The header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        if StreamShape::of(header) != self.blocks.shape || header.block >= self.blocks.count() {
            return true;
        }
        let is_source = header.symbol < u32::from(self.blocks.source_symbols(header.block));
        let payload_bytes = if is_source {
            self.blocks.extent(header.block, header.symbol).1
        } else {
            usize::from(self.blocks.shape.symbol_bytes)
        };
        header.flags.contains(EbbFlags::REPAIR) == is_source
            || usize::from(header.payload_bytes) != payload_bytes
            || header.block.saturating_sub(self.next_delivered) >= self.max_open_blocks
    }

    fn block(&mut self, number: u32) -> &mut Block {
        let source_symbols = self.blocks.source_symbols(number);
        let symbol_bytes = self.blocks.shape.symbol_bytes;
        let overhead = self.overhead_symbols;
        self.open
            .entry(number)
            .or_insert_with(|| Block::new(source_symbols, symbol_bytes, overhead))
    }

    /// Takes what arrived into the accounts of its block. False: it brought and cost nothing.
    fn account(&mut self, header: &EbbHeader, payload: Option<&[u8]>) -> bool {
        if header.block < self.next_delivered {
            return false;
        }
        let block = self.block(header.block);
        let needed = block.needed();
        let counts = match payload {
            Some(bytes) => block.receive(header.symbol, bytes) == Effect::Stored,
            // Of a symbol that is there, a trimmed copy says nothing.
            None if !block.is_receiving() || block.has(header.symbol) => false,
            None => {
                block.receive_trimmed();
                true
            }
        };
        let more = block.needed() - needed;
        self.credit.need_more(more.into());
        counts
    }

    /// The block of the symbol is complete. In a group others need the symbol; a straggler is sent
    /// it before its sender can know what the group has brought. Symbol 0 sent again belongs to
    /// no one's pulls.
    fn is_unneeded(&self, header: &EbbHeader) -> bool {
        let complete = header.block < self.next_delivered
            || self
                .open
                .get(&header.block)
                .is_some_and(|block| !block.is_receiving());
        self.membership != Membership::Alone
            && complete
            && !header.flags.contains(EbbFlags::RETRANSMIT)
    }

    fn deliver(&mut self, out: &mut Outbox) {
        while self
            .open
            .get(&self.next_delivered)
            .is_some_and(Block::is_complete)
        {
            let bytes = self
                .open
                .remove(&self.next_delivered)
                .and_then(Block::into_bytes);
            out.delivered.extend(bytes);
            self.next_delivered += 1;
        }
        if self.next_delivered == self.blocks.count() && self.ending.is_none() {
            self.ending = Some(Ending::Finished);
            out.control.push(self.closing());
        }
    }

    /// The block that a pull speaks of: one that needs more than the sender has been told; else
    /// the first that is not complete, in case that a pull was lost.
    fn block_to_announce(&self) -> u32 {
        if self.membership == Membership::Detached {
            // Whatever the group brings, this is where help is needed.
            let mut blocks = self.next_delivered..self.blocks.count();
            let missing =
                blocks.find(|number| self.open.get(number).is_none_or(Block::is_receiving));
            return missing.unwrap_or(self.next_delivered);
        }
        let untold = self
            .open
            .iter()
            .find(|(_, block)| block.needed() > block.announced);
        let incomplete = || self.open.iter().find(|(_, block)| !block.is_complete());
        untold
            .or_else(incomplete)
            .map_or(self.next_delivered, |(&number, _)| number)
    }

    fn pull(&mut self) -> EbbHeader {
        let number = self.block_to_announce();
        let block = self.block(number);
        block.announced = block.needed();
        EbbHeader {
            flags: EbbFlags::FIN.when(self.credit.all_asked()),
            block: number,
            symbol: self.block(number).announced,
            pull: self.credit.counter(),
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        }
    }

    /// What was under way has been lost. The sender sends blocks in order, so it was the first
    /// symbols that are missing.
    fn give_up_what_is_under_way(&mut self) {
        let mut lost = self.credit.under_way();
        self.credit.arrived(lost);
        let mut number = self.next_delivered;
        while lost > 0 && number < self.blocks.count() {
            let block = self.block(number);
            if block.is_receiving() {
                let here = lost.min(block.missing().into());
                let needed = block.needed();
                block.give_up(here as u32);
                let more = block.needed() - needed;
                lost -= here;
                self.credit.need_more(more.into());
            }
            number += 1;
        }
    }
}

impl ReceiverSession for Receiver {
    fn handle_data(
        &mut self,
        now: Instant,
        header: &EbbHeader,
        payload: Option<&[u8]>,
        out: &mut Outbox,
    ) {
        let to_group = header.flags.contains(EbbFlags::MULTICAST);
        let membership = self.membership.after(to_group);
        let gift = to_group && membership == Membership::Detached;
        if self.is_foreign(header) {
            self.counters.rejected += u64::from(!gift);
            return;
        }
        self.membership = membership;
        if !gift {
            self.retry.heard(now);
            self.last_activity = now;
        }
        if gift {
            // It neither answers a pull of ours nor says that our sender lives.
            if payload.is_some() {
                self.account(header, payload);
            }
        } else if self.is_unneeded(header) {
            // The sender sent it because of our pull too, but of no use: pull once more.
            self.stalled = 0;
            self.counters.unneeded += 1;
            self.credit.need_more(1);
            self.credit.arrived(1);
        } else if self.account(header, payload) {
            self.stalled = 0;
            self.credit.arrived(1);
        } else {
            self.counters.duplicates += 1;
        }
        let flow = self.flow;
        if let Some(block) = self.open.get_mut(&header.block)
            && let Some(job) = block.decode(flow, header.block)
        {
            out.jobs.push(Job::Decode(job));
        }
        self.deliver(out);
        out.pulls += self.credit.enqueue(false);
    }

    fn handle_job(&mut self, _: Instant, result: DecodeResult, out: &mut Outbox) {
        self.counters.decodes += 1;
        self.counters.decode_ns += result.cpu_time.as_nanos();
        let number = result.block;
        let (_, block_bytes) = self.blocks.block_extent(number);
        let Some(block) = self.open.get_mut(&number) else {
            return;
        };
        let needed = block.needed();
        block.decoded(result, block_bytes);
        let more = block.needed() - needed;
        self.credit.need_more(more.into());
        self.deliver(out);
        out.pulls += self.credit.enqueue(false);
    }

    fn next_pull(&mut self, now: Instant) -> Option<EbbHeader> {
        self.last_activity = now;
        self.credit.send();
        Some(self.pull())
    }

    fn deadline(&self) -> Option<Instant> {
        // While everything that is needed has arrived, only a decoding is waited for.
        let waits_for_peer = !self.credit.has_queued() && self.credit.under_way() > 0;
        (self.ending.is_none() && waits_for_peer).then(|| self.retry.deadline(self.last_activity))
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        self.counters.timeouts += 1;
        self.stalled += 1;
        if !self.retry.expired(now) {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
        } else if self.stalled > 2 * self.retry.max_retries() {
            let reason = format!(
                "no progress in {} timeouts, but the peer lives",
                self.stalled
            );
            self.ending = Some(Ending::Failed(reason));
        } else if self.stalled == 1 && self.credit.counter() > 0 {
            // The last pull may be lost. Its counter is cumulative, so repeating it is harmless.
            let pull = self.pull();
            out.control.push(pull);
        } else {
            self.give_up_what_is_under_way();
            out.pulls += self.credit.enqueue(true);
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// A pull that asks for nothing of a block that does not exist: everything is there.
    fn closing(&self) -> EbbHeader {
        EbbHeader {
            flags: EbbFlags::FIN,
            block: self.blocks.count(),
            pull: self.credit.counter(),
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        }
    }
}
