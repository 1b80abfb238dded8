//! The sending side of an NDP session.

use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::NdpParams;
use super::flight::{Flight, Place};
use super::number::{header_of, number_of};
use super::receiver::HELD;
use crate::object::ObjectSource;
use crate::receiver_driven::{Cast, Ending, Retry, Returned, Section, SenderSession, StreamShape};
use crate::record::Counters;

/// Windows without an acknowledgment after which the flow fails.
const FUTILE_WINDOWS: u64 = 64;
/// Copies of packets sent after one timeout, and to a peer that was never heard.
const MAX_PROBES: u32 = 8;
const MAX_PROBES_UNVERIFIED: u32 = 4;

pub struct Sender {
    source: Arc<dyn ObjectSource>,
    shape: StreamShape,
    packets: u32,
    window: u32,
    /// Most packets from the oldest unacknowledged one to the next new one: the room that the receiver has.
    max_span: u32,
    flight: Flight,
    acknowledged: u32,
    /// Packets NACKed. The receiver pulls once more for each of them.
    nacked: u64,
    /// Packets that may be sent. A pull that finds nothing to send leaves its credit here, so that
    /// one that overtook its NACK is not lost.
    credit: u32,
    /// The highest pull counter seen.
    pulled: u32,
    returned: Returned,
    /// Arrival of the last returned header, and its round-trip time.
    last_return: (Instant, Duration),
    /// Retransmissions for want of any packet in flight, since the receiver was last heard.
    restarts: u32,
    /// Copies of packets in flight to be sent to a silent receiver.
    probes: u32,
    /// Whether the receiver was heard. Until then the request may have been forged.
    verified: bool,
    /// Packets sent since one was acknowledged.
    futile: u64,
    /// Whether the receiver has everything and its application delays the confirmation.
    held: bool,
    retry: Retry,
    last_sent: Instant,
    ending: Option<Ending>,
    counters: Counters,
}

impl Sender {
    fn handle_ack(&mut self, number: u32) {
        if !self.flight.acknowledge(number) {
            self.counters.duplicates += 1;
            return;
        }
        self.futile = 0;
        self.acknowledged += 1;
        if self.acknowledged == self.packets {
            self.ending = Some(Ending::Finished);
        }
        let at_the_end = self.all_pulled();
        self.credit += u32::from(self.returned.progressed(self.window, at_the_end));
    }

    fn handle_nack(&mut self, number: u32) {
        if self.flight.lose(number, Place::Last) {
            self.nacked += 1;
            self.counters.trimmed += 1;
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

    /// The receiver has asked for everything that it is known to need.
    fn all_pulled(&self) -> bool {
        u64::from(self.window) + u64::from(self.pulled) >= u64::from(self.packets) + self.nacked
    }

    /// The receiver pulls once for everything that arrives, until it has asked for all it needs.
    fn expects_pulls(&self) -> bool {
        let arrived = u64::from(self.acknowledged) + self.nacked;
        let may_arrive = arrived + u64::from(self.flight.in_flight());
        u64::from(self.pulled) < may_arrive && !self.all_pulled()
    }

    /// Packets have come back, and nothing is under way that would make the receiver say anything.
    fn is_stranded(&self) -> bool {
        self.returned.owes()
            && self.flight.in_flight() == 0
            && self.credit == 0
            && !self.expects_pulls()
            && self.ending.is_none()
    }

    /// To be called after whatever may have stranded us: one packet goes again. If that comes back
    /// too, the next one waits; the longer, the more often this has happened.
    fn restart(&mut self) {
        if self.restarts == 0 && self.is_stranded() {
            self.restart_now();
        }
    }

    fn restart_now(&mut self) {
        self.restarts += 1;
        self.credit += u32::from(self.returned.pay_back());
    }

    /// How long a stranded sender waits: as long as the last packet was away, doubled each time, up
    /// to the interval of a timeout. That is a wait for room in a queue, not for a sign of life.
    fn wait_when_stranded(&self) -> Duration {
        let (_, away) = self.last_return;
        (away * (1 << self.restarts.min(20))).min(self.retry.interval())
    }

    /// A packet that was lost without a trace comes with its own credit, because no arrival
    /// triggers a pull for it; but a credit left over is used first.
    fn resend_timed_out(&mut self, number: u32) {
        let unsent = self.flight.waiting() + (self.packets - self.flight.next());
        if self.credit <= unsent {
            self.credit += 1;
        }
        self.flight.lose(number, Place::First);
    }

    fn may_send_new(&self) -> bool {
        self.flight.next() < self.packets && self.flight.span() < self.max_span
    }

    fn fail(&mut self, reason: String) {
        self.ending = Some(Ending::Failed(reason));
    }
}

impl SenderSession for Sender {
    type Params = NdpParams;

    fn open(
        now: Instant,
        params: &NdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        _: Cast,
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
            max_span: params.reorder_buffer_packets.max(window),
            flight: Flight::new(),
            acknowledged: 0,
            nacked: 0,
            credit: window,
            pulled: 0,
            returned: Returned::default(),
            last_return: (now, Duration::ZERO),
            restarts: 0,
            probes: 0,
            verified: false,
            futile: 0,
            held: false,
            retry: Retry::new(now, params.session().retry()),
            last_sent: now,
            ending: None,
            counters: Counters::default(),
        }
    }

    fn handle_control(&mut self, now: Instant, _: usize, header: &EbbHeader) {
        let number = number_of(header);
        match header.packet_type {
            PacketType::Pull => self.handle_pull(header.pull),
            PacketType::Ack if number < self.flight.next() => {
                self.held = header.flags.contains(HELD);
                let before = number.saturating_sub(header.block_symbols.into());
                let first = before.max(self.flight.base()).min(number);
                self.counters.acks += u64::from(number - first) + 1;
                if self.held {
                    self.futile = 0;
                } else {
                    (first..=number).for_each(|number| self.handle_ack(number));
                }
            }
            PacketType::Nack if number < self.flight.next() => self.handle_nack(number),
            _ => {
                self.counters.rejected += 1;
                return;
            }
        }
        self.retry.heard(now);
        self.verified = true;
        self.probes = 0;
        self.returned.heard();
        self.restarts = 0;
        self.restart();
    }

    /// Section 3.2: "only resend if not expecting more pulls". With nothing more to be pulled a
    /// packet goes again at once, but only one that came back for the first time; else the echo
    /// would go round at the speed of the links.
    fn handle_returned(&mut self, now: Instant, header: &EbbHeader) {
        let number = number_of(header);
        let sent = self.flight.sent_at(number);
        let Some(sent) = sent.filter(|_| StreamShape::of(header) == self.shape) else {
            self.counters.rejected += 1;
            return;
        };
        self.flight.lose(number, Place::Last);
        self.last_return = (now, now.since(sent));
        self.counters.returned += 1;
        self.returned.came_back();
        if self.all_pulled() && !header.flags.contains(EbbFlags::RETRANSMIT) {
            self.credit += u32::from(self.returned.at_once(self.window));
        }
        self.restart();
    }

    fn done_bytes(&self) -> u64 {
        let bytes = u64::from(self.acknowledged) * u64::from(self.shape.symbol_bytes);
        bytes.min(self.shape.object_bytes)
    }

    fn can_send(&self) -> bool {
        let credited = self.credit > 0 && (self.flight.waiting() > 0 || self.may_send_new());
        credited || (self.probes > 0 && self.flight.in_flight() > 0)
    }

    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader> {
        // All of the first window goes out before anything goes again: that needs a pull.
        let window_is_out = self.flight.next() >= self.window;
        let mut number = None;
        if self.credit > 0 && (window_is_out || !self.may_send_new()) {
            number = self.flight.send_waiting(now);
        }
        let is_new = number.is_none() && self.credit > 0 && self.may_send_new();
        // Beyond the window a stranger, who may never have asked for anything, gets headers only:
        // they say as much as if a switch had cut them, and a forged request earns no flood.
        let bare = number.is_none() && !is_new && !self.verified;
        let number = match number {
            Some(number) => {
                self.credit -= 1;
                number
            }
            None if is_new => {
                self.credit -= 1;
                self.flight.send_new(now)
            }
            None => {
                self.probes = self.probes.saturating_sub(1);
                let oldest = self.flight.send_oldest(now);
                oldest
                    .ok_or_else(|| io::Error::other("asked for a packet, but has none to send"))?
            }
        };
        self.last_sent = now;
        self.futile += 1;
        if self.futile > FUTILE_WINDOWS * u64::from(self.window) {
            self.fail(format!(
                "no progress: {} packets sent since one arrived whole, {} came back as headers",
                self.futile - 1,
                self.counters.returned
            ));
        }
        let (offset, len) = self.shape.extent(u64::from(number));
        if !bare {
            payload.resize(len, 0);
            self.source.read_at(offset, payload)?;
        }
        let mut header = EbbHeader {
            flags: EbbFlags::TRIMMED.when(bare)
                | EbbFlags::SYN.when(number < self.window)
                | EbbFlags::FIN.when(number + 1 == self.packets)
                | EbbFlags::RETRANSMIT.when(!is_new),
            pull: self.window,
            payload_bytes: len as u16,
            ..header_of(PacketType::Data, number)
        };
        self.shape.write(&mut header);
        Ok(header)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_some() {
            return None;
        }
        match self.flight.oldest() {
            // It waits for its application, and answers when it is asked.
            Some((sent, _)) if self.held && self.retry.silent() == 0 => {
                Some(sent + self.retry.longest_interval())
            }
            Some((sent, _)) => Some(self.retry.deadline(sent)),
            // It is our turn, and only the NIC that is busy.
            None if self.can_send() => None,
            None if self.is_stranded() && self.retry.is_exhausted() => {
                Some(self.retry.deadline(self.last_return.0))
            }
            None if self.is_stranded() => Some(self.last_return.0 + self.wait_when_stranded()),
            // It is the receiver's turn; it has a timer of its own.
            None => Some(self.retry.give_up_at(self.last_sent)),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let stranded = self.is_stranded();
        if self.flight.oldest().is_none() && !stranded {
            self.fail(self.retry.gave_up_reason(now));
            return;
        }
        if stranded && self.wait_when_stranded() < self.retry.interval() {
            self.restart_now();
            return;
        }
        self.counters.timeouts += 1;
        let heard_lately = self.retry.silent() == 0 && self.counters.acks > 0;
        let waited = self.retry.interval();
        if !self.retry.expired(now) {
            self.fail(self.retry.gave_up_reason(now));
        } else if stranded {
            if self.retry.copies(1, self.verified) > 0 {
                self.restart_now();
            }
        } else if heard_lately {
            let is_due = |(sent, _): &(Instant, u32)| *sent + waited <= now;
            while let Some((_, number)) = self.flight.oldest().filter(is_due) {
                self.resend_timed_out(number);
            }
        } else {
            // Is the receiver still there? Every copy takes another path, so with each timeout more
            // of them ask.
            let most = match self.verified {
                true => MAX_PROBES,
                false => MAX_PROBES_UNVERIFIED,
            };
            self.probes = self.retry.copies(most, self.verified);
        }
    }

    fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
