//! The sending side of a Trevi session.

use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header, PacketType};

use super::DETACHED;
use super::audience::{Audience, Listener};
use super::blocks::{Blocks, MAX_OPEN, with_overhead};
use super::params::{Mode, Stragglers, TreviParams};
use super::rate::Rate;
use crate::code::{EncodeJob, EncodeResult, Encoders, Lt, MAX_ENCODERS, SENDER_SHIFT};
use crate::object::ObjectSource;
use crate::receiver_driven::{Cast, Ending, Retry, Section, SenderSession, StreamShape};
use crate::record::{Counters, GroupSummary};
use crate::{FlowId, Job, JobResult, Role};

/// Questions in a row without an answer after which nothing is pushed until one comes.
const MAX_SILENT: u32 = 3;

/// A packet without payload that asks for a sign of life.
const QUESTION: EbbFlags = EbbFlags(EbbFlags::TRIMMED.0 | EbbFlags::RETRANSMIT.0);

pub struct Sender {
    params: TreviParams,
    /// Session flags of all packets: whether it is of a group, or one of several senders.
    cast: EbbFlags,
    /// The number of this sender, and of how many.
    sender: u8,
    senders: u8,
    audience: Audience,
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    encoders: Encoders<Lt>,
    /// The block that is pushed in hybrid mode; the number of blocks: none.
    block: u32,
    /// Symbols of that block that have been pushed.
    pushed: u32,
    /// Blocks that all receivers have delivered.
    delivered: u32,
    /// Number of the next symbol, whatever its block. It starts again when it has no more bits.
    number: u32,
    /// Symbols that may be pushed before all receivers have said something.
    unverified: u32,
    /// Symbols that have been pushed since a receiver was heard last.
    unheard: u32,
    /// When symbols are pushed. None: whenever the link is free.
    rate: Option<Rate>,
    /// A packet without payload is to leave, with these flags: it asks for a sign of life, or is one.
    bare: Option<EbbFlags>,
    ending: Option<Ending>,
    counters: Counters,
}

/// Packets that may leave now.
enum Next {
    Bare(EbbFlags),
    /// The answer to requests for a symbol of this block.
    Answer(u32),
    Push,
}

impl Sender {
    fn new_rate(&self, now: Instant) -> Option<Rate> {
        let header_bytes = Ipv4Header::BYTES + EbbHeader::BYTES;
        let packet_bytes = header_bytes + usize::from(self.blocks.shape.symbol_bytes);
        matches!(self.params.mode, Mode::ConstantRate | Mode::Hybrid)
            .then(|| Rate::new(now, self.params.rate_bps, packet_bytes))
    }

    /// The block whose symbols are pushed; the number of blocks: none.
    fn pushed_block(&self) -> u32 {
        let count = self.blocks.count();
        match self.params.mode {
            Mode::ConstantRate | Mode::Push => self.audience.wanted().unwrap_or(count),
            Mode::Hybrid => self.block,
            Mode::Pull => count,
        }
    }

    /// In hybrid mode: whether pushing has to wait for receivers.
    fn is_ahead(&self) -> bool {
        self.params.mode == Mode::Hybrid && self.block >= self.delivered.saturating_add(MAX_OPEN)
    }

    /// Symbols that are pushed at most for a packet of a receiver, which somebody else may have forged:
    /// those of a full block.
    fn earned(&self) -> u32 {
        let symbols = f64::from(self.params.block_symbols) * (1.0 + self.params.overhead);
        (symbols.ceil() as u32).max(self.params.initial_window_packets)
    }

    /// Whether symbols are to be pushed to somebody who is there.
    fn pushes(&self) -> bool {
        let mut served = self.audience.served();
        let is_there = served.any(|l| l.retry.silent() < MAX_SILENT)
            && self.unheard < self.earned()
            && (self.unverified > 0 || self.audience.all_verified());
        self.pushed_block() < self.blocks.count() && is_there && !self.is_ahead()
    }

    fn handle_request(&mut self, from: usize, header: &EbbHeader) -> bool {
        if header.block >= self.blocks.count() {
            return false;
        }
        let delivered = self.blocks.within(header.object_bytes);
        let Some(listener) = self.audience.get_mut(from) else {
            return false;
        };
        let pushes = matches!(self.params.mode, Mode::ConstantRate | Mode::Push);
        match (pushes, header.pull) {
            (true, 0) => listener.wanted = header.block,
            (true, _) => return false,
            // A sign of life.
            (false, 0) => listener.has_delivered(delivered),
            (false, label) => {
                listener.has_delivered(delivered);
                if !listener.request(label, header.block) {
                    return false;
                }
            }
        }
        listener.is_idle = false;
        if pushes {
            self.encoders.forget_before(self.pushed_block());
        } else {
            self.forget_delivered();
        }
        true
    }

    /// Forgets the blocks that all receivers have delivered.
    fn forget_delivered(&mut self) {
        let delivered = self.audience.delivered();
        if delivered <= self.delivered {
            return;
        }
        self.delivered = delivered;
        self.encoders.forget_before(delivered);
        if self.block < delivered {
            (self.block, self.pushed) = (delivered, 0);
        }
    }

    /// A receiver wants nothing; `finished`: nothing ever again. False: it was not served.
    fn handle_stop(&mut self, from: usize, finished: bool) -> bool {
        if finished && self.audience.has_finished(from) {
            // It has not heard yet that we know.
            return true;
        }
        let Some(listener) = self.audience.get_mut(from) else {
            return false;
        };
        listener.set_idle();
        if finished {
            self.audience.finish(from);
        }
        if self.audience.all_idle() {
            // Hybrid: who is told to stop does not push again.
            self.block = self.blocks.count();
        }
        self.end_if_nobody_is_left();
        true
    }

    fn end_if_nobody_is_left(&mut self) {
        self.ending = self.audience.ending();
        self.forget_delivered();
    }

    /// Whether anything is pushed when somebody is there.
    fn has_to_push(&self) -> bool {
        self.pushed_block() < self.blocks.count()
    }

    /// Requests are answered when all have asked, so that the slowest sets the pace. In hybrid mode
    /// they are for what got lost, which is not lost by all alike.
    fn waits_for_all(&self) -> bool {
        self.params.mode == Mode::Pull && self.params.stragglers != Stragglers::Unsubscribe
    }

    fn next(&self) -> Option<Next> {
        if let Some(flags) = self.bare {
            return Some(Next::Bare(flags));
        }
        let at_hand = |block| self.encoders.has(block);
        if let Some(block) = self.audience.asked_for(self.waits_for_all(), at_hand) {
            return Some(Next::Answer(block));
        }
        let is_due = self.rate.as_ref().is_none_or(Rate::is_due);
        (is_due && self.pushes() && self.encoders.has(self.pushed_block())).then_some(Next::Push)
    }

    /// The blocks whose encoders are wanted, most urgent first, and the one that probably follows.
    fn needed_encoders(&self) -> Vec<u32> {
        let pushed = Some(self.pushed_block()).filter(|_| self.pushes());
        let mut needed = Vec::with_capacity(MAX_ENCODERS);
        let mut add = |block| {
            if !needed.contains(&block) && needed.len() < MAX_ENCODERS {
                needed.push(block);
            }
        };
        pushed.into_iter().for_each(&mut add);
        for listener in self.audience.served() {
            let blocks = listener.requested.iter().map(|&(_, block)| block);
            blocks.for_each(&mut add);
        }
        if let Some(next) = needed.iter().max().map(|last| last + 1)
            && next < self.blocks.count()
            && needed.len() < MAX_ENCODERS
        {
            needed.push(next);
        }
        needed
    }

    /// Fields that all our packets have.
    fn header(&self, flags: EbbFlags, block: u32) -> EbbHeader {
        let syn = EbbFlags::SYN.when(!self.audience.all_verified());
        let mut header = EbbHeader {
            flags: flags | self.cast | syn,
            level: self.params.mode.code(),
            sender: self.sender,
            senders: self.senders,
            block: block.min(self.blocks.count() - 1),
            ..EbbHeader::new(PacketType::Coded, 0, 0)
        };
        self.blocks.shape.write(&mut header);
        header.payload_bytes = self.blocks.shape.symbol_bytes;
        header
    }

    /// A symbol of `block` that answers `label`; 0: it answers nothing.
    fn symbol(&mut self, block: u32, label: u32, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        let number = u32::from(self.sender) << SENDER_SHIFT | self.number;
        self.encoders.append(block, number, payload)?;
        let header = EbbHeader {
            symbol: self.number,
            pull: label,
            ..self.header(EbbFlags::NONE, block)
        };
        self.number = (self.number + 1) % EbbHeader::SYMBOL_LIMIT;
        Ok(header)
    }

    fn push(&mut self, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        let block = self.pushed_block();
        let mut header = self.symbol(block, 0, payload)?;
        self.unverified = self.unverified.saturating_sub(1);
        self.unheard += 1;
        if self.unheard == self.earned() / 2 {
            // The answer comes before the rest has been sent.
            self.bare = Some(QUESTION);
        }
        if let Some(rate) = &mut self.rate {
            rate.sent();
        }
        if self.params.mode == Mode::Hybrid {
            self.pushed += 1;
            if self.pushed >= with_overhead(self.blocks.coded(block), self.params.overhead) {
                (self.block, self.pushed) = (block + 1, 0);
                header.flags |= EbbFlags::FIN.when(self.block == self.blocks.count());
            }
        }
        Ok(header)
    }

    /// Notes for whom the others of a group wait now.
    fn note_behind(&mut self, now: Instant) {
        if !self.audience.is_group() || self.params.stragglers == Stragglers::Wait {
            return;
        }
        let mode = self.params.mode;
        let (some_finished, is_last) = (
            self.audience.some_finished(),
            self.audience.waits_for_last(),
        );
        let unsubscribes = self.params.stragglers == Stragglers::Unsubscribe;
        let waits_for_all = self.waits_for_all() && self.audience.has_requests();
        let awake = || self.audience.served().filter(|l| !l.is_idle);
        let last_wanted = awake().map(|l| l.wanted).max().unwrap_or(0);
        let most = self.audience.served().map(|l| l.delivered).max();
        let (is_ahead, most) = (self.is_ahead(), most.unwrap_or(0));
        let window_is_spent = mode != Mode::Pull
            && self.unverified == 0
            && self.audience.served().any(|l| l.is_verified);
        self.audience.note_behind(now, |listener| {
            let behind = match mode {
                Mode::Pull => waits_for_all && listener.requested.is_empty(),
                Mode::ConstantRate | Mode::Push => {
                    !listener.is_idle && listener.wanted < last_wanted
                }
                Mode::Hybrid => is_ahead && listener.delivered < most,
            };
            // After the last block nobody asks for a next one. Who wants nothing may be checking what it
            // has, for as long as it answers.
            let is_last = is_last && (unsubscribes || !listener.is_idle);
            let is_gone = some_finished && listener.retry.silent() > 0;
            behind || is_last || is_gone || window_is_spent && !listener.is_verified
        });
    }

    fn straggler_timeout(&self) -> Duration {
        Duration::from_nanos(self.params.straggler_timeout_ns)
    }

    /// When a receiver for which the others wait is a straggler.
    fn straggler_at(&self) -> Option<Instant> {
        self.audience.straggler_at(self.straggler_timeout())
    }

    /// A session for a receiver that has left the group.
    fn detached(&self, now: Instant, audience: Audience) -> Self {
        Sender {
            params: self.params,
            cast: EbbFlags::NONE,
            sender: DETACHED,
            senders: 1,
            // The group has had the initial window.
            unverified: 0,
            unheard: 0,
            // It waits for symbols that nobody else requests: it is notified that it is alone.
            bare: Some(QUESTION),
            audience,
            source: self.source.clone(),
            blocks: self.blocks,
            encoders: Encoders::default(),
            block: self.blocks.count(),
            pushed: 0,
            delivered: 0,
            number: 0,
            rate: self.new_rate(now),
            ending: None,
            counters: Counters::default(),
        }
    }

    /// Asks those for a sign of life who have been silent for too long, and gives up who still is.
    fn ask_the_silent(&mut self, now: Instant) {
        let is_pushed = self.has_to_push();
        let timed_out = self.audience.time_out(now, is_pushed);
        self.counters.timeouts += timed_out.repeated;
        if timed_out.probe {
            self.bare = Some(QUESTION);
        }
    }
}

impl SenderSession for Sender {
    type Params = TreviParams;

    fn open(
        now: Instant,
        params: &TreviParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        cast: Cast,
    ) -> Self {
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols: params.block_symbols,
        };
        let (cast, receivers, (sender, senders)) = match cast {
            Cast::Unicast => (EbbFlags::NONE, 1, (0, 1)),
            Cast::Group { receivers } => (EbbFlags::MULTICAST, receivers, (0, 1)),
            Cast::Part(part) => (EbbFlags::MULTI_SOURCE, 1, (part.sender, part.senders)),
        };
        let retry = Retry::new(now, params.session().retry());
        let audience = Audience::new(vec![Listener::new(retry.clone()); receivers]);
        let new = Sender {
            params: *params,
            cast,
            sender,
            senders,
            audience,
            source,
            blocks: Blocks { shape },
            encoders: Encoders::default(),
            block: 0,
            pushed: 0,
            delivered: 0,
            number: 0,
            unverified: params.initial_window_packets,
            unheard: 0,
            rate: None,
            // Nobody asks for a symbol of something that nobody knows of.
            bare: (params.mode == Mode::Pull).then_some(QUESTION),
            ending: None,
            counters: Counters::default(),
        };
        Sender {
            rate: new.new_rate(now),
            ..new
        }
    }

    fn handle_control(&mut self, now: Instant, from: usize, header: &EbbHeader) {
        let was_pushing = self.pushes();
        let accepted = match header.packet_type {
            PacketType::Request => self.handle_request(from, header),
            PacketType::Stop => self.handle_stop(from, header.flags.contains(EbbFlags::FIN)),
            _ => false,
        };
        if !accepted {
            self.counters.rejected += 1;
            return;
        }
        self.counters.pulls_received += u64::from(header.pull > 0);
        self.unheard = 0;
        if let Some(listener) = self.audience.get_mut(from) {
            listener.retry.heard(now);
            listener.is_verified = true;
        }
        if !was_pushing && let Some(rate) = &mut self.rate {
            rate.restart(now);
        }
        let asked = header.flags.contains(EbbFlags::RETRANSMIT);
        self.bare = asked.then_some(EbbFlags::TRIMMED);
        self.note_behind(now);
    }

    fn done_bytes(&self) -> u64 {
        match self.params.mode {
            Mode::ConstantRate | Mode::Push => self.blocks.offset(self.pushed_block()),
            Mode::Pull | Mode::Hybrid => self.blocks.offset(self.delivered),
        }
    }

    fn poll_job(&mut self, flow: FlowId) -> Option<Job> {
        let needed = self.needed_encoders();
        let block = self.encoders.start(&needed)?;
        let (shape, extent) = (self.blocks.coded(block), self.blocks.extent(block));
        let work = EncodeJob::<Lt>::new(shape, extent, self.source.clone());
        Some(Job::new(flow, Role::Sender, work))
    }

    fn handle_job(&mut self, result: JobResult) -> io::Result<()> {
        self.counters.encodes += 1;
        self.counters.encode_ns += result.cpu_time.as_nanos();
        result
            .output::<EncodeResult<Lt>>()
            .map_or(Ok(()), |built| self.encoders.built(built))
    }

    fn can_send(&self) -> bool {
        self.ending.is_none() && self.next().is_some()
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        let header = match self.next() {
            Some(Next::Answer(block)) => {
                let label = self.audience.answer(block);
                self.symbol(block, label, payload)?
            }
            Some(Next::Push) => self.push(payload)?,
            Some(Next::Bare(flags)) => {
                self.bare = None;
                self.header(flags, self.pushed_block())
            }
            None => self.header(EbbFlags::TRIMMED, self.pushed_block()),
        };
        self.note_behind(now);
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() {
            return None;
        }
        let (is_pushed, some_finished) = (self.has_to_push(), self.audience.some_finished());
        let served = self.audience.served();
        let question = served.map(|l| l.question_at(is_pushed, some_finished));
        let due = self.rate.as_ref().filter(|_| self.pushes());
        let due = due.and_then(Rate::deadline);
        question.chain(due).chain(self.straggler_at()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(rate) = &mut self.rate {
            rate.advance(now);
        }
        self.ask_the_silent(now);
        let unsubscribes = self.params.stragglers == Stragglers::Unsubscribe;
        if unsubscribes {
            self.audience
                .give_up_stragglers(now, self.straggler_timeout());
        }
        self.note_behind(now);
        self.end_if_nobody_is_left();
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn receiver_left(&mut self, from: usize, reason: String) {
        self.audience.leave(from, reason);
        self.end_if_nobody_is_left();
    }

    fn take_detached(&mut self, now: Instant) -> Option<(usize, Self)> {
        if self.params.stragglers != Stragglers::Drop {
            return None;
        }
        let (index, audience) = self
            .audience
            .detach_straggler(now, self.straggler_timeout())?;
        // It may have been the last one.
        self.end_if_nobody_is_left();
        self.note_behind(now);
        Some((index, self.detached(now, audience)))
    }

    fn unfinished(&self) -> Vec<usize> {
        self.audience.unfinished()
    }

    fn group(&self) -> Option<GroupSummary> {
        let is_group = self.cast.contains(EbbFlags::MULTICAST);
        is_group.then(|| self.audience.summary())
    }
}
