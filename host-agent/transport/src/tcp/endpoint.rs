//! All TCP connections of a host as a [`Transport`]: ports, demultiplexing, turns between
//! connections, the pacer for `hull`, events and records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{Ipv4Header, Protocol, TcpHeader};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::congestion::Algorithm;
use super::connection::{Connection, State};
use super::flow::{Ending, Flow};
use super::params::{InvalidTcpParams, TcpParams};
use super::segment::Segment;
use crate::pacer::{Admission, InvalidPacerParams, Pacer, PacerCounters, PacerParams};
use crate::record::Role;
use crate::transport::{
    Event, FlowId, ListenError, PacketKind, SendError, SendRequest, Transport, TxInfo,
};

/// RFC 6335: the dynamic ports.
const FIRST_EPHEMERAL_PORT: u16 = 49_152;
/// RSTs to strangers that may wait to be sent; more are not worth sending.
const MAX_WAITING_RESETS: usize = 64;
/// Bytes of a data packet beside its payload, when asking the pacer for room.
const HEADER_BYTES: usize = 20 + 20 + 40;

/// What cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Tcp(#[from] InvalidTcpParams),
    #[error(transparent)]
    Pacer(#[from] InvalidPacerParams),
}

/// Packets that no flow could use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Not IPv4, not TCP, a wrong checksum or a malformed option.
    pub malformed_packets: u64,
    /// For another address or protocol.
    pub foreign_packets: u64,
    /// For no connection and no listening port; answered with RST.
    pub stray_segments: u64,
    pub resets_sent: u64,
}

/// A data packet in the pacer.
type PacedPacket = (FlowId, Vec<u8>);

/// The TCP of one host.
pub struct TcpEndpoint {
    address: Ipv4Addr,
    scheme: &'static str,
    algorithm: Algorithm,
    params: Arc<TcpParams>,
    pacer: Option<Pacer<FlowId, PacedPacket>>,
    listening: BTreeSet<u16>,
    flows: BTreeMap<FlowId, Flow>,
    /// Own port and peer name a connection.
    by_address: BTreeMap<(u16, SocketAddrV4), FlowId>,
    deadlines: BTreeSet<(Instant, FlowId)>,
    /// Flows that may have something to send: receivers, whose ACKs go first, and senders.
    control_turns: VecDeque<FlowId>,
    data_turns: VecDeque<FlowId>,
    resets: VecDeque<(u16, SocketAddrV4, Segment)>,
    events: VecDeque<Event>,
    next_flow: u64,
    next_port: u16,
    rng: SmallRng,
    counters: EndpointCounters,
}

impl TcpEndpoint {
    /// `scheme` is the name in the records. `pacer` is what makes `hull` of `dctcp`. The seed
    /// decides initial sequence numbers, ports and which flows the pacer associates.
    pub fn new(
        address: Ipv4Addr,
        scheme: &'static str,
        algorithm: Algorithm,
        params: TcpParams,
        pacer: Option<&PacerParams>,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        params.validate()?;
        if let Some(pacer) = pacer {
            pacer.validate()?;
        }
        let mut rng = SmallRng::seed_from_u64(seed);
        Ok(TcpEndpoint {
            address,
            scheme,
            algorithm,
            params: Arc::new(params),
            pacer: pacer.map(|pacer| Pacer::new(pacer, rng.random())),
            listening: BTreeSet::new(),
            flows: BTreeMap::new(),
            by_address: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            control_turns: VecDeque::new(),
            data_turns: VecDeque::new(),
            resets: VecDeque::new(),
            events: VecDeque::new(),
            next_flow: 0,
            next_port: rng.random_range(FIRST_EPHEMERAL_PORT..=u16::MAX),
            rng,
            counters: EndpointCounters::default(),
        })
    }

    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    pub fn pacer_counters(&self) -> Option<PacerCounters> {
        self.pacer.as_ref().map(Pacer::counters)
    }

    fn free_port(&mut self, to: SocketAddrV4) -> Option<u16> {
        for _ in FIRST_EPHEMERAL_PORT..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL_PORT);
            if !self.by_address.contains_key(&(port, to)) && !self.listening.contains(&port) {
                return Some(port);
            }
        }
        None
    }

    fn insert(&mut self, now: Instant, flow: Flow) -> FlowId {
        let id = FlowId(self.next_flow);
        self.next_flow += 1;
        self.by_address.insert((flow.local.port(), flow.peer), id);
        self.flows.insert(id, flow);
        self.after_input(now, id);
        id
    }

    fn remove(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            self.by_address.remove(&(flow.local.port(), flow.peer));
            if let Some(deadline) = flow.deadline {
                self.deadlines.remove(&(deadline, id));
            }
        }
    }

    /// Something happened to the flow: tell about it, and let it have its turn to send.
    fn after_input(&mut self, now: Instant, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        flow.report(now, id, self.scheme, &mut self.events);
        if !flow.in_turn {
            flow.in_turn = true;
            match flow.role {
                Role::Receiver => self.control_turns.push_back(id),
                Role::Sender => self.data_turns.push_back(id),
            }
        }
        self.refresh_deadline(id);
    }

    fn refresh_deadline(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let deadline = flow.connection.next_deadline();
        if deadline == flow.deadline {
            return;
        }
        if let Some(old) = std::mem::replace(&mut flow.deadline, deadline) {
            self.deadlines.remove(&(old, id));
        }
        if let Some(new) = deadline {
            self.deadlines.insert((new, id));
        }
    }

    /// RFC 9293 3.10.7.1 and 3.10.7.2: no connection has this address.
    fn handle_stranger(&mut self, now: Instant, port: u16, peer: SocketAddrV4, segment: &Segment) {
        let room = self.flows.len() < self.params.max_flows;
        if self.listening.contains(&port) && room {
            let connection = Connection::accept(
                self.params.clone(),
                self.algorithm,
                Arc::new(Vec::new()),
                self.rng.random(),
                segment,
            );
            if let Some(connection) = connection {
                let local = SocketAddrV4::new(self.address, port);
                let flow = Flow::new(Role::Receiver, local, peer, connection, segment.seq, now);
                self.insert(now, flow);
                return;
            }
        }
        self.counters.stray_segments += 1;
        if let Some(reset) = segment.reset_for()
            && self.resets.len() < MAX_WAITING_RESETS
        {
            self.resets.push_back((port, peer, reset));
        }
    }

    /// The next segment of the flows in `turns`, each in its turn. Ended flows are removed.
    fn poll_turns(&mut self, now: Instant, control: bool) -> Option<(FlowId, Segment)> {
        let turns = if control {
            self.control_turns.len()
        } else {
            self.data_turns.len()
        };
        for _ in 0..turns {
            let queue = if control {
                &mut self.control_turns
            } else {
                &mut self.data_turns
            };
            let id = queue.pop_front()?;
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            let room = self.pacer.as_mut().is_none_or(|pacer| {
                pacer.has_room(now, id, usize::from(self.params.mss_bytes) + HEADER_BYTES)
            });
            if !room {
                // Nothing is dropped between TCP and the pacer: the flow waits for the FIFO.
                queue.push_back(id);
                continue;
            }
            let segment = flow.connection.poll_transmit(now);
            flow.in_turn = segment.is_some();
            if segment.is_some() {
                queue.push_back(id);
            }
            let ended = flow.connection.state() == State::Closed;
            // Reading the object may have failed.
            flow.report(now, id, self.scheme, &mut self.events);
            self.refresh_deadline(id);
            match segment {
                Some(segment) => return Some((id, segment)),
                None if ended => self.remove(id),
                None => {}
            }
        }
        None
    }

    /// Writes a segment of flow `id` over `packet`. None if the pacer keeps it.
    fn emit(
        &mut self,
        now: Instant,
        id: FlowId,
        segment: &Segment,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        let flow = self.flows.get(&id)?;
        let local = (*flow.local.ip(), flow.local.port());
        let remote = (*flow.peer.ip(), flow.peer.port());
        segment.emit(local, remote, self.params.dscp, packet);
        if segment.payload.is_empty() {
            return Some(TxInfo {
                flow: id,
                kind: PacketKind::Control,
            });
        }
        if let Some(pacer) = &mut self.pacer {
            let bytes = packet.len();
            match pacer.enqueue(now, (id, std::mem::take(packet)), bytes, id) {
                Admission::Pass((_, passed)) | Admission::Full((_, passed)) => *packet = passed,
                Admission::Queued => return None,
            }
        }
        Some(TxInfo {
            flow: id,
            kind: PacketKind::Data,
        })
    }

    fn poll_pacer(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        let (flow, paced) = self.pacer.as_mut()?.poll(now)?;
        *packet = paced;
        Some(TxInfo {
            flow,
            kind: PacketKind::Data,
        })
    }
}

impl Transport for TcpEndpoint {
    fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        self.listening.insert(port);
        Ok(())
    }

    fn send(&mut self, now: Instant, request: SendRequest) -> Result<FlowId, SendError> {
        let SendRequest {
            to,
            source_port,
            source,
            priority: _,
            part,
        } = request;
        if part.is_some() {
            return Err(SendError::NoManyToOne);
        }
        let address = *to.ip();
        if address == self.address
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_unspecified()
        {
            return Err(SendError::BadDestination { address });
        }
        if to.port() == 0 {
            return Err(SendError::PortZero);
        }
        if self.flows.len() >= self.params.max_flows {
            return Err(SendError::TooManyFlows {
                open: self.flows.len(),
            });
        }
        let port = match source_port {
            Some(port) if self.by_address.contains_key(&(port, to)) => {
                return Err(SendError::PortInUse { port, to });
            }
            Some(port) => port,
            None => self.free_port(to).ok_or(SendError::NoFreePort { to })?,
        };
        let iss = self.rng.random();
        let stream_bytes = source.len();
        let mut connection = Connection::connect(self.params.clone(), self.algorithm, source, iss);
        connection.close();
        let local = SocketAddrV4::new(self.address, port);
        let flow = Flow::new(Role::Sender, local, to, connection, iss, now);
        Ok(self.insert(
            now,
            Flow {
                stream_bytes,
                ..flow
            },
        ))
    }

    fn abort(&mut self, now: Instant, flow: FlowId, reason: &str) {
        let id = flow;
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let unconfirmed = flow.connection.state() == State::CloseWait;
        if flow.ending == Ending::Reported && !unconfirmed {
            return;
        }
        flow.abort_reason = Some(reason.to_owned());
        flow.connection.abort();
        self.after_input(now, id);
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let Ok(ip) = Ipv4Header::parse(packet) else {
            self.counters.malformed_packets += 1;
            return;
        };
        if ip.header.protocol != Protocol::TCP || ip.header.dst != self.address {
            self.counters.foreign_packets += 1;
            return;
        }
        let Ok(tcp) = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst) else {
            self.counters.malformed_packets += 1;
            return;
        };
        let port = tcp.header.destination_port;
        let peer = SocketAddrV4::new(ip.header.src, tcp.header.source_port);
        let segment = Segment::from_wire(tcp, ip.header.ecn);
        let Some(&id) = self.by_address.get(&(port, peer)) else {
            return self.handle_stranger(now, port, peer, &segment);
        };
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let echoes = flow.connection.ece_acks();
        flow.connection.handle_segment(now, &segment);
        if let Some(pacer) = &mut self.pacer
            && flow.connection.ece_acks() > echoes
        {
            pacer.on_ecn_echo(now, id);
        }
        self.after_input(now, id);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            let Some(flow) = self.flows.get_mut(&id) else {
                return;
            };
            flow.connection.handle_deadline(now);
            self.after_input(now, id);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.handle_timeout(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let flows = self.deadlines.first().map(|&(deadline, _)| deadline);
        // A packet that waits only for the NIC has no deadline.
        let pacer = self.pacer.as_ref().filter(|pacer| !pacer.has_ready());
        let pacer = pacer.and_then(Pacer::next_deadline);
        flows.into_iter().chain(pacer).min()
    }

    fn poll_transmit(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        if let Some((port, peer, reset)) = self.resets.pop_front() {
            self.counters.resets_sent += 1;
            let (local, remote) = ((self.address, port), (*peer.ip(), peer.port()));
            reset.emit(local, remote, self.params.dscp, packet);
            // No flow of ours: a number that is never given to one.
            return Some(TxInfo {
                flow: FlowId(u64::MAX),
                kind: PacketKind::Control,
            });
        }
        if let Some((id, segment)) = self.poll_turns(now, true) {
            return self.emit(now, id, &segment, packet);
        }
        loop {
            if let Some(paced) = self.poll_pacer(now, packet) {
                return Some(paced);
            }
            let (id, segment) = self.poll_turns(now, false)?;
            if let Some(info) = self.emit(now, id, &segment, packet) {
                return Some(info);
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_active(&self) -> bool {
        !self.flows.is_empty()
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
