//! Arrivals, handed over together: the moderated interrupts of a NIC (`rx-frames` and `rx-usecs`
//! of ethtool) and, of what one brings, segments of a flow as one (LRO, GRO).

use ebb_units::{Duration, Instant};

use crate::merge::Merge;
use crate::params::NicParams;

/// Packets that arrived and wait to be handed over.
#[derive(Clone, Debug)]
pub struct Coalescer {
    /// Number of packets that are handed over at once; 1 or less: none waits.
    most: usize,
    /// How long the first of them waits.
    patience: Duration,
    /// When they are handed over at the latest. None: none waits.
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

    /// A packet arrived. `deliver` gets those that need not wait, in the order of the first packet
    /// in each.
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

    /// Hands over what has waited long enough.
    pub fn release(&mut self, now: Instant, deliver: impl FnMut(&[u8])) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.merge.give(deliver);
        }
    }

    /// When packets are handed over although no other arrives. None: none waits.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}
