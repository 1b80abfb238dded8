//! A send: one flow to each receiver, or one to the group of them. What has to be prepared first,
//! and source ports.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::{Envelope, EnvelopeHeader, ObjectSource};
use ebb_transport::{
    FlowId, GroupRequest, Part, SendError, SendRequest, Transport, TransportKind, Via,
    group_address,
};
use ebb_units::Instant;

use crate::application::HostApplication;
use crate::environment::{Call, ClientId, Content, Engine, Key, Prepared, Storage, Task};
use crate::request::{Error, ErrorCode, Peer, SendObject};
use crate::transfers::{Flow, Kind, Outgoing, TransferId, Waiting, Wanted};

/// The highest priority of a transfer.
const MAX_PRIORITY: u8 = 7;

/// Something to send to one host, and how.
pub(crate) struct Outbound {
    /// Bytes of the stream.
    pub source: Arc<dyn ObjectSource>,
    /// Address and port of the receiver.
    pub to: SocketAddrV4,
    /// 0 (normal) to 7 (most urgent).
    pub priority: u8,
    /// The part that this host sends of what several send together. `None`: it sends all.
    pub part: Option<Part>,
    /// Connection that it takes, where connections stay open.
    pub via: Via,
}

/// Preparation of an object before its transfer can start.
pub(crate) struct Preparation<Source> {
    /// Client that gets the result. None: another host requested the object.
    pub client: Option<ClientId>,
    /// The request to answer.
    pub request: u64,
    /// Transport that carries it.
    pub transport: TransportKind,
    /// Whether the client gets [`crate::Notice::Progress`].
    pub progress: bool,
    /// Name of the object.
    pub name: String,
    /// Its bytes, or where they come from.
    pub content: Content<Source>,
    /// Hosts that the object goes to.
    pub hosts: Vec<Ipv4Addr>,
}

/// The connection of this number, or any.
pub(crate) fn numbered(connection: Option<u32>) -> Via {
    connection.map_or(Via::Any, Via::Number)
}

pub(crate) fn check_priority(priority: u8) -> Result<(), Error> {
    if priority > MAX_PRIORITY {
        let message = format!("priority {priority}: 0 (normal) to {MAX_PRIORITY} (most urgent)");
        return Err(Error::new(ErrorCode::BadRequest, message));
    }
    Ok(())
}

/// Each host once, and none of them this one.
pub(crate) fn check_hosts(hosts: &[Peer], own: Ipv4Addr) -> Result<(), Error> {
    if hosts.iter().any(|host| host.address == own) {
        let message = format!("{own} is this host itself; a transfer needs another one");
        return Err(Error::new(ErrorCode::NotPossible, message));
    }
    let different: BTreeSet<Ipv4Addr> = hosts.iter().map(|host| host.address).collect();
    if hosts.is_empty() || different.len() != hosts.len() {
        let message = "one or more hosts are needed, each of them once";
        return Err(Error::new(ErrorCode::BadRequest, message));
    }
    Ok(())
}

/// Makes sure that the transport runs here.
pub(crate) fn open(engine: &mut dyn Engine, kind: TransportKind) -> Result<(), Error> {
    let opened = engine.open(kind);
    opened.map_err(|error| Error::new(ErrorCode::TooMany, error))
}

impl<S: Storage> HostApplication<S> {
    /// Sends an object. The answer is an [`crate::Output::Reply`].
    pub fn send(
        &mut self,
        now: Instant,
        (client, request): (ClientId, u64),
        send: SendObject,
        source: S::Source,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        self.check_room(client)?;
        check_priority(send.priority)?;
        check_hosts(&send.to, self.address)?;
        open(call.engine, send.transport)?;
        let preparation = Preparation {
            client: Some(client),
            request,
            transport: send.transport,
            progress: send.progress,
            name: send.name.clone(),
            content: Content::From(source),
            hosts: send.to.iter().map(|host| host.address).collect(),
        };
        self.prepare(Wanted::Send(send), preparation, call);
        Ok(())
    }

    /// Whether a client may open one more transfer.
    pub(crate) fn check_room(&self, client: ClientId) -> Result<(), Error> {
        let most = self.limits.transfers_per_client;
        if self.open_transfers.of(&client) >= most {
            let message = format!("{most} transfers of this client are open");
            return Err(Error::new(ErrorCode::TooMany, message));
        }
        Ok(())
    }

    /// Has a transfer wait for its object.
    pub(crate) fn prepare(
        &mut self,
        what: Wanted<S>,
        preparation: Preparation<S::Source>,
        call: &mut Call<'_>,
    ) {
        let waiting = Waiting {
            request: preparation.request,
            what,
            envelope: None,
        };
        let ticket = self.new_transfer(
            call.now,
            preparation.client,
            preparation.transport,
            preparation.progress,
            Kind::Waiting(Box::new(waiting)),
        );
        let task = Task {
            ticket,
            owner: preparation.client,
            name: preparation.name,
            content: preparation.content,
            hosts: preparation.hosts,
        };
        if let Some(result) = self.storage.prepare(task) {
            self.prepared(ticket, result, call);
        }
    }

    /// The object of the waiting transfer `ticket` is prepared, or cannot be.
    pub fn handle_prepared(
        &mut self,
        now: Instant,
        ticket: u64,
        result: Prepared,
        engine: &mut dyn Engine,
    ) {
        let call = &mut Call { now, engine };
        self.prepared(ticket, result, call);
        self.answer_all(call);
    }

    fn prepared(&mut self, id: TransferId, result: Prepared, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = &mut transfer.kind else {
            return;
        };
        waiting.envelope = match result {
            Ok(envelope) => envelope,
            Err(error) => {
                self.not_prepared(id, error, call);
                return;
            }
        };
        match &waiting.what {
            Wanted::Send(send) => match send.start_at {
                Some(at) => self.set_deadline(id, at),
                None => self.start_send(id, call),
            },
            Wanted::Offer => self.offer_prepared(id),
            Wanted::Fetch(..) => self.start_fetch(id, call),
            Wanted::Serve(..) => self.start_serve(id, call),
        }
    }

    fn not_prepared(&mut self, id: TransferId, error: Error, call: &mut Call<'_>) {
        let Some(transfer) = self.remove_transfer(id) else {
            return;
        };
        let Kind::Waiting(waiting) = transfer.kind else {
            return;
        };
        match waiting.what {
            Wanted::Serve(_, asker) => {
                self.refuse_unprepared(transfer.transport, asker, error, call);
            }
            _ => self.reply(transfer.client, waiting.request, Err(error)),
        }
    }

    /// The time of a transfer has come.
    pub(crate) fn start_send(&mut self, id: TransferId, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = std::mem::replace(&mut transfer.kind, Kind::Send) else {
            return;
        };
        transfer.started = Some(call.now);
        let (client, request) = (transfer.client, waiting.request);
        let (Wanted::Send(send), Some(envelope)) = (waiting.what, waiting.envelope) else {
            return;
        };
        let result = self.start_flows(id, &send, &envelope, call);
        if result.is_err() {
            // A flow that the client never heard of ends without a word.
            self.disown(id);
            let reason = "another flow of the transfer cannot start";
            self.end_early(id, reason, call);
        }
        self.reply(client, request, result.map(|()| Some(id)));
    }

    fn start_flows(
        &mut self,
        id: TransferId,
        send: &SendObject,
        envelope: &Arc<Envelope>,
        call: &mut Call<'_>,
    ) -> Result<(), Error> {
        let grouped = send.group.is_some() || (send.to.len() > 1 && !send.unicast);
        if grouped {
            let (flow, group) = self.start_group(send, envelope, call)?;
            self.sending(id, (send.transport, flow), envelope.header().clone(), group);
            return Ok(());
        }
        for host in &send.to {
            let to = host.with_port(send.transport.service_port());
            let outbound = Outbound {
                source: envelope.clone(),
                to,
                priority: send.priority,
                part: None,
                via: numbered(send.connection),
            };
            let flow = self.start_flow(send.transport, outbound, call)?;
            self.sending(id, (send.transport, flow), envelope.header().clone(), to);
        }
        Ok(())
    }

    fn start_group(
        &mut self,
        send: &SendObject,
        envelope: &Arc<Envelope>,
        call: &mut Call<'_>,
    ) -> Result<(FlowId, SocketAddrV4), Error> {
        let receivers: Vec<Ipv4Addr> = send.to.iter().map(|host| host.address).collect();
        let port = send.to[0].with_port(send.transport.service_port()).port();
        if send
            .to
            .iter()
            .any(|host| host.port.is_some_and(|other| other != port))
        {
            let message = "the receivers of a group all listen on the same port";
            return Err(Error::new(ErrorCode::BadRequest, message));
        }
        let address = send
            .group
            .unwrap_or_else(|| group_address(receivers.iter().copied()));
        let group = SocketAddrV4::new(address, port);
        let source: Arc<dyn ObjectSource> = envelope.clone();
        let flow =
            self.with_source_port(send.transport, call.engine, |transport, source_port| {
                transport.send_group(
                    call.now,
                    GroupRequest {
                        group,
                        receivers: receivers.clone(),
                        source_port,
                        source: source.clone(),
                        priority: send.priority,
                    },
                )
            })?;
        Ok((flow, group))
    }

    pub(crate) fn start_flow(
        &mut self,
        kind: TransportKind,
        outbound: Outbound,
        call: &mut Call<'_>,
    ) -> Result<FlowId, Error> {
        self.with_source_port(kind, call.engine, |transport, source_port| {
            transport.send(
                call.now,
                SendRequest {
                    to: outbound.to,
                    source_port,
                    source: outbound.source.clone(),
                    priority: outbound.priority,
                    part: outbound.part,
                    via: outbound.via,
                },
            )
        })
    }

    /// Tries the ports for flows of this host in turn, or has the transport pick one.
    fn with_source_port(
        &mut self,
        kind: TransportKind,
        engine: &mut dyn Engine,
        mut send: impl FnMut(&mut dyn Transport, Option<u16>) -> Result<FlowId, SendError>,
    ) -> Result<FlowId, Error> {
        open(engine, kind)?;
        let mut result = Err(Error::new(
            ErrorCode::TooMany,
            format!("no source port for {kind} is free"),
        ));
        let sources = engine.ports(kind).and_then(|ports| ports.sources);
        let tries = sources.map_or(1, |(first, last)| usize::from(last - first) + 1);
        for _ in 0..tries {
            let port = sources.and_then(|range| self.next_port(kind, range));
            if sources.is_some() && port.is_none() {
                break;
            }
            let Some(transport) = engine.transport(kind) else {
                break;
            };
            match send(transport, port) {
                Ok(flow) => return Ok(flow),
                Err(error @ SendError::PortInUse { .. }) => {
                    result = Err(Error::new(ErrorCode::TooMany, error));
                }
                Err(error @ SendError::TooManyFlows { .. }) => {
                    return Err(Error::new(ErrorCode::TooMany, error));
                }
                Err(error) => return Err(Error::new(ErrorCode::NotPossible, error)),
            }
        }
        result
    }

    /// The next port of the range from `first` to `last` at which no reply is awaited and nobody listens.
    pub(crate) fn next_port(
        &mut self,
        kind: TransportKind,
        (first, last): (u16, u16),
    ) -> Option<u16> {
        let mut port = self.last_ports.get(&kind).copied().unwrap_or(last);
        for _ in first..=last {
            port = if (first..last).contains(&port) {
                port + 1
            } else {
                first
            };
            let key = (kind, port);
            if !self.reply_ports.contains_key(&key) && self.listener_at(key).is_none() {
                self.last_ports.insert(kind, port);
                return Some(port);
            }
        }
        None
    }

    /// Notes a flow of a transfer that sends the object of `header`.
    pub(crate) fn sending(
        &mut self,
        transfer: TransferId,
        (kind, flow): Key,
        header: EnvelopeHeader,
        peer: SocketAddrV4,
    ) {
        if let Some(found) = self.transfers.get_mut(&transfer) {
            found.flows.insert(flow);
        }
        let outgoing = Outgoing {
            transfer,
            header,
            peer,
            heard: false,
        };
        self.flows.insert((kind, flow), Flow::Outgoing(outgoing));
    }

    /// A straggler continues alone, as one more flow of the transfer.
    pub(crate) fn detached(&mut self, (kind, flow): Key, straggler: FlowId, peer: SocketAddrV4) {
        if let Some(Flow::Outgoing(of)) = self.flows.get(&(kind, flow)) {
            let (transfer, header) = (of.transfer, of.header.clone());
            self.sending(transfer, (kind, straggler), header, peer);
        }
    }
}
