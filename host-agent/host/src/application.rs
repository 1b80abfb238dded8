//! State of a host, its calls, and its messages to clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::{Envelope, EnvelopeHeader};
use ebb_transport::{Event, FlowId, FlowRecord, TransportKind};
use ebb_units::Instant;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;

use crate::environment::{Call, ClientId, Engine, Key, Storage};
use crate::limits::Limits;
use crate::request::{Error, ErrorCode, Listen};
use crate::requesters::Requesters;
use crate::tally::Tally;
use crate::transfers::{Flow, Kind, Transfer, TransferId};

/// A message for a client.
#[derive(Debug)]
pub enum Output {
    /// The answer to a request that could not be answered at once.
    Reply {
        /// Client that made the request.
        client: ClientId,
        /// Number that the client gave the request.
        request: u64,
        /// Number of the transfer that has started. `None`: the object is offered.
        result: Result<Option<TransferId>, Error>,
    },
    /// A notice, which answers no request.
    Notice {
        /// Client that it is for.
        client: ClientId,
        /// Its content.
        notice: Notice,
    },
}

/// Messages to a client that answer no request.
#[derive(Debug)]
pub enum Notice {
    /// An object begins to arrive at a listener.
    Incoming {
        /// Number of the transfer that the flow belongs to.
        transfer: TransferId,
        /// Number of the listener.
        listener: u64,
        /// Transport of the flow.
        transport: TransportKind,
        /// Address and port that it came to.
        local: SocketAddrV4,
        /// Address and port of the sender; with several senders, of the one that was asked first.
        peer: SocketAddrV4,
        /// Name, length and hash of the object.
        header: EnvelopeHeader,
    },
    /// How far a transfer is.
    Progress {
        /// Number of the transfer.
        transfer: TransferId,
        /// Bytes of the stream that have been acknowledged or delivered, over all flows that are open.
        done_bytes: u64,
        /// Bytes of these streams, envelopes included. `None`: not known yet.
        total_bytes: Option<u64>,
    },
    /// A flow of the transfer has ended.
    Flow {
        /// Number of the transfer.
        transfer: TransferId,
        /// Number of the flow, unique in its transport.
        flow: FlowId,
        /// When this host began with the transfer. `None`: another host did.
        started: Option<Instant>,
        /// `None`: the flow failed before this host knew what it brings.
        header: Option<EnvelopeHeader>,
        /// Receiver: whether the content is what was announced. `None`: not all arrived.
        sha256_ok: Option<bool>,
        /// Final record of the flow.
        record: Box<FlowRecord>,
    },
    /// The transfer has ended, after all its flows.
    End {
        /// Number of the transfer.
        transfer: TransferId,
        /// Reason of the first failure. `None`: all flows succeeded.
        failure: Option<String>,
    },
}

/// An object that others may fetch.
pub(crate) struct Offered {
    /// Client that offers it.
    pub client: ClientId,
    /// The object with its header.
    pub envelope: Arc<Envelope>,
}

/// A port that a client listens on.
pub(crate) struct Listener<S: Storage> {
    /// Client that takes what arrives.
    pub client: ClientId,
    /// Its request.
    pub listen: Listen<S::Listening>,
}

/// Totals of a transport since the host began: flows, and requests of other hosts.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Counts {
    /// Flows that ended with success.
    pub flows_finished: u64,
    /// Flows that failed.
    pub flows_failed: u64,
    /// Bytes of objects that arrived here, without envelopes.
    pub content_bytes_received: u64,
    /// Requests of other hosts that an object was sent for.
    pub requests_served: u64,
    /// Requests of other hosts that were answered by a refusal.
    pub requests_refused: u64,
}

/// State of one host: requests of its clients, their transfers and flows, and requests of other hosts.
pub struct HostApplication<S: Storage> {
    /// Sources and sinks of objects.
    pub storage: S,
    pub(crate) address: Ipv4Addr,
    pub(crate) limits: Limits,
    /// For session ids of fetches from several hosts.
    pub(crate) rng: SmallRng,
    /// The number of the transfer or listener that was made last.
    last_id: u64,
    pub(crate) listeners: BTreeMap<u64, Listener<S>>,
    pub(crate) transfers: BTreeMap<TransferId, Transfer<S>>,
    /// When the transfers are due that have a deadline.
    pub(crate) deadlines: BTreeSet<(Instant, TransferId)>,
    pub(crate) flows: BTreeMap<Key, Flow<S>>,
    /// Objects that others may fetch, by name.
    pub(crate) offers: BTreeMap<String, Offered>,
    pub(crate) requesters: Requesters,
    /// Addresses for whose waiting requests there may be room now.
    pub(crate) may_answer: BTreeSet<Ipv4Addr>,
    /// Number of open transfers by client.
    pub(crate) open_transfers: Tally<ClientId>,
    /// Objects that are being prepared, or are on their way, to an address that asked for them.
    pub(crate) serves: Tally<Ipv4Addr>,
    /// Refusals on their way to an address.
    pub(crate) refusals: Tally<Ipv4Addr>,
    /// Objects on their way to an address that has answered them.
    pub(crate) heard_flows: Tally<Ipv4Addr>,
    /// Ports that answers to fetches come to, each with its fetch.
    pub(crate) reply_ports: BTreeMap<(TransportKind, u16), TransferId>,
    /// The port used last for a flow or an answer.
    pub(crate) last_ports: BTreeMap<TransportKind, u16>,
    pub(crate) counts: BTreeMap<TransportKind, Counts>,
    /// Time of the next progress notices. `None`: no client wants them.
    pub(crate) progress_at: Option<Instant>,
    pub(crate) outputs: VecDeque<Output>,
}

impl<S: Storage> HostApplication<S> {
    /// `seed` is that of session ids.
    pub fn new(address: Ipv4Addr, limits: Limits, seed: u64, storage: S) -> Self {
        HostApplication {
            storage,
            address,
            limits,
            rng: SmallRng::seed_from_u64(seed),
            last_id: 0,
            listeners: BTreeMap::new(),
            transfers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            flows: BTreeMap::new(),
            offers: BTreeMap::new(),
            requesters: Requesters::new(limits),
            may_answer: BTreeSet::new(),
            open_transfers: Tally::default(),
            serves: Tally::default(),
            refusals: Tally::default(),
            heard_flows: Tally::default(),
            reply_ports: BTreeMap::new(),
            last_ports: BTreeMap::new(),
            counts: BTreeMap::new(),
            progress_at: None,
            outputs: VecDeque::new(),
        }
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The next message to a client, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn reply(
        &mut self,
        client: Option<ClientId>,
        request: u64,
        result: Result<Option<TransferId>, Error>,
    ) {
        self.outputs.extend(client.map(|client| Output::Reply {
            client,
            request,
            result,
        }));
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do. `None`: nothing is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let transfer = self.deadlines.first().map(|(at, _)| *at);
        Instant::earliest([transfer, self.progress_at])
    }

    /// Does what was due by `now`.
    pub fn handle_timeout(&mut self, now: Instant, engine: &mut dyn Engine) {
        let call = &mut Call { now, engine };
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= call.now
        {
            self.deadlines.pop_first();
            if let Some(transfer) = self.transfers.get_mut(&id) {
                transfer.deadline = None;
                match transfer.kind {
                    Kind::Waiting(_) => self.start_send(id, call),
                    _ => self.patience_ended(id, call),
                }
            }
        }
        if self.progress_at.is_some_and(|at| at <= call.now) {
            self.tell_progress(call);
        }
        self.answer_all(call);
    }

    /// An event of the transport of `transport`.
    pub fn handle_event(
        &mut self,
        now: Instant,
        transport: TransportKind,
        event: Event,
        engine: &mut dyn Engine,
    ) {
        let call = &mut Call { now, engine };
        match event {
            Event::Opened { flow, local, peer } => {
                self.opened(call.now, (transport, flow), local.port(), peer);
            }
            Event::Delivered { flow, bytes } => self.delivered((transport, flow), bytes, call),
            Event::Heard { flow, peer } => self.heard(call.now, (transport, flow), peer),
            Event::Finished { flow, record } => {
                self.answer_ends(call.now, (transport, flow));
                self.finished((transport, flow), record, call);
            }
            Event::Failed { flow, record } => {
                self.answer_ends(call.now, (transport, flow));
                self.failed((transport, flow), record, call);
            }
            Event::Detached {
                flow,
                straggler,
                peer,
            } => self.detached((transport, flow), straggler, peer),
        }
        self.answer_all(call);
    }

    /// Accepts flows that come to a port. Returns the number of the listener.
    pub fn listen(
        &mut self,
        client: ClientId,
        listen: Listen<S::Listening>,
        engine: &mut dyn Engine,
    ) -> Result<u64, Error> {
        let (transport, port) = (listen.transport, listen.port);
        if self.listener_at((transport, port)).is_some()
            || self.reply_ports.contains_key(&(transport, port))
        {
            let message = format!("another client listens on port {port} for {transport}");
            return Err(Error::new(ErrorCode::InUse, message));
        }
        let most = self.limits.listeners_per_client;
        let own = self.listeners.values().filter(|l| l.client == client);
        if own.count() >= most {
            let message = format!("this client listens on {most} ports, and may on no more");
            return Err(Error::new(ErrorCode::TooMany, message));
        }
        engine
            .listen(transport, port)
            .map_err(|error| Error::new(ErrorCode::InUse, error))?;
        let id = self.next_id();
        self.listeners.insert(id, Listener { client, listen });
        Ok(id)
    }

    pub(crate) fn listener_at(&self, port: (TransportKind, u16)) -> Option<u64> {
        let mut all = self.listeners.iter();
        let found = all.find(|(_, l)| (l.listen.transport, l.listen.port) == port);
        found.map(|(id, _)| *id)
    }

    /// Ends a listener: flows that come to its port from now on are refused.
    pub fn unlisten(
        &mut self,
        now: Instant,
        client: ClientId,
        id: u64,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        match self.listeners.get(&id) {
            Some(found) if found.client == client => {
                self.end_listener(id, call);
                Ok(())
            }
            _ => {
                let message = format!("this client has no listener {id}");
                Err(Error::new(ErrorCode::Unknown, message))
            }
        }
    }

    fn end_listener(&mut self, id: u64, call: &mut Call<'_>) {
        let Some(Listener { listen, .. }) = self.listeners.remove(&id) else {
            return;
        };
        // Requests still come to a service port.
        if listen.port != listen.transport.service_port() {
            call.engine
                .unlisten(call.now, listen.transport, listen.port);
        }
    }

    /// Ends a transfer of the client.
    pub fn cancel(
        &mut self,
        now: Instant,
        client: ClientId,
        id: TransferId,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        self.own_transfer(client, id)?;
        self.end_early(id, "cancelled", call);
        self.answer_all(call);
        Ok(())
    }

    /// The application of a client has gone: so does all that it has asked for.
    pub fn client_gone(&mut self, now: Instant, client: ClientId, engine: &mut dyn Engine) {
        let call = &mut Call { now, engine };
        let own = self.listeners.iter();
        let own = own.filter(|(_, listener)| listener.client == client);
        for id in own.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end_listener(id, call);
        }
        self.offers.retain(|_, offered| offered.client != client);
        let own = self.transfers.iter();
        let own = own.filter(|(_, transfer)| transfer.client == Some(client));
        for id in own.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.disown(id);
            self.end_early(id, "the application has gone", call);
        }
        self.answer_all(call);
    }

    /// Ends everything. Flows that come from now on are refused.
    pub fn stop(&mut self, now: Instant, reason: &str, engine: &mut dyn Engine) {
        let call = &mut Call { now, engine };
        self.listeners.clear();
        self.offers.clear();
        for id in self.transfers.keys().copied().collect::<Vec<_>>() {
            self.end_early(id, reason, call);
        }
        self.answer_all(call);
    }

    /// IPv4 address of the host.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Totals by transport; transports without flows and requests are absent.
    pub fn counts(&self) -> &BTreeMap<TransportKind, Counts> {
        &self.counts
    }

    /// How many transfers are open, and how many flows.
    pub fn open_counts(&self) -> (usize, usize) {
        (self.transfers.len(), self.flows.len())
    }

    /// How many objects are being prepared, or are on their way, because other hosts asked for them.
    pub fn serving(&self) -> usize {
        self.serves.sum()
    }
}
