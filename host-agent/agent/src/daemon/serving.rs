//! Objects that other hosts may fetch from this one.
//!
//! A request costs its sender one packet, and anybody can write any source address into it. So an
//! address that has not been heard gets one answer at a time, of which no more than the initial
//! window has content, and after one that it did not answer nothing but a refusal for a while. The
//! number of flows to one address, and to all, is limited.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ebb_transport::{FetchRequest, FlowId, Part, Refusal, RefusalCode, Scheme};
use ebb_units::Instant;
use serde_json::{Value, json};

use super::Command;
use super::askers::{Asked, Standing};
use super::clients::ClientId;
use super::prepare::Source;
use super::sending::{Outbound, Preparation, source};
use super::service::{Offered, Service};
use super::transfers::{Flow, Kind, TransferId, Wanted};
use crate::api::message::{Error, ErrorCode, Offer};
use crate::objects::is_directory;
use crate::printable::printable;
use crate::transports::Transports;

/// Objects on their way, or being prepared, to one address because it asked for them.
const MAX_SERVES_PER_PEER: usize = 32;
/// To all.
const MAX_SERVES: usize = 1024;
/// Answers that there is no object, on their way to one address. More requests stay unanswered.
const MAX_REFUSALS_PER_PEER: usize = 8;

const BUSY: &str = "this host serves as many as it may; try again later";
const UNANSWERED: &str = "an object sent to this address was not answered; try again";

impl Service {
    pub(super) fn offer(
        &mut self,
        client: ClientId,
        request: u64,
        offer: Offer,
        descriptor: Option<OwnedFd>,
    ) -> Result<Option<Value>, Error> {
        self.check_offered(&offer.name)?;
        let source = source(descriptor, offer.generate)?;
        // Any scheme: nothing is sent.
        let scheme = Scheme::Scdp;
        let name = offer.name;
        let preparation = Preparation {
            client: Some(client),
            request,
            scheme,
            progress: false,
            name,
            source,
            hosts: Vec::new(),
        };
        self.prepare(Wanted::Offer, preparation);
        Ok(None)
    }

    fn check_offered(&self, name: &str) -> Result<(), Error> {
        if self.offers.contains_key(name) {
            let message = format!("`{}` is offered already", printable(name));
            return Err(Error::new(ErrorCode::InUse, message));
        }
        Ok(())
    }

    pub(super) fn offer_prepared(&mut self, id: TransferId) {
        let Some(transfer) = self.transfers.remove(&id) else {
            return;
        };
        let Kind::Waiting(waiting) = transfer.kind else {
            return;
        };
        let (Some(client), Some(envelope)) = (transfer.client, waiting.envelope) else {
            return;
        };
        let name = envelope.header().name.clone();
        // Another client may have been faster.
        let result = self.check_offered(&name).map(|()| {
            self.offers.insert(name, Offered { client, envelope });
            json!({})
        });
        self.reply(client, waiting.request, result);
    }

    pub(super) fn withdraw(&mut self, client: ClientId, name: &str) -> Result<Value, Error> {
        match self.offers.get(name) {
            Some(offered) if offered.client == client => {
                self.offers.remove(name);
                Ok(json!({}))
            }
            _ => {
                let message = format!("this client offers no `{}`", printable(name));
                Err(Error::new(ErrorCode::Unknown, message))
            }
        }
    }

    pub(super) fn serve(
        &mut self,
        client: ClientId,
        descriptor: Option<OwnedFd>,
    ) -> Result<Value, Error> {
        match descriptor {
            Some(directory) if is_directory(&directory) => {
                self.directories.push((client, Arc::new(directory)));
                Ok(json!({}))
            }
            _ => {
                let message = "to serve a directory, send its descriptor with the message";
                Err(Error::new(ErrorCode::BadRequest, message))
            }
        }
    }

    /// Another host asks for an object, or somebody in its name.
    pub(super) fn requested(
        &mut self,
        now: Instant,
        scheme: Scheme,
        request: FetchRequest,
        peer: Ipv4Addr,
        transports: &mut Transports,
    ) {
        let reply_port = request.reply_port;
        if let Err(asked) = self.askers.wait(peer, Asked { scheme, request }) {
            // To a stranger that is more than there is room for.
            if self.is_heard(now, peer) {
                let to = SocketAddrV4::new(peer, reply_port);
                self.refuse_busy(now, asked.scheme, BUSY, to, transports);
            }
        }
        self.answer_waiting(now, peer, transports);
    }

    /// Answers what `peer` has asked for, in order, as long as there is room: to one that has not
    /// been heard lately, one answer at a time is on its way.
    pub(super) fn answer_waiting(
        &mut self,
        now: Instant,
        peer: Ipv4Addr,
        transports: &mut Transports,
    ) {
        while self.askers.is_waiting(peer) {
            let heard = self.is_heard(now, peer);
            let (own, all) = self.serves(peer);
            let has_room = match heard {
                true => own < MAX_SERVES_PER_PEER,
                false => own + self.refusals(peer) == 0,
            };
            if !has_room {
                return;
            }
            let Some(Asked { scheme, request }) = self.askers.next(peer) else {
                return;
            };
            let to = SocketAddrV4::new(peer, request.reply_port);
            // Who was silent gets one packet; if it answers that, it can have what else it wants.
            let silent = !heard && self.askers.standing(now, peer) == Standing::Silent;
            if silent {
                self.refuse_busy(now, scheme, UNANSWERED, to, transports);
            } else if all >= MAX_SERVES {
                self.refuse_busy(now, scheme, BUSY, to, transports);
            } else {
                self.answer(now, scheme, request, to, transports);
            }
        }
    }

    fn refuse_busy(
        &mut self,
        now: Instant,
        scheme: Scheme,
        why: &str,
        to: SocketAddrV4,
        transports: &mut Transports,
    ) {
        let message = why.to_owned();
        self.refuse(now, scheme, RefusalCode::Busy, message, to, transports);
    }

    fn answer(
        &mut self,
        now: Instant,
        scheme: Scheme,
        request: FetchRequest,
        to: SocketAddrV4,
        transports: &mut Transports,
    ) {
        match self.find_offered(&request.name) {
            Ok((client, source)) => {
                let name = request.name.clone();
                let what = Wanted::Serve(request, to);
                let preparation = Preparation {
                    client: Some(client),
                    request: 0,
                    scheme,
                    progress: false,
                    name,
                    source,
                    hosts: vec![*to.ip()],
                };
                self.prepare(what, preparation);
            }
            Err((code, message)) => self.refuse(now, scheme, code, message, to, transports),
        }
    }

    /// Has the engine look for what `peer` waits for, at once but not now.
    pub(super) fn answer_next(&self, peer: Ipv4Addr) {
        if self.askers.is_waiting(peer) {
            self.mailbox.send(Command::Answer { peer });
        }
    }

    /// The peer of a flow answers: it is there, and gets what we send.
    pub(super) fn heard(&mut self, now: Instant, key: (Scheme, FlowId), peer: Ipv4Addr) {
        if let Some(Flow::Outgoing(outgoing)) = self.flows.get_mut(&key) {
            outgoing.heard = true;
        }
        self.askers.heard(now, peer);
        self.answer_next(peer);
    }

    /// Whether `peer` was heard lately, or something is still on its way to it that it has answered.
    fn is_heard(&self, now: Instant, peer: Ipv4Addr) -> bool {
        let answers = |flow: &Flow| {
            let Flow::Outgoing(outgoing) = flow else {
                return false;
            };
            outgoing.heard && *outgoing.peer.ip() == peer
        };
        self.askers.standing(now, peer) == Standing::Heard || self.flows.values().any(answers)
    }

    /// A flow is about to end. If it is an answer: whose.
    pub(super) fn answer_ends(&mut self, now: Instant, key: (Scheme, FlowId)) -> Option<Ipv4Addr> {
        match self.flows.get(&key)? {
            Flow::Outgoing(outgoing) => {
                let (peer, heard) = (*outgoing.peer.ip(), outgoing.heard);
                let transfer = self.transfers.get(&outgoing.transfer)?;
                if !matches!(transfer.kind, Kind::Serve { .. }) {
                    return None;
                }
                if heard {
                    return Some(peer);
                }
                self.askers.silent(now, peer);
                Some(peer)
            }
            Flow::Message {
                transfer: None,
                peer,
            } => {
                let peer = *peer;
                if !self.is_heard(now, peer) {
                    self.askers.forget_waiting(peer);
                }
                Some(peer)
            }
            _ => None,
        }
    }

    /// Who offers an object, and where it is.
    fn find_offered(&self, name: &str) -> Result<(ClientId, Source), (RefusalCode, String)> {
        if let Some(offered) = self.offers.get(name) {
            return Ok((offered.client, Source::Ready(offered.envelope.clone())));
        }
        match self.directories.first() {
            Some((owner, _)) => {
                let directories = self.directories.iter();
                let directories = directories.map(|(_, dir)| dir.clone()).collect();
                Ok((*owner, Source::Directories(directories)))
            }
            None => {
                let message = format!("there is no object `{}` here", printable(name));
                Err((RefusalCode::Unknown, message))
            }
        }
    }

    /// How many objects are on their way to `peer`, or being prepared, because it asked for them;
    /// and to all.
    fn serves(&self, peer: Ipv4Addr) -> (usize, usize) {
        let mut counts = (0, 0);
        for transfer in self.transfers.values() {
            let to = match &transfer.kind {
                Kind::Serve { peer } => peer,
                Kind::Waiting(waiting) => match &waiting.what {
                    Wanted::Serve(_, to) => to.ip(),
                    _ => continue,
                },
                _ => continue,
            };
            counts.1 += 1;
            counts.0 += usize::from(*to == peer);
        }
        counts
    }

    /// The object that another host asked for is ready.
    pub(super) fn start_serve(
        &mut self,
        now: Instant,
        id: TransferId,
        transports: &mut Transports,
    ) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let kind = std::mem::replace(&mut transfer.kind, Kind::Send);
        let scheme = transfer.scheme;
        let Kind::Waiting(waiting) = kind else { return };
        let (Wanted::Serve(request, to), Some(envelope)) = (waiting.what, waiting.envelope) else {
            return;
        };
        transfer.kind = Kind::Serve { peer: *to.ip() };
        let part = (request.senders > 1).then_some(Part {
            session: request.session,
            sender: request.sender,
            senders: request.senders,
        });
        let outbound = Outbound {
            source: envelope.clone(),
            to,
            priority: request.priority,
            part,
        };
        match self.start_flow(now, scheme, outbound, transports) {
            Ok(flow) => {
                self.counts.entry(scheme).or_default().requests_served += 1;
                self.sending(id, scheme, flow, &envelope, to);
            }
            Err(error) => {
                self.transfers.remove(&id);
                let code = RefusalCode::Unreadable;
                self.refuse(now, scheme, code, error.message, to, transports);
            }
        }
    }

    /// The object that another host asked for is not to be had.
    pub(super) fn refuse_unprepared(
        &mut self,
        now: Instant,
        scheme: Scheme,
        to: SocketAddrV4,
        error: Error,
        transports: &mut Transports,
    ) {
        let code = match error.code {
            ErrorCode::Unknown => RefusalCode::Unknown,
            _ => RefusalCode::Unreadable,
        };
        self.refuse(now, scheme, code, error.message, to, transports);
    }

    /// Tells why an object is not sent, unless enough of that is on its way already.
    fn refuse(
        &mut self,
        now: Instant,
        scheme: Scheme,
        code: RefusalCode,
        message: String,
        to: SocketAddrV4,
        transports: &mut Transports,
    ) {
        self.counts.entry(scheme).or_default().requests_refused += 1;
        if self.refusals(*to.ip()) >= MAX_REFUSALS_PER_PEER {
            return;
        }
        let refusal = Refusal { code, message };
        let outbound = Outbound {
            source: Arc::new(refusal.encode()),
            to,
            priority: 0,
            part: None,
        };
        match self.start_flow(now, scheme, outbound, transports) {
            Ok(flow) => {
                let message = Flow::Message {
                    transfer: None,
                    peer: *to.ip(),
                };
                self.flows.insert((scheme, flow), message);
            }
            Err(error) => {
                tracing::debug!("cannot refuse a request of {to}: {error}");
                self.answer_next(*to.ip());
            }
        }
    }

    /// How many refusals are on their way to `peer`.
    fn refusals(&self, peer: Ipv4Addr) -> usize {
        let flows = self.flows.values();
        flows
            .filter(
                |flow| matches!(flow, Flow::Message { transfer: None, peer: to } if *to == peer),
            )
            .count()
    }
}
