//! Common parts of NDP, SCDP and Trevi: sessions opened without a handshake, one paced pull queue per
//! host, credits counted in packets, and a wire header that says everything in every packet.
//!
//! [`SessionTable`] owns the sessions and speaks the wire format; the transports supply the session state
//! machines ([`SenderSession`], [`ReceiverSession`]) and never see an address or a port.

mod audience;
mod buffers;
mod credit;
mod ending;
mod expected;
mod inbound;
mod leaving;
mod opening;
mod outbound;
mod params;
mod path;
mod pull_queue;
mod retry;
mod returned;
mod session;
mod session_table;
mod tombstones;

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod dead_path_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod together_tests;

pub use session_table::{EPHEMERAL_PORTS, HostConfig, SessionTable};

pub use audience::Audience;
pub use buffers::{Buffers, is_zero, pieces};
pub use credit::PullCredit;
pub(crate) use params::session_section;
pub use params::{Section, SessionParams};
pub use retry::{Retry, RetryParams};
pub use returned::Returned;
pub use session::{
    Cast, Ending, Outbox, ReceiverDriven, ReceiverSession, SenderSession, StreamShape,
};

use ebb_wire::{EbbHeader, PacketType};
use serde::{Deserialize, Serialize};

use crate::objection::Objection;

/// Section `dscp` of the parameters file: the classes of `docs/wire-format.md`. The controller
/// gives the switches the same values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DscpParams {
    /// Data that may be trimmed.
    pub trimmable: u8,
    /// DSCP that a trim writes.
    pub trimmed: u8,
    /// DSCP that a trim on a host-facing port writes.
    pub trimmed_lasthop: u8,
    /// PULL, ACK, NACK, RESET, REQUEST, STOP.
    pub control: u8,
    /// Data of Trevi: it takes what capacity the other classes leave.
    pub scavenger: u8,
    /// TCP flows with a priority above 0.
    pub priority: PriorityDscps,
}

/// DSCPs of TCP flows of priority 1 to 7. In parameters a number, which all seven have, or a list of seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OneOrEach", into = "OneOrEach")]
pub struct PriorityDscps([u8; 7]);

impl PriorityDscps {
    /// The DSCP of a priority above 0; more than 7 counts as 7.
    pub fn of(&self, priority: u8) -> u8 {
        self.0[usize::from(priority.clamp(1, 7)) - 1]
    }

    /// Whether one of the priorities has this DSCP.
    pub fn contains(&self, dscp: u8) -> bool {
        self.0.contains(&dscp)
    }
}

/// How parameters write `PriorityDscps`.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "neither a DSCP nor a list of seven, for priority 1 to 7"
)]
enum OneOrEach {
    One(u8),
    Each([u8; 7]),
}

impl From<OneOrEach> for PriorityDscps {
    fn from(written: OneOrEach) -> Self {
        match written {
            OneOrEach::One(dscp) => PriorityDscps([dscp; 7]),
            OneOrEach::Each(dscps) => PriorityDscps(dscps),
        }
    }
}

impl From<PriorityDscps> for OneOrEach {
    fn from(dscps: PriorityDscps) -> Self {
        let first = dscps.0[0];
        if dscps.0 == [first; 7] {
            OneOrEach::One(first)
        } else {
            OneOrEach::Each(dscps.0)
        }
    }
}

impl Default for DscpParams {
    fn default() -> Self {
        DscpParams {
            trimmable: 10,
            trimmed: 12,
            trimmed_lasthop: 14,
            control: 46,
            scavenger: 8,
            priority: PriorityDscps([34; 7]),
        }
    }
}

impl DscpParams {
    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), String> {
        let one_each = [
            self.trimmable,
            self.trimmed,
            self.trimmed_lasthop,
            self.control,
            self.scavenger,
        ];
        let mut all = one_each.into_iter().chain(self.priority.0);
        match all.find(|&dscp| dscp > 63) {
            Some(dscp) => Err(format!("section dscp: {dscp} is not a DSCP; 0..63 are")),
            None => Ok(()),
        }
    }
}

/// Why a session was refused or given up: the `symbol` field of a RESET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetReason {
    /// Nothing listens on the port.
    NoListener,
    /// As many sessions are open as the limits allow.
    TooManySessions,
    /// The session's sizes are impossible or too large.
    BadSession,
    /// The other side was silent for too long.
    GaveUp,
    /// Whoever uses the transport refused the content or stopped the flow.
    Aborted,
    /// There is no such session (any more).
    UnknownSession,
    /// The object is of no use to whoever uses the transport.
    Refused(Objection),
}

impl ResetReason {
    /// A RESET that carries it.
    fn header(self) -> EbbHeader {
        EbbHeader {
            symbol: self.code(),
            ..EbbHeader::new(PacketType::Reset, 0, 0)
        }
    }

    fn code(self) -> u32 {
        match self {
            ResetReason::NoListener => 1,
            ResetReason::TooManySessions => 2,
            ResetReason::BadSession => 3,
            ResetReason::GaveUp => 4,
            ResetReason::Aborted => 5,
            ResetReason::UnknownSession => 6,
            ResetReason::Refused(objection) => objection.code(),
        }
    }

    /// In words, for the record of the flow that was reset.
    fn describe(code: u32) -> String {
        let text = match code {
            1 => "nothing listens on the port",
            2 => "the peer has too many flows open",
            3 => "the peer cannot take an object of this shape",
            4 => "the peer gave up: it heard nothing from here for too long",
            5 => "the peer aborted: it refused the content or was told to stop",
            6 => "the peer does not know the session; it has probably restarted",
            _ => match Objection::from_code(code) {
                Some(objection) => objection.describe(),
                None => return format!("reset by the peer with unknown reason {code}"),
            },
        };
        format!("reset by the peer: {text}")
    }
}
