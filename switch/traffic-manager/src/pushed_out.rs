//! Packets that gave way to others.

use crate::port_id::PortId;
use crate::queue::Item;

/// A packet that waited and gave way to one that matters more. It is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct PushedOut<P> {
    /// The packet.
    pub packet: P,
    /// The port that it waited for.
    pub port: PortId,
    /// Id of the queue that it waited in or for, 0 to 31.
    pub queue: u8,
    /// Port on which it came in.
    pub ingress_port: PortId,
    /// Its length in bytes.
    pub len: u64,
    /// It goes back to the ingress pipeline; otherwise it is dropped.
    pub deflected: bool,
}

impl<P> PushedOut<P> {
    /// A packet that waited in or for a queue of a port.
    pub(crate) fn new(port: PortId, queue: usize, item: Item<P>, deflected: bool) -> Self {
        Self {
            port,
            queue: queue as u8,
            ingress_port: item.ingress_port,
            len: item.len(),
            packet: item.packet,
            deflected,
        }
    }
}
