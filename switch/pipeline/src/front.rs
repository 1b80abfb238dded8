//! Bytes in front of a frame, apart from it: metadata, which parsers of Tofino read, and the header that ingress has
//! put in front of the packet. So the frame stays where it is.
//!
//! ```text
//!  bytes  0 ───── start ─── METADATA_END ─── end ───── MOST
//!                   metadata            header
//! ```

/// Where metadata end and a header begins; as many bytes of metadata there are at most.
pub(crate) const METADATA_END: usize = 32;
/// The longest header that is kept apart from the frame, in bytes.
pub(crate) const MAX_HEADER: usize = 64;
const MOST: usize = METADATA_END + MAX_HEADER;

/// Bytes in front of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub bytes: [u8; MOST],
    /// Where the metadata begin.
    pub start: usize,
    /// Where the header ends.
    pub end: usize,
}

impl Default for Front {
    fn default() -> Front {
        Front {
            bytes: [0; MOST],
            start: METADATA_END,
            end: METADATA_END,
        }
    }
}

impl Front {
    /// Takes all bytes away.
    pub fn clear(&mut self) {
        (self.start, self.end) = (METADATA_END, METADATA_END);
    }

    /// The bytes.
    pub fn all(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How many bytes of a header there are.
    pub fn header_bytes(&self) -> usize {
        self.end - METADATA_END
    }

    /// How many bytes of metadata there are.
    pub fn metadata_bytes(&self) -> usize {
        METADATA_END - self.start
    }

    /// Room for so many bytes of metadata, at most as many as there can be: zeros.
    pub fn metadata(&mut self, bytes: usize) -> &mut [u8] {
        self.bytes[..METADATA_END].fill(0);
        self.start = METADATA_END - bytes;
        &mut self.bytes[self.start..METADATA_END]
    }
}
