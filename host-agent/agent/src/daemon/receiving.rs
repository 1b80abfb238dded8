//! What arrives: objects for a listener or a fetch, requests of others, and their refusals.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{FlowId, FlowRecord, Scheme, Status, StreamHead, Transport};
use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use super::Command;
use super::clients::ClientId;
use super::service::Service;
use super::sink::Target;
use super::sinks::{SinkId, Sinks, Update};
use super::timers::Timer;
use super::transfers::{Flow, Incoming, Kind, Receiving, Stage, TransferId};
use crate::api::message::{Accept, Error, ErrorCode, Event, Into};
use crate::objects::check_file_name;
use crate::transports::Transports;

/// How long an application may think about an object that was announced.
const DECISION_PATIENCE: Duration = Duration::from_millis(30_000);
/// Packets delivered between two looks at the buffers that are done with.
const RECYCLE_INTERVAL: u64 = 32;

impl Service {
    pub(super) fn opened(
        &mut self,
        (scheme, flow): (Scheme, FlowId),
        local_port: u16,
        peer: SocketAddrV4,
    ) {
        let listener = self
            .listeners
            .iter()
            .find(|(_, listener)| listener.scheme == scheme && listener.port == local_port)
            .map(|(id, listener)| (*id, listener.client, listener.progress));
        let mut transfer = None;
        if let Some((_, client, progress)) = listener {
            transfer = Some(self.new_transfer(Some(client), scheme, progress, Kind::Receive));
        } else if self.reply_ports.contains(&(scheme, local_port)) {
            transfer = self.fetch_answered(scheme, local_port, *peer.ip());
        }
        let incoming = Incoming {
            transfer,
            listener: listener.map(|(id, ..)| id),
            peer,
            local_port,
            stage: Stage::Head(Vec::new()),
            received: 0,
        };
        self.flows
            .insert((scheme, flow), Flow::Incoming(Box::new(incoming)));
        // Without a transfer it may still be a request; an object for nobody is refused.
        if let Some(transfer) = transfer.and_then(|id| self.transfers.get_mut(&id)) {
            transfer.flows.insert(flow);
        }
    }

    pub(super) fn delivered(
        &mut self,
        now: Instant,
        key: (Scheme, FlowId),
        bytes: Vec<u8>,
        transport: &mut dyn Transport,
    ) {
        self.deliveries += 1;
        if self.deliveries.is_multiple_of(RECYCLE_INTERVAL) {
            self.sinks.take_returned(&mut self.returned);
            for buffer in self.returned.drain(..) {
                transport.recycle(buffer);
            }
        }
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            transport.recycle(bytes);
            return;
        };
        incoming.received += bytes.len() as u64;
        match &mut incoming.stage {
            Stage::Object(object) => {
                if self.sinks.push(object.sink, &object.backlog, bytes) {
                    transport.set_paused(now, key.1, true);
                }
            }
            Stage::Head(head) => {
                head.extend_from_slice(&bytes);
                transport.recycle(bytes);
                match StreamHead::read(head) {
                    Ok(None) => {}
                    Ok(Some(StreamHead::Object(header))) => {
                        let head = std::mem::take(head);
                        self.object_begins(now, key, header, head, transport);
                    }
                    Ok(Some(StreamHead::Request(request))) => {
                        incoming.stage = Stage::Request(request);
                        // Not an object for the listener of the port.
                        if incoming.listener.take().is_some()
                            && let Some(id) = incoming.transfer.take()
                        {
                            self.transfers.remove(&id);
                        }
                    }
                    Ok(Some(StreamHead::Refusal(refusal))) => {
                        incoming.stage = Stage::Refusal(refusal);
                    }
                    Err(error) => transport.abort(now, key.1, &error.to_string()),
                }
            }
            Stage::Refused(..) => transport.recycle(bytes),
            Stage::Request(_) | Stage::Refusal(_) => {
                transport.abort(now, key.1, "the stream goes on after its end");
            }
        }
    }

    /// The envelope of an object is known: who wants its content?
    fn object_begins(
        &mut self,
        now: Instant,
        (scheme, flow): (Scheme, FlowId),
        header: EnvelopeHeader,
        head: Vec<u8>,
        transport: &mut dyn Transport,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get(&(scheme, flow)) else {
            return;
        };
        let (listener, transfer) = (incoming.listener, incoming.transfer);
        let (peer, port) = (incoming.peer, incoming.local_port);
        let target = match listener {
            Some(listener) => self.target_of_listener(listener),
            None => self.target_of_fetch(transfer, &header),
        };
        // A name that no file may have is refused before its content comes.
        let target = target.and_then(|target| match &target {
            Target::Directory { .. } => check_file_name(&header.name).map(|()| target),
            _ => Ok(target),
        });
        let target = match target {
            Ok(target) => target,
            Err(reason) => {
                transport.abort(now, flow, &reason);
                // All of it may have come already: then its end follows.
                if let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&(scheme, flow)) {
                    incoming.stage = Stage::Refused(header, reason);
                }
                return;
            }
        };
        let undecided = matches!(target, Target::Undecided);
        if let (Some(listener), Some(transfer)) = (listener, transfer) {
            let announced = self.listeners.get(&listener).is_some_and(|l| l.announce);
            if undecided || announced {
                self.announce(transfer, listener, scheme, (port, peer), &header);
            }
            if undecided {
                let at = now + DECISION_PATIENCE;
                self.timers.set(at, Timer::Patience(transfer));
            }
        }
        let (sink, backlog) = self.sinks.open(target);
        self.by_sink.insert(sink, (scheme, flow));
        let mut pause = self.sinks.push(sink, &backlog, head);
        if undecided {
            Sinks::hold(&backlog);
            pause = true;
        }
        if pause {
            transport.set_paused(now, flow, true);
        }
        if let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&(scheme, flow)) {
            incoming.stage = Stage::Object(Receiving {
                header,
                sink,
                backlog,
                undecided,
                delivered: None,
            });
        }
    }

    fn target_of_listener(&mut self, listener: u64) -> Result<Target, String> {
        let unique = self.unique();
        let Some(listener) = self.listeners.get(&listener) else {
            return Err("the application has gone".to_owned());
        };
        Ok(match (listener.into, &listener.directory) {
            (Into::Directory, Some(dir)) => Target::Directory {
                dir: dir.clone(),
                unique,
                existing: listener.existing,
            },
            (Into::Ask, _) => Target::Undecided,
            _ => Target::Discard,
        })
    }

    fn announce(
        &self,
        transfer: TransferId,
        listener: u64,
        scheme: Scheme,
        (port, peer): (u16, SocketAddrV4),
        header: &EnvelopeHeader,
    ) {
        let client = self.transfers.get(&transfer).and_then(|t| t.client);
        let sha256 = header.sha256.iter().map(|byte| format!("{byte:02x}"));
        let event = Event::Incoming {
            transfer,
            listener,
            scheme,
            local: SocketAddrV4::new(self.address(), port),
            peer,
            name: header.name.clone(),
            object_bytes: header.content_bytes,
            sha256: sha256.collect(),
        };
        self.tell(client, &event);
    }

    /// The application takes an object that was announced.
    pub(super) fn accept(
        &mut self,
        client: ClientId,
        accept: &Accept,
        descriptor: Option<OwnedFd>,
    ) -> Result<Value, Error> {
        let transfer = accept.transfer;
        self.own_undecided(client, transfer)?;
        let target = self.target(descriptor, accept.overwrite);
        let mut flows = self.flows.values_mut();
        let object = flows.find_map(|flow| match flow {
            Flow::Incoming(incoming) if incoming.transfer == Some(transfer) => {
                match &mut incoming.stage {
                    Stage::Object(object) => Some(object),
                    _ => None,
                }
            }
            _ => None,
        });
        if let Some(object) = object {
            object.undecided = false;
            self.sinks.decide(object.sink, target);
        }
        Ok(json!({}))
    }

    /// Whether the transfer waits for this client to decide.
    pub(super) fn own_undecided(&mut self, client: ClientId, id: TransferId) -> Result<(), Error> {
        self.own_transfer(client, id)?;
        if self.is_undecided(id) {
            return Ok(());
        }
        let message = format!("transfer {id} does not wait for a decision");
        Err(Error::new(ErrorCode::BadRequest, message))
    }

    pub(super) fn is_undecided(&self, id: TransferId) -> bool {
        let Some(transfer) = self.transfers.get(&id) else {
            return false;
        };
        transfer.flows.iter().any(|flow| {
            let Some(Flow::Incoming(incoming)) = self.flows.get(&(transfer.scheme, *flow)) else {
                return false;
            };
            matches!(&incoming.stage, Stage::Object(object) if object.undecided)
        })
    }

    /// Everything was delivered, or a flow of ours was confirmed.
    pub(super) fn finished(
        &mut self,
        now: Instant,
        key: (Scheme, FlowId),
        record: FlowRecord,
        transport: &mut dyn Transport,
    ) {
        match self.flows.get_mut(&key) {
            None => transport.abort(now, key.1, "nobody waits for it any more"),
            Some(Flow::Outgoing(outgoing)) => {
                let (transfer, header) = (outgoing.transfer, outgoing.header.clone());
                self.flows.remove(&key);
                self.flow_ended(Some(transfer), key, Some(&header), None, &record);
            }
            Some(Flow::Message { transfer, .. }) => {
                let transfer = *transfer;
                self.flows.remove(&key);
                self.request_confirmed(transfer, key.1);
            }
            Some(Flow::Incoming(incoming)) => match &mut incoming.stage {
                Stage::Object(object) => {
                    // The sink says what becomes of it; then the sender hears that too.
                    object.delivered = Some(Box::new(record));
                    self.sinks.end(object.sink);
                }
                Stage::Request(request) => {
                    let request = Command::Requested {
                        scheme: key.0,
                        request: request.clone(),
                        peer: *incoming.peer.ip(),
                    };
                    self.flows.remove(&key);
                    transport.confirm(now, key.1);
                    self.mailbox.send(request);
                }
                Stage::Refusal(refusal) => {
                    let (refusal, peer) = (refusal.clone(), *incoming.peer.ip());
                    let transfer = incoming.transfer;
                    self.flows.remove(&key);
                    transport.confirm(now, key.1);
                    self.fetch_refused(now, transfer, key.1, peer, &refusal, transport);
                }
                Stage::Refused(_, reason) => {
                    let record = failed_record(record, reason);
                    self.end_incoming(key, None, record);
                }
                Stage::Head(_) => {
                    let reason = "the stream ended before it said what it is";
                    transport.abort(now, key.1, reason);
                    self.end_incoming(key, None, failed_record(record, reason));
                }
            },
        }
    }

    /// An object is where it was to go.
    fn written(&mut self, key: (Scheme, FlowId)) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            return;
        };
        if let Stage::Object(object) = &mut incoming.stage
            && let Some(record) = object.delivered.take()
        {
            let counts = self.counts.entry(key.0).or_default();
            counts.content_bytes_received += object.header.content_bytes;
            self.end_incoming(key, Some(true), *record);
        }
    }

    /// An object arrived and is still of no use.
    pub(super) fn fail_delivered(
        &mut self,
        scheme: Scheme,
        flow: FlowId,
        reason: &str,
        sha256_ok: Option<bool>,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&(scheme, flow)) else {
            return;
        };
        if let Stage::Object(object) = &mut incoming.stage
            && let Some(record) = object.delivered.take()
        {
            self.end_incoming((scheme, flow), sha256_ok, failed_record(*record, reason));
        }
    }

    pub(super) fn failed(
        &mut self,
        key: (Scheme, FlowId),
        record: &FlowRecord,
        now: Instant,
        transport: &mut dyn Transport,
    ) {
        match self.flows.get(&key) {
            None => {}
            Some(Flow::Outgoing(outgoing)) => {
                let (transfer, header) = (outgoing.transfer, outgoing.header.clone());
                self.flows.remove(&key);
                self.flow_ended(Some(transfer), key, Some(&header), None, record);
            }
            Some(Flow::Message { transfer, peer }) => {
                let (transfer, peer) = (*transfer, *peer);
                self.flows.remove(&key);
                self.request_failed(now, transfer, key.1, peer, record, transport);
            }
            Some(Flow::Incoming(_)) => self.end_incoming(key, None, record.clone()),
        }
    }

    /// Forgets an incoming flow and tells its end.
    fn end_incoming(&mut self, key: (Scheme, FlowId), sha256_ok: Option<bool>, record: FlowRecord) {
        let Some(Flow::Incoming(incoming)) = self.flows.remove(&key) else {
            return;
        };
        let header = match incoming.stage {
            Stage::Object(object) => {
                self.by_sink.remove(&object.sink);
                self.sinks.drop_sink(object.sink);
                Some(object.header)
            }
            Stage::Refused(header, _) => Some(header),
            _ => None,
        };
        if incoming.transfer.is_none() {
            tracing::debug!("a flow nobody waited for ended: {:?}", record.status);
        }
        self.flow_ended(incoming.transfer, key, header.as_ref(), sha256_ok, &record);
    }

    /// A sink has something to say.
    pub(super) fn sink_update(
        &mut self,
        now: Instant,
        sink: SinkId,
        update: Update,
        transports: &mut Transports,
    ) {
        let Some(&(scheme, flow)) = self.by_sink.get(&sink) else {
            return;
        };
        let Some(transport) = transports.get(scheme) else {
            return;
        };
        match update {
            Update::Drained => transport.set_paused(now, flow, false),
            Update::Done => {
                transport.confirm(now, flow);
                self.written((scheme, flow));
            }
            Update::Failed(reason) => {
                transport.abort(now, flow, &reason);
                self.fail_delivered(scheme, flow, &reason, Some(false));
            }
        }
    }

    /// A transfer has waited long enough for a decision or an answer.
    pub(super) fn patience_ended(
        &mut self,
        now: Instant,
        id: TransferId,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        let unanswered = matches!(&transfer.kind, Kind::Fetch(fetching) if !fetching.answered);
        if unanswered {
            self.cancel(now, id, "no server has answered in time", transports);
        } else if self.is_undecided(id) {
            let reason = "the application has not decided whether it wants the object";
            self.cancel(now, id, reason, transports);
        }
    }
}

fn failed_record(mut record: FlowRecord, reason: &str) -> FlowRecord {
    record.status = Status::Failed(reason.to_owned());
    record
}
