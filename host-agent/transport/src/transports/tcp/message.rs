//! Messages of switches to the senders of packets.

use std::net::SocketAddrV4;

use ebb_wire::{DropNotification, SourceQuench};

/// A message of the network about a packet that a connection sent. Nothing vouches for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A switch dropped the packet.
    Dropped(DropNotification),
    /// A switch asks the sender of the packet to send less.
    Quench(SourceQuench),
}

impl Message {
    /// Sender and receiver of the packet.
    pub(super) fn addresses(&self) -> (SocketAddrV4, SocketAddrV4) {
        match self {
            Message::Dropped(dropped) => (dropped.sender, dropped.receiver),
            Message::Quench(quench) => (quench.sender, quench.receiver),
        }
    }

    /// Sequence number of the packet.
    pub(super) fn seq(&self) -> u32 {
        match self {
            Message::Dropped(dropped) => dropped.seq,
            Message::Quench(quench) => quench.seq,
        }
    }
}
