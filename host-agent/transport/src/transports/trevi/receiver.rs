//! The receiving side of a Trevi session.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::blocks::Blocks;
use super::params::TreviParams;
use super::tract::Tract;
use crate::code::{DecodeResult, SENDER_SHIFT};
use crate::receiver_driven::{Buffers, Ending, Outbox, ReceiverSession, Retry, StreamShape};
use crate::record::Counters;
use crate::{FlowId, Job, JobResult, Role};

/// Blocks that are received, decoded or wait for an earlier one at a time.
const MAX_OPEN: u32 = 4;
/// Symbols that nobody wants until the sender is told once more what is wanted.
const UNWANTED: u64 = 16;

pub struct Receiver {
    flow: FlowId,
    blocks: Blocks,
    overhead: f64,
    progress_timeout: Duration,
    max_buffer_bytes: u64,
    /// Every block below has been delivered.
    next_delivered: u32,
    /// The blocks from `next_delivered` on, as far as they have been wanted.
    open: VecDeque<Tract>,
    /// Symbols since the sender was last told what is wanted, of blocks that were not.
    unwanted: u64,
    /// Whether the sender has been told anything.
    has_spoken: bool,
    /// Whether it was heard after that.
    is_answered: bool,
    paused: bool,
    last_progress: Instant,
    /// When the sender was last told something that it has to act on.
    last_told: Instant,
    retry: Retry,
    confirmed: bool,
    ending: Option<Ending>,
    counters: Counters,
}

impl Receiver {
    pub fn new(now: Instant, params: &TreviParams, flow: FlowId, shape: StreamShape) -> Self {
        Receiver {
            flow,
            blocks: Blocks { shape },
            overhead: params.overhead,
            progress_timeout: Duration::from_nanos(params.progress_timeout_ns),
            max_buffer_bytes: params.max_buffer_bytes,
            next_delivered: 0,
            open: VecDeque::new(),
            unwanted: 0,
            has_spoken: false,
            is_answered: false,
            paused: false,
            last_progress: now,
            last_told: now,
            retry: Retry::new(now, params.retry()),
            confirmed: false,
            ending: None,
            counters: Counters::default(),
        }
    }

    /// The first block that needs symbols. None: nothing is to be sent.
    fn wanted(&self) -> Option<u32> {
        if self.paused || self.ending.is_some() {
            return None;
        }
        let at = self.open.iter().position(Tract::is_receiving);
        let offset = at.map_or(self.open.len() as u32, |at| at as u32);
        let block = self.next_delivered + offset;
        (block < self.blocks.count() && offset < MAX_OPEN).then_some(block)
    }

    /// Tells the sender what is wanted.
    fn tell(&mut self, now: Instant, flags: EbbFlags, out: &mut Outbox) {
        self.has_spoken = true;
        self.unwanted = 0;
        self.last_told = now;
        let fin = EbbFlags::FIN.when(self.ending == Some(Ending::Finished));
        out.control.push(match self.wanted() {
            Some(block) => EbbHeader {
                flags,
                block,
                ..EbbHeader::new(PacketType::Request, 0, 0)
            },
            None => self.blocks.stop(flags | fin),
        });
    }

    /// Whether the header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        StreamShape::of(header) != self.blocks.shape
            || header.block >= self.blocks.count()
            || header.payload_bytes != self.blocks.shape.symbol_bytes
    }

    /// Takes a symbol. False: nobody wants it.
    fn store(&mut self, header: &EbbHeader, payload: &[u8], buffers: &mut Buffers) -> bool {
        let Some(index) = header.block.checked_sub(self.next_delivered) else {
            return false;
        };
        if index >= MAX_OPEN || self.ending.is_some() {
            return false;
        }
        let room = buffers.held() + payload.len() as u64 <= self.max_buffer_bytes;
        if index > 0 && !room {
            return false;
        }
        while self.open.len() <= index as usize {
            let block = self.next_delivered + self.open.len() as u32;
            self.open
                .push_back(Tract::new(self.blocks.coded(block), self.overhead));
        }
        let number = u32::from(header.sender) << SENDER_SHIFT | header.symbol;
        self.open[index as usize].receive(number, payload, buffers)
    }

    /// Starts whatever decoding has become possible.
    fn decode(&mut self, out: &mut Outbox) {
        for tract in &mut self.open {
            if let Some(job) = tract.decode() {
                out.jobs.push(Job::new(self.flow, Role::Receiver, job));
            }
        }
    }

    /// Hands over the blocks whose turn has come.
    fn deliver(&mut self, out: &mut Outbox) {
        while self.open.front().is_some_and(Tract::is_complete) {
            let Some(mut tract) = self.open.pop_front() else {
                break;
            };
            let (_, len) = self.blocks.extent(self.next_delivered);
            out.delivered.push(tract.take_bytes(len, &mut out.buffers));
            self.next_delivered += 1;
        }
        if self.next_delivered == self.blocks.count() && self.ending.is_none() {
            self.ending = Some(Ending::Finished);
        }
    }

    /// Does what an arrival or a decoded block makes possible, and tells the sender if it has to act
    /// otherwise than `before`.
    fn go_on(&mut self, now: Instant, before: Option<u32>, out: &mut Outbox) {
        let had_ended = self.ending.is_some();
        self.decode(out);
        self.deliver(out);
        let news = self.wanted() != before || self.ending.is_some() != had_ended;
        let late = self.unwanted > 0 && self.unwanted.is_multiple_of(UNWANTED);
        if news || late || !self.has_spoken {
            self.tell(now, EbbFlags::NONE, out);
        }
    }

    fn progress_deadline(&self) -> Option<Instant> {
        // Decoding, or the application, takes as long as it takes.
        self.wanted()
            .map(|_| self.last_progress + self.progress_timeout)
    }

    /// When the sender is told once more: that it is to stop, or what is wanted of one that is silent.
    fn told_again_at(&self) -> Instant {
        let since = self.retry.last_heard().max(self.last_told);
        match self.wanted() {
            None if self.ending.is_none() && self.retry.silent() == 0 => {
                since + self.retry.longest_interval()
            }
            _ => self.retry.deadline(since),
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
        if self.is_foreign(header) {
            self.counters.rejected += 1;
            return;
        }
        self.retry.heard(now);
        self.is_answered |= self.has_spoken;
        let before = self.wanted();
        if let Some(payload) = payload {
            if self.store(header, payload, &mut out.buffers) {
                self.last_progress = now;
            } else {
                self.counters.unneeded += 1;
                self.unwanted += 1;
            }
        }
        if header.flags.contains(EbbFlags::RETRANSMIT) {
            self.tell(now, EbbFlags::NONE, out);
        }
        self.go_on(now, before, out);
    }

    fn handle_job(&mut self, now: Instant, result: JobResult, out: &mut Outbox) {
        self.counters.decodes += 1;
        self.counters.decode_ns += result.cpu_time.as_nanos();
        let Some(result) = result.output::<DecodeResult>() else {
            return;
        };
        let before = self.wanted();
        let number = result.symbols.shape().block;
        let index = number.checked_sub(self.next_delivered);
        let Some(tract) = index.and_then(|index| self.open.get_mut(index as usize)) else {
            result.release(&mut out.buffers);
            return;
        };
        tract.decoded(result);
        if tract.is_hopeless() {
            self.ending = Some(Ending::Failed(format!(
                "block {number} does not decode: symbols arrived that are not of this object"
            )));
            return;
        }
        self.last_progress = now;
        self.go_on(now, before, out);
    }

    fn discard(result: JobResult, buffers: &mut Buffers) {
        if let Some(result) = result.output::<DecodeResult>() {
            result.release(buffers);
        }
    }

    fn next_pull(&mut self, _: Instant) -> Option<EbbHeader> {
        None
    }

    fn sender_left(&mut self, _: Instant, _: usize, reason: String, _: &mut Outbox) {
        self.confirmed = true;
        self.ending.get_or_insert(Ending::Failed(reason));
    }

    fn set_paused(&mut self, now: Instant, paused: bool, out: &mut Outbox) {
        if self.paused != paused && self.ending.is_none() {
            self.paused = paused;
            self.last_progress = now;
            self.tell(now, EbbFlags::NONE, out);
        }
    }

    fn done_bytes(&self) -> u64 {
        self.blocks.offset(self.next_delivered)
    }

    fn arrived_bytes(&self) -> u64 {
        let symbols = self.counters.packets_received - self.counters.unneeded;
        let bytes = symbols * u64::from(self.blocks.shape.symbol_bytes);
        bytes
            .min(self.blocks.shape.object_bytes)
            .max(self.done_bytes())
    }

    fn release(&mut self, buffers: &mut Buffers) {
        for tract in &mut self.open {
            tract.release(buffers);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let again = (!self.confirmed).then(|| self.told_again_at());
        again.into_iter().chain(self.progress_deadline()).min()
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.progress_deadline().is_some_and(|at| at <= now) {
            self.ending = Some(Ending::Failed(format!(
                "no symbol of use arrived for {}",
                now.since(self.last_progress)
            )));
            return;
        }
        if now < self.told_again_at() {
            return;
        }
        self.counters.timeouts += 1;
        let goes_on = self.retry.expired(now);
        match self.ending {
            // It is gone, or will hear of the end when it asks.
            Some(_) if self.retry.is_exhausted() => self.confirmed = true,
            None if !goes_on => {
                self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            }
            // A stranger, who may never have sent anything, is asked no more.
            None if self.retry.is_exhausted() && !self.is_answered => {}
            _ => self.tell(now, EbbFlags::RETRANSMIT.when(self.ending.is_none()), out),
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Everything is here, but the application has not said yet what becomes of it: nothing is to be
    /// sent.
    fn answer_held(&self, _: &EbbHeader) -> Option<EbbHeader> {
        Some(self.blocks.stop(EbbFlags::NONE))
    }

    fn closing(&self) -> EbbHeader {
        self.blocks.stop(EbbFlags::FIN)
    }
}
