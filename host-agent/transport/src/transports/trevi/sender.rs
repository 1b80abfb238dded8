//! The sending side of a Trevi session.

use std::io;
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header, PacketType};

use super::blocks::Blocks;
use super::params::TreviParams;
use super::rate::Rate;
use crate::code::{EncodeJob, EncodeResult, Encoders, Lt};
use crate::object::ObjectSource;
use crate::receiver_driven::{Ending, Retry, SenderSession, StreamShape};
use crate::record::Counters;
use crate::{FlowId, Job, JobResult, Role};

/// Questions in a row without an answer after which nothing is pushed until one comes.
const MAX_SILENT: u32 = 3;

pub struct Sender {
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    encoders: Encoders<Lt>,
    /// The block whose symbols are sent, as the receiver says; the number of blocks: none.
    block: u32,
    /// Number of the next symbol, whatever its block. It starts again when it has no more bits.
    number: u32,
    /// Symbols that may leave before the receiver has said anything. None: it has.
    unverified: Option<u32>,
    rate: Rate,
    /// A packet without payload is to leave, with these flags: it asks for a sign of life, or is one.
    bare: Option<EbbFlags>,
    retry: Retry,
    ending: Option<Ending>,
    counters: Counters,
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
        Sender {
            source,
            blocks: Blocks { shape },
            encoders: Encoders::default(),
            block: 0,
            number: 0,
            unverified: Some(params.initial_window_packets),
            rate: Rate::new(now, params.rate_bps, packet_bytes),
            bare: None,
            retry: Retry::new(now, params.retry()),
            ending: None,
            counters: Counters::default(),
        }
    }

    /// Whether symbols are wanted, and may be sent to who wants them.
    fn wants_to_send(&self) -> bool {
        let is_there = self.unverified != Some(0) && self.retry.silent() < MAX_SILENT;
        self.block < self.blocks.count() && is_there
    }

    /// The receiver wants symbols of `block`, or nothing if there is no such block.
    fn turn_to(&mut self, block: u32) {
        self.block = block;
        self.encoders.forget_before(block);
    }

    /// When the receiver is asked for a sign of life. One that has stopped us is in no hurry.
    fn question_at(&self) -> Instant {
        let heard = self.retry.last_heard();
        if self.block == self.blocks.count() && self.retry.silent() == 0 {
            return heard + self.retry.longest_interval();
        }
        self.retry.deadline(heard)
    }

    /// Fields that all our packets have.
    fn header(&self, flags: EbbFlags) -> EbbHeader {
        let mut header = EbbHeader {
            flags: flags | EbbFlags::SYN.when(self.unverified.is_some()),
            block: self.block.min(self.blocks.count() - 1),
            ..EbbHeader::new(PacketType::Coded, 0, 0)
        };
        self.blocks.shape.write(&mut header);
        header.payload_bytes = self.blocks.shape.symbol_bytes;
        header
    }
}

impl SenderSession for Sender {
    fn handle_control(&mut self, now: Instant, _: usize, header: &EbbHeader) {
        let was_sending = self.wants_to_send();
        let finished = header.flags.contains(EbbFlags::FIN);
        match header.packet_type {
            PacketType::Request if header.block < self.blocks.count() => {
                self.turn_to(header.block);
            }
            PacketType::Stop if finished => self.ending = Some(Ending::Finished),
            PacketType::Stop => self.turn_to(self.blocks.count()),
            _ => {
                self.counters.rejected += 1;
                return;
            }
        }
        self.retry.heard(now);
        self.unverified = None;
        if !was_sending {
            self.rate.restart(now);
        }
        let asked = header.flags.contains(EbbFlags::RETRANSMIT);
        self.bare = asked.then_some(EbbFlags::TRIMMED);
    }

    fn done_bytes(&self) -> u64 {
        self.blocks.offset(self.block)
    }

    /// The encoder of the block at hand, and of the one that is probably next.
    fn poll_job(&mut self, flow: FlowId) -> Option<Job> {
        let needed = [self.block, self.block.saturating_add(1)];
        let exist = needed.iter().filter(|&&block| block < self.blocks.count());
        let block = self.encoders.start(&needed[..exist.count()])?;
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
        let symbol = self.wants_to_send() && self.rate.is_due() && self.encoders.has(self.block);
        self.ending.is_none() && (self.bare.is_some() || symbol)
    }

    fn next_packet(&mut self, _: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        if let Some(flags) = self.bare.take() {
            return Ok(self.header(flags));
        }
        self.encoders.append(self.block, self.number, payload)?;
        let header = EbbHeader {
            symbol: self.number,
            ..self.header(EbbFlags::NONE)
        };
        self.number = (self.number + 1) % EbbHeader::SYMBOL_LIMIT;
        self.unverified = self.unverified.map(|left| left.saturating_sub(1));
        self.rate.sent();
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() {
            return None;
        }
        let due = self.rate.deadline().filter(|_| self.wants_to_send());
        Some(due.map_or(self.question_at(), |due| due.min(self.question_at())))
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.rate.advance(now);
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
