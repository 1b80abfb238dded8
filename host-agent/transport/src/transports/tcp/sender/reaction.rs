//! How a sender is changed by a scheme that talks with the network.

use std::fmt;

use ebb_units::Instant;

use super::{AckArrival, Sender, Transmission};
use crate::tcp::message::Message;

/// How one connection reacts to the network, in addition to TCP's own rules.
pub(crate) trait Reaction: fmt::Debug + Send {
    /// A message about the packet whose stream offsets begin with `start`. True: it had an effect.
    fn on_message(
        &mut self,
        _now: Instant,
        _message: &Message,
        _start: u64,
        _sender: &mut Sender,
    ) -> bool {
        false
    }

    /// An ACK, after the scoreboard has taken it; `advances`: of new data.
    fn on_ack(&mut self, _arrival: &AckArrival<'_>, _advances: bool, _sender: &mut Sender) {}

    /// The retransmission timer has expired.
    fn on_timeout(&mut self) {}

    /// Choice of the next segment.
    fn next_transmission(&mut self, _now: Instant, _sender: &mut Sender) -> Next {
        Next::Usual
    }

    /// A recovery of its own is under way: the window does not grow, and losses are its matter.
    fn is_recovering(&self) -> bool {
        false
    }

    /// It knows that the segment at this offset was dropped, and sends it again itself.
    fn repairs(&self, _start: u64) -> bool {
        false
    }

    /// The congestion window to be used in place of `window_bytes`.
    fn window_bytes(&self, window_bytes: u64, _segment_bytes: u64) -> u64 {
        window_bytes
    }

    /// Bytes in flight that have left the network, by which the window for new data is larger. None: the
    /// pipe says what is in flight.
    fn inflation_bytes(&self) -> Option<u64> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn handle_deadline(&mut self, _now: Instant) {}
}

/// The decision of a [`Reaction`] about the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Send(Transmission),
    /// Nothing leaves before the next event.
    Nothing,
    /// TCP's own rules decide.
    Usual,
}
