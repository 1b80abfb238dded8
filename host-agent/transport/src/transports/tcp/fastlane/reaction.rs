//! Reaction of a sender to notifications: packets that go out again, and how large its window is while
//! they do.

use ebb_units::Instant;

use super::{Again, Notified};
use crate::tcp::feedback::{Message, Next, Reaction};
use crate::tcp::sender::{AckArrival, Sender, Transmission};

impl Notified {
    /// Bytes that have arrived out of order, after an ACK with that option; `flight_bytes` have been sent
    /// and not been acknowledged, so that more cannot have.
    pub(super) fn inflate(&mut self, advances: bool, out_of_order: Option<u32>, flight_bytes: u64) {
        let reported = u64::from(out_of_order.unwrap_or(0));
        // A duplicate may be older than the last: what it says can only be too little.
        let inflation = if advances {
            reported
        } else {
            self.inflation.max(reported)
        };
        self.inflation = inflation.min(flight_bytes);
    }

    /// The segment with offsets `[start, end)` was dropped.
    fn on_drop(&mut self, now: Instant, (start, end): (u64, u64), sender: &mut Sender) {
        if end - start == 1 && self.table.notify_probe(start) {
            return;
        }
        if sender.in_flight(start) != Some(end) {
            return;
        }
        if start == sender.stream_end() {
            let round_trip = sender.rtt().minimum().unwrap_or(self.round_trip);
            self.fin_pending |= self.fin.ask(now, round_trip);
        } else if self.table.notify(start, sender.window_packets()) {
            sender.count_loss_episode();
        }
    }

    fn poll(&mut self, now: Instant, sender: &mut Sender) -> Option<Transmission> {
        let stream_end = sender.stream_end();
        if std::mem::take(&mut self.fin_pending)
            && let Some(end) = sender.in_flight(stream_end)
        {
            return Some(sender.retransmission(stream_end, end, now));
        }
        let round_trip = sender.rtt().minimum().unwrap_or(self.round_trip);
        self.wake_at = None;
        let probe = self.table.next_probe(now, round_trip);
        let Some(start) = probe.or_else(|| self.table.next(now, round_trip)) else {
            self.wake_at = self.table.next_due(round_trip);
            return None;
        };
        let end = sender.in_flight(start)?;
        // The last byte: with what follows it cannot be taken for the whole segment.
        let byte = end.min(stream_end) - 1;
        match probe {
            Some(_) => self.table.on_probe_sent(byte, now),
            None => self.table.on_sent(start, now),
        }
        if start == sender.una() && self.table.drops_of(start) <= sender.max_retries() {
            // Whoever says that it dropped the segment is there, but not for ever.
            sender.restart_timer(now);
        }
        Some(match probe {
            Some(_) => sender.probe(byte, now),
            None => sender.retransmission(start, end, now),
        })
    }
}

impl Reaction for Notified {
    fn on_message(
        &mut self,
        now: Instant,
        message: &Message,
        start: u64,
        sender: &mut Sender,
    ) -> bool {
        if let Message::Dropped(dropped) = message {
            self.on_drop(now, (start, start + dropped.stream_length()), sender);
        }
        false
    }

    fn on_ack(&mut self, arrival: &AckArrival<'_>, advances: bool, sender: &mut Sender) {
        let una = sender.una();
        self.inflate(advances, arrival.out_of_order_bytes, sender.next() - una);
        let blocks = arrival.sack_blocks;
        let is_in_block = |offset| {
            blocks
                .iter()
                .any(|&(from, to)| (from..to).contains(&offset))
        };
        self.table
            .on_bytes_arrived(|offset| offset < una || is_in_block(offset));
        let recovered = self.table.on_ack(una, |start| sender.is_sacked(start));
        if let Some(packets) = recovered {
            sender.end_recovery(packets);
        }
    }

    /// Bytes that the timer sends again are no longer a matter of notifications.
    fn on_timeout(&mut self) {
        self.table.forget();
        self.wake_at = None;
        self.fin = Again::default();
        self.fin_pending = false;
    }

    fn next_transmission(&mut self, now: Instant, sender: &mut Sender) -> Next {
        match self.poll(now, sender) {
            Some(transmission) => {
                sender.count_fast_retransmission();
                Next::Send(transmission)
            }
            None => Next::Usual,
        }
    }

    fn is_recovering(&self) -> bool {
        self.table.is_active()
    }

    fn repairs(&self, start: u64) -> bool {
        self.table.contains(start)
    }

    /// The window that the recovery will end with.
    fn window_bytes(&self, window_bytes: u64, segment_bytes: u64) -> u64 {
        let after = self.table.window_after();
        after.map_or(window_bytes, |packets| {
            window_bytes.min(packets * segment_bytes)
        })
    }

    /// None where paths do not reorder: duplicate ACKs say what has left the network.
    fn inflation_bytes(&self) -> Option<u64> {
        self.scatter.then_some(self.inflation)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let fin = self.fin.deadline();
        self.wake_at.into_iter().chain(fin).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.fin_pending |= self.fin.take(now);
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
        }
    }
}
