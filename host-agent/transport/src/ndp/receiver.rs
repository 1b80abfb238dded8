//! The receiving side of an NDP session.

use std::collections::BTreeMap;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::{Ndp, NdpParams};
use crate::receiver_driven::{
    Ending, Outbox, PullCredit, ReceiverSession, Retry, Scheme, StreamShape,
};
use crate::record::Counters;

pub struct Receiver {
    shape: StreamShape,
    packets: u32,
    reorder_buffer_packets: u32,
    /// Every packet below has been delivered.
    next_delivered: u32,
    /// Received out of order.
    held: BTreeMap<u32, Vec<u8>>,
    credit: PullCredit,
    retry: Retry,
    /// When something last arrived or a pull was sent.
    last_activity: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

/// An ACK or NACK of packet `number`.
pub fn acknowledgment(packet_type: PacketType, number: u32) -> EbbHeader {
    EbbHeader {
        symbol: number,
        ..EbbHeader::new(packet_type, 0, 0)
    }
}

impl Receiver {
    /// `window`: the sender's initial window, as its packets say.
    pub fn new(now: Instant, params: &NdpParams, shape: StreamShape, window: u32) -> Self {
        Receiver {
            shape,
            packets: u32::try_from(shape.packets()).unwrap_or(u32::MAX),
            reorder_buffer_packets: params.reorder_buffer_packets,
            next_delivered: 0,
            held: BTreeMap::new(),
            credit: PullCredit::new(u64::from(window), shape.packets()),
            retry: Retry::new(now, Ndp::retry(params)),
            last_activity: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    fn has(&self, number: u32) -> bool {
        number < self.next_delivered || self.held.contains_key(&number)
    }

    /// The header contradicts the session or itself.
    fn is_foreign(&self, header: &EbbHeader) -> bool {
        StreamShape::of(header) != self.shape
            || header.symbol >= self.packets
            || usize::from(header.payload_bytes) != self.shape.extent(header.symbol.into()).1
    }

    fn accept(&mut self, number: u32, payload: &[u8], out: &mut Outbox) {
        self.held.insert(number, payload.to_vec());
        while let Some(bytes) = self.held.remove(&self.next_delivered) {
            self.next_delivered += 1;
            out.delivered.push(bytes);
        }
        if self.next_delivered == self.packets {
            self.ending = Some(Ending::Finished);
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
        let number = header.symbol;
        self.retry.heard(now);
        self.last_activity = now;
        if self.has(number) {
            // Our ACK was lost, or the sender's timer was too hasty. No pull was spent on this one.
            self.counters.duplicates += 1;
            self.counters.acks += 1;
            out.control.push(acknowledgment(PacketType::Ack, number));
            return;
        }
        let room = number - self.next_delivered < self.reorder_buffer_packets;
        self.credit.arrived(1);
        match payload.filter(|_| room) {
            Some(bytes) => {
                self.counters.acks += 1;
                out.control.push(acknowledgment(PacketType::Ack, number));
                self.accept(number, bytes, out);
            }
            None => {
                self.credit.need_more(1);
                out.control.push(acknowledgment(PacketType::Nack, number));
            }
        }
        out.pulls += self.credit.enqueue(false);
    }

    fn handle_job(&mut self, _: Instant, _: crate::DecodeResult, _: &mut Outbox) {}

    fn next_pull(&mut self, now: Instant) -> Option<EbbHeader> {
        self.last_activity = now;
        let pull = self.credit.send();
        Some(EbbHeader {
            flags: EbbFlags::FIN.when(self.credit.all_asked()),
            pull,
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        })
    }

    fn deadline(&self) -> Option<Instant> {
        (self.ending.is_none() && !self.credit.has_queued())
            .then(|| self.retry.deadline(self.last_activity))
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.retry.deadline(self.last_activity) > now {
            return;
        }
        self.counters.timeouts += 1;
        let first = self.retry.silent() == 0;
        if !self.retry.expired(now) {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
        } else if first && self.credit.counter() > 0 {
            // The last pull may be lost. Its counter is cumulative, so repeating it is harmless.
            out.control.push(EbbHeader {
                flags: EbbFlags::FIN.when(self.credit.all_asked()),
                pull: self.credit.counter(),
                ..EbbHeader::new(PacketType::Pull, 0, 0)
            });
        } else {
            // Lost packets are sent again by the sender's own timer. This helps a sender whose
            // credit went astray: it sends nothing that is not needed, however much it may.
            self.credit.enqueue_extra();
            out.pulls += 1;
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn closing(&self) -> EbbHeader {
        acknowledgment(PacketType::Ack, self.packets.saturating_sub(1))
    }
}
