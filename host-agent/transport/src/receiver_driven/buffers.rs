//! Buffers for the bytes of a stream, which go round: from here to a session, as
//! [`Event::Delivered`](crate::Event::Delivered) to the application, and back.

/// Free buffers kept. What comes back beyond them is given to the allocator.
const MAX_FREE: usize = 256;

#[derive(Debug, Default)]
pub struct Buffers {
    free: Vec<Vec<u8>>,
    held_bytes: u64,
}

impl Buffers {
    /// A buffer of `len` bytes with any content.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// A buffer of `len` bytes with any content, which counts in [`held`](Self::held) until it is
    /// let go.
    pub fn hold(&mut self, len: usize) -> Vec<u8> {
        self.held_bytes += len as u64;
        self.take(len)
    }

    /// Notes that a buffer that is held has grown by this many bytes.
    pub fn grow(&mut self, bytes: usize) {
        self.held_bytes += bytes as u64;
    }

    /// A buffer of `len` bytes that was held is delivered or given back.
    pub fn let_go(&mut self, len: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(len as u64);
    }

    /// Bytes that all sessions of the host hold for order.
    pub fn held(&self) -> u64 {
        self.held_bytes
    }

    /// Takes back a buffer that nobody needs any more.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.free.len() < MAX_FREE && buffer.capacity() > 0 {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_given_back_is_taken_again() {
        let mut buffers = Buffers::default();
        let first = buffers.take(1000);
        let at = first.as_ptr();
        buffers.give(first);
        let again = buffers.take(900);
        assert_eq!((again.as_ptr(), again.len()), (at, 900));
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut buffers = Buffers::default();
        for _ in 0..2 * MAX_FREE {
            buffers.give(vec![0; 10]);
        }
        assert_eq!(buffers.free.len(), MAX_FREE);
    }
}
