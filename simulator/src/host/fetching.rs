//! The client's side of a fetch: asks one or several hosts for an object and receives it at a port
//! of its own. As `daemon/fetching.rs` of the agent does.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::{
    EPHEMERAL_PORTS, ExpectRequest, FetchRequest, FlowId, FlowRecord, Refusal, SendRequest, Status,
    Transport,
};
use ebb_units::Instant;
use ebb_workload::Transfer;
use rand::Rng;

use super::application::{Application, Flow, Incoming, Receiving, Stage};
use super::arrivals::Arrivals;

/// Answers come to ports below those that flows leave from, so that none is taken twice.
const REPLY_PORTS: (u16, u16) = (32_768, EPHEMERAL_PORTS.0 - 1);

pub(super) struct Fetching {
    asked: Instant,
    reply_port: u16,
    /// What is expected of several servers. It goes on without those that do not send.
    expected: Option<FlowId>,
    /// Requests that have not been confirmed.
    requests: BTreeSet<FlowId>,
    /// What comes to the reply port.
    flows: BTreeSet<FlowId>,
    /// The object has begun to arrive.
    answered: bool,
    failure: Option<String>,
    /// A flow has told how it ended.
    told: bool,
}

impl Application {
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        transfer: &Transfer,
        transport: &mut dyn Transport,
    ) {
        let id = transfer.id;
        if let Err(reason) = self.ask(now, transfer, transport) {
            if self.fetches.contains_key(&id) {
                self.abort_fetch(now, id, &reason, transport);
            } else {
                self.fail(now, id, reason);
            }
        }
    }

    fn ask(
        &mut self,
        now: Instant,
        transfer: &Transfer,
        transport: &mut dyn Transport,
    ) -> Result<(), String> {
        let id = transfer.id;
        let reply_port = self
            .free_reply_port()
            .ok_or("no port for the answer is free")?;
        transport.listen(reply_port).map_err(|e| e.to_string())?;
        let servers = self.catalog.addresses_of(&transfer.sources);
        let senders = servers.len() as u8;
        let session = if senders > 1 { self.rng.random() } else { 0 };
        let mut expected = None;
        if senders > 1 {
            let expect = ExpectRequest {
                port: reply_port,
                session,
                senders: servers.clone(),
            };
            let flow = transport.expect(now, expect).map_err(|e| e.to_string())?;
            let incoming = Incoming {
                peer: self.catalog.service(transfer.sources[0]),
                local_port: reply_port,
                stage: Stage::Head(Vec::new()),
                arrivals: Arrivals::default(),
            };
            self.flows.insert(flow, Flow::Incoming(Box::new(incoming)));
            expected = Some(flow);
        }
        self.reply_ports.insert(reply_port, id);
        let fetching = Fetching {
            asked: now,
            reply_port,
            expected,
            requests: BTreeSet::new(),
            flows: expected.into_iter().collect(),
            answered: false,
            failure: None,
            told: false,
        };
        self.fetches.insert(id, fetching);
        self.patience.insert((now + self.catalog.patience, id));
        for (sender, &host) in (0..).zip(&transfer.sources) {
            let request = FetchRequest {
                name: self.catalog.name(id),
                reply_port,
                priority: transfer.priority,
                session,
                sender,
                senders,
            };
            let server = self.catalog.service(host);
            let request = SendRequest {
                to: server,
                source_port: None,
                source: Arc::new(request.encode().map_err(|e| e.to_string())?),
                priority: transfer.priority,
                part: None,
            };
            let flow = transport.send(now, request).map_err(|e| e.to_string())?;
            let transfer = id;
            self.flows.insert(flow, Flow::Request { transfer, server });
            if let Some(fetching) = self.fetches.get_mut(&id) {
                fetching.requests.insert(flow);
            }
        }
        Ok(())
    }

    fn free_reply_port(&mut self) -> Option<u16> {
        let (first, last) = REPLY_PORTS;
        for _ in first..=last {
            self.last_reply_port = match self.last_reply_port {
                port if (first..last).contains(&port) => port + 1,
                _ => first,
            };
            if !self.reply_ports.contains_key(&self.last_reply_port) {
                return Some(self.last_reply_port);
            }
        }
        None
    }

    /// A flow has come to a port; if to a reply port, it is one of that fetch.
    pub(super) fn fetch_opened(&mut self, flow: FlowId, port: u16) {
        let fetch = self.reply_ports.get(&port);
        if let Some(fetching) = fetch.and_then(|id| self.fetches.get_mut(id)) {
            fetching.flows.insert(flow);
        }
    }

    /// An object has begun to arrive at a reply port.
    pub(super) fn fetch_begins(
        &mut self,
        port: u16,
        transfer: Option<u64>,
    ) -> Result<(), &'static str> {
        let id = *self
            .reply_ports
            .get(&port)
            .ok_or("nobody has asked for this object")?;
        let fetching = self.fetches.get_mut(&id);
        let fetching = fetching.ok_or("nobody has asked for this object")?;
        if transfer != Some(id) {
            return Err("another object was asked for");
        }
        if std::mem::replace(&mut fetching.answered, true) {
            return Err("the object has come already");
        }
        Ok(())
    }

    /// A flow to a reply port has ended. `object`: what came, and whether all of it.
    pub(super) fn fetch_flow_ended(
        &mut self,
        now: Instant,
        port: u16,
        flow: FlowId,
        record: FlowRecord,
        object: Option<(Receiving, bool)>,
        transport: &mut dyn Transport,
    ) {
        let Some(&id) = self.reply_ports.get(&port) else {
            return;
        };
        let Some(fetching) = self.fetches.get_mut(&id) else {
            return;
        };
        fetching.flows.remove(&flow);
        fetching.told = true;
        if let Status::Failed(reason) = &record.status {
            fetching.failure.get_or_insert_with(|| reason.clone());
        }
        let asked = fetching.asked;
        let intact = object
            .as_ref()
            .and_then(|(object, all)| all.then(|| object.is_right()));
        let object = object.map(|(object, _)| object.object);
        self.tell_flow(id, Some(asked), object, intact, record);
        self.end_fetch_if_done(now, id, transport);
    }

    /// A server has the request, or cannot be reached.
    pub(super) fn request_ended(
        &mut self,
        now: Instant,
        id: u64,
        flow: FlowId,
        server: SocketAddrV4,
        record: &FlowRecord,
        transport: &mut dyn Transport,
    ) {
        let Some(fetching) = self.fetches.get_mut(&id) else {
            return;
        };
        fetching.requests.remove(&flow);
        match &record.status {
            Status::Finished => self.end_fetch_if_done(now, id, transport),
            Status::Failed(why) => {
                let reason = format!("does not take the request: {why}");
                self.lose_server(now, id, *server.ip(), &reason, transport);
            }
        }
    }

    pub(super) fn fetch_refused(
        &mut self,
        now: Instant,
        port: u16,
        flow: FlowId,
        peer: SocketAddrV4,
        refusal: &Refusal,
        transport: &mut dyn Transport,
    ) {
        let Some(&id) = self.reply_ports.get(&port) else {
            return;
        };
        if let Some(fetching) = self.fetches.get_mut(&id) {
            fetching.flows.remove(&flow);
        }
        let reason = format!("refuses: {}", refusal.message);
        self.lose_server(now, id, *peer.ip(), &reason, transport);
    }

    /// One server less. Others may have the object; the transport ends the flow when none is left.
    fn lose_server(
        &mut self,
        now: Instant,
        id: u64,
        server: Ipv4Addr,
        reason: &str,
        transport: &mut dyn Transport,
    ) {
        match self.fetches.get(&id).and_then(|fetching| fetching.expected) {
            Some(flow) => {
                transport.drop_sender(now, flow, server, reason);
                self.end_fetch_if_done(now, id, transport);
            }
            None => self.abort_fetch(now, id, &format!("{server} {reason}"), transport),
        }
    }

    pub(super) fn patience_ended(&mut self, now: Instant, id: u64, transport: &mut dyn Transport) {
        if self.fetches.get(&id).is_some_and(|f| !f.answered) {
            self.abort_fetch(now, id, "no server has answered in time", transport);
        }
    }

    fn abort_fetch(&mut self, now: Instant, id: u64, reason: &str, transport: &mut dyn Transport) {
        let Some(fetching) = self.fetches.get_mut(&id) else {
            return;
        };
        fetching.failure.get_or_insert_with(|| reason.to_owned());
        let requests = std::mem::take(&mut fetching.requests);
        for &flow in fetching.flows.iter().chain(&requests) {
            transport.abort(now, flow, reason);
        }
        self.end_fetch_if_done(now, id, transport);
    }

    /// Ends a fetch of which nothing is open any more.
    fn end_fetch_if_done(&mut self, now: Instant, id: u64, transport: &mut dyn Transport) {
        let Some(fetching) = self.fetches.get(&id) else {
            return;
        };
        // What came from several servers is complete without one that never answers.
        let asking = fetching.expected.is_none() && !fetching.requests.is_empty();
        let waits = fetching.failure.is_none() && (!fetching.answered || asking);
        if waits || !fetching.flows.is_empty() {
            return;
        }
        let Some(fetching) = self.fetches.remove(&id) else {
            return;
        };
        self.reply_ports.remove(&fetching.reply_port);
        transport.unlisten(fetching.reply_port);
        self.patience
            .remove(&(fetching.asked + self.catalog.patience, id));
        match fetching.failure {
            Some(reason) if !fetching.told => self.fail(now, id, reason),
            failure => {
                let good = failure.is_none();
                self.share.handle_end(now.as_nanos(), id, good);
            }
        }
    }
}
