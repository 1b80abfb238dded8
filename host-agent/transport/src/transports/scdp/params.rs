//! Every constant of SCDP, with unit, default and source (table in `docs/scdp.md`).

use serde::{Deserialize, Serialize};

use crate::receiver_driven::{Section, session_section};

/// Section `scdp` of the parameters file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScdpParams {
    /// Symbols sent at line rate before the first pull.
    pub initial_window_packets: u32,
    /// The same for each of several senders of a many-to-one session.
    pub many_to_one_window_packets: u32,
    /// Source symbols of a block (K).
    pub block_symbols: u16,
    /// Symbols beyond K that a block waits for before it is decoded, once something was lost.
    pub overhead_symbols: u16,
    /// A session starts at level 0 and moves down one level at each of these counts of bytes sent.
    pub mlfq_thresholds_bytes: Vec<u64>,
    /// A receiver that has waited so long pulls again; so does a sender ask for a sign of life.
    pub rto_ns: u64,
    /// Upper bound of the timeout, which doubles while the peer is silent.
    pub max_rto_ns: u64,
    /// Consecutive timeouts without a sign of the peer after which the flow has failed.
    pub max_retries: u32,
    /// A peer is given up when it has been silent for so long, at the earliest after `max_retries`.
    pub give_up_ns: u64,
    /// A receiver of a group that pulls nothing for so long while others wait is detached. More
    /// than twice `rto_ns` counts as that: then those who wait would take symbols for lost.
    pub straggler_timeout_ns: u64,
    /// A receiver to which nothing whole and of use came for so long has failed, whatever else came.
    pub progress_timeout_ns: u64,
    /// How long a many-to-one receiver waits for the first packet of any sender, and a request may
    /// take to be served.
    pub expect_timeout_ns: u64,
    /// How long an ended flow still answers late packets.
    pub linger_ns: u64,
    /// Blocks that a receiver holds at a time.
    pub max_open_blocks: u32,
    /// Symbols that all flows of a host may hold, in bytes. Beyond it only the first open block of a
    /// flow takes more; what else arrives counts as trimmed.
    pub max_buffer_bytes: u64,
    /// Flows open at a host, in each direction.
    pub max_flows: u32,
    /// Flows open from one peer.
    pub max_flows_per_peer: u32,
}

impl Default for ScdpParams {
    fn default() -> Self {
        ScdpParams {
            initial_window_packets: 12,
            many_to_one_window_packets: 6,
            block_symbols: 100,
            overhead_symbols: 2,
            mlfq_thresholds_bytes: vec![10_000, 100_000, 1_000_000, 10_000_000],
            rto_ns: 10_000_000,
            max_rto_ns: 80_000_000,
            max_retries: 8,
            give_up_ns: 4_000_000_000,
            straggler_timeout_ns: 20_000_000,
            progress_timeout_ns: 10_000_000_000,
            expect_timeout_ns: 30_000_000_000,
            linger_ns: 200_000_000,
            max_open_blocks: 16,
            max_buffer_bytes: 1 << 30,
            max_flows: 4096,
            max_flows_per_peer: 1024,
        }
    }
}

session_section!(ScdpParams);

impl ScdpParams {
    /// Larger blocks would make decoding slow and a peer's claim on our memory large.
    pub const MAX_BLOCK_SYMBOLS: u16 = 4096;

    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), String> {
        if self.initial_window_packets == 0 || self.many_to_one_window_packets == 0 {
            return Err("section scdp: an initial window is 0; nothing would ever be sent".into());
        }
        if !(1..=Self::MAX_BLOCK_SYMBOLS).contains(&self.block_symbols) {
            return Err(format!(
                "scdp.block_symbols is {}; it must be 1..{}",
                self.block_symbols,
                Self::MAX_BLOCK_SYMBOLS
            ));
        }
        if self.straggler_timeout_ns == 0 {
            return Err("scdp.straggler_timeout_ns is 0; every group would fall apart".into());
        }
        for (name, value) in [
            ("progress_timeout_ns", self.progress_timeout_ns),
            ("expect_timeout_ns", self.expect_timeout_ns),
        ] {
            if value < self.max_rto_ns {
                return Err(format!(
                    "scdp.{name} is {value}; below max_rto_ns ({}) every flow would fail",
                    self.max_rto_ns
                ));
            }
        }
        let others_ns = [self.progress_timeout_ns, self.expect_timeout_ns];
        self.session().validate("scdp", &others_ns)?;
        if !self.mlfq_thresholds_bytes.is_sorted() || self.mlfq_thresholds_bytes.len() > 255 {
            return Err("scdp.mlfq_thresholds_bytes must ascend, with at most 255 of them".into());
        }
        if self.max_open_blocks == 0 {
            return Err("scdp.max_open_blocks is 0; nothing could be received".into());
        }
        Ok(())
    }

    /// The MLFQ level of a session that has sent `bytes` (PIAS; thesis, section III-D).
    pub(super) fn level(thresholds: &[u64], bytes: u64) -> u8 {
        thresholds
            .iter()
            .take_while(|&&threshold| threshold <= bytes)
            .count() as u8
    }
}
