//! The three-way handshake and what it negotiates (RFC 9293 3.5, 7323, 2018, 3168 6.1.1).

use std::borrow::Cow;
use std::io;

use ebb_units::{Duration, Instant};
use ebb_wire::TcpOptions;

use super::again::Again;
use super::congestion::EcnMode;
use super::params::TcpParams;
use super::segment::{Flags, Segment};
use super::sender::SenderCounters;
use super::stream::Stream;
use crate::rtt::RttEstimator;

/// Bytes that the timestamps option takes from every segment, padding included (RFC 7323 A).
const TIMESTAMP_OPTION_BYTES: u64 = 12;
/// MSS of a peer that sends no option (RFC 9293, 3.7.1), in bytes.
const DEFAULT_MSS: u16 = 536;
/// Version of persistent connections (`docs/wire-format.md`). Another is none.
pub(crate) const KEPT_VERSION: u8 = 1;
/// RFC 7323 2.3.
const MAX_WINDOW_SCALE: u8 = 14;

/// The shift with which a receive buffer of this size fits the window field.
pub(crate) fn window_shift(params: &TcpParams) -> u8 {
    let buffer = params.receive_buffer_bytes;
    (0..MAX_WINDOW_SCALE)
        .find(|s| buffer >> s <= u32::from(u16::MAX))
        .unwrap_or(MAX_WINDOW_SCALE)
}

/// Options of the connection: those of the peer's SYN or SYN-ACK, combined with our offer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// The peer's initial sequence number.
    pub(crate) irs: u32,
    /// Payload bytes of a full segment.
    pub(crate) segment_bytes: u64,
    /// Shift of the windows the peer advertises, and of ours. None: no scaling either way.
    pub(crate) window_shifts: Option<(u8, u8)>,
    pub(crate) sack: bool,
    /// The peer's first TSval, where timestamps are in use.
    pub(crate) timestamp: Option<u32>,
    pub(crate) ecn: EcnMode,
    /// Both keep the connection open for several objects.
    pub(crate) stays_open: bool,
    /// The peer's first window; that of a SYN is never scaled.
    pub(crate) window: u64,
}

impl Agreement {
    /// `ecn` is what we would use. `peer` is a SYN (we are passive) or a SYN-ACK (we are active).
    /// The peer's ECN flags differ between the two: ECE and CWR in a SYN, ECE alone in a SYN-ACK.
    pub(crate) fn new(params: &TcpParams, ecn: EcnMode, peer: &Segment<'_>) -> Self {
        let options = &peer.options;
        let mss = options
            .mss
            .unwrap_or(DEFAULT_MSS)
            .min(params.segment_bytes())
            .max(88);
        let timestamp = options
            .timestamps
            .filter(|_| params.timestamps)
            .map(|(value, _)| value);
        let option_bytes = if timestamp.is_some() {
            TIMESTAMP_OPTION_BYTES
        } else {
            0
        };
        let ecn_offered = peer.flags.ece && (peer.flags.cwr == peer.ack.is_none());
        Agreement {
            irs: peer.seq,
            segment_bytes: u64::from(mss) - option_bytes,
            window_shifts: options
                .window_scale
                .map(|peer| (peer.min(MAX_WINDOW_SCALE), window_shift(params))),
            sack: options.sack_permitted && params.sack,
            timestamp,
            ecn: if ecn_offered { ecn } else { EcnMode::Off },
            stays_open: options.stays_open == Some(KEPT_VERSION),
            window: u64::from(peer.window),
        }
    }
}

/// The state before both SYNs are acknowledged.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// Set on the passive side, which knows the peer's SYN.
    pub(crate) agreement: Option<Agreement>,
    pub(crate) rtt: RttEstimator,
    pub(crate) deadline: Option<Instant>,
    pub(crate) retries: u32,
    /// A SYN or SYN-ACK is to be sent.
    pub(crate) syn_pending: bool,
    /// Our offer on the active side.
    pub(crate) stays_open: bool,
    /// Active side: the peer may never have asked for anything.
    pub(crate) to_stranger: bool,
    /// Bytes of our stream, and sequence numbers after the SYN's own, that went with a SYN so far.
    pub(crate) syn_bytes: u64,
    pub(crate) syn_numbers: u64,
    /// Packets and bytes of them, repetitions included.
    data_packets: u64,
    data_bytes: u64,
    first_sent: Option<Instant>,
    packets: u64,
    /// When it goes out because the network dropped it, and how often it has.
    again: Again,
    notified: u32,
    /// Segments that the peer sent behind its SYN-ACK and that have overtaken it, where paths reorder.
    ahead: Vec<Segment<'static>>,
}

impl Handshake {
    pub(crate) fn new(params: &TcpParams, agreement: Option<Agreement>) -> Self {
        Handshake {
            agreement,
            rtt: RttEstimator::new(params.initial_rto(), params.min_rto(), params.max_rto()),
            deadline: None,
            retries: 0,
            syn_pending: true,
            stays_open: false,
            to_stranger: false,
            syn_bytes: 0,
            syn_numbers: 0,
            data_packets: 0,
            data_bytes: 0,
            first_sent: None,
            packets: 0,
            again: Again::default(),
            notified: 0,
            ahead: Vec::new(),
        }
    }

    /// Keeps a segment of a peer whose SYN-ACK has not come. What it may send before the handshake is
    /// over is an initial window.
    pub(crate) fn keep_ahead(&mut self, segment: &Segment<'_>, params: &TcpParams) {
        if self.ahead.len() < params.initial_window_packets as usize {
            self.ahead.push(segment.clone().into_owned());
        }
    }

    pub(crate) fn take_ahead(&mut self) -> Vec<Segment<'static>> {
        std::mem::take(&mut self.ahead)
    }

    /// The network dropped our SYN or SYN-ACK, which goes out again at most once per `round_trip`.
    pub(crate) fn handle_drop(&mut self, now: Instant, round_trip: Duration) {
        if self.again.ask(now, round_trip) {
            self.send_again();
        }
    }

    fn send_again(&mut self) {
        self.syn_pending = true;
        self.notified += 1;
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.again.deadline()).min()
    }

    /// Our SYN or SYN-ACK, if one is due. The caller fills in the timestamps.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        params: &TcpParams,
        ecn: EcnMode,
        iss: u32,
    ) -> Option<Segment<'static>> {
        if !std::mem::take(&mut self.syn_pending) {
            return None;
        }
        self.first_sent.get_or_insert(now);
        self.packets += 1;
        // Whoever answers that it dropped a SYN is there, but not for ever. Another SYN-ACK for a SYN that
        // comes again does not end the last wait for the peer sooner.
        let last_wait = self.agreement.is_some() && self.retries > params.max_syn_ack_retries;
        if self.deadline.is_none() || (self.notified <= params.max_retries && !last_wait) {
            self.deadline = Some(now + self.rtt.rto());
        }
        let agreed = self.agreement.as_ref();
        let mode = agreed.map_or(ecn, |a| a.ecn);
        let ecn = mode != EcnMode::Off;
        Some(Segment {
            seq: iss,
            ack: agreed.map(|a| a.irs.wrapping_add(1)),
            flags: Flags {
                syn: true,
                ece: ecn,
                cwr: ecn && agreed.is_none(),
                ..Flags::default()
            },
            window: params.first_receive_window().min(u32::from(u16::MAX)) as u16,
            options: TcpOptions {
                mss: Some(params.segment_bytes()),
                window_scale: agreed
                    .is_none_or(|a| a.window_shifts.is_some())
                    .then(|| window_shift(params)),
                sack_permitted: agreed.map_or(params.sack, |a| a.sack),
                stays_open: agreed
                    .map_or(self.stays_open, |a| a.stays_open)
                    .then_some(KEPT_VERSION),
                ..TcpOptions::default()
            },
            // RFC 8257 3.6, against RFC 3168 6.1.1: where marking is low, a switch may drop what is
            // not ECT.
            ect: mode == EcnMode::Accurate,
            ..Segment::default()
        })
    }

    /// Whether the SYN that [`Self::poll`] has just given may carry data: to a stranger only the first
    /// does (RFC 7413 4.1.3).
    pub(crate) fn may_carry_data(&self) -> bool {
        !self.to_stranger || self.packets == 1
    }

    /// Puts the beginning of our stream into a SYN of ours, as much as fits one segment; the end too,
    /// if `closing` and that is all.
    pub(crate) fn add_data<'b>(
        &mut self,
        syn: Segment<'static>,
        params: &TcpParams,
        (stream, closing): (&Stream, bool),
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Segment<'b>> {
        let options = syn.options.emitted_bytes();
        let most = usize::from(params.segment_bytes()).saturating_sub(options);
        let bytes = stream.bytes().min(most as u64);
        buffer.clear();
        buffer.resize(bytes as usize, 0);
        stream.read_at(0, buffer)?;
        let fin = closing && bytes > 0 && bytes == stream.bytes();
        self.syn_bytes = self.syn_bytes.max(bytes);
        self.syn_numbers = self.syn_numbers.max(bytes + u64::from(fin));
        self.data_packets += u64::from(bytes > 0);
        self.data_bytes += bytes;
        Ok(Segment {
            flags: Flags {
                fin,
                psh: bytes > 0,
                ..syn.flags
            },
            payload: Cow::Borrowed(buffer),
            ..syn
        })
    }

    /// Counters of the handshake, which become those of the sender.
    pub(crate) fn counters(&self) -> SenderCounters {
        SenderCounters {
            retransmitted: self.packets.saturating_sub(1),
            timeouts: u64::from(self.retries),
            packets: self.data_packets,
            payload_bytes: self.data_bytes,
            ..SenderCounters::default()
        }
    }

    /// True if timestamps belong on our SYN.
    pub(crate) fn offers_timestamps(&self, params: &TcpParams) -> bool {
        self.agreement
            .map_or(params.timestamps, |a| a.timestamp.is_some())
    }

    /// Our SYN has been acknowledged: measures the round trip, if only one was sent (Karn).
    pub(crate) fn on_acked(&mut self, now: Instant) {
        if let (1, Some(sent)) = (self.packets, self.first_sent) {
            self.rtt.sample(now.since(sent));
        }
    }

    /// Returns false after `max_retries` SYNs in vain, or `idle_timeout_ns` after as many SYN-ACKs as
    /// a stranger is sent: an honest peer may have them and no processor.
    pub(crate) fn handle_deadline(&mut self, now: Instant, params: &TcpParams) -> bool {
        if self.again.take(now) {
            self.send_again();
        }
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return true;
        }
        self.deadline = None;
        self.retries += 1;
        if self.agreement.is_none() {
            self.rtt.back_off();
            self.syn_pending = true;
            let most = match self.to_stranger {
                true => params.max_retries.min(params.max_syn_ack_retries),
                false => params.max_retries,
            };
            return self.retries <= most;
        }
        let most = params.max_syn_ack_retries;
        if self.retries <= most {
            self.rtt.back_off();
            self.syn_pending = true;
        } else {
            self.deadline = Some(now + params.idle_timeout());
        }
        self.retries <= most + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_options_gets_plain_tcp() {
        let syn = Segment {
            seq: 9,
            window: 5000,
            flags: Flags {
                syn: true,
                ..Flags::default()
            },
            ..Segment::default()
        };
        let params = TcpParams {
            timestamps: true,
            ..TcpParams::default()
        };
        let agreement = Agreement::new(&params, EcnMode::Accurate, &syn);
        assert_eq!(agreement.segment_bytes, 536);
        assert_eq!((agreement.window_shifts, agreement.timestamp), (None, None));
        assert_eq!((agreement.sack, agreement.ecn), (false, EcnMode::Off));
        let mut handshake = Handshake::new(&params, Some(agreement));
        let syn_ack = handshake
            .poll(Instant::ZERO, &params, EcnMode::Accurate, 1)
            .unwrap();
        assert_eq!(
            syn_ack.options,
            TcpOptions {
                mss: Some(1460),
                ..TcpOptions::default()
            }
        );
        assert!(!syn_ack.flags.ece && !syn_ack.ect);
    }

    #[test]
    fn a_repeated_syn_does_not_shorten_the_last_wait() {
        let params = TcpParams::default();
        let agreement = Agreement::new(&params, EcnMode::Off, &Segment::default());
        let mut handshake = Handshake::new(&params, Some(agreement));
        let mut now = Instant::ZERO;
        for _ in 0..=params.max_syn_ack_retries {
            assert!(handshake.poll(now, &params, EcnMode::Off, 1).is_some());
            now = handshake.next_deadline().unwrap();
            assert!(handshake.handle_deadline(now, &params));
        }
        let end = now + params.idle_timeout();
        assert_eq!(handshake.next_deadline(), Some(end));
        handshake.syn_pending = true;
        now += Duration::from_millis(1);
        assert!(handshake.poll(now, &params, EcnMode::Off, 1).is_some());
        assert_eq!(handshake.next_deadline(), Some(end));
        assert!(!handshake.handle_deadline(end, &params));
    }

    #[test]
    fn ecn_needs_the_right_flags_of_each_side() {
        let ecn = |ack: Option<u32>, ece, cwr| {
            let flags = Flags {
                syn: true,
                ece,
                cwr,
                ..Flags::default()
            };
            let syn = Segment {
                ack,
                flags,
                ..Segment::default()
            };
            Agreement::new(&TcpParams::default(), EcnMode::Classic, &syn).ecn
        };
        assert_eq!(ecn(None, true, true), EcnMode::Classic);
        assert_eq!(ecn(None, true, false), EcnMode::Off);
        assert_eq!(ecn(Some(1), true, false), EcnMode::Classic);
        // RFC 3168 6.1.1.1: a peer that only reflects the reserved bits.
        assert_eq!(ecn(Some(1), true, true), EcnMode::Off);
    }

    #[test]
    fn the_window_shift_is_the_smallest_that_fits() {
        for (buffer, shift) in [(1 << 16, 1), (65_535, 0), (2 << 20, 6), (1 << 30, 14)] {
            let params = TcpParams {
                receive_buffer_bytes: buffer,
                ..TcpParams::default()
            };
            assert_eq!(window_shift(&params), shift, "{buffer}");
        }
    }
}
