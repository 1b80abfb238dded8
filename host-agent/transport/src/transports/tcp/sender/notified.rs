//! What the network says that it dropped, and what goes out again for it.

use ebb_units::{Duration, Instant};

use super::{AckArrival, Sender, Transmission};
use crate::tcp::fastlane::Notified;

impl Sender {
    /// The network says that it dropped the segment with offsets `[start, end)`.
    pub(crate) fn handle_drop(
        &mut self,
        now: Instant,
        (start, end): (u64, u64),
        round_trip: Duration,
    ) {
        let (is_fin, segment_bytes) = (start == self.stream_end(), self.segment_bytes);
        let Some(notified) = &mut self.notified else {
            return;
        };
        if end - start == 1 && notified.table.notify_probe(start) {
            return;
        }
        if self.scoreboard.in_flight(start) != Some(end) {
            return;
        }
        if is_fin {
            notified.fin_pending |= notified.fin.ask(now, round_trip);
        } else {
            let window_packets = self.congestion.window().bytes() / segment_bytes;
            let begins = notified.table.notify(start, window_packets);
            self.counters.loss_episodes += u64::from(begins);
        }
    }

    /// Lets an ACK, which the scoreboard has taken, end what has arrived.
    pub(super) fn tell_notified(&mut self, advances: bool, arrival: &AckArrival<'_>) {
        let Some(notified) = &mut self.notified else {
            return;
        };
        let left = self.next - self.una;
        notified.on_ack(advances, arrival.out_of_order_bytes, left);
        let blocks = arrival.sack_blocks;
        let is_told = |offset| {
            blocks
                .iter()
                .any(|&(from, to)| (from..to).contains(&offset))
        };
        let una = self.una;
        notified
            .table
            .on_bytes_arrived(|offset| offset < una || is_told(offset));
        let is_sacked = |start| self.scoreboard.is_sacked(start);
        if let Some(packets) = notified.table.on_ack(una, is_sacked) {
            self.congestion
                .on_recovered(packets * self.segment_bytes, self.next);
        }
    }

    /// Something is under way again that the network dropped.
    pub(super) fn is_notified(&self) -> bool {
        let notified = self.notified.as_ref();
        notified.is_some_and(|notified| notified.table.is_active())
    }

    /// The first segment is known to have been dropped, by the network's word.
    pub(super) fn first_is_notified(&self) -> bool {
        let notified = self.notified.as_ref();
        notified.is_some_and(|notified| notified.table.contains(self.una))
    }

    /// What goes out now because the network dropped something.
    pub(super) fn poll_notified(&mut self, now: Instant) -> Option<Transmission> {
        let (una, stream_end) = (self.una, self.stream_end());
        let (rto, max_retries) = (self.rtt.rto(), self.max_retries);
        let notified = self.notified.as_mut()?;
        if std::mem::take(&mut notified.fin_pending)
            && let Some(end) = self.scoreboard.in_flight(stream_end)
        {
            return Some(self.retransmission(stream_end, end, now));
        }
        let round_trip = self.rtt.minimum().unwrap_or(notified.round_trip);
        notified.wake_at = None;
        let probe = notified.table.next_probe(now, round_trip);
        let Some(start) = probe.or_else(|| notified.table.next(now, round_trip)) else {
            notified.wake_at = notified.table.next_due(round_trip);
            return None;
        };
        let end = self.scoreboard.in_flight(start)?;
        // The last byte: with what follows it cannot be taken for the whole segment.
        let byte = end.min(stream_end) - 1;
        match probe {
            Some(_) => notified.table.on_probe_sent(byte, now),
            None => notified.table.on_sent(start, now),
        }
        if start == una && notified.table.drops_of(start) <= max_retries {
            // Whoever says that it dropped the segment is there, but not for ever.
            self.deadline = Some(now + rto);
        }
        Some(match probe {
            Some(_) => self.probe(byte, now),
            None => self.retransmission(start, end, now),
        })
    }

    /// When something that the network dropped may go out that may not yet.
    pub(crate) fn notified_deadline(&self) -> Option<Instant> {
        self.notified.as_ref().and_then(Notified::next_deadline)
    }

    /// What the network dropped may go out again by now.
    pub(crate) fn handle_notified_deadline(&mut self, now: Instant) {
        if let Some(notified) = &mut self.notified {
            notified.handle_deadline(now);
        }
    }
}
