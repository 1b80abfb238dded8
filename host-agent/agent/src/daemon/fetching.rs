//! `fetch`: asks one or several hosts for an object, and receives it at a port of its own.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{
    ExpectRequest, FetchRequest, FlowId, FlowRecord, MAX_SENDERS, Refusal, Scheme, Status,
    Transport,
};
use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use super::clients::ClientId;
use super::prepare::Source;
use super::sending::{Outbound, Preparation, check_hosts, check_priority, open};
use super::service::Service;
use super::sink::Target;
use super::timers::Timer;
use super::transfers::{Fetching, Flow, Incoming, Kind, Stage, TransferId, Wanted};
use crate::api::message::{Error, ErrorCode, Fetch};
use crate::printable::printable;
use crate::transports::Transports;

/// Time for the first byte: the server may have to hash its file first.
const PATIENCE_MS: u64 = 60_000;
const MAX_PATIENCE_MS: u64 = 86_400_000;

impl Service {
    pub(super) fn fetch(
        &mut self,
        client: ClientId,
        request: u64,
        fetch: Fetch,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        check_priority(fetch.priority)?;
        check_hosts(&fetch.from, self.address())?;
        if fetch.from.len() > usize::from(MAX_SENDERS) {
            let message = format!("an object can be fetched from at most {MAX_SENDERS} hosts");
            return Err(Error::new(ErrorCode::NotPossible, message));
        }
        EnvelopeHeader::check_name(&fetch.name)
            .map_err(|error| Error::new(ErrorCode::BadRequest, error))?;
        open(transports, fetch.scheme)?;
        let target = self.target(descriptor, fetch.overwrite);
        let hosts = fetch.from.iter().map(|host| host.address).collect();
        let (scheme, progress, name) = (fetch.scheme, fetch.progress, fetch.name.clone());
        let what = Wanted::Fetch(fetch, target);
        let preparation = Preparation {
            client: Some(client),
            request,
            scheme,
            progress,
            name,
            source: Source::None,
            hosts,
        };
        self.prepare(what, preparation);
        Ok(None)
    }

    /// The servers can be reached.
    pub(super) fn start_fetch(
        &mut self,
        now: Instant,
        id: TransferId,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = std::mem::replace(&mut transfer.kind, Kind::Receive) else {
            return;
        };
        let (client, request) = (transfer.client, waiting.request);
        let Wanted::Fetch(fetch, target) = waiting.what else {
            return;
        };
        let result = match self.ask(now, id, fetch, target, transports) {
            Ok(()) => Ok(json!({"transfer": id})),
            Err(error) => {
                if let Some(transfer) = self.transfers.get_mut(&id) {
                    transfer.client = None;
                }
                self.cancel(now, id, "the fetch cannot start", transports);
                Err(error)
            }
        };
        if let Some(client) = client {
            self.reply(client, request, result);
        }
    }

    fn ask(
        &mut self,
        now: Instant,
        id: TransferId,
        fetch: Fetch,
        target: Target,
        transports: &mut Transports,
    ) -> Result<(), Error> {
        let scheme = fetch.scheme;
        let busy = || Error::new(ErrorCode::TooMany, "no port for the answer is free");
        let reply_port = self.next_port(scheme, transports).ok_or_else(busy)?;
        transports
            .listen(scheme, reply_port)
            .map_err(|error| Error::new(ErrorCode::InUse, format!("{error:#}")))?;
        let senders = fetch.from.len() as u8;
        let session = if senders > 1 { rand::random() } else { 0 };
        let mut expected = None;
        if senders > 1 {
            let expect = ExpectRequest {
                port: reply_port,
                session,
                senders: fetch.from.iter().map(|host| host.address).collect(),
            };
            let transport = transports.get(scheme).ok_or_else(busy)?;
            let flow = transport
                .expect(now, expect)
                .map_err(|error| Error::new(ErrorCode::NotPossible, error))?;
            expected = Some(flow);
        }
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return Ok(());
        };
        transfer.flows.extend(expected);
        transfer.kind = Kind::Fetch(Fetching {
            name: fetch.name.clone(),
            from: fetch.from.clone(),
            reply_port,
            expected,
            requests: BTreeSet::new(),
            target: Some(target),
            answered: false,
        });
        self.reply_ports.insert((scheme, reply_port));
        if let Some(flow) = expected {
            let peer = fetch.from[0].with_port(scheme.service_port());
            let incoming = Incoming {
                transfer: Some(id),
                listener: None,
                peer,
                local_port: reply_port,
                stage: Stage::Head(Vec::new()),
                received: 0,
            };
            self.flows
                .insert((scheme, flow), Flow::Incoming(Box::new(incoming)));
        }
        for (sender, host) in (0..).zip(&fetch.from) {
            let request = FetchRequest {
                name: fetch.name.clone(),
                reply_port,
                priority: fetch.priority,
                session,
                sender,
                senders,
            };
            let bytes = request
                .encode()
                .map_err(|error| Error::new(ErrorCode::BadRequest, error))?;
            let outbound = Outbound {
                source: std::sync::Arc::new(bytes),
                to: host.with_port(scheme.service_port()),
                priority: fetch.priority,
                part: None,
            };
            let flow = self.start_flow(now, scheme, outbound, transports)?;
            let message = Flow::Message {
                transfer: Some(id),
                peer: host.address,
            };
            self.flows.insert((scheme, flow), message);
            if let Some(fetching) = self.fetching(id) {
                fetching.requests.insert(flow);
            }
        }
        let patience = fetch.timeout_ms.unwrap_or(PATIENCE_MS).min(MAX_PATIENCE_MS);
        self.timers
            .set(now + Duration::from_millis(patience), Timer::Patience(id));
        Ok(())
    }

    fn fetching(&mut self, id: TransferId) -> Option<&mut Fetching> {
        match &mut self.transfers.get_mut(&id)?.kind {
            Kind::Fetch(fetching) => Some(fetching),
            _ => None,
        }
    }

    /// A flow came to a reply port: the fetch it belongs to, if it comes from one of its servers.
    pub(super) fn fetch_answered(
        &mut self,
        scheme: Scheme,
        port: u16,
        peer: Ipv4Addr,
    ) -> Option<TransferId> {
        self.transfers.iter_mut().find_map(|(id, transfer)| {
            let Kind::Fetch(fetching) = &mut transfer.kind else {
                return None;
            };
            let ours = transfer.scheme == scheme
                && fetching.reply_port == port
                && fetching.from.iter().any(|host| host.address == peer);
            ours.then_some(*id)
        })
    }

    /// Where the object of a fetch goes. The first one that comes is it.
    pub(super) fn target_of_fetch(
        &mut self,
        transfer: Option<TransferId>,
        header: &EnvelopeHeader,
    ) -> Result<Target, String> {
        let fetching = transfer.and_then(|id| self.fetching(id));
        let fetching = fetching.ok_or("nobody has asked for this object")?;
        if header.name != fetching.name {
            return Err(format!(
                "`{}` was asked for and `{}` came",
                printable(&fetching.name),
                printable(&header.name)
            ));
        }
        fetching.answered = true;
        fetching
            .target
            .take()
            .ok_or_else(|| "the object has come already".to_owned())
    }

    /// A server has the request.
    pub(super) fn request_confirmed(&mut self, transfer: Option<TransferId>, flow: FlowId) {
        let Some(id) = transfer else { return };
        if let Some(fetching) = self.fetching(id) {
            fetching.requests.remove(&flow);
            self.end_if_done(id);
        }
    }

    /// A server cannot be reached, or does not take requests.
    pub(super) fn request_failed(
        &mut self,
        now: Instant,
        transfer: Option<TransferId>,
        flow: FlowId,
        peer: Ipv4Addr,
        record: &FlowRecord,
        transport: &mut dyn Transport,
    ) {
        let Some(id) = transfer else { return };
        let Some(fetching) = self.fetching(id) else {
            return;
        };
        fetching.requests.remove(&flow);
        let why = match &record.status {
            Status::Failed(reason) => reason,
            Status::Finished => return,
        };
        let reason = format!("does not take the request: {why}");
        self.lose_server(now, id, peer, &reason, transport);
    }

    /// One server less. Others may have the object; the transport ends the flow when none is left.
    fn lose_server(
        &mut self,
        now: Instant,
        id: TransferId,
        peer: Ipv4Addr,
        reason: &str,
        transport: &mut dyn Transport,
    ) {
        match self.fetching(id).and_then(|fetching| fetching.expected) {
            Some(flow) => {
                transport.drop_sender(now, flow, peer, reason);
                self.end_if_done(id);
            }
            None => self.abort_transfer(now, id, &format!("{peer} {reason}"), transport),
        }
    }

    /// A server has told why it does not send the object.
    pub(super) fn fetch_refused(
        &mut self,
        now: Instant,
        transfer: Option<TransferId>,
        flow: FlowId,
        peer: Ipv4Addr,
        refusal: &Refusal,
        transport: &mut dyn Transport,
    ) {
        let Some(id) = transfer else { return };
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.flows.remove(&flow);
        }
        let reason = format!("refuses: {}", printable(&refusal.message));
        self.lose_server(now, id, peer, &reason, transport);
    }
}
