//! Objects over persistent connections, as an endpoint chooses, opens and leaves them.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::Instant;

use super::super::connection::Connection;
use super::super::endpoint::TcpEndpoint;
use super::{Flow, Outgoing, PersistentConnection, Shared};
use crate::record::{FlowRecord, Role, Status};
use crate::transport::{Event, FlowId, SendError, Via};

impl TcpEndpoint {
    /// Has `act` see what a connection carries, together with all that it needs.
    pub(in super::super) fn with_persistent<T>(
        &mut self,
        id: FlowId,
        act: impl FnOnce(&mut PersistentConnection, &mut Flow, &mut Shared<'_>) -> T,
    ) -> Option<T> {
        let flow = self.flows.get_mut(id)?;
        let mut objects = flow.persistent.take()?;
        let mut shared = Shared {
            transport: self.transport,
            events: &mut self.events,
            buffers: &mut self.buffers,
            carriers: &mut self.carriers,
            next_flow: &mut self.next_flow,
            listening: self.listener.ports(),
            holds: self.holds,
            max_objects: self.params.max_flows,
        };
        let result = act(&mut objects, flow, &mut shared);
        flow.persistent = Some(objects);
        Some(result)
    }

    /// Reports events of a connection. One that takes no more objects leaves the pool, and
    /// what it cannot carry any more goes to another.
    pub(in super::super) fn report_persistent(&mut self, now: Instant, id: FlowId) {
        let reported = self.with_persistent(id, |objects, flow, shared| {
            objects.report(now, flow, shared);
            let leaves = (!objects.is_usable()).then_some((*flow.peer.ip(), objects.dscp));
            (leaves, objects.take_moved())
        });
        let Some((leaves, moved)) = reported else {
            return;
        };
        if let Some((peer, dscp)) = leaves {
            self.pool.remove(peer, dscp, id);
        }
        for mut object in moved {
            // Over whichever connection there is now, since its own is gone.
            if object.via.answered().is_some() {
                object.via = Via::Any;
            }
            self.carriers.remove(&object.flow);
            match self.connection_for(now, &object) {
                Ok(id) => self.place(now, object, id),
                Err(error) => self.fail_unplaced(now, &object, &error),
            }
        }
    }

    fn fail_unplaced(&mut self, now: Instant, object: &Outgoing, error: &SendError) {
        let local = SocketAddrV4::new(self.host.address, 0);
        let failed = Status::Failed(error.to_string());
        let mut record = FlowRecord::new(Role::Sender, self.transport, local, object.to, failed);
        record.stream_bytes = object.source.len();
        record.set_times(object.started, now);
        self.events.push_back(Event::Failed {
            flow: object.flow,
            record,
        });
    }

    /// The connection that something came over from `peer`, if it takes objects of this class.
    pub(in super::super) fn connection_from(&self, peer: SocketAddrV4, dscp: u8) -> Option<FlowId> {
        let opened = self.pool.opened(*peer.ip(), dscp).map(|(_, id)| id);
        let accepted = self.pool.accepted(*peer.ip(), dscp).iter().copied();
        let mut all = accepted.chain(opened);
        all.find(|id| self.flows.get(*id).is_some_and(|flow| flow.peer == peer))
    }

    /// The connection for an object; it may have to be opened.
    pub(in super::super) fn connection_for(
        &mut self,
        now: Instant,
        object: &Outgoing,
    ) -> Result<FlowId, SendError> {
        match self.choose(object)? {
            Choice::Existing(id) => Ok(id),
            Choice::Open(number) => self.open(now, number, object),
        }
    }

    /// Puts an object on a connection.
    pub(in super::super) fn place(&mut self, now: Instant, object: Outgoing, id: FlowId) {
        self.carriers.insert(object.flow, id);
        self.with_persistent(id, |objects, flow, shared| {
            objects.enqueue(object, flow, shared)
        });
        self.after_input(now, id);
    }

    fn choose(&self, object: &Outgoing) -> Result<Choice, SendError> {
        let (peer, dscp) = (*object.to.ip(), object.dscp);
        let limit = self.params.max_connections_per_peer;
        match object.via {
            Via::From(address) | Via::FromStranger(address) => {
                if let Some(id) = self.connection_from(address, dscp) {
                    return Ok(Choice::Existing(id));
                }
            }
            Via::Number(number) if number >= limit => {
                return Err(SendError::NoSuchConnection { number, limit });
            }
            Via::Number(number) => {
                let existing = self.pool.numbered(peer, dscp, number);
                return Ok(existing.map_or(Choice::Open(number), Choice::Existing));
            }
            Via::Any => {}
        }
        // The one with the least to do, in both directions: an answer waits for what is on its way
        // back. A new one if all have something to do.
        let load = |id: &FlowId| {
            let flow = self.flows.get(*id);
            let objects = flow.and_then(|flow| flow.persistent.as_ref());
            objects.map_or(usize::MAX, |objects| objects.load())
        };
        let least = self.pool.opened(peer, dscp);
        let least = least.map(|(_, id)| (load(&id), id)).min();
        let mut numbers = 0..limit;
        let taken = |number: &u32| self.pool.numbered(peer, dscp, *number).is_some();
        match least {
            Some((0, id)) => Ok(Choice::Existing(id)),
            Some((_, id)) => Ok(numbers
                .find(|number| !taken(number))
                .map_or(Choice::Existing(id), Choice::Open)),
            None => Ok(Choice::Open(0)),
        }
    }

    fn open(&mut self, now: Instant, number: u32, object: &Outgoing) -> Result<FlowId, SendError> {
        let port = self.port_for(object.source_port, object.to)?;
        let iss = rand::Rng::random(&mut self.rng);
        let algorithm = self.algorithm_for(object.dscp);
        let nothing = Arc::new(Vec::new());
        let params = self.params.clone();
        let mut connection = Connection::connect(params, algorithm, nothing, iss);
        connection.offer_to_stay_open();
        if object.via.is_to_stranger() {
            connection.distrust_peer();
        }
        let local = SocketAddrV4::new(self.host.address, port);
        let mut flow = Flow::new(Role::Sender, local, object.to, connection, iss, now);
        flow.dscp = object.dscp;
        let keep_open = self.params.keep_open();
        flow.persistent = Some(Box::new(PersistentConnection::new(
            true,
            object.dscp,
            keep_open,
        )));
        let id = self.insert(now, flow);
        let peer = *object.to.ip();
        self.pool.add(peer, object.dscp, Some(number), id);
        Ok(id)
    }
}

/// Where an object goes.
enum Choice {
    Existing(FlowId),
    /// A connection of this number, which is not open.
    Open(u32),
}
