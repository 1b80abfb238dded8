//! One connection, from SYN to TIME-WAIT (RFC 9293), without a socket or a clock.
//!
//! Call order: `handle_segment` / `handle_deadline`, then the getters and `read`, then
//! `poll_transmit` until it returns None, then `next_deadline`. Time never goes back.

use std::borrow::Cow;
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::TcpFlags;

use super::algorithm::Algorithm;
use super::congestion::EcnMode;
use super::feedback::Message;
use super::handshake::{Agreement, Handshake};
use super::params::TcpParams;
use super::segment::{Flags, Segment};
use super::state::{Failure, State, Statistics};
use super::stream::Stream;
use super::synchronized::{Opening, Step, Synchronized, Waiting};
use crate::object::ObjectSource;
use crate::objection::Objection;

enum Phase {
    Handshake(Stream, Box<Handshake>),
    /// SYN-RECEIVED of a peer whose SYN carried data: all is as after the handshake, but that our
    /// SYN-ACK is repeated and nothing else is.
    Early(Box<Handshake>, Box<Synchronized>),
    Synchronized(Box<Synchronized>),
    Ended,
}

/// A connection from its SYN to its end.
pub struct Connection {
    params: Arc<TcpParams>,
    algorithm: Algorithm,
    /// Initial send sequence number.
    iss: u32,
    phase: Phase,
    closing: bool,
    failure: Option<Failure>,
    reset: Option<Segment<'static>>,
    /// Kept when the connection has ended.
    statistics: Statistics,
    stream_acked_at: Option<Instant>,
    /// The same of bytes sent.
    sent_bytes: u64,
    /// The peer's SYN carried data, which was taken.
    took_early: bool,
}

impl Connection {
    /// Active open. `stream` is sent once the connection stands; call [`Self::close`] to have FIN
    /// follow it. `iss` is random, chosen by the caller.
    pub fn connect(
        params: Arc<TcpParams>,
        algorithm: Algorithm,
        stream: Arc<dyn ObjectSource>,
        iss: u32,
    ) -> Self {
        Self::new(params, algorithm, stream, iss, None)
    }

    /// Passive open in answer to `syn` at `now`. None if that is not a plain SYN. Data in it is taken
    /// if the parameters say so.
    pub fn accept(
        now: Instant,
        params: Arc<TcpParams>,
        algorithm: Algorithm,
        stream: Arc<dyn ObjectSource>,
        iss: u32,
        syn: &Segment<'_>,
    ) -> Option<Self> {
        if !syn.opens_a_connection() {
            return None;
        }
        let agreement = Agreement::new(&params, algorithm.ecn, syn);
        let takes_data = params.data_in_syn && !syn.payload.is_empty();
        let mut connection = Self::new(params, algorithm, stream, iss, Some(agreement));
        if takes_data {
            connection.take_early(now, agreement, syn);
        }
        Some(connection)
    }

    fn take_early(&mut self, now: Instant, agreement: Agreement, syn: &Segment<'_>) {
        let handshake = Box::new(Handshake::new(&self.params, Some(agreement)));
        self.establish(now, agreement, agreement.window, 0);
        self.took_early = true;
        if let Phase::Synchronized(mut s) = std::mem::replace(&mut self.phase, Phase::Ended) {
            s.take_early(now, syn);
            self.phase = Phase::Early(handshake, s);
        }
    }

    /// Whether the peer's SYN carried data that was taken: it is there before the handshake is over.
    pub(crate) fn took_early(&self) -> bool {
        self.took_early
    }

    /// State once data can flow.
    fn synchronized(&self) -> Option<&Synchronized> {
        match &self.phase {
            Phase::Early(_, s) | Phase::Synchronized(s) => Some(s),
            Phase::Handshake(..) | Phase::Ended => None,
        }
    }

    fn synchronized_mut(&mut self) -> Option<&mut Synchronized> {
        match &mut self.phase {
            Phase::Early(_, s) | Phase::Synchronized(s) => Some(s),
            Phase::Handshake(..) | Phase::Ended => None,
        }
    }

    /// The peer has closed and we have not: our verdict on its stream is still to be sent.
    pub(crate) fn is_to_close(&self) -> bool {
        let state = self.synchronized().map(Synchronized::state);
        state == Some(State::CloseWait)
    }

    fn new(
        params: Arc<TcpParams>,
        algorithm: Algorithm,
        stream: Arc<dyn ObjectSource>,
        iss: u32,
        agreement: Option<Agreement>,
    ) -> Self {
        let handshake = Box::new(Handshake::new(&params, agreement));
        Connection {
            params,
            algorithm,
            iss,
            phase: Phase::Handshake(Stream::of(stream), handshake),
            closing: false,
            failure: None,
            reset: None,
            statistics: Statistics::default(),
            stream_acked_at: None,
            sent_bytes: 0,
            took_early: false,
        }
    }

    /// State of RFC 9293.
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Handshake(_, h) if h.agreement.is_none() => State::SynSent,
            Phase::Handshake(..) | Phase::Early(..) => State::SynReceived,
            Phase::Synchronized(s) => s.state(),
            Phase::Ended => State::Closed,
        }
    }

    pub(super) fn iss(&self) -> u32 {
        self.iss
    }

    /// Offers the peer to keep the connection open for several objects; to be called at once.
    pub(crate) fn offer_to_stay_open(&mut self) {
        if let Phase::Handshake(_, handshake) = &mut self.phase {
            handshake.stays_open = true;
        }
    }

    /// The peer may never have asked for what we send, and not get it: until it has answered, data goes
    /// with the first SYN only, and SYNs are repeated no more often than the SYN-ACKs that any stranger
    /// gets. To be called at once.
    pub(crate) fn distrust_peer(&mut self) {
        if let Phase::Handshake(_, handshake) = &mut self.phase {
            handshake.to_stranger = true;
        }
    }

    /// Whether both keep it open. None: the peer has not said.
    pub(crate) fn stays_open(&self) -> Option<bool> {
        self.agreement().map(|agreement| agreement.stays_open)
    }

    /// The peer's initial sequence number, once known.
    pub(crate) fn peer_iss(&self) -> Option<u32> {
        self.agreement().map(|agreement| agreement.irs)
    }

    fn agreement(&self) -> Option<Agreement> {
        match &self.phase {
            Phase::Handshake(_, handshake) => handshake.agreement,
            Phase::Early(_, s) | Phase::Synchronized(s) => Some(s.agreement()),
            Phase::Ended => None,
        }
    }

    /// Appends bytes to what is sent, unless the connection is closing or has ended.
    pub(crate) fn append(&mut self, source: Arc<dyn ObjectSource>) {
        match &mut self.phase {
            _ if self.closing => {}
            Phase::Handshake(stream, _) => stream.append(source),
            Phase::Early(_, s) | Phase::Synchronized(s) => s.sender.append(source),
            Phase::Ended => {}
        }
    }

    /// Sets the event that a connection that stays open waits for.
    pub(crate) fn set_waiting(&mut self, now: Instant, waiting: Waiting) {
        if let Some(s) = self.synchronized_mut() {
            s.set_waiting(now, waiting);
        }
    }

    /// Why it failed. None: it has not.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The peer's FIN and everything before it has arrived.
    pub fn peer_closed(&self) -> bool {
        self.synchronized()
            .is_some_and(|s| s.receiver.fin_received())
    }

    /// When the last byte of our stream was acknowledged.
    pub fn stream_acked_at(&self) -> Option<Instant> {
        match self.synchronized() {
            Some(s) => s.stream_acked_at,
            None => self.stream_acked_at,
        }
    }

    /// Counters and estimates so far.
    pub fn statistics(&self) -> Statistics {
        match &self.phase {
            Phase::Early(_, s) | Phase::Synchronized(s) => s.statistics(),
            Phase::Handshake(_, h) => Statistics {
                sender: h.counters(),
                ..Statistics::default()
            },
            Phase::Ended => self.statistics,
        }
    }

    /// ACKs with ECN-Echo so far.
    pub(crate) fn ece_acks(&self) -> u64 {
        self.synchronized()
            .map_or(0, |s| s.sender.counters().ece_acks)
    }

    /// In-order bytes from the peer that [`Self::read`] would give. As long as they are not read
    /// they take up room in the window that the peer sees.
    pub fn unread_bytes(&self) -> usize {
        self.synchronized().map_or(0, |s| s.receiver.unread_bytes())
    }

    /// Exchanges the in-order bytes from the peer for the storage of `buffer`; what was in it is
    /// gone. No allocation, if the buffer has held a segment before.
    pub fn read(&mut self, buffer: &mut Vec<u8>) {
        buffer.clear();
        if let Some(s) = self.synchronized_mut() {
            s.receiver.read(buffer);
        }
    }

    /// Bytes of our stream that the peer has acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        self.synchronized().map_or(0, |s| s.sender.acked_bytes())
    }

    /// Bytes of our stream that have been sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        match &self.phase {
            Phase::Early(_, s) | Phase::Synchronized(s) => s.sender.sent_bytes(),
            Phase::Handshake(_, handshake) => handshake.syn_bytes,
            Phase::Ended => self.sent_bytes,
        }
    }

    /// Bytes of our stream that the peer is not known to have, once data can flow.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        self.synchronized()
            .map_or(0, |s| s.sender.remaining_bytes())
    }

    /// No more will be sent than the stream: FIN follows it.
    pub fn close(&mut self) {
        self.closing = true;
        if let Some(s) = self.synchronized_mut() {
            s.sender.close();
        }
    }

    /// Ends the connection at once, with a RST if the peer may know of it.
    pub fn abort(&mut self) {
        self.refuse(None);
    }

    /// The same, and the RST says why.
    pub(crate) fn refuse(&mut self, objection: Option<Objection>) {
        let reset = match &self.phase {
            Phase::Early(_, s) | Phase::Synchronized(s) => Some(s.reset_segment()),
            Phase::Handshake(_, h) => h.agreement.map(|agreement| Segment {
                seq: self.iss.wrapping_add(1),
                ack: Some(agreement.irs.wrapping_add(1)),
                flags: Flags {
                    rst: true,
                    ..Flags::default()
                },
                ..Segment::default()
            }),
            Phase::Ended => return,
        };
        self.fail(Failure::Aborted);
        let word = objection.map_or("", Objection::word).as_bytes();
        self.reset = reset.map(|reset| Segment {
            payload: Cow::Borrowed(word),
            ..reset
        });
    }

    fn fail(&mut self, failure: Failure) {
        self.end();
        self.failure = Some(failure);
    }

    fn end(&mut self) {
        self.statistics = self.statistics();
        self.stream_acked_at = self.stream_acked_at();
        self.sent_bytes = self.sent_bytes();
        self.phase = Phase::Ended;
    }

    /// Processes a segment of this connection (RFC 9293, 3.10.7).
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        let step = match &mut self.phase {
            Phase::Handshake(..) => return self.handle_handshake(now, segment),
            Phase::Early(..) => return self.handle_early(now, segment),
            Phase::Synchronized(s) => s.handle_segment(now, segment),
            Phase::Ended => {
                self.reset = segment.reset_for();
                return;
            }
        };
        self.take_step(step);
    }

    /// A message of the network about a packet of ours; one that cannot be about such a packet is
    /// ignored. True: it had an effect on the sender.
    pub fn handle_message(&mut self, now: Instant, message: &Message) -> bool {
        if let Message::Dropped(dropped) = message
            && dropped.flags.contains(TcpFlags::SYN)
            && let Phase::Handshake(_, handshake) | Phase::Early(handshake, _) = &mut self.phase
        {
            let is_answer = dropped.flags.contains(TcpFlags::ACK);
            let is_ours = dropped.seq == self.iss && is_answer == handshake.agreement.is_some();
            let first_round_trip = self.algorithm.feedback.first_round_trip();
            if let Some(round_trip) = first_round_trip.filter(|_| is_ours) {
                handshake.handle_drop(now, round_trip);
            }
            return false;
        }
        self.synchronized_mut()
            .is_some_and(|s| s.handle_message(now, message))
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Continue => {}
            Step::Closed => self.end(),
            Step::Failed(failure) => self.fail(failure),
        }
    }

    /// RFC 9293 3.10.7.3 (SYN-SENT) and 3.10.7.4 (SYN-RECEIVED).
    fn handle_handshake(&mut self, now: Instant, segment: &Segment<'_>) {
        let Phase::Handshake(_, handshake) = &mut self.phase else {
            return;
        };
        // Sequence numbers after our SYN's own that it acknowledges, of data in the SYN.
        let acked = segment
            .ack
            .map(|ack| ack.wrapping_sub(self.iss.wrapping_add(1)))
            .map(u64::from);
        let acks_our_syn = acked.is_some_and(|acked| acked <= handshake.syn_numbers);
        let passive = handshake.agreement;
        if segment.ack.is_some() && !acks_our_syn {
            // From an earlier connection between the same ports.
            self.reset = segment.reset_for();
            return;
        }
        if segment.flags.rst {
            match passive {
                None if acks_our_syn => self.fail(Failure::Refused),
                Some(agreement) if segment.seq == agreement.irs.wrapping_add(1) => {
                    self.fail(Failure::Reset);
                }
                _ => {}
            }
            return;
        }
        match passive {
            None if segment.flags.syn && acks_our_syn => {
                handshake.on_acked(now);
                let ahead = handshake.take_ahead();
                let agreement = Agreement::new(&self.params, self.algorithm.ecn, segment);
                self.establish(now, agreement, agreement.window, acked.unwrap_or(0));
                if let Some(s) = self.synchronized_mut() {
                    s.receiver.request_ack();
                }
                for segment in ahead {
                    self.handle_segment(now, &segment);
                }
            }
            None if acks_our_syn && handshake.syn_bytes > 0 => {
                handshake.keep_ahead(segment, &self.params);
            }
            Some(agreement) if segment.flags.syn && segment.seq == agreement.irs => {
                // Our SYN-ACK was lost.
                handshake.syn_pending = true;
            }
            Some(agreement) if acks_our_syn && !segment.flags.syn => {
                let ahead = segment.seq.wrapping_sub(agreement.irs.wrapping_add(1));
                if ahead > self.params.receive_buffer_bytes {
                    return;
                }
                handshake.on_acked(now);
                let shift = agreement.window_shifts.map_or(0, |(peer, _)| peer);
                self.establish(now, agreement, u64::from(segment.window) << shift, 0);
                self.handle_segment(now, segment);
            }
            // A simultaneous open, or noise.
            _ => {}
        }
    }

    /// SYN-RECEIVED (RFC 9293 3.10.7.4) of a peer whose SYN carried data.
    fn handle_early(&mut self, now: Instant, segment: &Segment<'_>) {
        let Phase::Early(handshake, s) = &mut self.phase else {
            return;
        };
        if segment.flags.rst {
            let step = s.handle_segment(now, segment);
            return self.take_step(step);
        }
        if segment.flags.syn {
            if segment.ack.is_none() && segment.seq == s.agreement().irs {
                // Our SYN-ACK was lost. What this one carries we have, or it comes again.
                handshake.syn_pending = true;
            }
            return;
        }
        match s.ends_handshake(segment) {
            Some(true) => handshake.on_acked(now),
            Some(false) => {
                self.reset = segment.reset_for();
                return;
            }
            None => return,
        }
        if let Phase::Early(handshake, mut s) = std::mem::replace(&mut self.phase, Phase::Ended) {
            let counters = handshake.counters();
            s.sender.handle_established(now, handshake.rtt, counters);
            self.phase = Phase::Synchronized(s);
            self.handle_segment(now, segment);
        }
    }

    /// `acked`: sequence numbers after the SYN's own that the peer has acknowledged.
    fn establish(&mut self, now: Instant, agreement: Agreement, window: u64, acked: u64) {
        let Phase::Handshake(stream, handshake) = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return;
        };
        let opening = Opening {
            stream,
            iss: self.iss,
            agreement: Agreement {
                window,
                ..agreement
            },
            counters: handshake.counters(),
            rtt: handshake.rtt,
            acked,
        };
        let mut synchronized = Synchronized::new(&self.params, &self.algorithm, opening, now);
        if self.closing {
            synchronized.sender.close();
        }
        self.phase = Phase::Synchronized(Box::new(synchronized));
    }

    /// Processes the deadlines up to `now`.
    pub fn handle_deadline(&mut self, now: Instant) {
        let step = match &mut self.phase {
            Phase::Handshake(_, handshake) | Phase::Early(handshake, _) => {
                if handshake.handle_deadline(now, &self.params) {
                    Step::Continue
                } else {
                    Step::Failed(Failure::HandshakeTimeout {
                        attempts: handshake.retries,
                    })
                }
            }
            Phase::Synchronized(s) => s.handle_deadline(now),
            Phase::Ended => Step::Continue,
        };
        if let Phase::Early(_, s) = &mut self.phase {
            s.handle_early_deadline(now);
        }
        self.take_step(step);
    }

    /// When [`Self::handle_deadline`] must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Handshake(_, handshake) => handshake.next_deadline(),
            // Data that we have sent waits for the handshake: a stranger gets it once.
            Phase::Early(handshake, s) => {
                let early = s.next_early_deadline();
                handshake.next_deadline().into_iter().chain(early).min()
            }
            Phase::Synchronized(s) => s.next_deadline(),
            Phase::Ended => None,
        }
    }

    /// The next segment to send, if any. Its payload is written over `buffer`.
    pub fn poll_transmit<'b>(
        &mut self,
        now: Instant,
        buffer: &'b mut Vec<u8>,
    ) -> Option<Segment<'b>> {
        if let Some(reset) = self.reset.take() {
            return Some(reset);
        }
        if let Phase::Handshake(_, handshake) | Phase::Early(handshake, _) = &mut self.phase
            && let Some(mut syn) = handshake.poll(now, &self.params, self.algorithm.ecn, self.iss)
        {
            if handshake.offers_timestamps(&self.params) {
                let echo = handshake.agreement.and_then(|a| a.timestamp).unwrap_or(0);
                syn.options.timestamps = Some((now.as_micros() as u32, echo));
            }
            return self.complete_syn(syn, buffer);
        }
        match &mut self.phase {
            Phase::Handshake(..) => None,
            Phase::Early(_, s) | Phase::Synchronized(s) => match s.poll_transmit(now, buffer) {
                Ok(segment) => segment,
                Err(failure) => {
                    let reset = s.reset_segment();
                    self.fail(failure);
                    Some(reset)
                }
            },
            Phase::Ended => None,
        }
    }

    /// Our SYN with the data that goes with it, or our SYN-ACK with what it acknowledges.
    fn complete_syn<'b>(
        &mut self,
        mut syn: Segment<'static>,
        buffer: &'b mut Vec<u8>,
    ) -> Option<Segment<'b>> {
        match &mut self.phase {
            Phase::Handshake(stream, handshake)
                if handshake.agreement.is_none()
                    && self.params.data_in_syn
                    && handshake.may_carry_data() =>
            {
                self.algorithm.feedback.stamp(|| stream.bytes(), &mut syn);
                let stream = (&*stream, self.closing);
                match handshake.add_data(syn, &self.params, stream, buffer) {
                    Ok(syn) => Some(syn),
                    Err(error) => {
                        let error = error.kind();
                        self.fail(Failure::SourceUnreadable { offset: 0, error });
                        None
                    }
                }
            }
            Phase::Early(_, s) => {
                s.acknowledge_early(&mut syn);
                Some(syn)
            }
            _ => Some(syn),
        }
    }

    /// The segment that was sent last has others behind it that go to the network card with it.
    pub(super) fn in_burst(&self) -> bool {
        self.synchronized().is_some_and(|s| s.sender.in_burst())
    }

    /// How ECN is used on this connection, once negotiated.
    pub fn ecn(&self) -> EcnMode {
        self.synchronized().map_or(EcnMode::Off, Synchronized::ecn)
    }
}
