//! Arrivals: objects for a listener or a fetch, requests of others, and their refusals. And how
//! flows end.

use std::net::SocketAddrV4;

use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{FlowRecord, Objection, Status, StreamBytes, StreamHead, Transport};
use ebb_units::Instant;

use crate::application::{HostApplication, Notice};
use crate::environment::{Call, ClientId, Engine, Key, Storage, Unusable, Update};
use crate::request::{Error, ErrorCode};
use crate::transfers::{Ended, Flow, Incoming, Kind, Receiving, Stage, TransferId};

impl<S: Storage> HostApplication<S> {
    pub(crate) fn opened(
        &mut self,
        now: Instant,
        (transport, flow): Key,
        local_port: u16,
        peer: SocketAddrV4,
    ) {
        let listener = self.listener_at((transport, local_port));
        let transfer = match listener.and_then(|id| self.listeners.get(&id)) {
            Some(found) => {
                let (client, progress) = (found.client, found.listen.progress);
                Some(self.new_transfer(now, Some(client), transport, progress, Kind::Receive))
            }
            None => self.fetch_answered((transport, local_port), *peer.ip()),
        };
        let mut incoming = Incoming::new(transfer, peer, local_port);
        incoming.listener = listener;
        self.flows
            .insert((transport, flow), Flow::Incoming(Box::new(incoming)));
        // Without a transfer it may still be a request; an object for nobody is refused.
        if let Some(transfer) = transfer.and_then(|id| self.transfers.get_mut(&id)) {
            transfer.flows.insert(flow);
        }
    }

    pub(crate) fn delivered(&mut self, key: Key, bytes: StreamBytes, call: &mut Call<'_>) {
        let Some(transport) = call.engine.transport(key.0) else {
            return;
        };
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            transport.recycle(bytes);
            return;
        };
        incoming.received += bytes.len() as u64;
        match &mut incoming.stage {
            Stage::Object(object) => {
                let pushed = self.storage.push(key, &mut object.sink, bytes);
                if pushed.pause {
                    transport.set_paused(call.now, key.1, true);
                }
                pushed.buffer.into_iter().for_each(|b| transport.recycle(b));
            }
            Stage::Head(head) => {
                // Mostly it comes with the first bytes, which then need not be copied.
                let mut all = bytes;
                if !head.is_empty() {
                    head.extend_from_slice(&all);
                    let head = std::mem::take(head).into();
                    transport.recycle(std::mem::replace(&mut all, head));
                }
                match StreamHead::read(&all) {
                    Ok(None) => *head = all.into_owned(),
                    Ok(Some(StreamHead::Object(header))) => {
                        self.object_begins(call.now, key, header, all, transport);
                    }
                    Ok(Some(StreamHead::Request(request))) => {
                        incoming.stage = Stage::Request(request);
                        // The listener of the port waits for objects, and this is none.
                        if incoming.listener.take().is_some()
                            && let Some(id) = incoming.transfer.take()
                        {
                            self.remove_transfer(id);
                        }
                    }
                    Ok(Some(StreamHead::Refusal(refusal))) => {
                        incoming.stage = Stage::Refusal(refusal);
                    }
                    Err(error) => transport.abort(call.now, key.1, &error.to_string()),
                }
            }
            Stage::Refused(..) => transport.recycle(bytes),
            Stage::Request(_) | Stage::Refusal(_) => {
                transport.abort(call.now, key.1, "the stream goes on after its end");
            }
        }
    }

    /// The envelope of an object is known: who wants its content?
    fn object_begins(
        &mut self,
        now: Instant,
        key: Key,
        header: EnvelopeHeader,
        first: StreamBytes,
        transport: &mut dyn Transport,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get(&key) else {
            return;
        };
        let (listener, transfer) = (incoming.listener, incoming.transfer);
        let (peer, port) = (incoming.peer, incoming.local_port);
        let target = match listener {
            Some(listener) => self.target_of_listener(listener),
            None => {
                let target = self.target_of_fetch(transfer, &header);
                target.map(Some).map_err(Unusable::from)
            }
        };
        let undecided = matches!(target, Ok(None));
        let stage = match target.and_then(|target| self.storage.open(key, target, &header)) {
            Ok(mut sink) => {
                let pushed = self.storage.push(key, &mut sink, first);
                if pushed.pause || undecided {
                    transport.set_paused(now, key.1, true);
                }
                pushed.buffer.into_iter().for_each(|b| transport.recycle(b));
                if let (Some(listener), Some(transfer)) = (listener, transfer) {
                    self.begun(now, transfer, listener, (port, peer), undecided, &header);
                }
                Stage::Object(Receiving {
                    header,
                    sink,
                    undecided,
                    delivered: None,
                })
            }
            Err(Unusable { reason, objection }) => {
                refuse(transport, now, key, &reason, objection);
                // All of it may have arrived already: then its end follows.
                Stage::Refused(header, reason)
            }
        };
        if let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) {
            incoming.stage = stage;
        }
    }

    /// Destination of an object that arrived at a listener. `None`: the application decides.
    fn target_of_listener(&mut self, listener: u64) -> Result<Option<S::Target>, Unusable> {
        let listener = self.listeners.get(&listener);
        let listener = listener.ok_or("the application has gone")?;
        Ok(self.storage.target(&listener.listen.listening))
    }

    /// An object has begun to come to a listener.
    fn begun(
        &mut self,
        now: Instant,
        transfer: TransferId,
        listener: u64,
        (port, peer): (u16, SocketAddrV4),
        undecided: bool,
        header: &EnvelopeHeader,
    ) {
        let Some(found) = self.listeners.get(&listener) else {
            return;
        };
        if undecided || found.listen.announce {
            let notice = Notice::Incoming {
                transfer,
                listener,
                transport: found.listen.transport,
                local: SocketAddrV4::new(self.address, port),
                peer,
                header: header.clone(),
            };
            let client = self.transfers.get(&transfer).and_then(|t| t.client);
            self.notify(client, notice);
        }
        if undecided {
            self.set_deadline(transfer, now + self.limits.decision);
        }
    }

    /// The application takes an object that was announced.
    pub fn accept(
        &mut self,
        client: ClientId,
        transfer: TransferId,
        target: S::Target,
    ) -> Result<(), Error> {
        self.own_undecided(client, transfer)?;
        if let Some((key, object)) = self.undecided(transfer) {
            object.undecided = false;
            self.storage.decide(key, target);
        }
        Ok(())
    }

    /// The application does not take an object that was announced.
    pub fn refuse_object(
        &mut self,
        now: Instant,
        client: ClientId,
        transfer: TransferId,
        reason: &str,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        self.own_undecided(client, transfer)?;
        self.end_early(transfer, &format!("refused: {reason}"), call);
        Ok(())
    }

    /// Whether the transfer waits for this client to decide.
    fn own_undecided(&mut self, client: ClientId, id: TransferId) -> Result<(), Error> {
        self.own_transfer(client, id)?;
        if self.is_undecided(id) {
            return Ok(());
        }
        let message = format!("transfer {id} does not wait for a decision");
        Err(Error::new(ErrorCode::BadRequest, message))
    }

    pub(crate) fn is_undecided(&mut self, id: TransferId) -> bool {
        self.undecided(id).is_some()
    }

    /// The object of a transfer that waits for a decision.
    fn undecided(&mut self, id: TransferId) -> Option<(Key, &mut Receiving<S>)> {
        let transfer = self.transfers.get(&id)?;
        // A transfer of a listener has one flow.
        let key = (transfer.transport, *transfer.flows.first()?);
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            return None;
        };
        match &mut incoming.stage {
            Stage::Object(object) if object.undecided => Some((key, object)),
            _ => None,
        }
    }

    /// Everything was delivered, or a flow of ours was confirmed.
    pub(crate) fn finished(&mut self, key: Key, record: FlowRecord, call: &mut Call<'_>) {
        let Some(transport) = call.engine.transport(key.0) else {
            return;
        };
        let incoming = match self.flows.get_mut(&key) {
            None => return transport.abort(call.now, key.1, "nobody waits for it any more"),
            Some(Flow::Incoming(incoming)) => incoming,
            Some(_) => return self.flow_of_ours_ended(key, record, call),
        };
        let (from, transfer) = (incoming.peer, incoming.transfer);
        let peer = *from.ip();
        match &mut incoming.stage {
            Stage::Object(object) => {
                // The sink says what becomes of it; then the sender hears that too.
                object.delivered = Some(Box::new(record));
                if let Some(update) = self.storage.end(key, &mut object.sink) {
                    self.sink_update(key, update, call);
                }
            }
            Stage::Request(request) => {
                let request = request.clone();
                self.flows.remove(&key);
                transport.confirm(call.now, key.1);
                self.requested(key.0, request, from, call);
            }
            Stage::Refusal(refusal) => {
                let refusal = refusal.clone();
                self.flows.remove(&key);
                transport.confirm(call.now, key.1);
                self.fetch_refused(transfer, key.1, peer, &refusal, call);
            }
            Stage::Refused(_, reason) => {
                let record = failed_record(record, reason);
                self.end_incoming(key, None, record, call);
            }
            Stage::Head(_) => {
                let reason = "the stream ended before it said what it is";
                transport.abort(call.now, key.1, reason);
                self.end_incoming(key, None, failed_record(record, reason), call);
            }
        }
    }

    pub(crate) fn failed(&mut self, key: Key, record: FlowRecord, call: &mut Call<'_>) {
        match self.flows.get(&key) {
            Some(Flow::Incoming(_)) => self.end_incoming(key, None, record, call),
            _ => self.flow_of_ours_ended(key, record, call),
        }
    }

    /// A flow that began here was confirmed, or has failed.
    fn flow_of_ours_ended(&mut self, key: Key, record: FlowRecord, call: &mut Call<'_>) {
        match self.flows.remove(&key) {
            Some(Flow::Outgoing(outgoing)) => {
                if outgoing.heard {
                    self.heard_flows.subtract(outgoing.peer.ip());
                }
                let ended = Ended {
                    header: Some(outgoing.header),
                    sha256_ok: None,
                    record,
                };
                self.flow_ended(Some(outgoing.transfer), key, ended, call);
            }
            Some(Flow::Request { transfer, server }) => {
                self.request_ended((transfer, server), key.1, &record, call);
            }
            Some(Flow::Refusal { requester }) => self.refusals.subtract(&requester),
            Some(Flow::Incoming(_)) | None => {}
        }
    }

    /// A sink has something to say.
    pub fn handle_sink(&mut self, now: Instant, key: Key, update: Update, engine: &mut dyn Engine) {
        let call = &mut Call { now, engine };
        self.sink_update(key, update, call);
        self.answer_all(call);
    }

    fn sink_update(&mut self, key: Key, update: Update, call: &mut Call<'_>) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            return;
        };
        let Stage::Object(object) = &mut incoming.stage else {
            return;
        };
        let Some(transport) = call.engine.transport(key.0) else {
            return;
        };
        match update {
            Update::Drained => transport.set_paused(call.now, key.1, false),
            Update::Done => {
                transport.confirm(call.now, key.1);
                if let Some(record) = object.delivered.take() {
                    let counts = self.counts.entry(key.0).or_default();
                    counts.content_bytes_received += object.header.content_bytes;
                    self.end_incoming(key, Some(true), *record, call);
                }
            }
            Update::Failed(Unusable { reason, objection }) => {
                refuse(transport, call.now, key, &reason, objection);
                self.fail_delivered(key, &reason, Some(false), call);
            }
        }
    }

    /// An object arrived and is still of no use.
    pub(crate) fn fail_delivered(
        &mut self,
        key: Key,
        reason: &str,
        sha256_ok: Option<bool>,
        call: &mut Call<'_>,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&key) else {
            return;
        };
        if let Stage::Object(object) = &mut incoming.stage
            && let Some(record) = object.delivered.take()
        {
            let record = failed_record(*record, reason);
            self.end_incoming(key, sha256_ok, record, call);
        }
    }

    /// Forgets an incoming flow and reports its end.
    fn end_incoming(
        &mut self,
        key: Key,
        sha256_ok: Option<bool>,
        record: FlowRecord,
        call: &mut Call<'_>,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.remove(&key) else {
            return;
        };
        let header = match incoming.stage {
            Stage::Object(object) => {
                self.storage.close(key);
                Some(object.header)
            }
            Stage::Refused(header, _) => Some(header),
            _ => None,
        };
        if incoming.transfer.is_none() {
            tracing::debug!("a flow nobody waited for ended: {:?}", record.status);
        }
        let ended = Ended {
            header,
            sha256_ok,
            record,
        };
        self.flow_ended(incoming.transfer, key, ended, call);
    }
}

/// Gives up an object that is of no use here.
fn refuse(
    transport: &mut dyn Transport,
    now: Instant,
    (_, flow): Key,
    reason: &str,
    objection: Option<Objection>,
) {
    match objection {
        Some(objection) => transport.refuse(now, flow, reason, objection),
        None => transport.abort(now, flow, reason),
    }
}

fn failed_record(mut record: FlowRecord, reason: &str) -> FlowRecord {
    record.status = Status::Failed(reason.to_owned());
    record
}
