//! Memory of frames that are gone, for those that come.

/// Long enough for all headers without payload: most frames of a transport are control packets.
const SHORT_BYTES: usize = 256;
/// More of a kind is not worth keeping.
const KEPT: usize = 8192;
/// Longer than a jumbo frame, as frames with offloads are: so many of them would be half a gigabyte.
const TOO_LONG_BYTES: usize = 10_000;

/// Frames to be used again, the last one first: it is still in the caches. Short and long ones are kept apart, so
/// that control packets take no memory of full ones, which would be spread over many pages.
#[derive(Debug, Default)]
pub struct Frames {
    short: Vec<Vec<u8>>,
    long: Vec<Vec<u8>>,
}

impl Frames {
    /// An empty frame with room for so many bytes.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (kind, least) = match bytes {
            0..=SHORT_BYTES => (&mut self.short, SHORT_BYTES),
            _ => (&mut self.long, bytes),
        };
        let mut frame = kind.pop().unwrap_or_default();
        frame.clear();
        if frame.capacity() < bytes {
            // Growing it would copy what it held.
            frame = Vec::with_capacity(least);
        }
        frame
    }

    pub fn give(&mut self, frame: Vec<u8>) {
        let kind = match frame.capacity() {
            0..=SHORT_BYTES => &mut self.short,
            _ => &mut self.long,
        };
        if (1..TOO_LONG_BYTES).contains(&frame.capacity()) && kind.len() < KEPT {
            kind.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_its_kind_comes_back_empty() {
        let mut frames = Frames::default();
        let (short, long) = (vec![1; 60], vec![2; 1514]);
        let places = (short.as_ptr(), long.as_ptr());
        frames.give(vec![3; 1400]);
        frames.give(long);
        frames.give(short);
        let again = [frames.take(60), frames.take(1514)];
        assert_eq!((again[0].as_ptr(), again[1].as_ptr()), places);
        assert!(again.iter().all(Vec::is_empty));
        // What is too short for it is not grown.
        assert!(frames.take(1500).capacity() >= 1500);
        assert!(frames.take(10).capacity() >= SHORT_BYTES);
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut frames = Frames::default();
        for _ in 0..2 * KEPT {
            frames.give(vec![0; 10]);
        }
        frames.give(vec![0; 60_000]);
        assert_eq!((frames.short.len(), frames.long.len()), (KEPT, 0));
    }
}
