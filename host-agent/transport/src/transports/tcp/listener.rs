//! State of a host for strangers: ports that listen, handshakes, and RSTs.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddrV4;

use ebb_units::{Duration, Instant};

use super::delivered_syns::DeliveredSyns;
use super::persistent::Flow;
use super::segment::Segment;
use crate::transport::FlowId;

/// RSTs to strangers that may wait to be sent; more are not worth sending.
const MAX_WAITING_RESETS: usize = 64;

/// An RST with its own port and its receiver.
pub(super) type Reset = (u16, SocketAddrV4, Segment<'static>);

/// The side of a host that answers strangers.
pub(super) struct Listener {
    ports: BTreeSet<u16>,
    /// Handshakes that peers began and have not finished, oldest first.
    half_open: BTreeSet<FlowId>,
    /// SYNs whose data must not be delivered again.
    pub(super) delivered_syns: DeliveredSyns,
    /// RSTs that wait to be sent.
    resets: VecDeque<Reset>,
}

impl Listener {
    /// `time_wait` is the longest time for which a copy of a segment may be in the network.
    pub(super) fn new(time_wait: Duration) -> Self {
        Listener {
            ports: BTreeSet::new(),
            half_open: BTreeSet::new(),
            delivered_syns: DeliveredSyns::new(time_wait),
            resets: VecDeque::new(),
        }
    }

    pub(super) fn listen(&mut self, port: u16) {
        self.ports.insert(port);
    }

    pub(super) fn unlisten(&mut self, port: u16) {
        self.ports.remove(&port);
    }

    pub(super) fn listens(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// Ports that listen.
    pub(super) fn ports(&self) -> &BTreeSet<u16> {
        &self.ports
    }

    /// A peer has begun a handshake.
    pub(super) fn began_handshake(&mut self, id: FlowId) {
        self.half_open.insert(id);
    }

    /// The handshake that began first of those that are not finished.
    pub(super) fn oldest_handshake(&self) -> Option<FlowId> {
        self.half_open.first().copied()
    }

    /// A handshake has succeeded or failed.
    pub(super) fn ended_handshake(&mut self, id: FlowId) {
        self.half_open.remove(&id);
    }

    /// A connection is removed.
    pub(super) fn forget(&mut self, now: Instant, id: FlowId, flow: &Flow) {
        if flow.connection.took_early() {
            let syn = (flow.local.port(), flow.peer, flow.session);
            self.delivered_syns.remember(now, syn);
        }
        self.half_open.remove(&id);
    }

    /// Lets an RST wait to be sent, if there is room.
    pub(super) fn queue_reset(&mut self, reset: Reset) {
        if self.resets.len() < MAX_WAITING_RESETS {
            self.resets.push_back(reset);
        }
    }

    /// The next RST to send.
    pub(super) fn poll_reset(&mut self) -> Option<Reset> {
        self.resets.pop_front()
    }

    /// Whether an RST from this port waits to be sent.
    pub(super) fn resets_from(&self, port: u16) -> bool {
        self.resets.iter().any(|(own, ..)| *own == port)
    }

    /// Handshakes that peers began and have not finished.
    pub(super) fn half_open(&self) -> usize {
        self.half_open.len()
    }
}
