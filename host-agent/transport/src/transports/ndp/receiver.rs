//! The receiving side of an NDP session.

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::NdpParams;
use super::number::{MAX_PACKETS, header_of, number_of};
use super::reassembly::Reassembly;
use crate::FlowId;
use crate::receiver_driven::{
    Buffers, Ending, Outbox, PullCredit, ReceiverSession, Retry, Section, StreamShape,
};
use crate::record::Counters;

/// More copies of a pull do not help a silent sender.
const MAX_COPIES: u32 = 8;
/// And a peer that has not answered a pull yet may never have sent anything: its address is forged.
const MAX_COPIES_UNVERIFIED: u32 = 4;

pub struct Receiver {
    shape: StreamShape,
    packets: u32,
    /// How many packets, and how many bytes of all sessions, may be held for order.
    limits: (u32, u64),
    reassembly: Reassembly,
    credit: PullCredit,
    /// Packets that come without a pull.
    window: u32,
    /// Something came that only a pull can have brought.
    verified: bool,
    retry: Retry,
    /// When something last arrived or a pull was sent.
    last_activity: Instant,
    /// Whoever takes the bytes cannot take more.
    paused: bool,
    ending: Option<Ending>,
    counters: Counters,
}

/// In an ACK: everything is here, but it is not confirmed yet. Ask again later.
pub const HELD: EbbFlags = EbbFlags::RETRANSMIT;

/// An ACK or NACK of packet `number`.
pub fn acknowledgment(packet_type: PacketType, number: u32) -> EbbHeader {
    header_of(packet_type, number)
}

/// Has an ACK acknowledge what the next one does, whose packet comes right after its own.
pub fn join(ack: &mut EbbHeader, next: &EbbHeader) -> bool {
    let plain = |header: &EbbHeader| {
        header.packet_type == PacketType::Ack && header.flags == EbbFlags::default()
    };
    let joins = plain(ack)
        && plain(next)
        && number_of(ack).checked_add(1) == Some(number_of(next))
        && ack.block_symbols < u16::MAX;
    if joins {
        let block_symbols = ack.block_symbols + 1;
        *ack = EbbHeader {
            block_symbols,
            ..*next
        };
    }
    joins
}

impl Receiver {
    /// The header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        let number = number_of(header);
        StreamShape::of(header) != self.shape
            || number >= self.packets
            || usize::from(header.payload_bytes) != self.shape.extent(number.into()).1
    }

    fn ask(&mut self, out: &mut Outbox) {
        if !self.paused {
            out.pulls += self.credit.enqueue(false);
        }
    }

    /// The last pull, again or for the first time.
    fn pull(&self) -> EbbHeader {
        EbbHeader {
            flags: EbbFlags::FIN.when(self.credit.all_asked()),
            pull: self.credit.counter(),
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        }
    }
}

impl ReceiverSession for Receiver {
    type Params = NdpParams;

    fn open(
        now: Instant,
        params: &NdpParams,
        _: FlowId,
        _: u64,
        first: &EbbHeader,
    ) -> Option<Self> {
        let shape = StreamShape::of(first);
        // More packets than that cannot be numbered.
        let packets = u32::try_from(shape.packets()).ok()?;
        if shape.block_symbols != 0 || u64::from(packets) > MAX_PACKETS {
            return None;
        }
        Some(Receiver {
            shape,
            packets,
            limits: (params.reorder_buffer_packets, params.reorder_total_bytes),
            reassembly: Reassembly::new(shape, packets),
            credit: PullCredit::new(u64::from(first.pull), shape.packets()),
            window: first.pull,
            verified: false,
            retry: Retry::new(now, params.session().retry()),
            last_activity: now,
            paused: false,
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
        if self.is_foreign(header) {
            self.counters.rejected += 1;
            return;
        }
        let number = number_of(header);
        self.verified |= number >= self.window;
        self.retry.heard(now);
        self.last_activity = now;
        if self.reassembly.has(number) {
            // Our ACK was lost, or the sender's timer was too hasty. No pull was spent on this one.
            self.counters.duplicates += 1;
            self.counters.acks += 1;
            out.control.push(acknowledgment(PacketType::Ack, number));
            return;
        }
        self.credit.arrived(1);
        let buffers = &mut out.buffers;
        let stored =
            payload.is_some_and(|bytes| self.reassembly.store(number, bytes, self.limits, buffers));
        if stored {
            self.counters.acks += 1;
            out.control.push(acknowledgment(PacketType::Ack, number));
            while let Some(pieces) = self.reassembly.deliver(buffers) {
                out.delivered.extend(pieces);
            }
            if self.reassembly.is_complete() {
                self.ending = Some(Ending::Finished);
            }
        } else {
            // Trimmed, or there is no room for it.
            self.credit.need_more(1);
            out.control.push(acknowledgment(PacketType::Nack, number));
        }
        self.ask(out);
    }

    fn set_paused(&mut self, now: Instant, paused: bool, out: &mut Outbox) {
        if self.paused == paused {
            return;
        }
        self.paused = paused;
        self.last_activity = now;
        if !paused {
            // Its silence was our doing.
            self.retry.heard(now);
        }
        self.ask(out);
    }

    fn done_bytes(&self) -> u64 {
        self.reassembly.delivered_bytes()
    }

    fn arrived_bytes(&self) -> u64 {
        let useless = self.counters.duplicates;
        let packets = self.counters.packets_received.saturating_sub(useless);
        (packets * u64::from(self.shape.symbol_bytes)).min(self.shape.object_bytes)
    }

    fn release(&mut self, buffers: &mut Buffers) {
        self.reassembly.release(buffers);
    }

    fn next_pull(&mut self, now: Instant) -> Option<EbbHeader> {
        self.last_activity = now;
        self.credit.send();
        Some(self.pull())
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() || self.credit.has_queued() {
            None
        } else if self.paused {
            Some(self.last_activity + self.retry.longest_interval())
        } else {
            Some(self.retry.deadline(self.last_activity))
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.paused {
            // Asks for nothing new, but the sender hears that we live.
            self.last_activity = now;
            out.control.push(self.pull());
            return;
        }
        self.counters.timeouts += 1;
        let first = self.retry.silent() == 0;
        if !self.retry.expired(now) {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            return;
        }
        if (!first || self.credit.counter() == 0) && !self.retry.is_exhausted() {
            // Lost packets are sent again by the sender's own timer. This helps a sender whose
            // credit went astray: it sends nothing that is not needed, however much it may.
            self.credit.enqueue_extra();
            self.credit.send();
            self.counters.pulls_sent += 1;
        }
        // The last pull may be lost. Its counter is cumulative, so repeating it is harmless, and
        // every copy takes another path.
        let most = match self.verified {
            true => MAX_COPIES,
            false => MAX_COPIES_UNVERIFIED,
        };
        let copies = self.retry.copies(most, self.verified);
        out.control.extend((0..copies).map(|_| self.pull()));
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn answer_held(&self, late: &EbbHeader) -> Option<EbbHeader> {
        Some(EbbHeader {
            flags: HELD,
            ..acknowledgment(PacketType::Ack, number_of(late))
        })
    }

    fn closing(&self) -> EbbHeader {
        acknowledgment(PacketType::Ack, self.packets.saturating_sub(1))
    }
}
