//! Segments that belong to no connection: SYNs to ports that listen, and all others, which are
//! answered with RST.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::Instant;
use rand::Rng;

use super::connection::Connection;
use super::endpoint::TcpEndpoint;
use super::persistent::{Flow, PersistentConnection};
use super::segment::Segment;
use crate::record::Role;

impl TcpEndpoint {
    /// Whether there is room for one more handshake. The oldest makes room if its peer has had more than
    /// the time of a timeout to answer (RFC 4987 3.3); younger ones are probably honest.
    fn has_room_for_handshake(&mut self, now: Instant) -> bool {
        if self.listener.half_open() < self.params.max_half_open
            && self.flows.len() < self.params.max_flows
        {
            return true;
        }
        let oldest = self.listener.oldest_handshake();
        let Some((id, flow)) = oldest.and_then(|id| Some((id, self.flows.get(id)?))) else {
            return false;
        };
        if now.since(flow.started) < self.params.initial_rto() {
            return false;
        }
        self.counters.evicted_handshakes += 1;
        if flow.connection.took_early()
            && let Some(flow) = self.flows.get_mut(id)
        {
            let reason = "the peer has not ended the handshake, and another wants its place";
            flow.abort_reason = Some(reason.to_owned());
            flow.connection.abort();
            self.report(now, id);
        }
        self.remove(now, id);
        true
    }

    /// Handles a SYN to a port that listens.
    fn accept(
        &mut self,
        now: Instant,
        port: u16,
        peer: SocketAddrV4,
        segment: &Segment<'_>,
        dscp: u8,
    ) {
        if !self.has_room_for_handshake(now) {
            // Silence, as if the SYN had been lost: its sender will try again.
            self.counters.refused_syns += 1;
            return;
        }
        let syn = (port, peer, segment.seq);
        let has_data = self.params.data_in_syn && !segment.payload.is_empty();
        if has_data && self.listener.delivered_syns.knows(now, syn) {
            self.counters.duplicate_syns += 1;
            return;
        }
        let plain =
            (has_data && self.listener.delivered_syns.is_full()).then(|| segment.without_data());
        let segment = plain.as_ref().unwrap_or(segment);
        // ACKs are as urgent as the data they are for.
        let dscp = if self.host.dscp.priority.contains(dscp) {
            dscp
        } else {
            self.params.dscp
        };
        let connection = Connection::accept(
            now,
            self.params.clone(),
            self.algorithm_for(dscp),
            Arc::new(Vec::new()),
            self.rng.random(),
            segment,
        );
        let Some(connection) = connection else {
            return;
        };
        let local = SocketAddrV4::new(self.host.address, port);
        let mut flow = Flow::new(Role::Receiver, local, peer, connection, segment.seq, now);
        flow.dscp = dscp;
        flow.holds = self.holds;
        let stays_open = flow.connection.stays_open() == Some(true);
        flow.persistent = stays_open.then(|| {
            Box::new(PersistentConnection::new(
                false,
                dscp,
                self.params.keep_open(),
            ))
        });
        flow.is_half_open = true;
        let id = self.insert(now, flow);
        // Data in its SYN may have ended it already.
        if self.flows.get(id).is_some_and(|flow| flow.is_half_open) {
            self.listener.began_handshake(id);
        }
        if stays_open {
            self.pool.add(*peer.ip(), dscp, None, id);
        }
    }

    /// Handles a segment whose addresses are those of no connection (RFC 9293 3.10.7.1, 3.10.7.2).
    pub(super) fn handle_stranger(
        &mut self,
        now: Instant,
        port: u16,
        peer: SocketAddrV4,
        segment: &Segment<'_>,
        dscp: u8,
    ) {
        if self.listener.listens(port) && segment.opens_a_connection() {
            return self.accept(now, port, peer, segment, dscp);
        }
        if let Some(reset) = segment.reset_for() {
            self.listener.queue_reset((port, peer, reset));
        }
    }
}
