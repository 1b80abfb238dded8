//! The receiving side of an SCDP session: what arrives, and what it makes of it. What to ask for
//! is decided in `demand`.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::ScdpParams;
use super::block::{Block, Effect};
use super::blocks::{Blocks, Share};
use super::supplier::{MAX_WINDOW, State, Supplier};
use crate::code::DecodeResult;
use crate::receiver_driven::{
    Buffers, Ending, Outbox, ReceiverSession, Retry, Section, StreamShape,
};
use crate::record::{Counters, SenderSummary};
use crate::{FlowId, Job, JobResult, Role};

pub struct Receiver {
    pub(super) flow: FlowId,
    pub(super) blocks: Blocks,
    overhead_symbols: u16,
    /// Blocks that may be asked for, from the first that is not delivered on.
    pub(super) max_open_blocks: u32,
    progress_timeout: Duration,
    max_buffer_bytes: u64,
    pub(super) membership: Membership,
    /// Every block below has been delivered.
    pub(super) next_delivered: u32,
    /// The blocks from `next_delivered` on, up to the last of which something has arrived.
    pub(super) open: VecDeque<Block>,
    /// Delivered blocks, whose sets and lists can serve others.
    spare: Vec<Block>,
    /// The sender, or the senders of a many-to-one session in the order of their numbers.
    pub(super) suppliers: Vec<Supplier>,
    /// Index of the supplier whose pull leaves next.
    pub(super) turn: usize,
    /// How many blocks are being decoded.
    pub(super) decoding: u32,
    pub(super) paused: bool,
    /// When a symbol last arrived whole and was of use, here or in the group.
    last_progress: Instant,
    pub(super) ending: Option<Ending>,
    pub(super) counters: Counters,
}

/// Whether the session has other receivers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    Alone,
    /// All so far came to a multicast group.
    InGroup,
    /// Something came to us alone: what the group goes on to receive is a gift that nobody counts.
    Detached,
}

impl Membership {
    /// Knowledge after one more packet, which went to the group or to us alone.
    fn after(self, to_group: bool) -> Self {
        match (self, to_group) {
            (Membership::Alone, false) => Membership::Alone,
            (Membership::InGroup, true) => Membership::InGroup,
            _ => Membership::Detached,
        }
    }
}

impl Receiver {
    /// The sender that a packet says it is from.
    fn from(&self, header: &EbbHeader) -> usize {
        if self.suppliers.len() > 1 {
            usize::from(header.sender)
        } else {
            0
        }
    }

    /// Whether the header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        let Some(supplier) = self.suppliers.get(self.from(header)) else {
            return true;
        };
        if StreamShape::of(header) != self.blocks.shape || header.block >= self.blocks.count() {
            return true;
        }
        let source_symbols = u32::from(self.blocks.source_symbols(header.block));
        let is_source = header.symbol < source_symbols;
        let payload_bytes = if is_source {
            self.blocks.extent(header.block, header.symbol).1
        } else {
            usize::from(self.blocks.shape.symbol_bytes)
        };
        let in_kind = if is_source {
            header.symbol
        } else {
            header.symbol - source_symbols
        };
        let share = supplier.share;
        header.flags.contains(EbbFlags::REPAIR) == is_source
            || usize::from(header.payload_bytes) != payload_bytes
            || in_kind % u32::from(share.senders) != u32::from(share.sender)
            // A lost pull can make a sender go on a little farther than it was asked to.
            || header.block.saturating_sub(self.next_delivered) >= self.max_open_blocks + 2
    }

    /// Where `number` is in `open`, with all before it; `None` if it was delivered.
    pub(super) fn open_block(&mut self, number: u32) -> Option<usize> {
        let index = number.checked_sub(self.next_delivered)? as usize;
        while self.open.len() <= index {
            let number = self.next_delivered + self.open.len() as u32;
            let source_symbols = self.blocks.source_symbols(number);
            let mut block = self.spare.pop().unwrap_or_default();
            block.reset(
                self.blocks.coded(number),
                self.overhead_symbols,
                self.suppliers.len(),
            );
            for supplier in self.suppliers.iter().filter(|s| !s.sends_sources()) {
                for index in 0..supplier.share.symbols(source_symbols) {
                    block.abandon_source(supplier.share.nth(index.into()));
                }
            }
            self.open.push_back(block);
        }
        Some(index)
    }

    /// Hands a symbol that arrived to its block.
    fn store(
        &mut self,
        from: usize,
        header: &EbbHeader,
        payload: Option<&[u8]>,
        buffers: &mut Buffers,
    ) -> Effect {
        let Some(index) = self.open_block(header.block) else {
            return Effect::TooLate;
        };
        let block = &mut self.open[index];
        // Where memory is short a symbol is as good as trimmed, but for the block whose turn it is.
        let more = u64::from(self.blocks.shape.symbol_bytes);
        let room = index == 0 || buffers.held() + more <= self.max_buffer_bytes;
        match payload.filter(|_| room) {
            Some(bytes) => block.receive(from, header.symbol, bytes, buffers),
            None => block.receive_trimmed(from, header.symbol),
        }
    }

    /// A symbol of a block that needs no more was asked for all the same: because others of
    /// the group needed it, because it was a repair symbol, or because two senders were at work on
    /// one block. Symbol 0 sent again was asked for by nobody.
    fn was_asked_for(&self, header: &EbbHeader) -> bool {
        let shared = self.membership != Membership::Alone || self.suppliers.len() > 1;
        let repair = header.flags.contains(EbbFlags::REPAIR);
        (shared || repair) && !header.flags.contains(EbbFlags::RETRANSMIT)
    }

    /// Notes an arrival in the accounts of its sender.
    fn account(
        &mut self,
        now: Instant,
        from: usize,
        header: &EbbHeader,
        whole: bool,
        effect: Effect,
    ) {
        let counts = match effect {
            Effect::Stored => true,
            Effect::TooLate => self.was_asked_for(header),
            Effect::Duplicate => false,
        };
        if !counts {
            self.counters.duplicates += 1;
            return;
        }
        self.counters.unneeded += u64::from(effect == Effect::TooLate);
        // More of a block than it can need is no progress, however much of it comes.
        let of_use = |at: u32| !self.open.get(at as usize).is_some_and(Block::is_saturated);
        let at = header.block.checked_sub(self.next_delivered);
        if whole && effect == Effect::Stored && at.is_some_and(of_use) {
            self.last_progress = now;
        }
        let supplier = &mut self.suppliers[from];
        supplier.stalled = 0;
        supplier.arrived();
        if header.flags.contains(EbbFlags::REPAIR) {
            supplier.repair_arrived(header.block, header.symbol);
        } else {
            let start = self.blocks.share_start(supplier.share, header.block);
            supplier.passed(start + u64::from(supplier.share.index(header.symbol)));
        }
    }

    /// From now on somebody sends repair symbols for us alone, counted from the first.
    fn leave_group(&mut self) {
        self.suppliers[0].state = State::RepairsOnly;
        self.suppliers[0].write_off();
        for block in &mut self.open {
            for esi in 0..u32::from(block.source_symbols()) {
                block.abandon_source(esi);
            }
            block.abandon_repairs(0);
            block.restart_repairs(0, 0);
        }
    }

    /// Starts whatever decoding has become possible.
    pub(super) fn decode(&mut self, index: usize, out: &mut Outbox) {
        let job = self.open.get_mut(index);
        if let Some(job) = job.and_then(Block::decode) {
            self.decoding += 1;
            out.jobs.push(Job::new(self.flow, Role::Receiver, job));
        }
    }

    /// Hands over the blocks whose turn has come. True if there were any.
    fn deliver(&mut self, out: &mut Outbox) -> bool {
        let before = self.next_delivered;
        while self.open.front().is_some_and(Block::is_complete) {
            self.skip_first_block();
            let Some(mut block) = self.open.pop_front() else {
                break;
            };
            let (_, len) = self.blocks.block_extent(self.next_delivered);
            out.delivered
                .extend(block.take_bytes(len, &mut out.buffers));
            self.spare.push(block);
            self.next_delivered += 1;
        }
        if self.next_delivered == self.blocks.count() && self.ending.is_none() {
            self.ending = Some(Ending::Finished);
            for index in 0..self.suppliers.len() {
                if self.suppliers[index].can_be_asked() {
                    let closing = self.closing();
                    out.control.push(self.addressed(index, closing));
                }
            }
        }
        self.next_delivered > before
    }

    /// The header of a pull for one of several senders says for which.
    pub(super) fn addressed(&self, index: usize, header: EbbHeader) -> EbbHeader {
        if self.suppliers.len() == 1 {
            return header;
        }
        EbbHeader {
            flags: header.flags | EbbFlags::MULTI_SOURCE,
            sender: index as u8,
            senders: self.suppliers.len() as u8,
            ..header
        }
    }

    /// A pull that asks for nothing new: it repeats the last one.
    pub(super) fn repeated_pull(&mut self, index: usize) -> EbbHeader {
        let pull = EbbHeader {
            flags: EbbFlags::FIN.when(self.all_asked()),
            pull: self.suppliers[index].counter(),
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        };
        self.addressed(index, self.speaking_of(index, None, pull))
    }

    /// When the sender is given up for lack of progress. None: a block is being decoded.
    pub(super) fn progress_deadline(&self) -> Option<Instant> {
        (self.decoding == 0).then(|| self.last_progress + self.progress_timeout)
    }

    /// Notes that a supplier is gone for good; the session ends with the last one.
    pub(super) fn lose_supplier(&mut self, index: usize, reason: String, out: &mut Outbox) {
        if self.ending.is_some() || !self.suppliers[index].is_alive() {
            return;
        }
        self.write_off(index);
        let share = self.suppliers[index].share;
        for block in &mut self.open {
            for n in 0..share.symbols(block.source_symbols()) {
                block.abandon_source(share.nth(n.into()));
            }
        }
        let senders = self.suppliers.len();
        let last = self.suppliers.iter().filter(|s| s.is_alive()).count() == 1;
        if last {
            self.ending = Some(Ending::Failed(match senders {
                1 => reason.clone(),
                _ => format!("none of {senders} senders is left; of the last one: {reason}"),
            }));
        }
        let supplier = &mut self.suppliers[index];
        supplier.queued = 0;
        supplier.state = State::Gone(reason);
        if !last {
            self.decode_all(out);
            self.enqueue_all(out);
        }
    }

    pub(super) fn decode_all(&mut self, out: &mut Outbox) {
        for index in 0..self.open.len() {
            self.decode(index, out);
        }
    }
}

impl ReceiverSession for Receiver {
    type Params = ScdpParams;

    fn open(
        now: Instant,
        params: &ScdpParams,
        flow: FlowId,
        _: u64,
        first: &EbbHeader,
    ) -> Option<Self> {
        let shape = StreamShape::of(first);
        if !(1..=ScdpParams::MAX_BLOCK_SYMBOLS).contains(&shape.block_symbols) {
            return None;
        }
        let blocks = Blocks { shape };
        let senders = if first.flags.contains(EbbFlags::MULTI_SOURCE) {
            first.senders.max(1)
        } else {
            1
        };
        let retry = Retry::new(now, params.session().retry());
        let supplier = |sender| {
            let share = Share { sender, senders };
            Supplier::new(now, share, &blocks, first.pull, &retry)
        };
        let suppliers: Vec<Supplier> = (0..senders).map(supplier).collect();
        // With small blocks the initial windows alone span many.
        let unasked = u64::from(first.pull).min(MAX_WINDOW) * u64::from(senders);
        let spanned = unasked as u32 / u32::from(blocks.shape.block_symbols) + 2;
        Some(Receiver {
            flow,
            overhead_symbols: params.overhead_symbols,
            max_open_blocks: params.max_open_blocks.max(spanned),
            progress_timeout: Duration::from_nanos(params.progress_timeout_ns),
            max_buffer_bytes: params.max_buffer_bytes,
            membership: if first.flags.contains(EbbFlags::MULTICAST) {
                Membership::InGroup
            } else {
                Membership::Alone
            },
            next_delivered: 0,
            open: VecDeque::new(),
            spare: Vec::new(),
            blocks,
            suppliers,
            turn: 0,
            decoding: 0,
            paused: false,
            last_progress: now,
            ending: None,
            counters: Counters::default(),
        })
    }

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
        let from = self.from(header);
        if membership == Membership::Detached && self.membership != Membership::Detached {
            self.leave_group();
        }
        self.membership = membership;
        if gift {
            // It neither answers a pull of ours nor says that our sender lives.
            if payload.is_some()
                && self.store(from, header, payload, &mut out.buffers) == Effect::Stored
            {
                self.last_progress = now;
            }
        } else {
            self.suppliers[from].heard(now, header.pull);
            self.suppliers[from].received += u64::from(payload.is_some());
            let effect = self.store(from, header, payload, &mut out.buffers);
            self.account(now, from, header, payload.is_some(), effect);
            self.note_repairs_sent(from, header);
            self.give_up_lost(now, from, out);
        }
        if let Some(index) = header.block.checked_sub(self.next_delivered) {
            self.decode(index as usize, out);
        }
        let advanced = self.deliver(out);
        if self.ending.is_some() {
            return;
        }
        if header.flags.contains(EbbFlags::RETRANSMIT) && !gift {
            // The sender wants to know whether we live.
            out.control.push(self.repeated_pull(from));
        }
        if advanced {
            self.enqueue_all(out);
        } else if !gift {
            self.enqueue(from, out);
        }
    }

    fn handle_job(&mut self, now: Instant, result: JobResult, out: &mut Outbox) {
        self.counters.decodes += 1;
        self.counters.decode_ns += result.cpu_time.as_nanos();
        let Some(result) = result.output::<DecodeResult>() else {
            return;
        };
        self.decoding = self.decoding.saturating_sub(1);
        self.last_progress = now;
        let number = result.symbols.shape().block;
        let index = number.checked_sub(self.next_delivered);
        let Some(block) = index.and_then(|index| self.open.get_mut(index as usize)) else {
            result.release(&mut out.buffers);
            return;
        };
        block.decoded(result);
        if block.is_hopeless() {
            self.ending = Some(Ending::Failed(format!(
                "block {number} does not decode: symbols arrived that are not of this object"
            )));
            return;
        }
        self.deliver(out);
        self.enqueue_all(out);
    }

    fn discard(result: JobResult, buffers: &mut Buffers) {
        if let Some(result) = result.output::<DecodeResult>() {
            result.release(buffers);
        }
    }

    fn next_pull(&mut self, now: Instant) -> Option<EbbHeader> {
        self.take_pull(now)
    }

    fn sender_left(&mut self, _: Instant, from: usize, reason: String, out: &mut Outbox) {
        if from < self.suppliers.len() {
            self.lose_supplier(from, reason, out);
        }
    }

    fn set_paused(&mut self, now: Instant, paused: bool, out: &mut Outbox) {
        if self.paused == paused {
            return;
        }
        self.paused = paused;
        for supplier in &mut self.suppliers {
            // The host's pull queue may still hold them; they are not sent.
            supplier.queued = 0;
            supplier.last_activity = now;
        }
        self.last_progress = now;
        self.enqueue_all(out);
    }

    fn done_bytes(&self) -> u64 {
        self.blocks.offset(self.next_delivered)
    }

    fn arrived_bytes(&self) -> u64 {
        let useless = self.counters.duplicates + self.counters.unneeded;
        let symbols = self.counters.packets_received.saturating_sub(useless);
        let shape = self.blocks.shape;
        (symbols * u64::from(shape.symbol_bytes)).min(shape.object_bytes)
    }

    fn release(&mut self, buffers: &mut Buffers) {
        for block in &mut self.open {
            block.release(buffers);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.time_out(now, out);
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn sources(&self) -> Vec<SenderSummary> {
        if self.suppliers.len() == 1 {
            return Vec::new();
        }
        let all = self.suppliers.iter();
        all.map(|supplier| SenderSummary {
            peer: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            packets_received: supplier.received,
            left: match &supplier.state {
                State::Gone(reason) => Some(reason.clone()),
                _ => None,
            },
        })
        .collect()
    }

    /// A pull that asks for nothing.
    fn answer_held(&self, late: &EbbHeader) -> Option<EbbHeader> {
        let gift =
            late.flags.contains(EbbFlags::MULTICAST) && self.membership == Membership::Detached;
        let asks = late.flags.contains(EbbFlags::RETRANSMIT) && !gift;
        let index = self.from(late);
        let supplier = self.suppliers.get(index).filter(|_| asks)?;
        let pull = EbbHeader {
            flags: EbbFlags::FIN,
            pull: supplier.counter(),
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        };
        Some(self.addressed(index, pull))
    }

    /// A pull that asks for nothing of a block that does not exist: everything is there.
    fn closing(&self) -> EbbHeader {
        let counter = match &self.suppliers[..] {
            [only] => only.counter(),
            _ => 0,
        };
        let closing = EbbHeader {
            flags: EbbFlags::FIN,
            block: self.blocks.count(),
            pull: counter,
            object_bytes: self.blocks.shape.object_bytes,
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        };
        self.addressed(0, closing)
    }
}

#[cfg(test)]
impl Receiver {
    pub fn buffered_bytes(&self) -> usize {
        self.open.iter().map(Block::buffered_bytes).sum()
    }
}

impl Receiver {
    /// A detached receiver learns from their numbers how many repair symbols were sent for it.
    fn note_repairs_sent(&mut self, from: usize, header: &EbbHeader) {
        if self.membership != Membership::Detached || !header.flags.contains(EbbFlags::REPAIR) {
            return;
        }
        let first = u32::from(self.blocks.source_symbols(header.block)) + super::DETACHED_REPAIR;
        let index = header.block.checked_sub(self.next_delivered);
        if let Some(number) = header.symbol.checked_sub(first)
            && let Some(block) = index.and_then(|index| self.open.get_mut(index as usize))
        {
            block.repairs_sent(from, number + 1);
        }
    }
}
