//! Every constant of NDP, with unit, default and source (table in `docs/ndp.md`).

use serde::{Deserialize, Serialize};

use crate::receiver_driven::{Section, session_section};

/// Section `ndp` of the parameters file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NdpParams {
    /// Packets sent at line rate before the first pull.
    pub initial_window_packets: u32,
    /// A packet of which neither ACK nor NACK came back for so long is sent again; a receiver
    /// that has waited so long pulls again.
    pub rto_ns: u64,
    /// Upper bound of the timeout, which doubles while the peer is silent.
    pub max_rto_ns: u64,
    /// Consecutive timeouts without a sign of the peer after which the flow has failed.
    pub max_retries: u32,
    /// A peer is given up when it has been silent for so long, at the earliest after `max_retries`.
    pub give_up_ns: u64,
    /// How long an ended flow still answers late packets.
    pub linger_ns: u64,
    /// Packets that a receiver holds out of order; what comes after is treated as trimmed.
    pub reorder_buffer_packets: u32,
    /// Bytes that all sessions of a host hold out of order; each may hold 32 packets anyway.
    pub reorder_total_bytes: u64,
    /// Flows open at a host, in each direction.
    pub max_flows: u32,
    /// Flows open from one peer.
    pub max_flows_per_peer: u32,
}

impl Default for NdpParams {
    fn default() -> Self {
        NdpParams {
            initial_window_packets: 12,
            rto_ns: 10_000_000,
            max_rto_ns: 80_000_000,
            max_retries: 8,
            give_up_ns: 4_000_000_000,
            linger_ns: 200_000_000,
            reorder_buffer_packets: 8192,
            reorder_total_bytes: 268_435_456,
            max_flows: 4096,
            max_flows_per_peer: 1024,
        }
    }
}

session_section!(NdpParams);

impl NdpParams {
    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), String> {
        if self.initial_window_packets == 0 {
            return Err("ndp.initial_window_packets is 0; nothing would ever be sent".into());
        }
        self.session().validate("ndp", &[])
    }
}
