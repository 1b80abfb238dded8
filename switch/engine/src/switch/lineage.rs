//! How many packets a program can make of one that was received.
//!
//! [`MAX_PASSES`](super::MAX_PASSES) bounds how long a packet goes round, but one that makes two of itself in every
//! pass would be 2^64 by then. So all that descends from a received packet counts its copies together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Copies that may be made of a packet and its descendants after its first pass. Those of the first pass are as many as
/// the controller has configured, and each has this many.
pub const MAX_COPIES: u32 = 1024;

/// Copies made so far. Most packets never make any after their first pass, and need no memory for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage(Option<Arc<AtomicU32>>);

impl Lineage {
    /// Whether one more may be made; if so, it is counted. It belongs to the same lineage: clone this afterwards.
    pub(super) fn take_copy(&mut self) -> bool {
        // A lineage is in one switch, and that in one thread at a time: nothing is to be ordered.
        let made = self.0.get_or_insert_default();
        let before = made.load(Relaxed);
        let free = before < MAX_COPIES;
        if free {
            made.store(before + 1, Relaxed);
        }
        free
    }
}
