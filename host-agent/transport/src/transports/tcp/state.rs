//! States of a connection, why it failed, and its counters.

use ebb_units::Duration;

use super::receiver::ReceiverCounters;
use super::sender::SenderCounters;
use crate::objection::Objection;
use crate::record::TcpSummary;

/// The states of RFC 9293 3.3.2, without LISTEN, which belongs to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// Why a connection ended without both streams having been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error(
        "connection refused: the peer answered the SYN with RST (does it listen on that port?)"
    )]
    Refused,
    #[error("connection reset by the peer")]
    Reset,
    #[error("reset by the peer: {}", .0.describe())]
    Refusal(Objection),
    #[error("no answer to {attempts} SYNs")]
    HandshakeTimeout { attempts: u32 },
    #[error("no acknowledgment after {retries} retransmissions")]
    RetransmissionTimeout { retries: u32 },
    #[error("nothing heard from the peer for {0}")]
    PeerSilent(Duration),
    #[error("cannot read the object at byte {offset}: {error}")]
    SourceUnreadable {
        offset: u64,
        error: std::io::ErrorKind,
    },
    #[error("aborted by this side")]
    Aborted,
}

/// Counters of a connection, for the flow record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    pub sender: SenderCounters,
    pub receiver: ReceiverCounters,
    pub summary: TcpSummary,
    /// Slow-start threshold; 0 before the handshake is over.
    pub threshold_packets: u32,
}

impl Statistics {
    /// Counts since `before`; estimates are current.
    pub(crate) fn since(&self, before: &Statistics) -> Statistics {
        Statistics {
            sender: self.sender.since(&before.sender),
            receiver: self.receiver.since(&before.receiver),
            ..*self
        }
    }
}
