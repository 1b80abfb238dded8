//! The engine's side of the API: all that clients have asked for. Runs in the engine's thread, so
//! nothing here waits for anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use ebb_transport::object::Envelope;
use ebb_transport::{Event, FlowId, Scheme, Transport};
use ebb_units::{Duration, Instant};
use serde::Serialize;
use serde_json::{Value, json};

use super::askers::Askers;
use super::clients::{ClientId, Outbox};
use super::prepare::Preparer;
use super::sink::Target;
use super::sinks::{SinkId, Sinks};
use super::timers::{Timer, Timers};
use super::transfers::{Flow, Kind, Listener, Stage, Transfer, TransferId};
use super::{Command, Mailbox};
use crate::api::VERSION;
use crate::api::message::{self, Error, ErrorCode, Into, Operation, Outcome, Reply, Request};
use crate::lateness::Lateness;
use crate::objects::{Existing, is_directory};
use crate::runtime::{Application, Runtime};
use crate::transports::Transports;

/// Transfers that one client may have open.
const MAX_TRANSFERS: usize = 4096;
/// How often clients hear of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Handled before packets have their turn again.
const COMMANDS_PER_TURN: usize = 256;
/// Flows in one answer to `flows`, so that it fits into a message.
const FLOWS_PER_MESSAGE: usize = 100;

/// When the engine ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// When it is told to.
    Daemon,
    /// With the first client, which is in this process.
    Client,
}

/// An object that others may fetch.
pub(super) struct Offered {
    pub client: ClientId,
    pub envelope: Arc<Envelope>,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Counts {
    pub flows_finished: u64,
    pub flows_failed: u64,
    pub content_bytes_received: u64,
    pub requests_served: u64,
    pub requests_refused: u64,
}

/// How long an agent that ends waits for its disk.
const LAST_WRITES: std::time::Duration = std::time::Duration::from_millis(500);

pub struct Service {
    pub(super) inbox: mpsc::Receiver<Command>,
    pub(super) mailbox: Mailbox,
    pub(super) sinks: Sinks,
    pub(super) preparer: Preparer,
    pub(super) timers: Timers,
    lifetime: Lifetime,
    lateness: Lateness,
    address: Ipv4Addr,
    interface: String,
    last_id: u64,
    pub(super) clients: BTreeMap<ClientId, Outbox>,
    pub(super) listeners: BTreeMap<u64, Listener>,
    pub(super) transfers: BTreeMap<TransferId, Transfer>,
    pub(super) flows: BTreeMap<(Scheme, FlowId), Flow>,
    pub(super) by_sink: BTreeMap<SinkId, (Scheme, FlowId)>,
    pub(super) offers: BTreeMap<String, Offered>,
    pub(super) directories: Vec<(ClientId, Arc<OwnedFd>)>,
    pub(super) askers: Askers,
    /// Ports where the answers to fetches come.
    pub(super) reply_ports: BTreeSet<(Scheme, u16)>,
    /// The source port used last.
    pub(super) last_ports: BTreeMap<Scheme, u16>,
    pub(super) counts: BTreeMap<Scheme, Counts>,
    progress_wanted: bool,
    stopping: bool,
    /// Buffers on their way back to a transport.
    pub(super) returned: Vec<Vec<u8>>,
    pub(super) deliveries: u64,
}

impl Service {
    pub fn start(runtime: &mut Runtime, lifetime: Lifetime) -> std::io::Result<Self> {
        let (mailbox, inbox) = Mailbox::new(runtime.waker());
        // A sender hears "finished" when its object is where it was to go.
        runtime.transports().hold_confirmations();
        Ok(Service {
            sinks: Sinks::start(mailbox.clone())?,
            preparer: Preparer::start(&runtime.hops(), &mailbox)?,
            timers: Timers::start(mailbox.clone())?,
            inbox,
            mailbox,
            lifetime,
            lateness: runtime.lateness(),
            address: runtime.address(),
            interface: runtime.interface().to_owned(),
            last_id: 0,
            clients: BTreeMap::new(),
            listeners: BTreeMap::new(),
            transfers: BTreeMap::new(),
            flows: BTreeMap::new(),
            by_sink: BTreeMap::new(),
            offers: BTreeMap::new(),
            directories: Vec::new(),
            askers: Askers::default(),
            reply_ports: BTreeSet::new(),
            last_ports: BTreeMap::new(),
            counts: BTreeMap::new(),
            progress_wanted: false,
            stopping: false,
            returned: Vec::new(),
            deliveries: 0,
        })
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn reply(&self, client: ClientId, id: u64, result: Result<Value, Error>) {
        if let Some(outbox) = self.clients.get(&client) {
            let result = match result {
                Ok(value) => Outcome::Ok(value),
                Err(error) => Outcome::Error(error),
            };
            outbox.send(&Reply { id, result });
        }
    }

    /// Does what another thread wants. Break: the engine is to end.
    fn follow(
        &mut self,
        now: Instant,
        command: Command,
        transports: &mut Transports,
    ) -> ControlFlow<()> {
        match command {
            Command::Connected { client, outbox } => {
                self.clients.insert(client, outbox);
            }
            Command::Gone { client } => {
                self.client_gone(now, client, transports);
                if self.lifetime == Lifetime::Client {
                    return ControlFlow::Break(());
                }
            }
            Command::Request {
                client,
                request: Request { id, operation },
                descriptor,
                seen,
            } => {
                let _ = seen.try_send(());
                let shutdown = matches!(operation, Operation::Shutdown(_));
                let result = self.request(now, client, id, operation, descriptor, transports);
                if let Some(result) = result.transpose() {
                    self.reply(client, id, result);
                }
                if shutdown {
                    self.stop(now, transports);
                    return ControlFlow::Break(());
                }
            }
            Command::Prepared { ticket, result } => {
                self.prepared(now, ticket, result, transports);
            }
            Command::Sink { id, update } => self.sink_update(now, id, update, transports),
            Command::Requested {
                scheme,
                request,
                peer,
            } => self.requested(now, scheme, request, peer, transports),
            Command::Answer { peer } => self.answer_waiting(now, peer, transports),
            Command::Timer(Timer::Start(transfer)) => self.start_send(now, transfer, transports),
            Command::Timer(Timer::Patience(transfer)) => {
                self.patience_ended(now, transfer, transports);
            }
            Command::Timer(Timer::Progress) => self.tell_progress(transports),
        }
        ControlFlow::Continue(())
    }

    /// `Ok(None)`: the answer comes later.
    fn request(
        &mut self,
        now: Instant,
        client: ClientId,
        id: u64,
        operation: Operation,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        let open = self.transfers.values();
        if open.filter(|t| t.client == Some(client)).count() >= MAX_TRANSFERS
            && matches!(
                operation,
                Operation::Send(_) | Operation::Fetch(_) | Operation::Offer(_)
            )
        {
            let message = format!("{MAX_TRANSFERS} transfers of this client are open");
            return Err(Error::new(ErrorCode::TooMany, message));
        }
        match operation {
            Operation::Hello(hello) => self.hello(&hello).map(Some),
            Operation::Send(send) => self.send(client, id, send, descriptor, transports),
            Operation::Offer(offer) => self.offer(client, id, offer, descriptor),
            Operation::Withdraw(message::Name { name }) => self.withdraw(client, &name).map(Some),
            Operation::Serve(_) => self.serve(client, descriptor).map(Some),
            Operation::Fetch(fetch) => self.fetch(client, id, fetch, descriptor, transports),
            Operation::Listen(listen) => self
                .listen(client, &listen, descriptor, transports)
                .map(Some),
            Operation::Unlisten(message::ListenerId { listener }) => {
                self.own_listener(client, listener)?;
                self.end_listener(now, listener, transports);
                Ok(Some(json!({})))
            }
            Operation::Accept(accept) => self.accept(client, &accept, descriptor).map(Some),
            Operation::Refuse(message::Refuse { transfer, reason }) => {
                self.own_undecided(client, transfer)?;
                self.cancel(now, transfer, &format!("refused: {reason}"), transports);
                Ok(Some(json!({})))
            }
            Operation::Cancel(message::TransferId { transfer }) => {
                self.own_transfer(client, transfer)?;
                self.cancel(now, transfer, "cancelled", transports);
                Ok(Some(json!({})))
            }
            Operation::Flows(message::After { after }) => {
                Ok(Some(self.list_flows(after, transports)))
            }
            Operation::Statistics(_) => Ok(Some(self.statistics())),
            Operation::Shutdown(_) => match self.lifetime {
                Lifetime::Daemon => Ok(Some(json!({}))),
                Lifetime::Client => Ok(None),
            },
        }
    }

    fn hello(&self, hello: &message::Hello) -> Result<Value, Error> {
        if hello.version != VERSION {
            let message = format!(
                "this daemon speaks version {VERSION} of its API, the client {}; use a client of \
                 the same release",
                hello.version
            );
            return Err(Error::new(ErrorCode::BadVersion, message));
        }
        let ports = Scheme::ALL.map(|scheme| (scheme.name().to_owned(), scheme.service_port()));
        Ok(json!({
            "version": VERSION,
            "pid": std::process::id(),
            "interface": self.interface,
            "address": self.address,
            "ports": ports.into_iter().collect::<BTreeMap<_, _>>(),
        }))
    }

    fn listen(
        &mut self,
        client: ClientId,
        listen: &message::Listen,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Value, Error> {
        let scheme = listen.scheme;
        let port = listen.port.unwrap_or(scheme.service_port());
        let taken = self
            .listeners
            .values()
            .any(|other| other.scheme == scheme && other.port == port);
        if taken || self.reply_ports.contains(&(scheme, port)) {
            let message = format!("another client listens on port {port} for {scheme}");
            return Err(Error::new(ErrorCode::InUse, message));
        }
        let directory = match (listen.into, descriptor) {
            (Into::Directory, Some(directory)) if is_directory(&directory) => {
                Some(Arc::new(directory))
            }
            (Into::Directory, _) => {
                let message = "to listen into a directory, send its descriptor with the message";
                return Err(Error::new(ErrorCode::BadRequest, message));
            }
            _ => None,
        };
        transports
            .listen(scheme, port)
            .map_err(|error| Error::new(ErrorCode::InUse, format!("{error:#}")))?;
        let id = self.next_id();
        self.listeners.insert(
            id,
            Listener {
                client,
                scheme,
                port,
                into: listen.into,
                directory,
                existing: existing(listen.overwrite),
                announce: listen.announce,
                progress: listen.progress,
            },
        );
        Ok(json!({"listener": id, "local": format!("{}:{port}", self.address)}))
    }

    fn own_listener(&self, client: ClientId, listener: u64) -> Result<(), Error> {
        match self.listeners.get(&listener) {
            Some(found) if found.client == client => Ok(()),
            _ => Err(Error::new(
                ErrorCode::Unknown,
                format!("this client has no listener {listener}"),
            )),
        }
    }

    fn end_listener(&mut self, now: Instant, id: u64, transports: &mut Transports) {
        let Some(listener) = self.listeners.remove(&id) else {
            return;
        };
        let (scheme, port) = (listener.scheme, listener.port);
        // Requests still come to a service port.
        if port != scheme.service_port() && !self.reply_ports.contains(&(scheme, port)) {
            transports.unlisten(now, scheme, port);
        }
    }

    pub(super) fn own_transfer(
        &mut self,
        client: ClientId,
        transfer: TransferId,
    ) -> Result<&mut Transfer, Error> {
        let found = self.transfers.get_mut(&transfer);
        found
            .filter(|found| found.client == Some(client))
            .ok_or_else(|| {
                let message =
                    format!("this client has no transfer {transfer}, or it has ended already");
                Error::new(ErrorCode::Unknown, message)
            })
    }

    /// Ends a transfer before its time.
    pub(super) fn cancel(
        &mut self,
        now: Instant,
        id: TransferId,
        reason: &str,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        if let Kind::Waiting(waiting) = &transfer.kind {
            waiting.cancelled.store(true, Ordering::Relaxed);
            let (client, request) = (transfer.client, waiting.request);
            let asker = waiting.what.asker();
            self.transfers.remove(&id);
            if let Some(peer) = asker {
                self.answer_next(peer);
            }
            if let Some(client) = client {
                self.reply(client, request, Err(Error::new(ErrorCode::Io, reason)));
            }
        } else if let Some(transport) = transports.get(transfer.scheme) {
            self.abort_transfer(now, id, reason, transport);
        }
    }

    fn client_gone(&mut self, now: Instant, client: ClientId, transports: &mut Transports) {
        self.clients.remove(&client);
        let own = self.listeners.iter();
        let own: Vec<u64> = own
            .filter(|(_, listener)| listener.client == client)
            .map(|(id, _)| *id)
            .collect();
        for id in own {
            self.end_listener(now, id, transports);
        }
        self.offers.retain(|_, offered| offered.client != client);
        self.directories.retain(|(owner, _)| *owner != client);
        let own = self.transfers.iter();
        let own: Vec<TransferId> = own
            .filter(|(_, transfer)| transfer.client == Some(client))
            .map(|(id, _)| *id)
            .collect();
        for id in own {
            if let Some(transfer) = self.transfers.get_mut(&id) {
                transfer.client = None;
            }
            self.cancel(now, id, "the application has gone", transports);
        }
    }

    /// From now on until nobody wants it any more.
    pub(super) fn want_progress(&mut self) {
        if !self.progress_wanted {
            self.progress_wanted = true;
            let at = crate::clock::now() + PROGRESS_INTERVAL;
            self.timers.set(at, Timer::Progress);
        }
    }

    fn tell_progress(&mut self, transports: &mut Transports) {
        self.progress_wanted = false;
        let mut anybody = false;
        for (&id, transfer) in &self.transfers {
            if !transfer.progress {
                continue;
            }
            anybody = true;
            let (mut done, mut total) = (0, Some(0));
            for &flow in &transfer.flows {
                let (flow_done, flow_total) = self.how_far(transfer.scheme, flow, transports);
                done += flow_done;
                total = total.zip(flow_total).map(|(sum, more)| sum + more);
            }
            let outbox = transfer.client.and_then(|client| self.clients.get(&client));
            if let Some(outbox) = outbox.filter(|outbox| !outbox.is_busy())
                && !transfer.flows.is_empty()
            {
                outbox.send(&message::Event::Progress {
                    transfer: id,
                    done_bytes: done,
                    total_bytes: total,
                });
            }
        }
        if anybody {
            self.want_progress();
        }
    }

    /// Bytes of the stream that are done, and of all, as far as they are known.
    fn how_far(
        &self,
        scheme: Scheme,
        flow: FlowId,
        transports: &mut Transports,
    ) -> (u64, Option<u64>) {
        let known = transports
            .get(scheme)
            .and_then(|transport| transport.progress(flow));
        let known = known.map(|progress| (progress.done_bytes, progress.total_bytes));
        match self.flows.get(&(scheme, flow)) {
            Some(Flow::Incoming(incoming)) => {
                let total = match &incoming.stage {
                    Stage::Object(object) => {
                        Some(object.header.content_bytes + object.header.head_bytes() as u64)
                    }
                    _ => known.and_then(|(_, total)| total),
                };
                (incoming.received, total)
            }
            Some(Flow::Outgoing(outgoing)) => {
                let total = outgoing.header.content_bytes + outgoing.header.head_bytes() as u64;
                (known.map_or(0, |(done, _)| done), Some(total))
            }
            _ => known.unwrap_or((0, None)),
        }
    }

    fn list_flows(&self, after: u64, transports: &mut Transports) -> Value {
        let mut listed = Vec::new();
        let mut last = after;
        let mut more = false;
        for (&id, transfer) in self.transfers.range(after + 1..) {
            // All flows of a transfer are in the same message.
            if listed.len() + transfer.flows.len() > FLOWS_PER_MESSAGE && !listed.is_empty() {
                more = true;
                break;
            }
            last = id;
            for &flow in transfer.flows.iter().take(FLOWS_PER_MESSAGE) {
                let (done, total) = self.how_far(transfer.scheme, flow, transports);
                let (role, peer, name) = match self.flows.get(&(transfer.scheme, flow)) {
                    Some(Flow::Outgoing(out)) => ("sender", Some(out.peer), Some(&out.header.name)),
                    Some(Flow::Incoming(incoming)) => {
                        let name = match &incoming.stage {
                            Stage::Object(object) => Some(&object.header.name),
                            _ => None,
                        };
                        ("receiver", Some(incoming.peer), name)
                    }
                    _ => ("receiver", None, None),
                };
                listed.push(json!({
                    "transfer": id, "role": role, "scheme": transfer.scheme, "peer": peer,
                    "name": name, "done_bytes": done, "total_bytes": total,
                }));
            }
        }
        json!({"flows": listed, "last": last, "more": more})
    }

    fn statistics(&self) -> Value {
        let schemes: serde_json::Map<String, Value> = self
            .counts
            .iter()
            .filter_map(|(scheme, counts)| {
                Some((scheme.to_string(), serde_json::to_value(counts).ok()?))
            })
            .collect();
        json!({
            "clients": self.clients.len(),
            "transfers": self.transfers.len(),
            "flows": self.flows.len(),
            "backlog_bytes": self.sinks.backlog_bytes(),
            "lateness": self.lateness.to_json(),
            "schemes": schemes,
        })
    }

    /// Where content goes that comes with a descriptor, or none. In a directory a file that is
    /// there is replaced only with `overwrite`.
    pub(super) fn target(&mut self, descriptor: Option<OwnedFd>, overwrite: bool) -> Target {
        match descriptor {
            None => Target::Discard,
            Some(directory) if is_directory(&directory) => {
                let unique = self.unique();
                Target::Directory {
                    dir: Arc::new(directory),
                    unique,
                    existing: existing(overwrite),
                }
            }
            Some(descriptor) => Target::Descriptor(descriptor),
        }
    }

    /// Part of the name of a temporary file.
    pub(super) fn unique(&mut self) -> String {
        let id = self.next_id();
        format!("{}-{}-{id}", self.address, std::process::id())
    }
}

fn existing(overwrite: bool) -> Existing {
    match overwrite {
        true => Existing::Replace,
        false => Existing::Keep,
    }
}

impl Application for Service {
    fn handle_event(
        &mut self,
        now: Instant,
        scheme: Scheme,
        event: Event,
        transport: &mut dyn Transport,
    ) -> ControlFlow<()> {
        match event {
            Event::Opened { flow, local, peer } => {
                self.opened((scheme, flow), local.port(), peer);
            }
            Event::Delivered { flow, bytes } => {
                self.delivered(now, (scheme, flow), bytes, transport);
            }
            Event::Heard { flow, peer } => self.heard(now, (scheme, flow), peer),
            Event::Finished { flow, record } => {
                let asker = self.answer_ends(now, (scheme, flow));
                self.finished(now, (scheme, flow), record, transport);
                asker.into_iter().for_each(|peer| self.answer_next(peer));
            }
            Event::Failed { flow, record } => {
                let asker = self.answer_ends(now, (scheme, flow));
                self.failed((scheme, flow), &record, now, transport);
                asker.into_iter().for_each(|peer| self.answer_next(peer));
            }
            Event::Detached {
                flow,
                straggler,
                peer,
            } => self.detached((scheme, flow), straggler, peer),
        }
        ControlFlow::Continue(())
    }

    fn handle_wake(&mut self, now: Instant, transports: &mut Transports) -> ControlFlow<()> {
        for _ in 0..COMMANDS_PER_TURN {
            match self.inbox.try_recv() {
                Ok(command) => self.follow(now, command, transports)?,
                Err(_) => return ControlFlow::Continue(()),
            }
        }
        // The rest has its turn after the packets.
        self.mailbox.wake();
        ControlFlow::Continue(())
    }

    fn stop(&mut self, now: Instant, transports: &mut Transports) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        // Flows that come from now on are refused.
        self.listeners.clear();
        self.offers.clear();
        self.directories.clear();
        let open: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in open {
            self.cancel(now, id, "the agent was stopped", transports);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.sinks.settle(LAST_WRITES);
        for outbox in self.clients.values() {
            outbox.finish();
        }
    }
}
