//! A fetch: requests an object from one or several hosts, and receives it at a port of its own.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_printable::printable;
use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{
    ExpectRequest, FetchRequest, FlowId, FlowRecord, MAX_SENDERS, Refusal, Status, TransportKind,
};
use ebb_units::Instant;
use rand::Rng;

use crate::application::HostApplication;
use crate::environment::{Call, ClientId, Content, Engine, Storage};
use crate::request::{Error, ErrorCode, FetchObject, Peer};
use crate::sending::{Outbound, Preparation, check_hosts, check_priority, numbered, open};
use crate::transfers::{Flow, Incoming, Kind, TransferId, Wanted};

/// A fetch whose requests are under way.
pub(crate) struct Fetching<S: Storage> {
    /// Name of the object.
    name: String,
    /// The servers.
    from: Vec<Peer>,
    /// Port at which the object arrives.
    pub reply_port: u16,
    /// The flow of several servers; it continues without those that do not send. `None`: there is one
    /// server.
    expected: Option<FlowId>,
    /// Requests to servers that have not confirmed them.
    pub requests: BTreeSet<FlowId>,
    /// Destination of the content. `None`: a flow has it.
    target: Option<S::Target>,
}

impl<S: Storage> Fetching<S> {
    /// Whether the object may still arrive, even if no flow is open.
    pub fn waits(&self) -> bool {
        // An object from several servers is complete without one that never answers.
        let asking = self.expected.is_none() && !self.requests.is_empty();
        self.target.is_some() || asking
    }
}

impl<S: Storage> HostApplication<S> {
    /// Gets an object. The answer is an [`crate::Output::Reply`].
    pub fn fetch(
        &mut self,
        now: Instant,
        (client, request): (ClientId, u64),
        fetch: FetchObject,
        target: S::Target,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        self.check_room(client)?;
        check_priority(fetch.priority)?;
        check_hosts(&fetch.from, self.address)?;
        if fetch.from.len() > usize::from(MAX_SENDERS) {
            let message = format!("an object can be fetched from at most {MAX_SENDERS} hosts");
            return Err(Error::new(ErrorCode::NotPossible, message));
        }
        EnvelopeHeader::check_name(&fetch.name)
            .map_err(|error| Error::new(ErrorCode::BadRequest, error))?;
        open(call.engine, fetch.transport)?;
        let preparation = Preparation {
            client: Some(client),
            request,
            transport: fetch.transport,
            progress: fetch.progress,
            name: fetch.name.clone(),
            content: Content::None,
            hosts: fetch.from.iter().map(|host| host.address).collect(),
        };
        self.prepare(Wanted::Fetch(fetch, target), preparation, call);
        Ok(())
    }

    /// The servers can be reached.
    pub(crate) fn start_fetch(&mut self, id: TransferId, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = std::mem::replace(&mut transfer.kind, Kind::Receive) else {
            return;
        };
        let (client, request) = (transfer.client, waiting.request);
        transfer.started = Some(call.now);
        let Wanted::Fetch(fetch, target) = waiting.what else {
            return;
        };
        let result = self.ask(id, fetch, target, call);
        if result.is_err() {
            self.disown(id);
            self.end_early(id, "the fetch cannot start", call);
        }
        self.reply(client, request, result.map(|()| Some(id)));
    }

    fn ask(
        &mut self,
        id: TransferId,
        fetch: FetchObject,
        target: S::Target,
        call: &mut Call<'_>,
    ) -> Result<(), Error> {
        let kind = fetch.transport;
        let ports = call.engine.ports(kind).map(|ports| ports.replies);
        let reply_port = ports.and_then(|range| self.next_port(kind, range));
        let reply_port = reply_port
            .ok_or_else(|| Error::new(ErrorCode::TooMany, "no port for the answer is free"))?;
        call.engine
            .listen(kind, reply_port)
            .map_err(|error| Error::new(ErrorCode::InUse, error))?;
        let senders = fetch.from.len() as u8;
        let session = if senders > 1 { self.rng.random() } else { 0 };
        let expect = ExpectRequest {
            port: reply_port,
            session,
            senders: fetch.from.iter().map(|host| host.address).collect(),
        };
        let expected = match self.expect(id, &fetch, expect, call) {
            Ok(expected) => expected,
            Err(error) => {
                call.engine.unlisten(call.now, kind, reply_port);
                return Err(error);
            }
        };
        let patience = fetch.patience.unwrap_or(self.limits.patience);
        self.set_deadline(id, call.now + patience);
        self.reply_ports.insert((kind, reply_port), id);
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.flows.extend(expected);
            transfer.kind = Kind::Fetch(Fetching {
                name: fetch.name.clone(),
                from: fetch.from.clone(),
                reply_port,
                expected,
                requests: BTreeSet::new(),
                target: Some(target),
            });
        }
        self.send_requests(id, &fetch, (session, reply_port), call)
    }

    /// Sends a request to each server.
    fn send_requests(
        &mut self,
        id: TransferId,
        fetch: &FetchObject,
        (session, reply_port): (u32, u16),
        call: &mut Call<'_>,
    ) -> Result<(), Error> {
        let kind = fetch.transport;
        for (sender, host) in (0..).zip(&fetch.from) {
            let request = FetchRequest {
                name: fetch.name.clone(),
                reply_port,
                priority: fetch.priority,
                session,
                sender,
                senders: fetch.from.len() as u8,
            };
            let bytes = request
                .encode()
                .map_err(|error| Error::new(ErrorCode::BadRequest, error))?;
            let outbound = Outbound {
                source: Arc::new(bytes),
                to: host.with_port(kind.service_port()),
                priority: fetch.priority,
                part: None,
                via: numbered(fetch.connection),
            };
            let flow = self.start_flow(kind, outbound, call)?;
            let server = host.address;
            let transfer = id;
            self.flows
                .insert((kind, flow), Flow::Request { transfer, server });
            if let Some(fetching) = self.fetching(id) {
                fetching.requests.insert(flow);
            }
        }
        Ok(())
    }

    /// Opens the flow of several servers.
    fn expect(
        &mut self,
        id: TransferId,
        fetch: &FetchObject,
        expect: ExpectRequest,
        call: &mut Call<'_>,
    ) -> Result<Option<FlowId>, Error> {
        let kind = fetch.transport;
        if fetch.from.len() == 1 {
            return Ok(None);
        }
        open(call.engine, kind)?;
        let Some(transport) = call.engine.transport(kind) else {
            return Ok(None);
        };
        let local_port = expect.port;
        let flow = transport
            .expect(call.now, expect)
            .map_err(|error| Error::new(ErrorCode::NotPossible, error))?;
        let peer = fetch.from[0].with_port(kind.service_port());
        let incoming = Incoming::new(Some(id), peer, local_port);
        self.flows
            .insert((kind, flow), Flow::Incoming(Box::new(incoming)));
        Ok(Some(flow))
    }

    fn fetching(&mut self, id: TransferId) -> Option<&mut Fetching<S>> {
        match &mut self.transfers.get_mut(&id)?.kind {
            Kind::Fetch(fetching) => Some(fetching),
            _ => None,
        }
    }

    /// The fetch of a flow that arrived at a reply port, if it is from one of its servers.
    pub(crate) fn fetch_answered(
        &mut self,
        port: (TransportKind, u16),
        peer: Ipv4Addr,
    ) -> Option<TransferId> {
        let id = *self.reply_ports.get(&port)?;
        let fetching = self.fetching(id)?;
        let ours = fetching.from.iter().any(|host| host.address == peer);
        ours.then_some(id)
    }

    /// Takes the destination of a fetch's object, for the first flow that brings one.
    pub(crate) fn target_of_fetch(
        &mut self,
        transfer: Option<TransferId>,
        header: &EnvelopeHeader,
    ) -> Result<S::Target, String> {
        let fetching = transfer.and_then(|id| self.fetching(id));
        let fetching = fetching.ok_or("nobody has asked for this object")?;
        if header.name != fetching.name {
            return Err(format!(
                "`{}` was asked for and `{}` came",
                printable(&fetching.name),
                printable(&header.name)
            ));
        }
        fetching
            .target
            .take()
            .ok_or_else(|| "the object has come already".to_owned())
    }

    /// A server has the request, or cannot be reached, or does not take requests.
    pub(crate) fn request_ended(
        &mut self,
        (id, server): (TransferId, Ipv4Addr),
        flow: FlowId,
        record: &FlowRecord,
        call: &mut Call<'_>,
    ) {
        let Some(fetching) = self.fetching(id) else {
            return;
        };
        fetching.requests.remove(&flow);
        match &record.status {
            Status::Finished => self.end_if_done(id, call),
            Status::Failed(why) => {
                let reason = format!("does not take the request: {why}");
                self.lose_server(id, server, &reason, call);
            }
        }
    }

    /// Removes a server. Others may have the object; the transport ends the flow with the last one.
    fn lose_server(&mut self, id: TransferId, server: Ipv4Addr, reason: &str, call: &mut Call<'_>) {
        let Some(kind) = self.transfers.get(&id).map(|transfer| transfer.transport) else {
            return;
        };
        match self.fetching(id).and_then(|fetching| fetching.expected) {
            Some(flow) => {
                if let Some(transport) = call.engine.transport(kind) {
                    transport.drop_sender(call.now, flow, server, reason);
                }
                self.end_if_done(id, call);
            }
            None => self.abort_transfer(id, &format!("{server} {reason}"), call),
        }
    }

    /// A server has refused the object, with a reason.
    pub(crate) fn fetch_refused(
        &mut self,
        transfer: Option<TransferId>,
        flow: FlowId,
        server: Ipv4Addr,
        refusal: &Refusal,
        call: &mut Call<'_>,
    ) {
        let Some(id) = transfer else { return };
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.flows.remove(&flow);
        }
        let reason = format!("refuses: {}", printable(&refusal.message));
        self.lose_server(id, server, &reason, call);
    }

    /// A transfer has waited long enough for a decision or an answer.
    pub(crate) fn patience_ended(&mut self, id: TransferId, call: &mut Call<'_>) {
        if self
            .fetching(id)
            .is_some_and(|fetching| fetching.target.is_some())
        {
            self.end_early(id, "no server has answered in time", call);
        } else if self.is_undecided(id) {
            let reason = "the application has not decided whether it wants the object";
            self.end_early(id, reason, call);
        }
    }
}
