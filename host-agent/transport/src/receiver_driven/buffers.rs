//! Buffers for the bytes of a stream, which go round: from here to a session, as
//! [`Event::Delivered`](crate::Event::Delivered) to the application, and back.

/// Free buffers kept. What comes back beyond them is given to the allocator.
const MAX_FREE: usize = 256;

#[derive(Debug, Default)]
pub struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer of `len` bytes, whatever they are.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
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
