//! The sending side of an NDP session.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::{Ndp, NdpParams};
use crate::object::ObjectSource;
use crate::receiver_driven::{Ending, Retry, Scheme, SenderSession, StreamShape};
use crate::record::Counters;

/// A packet is in exactly one of these states: not sent yet (`next_new` and above), in flight,
/// to be sent again, or acknowledged (all others).
pub struct Sender {
    source: Arc<dyn ObjectSource>,
    shape: StreamShape,
    packets: u32,
    window: u32,
    next_new: u32,
    /// When each packet that is neither acknowledged nor NACKed was last sent.
    in_flight: BTreeMap<u32, Instant>,
    /// The same in order of sending; entries that `in_flight` contradicts are stale.
    send_order: VecDeque<(Instant, u32)>,
    /// NACKed or timed out; they go before new packets.
    resend: VecDeque<u32>,
    acknowledged: u32,
    /// Packets that may be sent. A pull that finds nothing to send leaves its credit here, so that
    /// one that overtook its NACK is not lost.
    credit: u32,
    /// The highest pull counter seen.
    pulled: u32,
    retry: Retry,
    last_sent: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

impl Sender {
    pub fn new(
        now: Instant,
        params: &NdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
    ) -> Self {
        let shape = StreamShape {
            object_bytes: source.len(),
            symbol_bytes,
            block_symbols: 0,
        };
        let packets = u32::try_from(shape.packets()).unwrap_or(u32::MAX);
        let window = params.initial_window_packets.min(packets);
        Sender {
            source,
            shape,
            packets,
            window,
            next_new: 0,
            in_flight: BTreeMap::new(),
            send_order: VecDeque::new(),
            resend: VecDeque::new(),
            acknowledged: 0,
            credit: window,
            pulled: 0,
            retry: Retry::new(now, Ndp::retry(params)),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    fn handle_ack(&mut self, number: u32) {
        let was_open = if self.in_flight.remove(&number).is_some() {
            true
        } else if let Some(at) = self.resend.iter().position(|&n| n == number) {
            // The timer was too hasty, or the network duplicated a packet.
            self.resend.remove(at);
            true
        } else {
            false
        };
        if !was_open {
            self.counters.duplicates += 1;
            return;
        }
        self.acknowledged += 1;
        if self.acknowledged == self.packets {
            self.ending = Some(Ending::Finished);
        }
    }

    fn handle_nack(&mut self, number: u32) {
        if self.in_flight.remove(&number).is_some() {
            self.counters.trimmed += 1;
            self.resend.push_back(number);
        } else {
            self.counters.duplicates += 1;
        }
    }

    fn handle_pull(&mut self, counter: u32) {
        // Cumulative: a repeated or overtaken pull adds nothing, the one after a lost pull adds both.
        let Some(more) = counter.checked_sub(self.pulled).filter(|&more| more > 0) else {
            return;
        };
        // No honest receiver has this much outstanding; a forged one must not make us flood.
        if more > 2 * self.window + self.retry.max_retries() {
            self.counters.rejected += 1;
            return;
        }
        self.counters.pulls_received += u64::from(more);
        self.pulled = counter;
        self.credit += more;
    }

    /// The packet in flight that was sent first.
    fn oldest(&mut self) -> Option<(Instant, u32)> {
        while let Some(&(at, number)) = self.send_order.front() {
            if self.in_flight.get(&number) == Some(&at) {
                return Some((at, number));
            }
            self.send_order.pop_front();
        }
        None
    }

    /// A packet that was lost without a trace comes with its own credit, because no arrival
    /// triggers a pull for it; but a credit left over is used first.
    fn resend_timed_out(&mut self, number: u32) {
        let waiting = self.resend.len() as u32 + (self.packets - self.next_new);
        if self.credit <= waiting {
            self.credit += 1;
        }
        self.in_flight.remove(&number);
        self.resend.push_front(number);
    }
}

impl SenderSession for Sender {
    fn handle_control(&mut self, now: Instant, _: usize, header: &EbbHeader) {
        self.retry.heard(now);
        match header.packet_type {
            PacketType::Pull => self.handle_pull(header.pull),
            PacketType::Ack if header.symbol < self.next_new => {
                self.counters.acks += 1;
                self.handle_ack(header.symbol);
            }
            PacketType::Nack if header.symbol < self.next_new => self.handle_nack(header.symbol),
            _ => self.counters.rejected += 1,
        }
    }

    fn can_send(&self) -> bool {
        self.credit > 0 && (!self.resend.is_empty() || self.next_new < self.packets)
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        let resent = self.resend.pop_front();
        let number = match resent {
            Some(number) => number,
            None => {
                self.next_new += 1;
                self.next_new - 1
            }
        };
        self.credit -= 1;
        self.last_sent = now;
        self.oldest(); // drops stale entries, so that `send_order` stays as short as `in_flight`
        self.in_flight.insert(number, now);
        self.send_order.push_back((now, number));

        let (offset, len) = self.shape.extent(u64::from(number));
        payload.resize(len, 0);
        self.source.read_at(offset, payload)?;
        let mut header = EbbHeader {
            flags: EbbFlags::SYN.when(number < self.window)
                | EbbFlags::FIN.when(number + 1 == self.packets)
                | EbbFlags::RETRANSMIT.when(resent.is_some()),
            symbol: number,
            pull: self.window,
            payload_bytes: len as u16,
            ..EbbHeader::new(PacketType::Data, 0, 0)
        };
        self.shape.write(&mut header);
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() {
            return None;
        }
        let mut in_order = self.send_order.iter();
        match in_order.find(|(at, number)| self.in_flight.get(number) == Some(at)) {
            Some((at, _)) => Some(self.retry.deadline(*at)),
            // It is our turn, and only the NIC that is busy.
            None if self.can_send() => None,
            // It is the receiver's turn; it has a timer of its own.
            None => Some(self.retry.give_up_at(self.last_sent)),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Some((sent, _)) = self.oldest() else {
            if !self.can_send() && self.retry.give_up_at(self.last_sent) <= now {
                self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            }
            return;
        };
        if self.retry.deadline(sent) > now {
            return;
        }
        self.counters.timeouts += 1;
        let heard_lately = self.retry.silent() == 0 && self.counters.acks > 0;
        let waited = self.retry.interval();
        if !self.retry.expired(now) {
            self.ending = Some(Ending::Failed(self.retry.gave_up_reason(now)));
            return;
        }
        // While the peer is silent one packet at a time asks whether it is still there.
        while let Some((_, number)) = self.oldest().filter(|(sent, _)| *sent + waited <= now) {
            self.resend_timed_out(number);
            if !heard_lately {
                break;
            }
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
