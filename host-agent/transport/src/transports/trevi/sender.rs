//! The sending side of a Trevi session.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header, PacketType};

use super::blocks::{Blocks, MAX_OPEN, with_overhead};
use super::params::{MAX_REQUESTS, Mode, TreviParams};
use super::rate::Rate;
use crate::code::{EncodeJob, EncodeResult, Encoders, Lt, MAX_ENCODERS};
use crate::object::ObjectSource;
use crate::receiver_driven::{Ending, Retry, SenderSession, StreamShape};
use crate::record::Counters;
use crate::{FlowId, Job, JobResult, Role};

/// Questions in a row without an answer after which nothing is pushed until one comes.
const MAX_SILENT: u32 = 3;

pub struct Sender {
    mode: Mode,
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    encoders: Encoders<Lt>,
    /// The block whose symbols are pushed; the number of blocks: none.
    block: u32,
    /// Symbols of that block that have been pushed, and in hybrid mode are at most.
    pushed: u32,
    overhead: f64,
    /// Blocks that the receiver has delivered, as it says in requests.
    delivered: u32,
    /// Number of the next symbol, whatever its block. It starts again when it has no more bits.
    number: u32,
    /// Labels and blocks of the requests that wait to be answered.
    requested: VecDeque<(u32, u32)>,
    /// Symbols that may leave before the receiver has said anything. None: it has.
    unverified: Option<u32>,
    /// When symbols are pushed. None: whenever the link is free.
    rate: Option<Rate>,
    /// A packet without payload is to leave, with these flags: it asks for a sign of life, or is one.
    bare: Option<EbbFlags>,
    retry: Retry,
    ending: Option<Ending>,
    counters: Counters,
}

/// What may leave now.
enum Next {
    Bare(EbbFlags),
    /// The answer to the request at this index of `requested`.
    Answer(usize),
    Push,
}

impl Sender {
    pub fn new(
        now: Instant,
        params: &TreviParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
    ) -> Self {
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols: params.block_symbols,
        };
        let packet_bytes = Ipv4Header::BYTES + EbbHeader::BYTES + usize::from(symbol_bytes);
        let rate = || Rate::new(now, params.rate_bps, packet_bytes);
        let blocks = Blocks { shape };
        let pulled = params.mode == Mode::Pull;
        let question = EbbFlags::TRIMMED | EbbFlags::RETRANSMIT;
        Sender {
            mode: params.mode,
            source,
            blocks,
            encoders: Encoders::default(),
            block: if pulled { blocks.count() } else { 0 },
            pushed: 0,
            overhead: params.overhead,
            delivered: 0,
            number: 0,
            requested: VecDeque::new(),
            unverified: Some(params.initial_window_packets),
            rate: matches!(params.mode, Mode::ConstantRate | Mode::Hybrid).then(rate),
            // Nobody asks for a symbol of something that nobody knows of.
            bare: pulled.then_some(question),
            retry: Retry::new(now, params.retry()),
            ending: None,
            counters: Counters::default(),
        }
    }

    /// Whether symbols are to be pushed to somebody who is there.
    fn pushes(&self) -> bool {
        let waits = self.mode == Mode::Hybrid && self.block >= self.delivered + MAX_OPEN;
        let is_there = self.unverified != Some(0) && self.retry.silent() < MAX_SILENT;
        self.block < self.blocks.count() && is_there && !waits
    }

    fn handle_request(&mut self, header: &EbbHeader) -> bool {
        if header.block >= self.blocks.count() {
            return false;
        }
        let delivered = self.blocks.within(header.object_bytes);
        if delivered > self.delivered && matches!(self.mode, Mode::Pull | Mode::Hybrid) {
            self.forget_before(delivered);
        }
        match (self.mode, header.pull) {
            (Mode::ConstantRate | Mode::Push, 0) => {
                self.block = header.block;
                self.encoders.forget_before(header.block);
            }
            (Mode::ConstantRate | Mode::Push, _) => return false,
            // A sign of life.
            (_, 0) => {}
            // It was overtaken by one that wants nothing more of this block.
            _ if header.block < self.delivered => {}
            (_, label) => {
                if self.requested.len() >= MAX_REQUESTS as usize {
                    return false;
                }
                self.requested.push_back((label, header.block));
            }
        }
        true
    }

    /// The receiver has delivered the blocks before `delivered`.
    fn forget_before(&mut self, delivered: u32) {
        self.delivered = delivered;
        self.encoders.forget_before(delivered);
        self.requested.retain(|&(_, block)| block >= delivered);
        if self.block < delivered {
            (self.block, self.pushed) = (delivered, 0);
        }
    }

    /// Nothing is wanted, until a request says otherwise.
    fn be_quiet(&mut self) {
        self.block = self.blocks.count();
        self.requested.clear();
    }

    /// When the receiver is asked for a sign of life. One that does not want anything is in no hurry.
    fn question_at(&self) -> Instant {
        let heard = self.retry.last_heard();
        let wants = self.block < self.blocks.count() || !self.requested.is_empty();
        if !wants && self.unverified.is_none() && self.retry.silent() == 0 {
            return heard + self.retry.longest_interval();
        }
        self.retry.deadline(heard)
    }

    fn next(&self) -> Option<Next> {
        if let Some(flags) = self.bare {
            return Some(Next::Bare(flags));
        }
        let mut requested = self.requested.iter();
        if let Some(at) = requested.position(|&(_, block)| self.encoders.has(block)) {
            return Some(Next::Answer(at));
        }
        let is_due = self.rate.as_ref().is_none_or(Rate::is_due);
        (self.pushes() && is_due && self.encoders.has(self.block)).then_some(Next::Push)
    }

    /// The blocks whose encoders are wanted, most urgent first, and the one that probably follows.
    fn needed_encoders(&self) -> Vec<u32> {
        let pushed = Some(self.block).filter(|_| self.pushes());
        let mut needed = Vec::with_capacity(MAX_ENCODERS);
        let mut add = |block| {
            if !needed.contains(&block) && needed.len() < MAX_ENCODERS {
                needed.push(block);
            }
        };
        pushed.into_iter().for_each(&mut add);
        self.requested.iter().for_each(|&(_, block)| add(block));
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
        let mut header = EbbHeader {
            flags: flags | EbbFlags::SYN.when(self.unverified.is_some()),
            level: self.mode.code(),
            block: block.min(self.blocks.count() - 1),
            ..EbbHeader::new(PacketType::Coded, 0, 0)
        };
        self.blocks.shape.write(&mut header);
        header.payload_bytes = self.blocks.shape.symbol_bytes;
        header
    }

    /// A symbol of `block` that answers `label`; 0: it answers nothing.
    fn symbol(&mut self, block: u32, label: u32, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        self.encoders.append(block, self.number, payload)?;
        let header = EbbHeader {
            symbol: self.number,
            pull: label,
            ..self.header(EbbFlags::NONE, block)
        };
        self.number = (self.number + 1) % EbbHeader::SYMBOL_LIMIT;
        Ok(header)
    }

    fn push(&mut self, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        let mut header = self.symbol(self.block, 0, payload)?;
        self.unverified = self.unverified.map(|left| left.saturating_sub(1));
        if let Some(rate) = &mut self.rate {
            rate.sent();
        }
        self.pushed += 1;
        let shape = self.blocks.coded(self.block);
        if self.mode == Mode::Hybrid && self.pushed >= with_overhead(shape, self.overhead) {
            (self.block, self.pushed) = (self.block + 1, 0);
            header.flags |= EbbFlags::FIN.when(self.block == self.blocks.count());
        }
        Ok(header)
    }
}

impl SenderSession for Sender {
    fn handle_control(&mut self, now: Instant, _: usize, header: &EbbHeader) {
        let was_pushing = self.pushes();
        let accepted = match header.packet_type {
            PacketType::Request => self.handle_request(header),
            PacketType::Stop => {
                let finished = header.flags.contains(EbbFlags::FIN);
                self.ending = finished.then_some(Ending::Finished);
                self.be_quiet();
                true
            }
            _ => false,
        };
        if !accepted {
            self.counters.rejected += 1;
            return;
        }
        self.counters.pulls_received += u64::from(header.pull > 0);
        self.retry.heard(now);
        self.unverified = None;
        if !was_pushing && let Some(rate) = &mut self.rate {
            rate.restart(now);
        }
        let asked = header.flags.contains(EbbFlags::RETRANSMIT);
        self.bare = asked.then_some(EbbFlags::TRIMMED);
    }

    fn done_bytes(&self) -> u64 {
        match self.mode {
            Mode::ConstantRate | Mode::Push => self.blocks.offset(self.block),
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

    fn next_packet(&mut self, _: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        match self.next() {
            Some(Next::Answer(at)) => {
                let (label, block) = self.requested.remove(at).unwrap_or_default();
                self.symbol(block, label, payload)
            }
            Some(Next::Push) => self.push(payload),
            Some(Next::Bare(flags)) => {
                self.bare = None;
                Ok(self.header(flags, self.block))
            }
            None => Ok(self.header(EbbFlags::TRIMMED, self.block)),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() {
            return None;
        }
        let due = self.rate.as_ref().filter(|_| self.pushes());
        let due = due.and_then(Rate::deadline);
        Some(due.map_or(self.question_at(), |due| due.min(self.question_at())))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(rate) = &mut self.rate {
            rate.advance(now);
        }
        if now < self.question_at() {
            return;
        }
        self.counters.timeouts += u64::from(self.retry.silent() > 0);
        if self.retry.expired(now) {
            self.bare = Some(EbbFlags::TRIMMED | EbbFlags::RETRANSMIT);
        } else {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
