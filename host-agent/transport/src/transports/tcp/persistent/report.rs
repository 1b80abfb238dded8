//! Events and records of objects, and the state of the host that its connections share for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddrV4;

use ebb_units::Instant;

use super::Flow;
use super::arrivals::Incoming;
use super::outbox::Outgoing;
use crate::buffers::BufferPool;
use crate::record::{FlowRecord, Role, Status};
use crate::transport::{Event, FlowId};

/// State of the host that its connections share.
pub(crate) struct Shared<'a> {
    /// Name in the records.
    pub(crate) transport: &'static str,
    /// Events for the application.
    pub(crate) events: &'a mut VecDeque<Event>,
    /// Buffers for delivered bytes.
    pub(crate) buffers: &'a mut BufferPool,
    /// The connection of each object that has no end yet.
    pub(crate) carriers: &'a mut BTreeMap<FlowId, FlowId>,
    /// Name of the next flow or object.
    pub(crate) next_flow: &'a mut u64,
    /// Ports that accept objects.
    pub(crate) listening: &'a BTreeSet<u16>,
    /// The application confirms objects itself.
    pub(crate) holds: bool,
    /// Objects on all connections at most.
    pub(crate) max_objects: usize,
}

impl Shared<'_> {
    /// A name for an object that begins to arrive.
    pub(super) fn name(&mut self, carrier: FlowId) -> FlowId {
        let id = FlowId(*self.next_flow);
        *self.next_flow += 1;
        self.carriers.insert(id, carrier);
        id
    }

    /// Reports, once, that the peer of an object is there.
    pub(super) fn heard_of(&mut self, object: &mut Outgoing, flow: &Flow) {
        if !std::mem::replace(&mut object.heard, true) {
            self.heard(object.flow, flow);
        }
    }

    /// Reports that the peer of a flow is there.
    pub(super) fn heard(&mut self, id: FlowId, flow: &Flow) {
        self.events.push_back(Event::Heard {
            flow: id,
            peer: *flow.peer.ip(),
        });
    }

    /// Reports that the peer has taken an object.
    pub(super) fn finish_outgoing(&mut self, object: &Outgoing, flow: &Flow, now: Instant) {
        if !object.given_up {
            let at = object.finished_at(now);
            let record = self.sender_record(object, flow, at, Status::Finished);
            self.carriers.remove(&object.flow);
            self.events.push_back(Event::Finished {
                flow: object.flow,
                record,
            });
        }
    }

    /// Reports the failure of an object of ours, unless its end has been reported.
    pub(super) fn fail_outgoing(
        &mut self,
        object: &Outgoing,
        flow: &Flow,
        now: Instant,
        why: &str,
    ) {
        if !object.given_up {
            let failed = Status::Failed(why.to_owned());
            let record = self.sender_record(object, flow, now, failed);
            self.fail(object.flow, record);
        }
    }

    /// Reports that all of a peer's object has been delivered. It has no end before the
    /// application confirms it.
    pub(super) fn finish_incoming(&mut self, object: &Incoming, flow: &Flow, now: Instant) {
        let record = self.receiver_record(object, flow, now, Status::Finished);
        self.events.push_back(Event::Finished {
            flow: object.flow,
            record,
        });
    }

    /// Reports the failure of an object of the peer.
    pub(super) fn fail_incoming(
        &mut self,
        object: &Incoming,
        flow: &Flow,
        now: Instant,
        why: &str,
    ) {
        let failed = Status::Failed(why.to_owned());
        let record = self.receiver_record(object, flow, now, failed);
        self.fail(object.flow, record);
    }

    fn fail(&mut self, flow: FlowId, record: FlowRecord) {
        self.carriers.remove(&flow);
        self.events.push_back(Event::Failed { flow, record });
    }

    fn sender_record(
        &self,
        object: &Outgoing,
        flow: &Flow,
        finished: Instant,
        status: Status,
    ) -> FlowRecord {
        let statistics = flow.connection.statistics().since(&object.before);
        let mut record = flow.record_of(Role::Sender, statistics, self.transport, status);
        record.session = object.session;
        record.stream_bytes = object.source.len();
        record.set_times(object.started, finished);
        record
    }

    fn receiver_record(
        &self,
        object: &Incoming,
        flow: &Flow,
        finished: Instant,
        status: Status,
    ) -> FlowRecord {
        let statistics = flow.connection.statistics().since(&object.before);
        let mut record = flow.record_of(Role::Receiver, statistics, self.transport, status);
        record.local = SocketAddrV4::new(*flow.local.ip(), object.port);
        record.session = object.session;
        record.stream_bytes = object.received;
        record.set_times(object.started, finished);
        record
    }
}
