//! Packets as they are offered to a port and as they leave it.

use ebb_units::Instant;

use crate::depth::Depth;
use crate::port_id::PortId;
use crate::statistics::DropReason;

/// A packet that is offered: all that the port must know about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Port on which the packet came in, for flow control and the ingress stage.
    pub ingress_port: PortId,
    /// Value of v1model's `standard_metadata.priority` or Tofino's `qid`; its five low bits count.
    pub queue: u8,
    /// Length of the packet in bytes.
    pub len: u64,
    /// How often the packet has been deflected. After
    /// [`MAX_DEFLECTIONS`](crate::MAX_DEFLECTIONS) times it is dropped instead.
    pub deflections: u8,
    /// In a queue with ranks the packet of the least rank leaves first; elsewhere it means nothing.
    pub rank: u32,
    /// Number of the packet's flow, whose packets leave a queue with ranks in order of arrival.
    pub flow: u32,
}

/// Fate of a packet that was offered to a queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet that was not queued is handed back"]
pub enum Admission<P> {
    /// It waits in its queue.
    Enqueued {
        /// Depth without the packet.
        depth: Depth,
    },
    /// Its queue is full and hands it back for another pass through ingress.
    Deflected {
        /// The packet.
        packet: P,
        /// Depth of its queue.
        depth: Depth,
    },
    /// It is handed back to be discarded.
    Dropped {
        /// The packet.
        packet: P,
        /// Why it has no place.
        reason: DropReason,
    },
}

/// A packet whose transmission starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet.
    pub packet: P,
    /// Id of the queue it comes from, 0 to 31.
    pub queue: u8,
    /// Port on which it came in.
    pub ingress_port: PortId,
    /// When it was queued, in an ingress buffer or here.
    pub enqueued_at: Instant,
    /// When the transmission starts; this may be before the time of the call.
    pub start: Instant,
    /// Depth of its queue when the packet came (v1model's `enq_qdepth`).
    pub depth_at_enqueue: Depth,
    /// Depth of its queue without the packet, as it leaves (v1model's `deq_qdepth`).
    pub depth_at_dequeue: Depth,
    /// Length in bytes at the time it was queued.
    pub len: u64,
}
