//! How late a switch under the wall clock is at its interfaces.
//!
//! Its queues are those of a switch that is never late: frames count from their arrival in the kernel.
//! What comes out of it comes out late, and hosts and transports see that as delay of the network. So
//! whoever measures has to know how much it is: beyond a part of what is measured, the machine was too
//! busy. See docs/bench.md, "Lateness".

use ebb_traffic_manager::{DelaySummary, DelayTally};
use ebb_units::Duration;
use serde::Serialize;

/// What was seen at an interface since the last look.
#[derive(Debug, Default)]
pub struct Late {
    /// How long the first one of the frames that were read together had waited.
    pub wakeup: Option<Duration>,
    /// How late each frame left, but for those that the interface held back.
    pub departures: Vec<Duration>,
}

impl Late {
    pub fn clear(&mut self) {
        self.wakeup = None;
        self.departures.clear();
    }
}

/// How late the frames of one switch were, at its interfaces.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    wakeups: DelayTally,
    departures: DelayTally,
}

impl Lateness {
    pub fn note(&mut self, late: &Late) {
        late.wakeup.iter().for_each(|late| self.wakeups.add(*late));
        late.departures
            .iter()
            .for_each(|late| self.departures.add(*late));
    }

    pub fn report(&self) -> LatenessReport {
        LatenessReport {
            wakeups: self.wakeups.summary(),
            departures: self.departures.summary(),
        }
    }
}

/// How late a switch was at its interfaces since its statistics began. Without interfaces there are no
/// samples: what its thread is late by shows where frames leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatenessReport {
    /// How long the first frame of a batch had waited in the kernel before it was read.
    pub wakeups: DelaySummary,
    /// How long after its last bit had left by the clock of the switch a frame was given to the
    /// interface.
    pub departures: DelaySummary,
}
