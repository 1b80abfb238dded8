//! Objects that this host sends over a connection that stays open: they wait, join the stream, and
//! are in flight until the peer answers.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::Instant;

use super::super::state::Statistics;
use super::Flow;
use super::frame::{Frame, cut_reason, sequence};
use crate::object::ObjectSource;
use crate::transport::{FlowId, Progress, Via};

/// Largest number of times that an object goes to another connection because its own has ended.
const MAX_MOVES: u32 = 3;
/// Unsent bytes up to which a waiting object joins the stream: enough that segments are full, few
/// enough that later objects can still go elsewhere.
const FILL_BYTES: u64 = 1460;

/// An object that this host sends.
pub(crate) struct Outgoing {
    /// Name of the object for the application.
    pub(crate) flow: FlowId,
    /// Its bytes.
    pub(crate) source: Arc<dyn ObjectSource>,
    /// Destination address and port.
    pub(crate) to: SocketAddrV4,
    /// Source port of a connection that is opened for it; none: any.
    pub(crate) source_port: Option<u16>,
    /// Choice of the connection.
    pub(crate) via: Via,
    /// DSCP of its packets; selects the priority class.
    pub(crate) dscp: u8,
    /// Time at which the application handed it over.
    pub(crate) started: Instant,
    /// The application has been notified that the peer is there.
    pub(super) heard: bool,
    /// Connections that have ended under it.
    moves: u32,
    /// Number on its connection, set when it joins the stream, as are all fields below.
    number: u32,
    /// Offset in the stream of its frame's first byte.
    begin: u64,
    /// Offset in the stream behind its last byte.
    end: u64,
    /// Sequence number of its first byte.
    pub(super) session: u32,
    /// Counters of the connection when it joined the stream.
    pub(super) before: Statistics,
    /// Time at which all its bytes were acknowledged.
    acked_at: Option<Instant>,
    /// Its end has been reported; the peer's answer does not matter any more.
    pub(super) given_up: bool,
}

impl Outgoing {
    pub(crate) fn new(
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

    /// Time of completion: when all its bytes were acknowledged, or now.
    pub(super) fn finished_at(&self, now: Instant) -> Instant {
        self.acked_at.unwrap_or(now)
    }

    /// Whether all its bytes have been acknowledged.
    pub(super) fn is_acked(&self, flow: &Flow) -> bool {
        self.end <= flow.connection.acked_bytes()
    }

    /// Whether all its bytes have been sent.
    pub(super) fn is_sent(&self, flow: &Flow) -> bool {
        self.end <= flow.connection.sent_bytes()
    }

    /// Prepares the object for another connection; false if it has had enough of them.
    pub(super) fn moves_on(&mut self) -> bool {
        self.moves += 1;
        self.acked_at = None;
        !self.given_up && self.moves <= MAX_MOVES
    }
}

/// The sending side: our stream and the objects in it and before it.
#[derive(Default)]
pub(super) struct Outbox {
    /// Objects that have not joined the stream.
    waiting: VecDeque<Outgoing>,
    /// Objects of the stream that the peer has not answered.
    in_flight: VecDeque<Outgoing>,
    /// Number of the next object.
    next_number: u32,
    /// Bytes appended to our stream.
    appended: u64,
}

impl Outbox {
    /// Objects that the peer has not answered.
    pub(super) fn load(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// Whether the peer owes an answer.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether something of ours is still to be sent or acknowledged.
    pub(super) fn has_data(&self, flow: &Flow) -> bool {
        !self.waiting.is_empty() || flow.connection.acked_bytes() < self.appended
    }

    /// Puts an object behind the others.
    pub(super) fn enqueue(&mut self, object: Outgoing) {
        self.waiting.push_back(object);
    }

    /// Lets objects join the stream, so that there is a segment to send.
    pub(super) fn fill(&mut self, flow: &mut Flow) {
        while self.appended - flow.connection.sent_bytes() < FILL_BYTES {
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
            self.in_flight.push_back(object);
        }
    }

    pub(super) fn append(&mut self, flow: &mut Flow, source: Arc<dyn ObjectSource>) {
        self.appended += source.len();
        flow.connection.append(source);
    }

    /// Answers an object of the peer: the application has taken it.
    pub(super) fn confirm(&mut self, flow: &mut Flow, number: u32) {
        let frame = Frame::Taken { number };
        self.append(flow, Arc::new(frame.encode().to_vec()));
    }

    /// Answers an object of the peer: it is not taken.
    pub(super) fn refuse(&mut self, flow: &mut Flow, number: u32, reason: &str) {
        let reason = cut_reason(reason);
        let frame = Frame::Refused {
            number,
            bytes: reason.len() as u16,
        };
        self.append(flow, Arc::new([&frame.encode()[..], reason].concat()));
    }

    /// Notes the objects that have been acknowledged.
    pub(super) fn note_acked(&mut self, now: Instant, flow: &Flow) {
        for object in &mut self.in_flight {
            if object.is_acked(flow) {
                object.acked_at.get_or_insert(now);
            }
        }
    }

    /// Removes the object that the peer has answered.
    pub(super) fn answered(&mut self, number: u32) -> Result<Outgoing, String> {
        let mut all = self.in_flight.iter();
        let index = all.position(|object| object.number == number);
        let object = index.and_then(|index| self.in_flight.remove(index));
        object.ok_or_else(|| format!("an answer to object {number}, which waits for none"))
    }

    /// All objects, those in flight first.
    pub(super) fn objects_mut(&mut self) -> impl Iterator<Item = &mut Outgoing> {
        self.in_flight.iter_mut().chain(&mut self.waiting)
    }

    /// Removes all objects, those in flight first. True: none of its bytes has been sent.
    pub(super) fn take_all(&mut self, flow: &Flow) -> Vec<(Outgoing, bool)> {
        let sent = flow.connection.sent_bytes();
        let in_flight = self.in_flight.drain(..).map(|object| {
            let is_unsent = object.begin >= sent;
            (object, is_unsent)
        });
        in_flight
            .chain(self.waiting.drain(..).map(|object| (object, true)))
            .collect()
    }

    /// Removes an object that has not joined the stream.
    pub(super) fn take_waiting(&mut self, id: FlowId) -> Option<Outgoing> {
        let index = self.waiting.iter().position(|object| object.flow == id)?;
        self.waiting.remove(index)
    }

    /// An object that has joined the stream.
    pub(super) fn in_flight_mut(&mut self, id: FlowId) -> Option<&mut Outgoing> {
        self.in_flight.iter_mut().find(|object| object.flow == id)
    }

    /// Acknowledged bytes of an object; none if it is not here.
    pub(super) fn progress(&self, id: FlowId, flow: &Flow) -> Option<Progress> {
        let waiting = self.waiting.iter().find(|object| object.flow == id);
        let in_flight = self.in_flight.iter().find(|object| object.flow == id);
        let object = waiting.or(in_flight)?;
        let bytes = object.source.len();
        let acked = flow.connection.acked_bytes();
        let done = (acked + bytes).saturating_sub(object.end).min(bytes);
        let done_bytes = if in_flight.is_some() { done } else { 0 };
        Some(Progress {
            done_bytes,
            arrived_bytes: done_bytes,
            total_bytes: Some(bytes),
        })
    }
}
