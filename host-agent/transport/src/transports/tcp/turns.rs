//! Turns of connections at the sender of a host.

use std::collections::VecDeque;

use ebb_nic::DscpSet;

use super::flow_table::FlowTable;
use crate::transport::FlowId;

/// Connections that may have something to send, each kind in the order of its turns.
pub(super) struct Turns {
    /// Connections that only acknowledge; these go first.
    control: VecDeque<FlowId>,
    /// Connections that send data.
    data: VecDeque<FlowId>,
    /// The sender with the fewest bytes left goes first, instead of each in its turn.
    shortest_first: bool,
}

/// One of the two kinds of turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Control,
    Data,
}

impl Turns {
    pub(super) fn new(shortest_first: bool) -> Self {
        Turns {
            control: VecDeque::new(),
            data: VecDeque::new(),
            shortest_first,
        }
    }

    fn of(&mut self, kind: Kind) -> &mut VecDeque<FlowId> {
        match kind {
            Kind::Control => &mut self.control,
            Kind::Data => &mut self.data,
        }
    }

    /// Connections of a kind.
    pub(super) fn len(&mut self, kind: Kind) -> usize {
        self.of(kind).len()
    }

    /// Gives a connection the last turn.
    pub(super) fn push(&mut self, kind: Kind, id: FlowId) {
        self.of(kind).push_back(id);
    }

    /// Gives a connection the next turn.
    pub(super) fn push_next(&mut self, kind: Kind, id: FlowId) {
        self.of(kind).push_front(id);
    }

    /// The connection whose turn it is; none if there is none, or, with shortest first, none of a
    /// class that is wanted.
    pub(super) fn pop(&mut self, kind: Kind, flows: &FlowTable, wanted: DscpSet) -> Option<FlowId> {
        if kind == Kind::Control || !self.shortest_first {
            return self.of(kind).pop_front();
        }
        let remaining = |(place, id): (usize, &FlowId)| {
            let flow = flows.get(*id);
            // One that has ended is cleared away.
            let is_wanted = flow.is_none_or(|flow| wanted.contains(flow.dscp));
            let bytes = flow.map_or(0, |flow| flow.connection.remaining_bytes());
            is_wanted.then_some((bytes, place))
        };
        // Among equals the one that has waited longest.
        let (_, place) = self.data.iter().enumerate().filter_map(remaining).min()?;
        self.data.remove(place)
    }
}
