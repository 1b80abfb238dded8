//! The calls of a congestion control.

use std::fmt;

use super::{Acknowledgment, Window};

/// How a connection negotiates and echoes ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EcnMode {
    /// Without ECN: packets are not ECT.
    Off,
    /// RFC 3168: ECE stays set until CWR.
    Classic,
    /// ECE follows the CE marks, packet by packet (RFC 8257).
    Accurate,
}

/// The congestion control of one connection.
pub trait CongestionControl: fmt::Debug + Send {
    /// An acceptable ACK arrived. Returns true if the window was reduced because of ECN-Echo.
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool;

    /// A loss was detected by SACK or duplicate ACKs; called once per loss episode (RFC 5681 3.2).
    fn on_loss(&mut self, flight_bytes: u64, next: u64) {
        self.window_mut().halve(flight_bytes);
        self.window_mut().note_reduction(next);
    }

    /// The retransmission timer expired (RFC 5681 3.1). `first` is false for repeated timeouts
    /// of the same segment, which keep the slow-start threshold.
    fn on_timeout(&mut self, flight_bytes: u64, next: u64, first: bool) {
        self.window_mut().collapse(flight_bytes, first);
        self.window_mut().note_reduction(next);
    }

    /// Nothing was sent for longer than the retransmission timeout (RFC 5681 4.1).
    fn on_idle(&mut self) {
        self.window_mut().restart();
    }

    /// Everything that the network itself said it dropped has arrived: the window that the recovery
    /// ends with. `next` is SND.NXT. Only with feedback that repairs drops, as FastLane's.
    fn on_recovered(&mut self, _window_bytes: u64, _next: u64) {}

    /// Segments SACKed above a hole, or duplicate ACKs, that make it a loss: DupThresh of RFC 6675,
    /// given the `configured` one. None: never, where the network reorders but does not lose; then
    /// only the timer and the network's own word find losses.
    fn duplicate_ack_threshold(&self, configured: u32) -> Option<u32> {
        Some(configured)
    }

    /// The congestion window.
    fn window(&self) -> &Window;

    /// The congestion window.
    fn window_mut(&mut self) -> &mut Window;

    /// The estimate of the fraction of bytes that the network marks, 0 to 1. None: the algorithm
    /// makes no such estimate.
    fn marked_fraction(&self) -> Option<f64> {
        None
    }
}
