//! The flow association table (HULL 5.1: 64 entries).

use ebb_units::Instant;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    flow: K,
    until: Instant,
    /// Packets of the flow that the pacer holds. The flow stays associated until they have left: packets
    /// that overtook them would look like losses to the receiver.
    queued: u32,
}

/// Which flows are paced.
#[derive(Debug)]
pub(super) struct AssociationTable<K> {
    entries: Vec<Entry<K>>,
    capacity: usize,
}

impl<K: Copy + Eq> AssociationTable<K> {
    pub(super) fn new(capacity: usize) -> Self {
        AssociationTable {
            entries: Vec::with_capacity(capacity.min(1024)),
            capacity,
        }
    }

    fn expire(&mut self, now: Instant) {
        self.entries
            .retain(|entry| entry.until > now || entry.queued > 0);
    }

    fn find(&mut self, flow: K) -> Option<&mut Entry<K>> {
        self.entries.iter_mut().find(|entry| entry.flow == flow)
    }

    pub(super) fn contains(&mut self, now: Instant, flow: K) -> bool {
        self.expire(now);
        self.find(flow).is_some()
    }

    /// Enters or renews `flow`. Returns false if the table is full.
    pub(super) fn associate(&mut self, now: Instant, flow: K, until: Instant) -> bool {
        self.expire(now);
        if let Some(entry) = self.find(flow) {
            entry.until = until;
            return true;
        }
        if self.entries.len() >= self.capacity {
            return false;
        }
        self.entries.push(Entry {
            flow,
            until,
            queued: 0,
        });
        true
    }

    /// Packets of `flow` that the pacer holds.
    pub(super) fn queued(&self, flow: K) -> u32 {
        let entry = self.entries.iter().find(|entry| entry.flow == flow);
        entry.map_or(0, |entry| entry.queued)
    }

    pub(super) fn on_queued(&mut self, flow: K) {
        if let Some(entry) = self.find(flow) {
            entry.queued += 1;
        }
    }

    pub(super) fn on_departed(&mut self, flow: K) {
        if let Some(entry) = self.find(flow) {
            entry.queued = entry.queued.saturating_sub(1);
        }
    }
}
