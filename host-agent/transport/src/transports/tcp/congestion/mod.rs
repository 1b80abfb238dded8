//! Congestion control: what the window is, and how it answers acknowledgments, marks and losses.
//!
//! The sender decides *when* something happened (RFC 6675 loss detection, the retransmission
//! timer); an algorithm decides by *how much* the window changes. One file per algorithm; all share
//! [`Window`], the slow start and congestion avoidance of RFC 5681. A new algorithm is a new file
//! with an [`Algorithm`] and its [`CongestionControl`], its `mod` here, and a line in the list of
//! `transports/mod.rs` (`docs/tcp.md`, "A new algorithm").

mod acknowledgment;
mod control;
pub(crate) mod dctcp;
pub(crate) mod detail;
pub(crate) mod fh;
pub(crate) mod hull;
pub(crate) mod lps;
pub(crate) mod pfabric;
pub(crate) mod reno;
pub(crate) mod reno_ecn;
mod window;

pub use super::algorithm::Algorithm;
pub use acknowledgment::Acknowledgment;
pub use control::{CongestionControl, EcnMode};
pub use dctcp::DCTCP;
pub use detail::DETAIL;
pub use reno::RENO;
pub use reno_ecn::RENO_ECN;
pub use window::Window;
