//! What makes a TCP of its own: how it uses ECN, its congestion control and its feedback.

use super::congestion::{CongestionControl, EcnMode, Window};
use super::feedback::FeedbackSet;
use super::params::TcpParams;

/// A congestion control algorithm; connections are started with it.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// What to ask of the peer in the handshake. Without ECN-capable peer it is [`EcnMode::Off`].
    pub ecn: EcnMode,
    /// The same for flows of a priority above 0.
    pub priority_ecn: EcnMode,
    /// The state of one connection, which begins with this window.
    pub start: fn(&TcpParams, Window) -> Box<dyn CongestionControl>,
    /// What it exchanges with the network beside ACKs and ECN.
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
