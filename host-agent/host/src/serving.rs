//! Objects that other hosts may fetch from this one.
//!
//! A request costs its sender one packet, and its source address may be forged. So an address that has
//! not been heard (none of its packets shows that it receives ours) gets one answer at a time, which
//! sends no more than the initial window of content. If it does not react to that, it gets only
//! refusals for a while. The number of flows to one address, and to all, is limited: [`crate::Limits`].

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_printable::printable;
use ebb_transport::{FetchRequest, Part, Refusal, RefusalCode, TransportKind, Via};
use ebb_units::Instant;

use crate::application::{HostApplication, Offered};
use crate::environment::{Call, ClientId, Content, Engine, Key, Storage};
use crate::request::{Error, ErrorCode};
use crate::requesters::{Asker, PeerState, WaitingRequest};
use crate::sending::{Outbound, Preparation};
use crate::transfers::{Flow, Kind, TransferId, Wanted};

/// Reason of a refusal: as many requests are being served as the limits allow.
const BUSY: &str = "this host serves as many as it may; try again later";
/// Reason of a refusal: the address did not react to the last object sent to it.
const UNANSWERED: &str = "an object sent to this address was not answered; try again";

impl<S: Storage> HostApplication<S> {
    /// Lets others fetch an object. The answer is an [`crate::Output::Reply`].
    pub fn offer(
        &mut self,
        now: Instant,
        (client, request): (ClientId, u64),
        name: String,
        source: S::Source,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let call = &mut Call { now, engine };
        self.check_room(client)?;
        self.check_offered(client, &name)?;
        let preparation = Preparation {
            client: Some(client),
            request,
            // Any transport: nothing is sent.
            transport: TransportKind::Scdp,
            progress: false,
            name,
            content: Content::From(source),
            hosts: Vec::new(),
        };
        self.prepare(Wanted::Offer, preparation, call);
        Ok(())
    }

    /// Whether a client may offer an object of this name.
    fn check_offered(&self, client: ClientId, name: &str) -> Result<(), Error> {
        if self.offers.contains_key(name) {
            let message = format!("`{}` is offered already", printable(name));
            return Err(Error::new(ErrorCode::InUse, message));
        }
        let most = self.limits.offers_per_client;
        let own = self
            .offers
            .values()
            .filter(|offered| offered.client == client);
        if own.count() >= most {
            let message = format!("this client offers {most} objects, and no more may be");
            return Err(Error::new(ErrorCode::TooMany, message));
        }
        Ok(())
    }

    pub(crate) fn offer_prepared(&mut self, id: TransferId) {
        let Some(transfer) = self.remove_transfer(id) else {
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
        let result = self.check_offered(client, &name).map(|()| {
            self.offers.insert(name, Offered { client, envelope });
            None
        });
        self.reply(Some(client), waiting.request, result);
    }

    /// Ends the offer of an object.
    pub fn withdraw(&mut self, client: ClientId, name: &str) -> Result<(), Error> {
        match self.offers.get(name) {
            Some(offered) if offered.client == client => {
                self.offers.remove(name);
                Ok(())
            }
            _ => {
                let message = format!("this client offers no `{}`", printable(name));
                Err(Error::new(ErrorCode::Unknown, message))
            }
        }
    }

    /// A request for an object, by another host or forged in its name.
    pub(crate) fn requested(
        &mut self,
        transport: TransportKind,
        request: FetchRequest,
        from: SocketAddrV4,
        call: &mut Call<'_>,
    ) {
        let peer = *from.ip();
        let asked = WaitingRequest {
            transport,
            request,
            from,
        };
        if let Err(asked) = self.requesters.wait(peer, asked) {
            // A stranger gets no refusal: there is no room for another answer to it.
            if self.is_heard(call.now, peer) {
                let asker = asked.asker();
                self.refuse(asked.transport, RefusalCode::Busy, BUSY, asker, call);
            }
        }
        self.may_answer.insert(peer);
    }

    /// Answers as many waiting requests as there is room for.
    pub(crate) fn answer_all(&mut self, call: &mut Call<'_>) {
        while let Some(peer) = self.may_answer.pop_first() {
            self.answer_waiting(peer, call);
        }
    }

    /// Answers the requests of `peer` in order, as long as there is room.
    fn answer_waiting(&mut self, peer: Ipv4Addr, call: &mut Call<'_>) {
        while self.requesters.is_waiting(peer) {
            let heard = self.is_heard(call.now, peer);
            let own = self.serves.of(&peer);
            let has_room = match heard {
                true => own < self.limits.serves_per_peer,
                false => own + self.refusals.of(&peer) < self.limits.answers_per_stranger,
            };
            if !has_room {
                return;
            }
            let Some(asked) = self.requesters.next(peer) else {
                return;
            };
            let asker = asked.asker();
            let WaitingRequest {
                transport, request, ..
            } = asked;
            // An address that was silent gets one packet; if it answers that, it can have objects again.
            let silent = !heard && self.requesters.state(call.now, peer) == PeerState::Silent;
            if silent {
                self.refuse(transport, RefusalCode::Busy, UNANSWERED, asker, call);
            } else if self.serves.sum() >= self.limits.serves {
                self.refuse(transport, RefusalCode::Busy, BUSY, asker, call);
            } else {
                self.answer(transport, request, asker, call);
            }
        }
    }

    fn answer(
        &mut self,
        transport: TransportKind,
        request: FetchRequest,
        asker: Asker,
        call: &mut Call<'_>,
    ) {
        let Some((client, content)) = self.find_offered(&request.name) else {
            let message = format!("there is no object `{}` here", printable(&request.name));
            self.refuse(transport, RefusalCode::Unknown, message, asker, call);
            return;
        };
        let preparation = Preparation {
            client: Some(client),
            request: 0,
            transport,
            progress: false,
            name: request.name.clone(),
            content,
            hosts: vec![*asker.to.ip()],
        };
        self.prepare(Wanted::Serve(request, asker), preparation, call);
    }

    /// The peer of a flow was heard: its packets show that it receives ours.
    pub(crate) fn heard(&mut self, now: Instant, key: Key, peer: Ipv4Addr) {
        if let Some(Flow::Outgoing(outgoing)) = self.flows.get_mut(&key)
            && !std::mem::replace(&mut outgoing.heard, true)
        {
            self.heard_flows.add(*outgoing.peer.ip());
        }
        self.requesters.heard(now, peer);
        self.may_answer.insert(peer);
    }

    /// Whether `peer` was heard lately, or over a flow to it that is still open.
    fn is_heard(&self, now: Instant, peer: Ipv4Addr) -> bool {
        self.requesters.state(now, peer) == PeerState::Heard || self.heard_flows.of(&peer) > 0
    }

    /// A flow is about to end. If it is an answer, there may be room for another one.
    pub(crate) fn answer_ends(&mut self, now: Instant, key: Key) {
        match self.flows.get(&key) {
            Some(Flow::Outgoing(outgoing)) => {
                let (peer, heard) = (*outgoing.peer.ip(), outgoing.heard);
                let transfer = self.transfers.get(&outgoing.transfer);
                if transfer.is_some_and(|t| matches!(t.kind, Kind::Serve { .. })) {
                    if !heard {
                        self.requesters.silent(now, peer);
                    }
                    self.may_answer.insert(peer);
                }
            }
            Some(&Flow::Refusal { requester }) => {
                if !self.is_heard(now, requester) {
                    self.requesters.forget_waiting(requester);
                }
                self.may_answer.insert(requester);
            }
            _ => {}
        }
    }

    /// Client that offers an object, and the content of that.
    fn find_offered(&self, name: &str) -> Option<(ClientId, Content<S::Source>)> {
        if let Some(offered) = self.offers.get(name) {
            return Some((offered.client, Content::Ready(offered.envelope.clone())));
        }
        let (owner, source) = self.storage.find(name)?;
        Some((owner, Content::From(source)))
    }

    /// The object that another host asked for is ready.
    pub(crate) fn start_serve(&mut self, id: TransferId, call: &mut Call<'_>) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let Some(peer) = transfer.kind.requester() else {
            return;
        };
        let kind = std::mem::replace(&mut transfer.kind, Kind::Serve { peer });
        let transport = transfer.transport;
        let Kind::Waiting(waiting) = kind else { return };
        let (Wanted::Serve(request, asker), Some(envelope)) = (waiting.what, waiting.envelope)
        else {
            return;
        };
        let to = asker.to;
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
            via: self.answering(asker, call.now),
        };
        match self.start_flow(transport, outbound, call) {
            Ok(flow) => {
                self.counts.entry(transport).or_default().requests_served += 1;
                self.sending(id, (transport, flow), envelope.header().clone(), to);
            }
            Err(error) => {
                self.remove_transfer(id);
                self.refuse(
                    transport,
                    RefusalCode::Unreadable,
                    error.message,
                    asker,
                    call,
                );
            }
        }
    }

    /// Connection for the answer to a request: the one that the request came over, if it is still open.
    fn answering(&self, asker: Asker, now: Instant) -> Via {
        match self.is_heard(now, *asker.to.ip()) {
            true => Via::From(asker.over),
            false => Via::FromStranger(asker.over),
        }
    }

    /// Refuses a request whose object could not be prepared.
    pub(crate) fn refuse_unprepared(
        &mut self,
        transport: TransportKind,
        asker: Asker,
        error: Error,
        call: &mut Call<'_>,
    ) {
        let code = match error.code {
            ErrorCode::Unknown => RefusalCode::Unknown,
            _ => RefusalCode::Unreadable,
        };
        self.refuse(transport, code, error.message, asker, call);
    }

    /// Sends the reason why an object is not sent, unless too many refusals are under way. If it cannot
    /// be sent either, the other host's fetch times out.
    fn refuse(
        &mut self,
        transport: TransportKind,
        code: RefusalCode,
        message: impl Into<String>,
        asker: Asker,
        call: &mut Call<'_>,
    ) {
        let (to, message) = (asker.to, message.into());
        let requester = *to.ip();
        self.counts.entry(transport).or_default().requests_refused += 1;
        self.may_answer.insert(requester);
        if self.refusals.of(&requester) >= self.limits.refusals_per_peer {
            return;
        }
        let outbound = Outbound {
            source: Arc::new(Refusal { code, message }.encode()),
            to,
            priority: 0,
            part: None,
            via: self.answering(asker, call.now),
        };
        match self.start_flow(transport, outbound, call) {
            Ok(flow) => {
                self.refusals.add(requester);
                self.flows
                    .insert((transport, flow), Flow::Refusal { requester });
            }
            Err(error) => tracing::debug!("cannot refuse a request of {to}: {error}"),
        }
    }
}
