//! The receiving side of a Trevi session: what arrives, and what it makes of it. What to ask for is in
//! `demand`.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader};

use super::blocks::{Blocks, MAX_OPEN};
use super::params::{Mode, TreviParams};
use super::pull::Pull;
use super::tract::Tract;
use crate::code::{DecodeResult, SENDER_SHIFT};
use crate::receiver_driven::{Buffers, Ending, Outbox, ReceiverSession, Retry, StreamShape};
use crate::record::Counters;
use crate::{FlowId, Job, JobResult, Role};

/// Symbols that nobody wants until the sender is told once more what is wanted.
const UNWANTED: u64 = 16;

pub struct Receiver {
    flow: FlowId,
    pub(super) blocks: Blocks,
    overhead: f64,
    progress_timeout: Duration,
    max_buffer_bytes: u64,
    /// Every block below has been delivered.
    pub(super) next_delivered: u32,
    /// The blocks from `next_delivered` on, as far as they have been wanted.
    pub(super) open: VecDeque<Tract>,
    /// Requests for single symbols. None: the sender pushes them.
    pub(super) pull: Option<Pull>,
    /// Symbols since the sender was last told what is wanted, of blocks that were not.
    pub(super) unwanted: u64,
    /// Whether the sender has been told anything.
    pub(super) has_spoken: bool,
    /// Whether it was heard after that.
    is_answered: bool,
    pub(super) paused: bool,
    last_progress: Instant,
    /// When the sender was last told something that it has to act on.
    pub(super) last_told: Instant,
    pub(super) retry: Retry,
    confirmed: bool,
    pub(super) ending: Option<Ending>,
    pub(super) counters: Counters,
}

impl Receiver {
    /// `first`: the packet that opens the session. None: no sender has its mode.
    pub fn new(
        now: Instant,
        params: &TreviParams,
        flow: FlowId,
        first: &EbbHeader,
    ) -> Option<Self> {
        // The session id is random: labels of two sessions have nothing to do with each other.
        let seed = u64::from(first.session) << 32 | flow.0;
        let pull = match Mode::of_code(first.level)? {
            Mode::ConstantRate | Mode::Push => None,
            Mode::Pull => Some(Pull::new(params, seed, false)),
            Mode::Hybrid => Some(Pull::new(params, seed, true)),
        };
        Some(Receiver {
            flow,
            blocks: Blocks {
                shape: StreamShape::of(first),
            },
            overhead: params.overhead,
            progress_timeout: Duration::from_nanos(params.progress_timeout_ns),
            max_buffer_bytes: params.max_buffer_bytes,
            next_delivered: 0,
            open: VecDeque::new(),
            pull,
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
        })
    }

    /// Whether the header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        StreamShape::of(header) != self.blocks.shape
            || header.block >= self.blocks.count()
            || header.payload_bytes != self.blocks.shape.symbol_bytes
    }

    /// Where `block`, which is not delivered, is in `open`, with all before it.
    pub(super) fn open_block(&mut self, block: u32) -> usize {
        let index = (block - self.next_delivered) as usize;
        while self.open.len() <= index {
            let block = self.next_delivered + self.open.len() as u32;
            let shape = self.blocks.coded(block);
            self.open.push_back(Tract::new(shape, self.overhead));
        }
        index
    }

    /// Whether the block at `index` of `open` may hold a symbol more.
    pub(super) fn has_room(&self, index: usize, buffers: &Buffers) -> bool {
        let more = u64::from(self.blocks.shape.symbol_bytes);
        index == 0 || buffers.held() + more <= self.max_buffer_bytes
    }

    /// Takes a symbol. False: nobody wants it.
    fn store(&mut self, header: &EbbHeader, payload: &[u8], buffers: &mut Buffers) -> bool {
        let offset = header.block.checked_sub(self.next_delivered);
        if offset.is_none_or(|offset| offset >= MAX_OPEN) || self.ending.is_some() {
            return false;
        }
        let index = self.open_block(header.block);
        let number = u32::from(header.sender) << SENDER_SHIFT | header.symbol;
        self.has_room(index, buffers) && self.open[index].receive(number, payload, buffers)
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
        self.ask(now, out);
        let has_ended = self.ending.is_some() != had_ended;
        // Requests for symbols say all there is to say.
        let pushed = self.pull.as_ref().is_none_or(Pull::is_pushed);
        let news = has_ended || pushed && self.wanted() != before;
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
            if let Some(pull) = &mut self.pull {
                pull.arrived(now, header);
            }
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
        if self.paused == paused || self.ending.is_some() {
            return;
        }
        self.paused = paused;
        self.last_progress = now;
        if let Some(pull) = &mut self.pull {
            // Who is told to stop does not push again.
            pull.ask_for_all();
        }
        self.tell(now, EbbFlags::NONE, out);
        self.ask(now, out);
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
        let expiry = self.pull.as_ref().filter(|_| self.ending.is_none());
        let expiry = expiry.and_then(|pull| pull.requests.deadline());
        let all = again.into_iter().chain(self.progress_deadline());
        all.chain(expiry).min()
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.progress_deadline().is_some_and(|at| at <= now) {
            self.ending = Some(Ending::Failed(format!(
                "no symbol of use arrived for {}",
                now.since(self.last_progress)
            )));
            return;
        }
        if let Some(pull) = &mut self.pull {
            pull.expire(now);
        }
        if now >= self.told_again_at() {
            self.tell_again(now, out);
        }
        self.ask(now, out);
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

impl Receiver {
    fn tell_again(&mut self, now: Instant, out: &mut Outbox) {
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
            _ => {
                if let Some(pull) = &mut self.pull {
                    pull.ask_again();
                }
                self.tell(now, EbbFlags::RETRANSMIT.when(self.ending.is_none()), out);
            }
        }
    }
}
