//! A connection that stays open: objects one after another, in both directions
//! (`docs/tcp.md`, "Connections that stay open").
//!
//! ```text
//! waiting ─fill─► under way ─TAKEN, REFUSED─► told           objects that this host sends
//! inbox ─OBJECT─► arriving ─► unconfirmed ─TAKEN, REFUSED─►  objects that it gets
//! ```
//!
//! A FIN says that its sender takes no more: what it has not confirmed it has not taken, so that the
//! other side may send that again over another connection without anything arriving twice. After
//! any other end only what never left may be.

mod endpoint;
mod flow;
mod frame;
mod inbox;
mod pool;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::{Duration, Instant};

pub(super) use self::flow::Flow;
use self::frame::{Frame, cut_reason};
use self::inbox::{Found, Inbox};
pub(super) use self::pool::Pool;
use super::flow::Ending;
use super::state::{State, Statistics};
use super::synchronized::Waiting;
use crate::buffers::BufferPool;
use crate::object::ObjectSource;
use crate::record::{FlowRecord, Role, Status};
use crate::transport::{Event, FlowId, Progress, Via};

/// Objects that have arrived and that the application has not confirmed; the next waits.
const MAX_UNCONFIRMED: usize = 64;
/// How often an object may go to another connection because its own has ended.
const MAX_MOVES: u32 = 3;
/// An object joins the stream when no more than this is unsent: early enough that segments are
/// full, late enough that it can still go elsewhere.
const FILL_BYTES: u64 = 1460;

/// State of the host that its connections share, for reports of objects.
pub(super) struct Shared<'a> {
    pub(super) scheme: &'static str,
    pub(super) events: &'a mut VecDeque<Event>,
    pub(super) buffers: &'a mut BufferPool,
    /// The connection of each object that is not done with.
    pub(super) carriers: &'a mut BTreeMap<FlowId, FlowId>,
    pub(super) next_flow: &'a mut u64,
    pub(super) listening: &'a BTreeSet<u16>,
    pub(super) holds: bool,
    /// Objects on all connections at most.
    pub(super) max_objects: usize,
}

/// An object that this host sends.
pub(super) struct Outgoing {
    pub(super) flow: FlowId,
    pub(super) source: Arc<dyn ObjectSource>,
    pub(super) to: SocketAddrV4,
    pub(super) source_port: Option<u16>,
    pub(super) via: Via,
    /// Of its packets, which is its class of priority.
    pub(super) dscp: u8,
    pub(super) started: Instant,
    heard: bool,
    moves: u32,
    /// Set when it joins the stream, as all below.
    number: u32,
    /// The bytes of the stream that it takes, its frame included.
    begin: u64,
    end: u64,
    session: u32,
    before: Statistics,
    acked_at: Option<Instant>,
    /// Its end has been reported; the peer's answer does not matter any more.
    given_up: bool,
}

impl Outgoing {
    pub(super) fn new(
        flow: FlowId,
        source: Arc<dyn ObjectSource>,
        to: SocketAddrV4,
        via: Via,
        dscp: u8,
        started: Instant,
    ) -> Self {
        Outgoing {
            flow,
            source,
            to,
            source_port: None,
            via,
            dscp,
            started,
            heard: false,
            moves: 0,
            number: 0,
            begin: 0,
            end: 0,
            session: 0,
            before: Statistics::default(),
            acked_at: None,
            given_up: false,
        }
    }
}

/// An object that is arriving.
struct Incoming {
    flow: FlowId,
    number: u32,
    port: u16,
    session: u32,
    received: u64,
    bytes: u64,
    started: Instant,
    before: Statistics,
    paused: bool,
}

/// Objects of a connection that stays open.
pub(super) struct PersistentConnection {
    opened_here: bool,
    /// Of its packets: it carries the objects of one class of priority.
    pub(super) dscp: u8,
    keep_open: Duration,
    established: bool,
    /// Objects that came with the SYN, until the handshake is over.
    early: Vec<FlowId>,
    waiting: VecDeque<Outgoing>,
    under_way: VecDeque<Outgoing>,
    /// Numbers of the next object of this side and of the peer.
    next_number: u32,
    next_peer_number: u32,
    /// Bytes appended to our stream.
    appended: u64,
    inbox: Inbox,
    /// Read and not looked at, from `held_from` on: too much waits for the application.
    held: Vec<u8>,
    held_from: usize,
    arriving: Option<Incoming>,
    /// Arrived objects with their numbers.
    unconfirmed: BTreeMap<FlowId, u32>,
    /// Since when this connection, which this side opened, carries nothing.
    idle_since: Option<Instant>,
    /// Our FIN is on its way, or will be after what has been appended.
    closing: bool,
    /// Counters of the connection when they were read last.
    seen: Statistics,
    /// Why this side gave the connection up, where it did.
    broken: Option<String>,
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
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            next_number: 0,
            next_peer_number: 0,
            appended: 0,
            inbox: Inbox::new(),
            held: Vec::new(),
            held_from: 0,
            arriving: None,
            unconfirmed: BTreeMap::new(),
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

    /// Objects of this side that are not done with.
    fn load(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Objects in both directions that are not done with, as far as this side has heard of them.
    fn burden(&self) -> usize {
        self.load() + usize::from(self.arriving.is_some()) + self.unconfirmed.len()
    }

    /// It carries no object in either direction.
    pub(super) fn is_idle(&self) -> bool {
        self.burden() == 0
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

    /// Something of ours is still to be sent or acknowledged.
    pub(super) fn has_data(&self, flow: &Flow) -> bool {
        !self.waiting.is_empty() || flow.connection.acked_bytes() < self.appended
    }

    fn enqueue(&mut self, mut object: Outgoing, flow: &Flow, shared: &mut Shared<'_>) {
        self.idle_since = None;
        object.session = flow.connection.iss();
        if self.established {
            heard(&mut object, flow, shared);
        }
        self.waiting.push_back(object);
    }

    /// Lets objects join the stream, so that there is a segment to send.
    pub(super) fn fill(&mut self, flow: &mut Flow) {
        while !self.closing && self.appended - flow.connection.sent_bytes() < FILL_BYTES {
            let Some(mut object) = self.waiting.pop_front() else {
                return;
            };
            let frame = Frame::Object {
                number: self.next_number,
                port: object.to.port(),
                bytes: object.source.len(),
            };
            object.number = self.next_number;
            object.begin = self.appended;
            object.session = sequence(flow.connection.iss(), self.appended);
            object.before = flow.connection.statistics();
            self.next_number = self.next_number.wrapping_add(1);
            self.append(flow, Arc::new(frame.encode().to_vec()));
            self.append(flow, object.source.clone());
            object.end = self.appended;
            self.under_way.push_back(object);
        }
    }

    fn append(&mut self, flow: &mut Flow, source: Arc<dyn ObjectSource>) {
        self.appended += source.len();
        flow.connection.append(source);
    }

    fn refuse(&mut self, flow: &mut Flow, number: u32, reason: &str) {
        let reason = cut_reason(reason);
        let frame = Frame::Refused {
            number,
            bytes: reason.len() as u16,
        };
        self.append(flow, Arc::new([&frame.encode()[..], reason].concat()));
    }

    /// Tells what has happened since the last call, and acts on it.
    pub(super) fn report(&mut self, now: Instant, flow: &mut Flow, shared: &mut Shared<'_>) {
        if self.ended {
            return;
        }
        self.note_established(flow, shared);
        let acked = flow.connection.acked_bytes();
        for object in &mut self.under_way {
            if object.end <= acked {
                object.acked_at.get_or_insert(now);
            }
        }
        let has_data = self.established || flow.connection.took_early();
        if has_data && self.broken.is_none() {
            let read = self.read(now, flow, shared);
            if let Err(what) = read {
                let why =
                    format!("the peer does not keep to the rules of open connections: {what}");
                self.give_up(flow, why);
            }
        }
        let has_all = flow.connection.unread_bytes() == 0 && self.held.is_empty();
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

    /// The connection stands: its objects are heard, unless the peer takes only one of them.
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
        for object in self.under_way.iter_mut().chain(&mut self.waiting) {
            heard(object, flow, shared);
        }
        for flow_of_early in std::mem::take(&mut self.early) {
            tell_heard(flow_of_early, flow, shared);
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
        loop {
            let blocked = self.arriving.as_ref().is_some_and(|object| object.paused)
                || self.unconfirmed.len() >= MAX_UNCONFIRMED;
            if blocked {
                return Ok(());
            }
            if self.held.is_empty() {
                if flow.connection.unread_bytes() == 0 {
                    return Ok(());
                }
                self.held = shared.buffers.take();
                flow.connection.read(&mut self.held);
                self.held_from = 0;
            }
            let bytes = std::mem::take(&mut self.held);
            let mut rest = &bytes[self.held_from..];
            let found = self.inbox.next(&mut rest)?;
            let (from, to) = (self.held_from, bytes.len() - rest.len());
            self.held_from = to;
            match found {
                // All of it is of one object: it need not be copied.
                Some(Found::Bytes { count, last }) if count == bytes.len() => {
                    self.deliver(now, flow, bytes, last, shared);
                    continue;
                }
                Some(Found::Bytes { count, last }) => {
                    let mut of_object = shared.buffers.take();
                    of_object.extend_from_slice(&bytes[to - count..to]);
                    self.deliver(now, flow, of_object, last, shared);
                }
                Some(Found::Frame(frame)) => self.act(now, flow, frame, shared)?,
                Some(Found::Refused { number, reason }) => {
                    self.refused(now, flow, number, &reason, shared)?;
                }
                None => debug_assert!(to == bytes.len() && from <= to),
            }
            if to == bytes.len() {
                shared.buffers.put(bytes);
            } else {
                self.held = bytes;
            }
        }
    }

    /// A frame came.
    fn act(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        frame: Frame,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        match frame {
            Frame::Object {
                number,
                port,
                bytes,
            } => {
                if number != self.next_peer_number {
                    let expected = self.next_peer_number;
                    return Err(format!("object {number} where {expected} is the next"));
                }
                self.next_peer_number = number.wrapping_add(1);
                if self.closing {
                    // Our FIN has said so.
                    self.inbox.discard();
                } else if !shared.listening.contains(&port) {
                    self.inbox.discard();
                    self.refuse(flow, number, &format!("nothing listens on port {port}"));
                } else if shared.carriers.len() >= shared.max_objects {
                    self.inbox.discard();
                    self.refuse(flow, number, "too many objects are on their way");
                } else {
                    self.begin(now, flow, (number, port, bytes), shared);
                    if bytes == 0 {
                        self.deliver(now, flow, Vec::new(), true, shared);
                    }
                }
                Ok(())
            }
            Frame::Taken { number } => {
                let object = self.answered(number)?;
                if object.end > flow.connection.acked_bytes() {
                    return Err(format!("object {number} taken before it was sent"));
                }
                if !object.given_up {
                    let at = object.acked_at.unwrap_or(now);
                    let record = sender_record(&object, flow, at, Status::Finished, shared);
                    shared.carriers.remove(&object.flow);
                    shared.events.push_back(Event::Finished {
                        flow: object.flow,
                        record,
                    });
                }
                Ok(())
            }
            // Its reason follows.
            Frame::Refused { .. } => Ok(()),
        }
    }

    /// The object of ours that the peer has answered.
    fn answered(&mut self, number: u32) -> Result<Outgoing, String> {
        let mut all = self.under_way.iter();
        let index = all.position(|object| object.number == number);
        let object = index.and_then(|index| self.under_way.remove(index));
        object.ok_or_else(|| format!("an answer to object {number}, which waits for none"))
    }

    fn refused(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        number: u32,
        reason: &str,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        let object = self.answered(number)?;
        let reason = format!("refused by the peer: {reason}");
        if object.end > flow.connection.sent_bytes() {
            self.give_up(flow, format!("an object before this one was {reason}"));
        }
        fail_outgoing(object, flow, now, &reason, shared);
        Ok(())
    }

    fn begin(
        &mut self,
        now: Instant,
        flow: &Flow,
        (number, port, bytes): (u32, u16, u64),
        shared: &mut Shared<'_>,
    ) {
        let id = FlowId(*shared.next_flow);
        *shared.next_flow += 1;
        shared.carriers.insert(id, flow.id);
        let begin = self.inbox.taken() - frame::FRAME_BYTES as u64;
        self.arriving = Some(Incoming {
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
            tell_heard(id, flow, shared);
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
        let Some(mut object) = self.arriving.take() else {
            return shared.buffers.put(bytes);
        };
        object.received += bytes.len() as u64;
        if bytes.is_empty() {
            shared.buffers.put(bytes);
        } else {
            shared.events.push_back(Event::Delivered {
                flow: object.flow,
                bytes,
            });
        }
        if !last {
            self.arriving = Some(object);
            return;
        }
        let record = receiver_record(&object, flow, now, Status::Finished, shared);
        shared.events.push_back(Event::Finished {
            flow: object.flow,
            record,
        });
        self.unconfirmed.insert(object.flow, object.number);
        if !shared.holds {
            self.confirm(object.flow, flow, shared);
        }
    }

    /// The application has taken an object.
    pub(super) fn confirm(&mut self, id: FlowId, flow: &mut Flow, shared: &mut Shared<'_>) {
        if let Some(number) = self.unconfirmed.remove(&id) {
            shared.carriers.remove(&id);
            let frame = Frame::Taken { number };
            self.append(flow, Arc::new(frame.encode().to_vec()));
        }
    }

    pub(super) fn set_paused(&mut self, id: FlowId, paused: bool) {
        if let Some(object) = self.arriving.as_mut().filter(|object| object.flow == id) {
            object.paused = paused;
        }
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
        if let Some(number) = self.unconfirmed.remove(&id) {
            shared.carriers.remove(&id);
            self.refuse(flow, number, reason);
        } else if let Some(object) = self.arriving.take_if(|object| object.flow == id) {
            self.inbox.discard();
            self.refuse(flow, object.number, reason);
            fail_incoming(&object, flow, now, reason, shared);
        } else if let Some(index) = self.waiting.iter().position(|object| object.flow == id)
            && let Some(object) = self.waiting.remove(index)
        {
            fail_outgoing(object, flow, now, reason, shared);
        } else if let Some(object) = self.under_way.iter_mut().find(|o| o.flow == id)
            && !std::mem::replace(&mut object.given_up, true)
        {
            let is_partly_sent = object.end > flow.connection.sent_bytes();
            let failed = Status::Failed(reason.to_owned());
            let record = sender_record(object, flow, now, failed, shared);
            shared.carriers.remove(&id);
            shared.events.push_back(Event::Failed { flow: id, record });
            if is_partly_sent {
                // There is no other way to tell the peer that the rest will not come.
                let why = "an object before this one was given up in the middle";
                self.give_up(flow, why.to_owned());
            }
        }
    }

    /// How far an object is.
    pub(super) fn progress(&self, id: FlowId, flow: &Flow) -> Option<Progress> {
        if let Some(object) = self.arriving.as_ref().filter(|object| object.flow == id) {
            return Some(Progress {
                done_bytes: object.received,
                arrived_bytes: object.received,
                total_bytes: Some(object.bytes),
            });
        }
        let waiting = self.waiting.iter().find(|object| object.flow == id);
        let under_way = self.under_way.iter().find(|object| object.flow == id);
        let object = waiting.or(under_way)?;
        let bytes = object.source.len();
        let acked = flow.connection.acked_bytes();
        let done = (acked + bytes).saturating_sub(object.end).min(bytes);
        let done_bytes = if under_way.is_some() { done } else { 0 };
        Some(Progress {
            done_bytes,
            arrived_bytes: done_bytes,
            total_bytes: Some(bytes),
        })
    }

    /// The peer takes no more and has confirmed everything that it took.
    fn peer_closed(&mut self, now: Instant, flow: &mut Flow, shared: &mut Shared<'_>) {
        if let Some(object) = self.arriving.take() {
            let why = "the peer closed the connection in the middle of the object";
            fail_incoming(&object, flow, now, why, shared);
        }
        let all = self.under_way.drain(..).chain(self.waiting.drain(..));
        for object in all.collect::<Vec<_>>() {
            self.move_on(
                object,
                flow,
                now,
                "the peer closes every connection at once",
                shared,
            );
        }
        if self.unconfirmed.is_empty() && !self.closing {
            self.close(flow);
        }
    }

    /// The connection has failed.
    fn fail(&mut self, now: Instant, flow: &Flow, why: &str, shared: &mut Shared<'_>) {
        if let Some(object) = self.arriving.take() {
            fail_incoming(&object, flow, now, why, shared);
        }
        for id in std::mem::take(&mut self.unconfirmed).into_keys() {
            shared.carriers.remove(&id);
        }
        let sent = flow.connection.sent_bytes();
        for object in std::mem::take(&mut self.under_way) {
            if object.begin >= sent && self.established {
                self.move_on(object, flow, now, why, shared);
            } else {
                fail_outgoing(object, flow, now, why, shared);
            }
        }
        for object in std::mem::take(&mut self.waiting) {
            if self.established {
                self.move_on(object, flow, now, why, shared);
            } else {
                fail_outgoing(object, flow, now, why, shared);
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
        object.moves += 1;
        object.acked_at = None;
        if object.given_up || object.moves > MAX_MOVES {
            fail_outgoing(object, flow, now, why, shared);
        } else {
            self.moved.push(object);
        }
    }

    /// Objects that need another connection.
    pub(super) fn take_moved(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.moved)
    }

    /// Tells the connection what it waits for, and notes since when it is idle.
    fn wait(&mut self, now: Instant, flow: &mut Flow) {
        let waiting = if self.arriving.is_some() || self.inbox.is_within() {
            Waiting::Bytes
        } else if !self.under_way.is_empty() || !self.opened_here {
            // Of an idle connection that the peer opened: that it is still there.
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

/// The sequence number of the byte at `offset` of a stream.
fn sequence(initial: u32, offset: u64) -> u32 {
    initial.wrapping_add(1).wrapping_add(offset as u32)
}

fn heard(object: &mut Outgoing, flow: &Flow, shared: &mut Shared<'_>) {
    if !std::mem::replace(&mut object.heard, true) {
        tell_heard(object.flow, flow, shared);
    }
}

fn tell_heard(id: FlowId, flow: &Flow, shared: &mut Shared<'_>) {
    shared.events.push_back(Event::Heard {
        flow: id,
        peer: *flow.peer.ip(),
    });
}

fn fail_outgoing(object: Outgoing, flow: &Flow, now: Instant, why: &str, shared: &mut Shared<'_>) {
    if !object.given_up {
        let failed = Status::Failed(why.to_owned());
        let record = sender_record(&object, flow, now, failed, shared);
        shared.carriers.remove(&object.flow);
        shared.events.push_back(Event::Failed {
            flow: object.flow,
            record,
        });
    }
}

fn fail_incoming(object: &Incoming, flow: &Flow, now: Instant, why: &str, shared: &mut Shared<'_>) {
    let failed = Status::Failed(why.to_owned());
    let record = receiver_record(object, flow, now, failed, shared);
    shared.carriers.remove(&object.flow);
    shared.events.push_back(Event::Failed {
        flow: object.flow,
        record,
    });
}

fn sender_record(
    object: &Outgoing,
    flow: &Flow,
    finished: Instant,
    status: Status,
    shared: &Shared<'_>,
) -> FlowRecord {
    let statistics = flow.connection.statistics().since(&object.before);
    let mut record = flow.record_of(Role::Sender, statistics, shared.scheme, status);
    record.session = object.session;
    record.stream_bytes = object.source.len();
    record.set_times(object.started, finished);
    record
}

fn receiver_record(
    object: &Incoming,
    flow: &Flow,
    finished: Instant,
    status: Status,
    shared: &Shared<'_>,
) -> FlowRecord {
    let statistics = flow.connection.statistics().since(&object.before);
    let mut record = flow.record_of(Role::Receiver, statistics, shared.scheme, status);
    record.local = SocketAddrV4::new(*flow.local.ip(), object.port);
    record.session = object.session;
    record.stream_bytes = object.received;
    record.set_times(object.started, finished);
    record
}

#[cfg(test)]
mod tests;
