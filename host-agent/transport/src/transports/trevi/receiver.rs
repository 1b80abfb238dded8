//! The receiving side of a Trevi session: arriving symbols and their blocks. Requests are in `demand`.
//! Several senders make different symbols, of which any are of use; each has its own window.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader};

use super::blocks::{Blocks, MAX_OPEN};
use super::params::{Mode, TreviParams};
use super::supplier::{State, Supplier};
use super::tract::Tract;
use crate::code::{DecodeResult, SENDER_SHIFT};
use crate::receiver_driven::{
    Buffers, Ending, Outbox, ReceiverSession, Retry, Section, StreamShape,
};
use crate::record::{Counters, SenderSummary};
use crate::splitmix::splitmix64;
use crate::{FlowId, Job, JobResult, Role};

/// Unwanted symbols of a sender after which the demand is sent to it again.
const UNWANTED: u64 = 16;

pub struct Receiver {
    flow: FlowId,
    pub(super) blocks: Blocks,
    params: TreviParams,
    /// Seed of the labels of requests.
    seed: u64,
    /// First block that has not been delivered.
    pub(super) next_delivered: u32,
    /// The blocks from `next_delivered` on, as far as they have been wanted.
    pub(super) open: VecDeque<Tract>,
    /// The sender, or the senders of a many-to-one session in the order of their numbers.
    pub(super) suppliers: Vec<Supplier>,
    /// Whether a packet was addressed to this receiver alone, which has then left its group. Symbols to the group are
    /// still stored, and change no state of a sender.
    is_alone: bool,
    pub(super) paused: bool,
    last_progress: Instant,
    pub(super) ending: Option<Ending>,
    pub(super) counters: Counters,
}

impl Receiver {
    /// The sender that a packet says it is from.
    fn from(&self, header: &EbbHeader) -> usize {
        match self.suppliers.len() {
            1 => 0,
            _ => header.sender.into(),
        }
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
            self.open.push_back(Tract::new(shape, self.params.overhead));
        }
        index
    }

    /// Whether the block at `index` of `open` may hold a symbol more.
    pub(super) fn has_room(&self, index: usize, buffers: &Buffers) -> bool {
        let more = u64::from(self.blocks.shape.symbol_bytes);
        index == 0 || buffers.held() + more <= self.params.max_buffer_bytes
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
            out.delivered
                .extend(tract.take_bytes(len, &mut out.buffers));
            self.next_delivered += 1;
        }
        if self.next_delivered == self.blocks.count() && self.ending.is_none() {
            self.ending = Some(Ending::Finished);
        }
    }

    /// Does what an arrival or a decoded block makes possible, and tells senders if they have to act
    /// otherwise than `before`. `from`: who is asked first for more.
    fn go_on(&mut self, now: Instant, from: usize, before: Option<u32>, out: &mut Outbox) {
        let had_ended = self.ending.is_some();
        self.decode(out);
        self.deliver(out);
        self.ask_all(now, from, out);
        let has_ended = self.ending.is_some() != had_ended;
        let is_other = self.wanted() != before;
        for index in 0..self.suppliers.len() {
            let supplier = &self.suppliers[index];
            // Requests for symbols say all there is to say.
            let news = has_ended || is_other && supplier.is_pushing();
            let late = supplier.unwanted > 0 && supplier.unwanted.is_multiple_of(UNWANTED);
            if supplier.is_heard() && (news || late || !supplier.has_spoken) {
                self.send_demand(now, index, EbbFlags::NONE, out);
            }
        }
    }

    fn progress_deadline(&self) -> Option<Instant> {
        // Decoding, or the application, takes as long as it takes.
        let timeout = Duration::from_nanos(self.params.progress_timeout_ns);
        self.wanted().map(|_| self.last_progress + timeout)
    }
}

impl ReceiverSession for Receiver {
    type Params = TreviParams;

    fn open(
        now: Instant,
        params: &TreviParams,
        flow: FlowId,
        seed: u64,
        first: &EbbHeader,
    ) -> Option<Self> {
        let shape = StreamShape::of(first);
        if !(1..=TreviParams::MAX_BLOCK_SYMBOLS).contains(&shape.block_symbols) {
            return None;
        }
        // No sender has another mode.
        Mode::of_code(first.level)?;
        let several = first.flags.contains(EbbFlags::MULTI_SOURCE);
        let senders = if several { first.senders.max(1) } else { 1 };
        let retry = Retry::new(now, params.session().retry());
        Some(Receiver {
            flow,
            seed,
            blocks: Blocks { shape },
            params: *params,
            next_delivered: 0,
            open: VecDeque::new(),
            suppliers: (0..senders).map(|_| Supplier::new(now, &retry)).collect(),
            is_alone: false,
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
        let from = self.from(header);
        if self.is_foreign(header) || from >= self.suppliers.len() {
            self.counters.rejected += 1;
            return;
        }
        let to_group = header.flags.contains(EbbFlags::MULTICAST);
        if !to_group && !self.is_alone {
            self.is_alone = true;
            if self.suppliers[from].has_spoken {
                // It has left its group: nothing is pushed any more unless it is asked for.
                self.ask_for_all();
            }
        }
        let before = self.wanted();
        let is_of_former_group = to_group && self.is_alone;
        if !is_of_former_group {
            let seed = splitmix64(self.seed, from as u64);
            if !self.suppliers[from].heard(now, &self.params, seed, header) {
                self.counters.rejected += 1;
                return;
            }
        }
        if let Some(payload) = payload {
            let supplier = &mut self.suppliers[from];
            supplier.received += 1;
            if let Some(pull) = supplier.pull.as_mut().filter(|_| !is_of_former_group) {
                pull.arrived(now, header);
            }
            if self.store(header, payload, &mut out.buffers) {
                self.last_progress = now;
            } else {
                self.counters.unneeded += 1;
                self.suppliers[from].unwanted += u64::from(!is_of_former_group);
            }
        }
        if header.flags.contains(EbbFlags::RETRANSMIT) && !is_of_former_group {
            self.send_demand(now, from, EbbFlags::NONE, out);
        }
        self.go_on(now, from, before, out);
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
        self.go_on(now, 0, before, out);
    }

    fn discard(result: JobResult, buffers: &mut Buffers) {
        if let Some(result) = result.output::<DecodeResult>() {
            result.release(buffers);
        }
    }

    fn next_pull(&mut self, _: Instant) -> Option<EbbHeader> {
        None
    }

    fn sender_left(&mut self, now: Instant, from: usize, reason: String, out: &mut Outbox) {
        self.lose_supplier(from, reason);
        self.ask_all(now, from, out);
    }

    fn set_paused(&mut self, now: Instant, paused: bool, out: &mut Outbox) {
        if self.paused == paused || self.ending.is_some() {
            return;
        }
        self.paused = paused;
        self.last_progress = now;
        // Who is told to stop does not push again.
        self.ask_for_all();
        self.send_demand_to_all(now, out);
        self.ask_all(now, 0, out);
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
        self.next_due()
            .into_iter()
            .chain(self.progress_deadline())
            .min()
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.progress_deadline().is_some_and(|at| at <= now) {
            self.ending = Some(Ending::Failed(format!(
                "no symbol of use arrived for {}",
                now.since(self.last_progress)
            )));
            return;
        }
        self.act_on_silence(now, out);
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn is_confirmed(&self) -> bool {
        self.suppliers
            .iter()
            .all(|s| s.is_confirmed || !s.is_heard())
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

    /// Everything is here, but the application has not said yet what becomes of it: nothing is to be
    /// sent.
    fn answer_held(&self, late: &EbbHeader) -> Option<EbbHeader> {
        let to_group = late.flags.contains(EbbFlags::MULTICAST);
        let is_asked = late.flags.contains(EbbFlags::RETRANSMIT);
        let stop = self.addressed(self.from(late), self.blocks.stop(EbbFlags::NONE));
        (is_asked || !to_group).then_some(stop)
    }

    fn closing(&self) -> EbbHeader {
        self.addressed(0, self.blocks.stop(EbbFlags::FIN))
    }
}
