//! Events of one node. Their order is that of the [`Agenda`](super::agenda::Agenda).

use crate::drops::DropReason;
use crate::switch::PortId;

/// What happens at a node.
#[derive(Debug)]
pub(crate) enum Event {
    /// The last bit of a frame arrives at a port.
    Receive { port: PortId, frame: Vec<u8> },
    /// A link from a host did something to a frame that was to arrive, or arrives, at a port.
    Fault {
        port: PortId,
        reason: DropReason,
        bytes: u64,
    },
    /// A transmission is due at a port.
    Serve(PortId),
}

impl Event {
    pub(crate) fn port(&self) -> PortId {
        match self {
            Event::Receive { port, .. } | Event::Fault { port, .. } | Event::Serve(port) => *port,
        }
    }
}
