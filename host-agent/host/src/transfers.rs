//! Transfers of clients, from request to end.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::{Envelope, EnvelopeHeader};
use ebb_transport::{FetchRequest, FlowId, FlowRecord, Refusal, Status, TransportKind};
use ebb_units::Instant;

use crate::application::{HostApplication, Notice, Output};
use crate::environment::{Call, ClientId, Key, Storage};
use crate::fetching::Fetching;
use crate::request::{Error, ErrorCode, FetchObject, SendObject};
use crate::requesters::Asker;

/// Numbers of transfers and listeners: unique per host, never reused.
pub type TransferId = u64;

/// A transfer of a client. It ends with the last of its flows.
pub(crate) struct Transfer<S: Storage> {
    /// Client that gets its notices. `None`: it has gone, or another host asked for the object.
    pub client: Option<ClientId>,
    /// Transport of its flows.
    pub transport: TransportKind,
    /// Whether the client gets [`Notice::Progress`].
    pub progress: bool,
    /// When this host began with it. `None`: it has not, or another host did.
    pub started: Option<Instant>,
    /// Time at which it starts, or at which a wait for it ends. `None`: neither is set.
    pub deadline: Option<Instant>,
    /// Flows that are open.
    pub flows: BTreeSet<FlowId>,
    /// Reason of the first failure. `None`: nothing has failed.
    pub failure: Option<String>,
    /// Its state: waiting, or the kind of flows that it has.
    pub kind: Kind<S>,
}

pub(crate) enum Kind<S: Storage> {
    /// Its object is being prepared, or its time has not come.
    Waiting(Box<Waiting<S>>),
    /// A client sends an object.
    Send,
    /// Another host fetches an object from this one.
    Serve {
        /// Its address.
        peer: Ipv4Addr,
    },
    /// An object arrives at a listener.
    Receive,
    /// A client fetches an object.
    Fetch(Fetching<S>),
}

impl<S: Storage> Kind<S> {
    /// The other host that asked for the object. `None`: a client of this host did.
    pub fn requester(&self) -> Option<Ipv4Addr> {
        match self {
            Kind::Serve { peer } => Some(*peer),
            Kind::Waiting(waiting) => match &waiting.what {
                Wanted::Serve(_, asker) => Some(*asker.to.ip()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A transfer that cannot start yet.
pub(crate) struct Waiting<S: Storage> {
    /// The request of the client that is to be answered.
    pub request: u64,
    /// Action once nothing is left to wait for.
    pub what: Wanted<S>,
    /// The object. `None`: it is not prepared, or there is nothing to send.
    pub envelope: Option<Arc<Envelope>>,
}

/// Action of a waiting transfer.
pub(crate) enum Wanted<S: Storage> {
    /// Sends an object to other hosts.
    Send(SendObject),
    /// Keeps an object for hosts that will fetch it.
    Offer,
    /// Fetches an object and stores it at the target.
    Fetch(FetchObject, S::Target),
    /// Sends an object that another host asked for.
    Serve(FetchRequest, Asker),
}

/// A flow that is open.
pub(crate) enum Flow<S: Storage> {
    /// An object on its way to another host.
    Outgoing(Outgoing),
    /// A request of ours for an object.
    Request {
        /// The fetch that it belongs to.
        transfer: TransferId,
        /// Host that has the object.
        server: Ipv4Addr,
    },
    /// Our answer that there is no object.
    Refusal {
        /// Host that asked for it.
        requester: Ipv4Addr,
    },
    /// A flow that another host began.
    Incoming(Box<Incoming<S>>),
}

/// A flow that sends an object.
pub(crate) struct Outgoing {
    /// Transfer that it belongs to.
    pub transfer: TransferId,
    /// Name, length and hash of the object.
    pub header: EnvelopeHeader,
    /// Address and port of the receiver.
    pub peer: SocketAddrV4,
    /// The peer has answered.
    pub heard: bool,
}

/// A flow that another host began.
pub(crate) struct Incoming<S: Storage> {
    /// `None`: nobody has asked for what comes to this port.
    pub transfer: Option<TransferId>,
    /// The listener that it came to. `None`: it came to the port of a fetch, or to nobody's.
    pub listener: Option<u64>,
    /// Address and port of the sender.
    pub peer: SocketAddrV4,
    /// Port that it came to.
    pub local_port: u16,
    /// Contents as far as they are known.
    pub stage: Stage<S>,
    /// Bytes of the stream so far.
    pub received: u64,
}

impl<S: Storage> Incoming<S> {
    /// A flow of which nothing has arrived.
    pub fn new(transfer: Option<TransferId>, peer: SocketAddrV4, local_port: u16) -> Self {
        Incoming {
            transfer,
            listener: None,
            peer,
            local_port,
            stage: Stage::Head(Vec::new()),
            received: 0,
        }
    }
}

/// Contents of a flow that another host began, as far as they are known.
pub(crate) enum Stage<S: Storage> {
    /// The first bytes, too few to tell objects, requests and refusals apart.
    Head(Vec<u8>),
    /// An object that is being stored.
    Object(Receiving<S>),
    /// An object that nobody takes, and the reason, which its sender gets.
    Refused(EnvelopeHeader, String),
    /// A request for an object.
    Request(FetchRequest),
    /// The answer that there is no object.
    Refusal(Refusal),
}

/// Result of a flow.
pub(crate) struct Ended {
    /// Name, length and hash of its object. `None`: it failed before they were known, or brought none.
    pub header: Option<EnvelopeHeader>,
    /// Receiver: whether the content has the announced hash. `None`: not all arrived.
    pub sha256_ok: Option<bool>,
    /// Final record of the flow.
    pub record: FlowRecord,
}

/// An object on its way to its sink.
pub(crate) struct Receiving<S: Storage> {
    /// Name, length and hash of the object.
    pub header: EnvelopeHeader,
    /// Where its bytes are written.
    pub sink: S::Sink,
    /// The application has not decided whether it wants the object.
    pub undecided: bool,
    /// The record of the flow, once all bytes are delivered and only the writing is left.
    pub delivered: Option<Box<FlowRecord>>,
}

impl<S: Storage> HostApplication<S> {
    pub(crate) fn new_transfer(
        &mut self,
        now: Instant,
        client: Option<ClientId>,
        transport: TransportKind,
        progress: bool,
        kind: Kind<S>,
    ) -> TransferId {
        let id = self.next_id();
        if let Some(client) = client {
            self.open_transfers.add(client);
        }
        if let Some(peer) = kind.requester() {
            self.serves.add(peer);
        }
        let transfer = Transfer {
            client,
            transport,
            progress,
            started: None,
            deadline: None,
            flows: BTreeSet::new(),
            failure: None,
            kind,
        };
        self.transfers.insert(id, transfer);
        if progress {
            self.want_progress(now);
        }
        id
    }

    /// Forgets a transfer, and all that is kept because of it.
    pub(crate) fn remove_transfer(&mut self, id: TransferId) -> Option<Transfer<S>> {
        let transfer = self.transfers.remove(&id)?;
        if let Some(client) = &transfer.client {
            self.open_transfers.subtract(client);
        }
        if let Some(peer) = transfer.kind.requester() {
            self.serves.subtract(&peer);
        }
        if let Some(at) = transfer.deadline {
            self.deadlines.remove(&(at, id));
        }
        Some(transfer)
    }

    /// Removes the client of a transfer, which gets no more notices of it.
    pub(crate) fn disown(&mut self, id: TransferId) {
        if let Some(transfer) = self.transfers.get_mut(&id)
            && let Some(client) = transfer.client.take()
        {
            self.open_transfers.subtract(&client);
        }
    }

    pub(crate) fn set_deadline(&mut self, id: TransferId, at: Instant) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            if let Some(before) = transfer.deadline.replace(at) {
                self.deadlines.remove(&(before, id));
            }
            self.deadlines.insert((at, id));
        }
    }

    pub(crate) fn notify(&mut self, client: Option<ClientId>, notice: Notice) {
        if let Some(client) = client {
            self.outputs.push_back(Output::Notice { client, notice });
        }
    }

    pub(crate) fn own_transfer(&self, client: ClientId, id: TransferId) -> Result<(), Error> {
        match self.transfers.get(&id) {
            Some(found) if found.client == Some(client) => Ok(()),
            _ => {
                let message = format!("this client has no transfer {id}, or it has ended already");
                Err(Error::new(ErrorCode::Unknown, message))
            }
        }
    }

    /// A flow has ended: reports it, and ends the transfer with its last flow.
    pub(crate) fn flow_ended(
        &mut self,
        transfer: Option<TransferId>,
        (transport, flow): Key,
        ended: Ended,
        call: &mut Call<'_>,
    ) {
        let Ended {
            header,
            sha256_ok,
            record,
        } = ended;
        let counts = self.counts.entry(transport).or_default();
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
        let (client, started) = (open.client, open.started);
        let notice = Notice::Flow {
            transfer: id,
            flow,
            started,
            header,
            sha256_ok,
            record: Box::new(record),
        };
        self.notify(client, notice);
        self.end_if_done(id, call);
    }

    /// Ends the transfer if nothing of it is open any more.
    pub(crate) fn end_if_done(&mut self, id: TransferId, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        let waits = match &transfer.kind {
            Kind::Waiting(_) => true,
            Kind::Fetch(fetching) => transfer.failure.is_none() && fetching.waits(),
            Kind::Send | Kind::Serve { .. } | Kind::Receive => false,
        };
        if waits || !transfer.flows.is_empty() {
            return;
        }
        let Some(transfer) = self.remove_transfer(id) else {
            return;
        };
        if let Kind::Fetch(fetching) = &transfer.kind {
            self.reply_ports
                .remove(&(transfer.transport, fetching.reply_port));
            call.engine
                .unlisten(call.now, transfer.transport, fetching.reply_port);
        }
        let notice = Notice::End {
            transfer: id,
            failure: transfer.failure,
        };
        self.notify(transfer.client, notice);
    }

    /// Ends a transfer before its time.
    pub(crate) fn end_early(&mut self, id: TransferId, reason: &str, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        if !matches!(transfer.kind, Kind::Waiting(_)) {
            self.abort_transfer(id, reason, call);
            return;
        }
        self.storage.cancel(id);
        if let Some(transfer) = self.remove_transfer(id) {
            self.may_answer.extend(transfer.kind.requester());
            if let Kind::Waiting(waiting) = transfer.kind {
                let error = Error::new(ErrorCode::Io, reason);
                self.reply(transfer.client, waiting.request, Err(error));
            }
        }
    }

    /// Gives up all flows of a transfer.
    pub(crate) fn abort_transfer(&mut self, id: TransferId, reason: &str, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        transfer.failure.get_or_insert_with(|| reason.to_owned());
        let transport = transfer.transport;
        let mut flows: Vec<FlowId> = transfer.flows.iter().copied().collect();
        if let Kind::Fetch(fetching) = &mut transfer.kind {
            flows.extend(std::mem::take(&mut fetching.requests));
        }
        for flow in flows {
            self.abort_flow((transport, flow), reason, call);
        }
        self.end_if_done(id, call);
    }

    /// Gives up a flow, even if its transport has finished it and its object is still being written.
    fn abort_flow(&mut self, key: Key, reason: &str, call: &mut Call<'_>) {
        if let Some(transport) = call.engine.transport(key.0) {
            transport.abort(call.now, key.1, reason);
        }
        self.fail_delivered(key, reason, None, call);
    }
}
