//! The sending half of a connection: what to send next, loss recovery (RFC 6675, RFC 6582 without
//! SACK), the retransmission timer (RFC 6298) and zero-window probes (RFC 9293 3.8.6.1).
//!
//! The stream occupies offsets 1 ..= len, between SYN at 0 and FIN at len + 1.

mod counters;
pub(crate) mod reaction;

use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};

use self::reaction::{Next, Reaction};
use super::burst::{Bursts, Room};
use super::congestion::{Acknowledgment, CongestionControl, EcnMode};
use super::message::Message;
use super::params::TcpParams;
use super::scoreboard::Scoreboard;
use super::stream::Stream;
use crate::object::ObjectSource;
use crate::rtt::RttEstimator;

pub use counters::SenderCounters;

/// State of loss recovery. `until` is SND.NXT at the beginning of the episode: RecoveryPoint of
/// RFC 6675, recover of RFC 6582.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    None,
    /// Fast recovery: the window is held, holes are filled as the pipe allows.
    Fast {
        until: u64,
    },
    /// After a timeout: slow start over what was lost.
    Timeout {
        until: u64,
    },
}

/// An acceptable ACK, in offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckArrival<'a> {
    pub(crate) ack: u64,
    /// Sequence offset of the segment that carried it.
    pub(crate) seq: u64,
    /// SND.WND, scaled.
    pub(crate) window: u64,
    pub(crate) sack_blocks: &'a [(u64, u64)],
    pub(crate) ece: bool,
    /// The segment carried neither data nor SYN nor FIN, so it can be a duplicate ACK.
    pub(crate) pure: bool,
    /// Round-trip time from the echoed timestamp.
    pub(crate) echoed_rtt: Option<Duration>,
    /// Bytes that the receiver has beyond `ack`. None: it does not say.
    pub(crate) out_of_order_bytes: Option<u32>,
    /// [`Feedback::echo`](super::feedback::Feedback::echo) of the receiver; 0 beside data.
    pub(crate) telemetry: u16,
}

/// Next segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transmission {
    /// Offsets `[start, end)` of the stream, FIN included.
    Segment {
        start: u64,
        end: u64,
        retransmission: bool,
        cwr: bool,
    },
    /// An ACK just below SND.UNA, which makes the peer say its window again.
    WindowProbe,
}

/// Effect of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOutcome {
    Continue,
    /// `max_retries` timeouts in a row.
    GiveUp,
}

/// Results of the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiated {
    /// Payload bytes of a full segment.
    pub(crate) segment_bytes: u64,
    pub(crate) sack: bool,
    pub(crate) ecn: EcnMode,
    /// SND.WND of the segment that established the connection.
    pub(crate) window: u64,
    /// Its sequence offset.
    pub(crate) window_seq: u64,
    /// First offset that has not been acknowledged: 1, or more if the SYN carried data.
    pub(crate) una: u64,
}

/// The sending half of a connection.
pub(crate) struct Sender {
    stream: Stream,
    /// SND.UNA.
    una: u64,
    /// SND.NXT.
    next: u64,
    /// First offset beyond the peer's window.
    window_edge: u64,
    /// Largest window of the peer so far (MAX.SND.WND of RFC 5961).
    max_peer_window: u64,
    /// SND.WL1 and SND.WL2.
    window_update: (u64, u64),
    /// Payload bytes of a full segment.
    segment_bytes: u64,
    scoreboard: Scoreboard,
    congestion: Box<dyn CongestionControl>,
    rtt: RttEstimator,
    recovery: Recovery,
    /// Reactions to messages of the network; empty for most algorithms.
    reactions: Vec<Box<dyn Reaction>>,
    /// Whether a recovery of one of them is under way.
    repairs: bool,
    /// Whether both sides agreed on SACK.
    sack: bool,
    /// Whether both sides agreed on ECN.
    ecn: bool,
    /// Duplicate ACKs in a row.
    duplicate_acks: u32,
    /// DupThresh of the parameters.
    duplicate_ack_threshold: u32,
    /// Whether a pause longer than the timeout resets the window.
    restarts_after_idle: bool,
    /// The first retransmission of an episode goes out whatever the pipe (RFC 6675 5, step 4.3).
    retransmit_now: bool,
    /// SND.NXT when the congestion window last stopped the sender.
    window_limited_at: u64,
    /// Whether the next new segment carries CWR.
    cwr_pending: bool,
    bursts: Bursts,
    /// The application has closed: FIN follows the stream.
    closing: bool,
    /// Expiry of the retransmission timer, or of the persist timer. None: both are off.
    deadline: Option<Instant>,
    /// Timeouts in a row.
    retries: u32,
    /// Timeouts in a row after which the connection fails.
    max_retries: u32,
    /// Window probes since the peer's window shut.
    probes: u32,
    /// Whether a window probe is to be sent.
    probe_pending: bool,
    /// Time of the last segment with data. None: there was none.
    last_data_sent: Option<Instant>,
    counters: SenderCounters,
}

impl Sender {
    /// After the handshake, which may have measured `rtt` and has counted its own packets.
    pub(crate) fn new(
        params: &TcpParams,
        congestion: Box<dyn CongestionControl>,
        reactions: Vec<Box<dyn Reaction>>,
        stream: Stream,
        negotiated: Negotiated,
        rtt: RttEstimator,
        counters: SenderCounters,
    ) -> Self {
        Sender {
            stream,
            una: negotiated.una,
            next: negotiated.una,
            window_edge: negotiated.una + negotiated.window,
            max_peer_window: negotiated.window,
            window_update: (negotiated.window_seq, negotiated.una),
            segment_bytes: negotiated.segment_bytes,
            scoreboard: Scoreboard::with_room_for(params.initial_window_packets),
            congestion,
            rtt,
            reactions,
            repairs: false,
            recovery: Recovery::None,
            sack: negotiated.sack,
            ecn: negotiated.ecn != EcnMode::Off,
            duplicate_acks: 0,
            duplicate_ack_threshold: params.duplicate_ack_threshold,
            restarts_after_idle: params.restart_after_idle,
            retransmit_now: false,
            window_limited_at: 0,
            cwr_pending: false,
            bursts: Bursts::new(params.offload_bytes),
            closing: false,
            deadline: None,
            retries: 0,
            max_retries: params.max_retries,
            probes: 0,
            probe_pending: false,
            last_data_sent: None,
            counters,
        }
    }

    /// The handshake is over, after data had been sent already.
    pub(crate) fn handle_established(
        &mut self,
        now: Instant,
        rtt: RttEstimator,
        handshake: SenderCounters,
    ) {
        self.rtt = rtt;
        self.counters.retransmitted += handshake.retransmitted;
        self.counters.timeouts += handshake.timeouts;
        self.rearm(now);
    }

    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    pub(crate) fn threshold_packets(&self) -> u32 {
        let bytes = self.congestion.window().slow_start_threshold_bytes();
        u32::try_from(bytes / self.segment_bytes).unwrap_or(u32::MAX)
    }

    pub(crate) fn congestion(&self) -> &dyn CongestionControl {
        &*self.congestion
    }

    pub(crate) fn counters(&self) -> SenderCounters {
        self.counters
    }

    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let reaction = self.reaction_deadline();
        self.deadline.into_iter().chain(reaction).min()
    }

    pub(crate) fn max_retries(&self) -> u32 {
        self.max_retries
    }

    pub(crate) fn has_in_flight(&self) -> bool {
        !self.scoreboard.is_empty()
    }

    /// End of the segment in flight that begins at `start`.
    pub(crate) fn in_flight(&self, start: u64) -> Option<u64> {
        self.scoreboard.in_flight(start)
    }

    pub(crate) fn is_sacked(&self, start: u64) -> bool {
        self.scoreboard.is_sacked(start)
    }

    pub(crate) fn window_packets(&self) -> u64 {
        self.congestion.window().bytes() / self.segment_bytes
    }

    /// A loss is being repaired, by TCP's rules or by a reaction.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery != Recovery::None || self.repairs
    }

    /// Whether the first segment is to go out whatever the pipe says; true once.
    pub(crate) fn take_retransmit_now(&mut self) -> bool {
        std::mem::take(&mut self.retransmit_now)
    }

    /// Reduces the window as for a loss of which nothing is sent again.
    pub(crate) fn reduce_window(&mut self) {
        self.congestion.on_loss(self.next - self.una, self.next);
    }

    /// A reaction has repaired all drops it knew of, and leaves a window of this size.
    pub(crate) fn end_recovery(&mut self, window_packets: u64) {
        let window_bytes = window_packets * self.segment_bytes;
        self.congestion.on_recovered(window_bytes, self.next);
    }

    /// Starts the retransmission timer anew.
    pub(crate) fn restart_timer(&mut self, now: Instant) {
        self.deadline = Some(now + self.rtt.rto());
    }

    pub(crate) fn count_loss_episode(&mut self) {
        self.counters.loss_episodes += 1;
    }

    pub(crate) fn count_fast_retransmission(&mut self) {
        self.counters.fast_retransmitted += 1;
    }

    pub(crate) fn max_peer_window(&self) -> u64 {
        self.max_peer_window
    }

    /// Sends an ACK that the peer must answer (RFC 9293 3.8.4).
    pub(crate) fn request_probe(&mut self) {
        self.probe_pending = true;
    }

    /// Something has never been sent, and nobody but us has to do something about it.
    pub(crate) fn has_unsent(&self) -> bool {
        self.next < self.stream_end()
    }

    /// Offset behind the stream: that of the FIN.
    pub(crate) fn stream_end(&self) -> u64 {
        1 + self.stream.bytes()
    }

    /// End of the data that may be sent: the stream, and the FIN once closed.
    fn send_limit(&self) -> u64 {
        self.stream_end() + u64::from(self.closing)
    }

    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) fn fin_sent(&self) -> bool {
        self.next > self.stream_end()
    }

    pub(crate) fn fin_acked(&self) -> bool {
        self.una > self.stream_end()
    }

    /// Every byte of the stream has been acknowledged.
    pub(crate) fn stream_acked(&self) -> bool {
        self.una >= self.stream_end()
    }

    /// Appends bytes to the stream, which has not been closed.
    pub(crate) fn append(&mut self, source: Arc<dyn ObjectSource>) {
        self.stream.append(source);
    }

    /// Bytes of the stream that have been sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.next.min(self.stream_end()) - 1
    }

    /// Bytes of the stream that have been acknowledged.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.una.min(self.stream_end()) - 1
    }

    /// Bytes of the stream that the peer is not known to have.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        let unacknowledged = self.stream_end().saturating_sub(self.una);
        unacknowledged.saturating_sub(self.scoreboard.sacked_bytes())
    }

    /// Writes the payload of the segment `[start, end)` over `buffer`, and returns whether the
    /// segment has the FIN too.
    pub(crate) fn read(&self, start: u64, end: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let data_end = end.min(self.stream_end());
        buffer.resize((data_end - start) as usize, 0);
        self.stream.read_at(start - 1, buffer)?;
        Ok(end > data_end)
    }

    /// True for a segment that ends the stream: it carries PSH.
    pub(crate) fn ends_stream(&self, end: u64) -> bool {
        end >= self.stream_end()
    }

    /// An ACK with `una <= ack <= next`.
    pub(crate) fn handle_ack(&mut self, now: Instant, arrival: AckArrival<'_>) {
        let acked = arrival.ack - self.una;
        let flight = self.next - self.una;
        let window_changed = self.update_window(&arrival);
        let update = self.scoreboard.on_ack(arrival.ack, arrival.sack_blocks);
        let window_limited = arrival.ack <= self.window_limited_at;
        self.una = arrival.ack;
        self.stream.forget_before(self.acked_bytes());

        // Timestamps make a sample of every ACK of new data, even of retransmissions.
        let measured = update.sample_sent_at.map(|sent_at| now.since(sent_at));
        if let Some(rtt) = arrival.echoed_rtt.filter(|_| acked > 0).or(measured) {
            self.rtt.sample(rtt);
        }
        if acked > 0 {
            self.retries = 0;
            self.rearm(now);
        } else if self.scoreboard.is_empty() {
            // An answered window probe: the peer lives.
            self.retries = 0;
        }

        let was_in_recovery = matches!(self.recovery, Recovery::Fast { .. }) || self.repairs;
        self.react(|reaction, sender| reaction.on_ack(&arrival, acked > 0, sender));
        let duplicate = acked == 0 && arrival.pure && !window_changed && flight > 0;
        self.recover(acked, flight, duplicate, update.sacked_bytes > 0);

        let ece = self.ecn && arrival.ece;
        self.counters.acks += u64::from(arrival.pure);
        self.counters.ece_acks += u64::from(ece);
        let reduced = self.congestion.on_ack(&Acknowledgment {
            acked_bytes: acked,
            una: self.una,
            next: self.next,
            flight_bytes: flight,
            ece,
            in_recovery: was_in_recovery || matches!(self.recovery, Recovery::Fast { .. }),
            after_timeout: matches!(self.recovery, Recovery::Timeout { .. }),
            window_limited,
            telemetry: arrival.telemetry,
        });
        self.cwr_pending |= reduced;
    }

    /// RFC 9293 3.10.7.4: SND.WND, unless the segment is older than the one it was taken from.
    fn update_window(&mut self, arrival: &AckArrival<'_>) -> bool {
        let stamp = (arrival.seq, arrival.ack);
        if stamp < self.window_update {
            return false;
        }
        self.window_update = stamp;
        self.max_peer_window = self.max_peer_window.max(arrival.window);
        let edge = arrival.ack + arrival.window;
        let changed = edge != self.window_edge;
        self.window_edge = edge;
        changed
    }

    /// Detects losses and moves between the recovery states.
    fn recover(&mut self, acked: u64, flight: u64, duplicate: bool, newly_sacked: bool) {
        let threshold = self
            .congestion
            .duplicate_ack_threshold(self.duplicate_ack_threshold);
        match self.recovery {
            Recovery::Fast { until } | Recovery::Timeout { until } if self.una >= until => {
                self.recovery = Recovery::None;
                self.duplicate_acks = 0;
            }
            Recovery::Fast { .. } if acked > 0 && !self.sack && threshold.is_some() => {
                // RFC 6582 3.2: a partial ACK shows the next hole.
                if !self.repairs_first() {
                    self.scoreboard.mark_first_lost();
                }
                self.deliver_duplicates(acked);
            }
            Recovery::None if acked > 0 && self.repairs => self.deliver_duplicates(acked),
            Recovery::None if acked > 0 => self.duplicate_acks = 0,
            _ => {}
        }
        let Some(threshold) = threshold else {
            // Duplicates are of reordering: nothing has left the network that they could tell of.
            return;
        };
        self.duplicate_acks += u32::from(duplicate);
        if matches!(self.recovery, Recovery::Timeout { .. }) {
            return;
        }
        let mut lost = false;
        if self.sack && (newly_sacked || acked > 0) {
            lost = self.scoreboard.mark_lost(threshold, self.segment_bytes);
        }
        if self.recovery != Recovery::None {
            return;
        }
        if !lost && self.duplicate_acks >= threshold && !self.repairs_first() {
            lost = self.scoreboard.mark_first_lost();
        }
        if lost {
            self.begin_episode();
            self.congestion.on_loss(flight, self.next);
        }
    }

    /// A partial ACK: of what it acknowledges, all but a retransmission had been counted out of the pipe
    /// by duplicate ACKs.
    fn deliver_duplicates(&mut self, acked: u64) {
        let delivered = (acked / self.segment_bytes).saturating_sub(1) as u32;
        self.duplicate_acks = self.duplicate_acks.saturating_sub(delivered);
    }

    fn begin_episode(&mut self) {
        self.recovery = Recovery::Fast { until: self.next };
        self.cwr_pending = self.ecn;
        self.retransmit_now = true;
        self.counters.loss_episodes += 1;
    }

    /// A message of the network about the packet whose offsets begin with `start`. True: it had an
    /// effect.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &Message, start: u64) -> bool {
        let mut had_effect = false;
        self.react(|reaction, sender| {
            had_effect |= reaction.on_message(now, message, start, sender);
        });
        had_effect
    }

    /// Lets each reaction do something with the rest of the sender.
    fn react(&mut self, mut each: impl FnMut(&mut dyn Reaction, &mut Sender)) {
        if self.reactions.is_empty() {
            return;
        }
        let mut reactions = std::mem::take(&mut self.reactions);
        for reaction in &mut reactions {
            each(&mut **reaction, self);
        }
        self.repairs = reactions.iter().any(|reaction| reaction.is_recovering());
        self.reactions = reactions;
    }

    /// The first reaction that has an opinion says what goes out next.
    fn next_of_reactions(&mut self, now: Instant) -> Next {
        let mut next = Next::Usual;
        self.react(|reaction, sender| {
            if next == Next::Usual {
                next = reaction.next_transmission(now, sender);
            }
        });
        next
    }

    /// A reaction sends the first segment again.
    fn repairs_first(&self) -> bool {
        self.repairs && self.reactions.iter().any(|one| one.repairs(self.una))
    }

    /// When a reaction has something to do.
    pub(crate) fn reaction_deadline(&self) -> Option<Instant> {
        let reactions = self.reactions.iter();
        reactions.filter_map(|one| one.next_deadline()).min()
    }

    pub(crate) fn handle_reaction_deadline(&mut self, now: Instant) {
        for reaction in &mut self.reactions {
            reaction.handle_deadline(now);
        }
    }

    /// Bytes in the network: RFC 6675's pipe, less what duplicate ACKs say has left (RFC 6582)
    /// where there is no SACK to say which.
    fn pipe(&self) -> u64 {
        let left = if self.sack {
            0
        } else {
            u64::from(self.duplicate_acks) * self.segment_bytes
        };
        self.scoreboard.pipe().saturating_sub(left)
    }

    /// The next segment that may be sent now. The caller must send it.
    pub(crate) fn poll_transmission(&mut self, now: Instant) -> Option<Transmission> {
        if std::mem::take(&mut self.probe_pending) {
            return Some(Transmission::WindowProbe);
        }
        self.restart_after_idle(now);
        match self.next_of_reactions(now) {
            Next::Send(transmission) => return Some(transmission),
            Next::Nothing => return None,
            Next::Usual => {}
        }
        let allowance = self.window_bytes().saturating_sub(self.pipe());
        if let Some((start, end)) = self.scoreboard.next_lost() {
            // The loss window is one segment, and what is lost is not in the pipe: a
            // retransmission always fits an empty pipe.
            if !self.retransmit_now && end - start > allowance && self.pipe() > 0 {
                return None;
            }
            self.retransmit_now = false;
            self.counters.fast_retransmitted +=
                u64::from(matches!(self.recovery, Recovery::Fast { .. }));
            return Some(self.retransmission(start, end, now));
        }
        let allowance = self.inflated_allowance().unwrap_or(allowance);
        let Some((start, end)) = self.next_new_segment(allowance) else {
            if self.is_blocked_by_peer() && self.deadline.is_none() {
                self.deadline = Some(now + self.rtt.doubled(self.probes));
            }
            return None;
        };
        if self.scoreboard.is_empty() {
            // A timer that ran for window probes does not count for this segment.
            self.deadline = None;
            self.probes = 0;
        }
        let carries_data = start < self.stream_end();
        self.scoreboard.on_sent(start, end, now);
        self.next = end;
        self.count(start, end, now);
        self.arm(now);
        // RFC 3168 6.1.2: CWR on the first new data segment after a reduction.
        let cwr = carries_data && std::mem::take(&mut self.cwr_pending);
        Some(Transmission::Segment {
            start,
            end,
            retransmission: false,
            cwr,
        })
    }

    /// The byte at `start`, or the FIN, which the peer must answer.
    pub(crate) fn probe(&mut self, start: u64, now: Instant) -> Transmission {
        self.counters.retransmitted += 1;
        let end = start + 1;
        self.count(start, end, now);
        Transmission::Segment {
            start,
            end,
            retransmission: true,
            cwr: false,
        }
    }

    /// The congestion window, or what a reaction has in place of it.
    fn window_bytes(&self) -> u64 {
        let window = self.congestion.window().bytes();
        let reactions = self.reactions.iter();
        reactions.fold(window, |window, one| {
            one.window_bytes(window, self.segment_bytes)
        })
    }

    /// New data that the window allows where the receiver says how much has arrived out of order.
    fn inflated_allowance(&self) -> Option<u64> {
        let mut reactions = self.reactions.iter();
        let inflation = reactions.find_map(|one| one.inflation_bytes())?;
        let window = self.window_bytes() + inflation;
        Some(window.saturating_sub(self.next - self.una))
    }

    /// Notes that the segment `[start, end)` is sent again.
    pub(crate) fn retransmission(&mut self, start: u64, end: u64, now: Instant) -> Transmission {
        self.scoreboard.on_retransmitted(start, now);
        // The peer may have taken a part of it.
        let start = start.max(self.una);
        self.count(start, end, now);
        self.counters.retransmitted += 1;
        self.arm(now);
        Transmission::Segment {
            start,
            end,
            retransmission: true,
            cwr: false,
        }
    }

    fn count(&mut self, start: u64, end: u64, now: Instant) {
        let payload = end.min(self.stream_end()).saturating_sub(start);
        if payload > 0 {
            self.last_data_sent = Some(now);
        }
        self.counters.packets += u64::from(payload > 0);
        self.counters.payload_bytes += payload;
    }

    /// RFC 5681 4.1. A connection that stays open pauses between objects; the peer's window can make
    /// the sender of one object pause. Without this the window stays valid, as RFC 7661 has it.
    fn restart_after_idle(&mut self, now: Instant) {
        if !self.restarts_after_idle {
            return;
        }
        let idle = self.scoreboard.is_empty()
            && self
                .last_data_sent
                .is_some_and(|sent| now.since(sent) > self.rtt.rto());
        if idle && self.next < self.window_edge {
            self.congestion.on_idle();
        }
    }

    /// The next segment of new data that the windows allow.
    fn next_new_segment(&mut self, allowance: u64) -> Option<(u64, u64)> {
        let limit = self.send_limit();
        if self.next >= limit {
            return None;
        }
        let mut end = (self.next + self.segment_bytes).min(self.stream_end());
        if end == self.stream_end() {
            // The FIN rides on the last data segment; it needs no room in the windows.
            end = limit;
        }
        let idle = self.scoreboard.is_empty();
        let data_end = end.min(self.stream_end());
        if data_end > self.next && data_end > self.window_edge {
            // Sender's silly window avoidance (RFC 9293 3.8.6.2.1): a part of a segment only when
            // nothing is in flight.
            if !idle || self.window_edge <= self.next {
                return None;
            }
            end = self.window_edge;
        }
        let room = Room {
            rest: self.stream_end().saturating_sub(self.next),
            allowed: allowance.min(self.window_edge.saturating_sub(self.next)),
            window: self.congestion.window().bytes(),
        };
        let waits = if idle || self.recovery != Recovery::None {
            // No ACK is to come that would give more room, or each of them is to send something.
            self.bursts.begin(self.next, room);
            false
        } else {
            self.bursts.waits(self.next, room)
        };
        if waits || data_end > self.next + allowance && !idle {
            self.window_limited_at = self.next;
            return None;
        }
        Some((self.next, end))
    }

    /// The next segment belongs to a burst that has begun.
    pub(crate) fn in_burst(&self) -> bool {
        self.bursts.continues(self.next)
    }

    /// There is data, none in flight, and the peer's window is shut.
    fn is_blocked_by_peer(&self) -> bool {
        self.scoreboard.is_empty() && self.next < self.stream_end() && self.window_edge <= self.next
    }

    /// RFC 6298 (5.1): the timer of an earlier segment keeps running.
    fn arm(&mut self, now: Instant) {
        if self.deadline.is_none() {
            self.deadline = Some(now + self.rtt.rto());
        }
    }

    /// RFC 6298 (5.2), (5.3).
    fn rearm(&mut self, now: Instant) {
        let waiting = !self.scoreboard.is_empty() || self.is_blocked_by_peer();
        self.deadline = waiting.then(|| now + self.rtt.rto());
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) -> TimerOutcome {
        self.handle_reaction_deadline(now);
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return TimerOutcome::Continue;
        }
        self.deadline = None;
        if self.scoreboard.is_empty() && !self.is_blocked_by_peer() {
            return TimerOutcome::Continue;
        }
        self.retries += 1;
        if self.retries > self.max_retries {
            return TimerOutcome::GiveUp;
        }
        if self.scoreboard.is_empty() {
            // The persist timer backs off by itself: the window says nothing about the path.
            self.probes += 1;
            self.deadline = Some(now + self.rtt.doubled(self.probes));
            self.probe_pending = true;
            return TimerOutcome::Continue;
        }
        self.rtt.back_off();
        self.deadline = Some(now + self.rtt.rto());
        self.counters.timeouts += 1;
        self.scoreboard.on_timeout();
        self.react(|reaction, _| reaction.on_timeout());
        self.congestion
            .on_timeout(self.next - self.una, self.next, self.retries == 1);
        self.recovery = Recovery::Timeout { until: self.next };
        self.duplicate_acks = 0;
        self.retransmit_now = true;
        self.cwr_pending = self.ecn;
        TimerOutcome::Continue
    }
}
