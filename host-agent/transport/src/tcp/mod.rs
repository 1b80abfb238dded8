//! TCP over IPv4 with real headers: `reno`, `reno-ecn` and `dctcp` (docs/tcp.md).
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

pub mod congestion;
#[cfg(test)]
mod congestion_tests;
pub mod connection;
mod ecn;
mod endpoint;
mod flow;
mod handshake;
mod params;
mod reassembly;
mod receiver;
#[cfg(test)]
mod recovery_tests;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod synchronized;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transfer_tests;

pub use congestion::{Algorithm, Dctcp, EcnMode, Reno, RenoEcn};
pub use connection::{Connection, Failure, State, Statistics};
pub use endpoint::{ConfigError, EndpointCounters, TcpEndpoint};
pub use params::{InvalidTcpParams, TcpParams};
pub use receiver::ReceiverCounters;
pub use segment::{Flags, Segment};
pub use sender::SenderCounters;
