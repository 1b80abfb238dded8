//! States of a connection, why it failed, and its counters.

use ebb_units::Duration;

use super::receiver::ReceiverCounters;
use super::sender::SenderCounters;
use crate::objection::Objection;
use crate::record::TcpSummary;

/// The states of RFC 9293 3.3.2, without LISTEN, which belongs to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// We have sent a SYN.
    SynSent,
    /// The peer's SYN has arrived, and our SYN-ACK is not acknowledged.
    SynReceived,
    /// Both streams are open.
    Established,
    /// Our FIN is sent and not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the peer's stream is open.
    FinWait2,
    /// The peer's FIN has arrived; our stream is open.
    CloseWait,
    /// Both FINs are sent; ours is not acknowledged.
    Closing,
    /// The peer's FIN came first; ours is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; late segments are answered.
    TimeWait,
    /// It has ended.
    Closed,
}

/// Why a connection ended without both streams having been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
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
    /// Counters of the sending half.
    pub sender: SenderCounters,
    /// Counters of the receiving half.
    pub receiver: ReceiverCounters,
    /// Estimates at the end.
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
