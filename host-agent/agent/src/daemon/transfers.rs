//! What clients have asked for, and how it ends.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebb_transport::object::{Envelope, EnvelopeHeader};
use ebb_transport::{FetchRequest, FlowId, FlowRecord, Refusal, Scheme, Status, Transport};
use ebb_units::Instant;

use super::clients::ClientId;
use super::sinks::{Backlog, SinkId};
use crate::api::message::{Ending, Event, Fetch, Host, Into, Send};
use crate::objects::Existing;
use crate::record::flow_fields;

use super::service::Service;

/// Numbers of transfers and listeners are those of the API, unique per daemon.
pub type TransferId = u64;

/// A transfer of a client. It ends with the last of its flows.
pub struct Transfer {
    /// `None`: it has gone, and nobody wants to know.
    pub client: Option<ClientId>,
    pub scheme: Scheme,
    pub progress: bool,
    pub flows: BTreeSet<FlowId>,
    /// The first thing that went wrong.
    pub failure: Option<String>,
    pub kind: Kind,
}

pub enum Kind {
    /// Its object is being prepared, or its time has not come.
    Waiting(Box<Waiting>),
    Send,
    /// Another host asked for the object.
    Serve {
        peer: Ipv4Addr,
    },
    Receive,
    Fetch(Fetching),
}

/// A request that cannot be answered yet.
pub struct Waiting {
    pub request: u64,
    pub cancelled: Arc<AtomicBool>,
    pub what: Wanted,
    pub envelope: Option<Arc<Envelope>>,
}

pub enum Wanted {
    Send(Send),
    Offer,
    Fetch(Fetch, super::sink::Target),
    Serve(FetchRequest, SocketAddrV4),
}

impl Wanted {
    /// Who asked, if it was another host.
    pub fn asker(&self) -> Option<Ipv4Addr> {
        match self {
            Wanted::Serve(_, to) => Some(*to.ip()),
            _ => None,
        }
    }
}

pub struct Fetching {
    pub name: String,
    pub from: Vec<Host>,
    pub reply_port: u16,
    /// What is expected of several servers. It goes on without those that do not send.
    pub expected: Option<FlowId>,
    /// Requests that have not been confirmed.
    pub requests: BTreeSet<FlowId>,
    /// Where the content goes, until a flow brings it.
    pub target: Option<super::sink::Target>,
    /// Something has arrived.
    pub answered: bool,
}

/// A flow that is open.
pub enum Flow {
    Outgoing(Outgoing),
    /// A request of ours, or our answer that there is no object: not reported.
    Message {
        transfer: Option<TransferId>,
        peer: Ipv4Addr,
    },
    Incoming(Box<Incoming>),
}

pub struct Outgoing {
    pub transfer: TransferId,
    pub header: EnvelopeHeader,
    pub peer: SocketAddrV4,
    /// The peer has answered.
    pub heard: bool,
}

pub struct Incoming {
    /// `None`: nobody has asked for what comes to this port.
    pub transfer: Option<TransferId>,
    /// Of the listener that it came to.
    pub listener: Option<u64>,
    pub peer: SocketAddrV4,
    pub local_port: u16,
    pub stage: Stage,
    /// Bytes of the stream so far.
    pub received: u64,
}

pub enum Stage {
    /// The first bytes, which do not say yet what it is.
    Head(Vec<u8>),
    Object(Receiving),
    /// An object that nobody takes, and why; its sender is told.
    Refused(EnvelopeHeader, String),
    Request(FetchRequest),
    Refusal(Refusal),
}

pub struct Receiving {
    pub header: EnvelopeHeader,
    pub sink: SinkId,
    pub backlog: Arc<Backlog>,
    pub undecided: bool,
    /// Everything has been delivered; what is left is to write it.
    pub delivered: Option<Box<FlowRecord>>,
}

/// A port that a client listens on.
pub struct Listener {
    pub client: ClientId,
    pub scheme: Scheme,
    pub port: u16,
    pub into: Into,
    pub directory: Option<Arc<std::os::fd::OwnedFd>>,
    pub existing: Existing,
    pub announce: bool,
    pub progress: bool,
}

impl Service {
    pub(super) fn new_transfer(
        &mut self,
        client: Option<ClientId>,
        scheme: Scheme,
        progress: bool,
        kind: Kind,
    ) -> TransferId {
        let id = self.next_id();
        self.transfers.insert(
            id,
            Transfer {
                client,
                scheme,
                progress,
                flows: BTreeSet::new(),
                failure: None,
                kind,
            },
        );
        if progress {
            self.want_progress();
        }
        id
    }

    pub(super) fn tell(&self, client: Option<ClientId>, event: &Event) {
        if let Some(outbox) = client.and_then(|client| self.clients.get(&client)) {
            outbox.send(event);
        }
    }

    /// A flow has ended: tells it, and ends the transfer with its last flow.
    pub(super) fn flow_ended(
        &mut self,
        transfer: Option<TransferId>,
        (scheme, flow): (Scheme, FlowId),
        header: Option<&EnvelopeHeader>,
        sha256_ok: Option<bool>,
        record: &FlowRecord,
    ) {
        let counts = self.counts.entry(scheme).or_default();
        match &record.status {
            Status::Finished => counts.flows_finished += 1,
            Status::Failed(_) => counts.flows_failed += 1,
        }
        let Some(id) = transfer else { return };
        let Some(open) = self.transfers.get_mut(&id) else {
            return;
        };
        open.flows.remove(&flow);
        if let Status::Failed(reason) = &record.status {
            open.failure.get_or_insert_with(|| reason.clone());
        }
        let client = open.client;
        let event = Event::Flow {
            transfer: id,
            record: flow_fields(header, sha256_ok, record),
        };
        self.tell(client, &event);
        self.end_if_done(id);
    }

    /// Ends the transfer if nothing of it is open any more.
    pub(super) fn end_if_done(&mut self, id: TransferId) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        let waits = match &transfer.kind {
            Kind::Waiting(_) => true,
            Kind::Fetch(fetching) => {
                // What came from several servers is complete without one that never answers.
                let asking = fetching.expected.is_none() && !fetching.requests.is_empty();
                transfer.failure.is_none() && (fetching.target.is_some() || asking)
            }
            Kind::Send | Kind::Serve { .. } | Kind::Receive => false,
        };
        if waits || !transfer.flows.is_empty() {
            return;
        }
        if let Some(transfer) = self.transfers.remove(&id) {
            if let Kind::Fetch(fetching) = &transfer.kind {
                self.reply_ports
                    .remove(&(transfer.scheme, fetching.reply_port));
            }
            let ending = match transfer.failure {
                None => Ending::Finished,
                Some(reason) => Ending::Failed(reason),
            };
            let event = Event::End {
                transfer: id,
                ending,
            };
            self.tell(transfer.client, &event);
        }
    }

    /// Gives up all flows of a transfer of `scheme`, whose transport this is.
    pub(super) fn abort_transfer(
        &mut self,
        now: Instant,
        id: TransferId,
        reason: &str,
        transport: &mut dyn Transport,
    ) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        transfer.failure.get_or_insert_with(|| reason.to_owned());
        let scheme = transfer.scheme;
        let mut flows: Vec<FlowId> = transfer.flows.iter().copied().collect();
        if let Kind::Fetch(fetching) = &mut transfer.kind {
            flows.extend(std::mem::take(&mut fetching.requests));
        }
        for flow in flows {
            self.abort_flow(now, scheme, flow, reason, transport);
        }
        self.end_if_done(id);
    }

    /// Gives up a flow, also one that the transport has done with and that is still being written.
    pub(super) fn abort_flow(
        &mut self,
        now: Instant,
        scheme: Scheme,
        flow: FlowId,
        reason: &str,
        transport: &mut dyn Transport,
    ) {
        transport.abort(now, flow, reason);
        let is_delivered = |flow: &Flow| {
            let Flow::Incoming(incoming) = flow else {
                return false;
            };
            matches!(&incoming.stage, Stage::Object(object) if object.delivered.is_some())
        };
        if self.flows.get(&(scheme, flow)).is_some_and(is_delivered) {
            self.fail_delivered(scheme, flow, reason, None);
        }
    }
}
