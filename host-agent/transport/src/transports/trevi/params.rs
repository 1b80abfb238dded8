//! Every constant of Trevi, with unit, default and source (table in `docs/trevi.md`).

use serde::{Deserialize, Serialize};

use crate::receiver_driven::{Section, session_section};

/// Requests that may be pending at most: what a sender remembers.
pub(super) const MAX_REQUESTS: u32 = 1024;

/// Who decides when a symbol leaves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The sender, at `rate_bps`, until the receiver stops it: what the thesis measured (4.7.2).
    #[default]
    ConstantRate,
    /// The sender, whenever its link is free, until the receiver stops it.
    Push,
    /// The receiver: a symbol for each of its requests.
    Pull,
    /// The sender, at `rate_bps`, for as many symbols as mostly suffice; then the receiver.
    Hybrid,
}

impl Mode {
    /// As packets say it, in their field `level`. To the receiver the first two are the same.
    pub(super) fn code(self) -> u8 {
        match self {
            Mode::ConstantRate | Mode::Push => 0,
            Mode::Pull => 1,
            Mode::Hybrid => 2,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        [Mode::Push, Mode::Pull, Mode::Hybrid]
            .into_iter()
            .find(|mode| mode.code() == code)
    }
}

/// Policy of a group towards the receiver that the others wait for (4.4.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stragglers {
    /// It waits: the slowest sets the pace.
    Wait,
    /// It waits for `straggler_timeout_ns`; then the receiver gets a session of its own.
    #[default]
    Drop,
    /// It answers whoever asks. A receiver that is behind the others, or not done after them, for
    /// `straggler_timeout_ns` is left without the object.
    Unsubscribe,
}

/// Section `trevi` of the parameters file.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TreviParams {
    /// Who decides when a symbol is sent.
    pub mode: Mode,
    /// Rate of the IPv4 packets of a flow that is pushed (constant-rate, hybrid), bit/s.
    pub rate_bps: u64,
    /// Symbols that a receiver waits for before it decodes a block, beyond those of the block, as a
    /// share of them.
    pub overhead: f64,
    /// Source symbols of a block (K) at most; the blocks of an object are about equal.
    pub block_symbols: u16,
    /// Symbols that are pushed to a receiver that has not said anything yet.
    pub initial_window_packets: u32,
    /// Requests pending at first, and made in all of a sender that has answered none (pull, hybrid).
    pub request_window_packets: u32,
    /// Requests pending at most.
    pub max_request_window_packets: u32,
    /// Queueing that the window aims at, as a share of the base round trip.
    pub target_queueing: f64,
    /// The same at least: two packets at 1 Gbit/s.
    pub min_target_queueing_ns: u64,
    /// Packets by which the window grows in a round trip without queueing.
    pub gain: f64,
    /// Share of a window's requests that may be lost; if more are, it is halved.
    pub loss_threshold: f64,
    /// The base round trip is the least of this time to twice this time.
    pub base_rtt_period_ns: u64,
    /// When a request expires at first, and at the earliest later on.
    pub label_timeout_ns: u64,
    /// A peer that has been silent for so long is asked for a sign of life.
    pub rto_ns: u64,
    /// Upper bound of that time, which doubles while the peer is silent.
    pub max_rto_ns: u64,
    /// Questions in a row without an answer after which the flow has failed.
    pub max_retries: u32,
    /// A peer is given up when it has been silent for so long, at the earliest after `max_retries`.
    pub give_up_ns: u64,
    /// A receiver to which no symbol of use came for so long has failed: nothing but its class may be
    /// full.
    pub progress_timeout_ns: u64,
    /// Policy towards the receiver that the others wait for.
    pub stragglers: Stragglers,
    /// How long the others wait.
    pub straggler_timeout_ns: u64,
    /// How long a many-to-one flow waits for its first packet.
    pub expect_timeout_ns: u64,
    /// How long an ended flow still answers late packets.
    pub linger_ns: u64,
    /// Symbols that all flows of a host may hold, in bytes. Beyond it only the first block of a flow
    /// that is not complete takes more.
    pub max_buffer_bytes: u64,
    /// Flows open at a host, in each direction.
    pub max_flows: u32,
    /// Flows open from one peer.
    pub max_flows_per_peer: u32,
}

impl Default for TreviParams {
    fn default() -> Self {
        TreviParams {
            mode: Mode::default(),
            rate_bps: 1_200_000_000,
            overhead: 0.1,
            block_symbols: 2048,
            initial_window_packets: 64,
            request_window_packets: 10,
            max_request_window_packets: 1024,
            target_queueing: 0.5,
            min_target_queueing_ns: 24_000,
            gain: 1.0,
            loss_threshold: 0.05,
            base_rtt_period_ns: 10_000_000_000,
            label_timeout_ns: 1_000_000,
            rto_ns: 10_000_000,
            max_rto_ns: 80_000_000,
            max_retries: 8,
            give_up_ns: 4_000_000_000,
            progress_timeout_ns: 60_000_000_000,
            stragglers: Stragglers::default(),
            straggler_timeout_ns: 20_000_000,
            expect_timeout_ns: 30_000_000_000,
            linger_ns: 200_000_000,
            max_buffer_bytes: 1 << 30,
            max_flows: 4096,
            max_flows_per_peer: 1024,
        }
    }
}

session_section!(TreviParams);

impl TreviParams {
    /// Larger blocks would make decoding slow and a peer's claim on our memory large.
    pub const MAX_BLOCK_SYMBOLS: u16 = 8192;

    /// Checks ranges. The error names the parameter, its value and the range.
    pub fn validate(&self) -> Result<(), String> {
        if self.rate_bps == 0 || self.initial_window_packets == 0 {
            return Err(
                "section trevi: rate_bps or initial_window_packets is 0; nothing would ever be sent"
                    .into(),
            );
        }
        if !(0.0..=1.0).contains(&self.overhead) {
            return Err(format!(
                "trevi.overhead is {}; it is a share of the symbols of a block, 0 to 1",
                self.overhead
            ));
        }
        if !(1..=Self::MAX_BLOCK_SYMBOLS).contains(&self.block_symbols) {
            return Err(format!(
                "trevi.block_symbols is {}; it must be 1..{}",
                self.block_symbols,
                Self::MAX_BLOCK_SYMBOLS
            ));
        }
        self.validate_requests()?;
        if self.progress_timeout_ns < self.max_rto_ns {
            return Err(format!(
                "trevi.progress_timeout_ns is {}; below max_rto_ns ({}) every flow would fail",
                self.progress_timeout_ns, self.max_rto_ns
            ));
        }
        if self.straggler_timeout_ns == 0 {
            return Err("trevi.straggler_timeout_ns is 0; every group would fall apart".into());
        }
        let others_ns = [
            self.min_target_queueing_ns,
            self.base_rtt_period_ns,
            self.progress_timeout_ns,
            self.straggler_timeout_ns,
            self.expect_timeout_ns,
        ];
        self.session().validate("trevi", &others_ns)
    }

    fn validate_requests(&self) -> Result<(), String> {
        let windows = 1..=self.max_request_window_packets;
        if !windows.contains(&self.request_window_packets)
            || self.max_request_window_packets > MAX_REQUESTS
        {
            return Err(format!(
                "trevi.request_window_packets is {}; it must be 1..max_request_window_packets ({}), \
                 and that at most {MAX_REQUESTS}",
                self.request_window_packets, self.max_request_window_packets
            ));
        }
        let shares = [
            ("target_queueing", self.target_queueing, 100.0),
            ("gain", self.gain, 10.0),
            ("loss_threshold", self.loss_threshold, 1.0),
        ];
        for (name, value, most) in shares {
            if !(0.0..=most).contains(&value) {
                return Err(format!("trevi.{name} is {value}; it must be 0 to {most}"));
            }
        }
        if self.min_target_queueing_ns == 0 {
            return Err("trevi.min_target_queueing_ns is 0; no window would ever grow".into());
        }
        if self.label_timeout_ns == 0 || self.label_timeout_ns > self.max_rto_ns {
            return Err(format!(
                "trevi.label_timeout_ns is {}; it must be above 0 and not above max_rto_ns ({})",
                self.label_timeout_ns, self.max_rto_ns
            ));
        }
        Ok(())
    }
}
