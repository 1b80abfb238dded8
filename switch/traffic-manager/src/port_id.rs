//! Ports, and what their neighbours are asked for.

use ebb_units::Instant;

/// Number of a port in the data plane, as in v1model's `egress_spec`.
pub type PortId = u16;

/// Request to the neighbour at a port, by a PFC frame. Bit i stands for queue i, which is a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseChange {
    /// When the bytes that came in on the port crossed a threshold; this may be before the time of
    /// the call that found it out.
    pub at: Instant,
    /// The port that leads to the neighbour.
    pub port: PortId,
    /// The queues whose state changed, a bit each.
    pub changed: u8,
    /// The changed queues that are to pause; the other changed ones are to resume. A bit per queue.
    pub paused: u8,
}
