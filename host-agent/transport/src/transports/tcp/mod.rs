//! TCP over IPv4 with real headers: `reno`, `reno-ecn`, `dctcp`, `fh`, `lps`, `detail`, `fastlane`
//! and `pfabric` (docs/tcp.md).
//!
//! ```text
//!            ┌ handshake    what SYN and SYN-ACK negotiate
//! connection ┤
//!            └ synchronized ┬ sender   ─ scoreboard, rtt, congestion::{reno, dctcp}
//!                           └ receiver ─ reassembly, ecn
//! ```
//!
//! Positions in a stream are 64-bit offsets everywhere; only [`segment`] knows that the wire has
//! 32 bits of them.
//!
//! References: RFC 9293 (TCP), 5681 (congestion control), 6298 (timer), 6675 and 2018 (SACK), 6582
//! (NewReno), 7323 (window scale, timestamps), 3168 (ECN), 8257 (DCTCP), 5961 (blind attacks),
//! 6928 (initial window), 3465 (byte counting).

mod accept;
mod again;
mod algorithm;
mod autotune;
mod burst;
pub mod congestion;
#[cfg(test)]
mod congestion_tests;
pub mod connection;
#[cfg(test)]
mod data_in_syn_tests;
mod delivered_syns;
#[cfg(test)]
mod detail_tests;
mod ecn;
mod endpoint;
pub mod fastlane;
mod feedback;
mod flow;
mod flow_table;
mod handshake;
mod listener;
mod message;
mod paced;
#[cfg(test)]
mod pair;
mod params;
mod persistent;
#[cfg(test)]
mod pfabric_notified_tests;
#[cfg(test)]
mod pfabric_tests;
mod reassembly;
mod receiver;
#[cfg(test)]
mod recovery_tests;
mod refusal;
mod registry;
mod scoreboard;
mod segment;
mod sender;
mod source_quench;
#[cfg(test)]
mod source_quench_tests;
mod state;
mod stream;
mod synchronized;
#[cfg(test)]
mod telemetry_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transfer_tests;
mod turns;

pub use algorithm::Algorithm;
pub use congestion::{DCTCP, DETAIL, EcnMode, RENO, RENO_ECN};
pub use connection::Connection;
pub use endpoint::{ConfigError, EndpointCounters, TcpEndpoint};
pub use feedback::{FeedbackSet, Message};
pub use params::{Connections, InvalidTcpParams, TcpParams};
pub use receiver::ReceiverCounters;
pub(crate) use registry::{entry, make};
pub use segment::{Flags, Segment};
pub use sender::SenderCounters;
pub use state::{Failure, State, Statistics};
