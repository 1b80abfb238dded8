//! A pool of buffers, which are recycled instead of being allocated for every packet.

/// Most buffers that are kept, so that the memory of a burst is not kept for ever.
const MAX_BUFFERS: usize = 256;
/// Greatest capacity of a buffer that is kept.
const MAX_CAPACITY_BYTES: usize = 64 << 10;

/// Empty buffers, ready to be filled.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    buffers: Vec<Vec<u8>>,
}

impl BufferPool {
    /// An empty buffer, with storage if there is one.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes a buffer back; its content is discarded.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let useful = buffer.capacity() > 0 && buffer.capacity() <= MAX_CAPACITY_BYTES;
        if useful && self.buffers.len() < MAX_BUFFERS {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_goes_round_and_is_bounded() {
        let mut pool = BufferPool::default();
        assert_eq!(pool.take().capacity(), 0);
        pool.put(vec![1; 1500]);
        let buffer = pool.take();
        assert!(buffer.is_empty() && buffer.capacity() >= 1500);
        pool.put(Vec::new());
        pool.put(vec![0; MAX_CAPACITY_BYTES + 1]);
        assert!(pool.buffers.is_empty());
        for _ in 0..2 * MAX_BUFFERS {
            pool.put(vec![0; 10]);
        }
        assert_eq!(pool.buffers.len(), MAX_BUFFERS);
    }
}
