//! ICMP Source Quench (RFC 792) at a sender: a reduction as for a loss, without a retransmission
//! (`docs/source-quench.md`).

use ebb_units::Instant;
use ebb_wire::{Ipv4Header, Protocol};

use super::feedback::{Feedback, Message, Parse, Reaction};
use super::sender::Sender;
use crate::selector::Selector;

/// Offset of the source port that a message quotes: behind its own header and the quoted IPv4 header, which
/// has no options in packets of ours.
const QUOTED_PORT_AT: u8 = 8 + Ipv4Header::BYTES as u8;

/// Source Quench messages as feedback of the network.
#[derive(Debug)]
pub(crate) struct SourceQuenches;

impl Feedback for SourceQuenches {
    fn messages(&self) -> Vec<(Selector, Parse)> {
        let selector = Selector::any(Protocol::ICMP, QUOTED_PORT_AT);
        let parse: Parse = |packet| ebb_wire::SourceQuench::parse(packet).map(Message::Quench);
        vec![(selector, parse)]
    }

    fn reaction(&self) -> Option<Box<dyn Reaction>> {
        Some(Box::new(Quenched::default()))
    }
}

/// At most one reduction per window of data, as RFC 3168 6.1.2 has it for ECN.
#[derive(Debug, Default)]
struct Quenched {
    /// SND.NXT at the last reduction.
    until: u64,
}

impl Reaction for Quenched {
    fn on_message(
        &mut self,
        _now: Instant,
        message: &Message,
        start: u64,
        sender: &mut Sender,
    ) -> bool {
        // A message can only be about a segment in flight (RFC 5927 section 4.1).
        let is_in_flight = (sender.una()..sender.next()).contains(&start);
        let is_quench = matches!(message, Message::Quench(_)) && is_in_flight;
        if !is_quench || sender.una() <= self.until || sender.is_recovering() {
            return false;
        }
        sender.reduce_window();
        self.until = sender.next();
        true
    }
}
