//! Properties of a transport that are known before one is made, and its constructor.

use ebb_wire::{PacketType, Protocol};
use serde::Serialize;

use super::Suite;
use crate::{HostConfig, Transport};

/// Makes all flows of a transport on one host. The error says in words which parameter is wrong.
pub type Make = fn(HostConfig, &Suite) -> Result<Box<dyn Transport + Send>, String>;

/// Properties of a transport that are known before one is made.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Entry {
    /// As in files, on the command line and in records.
    pub name: &'static str,
    /// Port on which a host listens by default (`docs/wire-format.md`). Each has its own.
    pub service_port: u16,
    /// The protocol number in the IPv4 header of its packets.
    #[serde(skip)]
    pub protocol: Protocol,
    /// Type of the packets that carry payload, where they have Ebb's header. None: they have TCP's.
    #[serde(skip)]
    pub payload: Option<PacketType>,
    /// Whether one flow can have several receivers behind a multicast address.
    pub groups: bool,
    /// Whether one flow can have several senders.
    pub many_to_one: bool,
    /// Makes the transport of a host.
    #[serde(skip)]
    pub make: Make,
}

impl Entry {
    /// Added to the seed of a host with several transports, so that no two draw the same numbers.
    pub fn seed(&self) -> u64 {
        u64::from(self.service_port).wrapping_sub(7000)
    }
}
