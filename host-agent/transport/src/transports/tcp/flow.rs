//! A connection as a flow: its role, its events and its record.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use ebb_units::Instant;

use super::connection::Connection;
use super::state::{State, Statistics};
use crate::buffers::BufferPool;
use crate::record::{Counters, FlowRecord, Role, Status};
use crate::transport::{Event, FlowId, Progress};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The handshake is not over.
    Opening,
    Open,
    /// [`Event::Finished`] or [`Event::Failed`] has been emitted.
    Reported,
}

/// A connection and its state as a flow. `K`: state of a persistent connection.
pub(super) struct Flow<K> {
    pub(super) id: FlowId,
    pub(super) role: Role,
    pub(super) local: SocketAddrV4,
    pub(super) peer: SocketAddrV4,
    pub(super) connection: Connection,
    pub(super) started: Instant,
    /// Initial sequence number of the sender.
    pub(super) session: u32,
    /// Sender: bytes of the object. Receiver: bytes delivered.
    pub(super) stream_bytes: u64,
    pub(super) ending: Ending,
    pub(super) abort_reason: Option<String>,
    /// Whether the flow waits in one of the turns of the endpoint.
    pub(super) in_turn: bool,
    /// Slot of the flow's deadline among the endpoint's timers.
    pub(super) timer_slot: usize,
    /// DSCP of all its packets.
    pub(super) dscp: u8,
    /// The application takes no more bytes: they stay in the receive buffer, and the window shuts.
    pub(super) paused: bool,
    /// Receiver: its FIN, which confirms the object, waits for the application.
    pub(super) holds: bool,
    /// A handshake that the peer began and has not ended.
    pub(super) is_half_open: bool,
    /// The peer has shown that it receives our packets: the handshake is complete.
    heard: bool,
    /// State of a persistent connection. None: the connection carries one object.
    pub(super) persistent: Option<Box<K>>,
}

impl<K> Flow<K> {
    pub(super) fn new(
        role: Role,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        connection: Connection,
        session: u32,
        now: Instant,
    ) -> Self {
        Flow {
            id: FlowId(u64::MAX),
            role,
            local,
            peer,
            connection,
            started: now,
            session,
            stream_bytes: 0,
            ending: Ending::Opening,
            abort_reason: None,
            in_turn: false,
            timer_slot: 0,
            dscp: 0,
            paused: false,
            holds: false,
            is_half_open: false,
            heard: false,
            persistent: None,
        }
    }

    /// None once the end has been reported.
    pub(super) fn progress(&self) -> Option<Progress> {
        let progress = match self.role {
            Role::Sender => Progress {
                done_bytes: self.connection.acked_bytes(),
                arrived_bytes: self.connection.acked_bytes(),
                total_bytes: Some(self.stream_bytes),
            },
            Role::Receiver => Progress {
                done_bytes: self.stream_bytes,
                arrived_bytes: self.stream_bytes,
                total_bytes: None,
            },
        };
        (self.ending != Ending::Reported).then_some(progress)
    }

    /// Passes on bytes that have arrived in order.
    fn deliver(&mut self, id: FlowId, buffers: &mut BufferPool, events: &mut VecDeque<Event>) {
        if self.paused || self.connection.unread_bytes() == 0 {
            return;
        }
        let mut bytes = buffers.take();
        self.connection.read(&mut bytes);
        match self.role {
            Role::Receiver => {
                self.stream_bytes += bytes.len() as u64;
                let bytes = bytes.into();
                events.push_back(Event::Delivered { flow: id, bytes });
            }
            // Data that a receiver might send us is read too, so that its window never closes.
            Role::Sender => buffers.put(bytes),
        }
    }

    /// Appends to `events` what has happened since the last call.
    pub(super) fn report(
        &mut self,
        now: Instant,
        id: FlowId,
        transport: &'static str,
        buffers: &mut BufferPool,
        events: &mut VecDeque<Event>,
    ) {
        let state = self.connection.state();
        let opening = matches!(state, State::SynSent | State::SynReceived | State::Closed);
        if self.ending == Ending::Opening && (!opening || self.connection.took_early()) {
            self.ending = Ending::Open;
            if self.role == Role::Receiver {
                events.push_back(Event::Opened {
                    flow: id,
                    local: self.local,
                    peer: self.peer,
                });
            }
        }
        if !opening && !self.heard {
            self.heard = true;
            let peer = *self.peer.ip();
            events.push_back(Event::Heard { flow: id, peer });
        }
        self.deliver(id, buffers, events);
        if self.ending == Ending::Reported {
            return;
        }
        if let Some(failure) = self.connection.failure() {
            // A handshake that a stranger began and did not end is no flow.
            let silent = self.role == Role::Receiver && self.ending == Ending::Opening;
            self.ending = Ending::Reported;
            if !silent {
                let reason = self
                    .abort_reason
                    .take()
                    .unwrap_or_else(|| failure.to_string());
                let record = self.record(transport, now, Status::Failed(reason));
                events.push_back(Event::Failed { flow: id, record });
            }
            return;
        }
        let finished_at = match self.role {
            // The receiver closes when it has everything: its FIN confirms the object.
            Role::Sender => self
                .connection
                .stream_acked_at()
                .filter(|_| self.connection.peer_closed() || state == State::Closed),
            Role::Receiver => {
                let all_delivered =
                    self.connection.peer_closed() && self.connection.unread_bytes() == 0;
                all_delivered.then_some(now)
            }
        };
        if let Some(finished_at) = finished_at {
            self.ending = Ending::Reported;
            let record = self.record(transport, finished_at, Status::Finished);
            events.push_back(Event::Finished { flow: id, record });
            if !self.holds {
                self.connection.close();
            }
        }
    }

    fn record(&self, transport: &'static str, finished: Instant, status: Status) -> FlowRecord {
        let statistics = self.connection.statistics();
        let mut record = self.record_of(self.role, statistics, transport, status);
        record.set_times(self.started, finished);
        record
    }

    /// The record of the connection, without times.
    pub(super) fn record_of(
        &self,
        role: Role,
        statistics: Statistics,
        transport: &'static str,
        status: Status,
    ) -> FlowRecord {
        let (sender, receiver) = (statistics.sender, statistics.receiver);
        let counters = match role {
            Role::Sender => Counters {
                packets_sent: sender.packets,
                payload_bytes_sent: sender.payload_bytes,
                retransmitted: sender.retransmitted,
                fast_retransmitted: sender.fast_retransmitted,
                acks: sender.acks,
                timeouts: sender.timeouts,
                ce_marks: sender.ece_acks,
                ..Counters::default()
            },
            Role::Receiver => Counters {
                packets_received: receiver.packets,
                acks: receiver.acks_sent,
                timeouts: sender.timeouts,
                ce_marks: receiver.ce_packets,
                duplicates: receiver.duplicates,
                ..Counters::default()
            },
        };
        FlowRecord {
            session: self.session,
            stream_bytes: self.stream_bytes,
            counters,
            tcp: Some(statistics.summary),
            ..FlowRecord::new(role, transport, self.local, self.peer, status)
        }
    }
}
