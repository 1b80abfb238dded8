//! FastLane's hosts: the switch that drops a packet notifies its sender, which sends it again, as far as
//! it does not find itself in a circle of drops (Zats, "Achieving Consistent Latencies in Datacenter
//! Networks", section 6.5.4; `docs/fastlane.md`).

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod oracle_tests;
mod probing;
mod reaction;
mod table;
#[cfg(test)]
mod tests;

use ebb_units::{Duration, Instant};
use ebb_wire::{DropNotification, Protocol, TcpOptions};
use serde::{Deserialize, Serialize};

use super::again::Again;
use super::congestion::reno::Reno;
use super::feedback::{Feedback, FeedbackSet, Message, Parse, Reaction};
use super::{Algorithm, EcnMode, TcpParams, entry, make};
use crate::selector::{Condition, Selector};
use crate::transports::{Entry, Suite};

use table::NotificationTable;

pub(crate) const ENTRY: Entry = entry("fastlane", 7009, |host, suite| {
    let params = params_of(suite);
    let algorithm = suite.fastlane.algorithm();
    let pacer = suite.pacer_if(params.paced);
    make(host, "fastlane", algorithm, &params, pacer)
});

/// Section `fastlane` of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastlaneParams {
    /// DSCP of notifications, as the switches write it.
    pub notification_dscp: u8,
    /// Packets take random paths (FL-PS): duplicate ACKs say nothing, and what has arrived out of
    /// order enlarges the window. False: each flow has one path (FL-FH), and duplicate ACKs count.
    pub scatter: bool,
    /// How repeated drops of a packet bound the retransmissions under way.
    pub bound: BoundLaw,
    /// The round trip until one has been measured: nothing goes out again because of notifications
    /// more often than once in it.
    pub round_trip_ns: u64,
}

/// Retransmissions that may be under way at a time, given half of the window (alpha) and how often the
/// packet that was dropped most often has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundLaw {
    /// alpha / drops: the formula of the thesis.
    Harmonic,
    /// alpha / 2^(drops - 1): its text, which says "exponentially".
    Exponential,
}

impl Default for FastlaneParams {
    fn default() -> Self {
        FastlaneParams {
            notification_dscp: 56,
            scatter: true,
            bound: BoundLaw::Harmonic,
            round_trip_ns: 100_000,
        }
    }
}

impl FastlaneParams {
    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), String> {
        if self.notification_dscp > 63 {
            return Err(format!(
                "fastlane.notification_dscp is {}: expected 0 to 63",
                self.notification_dscp
            ));
        }
        // An hour, so that multiples of it cannot overflow.
        if !(1..=3_600_000_000_000).contains(&self.round_trip_ns) {
            return Err(format!(
                "fastlane.round_trip_ns is {}: expected 1 to 3600000000000",
                self.round_trip_ns
            ));
        }
        Ok(())
    }

    /// NewReno that reacts to ECN and to notifications of drops.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm {
            ecn: EcnMode::Classic,
            priority_ecn: EcnMode::Classic,
            start: match self.scatter {
                true => |_, window| Box::new(Reno::over_reordering_paths(window)),
                false => |_, window| Box::new(Reno::new(window)),
            },
            feedback: FeedbackSet::NONE.with(self.notifications(Bound::Falling(self.bound))),
        }
    }

    /// Notifications as the switches send them, taken with this bound.
    pub(crate) fn notifications(&self, bound: Bound) -> Notifications {
        Notifications {
            dscp: self.notification_dscp,
            scatter: self.scatter && matches!(bound, Bound::Falling(_)),
            bound,
            round_trip: Duration::from_nanos(self.round_trip_ns),
        }
    }
}

/// Parameters of the TCP of `fastlane`: no SACK, as in the thesis.
fn params_of(suite: &Suite) -> TcpParams {
    TcpParams {
        sack: false,
        ..suite.tcp.clone()
    }
}

/// How many of the packets that were dropped may be under way again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Half of the window, and the less the more often one was dropped: Algorithm 1, for TCP.
    Falling(BoundLaw),
    /// One as soon as a probe has been answered, and one more for each that arrives: for pFabric, whose
    /// receivers report by SACK what has arrived.
    Probed,
}

/// Notifications of drops: [`FastlaneParams`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notifications {
    dscp: u8,
    scatter: bool,
    bound: Bound,
    /// Until one has been measured.
    round_trip: Duration,
}

/// Offset of the source port in a TCP header. A notification is the packet that was dropped, on its way
/// back: its addresses are swapped, its ports are not.
const SOURCE_PORT_AT: u8 = 0;

impl Feedback for Notifications {
    fn messages(&self) -> Vec<(Selector, Parse)> {
        let class = Condition::Dscp(self.dscp);
        let selector = Selector::only(Protocol::TCP, SOURCE_PORT_AT, class);
        let parse: Parse = |packet| DropNotification::parse(packet).map(Message::Dropped);
        vec![(selector, parse)]
    }

    fn reaction(&self) -> Option<Box<dyn Reaction>> {
        Some(Box::new(Notified::new(*self)))
    }

    fn first_round_trip(&self) -> Option<Duration> {
        Some(self.round_trip)
    }

    /// Without SACK, the receiver says how much has arrived out of order.
    fn stamp_ack(&self, out_of_order_bytes: u64, options: &mut TcpOptions) {
        if matches!(self.bound, Bound::Falling(_)) {
            let bytes = u32::try_from(out_of_order_bytes).unwrap_or(u32::MAX);
            options.out_of_order_bytes = Some(bytes);
        }
    }
}

/// State of a sender from notifications and from bytes that arrived out of order.
#[derive(Debug)]
struct Notified {
    table: NotificationTable,
    /// The FIN without payload.
    fin: Again,
    fin_pending: bool,
    /// When something of the table may go out that may not yet.
    wake_at: Option<Instant>,
    /// Until one has been measured.
    round_trip: Duration,
    scatter: bool,
    /// Bytes that have left the network although they have not been acknowledged.
    inflation: u64,
}

impl Notified {
    fn new(how: Notifications) -> Self {
        Notified {
            table: NotificationTable::new(how.bound),
            fin: Again::default(),
            fin_pending: false,
            wake_at: None,
            round_trip: how.round_trip,
            scatter: how.scatter,
            inflation: 0,
        }
    }
}
