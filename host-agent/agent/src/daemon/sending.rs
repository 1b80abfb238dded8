//! `send`: one flow to each receiver, or one to the group of them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebb_transport::object::{Envelope, ObjectSource};
use ebb_transport::{FlowId, GroupRequest, Part, Scheme, SendError, SendRequest, group_address};
use ebb_units::Instant;
use serde_json::{Value, json};

use super::clients::ClientId;
use super::prepare::{Prepared, Source, Task};
use super::service::Service;
use super::timers::Timer;
use super::transfers::{Flow, Kind, Outgoing, TransferId, Waiting, Wanted};
use crate::api::MAX_START_NS;
use crate::api::message::{Error, ErrorCode, Generate, Send};
use crate::transports::Transports;

/// The highest priority of a transfer.
const MAX_PRIORITY: u8 = 7;
/// Source ports of a scheme, unless the process has opened it already.
pub const SOURCE_PORTS: u16 = 64;

/// Something to send and how.
pub(super) struct Outbound {
    pub source: Arc<dyn ObjectSource>,
    pub to: SocketAddrV4,
    pub priority: u8,
    pub part: Option<Part>,
}

/// What has to be done before a transfer can start, and for whom.
pub(super) struct Preparation {
    pub client: Option<ClientId>,
    /// The request to answer.
    pub request: u64,
    pub scheme: Scheme,
    pub progress: bool,
    pub name: String,
    pub source: Source,
    pub hosts: Vec<Ipv4Addr>,
}

pub(super) fn check_priority(priority: u8) -> Result<(), Error> {
    if priority > MAX_PRIORITY {
        let message = format!("priority {priority}: 0 (normal) to {MAX_PRIORITY} (most urgent)");
        return Err(Error::new(ErrorCode::BadRequest, message));
    }
    Ok(())
}

/// Each host once, and none of them this one.
pub(super) fn check_hosts(hosts: &[crate::api::message::Host], own: Ipv4Addr) -> Result<(), Error> {
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

fn check_start(at_ns: Option<u64>) -> Result<(), Error> {
    match at_ns {
        Some(at_ns) if at_ns > MAX_START_NS => {
            let message = format!("start_at_ns is {at_ns}; expected at most {MAX_START_NS}");
            Err(Error::new(ErrorCode::BadRequest, message))
        }
        _ => Ok(()),
    }
}

/// The file of the application, or what is made here.
pub(super) fn source(
    descriptor: Option<OwnedFd>,
    generate: Option<Generate>,
) -> Result<Source, Error> {
    match (descriptor, generate) {
        (Some(descriptor), None) => Ok(Source::Descriptor(descriptor)),
        (None, Some(generate)) => Ok(Source::Generated(generate)),
        _ => {
            let message = "nothing to send: a descriptor or `generate`, and not both";
            Err(Error::new(ErrorCode::BadRequest, message))
        }
    }
}

impl Service {
    pub(super) fn send(
        &mut self,
        client: ClientId,
        request: u64,
        send: Send,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        check_priority(send.priority)?;
        check_hosts(&send.to, self.address())?;
        check_start(send.start_at_ns)?;
        let source = source(descriptor, send.generate)?;
        let scheme = send.scheme;
        open(transports, scheme)?;
        let hosts = send.to.iter().map(|host| host.address).collect();
        let (name, progress) = (send.name.clone(), send.progress);
        let what = Wanted::Send(send);
        let preparation = Preparation {
            client: Some(client),
            request,
            scheme,
            progress,
            name,
            source,
            hosts,
        };
        self.prepare(what, preparation);
        Ok(None)
    }

    /// Has a transfer wait for its object.
    pub(super) fn prepare(&mut self, what: Wanted, preparation: Preparation) {
        let cancelled = Arc::<AtomicBool>::default();
        let waiting = Waiting {
            request: preparation.request,
            cancelled: cancelled.clone(),
            what,
            envelope: None,
        };
        let ticket = self.new_transfer(
            preparation.client,
            preparation.scheme,
            preparation.progress,
            Kind::Waiting(Box::new(waiting)),
        );
        self.preparer.submit(Task {
            ticket,
            owner: preparation.client,
            name: preparation.name,
            source: preparation.source,
            hosts: preparation.hosts,
            cancelled,
        });
    }

    /// The object of a waiting transfer is there, or there is none.
    pub(super) fn prepared(
        &mut self,
        now: Instant,
        id: TransferId,
        result: Prepared,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = &mut transfer.kind else {
            return;
        };
        let envelope = match result {
            Ok(envelope) => envelope,
            Err(error) => {
                self.not_prepared(now, id, error, transports);
                return;
            }
        };
        waiting.envelope = envelope;
        match &waiting.what {
            Wanted::Send(send) => match send.start_at_ns.map(Instant::from_nanos) {
                Some(at) if at > now => self.timers.set(at, Timer::Start(id)),
                _ => self.start_send(now, id, transports),
            },
            Wanted::Offer => self.offer_prepared(id),
            Wanted::Fetch(..) => self.start_fetch(now, id, transports),
            Wanted::Serve(..) => self.start_serve(now, id, transports),
        }
    }

    fn not_prepared(
        &mut self,
        now: Instant,
        id: TransferId,
        error: Error,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.remove(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = transfer.kind else {
            return;
        };
        match waiting.what {
            Wanted::Serve(_, to) => {
                self.refuse_unprepared(now, transfer.scheme, to, error, transports);
            }
            _ => {
                if let Some(client) = transfer.client {
                    self.reply(client, waiting.request, Err(error));
                }
            }
        }
    }

    /// The time of a transfer has come.
    pub(super) fn start_send(&mut self, now: Instant, id: TransferId, transports: &mut Transports) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = std::mem::replace(&mut transfer.kind, Kind::Send) else {
            return;
        };
        let (client, request) = (transfer.client, waiting.request);
        let (Wanted::Send(send), Some(envelope)) = (waiting.what, waiting.envelope) else {
            return;
        };
        let started = self.start_flows(now, id, &send, &envelope, transports);
        let result = match started {
            Ok(()) => Ok(json!({"transfer": id})),
            Err(error) => {
                self.cancel_unstarted(now, id, transports);
                Err(error)
            }
        };
        if let Some(client) = client {
            self.reply(client, request, result);
        }
    }

    /// What the client never heard of ends without a word.
    fn cancel_unstarted(&mut self, now: Instant, id: TransferId, transports: &mut Transports) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.client = None;
        }
        self.cancel(
            now,
            id,
            "another flow of the transfer cannot start",
            transports,
        );
    }

    fn start_flows(
        &mut self,
        now: Instant,
        id: TransferId,
        send: &Send,
        envelope: &Arc<Envelope>,
        transports: &mut Transports,
    ) -> Result<(), Error> {
        let port = send.scheme.service_port();
        let grouped = send.group.is_some() || (send.to.len() > 1 && !send.unicast);
        if grouped {
            let flow = self.start_group(now, send, envelope, transports)?;
            let group = flow.1;
            self.sending(id, send.scheme, flow.0, envelope, group);
            return Ok(());
        }
        for host in &send.to {
            let to = host.with_port(port);
            let outbound = Outbound {
                source: envelope.clone(),
                to,
                priority: send.priority,
                part: None,
            };
            let flow = self.start_flow(now, send.scheme, outbound, transports)?;
            self.sending(id, send.scheme, flow, envelope, to);
        }
        Ok(())
    }

    fn start_group(
        &mut self,
        now: Instant,
        send: &Send,
        envelope: &Arc<Envelope>,
        transports: &mut Transports,
    ) -> Result<(FlowId, SocketAddrV4), Error> {
        let receivers: Vec<Ipv4Addr> = send.to.iter().map(|host| host.address).collect();
        let port = send.to[0].with_port(send.scheme.service_port()).port();
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
        let flow = self.with_source_port(send.scheme, transports, |transport, source_port| {
            transport.send_group(
                now,
                GroupRequest {
                    group,
                    receivers: receivers.clone(),
                    source_port: Some(source_port),
                    source: source.clone(),
                    priority: send.priority,
                },
            )
        })?;
        Ok((flow, group))
    }

    pub(super) fn start_flow(
        &mut self,
        now: Instant,
        scheme: Scheme,
        outbound: Outbound,
        transports: &mut Transports,
    ) -> Result<FlowId, Error> {
        self.with_source_port(scheme, transports, |transport, source_port| {
            transport.send(
                now,
                SendRequest {
                    to: outbound.to,
                    source_port: Some(source_port),
                    source: outbound.source.clone(),
                    priority: outbound.priority,
                    part: outbound.part,
                },
            )
        })
    }

    /// Tries the ports of this process in turn, because only those are hidden from the kernel.
    fn with_source_port(
        &mut self,
        scheme: Scheme,
        transports: &mut Transports,
        mut send: impl FnMut(&mut dyn ebb_transport::Transport, u16) -> Result<FlowId, SendError>,
    ) -> Result<FlowId, Error> {
        open(transports, scheme)?;
        let mut result = Err(Error::new(
            ErrorCode::TooMany,
            format!("no source port for {scheme} is free"),
        ));
        let ports = transports
            .source_ports(scheme)
            .map_or(0, |range| usize::from(range.last - range.first) + 1);
        for _ in 0..ports {
            let Some(port) = self.next_port(scheme, transports) else {
                break;
            };
            let Some(transport) = transports.get(scheme) else {
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

    /// The next port of this process for `scheme` that no fetch waits on.
    pub(super) fn next_port(&mut self, scheme: Scheme, transports: &Transports) -> Option<u16> {
        let range = transports.source_ports(scheme)?;
        let last = self.last_ports.entry(scheme).or_insert(range.last);
        for _ in range.first..=range.last {
            *last = if range.contains(*last) && *last < range.last {
                *last + 1
            } else {
                range.first
            };
            if !self.reply_ports.contains(&(scheme, *last)) {
                return Some(*last);
            }
        }
        None
    }

    /// Notes a flow that sends `envelope`.
    pub(super) fn sending(
        &mut self,
        id: TransferId,
        scheme: Scheme,
        flow: FlowId,
        envelope: &Envelope,
        peer: SocketAddrV4,
    ) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.flows.insert(flow);
        }
        let outgoing = Outgoing {
            transfer: id,
            header: envelope.header().clone(),
            peer,
            heard: false,
        };
        self.flows.insert((scheme, flow), Flow::Outgoing(outgoing));
    }

    /// A straggler goes on alone, as one more flow of the transfer.
    pub(super) fn detached(
        &mut self,
        (scheme, flow): (Scheme, FlowId),
        straggler: FlowId,
        peer: SocketAddrV4,
    ) {
        let Some(Flow::Outgoing(of)) = self.flows.get(&(scheme, flow)) else {
            return;
        };
        let outgoing = Outgoing {
            transfer: of.transfer,
            header: of.header.clone(),
            peer,
            heard: false,
        };
        if let Some(transfer) = self.transfers.get_mut(&outgoing.transfer) {
            transfer.flows.insert(straggler);
        }
        self.flows
            .insert((scheme, straggler), Flow::Outgoing(outgoing));
    }
}

/// Makes sure that the scheme runs here.
pub(super) fn open(transports: &mut Transports, scheme: Scheme) -> Result<(), Error> {
    transports
        .open(scheme, SOURCE_PORTS)
        .map_err(|error| Error::new(ErrorCode::TooMany, format!("{error:#}")))
}
