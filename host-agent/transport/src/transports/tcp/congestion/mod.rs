//! Congestion control: what the window is, and how it answers acknowledgments, marks and losses.
//!
//! The sender decides *when* something happened (RFC 6675 loss detection, the retransmission
//! timer); an algorithm decides by *how much* the window changes. One file per algorithm; all share
//! [`Window`], the slow start and congestion avoidance of RFC 5681. A new algorithm is a new file
//! with an [`Algorithm`] and its [`CongestionControl`], its `mod` here, and a line in the list of
//! `transports/mod.rs` (`docs/tcp.md`, "A new algorithm").

pub(crate) mod dctcp;
pub(crate) mod detail;
pub(crate) mod fh;
pub(crate) mod hull;
pub(crate) mod lps;
pub(crate) mod pfabric;
pub(crate) mod reno;
pub(crate) mod reno_ecn;
mod window;

use std::fmt;

pub use super::algorithm::Algorithm;
pub use dctcp::DCTCP;
pub use detail::DETAIL;
pub use reno::RENO;
pub use reno_ecn::RENO_ECN;
pub use window::Window;

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

/// One acceptable acknowledgment, as the sender saw it.
///
/// Sequence positions are 64-bit stream offsets, so that they can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgment {
    /// Bytes that this ACK acknowledges cumulatively; SACKed bytes do not count.
    pub acked_bytes: u64,
    /// SND.UNA after this ACK.
    pub una: u64,
    /// SND.NXT.
    pub next: u64,
    /// Bytes between SND.UNA and SND.NXT before this ACK.
    pub flight_bytes: u64,
    /// The ECN-Echo flag (false when ECN was not negotiated).
    pub ece: bool,
    /// Fast recovery is in progress: the window does not grow.
    pub in_recovery: bool,
    /// Slow start after a timeout: what is acknowledged may have been sent before it.
    pub after_timeout: bool,
    /// The window, not the application or the peer's buffer, is what holds the sender back.
    pub window_limited: bool,
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
