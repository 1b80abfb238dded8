//! The sending side of an SCDP session.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use raptorq::SourceBlockEncoder;

use super::audience::Audience;
use super::decode::transmission_information;
use super::{Blocks, Scdp, ScdpParams};
use crate::object::ObjectSource;
use crate::receiver_driven::{Cast, Ending, Retry, Returned, Scheme, SenderSession, StreamShape};
use crate::record::{Counters, GroupSummary};

/// Encoders kept at a time; repair symbols of more blocks than this are rarely wanted at once.
const MAX_ENCODERS: usize = 4;
/// A detached straggler is sent symbols of the block it asks for and, once that was sent as many as
/// it needs, of so many more.
const DETACHED_BLOCKS: u32 = 4;
/// What a detached straggler is sent has numbers from here on: it still hears its group, and no
/// (block, ESI) is to come twice. No group sends as many repair symbols of a block.
const DETACHED_REPAIR: u32 = 1 << 20;

/// More copies of a symbol do not help a silent receiver.
const MAX_PROBES: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unicast,
    Group,
    /// One receiver that was of a group: repair symbols only.
    Detached,
}

pub struct Sender {
    mode: Mode,
    audience: Audience,
    straggler_timeout: Duration,
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    window: u32,
    mlfq_thresholds_bytes: Vec<u64>,
    /// The next source symbol: block and ESI. The block is `blocks.count()` when all are sent.
    /// Detached: what the group's next one was, for good.
    next_source: (u32, u32),
    /// Detached: the block that the last pull asked for.
    asked_block: u32,
    /// Repair symbols sent, of blocks in which any were.
    repair_sent: BTreeMap<u32, u32>,
    encoders: VecDeque<(u32, SourceBlockEncoder)>,
    /// Symbols sent; the window and what everybody has pulled may be. Less than that where nothing
    /// was known to be wanted, because a pull was lost that said of which block.
    sent: u32,
    bytes_sent: u64,
    /// Copies of the first symbol to be sent, to make a silent receiver say something.
    probes: u32,
    returned: Returned,
    /// Symbols that came back as headers, to be sent again: block and ESI. No more than the window.
    to_resend: VecDeque<(u32, u32)>,
    retry: Retry,
    last_sent: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

enum Next {
    /// One that came back.
    Again(u32, u32),
    Source(u32, u32),
    Repair(u32),
}

impl Sender {
    pub fn new(
        now: Instant,
        params: &ScdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        cast: Cast,
    ) -> Self {
        let (mode, receivers) = match cast {
            Cast::Unicast => (Mode::Unicast, 1),
            Cast::Group { receivers } => (Mode::Group, receivers),
        };
        let straggler_timeout = params.straggler_timeout_ns.min(2 * params.rto_ns);
        let block_symbols = params.block_symbols;
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols,
        };
        let packets = u32::try_from(shape.packets()).unwrap_or(u32::MAX);
        let window = params.initial_window_packets.min(packets);
        Sender {
            mode,
            audience: Audience::new(now, receivers),
            straggler_timeout: Duration::from_nanos(straggler_timeout),
            source,
            blocks: Blocks { shape },
            window,
            mlfq_thresholds_bytes: params.mlfq_thresholds_bytes.clone(),
            next_source: (0, 0),
            asked_block: 0,
            repair_sent: BTreeMap::new(),
            encoders: VecDeque::new(),
            sent: 0,
            bytes_sent: 0,
            probes: 0,
            returned: Returned::default(),
            to_resend: VecDeque::new(),
            retry: Retry::new(now, Scdp::retry(params)),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    fn handle_pull(&mut self, now: Instant, from: usize, header: &EbbHeader) {
        let finishing = header.flags.contains(EbbFlags::FIN);
        if header.block == self.blocks.count() {
            // Nothing is missing any more.
            if finishing {
                self.audience.finish(from);
                self.end_if_nobody_is_left();
            }
            return;
        }
        if header.block > self.blocks.count() {
            self.counters.rejected += 1;
            return;
        }
        let source_symbols = u32::from(self.blocks.source_symbols(header.block));
        let Some(listener) = self.audience.get_mut(from) else {
            return;
        };
        // Cumulative: a repeated or overtaken pull adds nothing, the one after a lost pull adds both.
        let more = header.pull.saturating_sub(listener.pulled);
        // No honest receiver has this much outstanding; a forged one must not make us flood.
        if more > 2 * self.window + self.retry.max_retries() {
            self.counters.rejected += 1;
            return;
        }
        self.counters.pulls_received += u64::from(more);
        if header.pull >= listener.pulled {
            listener.advance(now, header.pull, finishing);
            self.asked_block = header.block;
        }
        if header.symbol > source_symbols {
            listener.want(header.block, header.symbol);
        }
        if more > 0 && self.returned.progressed(self.window, false) {
            self.sent = self.sent.saturating_sub(1);
        }
        self.resend_at_once();
    }

    /// What came back waits for the next pull, unless none is to be expected: the last one was FIN,
    /// the object is within the window, or all of the window came back.
    fn resend_at_once(&mut self) {
        let all_pulled =
            u64::from(self.window) >= self.blocks.shape.packets() || self.audience.all_finishing();
        let most = if all_pulled {
            self.window
        } else {
            let all_came_back = self.sent == self.window
                && self.audience.pulled() == 0
                && self.to_resend.len() >= self.window as usize;
            u32::from(all_came_back)
        };
        while self.returned.at_once(most) {
            self.sent = self.sent.saturating_sub(1);
        }
    }

    fn end_if_nobody_is_left(&mut self) {
        self.ending = self.audience.ended().map(|ended| match ended {
            Ok(()) => Ending::Finished,
            Err(reason) => Ending::Failed(reason),
        });
    }

    /// Symbols of `block` sent so far.
    fn sent_of(&self, block: u32) -> u32 {
        let source = match block.cmp(&self.next_source.0) {
            Ordering::Less => u32::from(self.blocks.source_symbols(block)),
            Ordering::Equal => self.next_source.1,
            Ordering::Greater => 0,
        };
        source + self.repair_sent.get(&block).copied().unwrap_or(0)
    }

    /// What came back, repair symbols of the first block that lacks some, else source symbols in order.
    fn next(&self) -> Option<Next> {
        if let Some(&(block, esi)) = self.to_resend.front() {
            return Some(Next::Again(block, esi));
        }
        if self.mode == Mode::Detached {
            let end = self.asked_block.saturating_add(DETACHED_BLOCKS);
            let lacks = |&block: &u32| {
                let source_symbols = u32::from(self.blocks.source_symbols(block));
                self.sent_of(block) < self.audience.wanted(block).max(source_symbols)
            };
            let mut blocks = self.asked_block..end.min(self.blocks.count());
            return blocks.find(lacks).map(Next::Repair);
        }
        let (block, esi) = self.next_source;
        if let Some(block) = self.audience.lacking(block, |b| self.sent_of(b)) {
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

    /// The next repair symbol of `block`, counted from 0.
    fn next_repair(&mut self, block: u32) -> u32 {
        let sent = self.repair_sent.entry(block).or_insert(0);
        *sent += 1;
        let number = *sent - 1;
        match self.mode {
            Mode::Unicast | Mode::Group => number,
            Mode::Detached => DETACHED_REPAIR + number,
        }
    }

    /// Makes repair symbol `number` of `block` and returns its ESI.
    fn repair_symbol(&mut self, block: u32, number: u32, payload: &mut Vec<u8>) -> io::Result<u32> {
        let symbols = self.blocks.source_symbols(block);
        if !self.encoders.iter().any(|(b, _)| *b == block) {
            let config = transmission_information(symbols, self.blocks.shape.symbol_bytes);
            let encoder = SourceBlockEncoder::new(0, &config, &self.read_block(block)?);
            self.encoders.truncate(MAX_ENCODERS - 1);
            self.encoders.push_front((block, encoder));
        }
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
        self.audience.any_waits_for_nothing()
    }

    /// When somebody who keeps the others waiting is to be detached. They wait since we last sent.
    fn straggler_at(&self) -> Option<Instant> {
        if self.mode != Mode::Group || self.ending.is_some() || self.can_send() {
            return None;
        }
        self.audience
            .straggler_at(self.last_sent, self.straggler_timeout)
    }
}

impl SenderSession for Sender {
    fn handle_control(&mut self, now: Instant, from: usize, header: &EbbHeader) {
        if header.packet_type != PacketType::Pull {
            self.counters.rejected += 1;
            return;
        }
        if self.audience.get_mut(from).is_none() {
            // It has what it needs, and says nothing of those that we wait for.
            return;
        }
        self.retry.heard(now);
        self.probes = 0;
        self.returned.heard();
        self.handle_pull(now, from, header);
    }

    /// A hint that the symbol is lost. It was of use to nobody, so the same one is sent again rather
    /// than a repair symbol, with the next pull; how its credit comes back is as in NDP. Copies of
    /// symbol 0 that asked for a sign of life belong to no credit.
    fn handle_returned(&mut self, _: Instant, header: &EbbHeader) {
        let (block, esi) = (header.block, header.symbol);
        let source_symbols = || u32::from(self.blocks.source_symbols(block));
        let was_sent = StreamShape::of(header) == self.blocks.shape
            && block < self.blocks.count()
            && match header.flags.contains(EbbFlags::REPAIR) {
                false => esi < source_symbols() && (block, esi) < self.next_source,
                true => self.repair_sent.contains_key(&block) && esi >= source_symbols(),
            };
        if !was_sent
            || header.flags.contains(EbbFlags::RETRANSMIT)
            || self.mode != Mode::Unicast
            || self.to_resend.len() >= self.window as usize
            || self.to_resend.contains(&(block, esi))
        {
            self.counters.rejected += 1;
            return;
        }
        self.counters.returned += 1;
        self.returned.came_back();
        self.to_resend.push_back((block, esi));
        self.resend_at_once();
    }

    fn can_send(&self) -> bool {
        let allowed = self.window.saturating_add(self.audience.pulled());
        self.probes > 0 || (self.sent < allowed && self.next().is_some())
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        self.last_sent = now;
        let in_window = self.sent < self.window;
        let next = match self.next() {
            _ if self.probes > 0 => None,
            next => next,
        };
        let (block, esi, flags) = match next {
            Some(Next::Again(block, esi)) => {
                self.to_resend.pop_front();
                let source_symbols = u32::from(self.blocks.source_symbols(block));
                let flags = match esi.checked_sub(source_symbols) {
                    None => {
                        self.source_symbol(block, esi, payload)?;
                        EbbFlags::SYN.when(in_window)
                    }
                    Some(number) => {
                        self.repair_symbol(block, number, payload)?;
                        EbbFlags::REPAIR
                    }
                };
                (block, esi, flags)
            }
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
                let number = self.next_repair(block);
                let esi = self.repair_symbol(block, number, payload)?;
                (block, esi, EbbFlags::REPAIR)
            }
            None => {
                self.source_symbol(0, 0, payload)?;
                (0, 0, EbbFlags::SYN | EbbFlags::RETRANSMIT)
            }
        };
        if self.probes > 0 {
            self.probes -= 1;
        } else {
            self.sent += 1;
        }
        // Initial windows of groups and what answers a FIN pull are most urgent (section III-D).
        let grouped = self.mode == Mode::Group;
        let level = if self.audience.all_finishing() || (grouped && in_window) {
            0
        } else {
            ScdpParams::level(&self.mlfq_thresholds_bytes, self.bytes_sent)
        };
        self.bytes_sent += payload.len() as u64;
        self.counters.unneeded += self.audience.finished();
        let mut header = EbbHeader {
            flags: flags | EbbFlags::MULTICAST.when(grouped),
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
        } else if let Some(at) = self.straggler_at() {
            Some(at)
        } else if self.audience.any_finishing() {
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
        if self.deadline().is_none_or(|deadline| deadline > now) || self.straggler_at().is_some() {
            // The host takes the straggler next.
            return;
        }
        if !self.waits_for_confirmation() {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            return;
        }
        self.counters.timeouts += 1;
        if self.retry.expired(now) {
            // Every copy takes another path, so with each timeout more of them ask.
            self.probes = self.retry.silent().min(MAX_PROBES);
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

    fn receiver_left(&mut self, from: usize, reason: String) {
        self.audience.leave(from, reason);
        self.end_if_nobody_is_left();
    }

    fn take_detached(&mut self, now: Instant) -> Option<(usize, Self)> {
        self.straggler_at()?;
        let (index, audience) =
            self.audience
                .detach(now, self.last_sent, self.straggler_timeout)?;
        let detached = Sender {
            mode: Mode::Detached,
            // It may know nothing of the session yet.
            probes: u32::from(audience.pulled() == 0),
            returned: Returned::default(),
            to_resend: VecDeque::new(),
            audience,
            straggler_timeout: self.straggler_timeout,
            source: self.source.clone(),
            blocks: self.blocks,
            window: self.window,
            mlfq_thresholds_bytes: self.mlfq_thresholds_bytes.clone(),
            next_source: self.next_source,
            asked_block: self.next_source.0,
            repair_sent: self.repair_sent.clone(),
            encoders: VecDeque::new(),
            sent: self.sent,
            bytes_sent: self.bytes_sent,
            retry: self.retry.restarted(now),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        };
        Some((index, detached))
    }

    fn unfinished(&self) -> Vec<usize> {
        self.audience.unfinished()
    }

    fn group(&self) -> Option<GroupSummary> {
        (self.mode == Mode::Group).then(|| self.audience.summary())
    }
}
