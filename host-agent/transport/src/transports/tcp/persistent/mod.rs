//! A persistent connection: objects one after another, in both directions
//! (`docs/tcp.md`, "Persistent connections").
//!
//! ```text
//! waiting ─fill─► in flight ─TAKEN, REFUSED─► reported          objects that this host sends
//! reader ─OBJECT─► arriving ─► unconfirmed ─TAKEN, REFUSED─►    objects that it gets
//! ```
//!
//! A FIN says that its sender takes no more: what it has not confirmed it has not taken, so that the
//! other side may send that again over another connection without anything arriving twice. After
//! any other end only what never left may be.

mod arrivals;
mod endpoint;
mod flow;
mod frame;
mod inbox;
mod outbox;
mod pool;
mod reader;
mod report;

use std::net::SocketAddrV4;

use ebb_units::{Duration, Instant};

use self::arrivals::{Arrivals, Incoming};
pub(super) use self::flow::Flow;
use self::frame::{Frame, sequence};
use self::outbox::Outbox;
pub(super) use self::outbox::Outgoing;
pub(super) use self::pool::Pool;
use self::reader::{Item, Reader};
pub(super) use self::report::Shared;
use super::flow::Ending;
use super::state::{State, Statistics};
use super::synchronized::Waiting;
use crate::transport::{Event, FlowId, Progress};

/// Objects of a connection that stays open.
pub(super) struct PersistentConnection {
    /// This host opened the connection, and so closes it when it is idle for too long.
    opened_here: bool,
    /// DSCP of its packets; selects the priority class of the objects that it carries.
    pub(super) dscp: u8,
    /// Time without objects after which the side that opened it closes it.
    keep_open: Duration,
    /// The handshake is over, and the peer keeps connections open too.
    established: bool,
    /// Objects that arrived with the SYN, until the handshake is over.
    early: Vec<FlowId>,
    /// Objects that this host sends.
    outbox: Outbox,
    /// The peer's stream.
    reader: Reader,
    /// Objects of the peer.
    arrivals: Arrivals,
    /// Start of the time without objects, if this side opened the connection.
    idle_since: Option<Instant>,
    /// Our FIN has been sent, or will be after what has been appended.
    closing: bool,
    /// Counters of the connection when they were read last.
    seen: Statistics,
    /// Reason why this side gave the connection up.
    broken: Option<String>,
    /// The connection is closed and its objects are reported.
    ended: bool,
    /// Objects for another connection.
    moved: Vec<Outgoing>,
}

impl PersistentConnection {
    pub(super) fn new(opened_here: bool, dscp: u8, keep_open: Duration) -> Self {
        PersistentConnection {
            opened_here,
            dscp,
            keep_open,
            established: false,
            early: Vec::new(),
            outbox: Outbox::default(),
            reader: Reader::new(),
            arrivals: Arrivals::default(),
            idle_since: None,
            closing: false,
            seen: Statistics::default(),
            broken: None,
            ended: false,
            moved: Vec::new(),
        }
    }

    /// Whether it can take one more object.
    fn is_usable(&self) -> bool {
        !self.closing && !self.ended && self.broken.is_none()
    }

    /// Objects in both directions without an answer, as far as this side has heard of them.
    fn load(&self) -> usize {
        self.outbox.load() + self.arrivals.load()
    }

    /// Whether it carries no object in either direction.
    pub(super) fn is_idle(&self) -> bool {
        self.load() == 0
    }

    /// When [`handle_deadline`](Self::handle_deadline) has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let since = self.idle_since.filter(|_| self.is_usable());
        since.map(|since| since + self.keep_open)
    }

    /// Closes what has carried nothing for long enough.
    pub(super) fn handle_deadline(&mut self, now: Instant, flow: &mut Flow) {
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.close(flow);
        }
    }

    fn close(&mut self, flow: &mut Flow) {
        self.closing = true;
        flow.connection.close();
    }

    /// Whether something of ours is still to be sent or acknowledged.
    pub(super) fn has_data(&self, flow: &Flow) -> bool {
        self.outbox.has_data(flow)
    }

    fn enqueue(&mut self, mut object: Outgoing, flow: &Flow, shared: &mut Shared<'_>) {
        self.idle_since = None;
        object.session = flow.connection.iss();
        if self.established {
            shared.heard_of(&mut object, flow);
        }
        self.outbox.enqueue(object);
    }

    /// Lets objects join the stream, so that there is a segment to send.
    pub(super) fn fill(&mut self, flow: &mut Flow) {
        if !self.closing {
            self.outbox.fill(flow);
        }
    }

    /// Reports events since the last call, and acts on them.
    pub(super) fn report(&mut self, now: Instant, flow: &mut Flow, shared: &mut Shared<'_>) {
        if self.ended {
            return;
        }
        self.note_established(flow, shared);
        self.outbox.note_acked(now, flow);
        let has_data = self.established || flow.connection.took_early();
        if has_data && self.broken.is_none() {
            let read = self.read(now, flow, shared);
            if let Err(what) = read {
                let why =
                    format!("the peer does not keep to the rules of open connections: {what}");
                self.give_up(flow, why);
            }
        }
        let has_all = self.reader.has_all(&flow.connection);
        let closed = flow.connection.state() == State::Closed;
        if closed && (self.broken.is_some() || flow.connection.failure().is_some()) {
            let failure = flow.connection.failure();
            let why = self.broken.take();
            let why = why.or(failure.map(|failure| failure.to_string()));
            self.fail(now, flow, &why.unwrap_or_default(), shared);
        } else if flow.connection.peer_closed() && has_all || closed {
            self.peer_closed(now, flow, shared);
        }
        if closed {
            self.ended = true;
            flow.ending = Ending::Reported;
            return;
        }
        self.wait(now, flow);
        self.seen = flow.connection.statistics();
    }

    /// Notes the end of the handshake: the peers of its objects are there, unless this one takes only
    /// one object per connection.
    fn note_established(&mut self, flow: &mut Flow, shared: &mut Shared<'_>) {
        let state = flow.connection.state();
        let opening = matches!(state, State::SynSent | State::SynReceived | State::Closed);
        if self.established || opening {
            return;
        }
        flow.ending = Ending::Open;
        if flow.connection.stays_open() != Some(true) {
            let why = format!(
                "{} does not keep connections open: its SYN-ACK does not say so; it is older, or of another \
                 version. Set tcp.connections to \"per-request\" here",
                flow.peer
            );
            return self.give_up(flow, why);
        }
        self.established = true;
        for object in self.outbox.objects_mut() {
            shared.heard_of(object, flow);
        }
        for early in std::mem::take(&mut self.early) {
            shared.heard(early, flow);
        }
    }

    fn give_up(&mut self, flow: &mut Flow, why: String) {
        self.broken.get_or_insert(why);
        flow.connection.abort();
    }

    /// Takes what has arrived, as far as the application takes it.
    fn read(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        while !self.arrivals.is_blocked()
            && let Some(item) = self.reader.next(&mut flow.connection, shared.buffers)?
        {
            match item {
                Item::Bytes { bytes, last } => self.deliver(now, flow, bytes, last, shared),
                Item::Frame(Frame::Object {
                    number,
                    port,
                    bytes,
                }) => self.handle_object(now, flow, (number, port, bytes), shared)?,
                Item::Frame(Frame::Taken { number }) => {
                    let object = self.outbox.answered(number)?;
                    if !object.is_acked(flow) {
                        return Err(format!("object {number} taken before it was sent"));
                    }
                    shared.finish_outgoing(&object, flow, now);
                }
                // Its reason follows.
                Item::Frame(Frame::Refused { .. }) => {}
                Item::Refused { number, reason } => {
                    self.handle_refusal(now, flow, number, &reason, shared)?;
                }
            }
        }
        Ok(())
    }

    /// The peer begins an object.
    fn handle_object(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        (number, port, bytes): (u32, u16, u64),
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        self.arrivals.begins(number)?;
        if self.closing {
            // Our FIN has said so.
            self.reader.discard();
        } else if !shared.listening.contains(&port) {
            self.reader.discard();
            let reason = format!("nothing listens on port {port}");
            self.outbox.refuse(flow, number, &reason);
        } else if shared.carriers.len() >= shared.max_objects {
            self.reader.discard();
            let reason = "too many objects are on their way";
            self.outbox.refuse(flow, number, reason);
        } else {
            self.begin(now, flow, (number, port, bytes), shared);
            if bytes == 0 {
                self.deliver(now, flow, Vec::new(), true, shared);
            }
        }
        Ok(())
    }

    /// The peer does not take an object of ours.
    fn handle_refusal(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        number: u32,
        reason: &str,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        let object = self.outbox.answered(number)?;
        let reason = format!("refused by the peer: {reason}");
        if !object.is_sent(flow) {
            self.give_up(flow, format!("an object before this one was {reason}"));
        }
        shared.fail_outgoing(&object, flow, now, &reason);
        Ok(())
    }

    fn begin(
        &mut self,
        now: Instant,
        flow: &Flow,
        (number, port, bytes): (u32, u16, u64),
        shared: &mut Shared<'_>,
    ) {
        let id = shared.name(flow.id);
        let begin = self.reader.offset() - frame::FRAME_BYTES as u64;
        self.arrivals.arriving = Some(Incoming {
            flow: id,
            number,
            port,
            session: sequence(flow.connection.peer_iss().unwrap_or(0), begin),
            received: 0,
            bytes,
            started: now,
            before: self.seen,
            paused: false,
        });
        shared.events.push_back(Event::Opened {
            flow: id,
            local: SocketAddrV4::new(*flow.local.ip(), port),
            peer: flow.peer,
        });
        if self.established {
            shared.heard(id, flow);
        } else {
            self.early.push(id);
        }
    }

    /// The next bytes of the arriving object.
    fn deliver(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        bytes: Vec<u8>,
        last: bool,
        shared: &mut Shared<'_>,
    ) {
        let Some(mut object) = self.arrivals.arriving.take() else {
            return shared.buffers.put(bytes);
        };
        object.received += bytes.len() as u64;
        if bytes.is_empty() {
            shared.buffers.put(bytes);
        } else {
            shared.events.push_back(Event::Delivered {
                flow: object.flow,
                bytes: bytes.into(),
            });
        }
        if !last {
            self.arrivals.arriving = Some(object);
            return;
        }
        shared.finish_incoming(&object, flow, now);
        self.arrivals.complete(&object);
        if !shared.holds {
            self.confirm(object.flow, flow, shared);
        }
    }

    /// The application has taken an object.
    pub(super) fn confirm(&mut self, id: FlowId, flow: &mut Flow, shared: &mut Shared<'_>) {
        if let Some(number) = self.arrivals.take_unconfirmed(id) {
            shared.carriers.remove(&id);
            self.outbox.confirm(flow, number);
        }
    }

    /// Pauses or resumes an object that is arriving.
    pub(super) fn set_paused(&mut self, id: FlowId, paused: bool) {
        self.arrivals.set_paused(id, paused);
    }

    /// The application gives an object up.
    pub(super) fn abort(
        &mut self,
        now: Instant,
        id: FlowId,
        reason: &str,
        flow: &mut Flow,
        shared: &mut Shared<'_>,
    ) {
        let arriving = &mut self.arrivals.arriving;
        if let Some(object) = arriving.take_if(|object| object.flow == id) {
            self.reader.discard();
            self.outbox.refuse(flow, object.number, reason);
            shared.fail_incoming(&object, flow, now, reason);
        } else if let Some(number) = self.arrivals.take_unconfirmed(id) {
            shared.carriers.remove(&id);
            self.outbox.refuse(flow, number, reason);
        } else if let Some(object) = self.outbox.take_waiting(id) {
            shared.fail_outgoing(&object, flow, now, reason);
        } else if let Some(object) = self.outbox.in_flight_mut(id) {
            let is_partly_sent = !object.given_up && !object.is_sent(flow);
            shared.fail_outgoing(object, flow, now, reason);
            object.given_up = true;
            if is_partly_sent {
                // There is no other way to tell the peer that the rest will not come.
                let why = "an object before this one was given up in the middle";
                self.give_up(flow, why.to_owned());
            }
        }
    }

    /// Progress of an object; none if it is not here.
    pub(super) fn progress(&self, id: FlowId, flow: &Flow) -> Option<Progress> {
        let arriving = self.arrivals.progress(id);
        arriving.or_else(|| self.outbox.progress(id, flow))
    }

    /// The peer takes no more and has confirmed everything that it took.
    fn peer_closed(&mut self, now: Instant, flow: &mut Flow, shared: &mut Shared<'_>) {
        if let Some(object) = self.arrivals.arriving.take() {
            let why = "the peer closed the connection in the middle of the object";
            shared.fail_incoming(&object, flow, now, why);
        }
        for (object, _) in self.outbox.take_all(flow) {
            let why = "the peer closes every connection at once";
            self.move_on(object, flow, now, why, shared);
        }
        if !self.arrivals.has_unconfirmed() && !self.closing {
            self.close(flow);
        }
    }

    /// The connection has failed.
    fn fail(&mut self, now: Instant, flow: &Flow, why: &str, shared: &mut Shared<'_>) {
        if let Some(object) = self.arrivals.arriving.take() {
            shared.fail_incoming(&object, flow, now, why);
        }
        for id in self.arrivals.take_all_unconfirmed() {
            shared.carriers.remove(&id);
        }
        for (object, is_unsent) in self.outbox.take_all(flow) {
            if is_unsent && self.established {
                self.move_on(object, flow, now, why, shared);
            } else {
                shared.fail_outgoing(&object, flow, now, why);
            }
        }
    }

    /// An object that the peer has not taken goes to another connection.
    fn move_on(
        &mut self,
        mut object: Outgoing,
        flow: &Flow,
        now: Instant,
        why: &str,
        shared: &mut Shared<'_>,
    ) {
        if object.moves_on() {
            self.moved.push(object);
        } else {
            shared.fail_outgoing(&object, flow, now, why);
        }
    }

    /// Objects that need another connection.
    pub(super) fn take_moved(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.moved)
    }

    /// Tells the connection what it waits for, and notes since when it is idle.
    fn wait(&mut self, now: Instant, flow: &mut Flow) {
        let waiting = if self.arrivals.arriving.is_some() || self.reader.is_within() {
            Waiting::Bytes
        } else if self.outbox.awaits_answer() || !self.opened_here {
            // An idle connection that the peer opened: whether the peer is still there.
            Waiting::Answer
        } else {
            Waiting::Nothing
        };
        flow.connection.set_waiting(now, waiting);
        if self.opened_here && self.established && self.is_idle() {
            self.idle_since.get_or_insert(now);
        } else {
            self.idle_since = None;
        }
    }
}

#[cfg(test)]
mod tests;
