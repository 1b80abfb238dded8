//! Bounds how many packets a program can make of one that was received.
//!
//! [`MAX_PASSES`](super::MAX_PASSES) bounds how long a packet goes round. But one that makes two of
//! itself in every pass could become 2^64 packets by then. So all descendants of a received packet
//! count their copies together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Copies that may be made of a packet and its descendants after its first pass. The copies of the
/// first pass are as many as the controller has configured, and each of them may have this many.
pub const MAX_COPIES: u32 = 1024;

/// The copies made so far, shared by all descendants. Most packets make none after their first
/// pass, and need no memory for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage(Option<Arc<AtomicU32>>);

impl Lineage {
    /// Counts one more copy, or returns false if there were too many. The copy belongs to the same
    /// lineage, so clone this afterwards.
    pub(super) fn take_copy(&mut self) -> bool {
        // A lineage stays in one switch, which runs in one thread at a time, so nothing needs
        // ordering.
        let made = self.0.get_or_insert_default();
        let before = made.load(Relaxed);
        let free = before < MAX_COPIES;
        if free {
            made.store(before + 1, Relaxed);
        }
        free
    }
}
