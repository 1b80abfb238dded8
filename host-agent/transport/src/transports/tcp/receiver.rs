//! The receiving half of a connection: reassembly, delayed ACKs, the window, ECN-Echo.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

use super::autotune::ReceiveWindow;
use super::congestion::EcnMode;
use super::ecn::{EchoAction, EchoState};
use super::params::TcpParams;
use super::reassembly::{Reassembly, SackRanges};

/// More ACKs than this never wait: the last stands for those that would follow.
const MAX_DUE_ACKS: usize = 256;

/// A data segment, cut to offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) start: u64,
    pub(crate) payload: &'a [u8],
    pub(crate) fin: bool,
    pub(crate) ce: bool,
    pub(crate) cwr: bool,
    /// Telemetry of the next ACK: of it and of those before it.
    pub(crate) telemetry: u16,
}

/// Contents of an ACK. The blocks belong to the number: with later blocks an earlier number would
/// show holes that never were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AckState {
    pub(crate) ack: u64,
    pub(crate) ece: bool,
    pub(crate) sack_blocks: SackRanges,
    /// Bytes that have arrived beyond `ack`.
    pub(crate) out_of_order_bytes: u64,
    /// In-band telemetry of the packets that it is for. 0: none.
    pub(crate) telemetry: u16,
}

/// Counters of the receiving half of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Segments with payload or FIN, duplicates included.
    pub packets: u64,
    /// Those of `packets` with CE.
    pub ce_packets: u64,
    /// Those of `packets` with nothing new.
    pub duplicates: u64,
    /// Segments sent only to acknowledge.
    pub acks_sent: u64,
}

impl ReceiverCounters {
    /// Counts since `before`.
    pub(crate) fn since(&self, before: &ReceiverCounters) -> ReceiverCounters {
        ReceiverCounters {
            packets: self.packets - before.packets,
            ce_packets: self.ce_packets - before.ce_packets,
            duplicates: self.duplicates - before.duplicates,
            acks_sent: self.acks_sent - before.acks_sent,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Receiver {
    reassembly: Reassembly,
    buffer: ReceiveWindow,
    /// Offset of the peer's FIN, once seen.
    fin: Option<u64>,
    echo: EchoState,
    /// ACKs that are due, in order. A driver may hand over several packets before it asks for
    /// something to send; each ACK still goes out as it was due, so that neither the sender's
    /// clock nor DCTCP's echo depends on how the host batches.
    due: VecDeque<AckState>,
    ack_deadline: Option<Instant>,
    /// Data segments since the last ACK.
    unacked_packets: u32,
    /// In-band telemetry of them. 0: none.
    telemetry: u16,
    /// Right edge of the last window advertised.
    advertised_edge: u64,
    /// Last.ACK.sent of RFC 7323.
    last_ack: u64,
    counters: ReceiverCounters,
    delayed_ack_timeout: Duration,
    ack_every_packets: u32,
    mss: u64,
}

impl Receiver {
    /// `next` is the first offset after the peer's SYN.
    pub(crate) fn new(params: &TcpParams, ecn: EcnMode, next: u64) -> Self {
        let most = u64::from(params.receive_buffer_bytes);
        let buffer = match params.initial_receive_window_bytes {
            0 => ReceiveWindow::fixed(most),
            first => ReceiveWindow::growing(first.into(), most, next),
        };
        Receiver {
            // Twice what full segments fill the window with.
            reassembly: Reassembly::new(
                next,
                2 * (most / u64::from(params.segment_bytes())) as usize + 64,
            ),
            buffer,
            fin: None,
            echo: EchoState::new(ecn),
            due: VecDeque::new(),
            ack_deadline: None,
            unacked_packets: 0,
            telemetry: 0,
            advertised_edge: next + buffer.size(),
            last_ack: next,
            counters: ReceiverCounters::default(),
            delayed_ack_timeout: params.delayed_ack_timeout(),
            ack_every_packets: params.ack_every_packets,
            mss: u64::from(params.segment_bytes()),
        }
    }

    /// RCV.NXT, counting the FIN once everything before it is here.
    pub(crate) fn next(&self) -> u64 {
        self.reassembly.next() + u64::from(self.fin_received())
    }

    /// The whole stream of the peer has arrived.
    pub(crate) fn fin_received(&self) -> bool {
        self.fin == Some(self.reassembly.next())
    }

    /// RCV.WND: never taken back, because the buffer's right edge only moves when it is read.
    pub(crate) fn window(&self) -> u64 {
        self.buffer.size() - self.reassembly.unread_bytes() as u64
    }

    /// The peer cannot send a full segment: too much waits for the application.
    pub(crate) fn is_shut(&self) -> bool {
        self.window() < 2 * self.mss
    }

    pub(crate) fn last_ack(&self) -> u64 {
        self.last_ack
    }

    pub(crate) fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// Telemetry of the data segments since the last ACK.
    pub(crate) fn telemetry(&self) -> u16 {
        self.telemetry
    }

    /// In-order bytes that wait for the application.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.reassembly.unread_bytes()
    }

    /// In-order data for the application, exchanged for the storage of `buffer`, which is empty.
    /// Asks for a window update if that opens the window by half the buffer or two segments (RFC
    /// 9293 3.8.6.2.2).
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) {
        self.reassembly.take_ready(buffer);
        let edge = self.reassembly.next() + self.window();
        let shut = self.advertised_edge.saturating_sub(self.reassembly.next()) < 2 * self.mss;
        if shut && edge - self.advertised_edge >= (2 * self.mss).min(self.buffer.size() / 2) {
            self.request_ack();
        }
    }

    /// RFC 9293 3.10.7.4, first check: does `[start, start + len)` touch the receive window?
    pub(crate) fn is_acceptable(&self, start: u64, len: u64) -> bool {
        let (next, edge) = (self.next(), self.reassembly.next() + self.window());
        match (len, edge > next) {
            (0, false) => start == next,
            (0, true) => start >= next && start < edge,
            (_, false) => false,
            (_, true) => start < edge && start + len > next,
        }
    }

    /// Takes an acceptable segment with data or FIN.
    pub(crate) fn on_arrival(&mut self, now: Instant, arrival: Arrival<'_>) {
        let Arrival {
            start,
            payload,
            fin,
            ce,
            cwr,
            telemetry,
        } = arrival;
        let next_before = self.next();
        self.counters.packets += 1;
        self.counters.ce_packets += u64::from(ce);
        let mut at_once = false;
        let old_ece = self.echo.echo();
        if self.echo.on_data(ce, cwr) == EchoAction::AckOldStateThenNew {
            if self.unacked_packets > 0 {
                self.push_due(AckState {
                    ece: old_ece,
                    ..self.ack_state()
                });
            }
            at_once = true;
        }
        self.telemetry = telemetry;
        let edge = self.reassembly.next() + self.window();
        let end = start + payload.len() as u64;
        if fin && end <= edge && self.fin.is_none() {
            self.fin = Some(end);
        }
        let had_gaps = self.reassembly.has_gaps();
        let in_order = start <= self.reassembly.next();
        // Beyond the window, or beyond a FIN already seen, there is nothing to take.
        let limit = self.fin.map_or(edge, |fin| fin.min(edge));
        let take = limit.min(end).saturating_sub(start) as usize;
        self.reassembly.insert(start, &payload[..take]);
        let taken = self.reassembly.next() - self.reassembly.unread_bytes() as u64;
        self.buffer.on_progress(now, taken);
        if self.next() == next_before {
            self.counters.duplicates += u64::from(in_order);
            at_once = true;
        }
        // RFC 5681 4.2: at once when a gap appears or is filled, and at the end of the stream.
        at_once |= had_gaps || self.reassembly.has_gaps() || self.fin_received();
        // A NIC may have put several segments together, and each of them counts.
        self.unacked_packets += (payload.len() as u64).div_ceil(self.mss).max(1) as u32;
        if at_once || self.unacked_packets >= self.ack_every_packets {
            self.request_ack();
        } else if self.ack_deadline.is_none() {
            self.ack_deadline = Some(now + self.delayed_ack_timeout);
        }
    }

    /// A segment with nothing new: its ACK may have been lost.
    pub(crate) fn on_duplicate(&mut self) {
        self.counters.packets += 1;
        self.counters.duplicates += 1;
        self.request_ack();
    }

    /// Asks for an ACK at once.
    pub(crate) fn request_ack(&mut self) {
        self.push_due(self.ack_state());
    }

    fn push_due(&mut self, ack: AckState) {
        if self.due.len() >= MAX_DUE_ACKS {
            self.due.pop_back();
        }
        self.due.push_back(ack);
        self.ack_deadline = None;
        self.unacked_packets = 0;
        self.telemetry = 0;
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if self.ack_deadline.is_some_and(|deadline| deadline <= now) {
            self.request_ack();
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// The next ACK that must go out by itself before a segment with data or FIN may carry the
    /// latest: all but the last, and that too if it says something else about ECN, or has telemetry.
    pub(crate) fn take_earlier_ack(&mut self) -> Option<AckState> {
        let first = self.due.front()?;
        let differs = first.ece != self.echo.echo() || first.telemetry != 0;
        if self.due.len() > 1 || differs {
            self.take_ack()
        } else {
            None
        }
    }

    /// The next ACK to send by itself.
    pub(crate) fn take_ack(&mut self) -> Option<AckState> {
        let ack = self.due.pop_front()?;
        self.counters.acks_sent += 1;
        self.note_sent(ack.ack);
        Some(ack)
    }

    /// Acknowledgment of a segment that is sent now.
    pub(crate) fn ack_state(&self) -> AckState {
        AckState {
            ack: self.next(),
            ece: self.echo.echo(),
            sack_blocks: self.reassembly.sack_blocks(),
            out_of_order_bytes: self.reassembly.out_of_order_bytes(),
            telemetry: self.telemetry,
        }
    }

    /// A segment with [`Self::ack_state`] has been sent for its data or FIN.
    pub(crate) fn on_ack_carried(&mut self) {
        self.due.clear();
        self.ack_deadline = None;
        self.unacked_packets = 0;
        self.note_sent(self.next());
    }

    fn note_sent(&mut self, ack: u64) {
        self.last_ack = self.last_ack.max(ack);
        self.advertised_edge = self
            .advertised_edge
            .max(self.reassembly.next() + self.window());
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
