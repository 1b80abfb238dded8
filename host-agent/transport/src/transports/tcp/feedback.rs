//! The seam between TCP and schemes in which the network talks to senders: messages about packets of ours,
//! fields that our packets carry for switches or from them, and how a connection reacts.
//!
//! A scheme brings a [`Feedback`], one for all connections of a host, and a [`Reaction`] for each of them
//! where it changes what the sender does. A connection without either pays for an empty list.

use std::fmt;
use std::sync::Arc;

use ebb_units::Duration;
use ebb_wire::{ParseError, TcpOptions};

pub use super::message::Message;
use super::segment::Segment;
pub(crate) use super::sender::reaction::{Next, Reaction};
use crate::selector::Selector;

/// Reads the message in an IPv4 packet, whoever made that up.
pub(crate) type Parse = fn(&[u8]) -> Result<Message, ParseError>;

/// Exchange of a scheme with the network, the same for all connections of a host.
pub(crate) trait Feedback: fmt::Debug + Send + Sync {
    /// Packets that carry its messages.
    fn messages(&self) -> Vec<(Selector, Parse)> {
        Vec::new()
    }

    /// The state of a connection. None: nothing in the sender depends on this feedback.
    fn reaction(&self) -> Option<Box<dyn Reaction>> {
        None
    }

    /// Least time between two repetitions of a SYN or an ACK that the network dropped, until a round trip
    /// has been measured. None: they wait for the timer and for the peer.
    fn first_round_trip(&self) -> Option<Duration> {
        None
    }

    /// Completes a SYN or a segment with payload. `remaining_bytes` of the stream are not known to have
    /// arrived.
    fn stamp(&self, _remaining_bytes: u64, _segment: &mut Segment<'_>) {}

    /// Completes the options of a segment without payload. `out_of_order_bytes` have arrived beyond the
    /// one that it acknowledges.
    fn stamp_ack(&self, _out_of_order_bytes: u64, _options: &mut TcpOptions) {}

    /// Telemetry of the next ACK: what it says of the identifications that have arrived since the last one,
    /// as switches left them. `earlier` is that of those before the segment that comes with `arrived`. 0:
    /// nothing. An ACK that says something goes out by itself, not with data.
    fn echo(&self, _earlier: u16, _arrived: u16) -> u16 {
        0
    }

    /// The host serves the flow with the least remaining bytes first.
    fn serves_shortest_first(&self) -> bool {
        false
    }
}

/// All feedback that an algorithm uses.
#[derive(Clone, Debug)]
pub struct FeedbackSet(Option<Arc<[Arc<dyn Feedback>]>>);

impl FeedbackSet {
    /// ACKs only.
    pub const NONE: FeedbackSet = FeedbackSet(None);

    /// With one more, which comes after the others.
    pub(crate) fn with(&self, feedback: impl Feedback + 'static) -> Self {
        let more: Arc<dyn Feedback> = Arc::new(feedback);
        FeedbackSet(Some(self.all().iter().cloned().chain([more]).collect()))
    }

    fn all(&self) -> &[Arc<dyn Feedback>] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(super) fn messages(&self) -> Vec<(Selector, Parse)> {
        self.all().iter().flat_map(|one| one.messages()).collect()
    }

    pub(super) fn reactions(&self) -> Vec<Box<dyn Reaction>> {
        let reactions = self.all().iter().filter_map(|one| one.reaction());
        reactions.collect()
    }

    pub(super) fn first_round_trip(&self) -> Option<Duration> {
        self.all().iter().find_map(|one| one.first_round_trip())
    }

    /// [`Feedback::stamp`], with the remaining bytes only where they are wanted.
    pub(super) fn stamp(&self, remaining_bytes: impl Fn() -> u64, segment: &mut Segment<'_>) {
        for one in self.all() {
            one.stamp(remaining_bytes(), segment);
        }
    }

    pub(super) fn stamp_ack(&self, out_of_order_bytes: u64, options: &mut TcpOptions) {
        for one in self.all() {
            one.stamp_ack(out_of_order_bytes, options);
        }
    }

    /// [`Feedback::echo`]; of several the largest, as they share one field.
    pub(super) fn echo(&self, earlier: u16, arrived: u16) -> u16 {
        let each = self.all().iter().map(|one| one.echo(earlier, arrived));
        each.max().unwrap_or(0)
    }

    pub(super) fn serves_shortest_first(&self) -> bool {
        self.all().iter().any(|one| one.serves_shortest_first())
    }
}
