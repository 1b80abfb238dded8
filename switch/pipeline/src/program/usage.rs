//! Words of a packet that a program reads and writes, as `follower.rs` finds them: which must be initialised before the
//! parser runs, as something may read them before they are written; which are written one by one, as the others of a
//! header are what the frame has; and which stay in the frame.

use crate::layout::Header;
use crate::slot::Place;

/// Words that a program reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// By word of the packet, whether it must be initialised.
    pub unset: Vec<bool>,
    /// By word of the packet, whether anything but an operation on a whole header writes it.
    pub stored: Vec<bool>,
    /// By word of the packet, whether anything reads it but checksums of its own header, the deparser, and operations
    /// on whole headers.
    pub read: Vec<bool>,
    /// By word of the packet, whether the parser leaves it in the frame, since only the deparser needs it.
    pub left: Vec<bool>,
    /// Whether the parser extracts just the headers that the deparser emits, each once and in that order.
    pub in_order: bool,
    /// Whether anything reads the times that a packet was in its queue.
    pub queueing_times: bool,
    /// By checksum to verify, whether it can be computed of the bytes in the frame.
    pub verified_in_frame: Vec<bool>,
    /// By checksum to update, whether it can be computed of the bytes of its header as they are written.
    pub updated_in_frame: Vec<bool>,
}

impl Usage {
    /// As if a program read and wrote all of so many words. The others: how many checksums it verifies and updates.
    pub(super) fn all_words(words: usize, verified: usize, updated: usize) -> Usage {
        Usage {
            unset: vec![true; words],
            stored: vec![true; words],
            read: vec![true; words],
            left: vec![false; words],
            in_order: false,
            queueing_times: true,
            verified_in_frame: vec![false; verified],
            updated_in_frame: vec![false; updated],
        }
    }

    /// Whether anything reads a field of the standard metadata.
    pub fn reads(&self, place: impl Into<Option<Place>>) -> bool {
        place
            .into()
            .is_some_and(|place| self.read[place.at as usize])
    }

    /// Notes the fields that stay in the frame.
    pub(super) fn leave(&mut self, headers: &[Header]) {
        for header in headers.iter().filter(|header| header.home_at.is_some()) {
            for piece in &header.pieces.pieces {
                let at = piece.at as usize;
                self.left[at] = !self.stored[at] && !self.read[at];
            }
        }
    }
}
