//! The local API of a host: `docs/agent-api.md`. A command is a client of it, of the daemon of its
//! host or of one in its own process.

pub mod client;
pub mod message;
pub mod socket;

/// Version of the protocol; both ends must have the same.
pub const VERSION: u32 = 1;
/// Length of one message, at most.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The latest start of a transfer: 115 days after the machine was started.
pub const MAX_START_NS: u64 = 10_000_000_000_000_000;
