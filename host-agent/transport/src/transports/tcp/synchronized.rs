//! A connection after the handshake: segment arrival in the order of RFC 9293 3.10.7.4, timers,
//! and building the segments that go out.

use std::borrow::Cow;

use ebb_units::{Duration, Instant};
use ebb_wire::{DropNotification, TcpFlags, TcpOptions};

use super::again::Again;
use super::algorithm::Algorithm;
use super::congestion::{EcnMode, Window};
use super::feedback::{FeedbackSet, Message};
use super::handshake::Agreement;
use super::params::TcpParams;
use super::reassembly::SackRanges;
use super::receiver::{AckState, Arrival, Receiver};
use super::segment::{Flags, Segment, unwrap_sequence, wrap_sequence};
use super::sender::{AckArrival, Negotiated, Sender, SenderCounters, TimerOutcome, Transmission};
use super::state::{Failure, State, Statistics};
use super::stream::Stream;
use crate::objection::Objection;
use crate::record::TcpSummary;
use crate::rtt::RttEstimator;

/// Questions to a silent peer before it counts as gone, evenly over `idle_timeout_ns`.
const KEEPALIVES: u32 = 3;

/// Effect of an input on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Continue,
    Closed,
    Failed(Failure),
}

/// Event that a connection waits for while nothing of its own is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// More of the peer's stream, which a peer that lives sends within `idle_timeout_ns`.
    Bytes,
    /// A decision of the peer's application, for which a peer that lives may take any time.
    Answer,
    /// Nothing.
    Nothing,
}

/// Results of the handshake.
pub(crate) struct Opening {
    pub(crate) stream: Stream,
    pub(crate) iss: u32,
    pub(crate) agreement: Agreement,
    pub(crate) rtt: RttEstimator,
    pub(crate) counters: SenderCounters,
    /// Sequence numbers after our SYN's own that the peer has acknowledged already.
    pub(crate) acked: u64,
}

pub(crate) struct Synchronized {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) stream_acked_at: Option<Instant>,
    iss: u32,
    agreement: Agreement,
    /// TS.Recent of RFC 7323.
    recent_timestamp: Option<u32>,
    /// Our FIN was on its way before the peer's arrived: TIME-WAIT is ours.
    closed_first: bool,
    time_wait_until: Option<Instant>,
    last_heard: Instant,
    /// While neither side has sent its FIN.
    waiting: Waiting,
    /// Questions since then whether the peer is still there.
    keepalives: u32,
    /// Earliest time of the next ACK in answer to an unacceptable empty segment.
    next_challenge: Instant,
    /// An ACK that the network dropped.
    ack_again: Again,
    feedback: FeedbackSet,
    challenge_interval: Duration,
    time_wait: Duration,
    idle_timeout: Duration,
}

impl Synchronized {
    pub(crate) fn new(
        params: &TcpParams,
        algorithm: &Algorithm,
        opening: Opening,
        now: Instant,
    ) -> Self {
        let Opening {
            stream,
            iss,
            agreement,
            rtt,
            counters,
            acked,
        } = opening;
        let negotiated = Negotiated {
            segment_bytes: agreement.segment_bytes,
            sack: agreement.sack,
            ecn: agreement.ecn,
            window: agreement.window,
            window_seq: 0,
            una: 1 + acked,
        };
        let window = Window::new(params, negotiated.segment_bytes);
        let congestion = (algorithm.start)(params, window);
        let reactions = algorithm.feedback.reactions();
        let sender = Sender::new(
            params, congestion, reactions, stream, negotiated, rtt, counters,
        );
        let stream_acked_at = (acked > 0 && sender.stream_acked()).then_some(now);
        Synchronized {
            sender,
            receiver: Receiver::new(params, agreement.ecn, 1),
            stream_acked_at,
            iss,
            recent_timestamp: agreement.timestamp,
            agreement,
            closed_first: false,
            time_wait_until: None,
            last_heard: now,
            waiting: Waiting::Bytes,
            keepalives: 0,
            next_challenge: Instant::ZERO,
            ack_again: Again::default(),
            feedback: algorithm.feedback.clone(),
            challenge_interval: params.delayed_ack_timeout(),
            time_wait: params.time_wait(),
            idle_timeout: params.idle_timeout(),
        }
    }

    /// Takes what the peer's SYN carried.
    pub(crate) fn take_early(&mut self, now: Instant, syn: &Segment<'_>) {
        self.receiver.on_arrival(
            now,
            Arrival {
                start: 1,
                payload: &syn.payload,
                fin: syn.flags.fin,
                ce: syn.ce,
                cwr: false,
                telemetry: self.feedback.echo(0, syn.id),
            },
        );
    }

    /// Puts what has arrived into our SYN-ACK.
    pub(crate) fn acknowledge_early(&mut self, syn_ack: &mut Segment<'_>) {
        syn_ack.ack = Some(wrap_sequence(self.receiver.next(), self.agreement.irs));
        self.receiver.on_ack_carried();
    }

    /// Whether a segment may end the handshake: it acknowledges our SYN and nothing that was never
    /// sent. And the number of the peer's stream is one that we would take.
    pub(crate) fn ends_handshake(&self, segment: &Segment<'_>) -> Option<bool> {
        let ack = unwrap_sequence(segment.ack?, self.iss, self.sender.una());
        let acks = ack.is_some_and(|ack| (1..=self.sender.next()).contains(&ack));
        let start = unwrap_sequence(segment.seq, self.agreement.irs, self.receiver.next());
        let length = u64::from(segment.sequence_length());
        let taken = |start| start < self.receiver.next() + self.receiver.window().max(1);
        Some(acks && start.is_some_and(|start| taken(start) && start + length >= 1))
    }

    /// The state is what has been sent, acknowledged and received; nothing else is kept.
    pub(crate) fn state(&self) -> State {
        let sender = &self.sender;
        match (
            sender.fin_sent(),
            sender.fin_acked(),
            self.receiver.fin_received(),
        ) {
            (false, _, false) => State::Established,
            (false, _, true) => State::CloseWait,
            (true, false, false) => State::FinWait1,
            (true, true, false) => State::FinWait2,
            (true, false, true) if self.closed_first => State::Closing,
            (true, false, true) => State::LastAck,
            (true, true, true) if self.closed_first => State::TimeWait,
            (true, true, true) => State::Closed,
        }
    }

    pub(crate) fn ecn(&self) -> EcnMode {
        self.agreement.ecn
    }

    pub(crate) fn agreement(&self) -> Agreement {
        self.agreement
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let (sender, congestion) = (self.sender.counters(), self.sender.congestion());
        Statistics {
            sender,
            receiver: self.receiver.counters(),
            summary: TcpSummary {
                srtt_ns: self.sender.rtt().smoothed().map(Duration::as_nanos),
                window_bytes: congestion.window().bytes(),
                loss_episodes: sender.loss_episodes,
                marked_fraction: congestion.marked_fraction(),
                dctcp_alpha: congestion.marked_fraction(),
            },
            threshold_packets: self.sender.threshold_packets(),
        }
    }

    pub(crate) fn handle_segment(&mut self, now: Instant, segment: &Segment<'_>) -> Step {
        // RFC 7323 3.2: where timestamps are in use, all but a RST have one.
        let timed = segment.options.timestamps.is_some() || segment.flags.rst;
        if self.recent_timestamp.is_some() && !timed {
            return Step::Continue;
        }
        let expected = self.receiver.next();
        let length = u64::from(segment.sequence_length());
        let offset = unwrap_sequence(segment.seq, self.agreement.irs, expected);
        // First: is it for us to look at? (RFC 9293 3.10.7.4, RFC 7323 5.3)
        let Some(start) = offset.filter(|&start| {
            self.receiver.is_acceptable(start, length) && self.timestamp_is_fresh(segment)
        }) else {
            return self.refuse(now, segment, length, expected);
        };
        // RFC 5961 3 and 4: only an exact RST resets; a SYN never does.
        if segment.flags.rst {
            if start == expected {
                let objection = Objection::from_word(&segment.payload);
                return Step::Failed(objection.map_or(Failure::Reset, Failure::Refusal));
            }
            return self.challenge(now);
        }
        if segment.flags.syn {
            return self.challenge(now);
        }
        let Some(ack_number) = segment.ack else {
            return Step::Continue;
        };
        let Some(ack) = self.plausible_ack(ack_number) else {
            return self.challenge(now);
        };
        // While we wait for data, only data moves things on: two ends that disagree about what has
        // been acknowledged must not keep each other alive.
        if length > 0 || self.waits_for() == Waiting::Answer {
            self.heard(now);
        }
        if let (Some((value, _)), true) = (
            segment.options.timestamps,
            start <= self.receiver.last_ack(),
        ) {
            self.recent_timestamp = self.recent_timestamp.map(|_| value);
        }
        if ack >= self.sender.una() {
            self.handle_ack(now, segment, start, ack);
        }
        let state = self.state();
        if length > 0 && !self.receiver.fin_received() {
            let telemetry = self.feedback.echo(self.receiver.telemetry(), segment.id);
            self.receiver.on_arrival(
                now,
                Arrival {
                    start,
                    payload: &segment.payload,
                    fin: segment.flags.fin,
                    ce: segment.ce,
                    cwr: segment.flags.cwr,
                    telemetry,
                },
            );
            if self.receiver.fin_received() {
                self.closed_first = matches!(state, State::FinWait1 | State::FinWait2);
            }
        }
        self.after_transition(now)
    }

    /// RFC 5961 5.2: nobody who knows the connection acknowledges what was never sent, or less than
    /// a window before what is acknowledged already.
    fn plausible_ack(&self, ack_number: u32) -> Option<u64> {
        let (una, next) = (self.sender.una(), self.sender.next());
        let oldest = una.saturating_sub(self.sender.max_peer_window());
        unwrap_sequence(ack_number, self.iss, una).filter(|ack| (oldest..=next).contains(ack))
    }

    fn heard(&mut self, now: Instant) {
        self.last_heard = now;
        self.keepalives = 0;
    }

    /// A message of the network about a segment of ours. True: it had an effect on the sender.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &Message) -> bool {
        let Some(start) = self.plausible_ack(message.seq()) else {
            return false;
        };
        match message {
            Message::Dropped(dropped)
                if dropped.flags.contains(TcpFlags::SYN)
                    || dropped.flags.contains(TcpFlags::RST) =>
            {
                false
            }
            Message::Dropped(dropped) if dropped.stream_length() == 0 => {
                self.handle_dropped_ack(now, dropped);
                false
            }
            _ => self.sender.handle_message(now, message, start),
        }
    }

    fn handle_dropped_ack(&mut self, now: Instant, dropped: &DropNotification) {
        let Some(first_round_trip) = self.feedback.first_round_trip() else {
            return;
        };
        let round_trip = self.sender.rtt().minimum().unwrap_or(first_round_trip);
        let acked = unwrap_sequence(dropped.ack, self.agreement.irs, self.receiver.next());
        let was_sent = acked.is_some_and(|acked| acked <= self.receiver.last_ack());
        let is_ack = dropped.flags.contains(TcpFlags::ACK) && was_sent;
        if is_ack && self.ack_again.ask(now, round_trip) {
            self.receiver.request_ack();
        }
    }

    fn after_transition(&mut self, now: Instant) -> Step {
        match self.state() {
            State::Closed => return Step::Closed,
            State::TimeWait if self.time_wait_until.is_none() => {
                self.time_wait_until = Some(now + self.time_wait);
            }
            _ => {}
        }
        Step::Continue
    }

    fn handle_ack(&mut self, now: Instant, segment: &Segment<'_>, start: u64, ack: u64) {
        let shift = self.agreement.window_shifts.map_or(0, |(peer, _)| peer);
        let next = self.sender.next();
        let pure = segment.sequence_length() == 0;
        let mut sack_blocks = SackRanges::new();
        if self.agreement.sack {
            for &(left, right) in &segment.options.sack_blocks {
                let left = unwrap_sequence(left, self.iss, ack);
                let right = unwrap_sequence(right, self.iss, ack);
                // RFC 2018 5.1 and RFC 2883: what lies outside the flight says nothing.
                if let (Some(left), Some(right)) = (left, right)
                    && ack < left
                    && left < right
                    && right <= next
                {
                    // As many as the option holds.
                    let _ = sack_blocks.try_push((left, right));
                }
            }
        }
        let echoed = segment
            .options
            .timestamps
            .filter(|_| self.recent_timestamp.is_some());
        let echoed_rtt = echoed.map(|(_, echo)| {
            Duration::from_micros(u64::from((now.as_micros() as u32).wrapping_sub(echo)))
        });
        self.sender.handle_ack(
            now,
            AckArrival {
                ack,
                seq: start,
                window: u64::from(segment.window) << shift,
                sack_blocks: &sack_blocks,
                ece: segment.flags.ece,
                pure,
                echoed_rtt,
                out_of_order_bytes: segment.options.out_of_order_bytes,
                telemetry: if pure { segment.id } else { 0 },
            },
        );
        if self.sender.stream_acked() && self.stream_acked_at.is_none() {
            self.stream_acked_at = Some(now);
        }
    }

    /// PAWS (RFC 7323 5.3): a segment older than the newest seen in order is from another age.
    fn timestamp_is_fresh(&self, segment: &Segment<'_>) -> bool {
        match (self.recent_timestamp, segment.options.timestamps) {
            (Some(recent), Some((value, _))) => (value.wrapping_sub(recent) as i32) >= 0,
            _ => true,
        }
    }

    /// Answers an unacceptable segment with an ACK: it may be a retransmission whose ACK was lost.
    fn refuse(&mut self, now: Instant, segment: &Segment<'_>, length: u64, expected: u64) -> Step {
        if segment.flags.rst {
            return Step::Continue;
        }
        if self.time_wait_until.is_some() && segment.flags.fin {
            self.time_wait_until = Some(now + self.time_wait);
        }
        if length == 0 {
            // A window probe or keep-alive lies just before what we expect. It shows that the peer
            // is there, although the window is shut for everything else. While it is open, only a
            // peer that was announced another window probes, and that will not end by itself.
            let before = unwrap_sequence(segment.seq.wrapping_add(1), self.agreement.irs, expected);
            let acks = segment.ack.and_then(|ack| self.plausible_ack(ack));
            let silent = self.receiver.is_shut() || self.receiver.fin_received();
            if before == Some(expected) && acks.is_some() && silent {
                self.heard(now);
            }
            return self.challenge(now);
        }
        self.heard(now);
        self.receiver.on_duplicate();
        Step::Continue
    }

    /// An ACK that shows the peer where we are (RFC 5961), not more often than the delayed-ACK
    /// timer, so that two confused ends do not answer each other for ever.
    fn challenge(&mut self, now: Instant) -> Step {
        if now >= self.next_challenge {
            self.next_challenge = now + self.challenge_interval;
            self.receiver.request_ack();
        }
        Step::Continue
    }

    /// From now on the connection waits for something else.
    pub(crate) fn set_waiting(&mut self, now: Instant, waiting: Waiting) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.heard(now);
        }
    }

    fn waits_for(&self) -> Waiting {
        match self.state() {
            State::Established => self.waiting,
            // Its FIN: what it has to say, its application says.
            State::FinWait1 | State::FinWait2 => Waiting::Answer,
            _ => Waiting::Nothing,
        }
    }

    /// Nothing of ours is under way, so only the peer can move things on: it must not be silent.
    /// When its application may be slow, it may have nothing to say; so we ask (RFC 9293 3.8.4), and
    /// give up when the last question has gone unanswered too.
    fn idle_deadline(&self) -> Option<Instant> {
        if self.sender.next_deadline().is_some() || self.sender.has_unsent() {
            return None;
        }
        let patience = match self.waits_for() {
            Waiting::Bytes => self.idle_timeout,
            Waiting::Answer => self
                .idle_timeout
                .mul_div(u64::from(self.keepalives) + 1, u64::from(KEEPALIVES) + 1),
            Waiting::Nothing => return None,
        };
        Some(self.last_heard + patience)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let sending = self.sender.next_deadline();
        Instant::earliest([
            sending,
            self.receiver.next_deadline(),
            self.time_wait_until,
            // There is none while the sender has one.
            sending.map_or_else(|| self.idle_deadline(), |_| None),
            self.ack_again.deadline(),
        ])
    }

    /// The same before the handshake is over, when what we have sent is repeated only if the network
    /// says that it dropped it.
    pub(crate) fn next_early_deadline(&self) -> Option<Instant> {
        Instant::earliest([
            self.sender.reaction_deadline(),
            self.receiver.next_deadline(),
            self.ack_again.deadline(),
        ])
    }

    pub(crate) fn handle_early_deadline(&mut self, now: Instant) {
        if self.ack_again.take(now) {
            self.receiver.request_ack();
        }
        self.receiver.handle_deadline(now);
        self.sender.handle_reaction_deadline(now);
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) -> Step {
        if self.time_wait_until.is_some_and(|until| until <= now) {
            return Step::Closed;
        }
        if self.idle_deadline().is_some_and(|deadline| deadline <= now) {
            if self.waits_for() != Waiting::Answer || self.keepalives >= KEEPALIVES {
                return Step::Failed(Failure::PeerSilent(now.since(self.last_heard)));
            }
            self.keepalives += 1;
            self.sender.request_probe();
        }
        if self.ack_again.take(now) {
            self.receiver.request_ack();
        }
        self.receiver.handle_deadline(now);
        match self.sender.handle_deadline(now) {
            TimerOutcome::Continue => Step::Continue,
            TimerOutcome::GiveUp => {
                let retries = self.sender.retries() - 1;
                Step::Failed(Failure::RetransmissionTimeout { retries })
            }
        }
    }

    pub(crate) fn poll_transmit<'b>(
        &mut self,
        now: Instant,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Segment<'b>>, Failure> {
        if let Some(ack) = self.receiver.take_earlier_ack() {
            return Ok(Some(self.segment(now, self.sender.next(), ack)));
        }
        let state = self.receiver.ack_state();
        let segment = match self.sender.poll_transmission(now) {
            Some(Transmission::Segment {
                start,
                end,
                retransmission,
                cwr,
            }) => {
                let fin = self.sender.read(start, end, buffer).map_err(|error| {
                    Failure::SourceUnreadable {
                        offset: start - 1,
                        error: error.kind(),
                    }
                })?;
                let payload = &buffer[..];
                let mut segment: Segment<'b> = self.segment(now, start, state);
                segment.flags.fin = fin;
                segment.flags.psh = !payload.is_empty() && self.sender.ends_stream(end);
                segment.flags.cwr = cwr;
                // RFC 3168 6.1.4 and 6.1.5: neither pure ACKs nor retransmissions are ECT.
                segment.ect =
                    self.agreement.ecn != EcnMode::Off && !payload.is_empty() && !retransmission;
                if !payload.is_empty() {
                    // They would not fit beside a full payload, and the identification has other uses there.
                    segment.options.sack_blocks.clear();
                    segment.options.out_of_order_bytes = None;
                    segment.id = 0;
                    let remaining_bytes = || self.sender.remaining_bytes().max(1);
                    self.feedback.stamp(remaining_bytes, &mut segment);
                }
                segment.payload = Cow::Borrowed(payload);
                segment
            }
            Some(Transmission::WindowProbe) => self.segment(now, self.sender.una() - 1, state),
            None => {
                let ack = self.receiver.take_ack();
                return Ok(ack.map(|ack| self.segment(now, self.sender.next(), ack)));
            }
        };
        self.receiver.on_ack_carried();
        Ok(Some(segment))
    }

    /// The RST that ends this connection on both sides.
    pub(crate) fn reset_segment(&self) -> Segment<'static> {
        Segment {
            seq: wrap_sequence(self.sender.next(), self.iss),
            ack: Some(wrap_sequence(self.receiver.next(), self.agreement.irs)),
            flags: Flags {
                rst: true,
                ..Flags::default()
            },
            // RFC 8257 3.6, as for SYN.
            ect: self.agreement.ecn == EcnMode::Accurate,
            ..Segment::default()
        }
    }

    /// A segment at offset `start` with the acknowledgment `state`, window and options.
    #[inline]
    fn segment(&self, now: Instant, start: u64, state: AckState) -> Segment<'static> {
        let shift = self.agreement.window_shifts.map_or(0, |(_, ours)| ours);
        let timestamps = self
            .recent_timestamp
            .map(|recent| (now.as_micros() as u32, recent));
        let wrap = |offset| wrap_sequence(offset, self.agreement.irs);
        let fit = match (self.agreement.sack, timestamps) {
            (false, _) => 0,
            (true, Some(_)) => 3,
            (true, None) => 4,
        };
        let blocks = state.sack_blocks.iter().take(fit);
        let sack_blocks = blocks
            .map(|&(left, right)| (wrap(left), wrap(right)))
            .collect();
        let mut segment = Segment {
            seq: wrap_sequence(start, self.iss),
            ack: Some(wrap(state.ack)),
            flags: Flags {
                ece: state.ece,
                ..Flags::default()
            },
            window: (self.receiver.window() >> shift).min(u64::from(u16::MAX)) as u16,
            options: TcpOptions {
                timestamps,
                sack_blocks,
                ..TcpOptions::default()
            },
            id: state.telemetry,
            ..Segment::default()
        };
        self.feedback
            .stamp_ack(state.out_of_order_bytes, &mut segment.options);
        segment
    }
}
