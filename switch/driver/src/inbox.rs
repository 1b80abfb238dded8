//! Frames that a thread has read from its interfaces, and memory for them.

use ebb_packet_io::{MAX_FRAME_BYTES, ReceiveBuffers};
use ebb_pipeline::Frames;
use ebb_units::Instant;

/// Frames per system call, where frames are read without a mapped ring.
const BATCH: usize = 32;

/// Filled by [`Interface::read`](crate::interface::Interface::read), emptied into the partition.
pub(crate) struct Inbox {
    /// Memory for frames that are read by system calls.
    pub buffers: ReceiveBuffers,
    /// The frames with the times of their arrival, oldest first.
    pub frames: Vec<(Instant, Vec<u8>)>,
    /// The frame memory of the partition while frames are read or sent, empty at all other times.
    /// Thus a switch that forwards allocates nothing.
    pub memory: Frames,
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Self {
        Self {
            buffers: ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES),
            frames: Vec::new(),
            memory: Frames::default(),
        }
    }
}
