//! Congestion control: what the window is, and how it answers acknowledgments, marks and losses.
//!
//! The sender decides *when* something happened (RFC 6675 loss detection, the retransmission
//! timer); an algorithm decides by *how much* the window changes. One file per algorithm; all share
//! [`Window`], the slow start and congestion avoidance of RFC 5681.

mod dctcp;
mod reno;
mod window;

use std::fmt;

pub use dctcp::Dctcp;
pub use reno::Reno;
pub use window::Window;

use super::params::TcpParams;

/// The algorithms this crate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    Reno,
    RenoEcn,
    Dctcp,
}

/// How a connection negotiates and echoes ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EcnMode {
    Off,
    /// RFC 3168: ECE stays set until CWR.
    Classic,
    /// RFC 8257: ECE follows the CE marks.
    Dctcp,
}

impl Algorithm {
    pub fn ecn(self) -> EcnMode {
        match self {
            Algorithm::Reno => EcnMode::Off,
            Algorithm::RenoEcn => EcnMode::Classic,
            Algorithm::Dctcp => EcnMode::Dctcp,
        }
    }

    /// The algorithm at the start of a connection with segments of `mss_bytes`.
    pub(crate) fn build(self, params: &TcpParams, mss_bytes: u64) -> Box<dyn CongestionControl> {
        let window = Window::new(params, mss_bytes);
        match self {
            Algorithm::Reno | Algorithm::RenoEcn => Box::new(Reno::new(window)),
            Algorithm::Dctcp => Box::new(Dctcp::new(
                window,
                params.dctcp_gain,
                params.dctcp_initial_alpha,
            )),
        }
    }
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
    /// The window, not the application or the peer's buffer, is what holds the sender back.
    pub window_limited: bool,
}

/// A congestion control algorithm.
pub trait CongestionControl: fmt::Debug + Send {
    /// An acceptable ACK arrived. Returns true if the window was reduced because of ECN-Echo.
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool;

    /// A loss was detected by SACK or duplicate ACKs; called once per loss episode (RFC 5681 3.2).
    fn on_loss(&mut self, flight_bytes: u64, next: u64);

    /// The retransmission timer expired (RFC 5681 3.1). `first` is false for repeated timeouts
    /// of the same segment, which keep the slow-start threshold.
    fn on_timeout(&mut self, flight_bytes: u64, next: u64, first: bool);

    fn window(&self) -> &Window;

    /// DCTCP's estimate of the fraction of marked bytes.
    fn alpha(&self) -> Option<f64> {
        None
    }
}
