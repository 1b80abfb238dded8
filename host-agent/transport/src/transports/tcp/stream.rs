//! Send buffer of a connection: pieces, one after another, as long as they may have to be sent again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::object::ObjectSource;

/// The bytes of a connection in one direction; offsets count from 0.
#[derive(Default)]
pub(crate) struct Stream {
    /// Each with the offset at which it begins; none is empty.
    pieces: VecDeque<(u64, Arc<dyn ObjectSource>)>,
    bytes: u64,
}

impl Stream {
    pub(crate) fn of(source: Arc<dyn ObjectSource>) -> Self {
        let mut stream = Stream::default();
        stream.append(source);
        stream
    }

    /// Bytes appended so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn append(&mut self, source: Arc<dyn ObjectSource>) {
        let bytes = source.len();
        if bytes > 0 {
            self.pieces.push_back((self.bytes, source));
            self.bytes += bytes;
        }
    }

    /// Fills `buffer` with the bytes from `offset` on, which have not been forgotten.
    pub(crate) fn read_at(&self, mut offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut index = self.pieces.partition_point(|(begin, _)| *begin <= offset);
        let mut rest = buffer;
        while !rest.is_empty() {
            let piece = index.checked_sub(1).and_then(|last| self.pieces.get(last));
            let Some((begin, source)) = piece else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let at = offset - begin;
            let here = source.len().saturating_sub(at).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(here as usize);
            if !now.is_empty() {
                source.read_at(at, now)?;
            }
            (rest, offset, index) = (later, offset + here, index + 1);
        }
        Ok(())
    }

    /// Frees the data before `offset`, which will not be read again.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        while let Some((begin, source)) = self.pieces.front()
            && begin + source.len() <= offset
        {
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_as_one_until_they_are_forgotten() {
        let mut stream = Stream::of(Arc::new(vec![0, 1, 2]));
        stream.append(Arc::new(Vec::new()));
        stream.append(Arc::new(vec![3]));
        stream.append(Arc::new(vec![4, 5, 6, 7]));
        assert_eq!(stream.bytes(), 8);
        for from in 0..8 {
            for to in from..=8 {
                let mut bytes = vec![0; to - from];
                stream.read_at(from as u64, &mut bytes).unwrap();
                let expected: Vec<u8> = (from as u8..to as u8).collect();
                assert_eq!(bytes, expected);
            }
        }
        stream.forget_before(3);
        assert_eq!(stream.pieces.len(), 2);
        let mut bytes = [0; 5];
        stream.read_at(3, &mut bytes).unwrap();
        assert_eq!(bytes, [3, 4, 5, 6, 7]);
        assert!(stream.read_at(2, &mut bytes).is_err());
        assert!(stream.read_at(4, &mut bytes).is_err(), "beyond the end");
    }
}
