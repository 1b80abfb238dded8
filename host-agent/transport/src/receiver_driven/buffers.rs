//! Buffers for the bytes of a stream, which are recycled: they pass from here to a session, as
//! [`Event::Delivered`](crate::Event::Delivered) to the application, and back.

use crate::StreamBytes;

/// Zeros that are delivered without having been written.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Whether all bytes are zero. It stops at the first block with another byte, which usually is near the beginning.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<128>();
    let any = |block: &[u8]| block.iter().fold(0, |any, byte| any | byte);
    blocks.iter().all(|block| any(block) == 0) && any(rest) == 0
}

/// The first `len` bytes of a stream that consists of `content` and zeros after it, in pieces.
pub fn pieces(mut content: Vec<u8>, len: usize) -> impl Iterator<Item = StreamBytes> {
    content.truncate(len);
    let zeros = len - content.len();
    let lengths = (0..zeros).step_by(ZEROS.len());
    let lengths = lengths.map(move |at| ZEROS.len().min(zeros - at));
    let content = (!content.is_empty()).then_some(StreamBytes::Owned(content));
    let zeros = lengths.map(|len| StreamBytes::Borrowed(&ZEROS[..len]));
    content.into_iter().chain(zeros)
}

/// Most free buffers that are kept; others go back to the allocator.
const MAX_FREE: usize = 256;

#[derive(Debug, Default)]
pub struct Buffers {
    free: Vec<Vec<u8>>,
    /// Buffers that were taken and have not come back.
    taken: usize,
    /// Bytes in the reorder buffers of all sessions.
    held_bytes: u64,
}

impl Buffers {
    /// An empty buffer, with the memory of an old one if there is one.
    pub fn take(&mut self) -> Vec<u8> {
        self.taken += 1;
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Counts bytes that a session holds until those before them have arrived.
    pub fn hold(&mut self, bytes: usize) {
        self.held_bytes += bytes as u64;
    }

    /// Counts bytes that were held and are now delivered or given up.
    pub fn let_go(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes as u64);
    }

    /// Bytes that all sessions of the host hold until those before them have arrived.
    pub fn held(&self) -> u64 {
        self.held_bytes
    }

    /// Takes back a buffer that nobody needs any more. One that was not taken from here is not kept.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.taken > 0 && buffer.capacity() > 0 {
            self.taken -= 1;
            if self.free.len() < MAX_FREE {
                self.free.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_given_back_is_taken_again() {
        let mut buffers = Buffers::default();
        let mut first = buffers.take();
        first.resize(1000, 1);
        let at = first.as_ptr();
        buffers.give(first);
        let again = buffers.take();
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn zeros_behind_the_content_are_not_in_a_buffer() {
        let of = |content: &[u8], len| pieces(content.to_vec(), len).collect::<Vec<_>>();
        for len in [0, 1, 3, 4, 70_000, 200_000] {
            let stream = of(&[1, 2, 3], len);
            let mut expected = vec![0; len.max(3)];
            expected[..3].copy_from_slice(&[1, 2, 3]);
            expected.truncate(len);
            assert_eq!(stream.concat(), expected);
            let owned = |piece: &&StreamBytes| matches!(piece, StreamBytes::Owned(_));
            let owned: usize = stream.iter().filter(owned).map(|piece| piece.len()).sum();
            assert_eq!(owned, len.min(3));
        }
        assert_eq!(of(&[], 10), [StreamBytes::Borrowed(&[0; 10])]);
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut buffers = Buffers::default();
        for _ in 0..2 * MAX_FREE {
            buffers.take();
        }
        for _ in 0..2 * MAX_FREE {
            buffers.give(vec![0; 10]);
        }
        assert_eq!(buffers.free.len(), MAX_FREE);
    }

    #[test]
    fn what_was_not_taken_here_is_not_kept() {
        let mut buffers = Buffers::default();
        buffers.take();
        buffers.give(vec![0; 10]);
        buffers.give(vec![0; 10]);
        assert_eq!(buffers.free.len(), 1);
    }
}
