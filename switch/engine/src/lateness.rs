//! How late a switch under the wall clock is at its interfaces.
//!
//! Its queues are those of a switch that is never late, because frames count from their arrival in
//! the kernel. But its frames come out late, which hosts and transports see as delay of the
//! network. So a measurement has to know how much that is: beyond a share of what is measured, the
//! machine was too busy. See docs/bench.md, "Lateness".

use ebb_traffic_manager::{DelaySummary, DelayTally};
use ebb_units::Duration;
use serde::Serialize;

/// Observations at one interface since it was last asked.
#[derive(Debug, Default)]
pub struct Late {
    /// How long the first of the frames that were read together had waited; `None` if none was
    /// read.
    pub wakeup: Option<Duration>,
    /// How late each frame left, without those that the interface held back.
    pub departures: Vec<Duration>,
}

impl Late {
    /// Forgets everything, but keeps the memory.
    pub fn clear(&mut self) {
        self.wakeup = None;
        self.departures.clear();
    }
}

/// Collects how late the frames of one switch were at its interfaces.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    wakeups: DelayTally,
    departures: DelayTally,
}

impl Lateness {
    /// Adds what was seen at an interface.
    pub fn note(&mut self, late: &Late) {
        late.wakeup.iter().for_each(|late| self.wakeups.add(*late));
        late.departures
            .iter()
            .for_each(|late| self.departures.add(*late));
    }

    /// The report on everything collected so far.
    pub fn report(&self) -> LatenessReport {
        LatenessReport {
            wakeups: self.wakeups.summary(),
            departures: self.departures.summary(),
        }
    }
}

/// How late a switch was at its interfaces since its statistics began. A switch without interfaces
/// has no samples; the lateness of its thread shows where frames leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatenessReport {
    /// How long the first frame of a batch had waited in the kernel before it was read.
    pub wakeups: DelaySummary,
    /// How long after its last bit had left, by the clock of the switch, a frame was given to the
    /// interface.
    pub departures: DelaySummary,
}
