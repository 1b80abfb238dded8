//! What a thread has read from its interfaces, and the memory for it.

use ebb_packet_io::{MAX_FRAME_BYTES, ReceiveBuffers};
use ebb_units::Instant;

/// Frames per system call, where frames are read by system calls.
const BATCH: usize = 32;
/// Memory of so many frames is kept for others.
const MAX_SPARE: usize = 1024;
/// Longer ones are not kept: they may have been copied from a jumbo frame.
const MAX_SPARE_BYTES: usize = 2048;

pub(super) struct Inbox {
    pub buffers: ReceiveBuffers,
    /// With the times of their arrival.
    pub frames: Vec<(Instant, Vec<u8>)>,
    pub memory: FrameMemory,
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            buffers: ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES),
            frames: Vec::new(),
            memory: FrameMemory::default(),
        }
    }
}

/// Memory of frames that have been sent, for those that arrive: a switch that forwards allocates
/// nothing.
#[derive(Default)]
pub(super) struct FrameMemory(Vec<Vec<u8>>);

impl FrameMemory {
    pub fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let Some(mut memory) = self.0.pop() else {
            let mut memory = Vec::with_capacity(MAX_SPARE_BYTES.max(frame.len()));
            memory.extend_from_slice(frame);
            return memory;
        };
        memory.clear();
        memory.extend_from_slice(frame);
        memory
    }

    pub fn give_back(&mut self, frames: impl Iterator<Item = Vec<u8>>) {
        let room = MAX_SPARE - self.0.len().min(MAX_SPARE);
        let usual = frames.filter(|frame| frame.capacity() <= MAX_SPARE_BYTES);
        self.0.extend(usual.take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_comes_back_is_used_again_and_long_memory_is_not_kept() {
        let mut memory = FrameMemory::default();
        let frame = memory.copy(&[1; 1500]);
        let place = frame.as_ptr();
        memory.give_back([frame, vec![0; 9000]].into_iter());
        let again = memory.copy(&[2; 60]);
        assert_eq!((again.as_ptr(), again.as_slice()), (place, &[2; 60][..]));
        let long = memory.copy(&[3; 60]);
        assert_ne!(long.as_ptr(), place);
        memory.give_back((0..2 * MAX_SPARE).map(|_| Vec::with_capacity(1)));
        assert_eq!(memory.0.len(), MAX_SPARE);
    }
}
