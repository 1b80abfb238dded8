//! The sending side of an SCDP session.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use raptorq::SourceBlockEncoder;

use super::decode::transmission_information;
use super::{Blocks, Scdp, ScdpParams};
use crate::object::ObjectSource;
use crate::receiver_driven::{Ending, Retry, Scheme, SenderSession, StreamShape};
use crate::record::Counters;

/// Encoders kept at a time; repair symbols of more blocks than this are rarely wanted at once.
const MAX_ENCODERS: usize = 4;

pub struct Sender {
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    window: u32,
    mlfq_thresholds_bytes: Vec<u64>,
    /// The next source symbol: block and ESI. The block is `blocks.count()` when all are sent.
    next_source: (u32, u32),
    /// Symbols wanted in all of blocks that want repair symbols, as pulls said.
    wanted: BTreeMap<u32, u32>,
    /// Repair symbols sent, of blocks in which any were.
    repair_sent: BTreeMap<u32, u32>,
    encoders: VecDeque<(u32, SourceBlockEncoder)>,
    /// Symbols that may be sent. Left over where a pull was lost that said of which block.
    credit: u32,
    /// The highest pull counter seen.
    pulled: u32,
    /// The last pull said that it asks for all that is missing: what answers it is most urgent.
    finishing: bool,
    bytes_sent: u64,
    /// Repeat the first symbol, to make a silent receiver say something.
    probe: bool,
    retry: Retry,
    last_sent: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

enum Next {
    Source(u32, u32),
    Repair(u32),
}

impl Sender {
    pub fn new(
        now: Instant,
        params: &ScdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
    ) -> Self {
        let block_symbols = params.block_symbols;
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols,
        };
        let packets = u32::try_from(shape.packets()).unwrap_or(u32::MAX);
        let window = params.initial_window_packets.min(packets);
        Sender {
            source,
            blocks: Blocks { shape },
            window,
            mlfq_thresholds_bytes: params.mlfq_thresholds_bytes.clone(),
            next_source: (0, 0),
            wanted: BTreeMap::new(),
            repair_sent: BTreeMap::new(),
            encoders: VecDeque::new(),
            credit: window,
            pulled: 0,
            finishing: false,
            bytes_sent: 0,
            probe: false,
            retry: Retry::new(now, Scdp::retry(params)),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    fn handle_pull(&mut self, header: &EbbHeader) {
        let finishing = header.flags.contains(EbbFlags::FIN);
        if header.block == self.blocks.count() {
            // Nothing is missing any more.
            if finishing {
                self.ending = Some(Ending::Finished);
            }
            return;
        }
        if header.block > self.blocks.count() {
            self.counters.rejected += 1;
            return;
        }
        // Cumulative: a repeated or overtaken pull adds nothing, the one after a lost pull adds both.
        let more = header.pull.saturating_sub(self.pulled);
        // No honest receiver has this much outstanding; a forged one must not make us flood.
        if more > 2 * self.window + self.retry.max_retries() {
            self.counters.rejected += 1;
            return;
        }
        self.counters.pulls_received += u64::from(more);
        self.credit += more;
        if header.pull >= self.pulled {
            self.pulled = header.pull;
            self.finishing = finishing;
        }
        self.want(header.block, header.symbol);
    }

    /// A pull says that `symbols` symbols of `block` are needed in all.
    fn want(&mut self, block: u32, symbols: u32) {
        if symbols > u32::from(self.blocks.source_symbols(block)) {
            let wanted = self.wanted.entry(block).or_insert(0);
            *wanted = symbols.max(*wanted);
        }
    }

    /// Symbols of `block` sent so far; only for blocks whose source symbols are all sent.
    fn sent_of(&self, block: u32) -> u32 {
        u32::from(self.blocks.source_symbols(block))
            + self.repair_sent.get(&block).copied().unwrap_or(0)
    }

    /// Repair symbols of the first block that lacks some, else source symbols in order.
    fn next(&self) -> Option<Next> {
        let (block, esi) = self.next_source;
        let mut complete = self.wanted.range(..block);
        if let Some((&block, _)) = complete.find(|&(&b, &wanted)| self.sent_of(b) < wanted) {
            return Some(Next::Repair(block));
        }
        (block < self.blocks.count()).then_some(Next::Source(block, esi))
    }

    fn read_block(&self, block: u32) -> io::Result<Vec<u8>> {
        let (offset, len) = self.blocks.block_extent(block);
        let symbol_bytes = usize::from(self.blocks.shape.symbol_bytes);
        let mut bytes = vec![0; usize::from(self.blocks.source_symbols(block)) * symbol_bytes];
        self.source.read_at(offset, &mut bytes[..len])?;
        Ok(bytes)
    }

    /// Makes the next repair symbol of `block` and returns its ESI.
    fn repair_symbol(&mut self, block: u32, payload: &mut Vec<u8>) -> io::Result<u32> {
        let symbols = self.blocks.source_symbols(block);
        if !self.encoders.iter().any(|(b, _)| *b == block) {
            let config = transmission_information(symbols, self.blocks.shape.symbol_bytes);
            let encoder = SourceBlockEncoder::new(0, &config, &self.read_block(block)?);
            self.encoders.truncate(MAX_ENCODERS - 1);
            self.encoders.push_front((block, encoder));
        }
        let sent = self.repair_sent.entry(block).or_insert(0);
        let number = *sent;
        *sent += 1;
        let encoder = self.encoders.iter().find(|(b, _)| *b == block);
        let symbol = encoder.and_then(|(_, encoder)| encoder.repair_packets(number, 1).pop());
        let symbol = symbol.ok_or_else(|| io::Error::other("the encoder gave no repair symbol"))?;
        payload.extend_from_slice(symbol.data());
        Ok(u32::from(symbols) + number)
    }

    fn source_symbol(&self, block: u32, esi: u32, payload: &mut Vec<u8>) -> io::Result<()> {
        let (offset, len) = self.blocks.extent(block, esi);
        payload.resize(len, 0);
        self.source.read_at(offset, payload)
    }

    /// The receiver has not said yet that it has everything, and it is not waiting for us either.
    fn waits_for_confirmation(&self) -> bool {
        self.pulled == 0 || self.finishing
    }
}

impl SenderSession for Sender {
    fn handle_control(&mut self, now: Instant, header: &EbbHeader) {
        if header.packet_type != PacketType::Pull {
            self.counters.rejected += 1;
            return;
        }
        self.retry.heard(now);
        self.probe = false;
        self.handle_pull(header);
    }

    fn can_send(&self) -> bool {
        self.probe || (self.credit > 0 && self.next().is_some())
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        self.last_sent = now;
        let in_window = self.counters.packets_sent < u64::from(self.window);
        let next = match self.next() {
            _ if self.probe => None,
            next => next,
        };
        let (block, esi, flags) = match next {
            Some(Next::Source(block, esi)) => {
                self.source_symbol(block, esi, payload)?;
                let last = esi + 1 == u32::from(self.blocks.source_symbols(block));
                self.next_source = if last {
                    (block + 1, 0)
                } else {
                    (block, esi + 1)
                };
                (block, esi, EbbFlags::SYN.when(in_window))
            }
            Some(Next::Repair(block)) => {
                let esi = self.repair_symbol(block, payload)?;
                (block, esi, EbbFlags::REPAIR)
            }
            None => {
                self.source_symbol(0, 0, payload)?;
                (0, 0, EbbFlags::SYN)
            }
        };
        if self.probe {
            self.probe = false;
        } else {
            self.credit -= 1;
        }
        let level = if self.finishing {
            0
        } else {
            ScdpParams::level(&self.mlfq_thresholds_bytes, self.bytes_sent)
        };
        self.bytes_sent += payload.len() as u64;
        let mut header = EbbHeader {
            flags,
            level,
            block,
            symbol: esi,
            pull: self.window,
            payload_bytes: payload.len() as u16,
            ..EbbHeader::new(PacketType::Symbol, 0, 0)
        };
        self.blocks.shape.write(&mut header);
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() || self.can_send() {
            // In the second case it is our turn, and only the NIC that is busy.
            None
        } else if self.finishing {
            // The receiver's own timer goes first.
            let since = self.last_sent.max(self.retry.last_heard());
            Some(self.retry.deadline(since) + self.retry.interval())
        } else if self.waits_for_confirmation() {
            Some(self.retry.deadline(self.last_sent))
        } else {
            // It is the receiver's turn; it has a timer of its own.
            Some(self.retry.give_up_at(self.last_sent))
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        if !self.waits_for_confirmation() {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            return;
        }
        self.counters.timeouts += 1;
        if self.retry.expired(now) {
            self.probe = true;
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
