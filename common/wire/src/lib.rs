//! Wire formats: Ethernet, PFC, void frames, hose messages, IPv4, TCP, a message of ICMP and the
//! receiver-driven header of `docs/wire-format.md`.
//!
//! Each protocol has a header type of legal values with `parse` (checks everything, borrows the
//! payload, names the cause of an error, never panics) and `emit` (appends the bytes, with lengths
//! and checksums filled in).

pub mod checksum;
mod ebb;
mod error;
mod ethernet;
mod hose;
mod ipv4;
mod notification;
mod pfc;
mod remaining;
mod source_quench;
mod tcp;
mod void;

pub use ebb::{EbbFlags, EbbHeader, EbbPacket, PacketType};
pub use error::{Layer, ParseError};
pub use ethernet::{EthernetFrame, EthernetHeader, MacAddress};
pub use hose::HoseMessage;
pub use ipv4::{Ecn, Ipv4Header, Ipv4Packet, Protocol};
pub use notification::DropNotification;
pub use pfc::PfcFrame;
pub use remaining::remaining_code;
pub use source_quench::SourceQuench;
pub use tcp::{SackBlocks, TcpFlags, TcpGlance, TcpHeader, TcpOptions, TcpSegment};
pub use void::VoidFrame;

#[cfg(test)]
mod vector_tests;
