//! Coalescing of arrivals: the interrupt moderation of a NIC (`rx-frames` and `rx-usecs` of ethtool),
//! and the merging of the segments of a flow that one interrupt brings (LRO, GRO).

use ebb_units::{Duration, Instant};

use crate::merge::Merge;
use crate::params::NicParams;

/// Packets that arrived and wait to be handed over.
#[derive(Clone, Debug)]
pub struct Coalescer {
    /// Number of waiting packets at which they are handed over; 1 or less: none waits.
    most: usize,
    /// Longest time that a packet waits.
    patience: Duration,
    /// Time at which they are handed over at the latest. None: none waits.
    due: Option<Instant>,
    merge: Merge,
}

impl Coalescer {
    pub fn new(params: &NicParams) -> Self {
        Coalescer {
            most: params.coalesce_packets as usize,
            patience: params.coalesce(),
            due: None,
            merge: Merge::default(),
        }
    }

    /// A packet arrived. `deliver` gets the packets that need not wait any longer; a merged one has the
    /// place of its first.
    pub fn receive(&mut self, now: Instant, packet: &[u8], mut deliver: impl FnMut(&[u8])) {
        if self.most <= 1 {
            return deliver(packet);
        }
        self.release(now, &mut deliver);
        self.merge.take(packet);
        if self.merge.packets() >= self.most {
            self.due = None;
            self.merge.give(deliver);
        } else if self.due.is_none() {
            self.due = Some(now + self.patience);
        }
    }

    /// Hands over the packets if the first of them has waited long enough.
    pub fn release(&mut self, now: Instant, deliver: impl FnMut(&[u8])) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.merge.give(deliver);
        }
    }

    /// Time at which the packets are handed over if no other arrives. None: none waits.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}
