//! What a thread has read from its interfaces, and the memory for it.

use ebb_packet_io::{MAX_FRAME_BYTES, ReceiveBuffers};
use ebb_pipeline::Frames;
use ebb_units::Instant;

/// Frames per system call, where frames are read by system calls.
const BATCH: usize = 32;

pub(crate) struct Inbox {
    pub buffers: ReceiveBuffers,
    /// With the times of their arrival.
    pub frames: Vec<(Instant, Vec<u8>)>,
    /// That of the partition while frames are read and sent, and empty else: a switch that forwards
    /// allocates nothing.
    pub memory: Frames,
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            buffers: ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES),
            frames: Vec::new(),
            memory: Frames::default(),
        }
    }
}
