//! All TCP connections of a host as a [`Transport`]: ports, demultiplexing, turns between
//! connections, the pacer for `hull`, events and records.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_nic::DscpSet;
use ebb_units::Instant;
use ebb_wire::{Ipv4Header, Protocol, TcpHeader};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::algorithm::Algorithm;
use super::connection::Connection;
use super::feedback::Parse;
use super::flow::Ending;
use super::flow_table::FlowTable;
use super::listener::Listener;
use super::paced::Paced;
use super::params::{Connections, InvalidTcpParams, TcpParams};
use super::persistent::{Flow, Outgoing, Pool};
use super::segment::Segment;
use super::source_quench::SourceQuenches;
use super::state::State;
use super::turns::{Kind, Turns};
use crate::addressing::{SourcePorts, check_destination};
use crate::buffers::BufferPool;
use crate::objection::Objection;
use crate::pacer::{InvalidPacerParams, Pacer, PacerCounters, PacerParams};
use crate::receiver_driven::HostConfig;
use crate::record::Role;
use crate::selector::Selector;
use crate::transport::{
    Event, FlowId, ListenError, PacketKind, Progress, SendError, SendRequest, StreamBytes,
    Transport, TxInfo,
};

/// Headers of a data packet at most, in bytes, for which the pacer must have room.
const HEADER_BYTES: usize = 20 + 20 + 40;
/// Offset of the port in a TCP header.
const DESTINATION_PORT_AT: u8 = 2;
/// The bytes of an IPv4 header with the destination address.
const DESTINATION_AT: std::ops::Range<usize> = 16..20;

/// Reasons why an endpoint cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
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
    /// RSTs sent in answer to segments for no connection and no listening port.
    pub resets_sent: u64,
    /// Dropped because as many handshakes were under way as `max_half_open` allows.
    pub refused_syns: u64,
    /// Handshakes given up for a newer one.
    pub evicted_handshakes: u64,
    /// Late copies of SYNs whose data had been delivered.
    pub duplicate_syns: u64,
    /// Messages of the network that had an effect on a sender, as a Source Quench that lowered its window.
    pub quenched: u64,
}

/// Result of a turn.
enum Turn {
    /// A packet was written.
    Sent(TxInfo),
    /// The pacer has taken the packet.
    Paced,
    /// No connection has anything to send.
    Nothing,
}

/// The TCP of one host.
pub struct TcpEndpoint {
    pub(super) host: HostConfig,
    /// Name in the records.
    pub(super) transport: &'static str,
    pub(super) algorithm: Algorithm,
    /// Packets with messages of the network for the algorithm.
    messages: Vec<(Selector, Parse)>,
    pub(super) params: Arc<TcpParams>,
    pub(super) paced: Paced,
    /// Ports that listen, and handshakes that peers begin.
    pub(super) listener: Listener,
    /// The application decides when peers get the confirmation that everything arrived.
    pub(super) holds: bool,
    pub(super) flows: FlowTable,
    /// Persistent connections that take objects.
    pub(super) pool: Pool,
    /// The persistent connection of each object.
    pub(super) carriers: BTreeMap<FlowId, FlowId>,
    turns: Turns,
    pub(super) events: VecDeque<Event>,
    /// Parameters of the next flow to a peer, with the threshold that the last one ended with, by
    /// peer. Empty without `share_threshold`.
    of_peers: BTreeMap<Ipv4Addr, Arc<TcpParams>>,
    /// Buffers for delivered bytes and for packets in the pacer.
    pub(super) buffers: BufferPool,
    /// Payload of the segment being sent.
    payload: Vec<u8>,
    pub(super) next_flow: u64,
    source_ports: SourcePorts,
    pub(super) rng: SmallRng,
    pub(super) counters: EndpointCounters,
}

impl TcpEndpoint {
    /// `transport` is the name in the records. `pacer` is what makes `hull` of `dctcp`. The host's
    /// seed decides initial sequence numbers, ports and which flows the pacer associates; its MTU
    /// settles the segment size.
    pub fn new(
        host: HostConfig,
        transport: &'static str,
        mut algorithm: Algorithm,
        mut params: TcpParams,
        pacer: Option<&PacerParams>,
    ) -> Result<Self, ConfigError> {
        params.fit_mtu(host.nic.mtu_bytes);
        params.validate()?;
        if let Some(pacer) = pacer {
            pacer.validate()?;
        }
        if params.source_quench {
            algorithm.feedback = algorithm.feedback.with(SourceQuenches);
        }
        let mut rng = SmallRng::seed_from_u64(host.seed);
        let pacer = pacer.map(|pacer| Pacer::new(pacer, rng.random()));
        let (first, last) = host.source_ports;
        let next_port = rng.random_range(first..=last);
        Ok(TcpEndpoint {
            host,
            transport,
            messages: algorithm.feedback.messages(),
            turns: Turns::new(algorithm.feedback.serves_shortest_first()),
            algorithm,
            paced: Paced::new(pacer),
            listener: Listener::new(params.time_wait()),
            params: Arc::new(params),
            holds: false,
            flows: FlowTable::default(),
            pool: Pool::default(),
            carriers: BTreeMap::new(),
            events: VecDeque::new(),
            of_peers: BTreeMap::new(),
            buffers: BufferPool::default(),
            payload: Vec::new(),
            next_flow: 0,
            source_ports: SourcePorts::new((first, last), next_port),
            rng,
            counters: EndpointCounters::default(),
        })
    }

    /// Counters since the endpoint was made.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Counters of the pacer. None: there is none.
    pub fn pacer_counters(&self) -> Option<PacerCounters> {
        self.paced.counters()
    }

    /// DSCP of the packets of flows of this priority.
    fn dscp_of(&self, priority: u8) -> u8 {
        if priority > 0 {
            self.host.dscp.priority.of(priority)
        } else {
            self.params.dscp
        }
    }

    /// How connections of this DSCP react to congestion.
    pub(super) fn algorithm_for(&self, dscp: u8) -> Algorithm {
        let has_priority = self.host.dscp.priority.contains(dscp);
        self.algorithm.clone().for_priority(has_priority)
    }

    /// A port for a connection to `to`: the one that is wanted, or any.
    pub(super) fn port_for(
        &mut self,
        wanted: Option<u16>,
        to: SocketAddrV4,
    ) -> Result<u16, SendError> {
        if self.flows.len() >= self.params.max_flows {
            return Err(SendError::TooManyFlows {
                open: self.flows.len(),
            });
        }
        match wanted {
            Some(port) if self.flows.find(port, to).is_some() => {
                Err(SendError::PortInUse { port, to })
            }
            Some(port) => Ok(port),
            None => {
                let (flows, listener) = (&self.flows, &self.listener);
                let is_free = |port| flows.find(port, to).is_none() && !listener.listens(port);
                let port = self.source_ports.take(is_free);
                port.ok_or(SendError::NoFreePort { to })
            }
        }
    }

    fn next_id(&mut self) -> FlowId {
        self.next_flow += 1;
        FlowId(self.next_flow - 1)
    }

    pub(super) fn insert(&mut self, now: Instant, flow: Flow) -> FlowId {
        let id = self.next_id();
        self.flows.insert(id, flow);
        self.after_input(now, id);
        id
    }

    pub(super) fn remove(&mut self, now: Instant, id: FlowId) {
        if let Some(flow) = self.flows.remove(id) {
            self.listener.forget(now, id, &flow);
            if let Some(objects) = &flow.persistent {
                self.pool.remove(*flow.peer.ip(), objects.dscp, id);
            }
        }
    }

    /// Reports events of a connection after an input, and gives it a turn to send.
    pub(super) fn after_input(&mut self, now: Instant, id: FlowId) {
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        let was_reported = flow.ending == Ending::Reported;
        self.report(now, id);
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if self.params.share_threshold && !was_reported && flow.ending == Ending::Reported {
            let threshold = flow.connection.statistics().threshold_packets;
            if flow.role == Role::Sender && threshold >= self.params.min_window_packets {
                let params = TcpParams {
                    initial_threshold_packets: threshold,
                    ..(*self.params).clone()
                };
                self.of_peers.insert(*flow.peer.ip(), Arc::new(params));
            }
        }
        if flow.is_half_open && flow.connection.state() != State::SynReceived {
            flow.is_half_open = false;
            self.listener.ended_handshake(id);
        }
        if !flow.in_turn {
            flow.in_turn = true;
            let kind = match flow.sends_data() {
                true => Kind::Data,
                false => Kind::Control,
            };
            self.turns.push(kind, id);
        }
        self.flows.refresh_deadline(id);
    }

    /// Reports events of a connection.
    pub(super) fn report(&mut self, now: Instant, id: FlowId) {
        match self.flows.get_mut(id) {
            Some(flow) if flow.persistent.is_some() => self.report_persistent(now, id),
            Some(flow) => flow.report(now, id, self.transport, &mut self.buffers, &mut self.events),
            None => {}
        }
    }

    /// A message of the network, as a selector of the algorithm's feedback has it.
    fn handle_message(&mut self, now: Instant, packet: &[u8], parse: Parse) {
        let Ok(message) = parse(packet) else {
            self.counters.malformed_packets += 1;
            return;
        };
        if packet.get(DESTINATION_AT) != Some(&self.host.address.octets()[..]) {
            self.counters.foreign_packets += 1;
            return;
        }
        let (sender, receiver) = message.addresses();
        let Some(id) = self.flows.find(sender.port(), receiver) else {
            return;
        };
        let flow = self.flows.get_mut(id);
        if let Some(flow) = flow.filter(|flow| flow.local == sender) {
            let had_effect = flow.connection.handle_message(now, &message);
            self.counters.quenched += u64::from(had_effect);
            self.after_input(now, id);
        }
    }

    /// The next packet of the connections of a kind, each in its turn, written over `packet`. Those of
    /// classes that are not wanted stay where they are. Ended ones are removed.
    fn poll_turns(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        kind: Kind,
        packet: &mut Vec<u8>,
    ) -> Turn {
        for _ in 0..self.turns.len(kind) {
            let Some(id) = self.turns.pop(kind, &self.flows, wanted) else {
                break;
            };
            let Some(flow) = self.flows.get_mut(id) else {
                continue;
            };
            let bytes = usize::from(self.params.segment_bytes()) + HEADER_BYTES;
            if !wanted.contains(flow.dscp) || !self.paced.has_room(now, id, bytes) {
                self.turns.push(kind, id);
                continue;
            }
            if let Some(mut objects) = flow.persistent.take() {
                objects.fill(flow);
                flow.persistent = Some(objects);
            }
            let segment = flow.connection.poll_transmit(now, &mut self.payload);
            flow.in_turn = segment.is_some();
            let sent = segment.map(|segment| {
                match flow.connection.in_burst() {
                    true => self.turns.push_next(kind, id),
                    false => self.turns.push(kind, id),
                }
                let local = (*flow.local.ip(), flow.local.port());
                let peer = (*flow.peer.ip(), flow.peer.port());
                segment.emit(local, peer, flow.dscp, packet);
                if segment.payload.is_empty() || segment.flags.rst {
                    PacketKind::Control
                } else {
                    PacketKind::Data
                }
            });
            let ended = flow.connection.state() == State::Closed;
            // Reading the object may have failed.
            self.report(now, id);
            self.flows.refresh_deadline(id);
            match sent {
                Some(kind) => return self.pace(now, TxInfo { flow: id, kind }, packet),
                None if ended => self.remove(now, id),
                None => {}
            }
        }
        Turn::Nothing
    }

    /// Lets the pacer have a packet with payload, if it wants it.
    fn pace(&mut self, now: Instant, info: TxInfo, packet: &mut Vec<u8>) -> Turn {
        match self.paced.takes(now, &info, packet, &mut self.buffers) {
            true => Turn::Paced,
            false => Turn::Sent(info),
        }
    }
}

impl Transport for TcpEndpoint {
    fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        self.listener.listen(port);
        Ok(())
    }

    fn unlisten(&mut self, port: u16) {
        self.listener.unlisten(port);
    }

    fn uses_port(&self, port: u16) -> bool {
        self.flows.ports().any(|own| own == port) || self.listener.resets_from(port)
    }

    fn send(&mut self, now: Instant, request: SendRequest) -> Result<FlowId, SendError> {
        let SendRequest {
            to,
            source_port,
            source,
            priority,
            part,
            via,
        } = request;
        if part.is_some() {
            return Err(SendError::NoManyToOne);
        }
        check_destination(self.host.address, *to.ip())?;
        if to.port() == 0 {
            return Err(SendError::PortZero);
        }
        let dscp = self.dscp_of(priority);
        let answered = via.answered();
        let answers_over = answered.and_then(|peer| self.connection_from(peer, dscp));
        if answers_over.is_some() || self.params.connections == Connections::Open {
            if self.carriers.len() >= self.params.max_flows {
                let open = self.carriers.len();
                return Err(SendError::TooManyFlows { open });
            }
            let flow = self.next_id();
            let mut object = Outgoing::new(flow, source, to, via, dscp, now);
            object.source_port = source_port;
            let id = self.connection_for(now, &object)?;
            self.place(now, object, id);
            return Ok(flow);
        }
        let port = self.port_for(source_port, to)?;
        let iss = self.rng.random();
        let stream_bytes = source.len();
        let params = self.of_peers.get(to.ip()).unwrap_or(&self.params).clone();
        let algorithm = self.algorithm_for(dscp);
        let mut connection = Connection::connect(params, algorithm, source, iss);
        if via.is_to_stranger() {
            connection.distrust_peer();
        }
        connection.close();
        let local = SocketAddrV4::new(self.host.address, port);
        let mut flow = Flow::new(Role::Sender, local, to, connection, iss, now);
        flow.stream_bytes = stream_bytes;
        flow.dscp = dscp;
        Ok(self.insert(now, flow))
    }

    fn set_paused(&mut self, now: Instant, flow: FlowId, paused: bool) {
        if let Some(&id) = self.carriers.get(&flow) {
            self.with_persistent(id, |objects, _, _| objects.set_paused(flow, paused));
            self.after_input(now, id);
        } else if let Some(receiver) = self.flows.get_mut(flow)
            && receiver.role == Role::Receiver
        {
            receiver.paused = paused;
            self.after_input(now, flow);
        }
    }

    fn progress(&self, flow: FlowId) -> Option<Progress> {
        match self.carriers.get(&flow) {
            Some(id) => {
                let connection = self.flows.get(*id)?;
                connection.persistent.as_ref()?.progress(flow, connection)
            }
            None => self.flows.get(flow)?.progress(),
        }
    }

    fn recycle(&mut self, bytes: StreamBytes) {
        if let StreamBytes::Owned(buffer) = bytes {
            self.buffers.put(buffer);
        }
    }

    fn hold_confirmations(&mut self) {
        self.holds = true;
    }

    fn confirm(&mut self, now: Instant, flow: FlowId) {
        if let Some(&id) = self.carriers.get(&flow) {
            self.with_persistent(id, |objects, connection, shared| {
                objects.confirm(flow, connection, shared);
            });
            self.after_input(now, id);
        } else if let Some(receiver) = self.flows.get_mut(flow)
            && receiver.ending == Ending::Reported
            && receiver.holds
        {
            receiver.holds = false;
            receiver.connection.close();
            self.after_input(now, flow);
        }
    }

    fn abort(&mut self, now: Instant, flow: FlowId, reason: &str) {
        self.give_up(now, flow, reason, None);
    }

    fn refuse(&mut self, now: Instant, flow: FlowId, reason: &str, objection: Objection) {
        self.give_up(now, flow, reason, Some(objection));
    }

    fn selectors(&self) -> Vec<Selector> {
        let messages = self.messages.iter().map(|(selector, _)| *selector);
        let own = Selector::any(Protocol::TCP, DESTINATION_PORT_AT);
        messages.chain([own]).collect()
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let mut messages = self.messages.iter();
        if let Some((_, parse)) = messages.find(|(selector, _)| selector.matches(packet)) {
            return self.handle_message(now, packet, *parse);
        }
        let Ok(ip) = Ipv4Header::parse(packet) else {
            self.counters.malformed_packets += 1;
            return;
        };
        if ip.header.dst != self.host.address || ip.header.protocol != Protocol::TCP {
            self.counters.foreign_packets += 1;
            return;
        }
        let Ok(tcp) = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst) else {
            self.counters.malformed_packets += 1;
            return;
        };
        let port = tcp.header.destination_port;
        let peer = SocketAddrV4::new(ip.header.src, tcp.header.source_port);
        let segment = Segment::from_wire(tcp, &ip.header);
        let Some(id) = self.flows.find(port, peer) else {
            return self.handle_stranger(now, port, peer, &segment, ip.header.dscp);
        };
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let echoes = flow.connection.ece_acks();
        flow.connection.handle_segment(now, &segment);
        if flow.connection.ece_acks() > echoes {
            self.paced.on_ecn_echo(now, id);
        }
        self.after_input(now, id);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some((deadline, id)) = self.flows.first_deadline()
            && deadline <= now
        {
            let Some(flow) = self.flows.get_mut(id) else {
                return;
            };
            flow.handle_deadline(now);
            self.after_input(now, id);
        }
        self.paced.handle_timeout(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let flows = self.flows.first_deadline();
        let flows = flows.map(|(deadline, _)| deadline);
        Instant::earliest([flows, self.paced.next_deadline()])
    }

    fn poll_transmit_of(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        if wanted.contains(self.params.dscp)
            && let Some((port, peer, reset)) = self.listener.poll_reset()
        {
            self.counters.resets_sent += 1;
            let (local, remote) = ((self.host.address, port), (*peer.ip(), peer.port()));
            reset.emit(local, remote, self.params.dscp, packet);
            // No flow of ours: a number that is never given to one.
            return Some(TxInfo {
                flow: FlowId(u64::MAX),
                kind: PacketKind::Control,
            });
        }
        if let Turn::Sent(info) = self.poll_turns(now, wanted, Kind::Control, packet) {
            return Some(info);
        }
        loop {
            let paced = self.paced.poll(now, wanted, packet, &mut self.buffers);
            if paced.is_some() {
                return paced;
            }
            match self.poll_turns(now, wanted, Kind::Data, packet) {
                Turn::Sent(info) => return Some(info),
                Turn::Paced => {}
                Turn::Nothing => return None,
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_active(&self) -> bool {
        let is_idle = |flow: &Flow| {
            flow.persistent
                .as_ref()
                .is_some_and(|objects| objects.is_idle())
        };
        !self.flows.iter().all(|(_, flow)| is_idle(flow))
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
