//! Whose turn it is to send packets from the ingress buffers to a port.

use std::collections::BTreeSet;

use crate::limits::MAX_QUEUES;
use crate::port_id::PortId;
use crate::scheduler::{QueueSet, ids_from_highest};

/// One port on the side where packets go out.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The queues for which an input waits.
    pub(super) queues: QueueSet,
    /// The inputs whose first packet of a queue goes to this port.
    waiting: [BTreeSet<PortId>; MAX_QUEUES],
    /// The input whose turn it is in each queue.
    turn: [PortId; MAX_QUEUES],
}

impl Output {
    /// An input waits whose first packet of a queue goes here.
    pub(super) fn add(&mut self, id: usize, from: PortId) {
        self.waiting[id].insert(from);
        self.queues |= 1 << id;
    }

    /// An input waits no more.
    pub(super) fn remove(&mut self, id: usize, from: PortId) {
        self.waiting[id].remove(&from);
        if self.waiting[id].is_empty() {
            self.queues &= !(1 << id);
        }
    }

    /// The queues for which inputs wait, the highest first, each with the input whose turn it is.
    pub(super) fn turns(&self) -> impl Iterator<Item = (usize, PortId)> {
        ids_from_highest(self.queues).filter_map(|id| {
            let waiting = &self.waiting[id];
            let after = waiting.range(self.turn[id]..).next();
            Some((id, *after.or(waiting.first())?))
        })
    }

    /// An input has had its turn.
    pub(super) fn took_turn(&mut self, id: usize, from: PortId) {
        self.turn[id] = from.wrapping_add(1);
    }
}
