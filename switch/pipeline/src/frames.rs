//! Recycling of the memory of frames.

use crate::free_list::FreeList;

/// Longest frame of the short kind: the headers of a packet without payload, because most frames of
/// a transport are control packets.
const SHORT_BYTES: usize = 128;
/// Most memory that is kept of each kind. A thousand hosts with a window of 85 packets have this
/// much under way. If it were freed and allocated anew, its pages would have to be cleared again.
const KEPT_BYTES: usize = 128 << 20;
/// Frames of at least this length are not kept. They are longer than jumbo frames, as with
/// offloads, and later frames hardly ever need that.
const TOO_LONG_BYTES: usize = 10_000;

/// Free frames, to be used again. Short and long ones are kept apart, so that control packets do not
/// take the memory of full ones, which would spread them over many pages.
#[derive(Debug, Default)]
pub struct Frames {
    short: Kind,
    long: Kind,
}

/// The frames of one kind.
#[derive(Debug, Default)]
struct Kind {
    /// The frames.
    frames: FreeList<Vec<u8>>,
    /// Memory of all these frames in bytes.
    bytes: usize,
}

impl Frames {
    /// An empty frame with room for this many bytes.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (kind, least) = match bytes {
            0..=SHORT_BYTES => (&mut self.short, SHORT_BYTES),
            _ => (&mut self.long, bytes),
        };
        let mut frame = kind.frames.take().unwrap_or_default();
        kind.bytes -= frame.capacity();
        frame.clear();
        if frame.capacity() < bytes {
            // Growing the old frame would copy what it held.
            frame = Vec::with_capacity(least);
        }
        frame
    }

    /// Takes back a frame that is not needed any more.
    pub fn give(&mut self, frame: Vec<u8>) {
        let bytes = frame.capacity();
        let kind = match bytes {
            0..=SHORT_BYTES => &mut self.short,
            _ => &mut self.long,
        };
        if (1..TOO_LONG_BYTES).contains(&bytes) && kind.bytes + bytes <= KEPT_BYTES {
            kind.bytes += bytes;
            kind.frames.give(frame);
            if kind.frames.has_surplus() {
                for freed in kind.frames.surplus() {
                    kind.bytes -= freed.capacity();
                }
            }
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
        // A buffer that is too short for it is not grown.
        assert!(frames.take(1500).capacity() >= 1500);
        assert!(frames.take(10).capacity() >= SHORT_BYTES);
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut frames = Frames::default();
        frames.give(vec![0; 60_000]);
        assert_eq!(frames.long.frames.len(), 0);
        frames.long.bytes = KEPT_BYTES - 8192;
        for _ in 0..3 {
            frames.give(vec![0; 8192]);
        }
        frames.give(vec![0; 10]);
        assert_eq!(
            (frames.short.frames.len(), frames.long.frames.len()),
            (1, 1)
        );
    }

    #[test]
    fn the_bytes_are_those_of_the_frames() {
        let mut frames = Frames::default();
        for _ in 0..20_000 {
            frames.give(Vec::with_capacity(530));
        }
        // 20,000 are not too many bytes; but those that nobody needed are freed.
        assert!(frames.long.frames.len() <= 12_000);
        assert_eq!(frames.long.bytes, 530 * frames.long.frames.len());
        while frames.long.frames.len() > 0 {
            frames.take(530);
        }
        assert_eq!(frames.long.bytes, 0);
    }
}
