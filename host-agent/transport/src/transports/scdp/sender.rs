//! The sending side of an SCDP session.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::audience::{Audience, Listener};
use super::blocks::{Blocks, Share};
use super::{DETACHED_REPAIR, ScdpParams};
use crate::code::{EncodeJob, EncodeResult, Encoders, MAX_ENCODERS, RaptorQ};
use crate::object::ObjectSource;
use crate::receiver_driven::{Cast, Ending, Retry, Returned, Section, SenderSession, StreamShape};
use crate::record::{Counters, GroupSummary};
use crate::{FlowId, Job, JobResult, Role};

/// Most copies of a symbol that are sent to a silent receiver; more do not help.
const MAX_PROBES: u32 = 8;
/// As [`MAX_PROBES`], to a receiver that may never have asked for anything.
const MAX_PROBES_UNVERIFIED: u32 = 4;
/// Most skips that wait for symbols requested before them; further ones are merged into the last. A receiver
/// has few blocks open.
const MAX_SKIPS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unicast,
    Group,
    /// One receiver that has left a group: it is sent repair symbols only.
    Detached,
    /// This host is one of several senders.
    Part,
}

pub struct Sender {
    mode: Mode,
    /// The part of every block that this sender has.
    share: Share,
    audience: Audience,
    straggler_timeout: Duration,
    source: Arc<dyn ObjectSource>,
    blocks: Blocks,
    window: u32,
    mlfq_thresholds_bytes: Vec<u64>,
    /// The next source symbol: block and place in our share of it. The block is `blocks.count()`
    /// when all are sent.
    next_source: (u32, u32),
    /// Blocks to skip to, each with the number of symbols sent (`sent`) after which the skip takes effect, as symbols
    /// requested earlier go first. Both ascend.
    skips: VecDeque<(u32, u32)>,
    /// Number of repair symbols sent, by block, of incomplete blocks with any.
    repair_sent: BTreeMap<u32, u32>,
    encoders: Encoders<RaptorQ>,
    /// Symbols sent so far; at most the window and the pulls of all receivers together. Less where the pull that named
    /// the block was lost, so that no symbol was known to be wanted.
    sent: u32,
    bytes_sent: u64,
    /// Probes to be sent to a silent receiver: copies of the first symbol.
    probes: u32,
    /// The last probe was answered by a pull for nothing: the receiver is alive and idle.
    receiver_is_idle: bool,
    returned: Returned,
    /// Symbols that came back as headers, to be sent again: block and ESI. No more than the window.
    to_resend: VecDeque<(u32, u32)>,
    retry: Retry,
    last_sent: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

enum Next {
    /// A copy of the first symbol, for a silent receiver.
    Probe,
    /// The symbol at this index of `to_resend`.
    Again(usize),
    /// The source symbol with this ESI of this block.
    Source(u32, u32),
    Repair(u32),
}

impl Sender {
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
        let symbols = self.share.symbols(self.blocks.source_symbols(header.block));
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
        self.receiver_is_idle = more == 0;
        if header.pull >= listener.pulled {
            listener.advance(now, header.pull, finishing);
        }
        let repairs = header.symbol.saturating_sub(symbols.into());
        // One pull, one symbol: nobody can have asked for more, but for what others had sent.
        let sent = self.repair_sent.get(&header.block).copied().unwrap_or(0);
        let possible = repairs <= sent.saturating_add(header.pull);
        if repairs > 0 && !(possible && listener.want(header.block, repairs)) {
            self.counters.rejected += 1;
        }
        listener.has_all_before(self.blocks.within(header.object_bytes));
        let first_wanted = self.audience.first_wanted();
        self.forget(first_wanted);
        if self.mode == Mode::Part {
            // The symbol that this pull asks for comes after them.
            let asked_before = self.window.saturating_add(header.pull).saturating_sub(1);
            let block = first_wanted.saturating_add(header.block_symbols.into());
            self.skip_after(asked_before, block);
            self.skip_what_is_due();
        }
        if more > 0 && self.returned.progressed(self.window, false) {
            self.sent = self.sent.saturating_sub(1);
        }
        self.resend_at_once();
    }

    /// A returned packet waits for the next pull, unless none is to be expected: the last one was
    /// FIN, the object is within the window, or all of the window came back.
    fn resend_at_once(&mut self) {
        let all_pulled = u64::from(self.window) >= self.blocks.share_total(self.share)
            || self.audience.all_finishing();
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

    /// Notes that nobody wants anything more of the blocks before `block`.
    fn forget(&mut self, block: u32) {
        while let Some(entry) = self.repair_sent.first_entry()
            && *entry.key() < block
        {
            entry.remove();
        }
        self.encoders.forget_before(block);
        self.skip_to(block);
    }

    /// Moves on to the first source symbol of our share from `block` on.
    fn skip_to(&mut self, block: u32) {
        if self.next_source.0 < block {
            self.next_source = (block, 0);
        }
        let count = self.blocks.count();
        while self.next_source.0 < count && self.share_of(self.next_source.0) <= self.next_source.1
        {
            // The shares of all blocks are alike but that of the last one.
            let next = self.next_source.0 + 1;
            let rest_is_empty = next < count - 1 && self.share_of(next) == 0;
            self.next_source = (if rest_is_empty { count - 1 } else { next }, 0);
        }
    }

    /// Skips to `block` once this many symbols have been sent.
    fn skip_after(&mut self, sent: u32, block: u32) {
        let full = self.skips.len() >= MAX_SKIPS;
        match self.skips.back_mut() {
            Some(&mut (_, last)) if block <= last => {}
            Some(last) if last.0 >= sent || full => last.1 = block,
            _ if block > self.next_source.0 => self.skips.push_back((sent, block)),
            _ => {}
        }
    }

    fn skip_what_is_due(&mut self) {
        while let Some(&(sent, block)) = self.skips.front()
            && sent <= self.sent
        {
            self.skips.pop_front();
            self.skip_to(block);
        }
    }

    /// Source symbols of `block` that are ours to send.
    fn share_of(&self, block: u32) -> u32 {
        self.share.symbols(self.blocks.source_symbols(block)).into()
    }

    fn end_if_nobody_is_left(&mut self) {
        self.ending = self.audience.ending();
    }

    /// Returned packets; repair symbols that are wanted of blocks whose source symbols have been
    /// sent, lowest block first; else source symbols in order. Repair symbols whose encoder is not
    /// there are passed over, and so much of the credit is kept for them.
    fn next(&self) -> Option<Next> {
        if self.probes > 0 {
            return self.is_at_hand(0, self.first_esi()).then_some(Next::Probe);
        }
        if !self.has_credit(self.audience.pulled()) {
            return None;
        }
        let mut again = self.to_resend.iter();
        if let Some(at) = again.position(|&(block, esi)| self.is_at_hand(block, esi)) {
            return Some(Next::Again(at));
        }
        let (block, index) = self.next_source;
        let lacking = self.lacking(self.end_of_repairs());
        let mut waiting = !self.to_resend.is_empty();
        for block in lacking {
            if self.encoders.has(block) {
                return Some(Next::Repair(block));
            }
            waiting = true;
        }
        if self.mode == Mode::Detached {
            return None;
        }
        if block < self.blocks.count() {
            let goes = !waiting || self.has_credit(self.unreserved());
            return goes.then(|| Next::Source(block, self.share.nth(index)));
        }
        // Without a share of our own: see `new`.
        (self.sent < self.window && self.encoders.has(0)).then_some(Next::Repair(0))
    }

    /// Whether the window, and what everybody has pulled, is not used up.
    fn has_credit(&self, pulled: u32) -> bool {
        self.sent < self.window.saturating_add(pulled)
    }

    /// Credit by pulls, without that for the symbols that wait for an encoder. Else a receiver would
    /// be sent source symbols that it has not asked for yet, and be one pull short for each of them.
    fn unreserved(&self) -> u32 {
        let sent = |block| self.repairs_sent(block);
        let pulled = self.audience.pulled_otherwise(self.end_of_repairs(), sent);
        pulled.saturating_sub(self.to_resend.len() as u32)
    }

    fn repairs_sent(&self, block: u32) -> u32 {
        self.repair_sent.get(&block).copied().unwrap_or(0)
    }

    /// Repair symbols of blocks before this one may be sent.
    fn end_of_repairs(&self) -> u32 {
        match self.mode {
            Mode::Detached => u32::MAX,
            _ => self.next_source.0,
        }
    }

    /// The blocks below `end` of which more repair symbols are wanted.
    fn lacking(&self, end: u32) -> impl Iterator<Item = u32> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let sent = |block| self.repairs_sent(block);
            let block = self.audience.lacking(from..end, sent)?;
            from = block + 1;
            Some(block)
        })
    }

    /// Whether a symbol can be made: it is a source symbol, or the encoder of its block is there.
    fn is_at_hand(&self, block: u32, esi: u32) -> bool {
        esi < self.blocks.source_symbols(block).into() || self.encoders.has(block)
    }

    /// The ESI of the first symbol of block 0 in our share.
    fn first_esi(&self) -> u32 {
        let first = self.share.nth(0);
        let symbols = u32::from(self.blocks.source_symbols(0));
        if first < symbols {
            first
        } else {
            symbols + first
        }
    }

    /// The blocks whose encoders are wanted, most urgent first. Also of those whose source symbols
    /// are still to be sent: that takes about as long as to make an encoder.
    fn needed_encoders(&self) -> ([u32; MAX_ENCODERS], usize) {
        let is_repair =
            |&(block, esi): &(u32, u32)| esi >= self.blocks.source_symbols(block).into();
        let first = (0, self.first_esi());
        let asked = self.probes > 0 || self.sent == 0;
        let probe = Some(first).filter(|first| asked && is_repair(first));
        let again = self.to_resend.iter().copied().filter(is_repair);
        let blocks = probe.into_iter().chain(again).map(|(block, _)| block);
        let (mut needed, mut count) = ([0; MAX_ENCODERS], 0);
        for block in blocks.chain(self.lacking(u32::MAX)) {
            if !needed[..count].contains(&block) {
                needed[count] = block;
                count += 1;
            }
            if count == MAX_ENCODERS {
                break;
            }
        }
        (needed, count)
    }

    /// Whether something may and should leave, and only its encoder is missing.
    fn waits_for_encoder(&self) -> bool {
        let allowed = self.probes > 0 || self.has_credit(self.audience.pulled());
        allowed && self.next().is_none() && self.needed_encoders().1 > 0
    }

    /// Makes our next repair symbol of `block` and returns its ESI.
    fn repair_symbol(&mut self, block: u32, payload: &mut Vec<u8>) -> io::Result<u32> {
        let sent = self.repair_sent.entry(block).or_insert(0);
        let number = match self.mode {
            Mode::Detached => DETACHED_REPAIR + *sent,
            _ => self.share.nth(*sent),
        };
        *sent += 1;
        let esi = u32::from(self.blocks.source_symbols(block)) + number;
        if esi >= EbbHeader::SYMBOL_LIMIT {
            return Err(io::Error::other("a block has no more repair symbols"));
        }
        self.symbol(block, esi, payload)?;
        Ok(esi)
    }

    /// Appends a symbol to `payload`: a source symbol or a repair symbol, as its ESI says.
    fn symbol(&mut self, block: u32, esi: u32, payload: &mut Vec<u8>) -> io::Result<()> {
        if esi < self.blocks.source_symbols(block).into() {
            return self.source_symbol(block, esi, payload);
        }
        self.encoders.append(block, esi, payload)
    }

    fn source_symbol(&self, block: u32, esi: u32, payload: &mut Vec<u8>) -> io::Result<()> {
        let (offset, len) = self.blocks.extent(block, esi);
        payload.resize(len, 0);
        self.source.read_at(offset, payload)
    }

    /// Whether the receiver neither has said that it has everything nor waits for us.
    fn waits_for_confirmation(&self) -> bool {
        self.audience.any_waits_for_nothing()
    }

    /// Whether the receivers wait for us.
    fn is_our_turn(&self) -> bool {
        self.can_send() || self.waits_for_encoder()
    }

    /// When somebody who keeps the others waiting is to be detached. They wait since we last sent.
    fn straggler_at(&self) -> Option<Instant> {
        if self.mode != Mode::Group || self.ending.is_some() || self.is_our_turn() {
            return None;
        }
        self.audience
            .straggler_at(self.last_sent, self.straggler_timeout)
    }

    /// Fields that all our packets have.
    fn header(&self, flags: EbbFlags, level: u8, (block, esi): (u32, u32)) -> EbbHeader {
        let flags = flags
            | EbbFlags::MULTICAST.when(self.mode == Mode::Group)
            | EbbFlags::MULTI_SOURCE.when(self.mode == Mode::Part);
        let mut header = EbbHeader {
            flags,
            level,
            sender: self.share.sender,
            senders: self.share.senders,
            block,
            symbol: esi,
            pull: self.window,
            ..EbbHeader::new(PacketType::Symbol, 0, 0)
        };
        self.blocks.shape.write(&mut header);
        header
    }
}

impl SenderSession for Sender {
    type Params = ScdpParams;

    fn open(
        now: Instant,
        params: &ScdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        cast: Cast,
    ) -> Self {
        let (mode, receivers, share) = match cast {
            Cast::Unicast => (Mode::Unicast, 1, Share::ALL),
            Cast::Group { receivers } => (Mode::Group, receivers, Share::ALL),
            Cast::Part(part) => {
                let (sender, senders) = (part.sender, part.senders);
                (Mode::Part, 1, Share { sender, senders })
            }
        };
        let straggler_timeout = params.straggler_timeout_ns.min(2 * params.rto_ns);
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols: params.block_symbols,
        };
        let blocks = Blocks { shape };
        let window = if share.senders > 1 {
            params.many_to_one_window_packets
        } else {
            params.initial_window_packets
        };
        // A sender without a share says by one repair symbol that it is there.
        let packets = u32::try_from(blocks.share_total(share)).unwrap_or(u32::MAX);
        let mut sender = Sender {
            mode,
            share,
            audience: Audience::new(vec![Listener::new(now); receivers]),
            straggler_timeout: Duration::from_nanos(straggler_timeout),
            source,
            blocks,
            window: window.min(packets.max(1)),
            mlfq_thresholds_bytes: params.mlfq_thresholds_bytes.clone(),
            next_source: (0, 0),
            skips: VecDeque::new(),
            repair_sent: BTreeMap::new(),
            encoders: Encoders::default(),
            sent: 0,
            bytes_sent: 0,
            probes: 0,
            receiver_is_idle: false,
            returned: Returned::default(),
            to_resend: VecDeque::new(),
            retry: Retry::new(now, params.session().retry()),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        };
        sender.skip_to(0);
        sender
    }

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
    /// our first symbol that asked for a sign of life belong to no credit.
    fn handle_returned(&mut self, _: Instant, header: &EbbHeader) {
        let (block, esi) = (header.block, header.symbol);
        let source_symbols = || u32::from(self.blocks.source_symbols(block));
        let senders = u32::from(self.share.senders);
        let was_sent = StreamShape::of(header) == self.blocks.shape
            && block < self.blocks.count()
            && match header.flags.contains(EbbFlags::REPAIR) {
                false => {
                    esi < source_symbols()
                        && esi % senders == u32::from(self.share.sender)
                        && (block, self.share.index(esi)) < self.next_source
                }
                true => self.repair_sent.contains_key(&block) && esi >= source_symbols(),
            };
        if !was_sent
            || header.flags.contains(EbbFlags::RETRANSMIT)
            || !matches!(self.mode, Mode::Unicast | Mode::Part)
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

    fn done_bytes(&self) -> u64 {
        self.blocks.offset(self.audience.first_wanted())
    }

    fn poll_job(&mut self, flow: FlowId) -> Option<Job> {
        let (needed, count) = self.needed_encoders();
        let block = self.encoders.start(&needed[..count])?;
        let extent = self.blocks.block_extent(block);
        let work = EncodeJob::<RaptorQ>::new(self.blocks.coded(block), extent, self.source.clone());
        Some(Job::new(flow, Role::Sender, work))
    }

    fn handle_job(&mut self, result: JobResult) -> io::Result<()> {
        self.counters.encodes += 1;
        self.counters.encode_ns += result.cpu_time.as_nanos();
        result
            .output::<EncodeResult<RaptorQ>>()
            .map_or(Ok(()), |built| self.encoders.built(built))
    }

    fn can_send(&self) -> bool {
        self.next().is_some()
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        self.last_sent = now;
        let in_window = self.sent < self.window;
        let next = self.next();
        let syn = EbbFlags::SYN.when(in_window);
        let mut bare = false;
        let (block, esi, flags) = match next {
            Some(Next::Again(at)) => {
                let (block, esi) = self.to_resend.remove(at).unwrap_or_default();
                self.symbol(block, esi, payload)?;
                (block, esi, syn)
            }
            Some(Next::Source(block, esi)) => {
                self.source_symbol(block, esi, payload)?;
                self.next_source.1 += 1;
                self.skip_to(0);
                (block, esi, syn)
            }
            Some(Next::Repair(block)) => {
                let esi = self.repair_symbol(block, payload)?;
                (block, esi, syn)
            }
            Some(Next::Probe) | None => {
                let esi = self.first_esi();
                // Beyond the window a stranger, who may never have asked for anything, gets headers
                // only: they say as much as if a switch had cut them.
                bare = self.counters.pulls_received == 0;
                self.symbol(0, esi, payload)?;
                (0, esi, EbbFlags::SYN | EbbFlags::RETRANSMIT)
            }
        };
        if self.probes > 0 {
            self.probes -= 1;
        } else {
            self.sent += 1;
            self.skip_what_is_due();
        }
        // Initial windows of groups and of several senders, and what answers a FIN pull, are most
        // urgent (section III-D).
        let many = matches!(self.mode, Mode::Group | Mode::Part);
        let level = if self.audience.all_finishing() || (many && in_window) {
            0
        } else {
            ScdpParams::level(&self.mlfq_thresholds_bytes, self.bytes_sent)
        };
        if !bare {
            self.bytes_sent += payload.len() as u64;
        }
        self.counters.unneeded += self.audience.finished() as u64;
        let repair = esi >= self.blocks.source_symbols(block).into();
        let flags = flags | EbbFlags::REPAIR.when(repair) | EbbFlags::TRIMMED.when(bare);
        let mut header = self.header(flags, level, (block, esi));
        header.payload_bytes = payload.len() as u16;
        if bare {
            payload.clear();
        }
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() || self.is_our_turn() {
            // In the second case only the NIC is busy, or an encoder is being made.
            return None;
        }
        if let Some(at) = self.straggler_at() {
            return Some(at);
        }
        let since = self.last_sent.max(self.retry.last_heard());
        let receivers_turn = !self.waits_for_confirmation() || self.receiver_is_idle;
        Some(if receivers_turn && self.retry.silent() == 0 {
            // It has a timer of its own.
            since + self.retry.longest_interval()
        } else if self.audience.any_finishing() {
            // The receiver's own timer goes first.
            self.retry.deadline(since) + self.retry.interval()
        } else {
            self.retry.deadline(since)
        })
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline > now) || self.straggler_at().is_some() {
            // The host takes the straggler next.
            return;
        }
        self.counters.timeouts += 1;
        if self.retry.expired(now) {
            // Every copy takes another path, so with each timeout more of them ask.
            let verified = self.counters.pulls_received > 0;
            let most = match verified {
                false => MAX_PROBES_UNVERIFIED,
                true => MAX_PROBES,
            };
            self.probes = self.retry.copies(most, verified);
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
                .detach_straggler(now, self.last_sent, self.straggler_timeout)?;
        let detached = Sender {
            mode: Mode::Detached,
            share: Share::ALL,
            // It may know nothing of the session yet.
            probes: u32::from(audience.pulled() == 0),
            audience,
            straggler_timeout: self.straggler_timeout,
            source: self.source.clone(),
            blocks: self.blocks,
            window: self.window,
            mlfq_thresholds_bytes: self.mlfq_thresholds_bytes.clone(),
            next_source: self.next_source,
            skips: VecDeque::new(),
            repair_sent: BTreeMap::new(),
            encoders: Encoders::default(),
            sent: self.sent,
            bytes_sent: self.bytes_sent,
            receiver_is_idle: false,
            returned: Returned::default(),
            to_resend: VecDeque::new(),
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
