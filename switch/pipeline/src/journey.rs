//! The way of a packet through a switch, across its passes. The switch writes and reads it; the
//! pipeline only carries it, so that a packet that waits is one thing.
//!
//! A bound of passes bounds how long a packet goes round. But one that makes two of itself in every
//! pass could become 2^64 packets by then. So all descendants of a received packet count their
//! copies together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Copies that may be made of a packet and its descendants after its first pass. The copies of the
/// first pass are as many as the controller has configured, and each of them may have this many.
pub const MAX_COPIES: u32 = 1024;

/// The way of a packet, across its passes.
#[derive(Clone, Debug, Default)]
pub struct Journey {
    /// Its number, counted from 1 in the order of arrival at the switch; copies share it.
    pub packet_id: u64,
    /// The copies made of it and its relatives.
    pub lineage: Lineage,
    /// The port it came in at.
    pub ingress_port: u16,
    /// v1model's `egress_rid`: the number of the copy, 0 if it is none.
    pub egress_rid: u16,
    /// Whether it is a replica of another packet, or was one in a pass before.
    pub is_replica: bool,
    /// Passes it owes to resubmission, recirculation, cloning and deflection.
    pub passes: u8,
    /// How often it has been deflected; a recirculation starts anew.
    pub deflections: u8,
    /// The watches that trace it: bit i is the watch in slot i.
    pub watches: u8,
}

impl Journey {
    /// The way of this packet, or of a copy, in its next pass.
    pub fn next_pass(self) -> Self {
        Self {
            egress_rid: 0,
            passes: self.passes + 1,
            ..self
        }
    }

    /// Whether another copy of this packet may be made. If so, it is counted.
    pub fn may_copy(&mut self) -> bool {
        self.passes == 0 || self.lineage.take_copy()
    }
}

/// The copies made so far, shared by all descendants. Most packets make none after their first
/// pass, and need no memory for it.
#[derive(Clone, Debug, Default)]
pub struct Lineage(Option<Arc<AtomicU32>>);

impl Lineage {
    /// Counts one more copy, or returns false if there were too many. The copy belongs to the same
    /// lineage, so clone this afterwards.
    fn take_copy(&mut self) -> bool {
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
