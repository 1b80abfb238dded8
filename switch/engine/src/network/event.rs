//! Events of one node. They happen in the order of its
//! [`EventQueue`](super::event_queue::EventQueue).

use crate::drops::DropReason;
use crate::switch::PortId;

/// An event at a node.
#[derive(Debug)]
pub(crate) enum Event {
    /// The last bit of a frame arrives at a port.
    Receive { port: PortId, frame: Vec<u8> },
    /// A link from a host lost or corrupted a frame that was to arrive, or arrives, at a port.
    Fault {
        port: PortId,
        reason: DropReason,
        bytes: u64,
    },
    /// A transmission may start at a port.
    Serve(PortId),
}

impl Event {
    /// The port at which it happens.
    pub(crate) fn port(&self) -> PortId {
        match self {
            Event::Receive { port, .. } | Event::Fault { port, .. } | Event::Serve(port) => *port,
        }
    }
}
