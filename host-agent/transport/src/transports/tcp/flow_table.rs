//! The connections of a host: by name, by address, and by deadline.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use ebb_units::Instant;

use super::persistent::Flow;
use crate::timers::Timers;
use crate::transport::FlowId;

/// All connections of a host.
#[derive(Default)]
pub(super) struct FlowTable {
    /// Connections; one that carries one object has the name of its flow.
    flows: BTreeMap<FlowId, Flow>,
    /// Connections by own port and peer.
    by_address: BTreeMap<(u16, SocketAddrV4), FlowId>,
    /// Their deadlines.
    timers: Timers<FlowId>,
}

impl FlowTable {
    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(&id)
    }

    /// All connections, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.flows.iter().map(|(id, flow)| (*id, flow))
    }

    /// The connection from a port of this host to a peer.
    pub(super) fn find(&self, port: u16, peer: SocketAddrV4) -> Option<FlowId> {
        self.by_address.get(&(port, peer)).copied()
    }

    /// Own ports of all connections, in order.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.by_address.keys().map(|(port, _)| *port)
    }

    /// Adds a connection, without a deadline yet.
    pub(super) fn insert(&mut self, id: FlowId, mut flow: Flow) {
        flow.id = id;
        flow.timer_slot = self.timers.open_slot();
        self.by_address.insert((flow.local.port(), flow.peer), id);
        self.flows.insert(id, flow);
    }

    pub(super) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        self.by_address.remove(&(flow.local.port(), flow.peer));
        self.timers.close_slot(flow.timer_slot);
        Some(flow)
    }

    /// Notes the deadline of a connection, after anything that may have changed it.
    pub(super) fn refresh_deadline(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get(&id) {
            let deadline = flow.next_deadline();
            self.timers.set(flow.timer_slot, id, deadline);
        }
    }

    /// The earliest deadline and its connection.
    pub(super) fn first_deadline(&self) -> Option<(Instant, FlowId)> {
        self.timers.first()
    }
}
