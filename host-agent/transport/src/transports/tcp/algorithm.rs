//! A variant of TCP: its use of ECN, its congestion control and its feedback.

use super::congestion::{CongestionControl, EcnMode, Window};
use super::feedback::FeedbackSet;
use super::params::TcpParams;

/// A congestion control algorithm; connections are started with it.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// ECN that the handshake asks for. Without ECN-capable peer it is [`EcnMode::Off`].
    pub ecn: EcnMode,
    /// The same for flows of a priority above 0.
    pub priority_ecn: EcnMode,
    /// The state of one connection, which begins with this window.
    pub start: fn(&TcpParams, Window) -> Box<dyn CongestionControl>,
    /// Messages and fields that it exchanges with the network beside ACKs and ECN.
    pub feedback: FeedbackSet,
}

impl Algorithm {
    /// The algorithm of a connection whose flows have a priority above 0, or have not.
    pub(crate) fn for_priority(self, has_priority: bool) -> Algorithm {
        let ecn = if has_priority {
            self.priority_ecn
        } else {
            self.ecn
        };
        Algorithm { ecn, ..self }
    }
}
