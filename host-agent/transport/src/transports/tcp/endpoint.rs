//! All TCP connections of a host as a [`Transport`]: ports, demultiplexing, turns between
//! connections, the pacer for `hull`, events and records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_nic::DscpSet;
use ebb_units::Instant;
use ebb_wire::{Ipv4Header, Protocol, TcpHeader};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::algorithm::Algorithm;
use super::connection::Connection;
use super::delivered_syns::DeliveredSyns;
use super::feedback::Parse;
use super::flow::{Ending, put_shortest_first};
use super::kept::{Flow, Outgoing, PersistentConnection, Pool};
use super::params::{Connections, InvalidTcpParams, TcpParams};
use super::segment::Segment;
use super::source_quench::SourceQuenches;
use super::state::State;
use crate::buffers::BufferPool;
use crate::objection::Objection;
use crate::pacer::{Admission, InvalidPacerParams, Pacer, PacerCounters, PacerParams};
use crate::receiver_driven::HostConfig;
use crate::record::Role;
use crate::selector::Selector;
use crate::timers::Timers;
use crate::transport::{
    Event, FlowId, ListenError, PacketKind, Progress, SendError, SendRequest, Transport, TxInfo,
};

/// RSTs to strangers that may wait to be sent; more are not worth sending.
const MAX_WAITING_RESETS: usize = 64;
/// Bytes of a data packet beside its payload, when asking the pacer for room.
const HEADER_BYTES: usize = 20 + 20 + 40;
/// The byte of an IPv4 header with DSCP and ECN.
const DSCP_AT: usize = 1;
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
    /// For no connection and no listening port; answered with RST.
    pub stray_segments: u64,
    /// RSTs sent in answer to stray segments.
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
    /// The pacer keeps it.
    Paced,
    /// Nobody has anything to send.
    Nothing,
}

/// A data packet in the pacer.
type PacedPacket = (FlowId, Vec<u8>);

/// The TCP of one host.
pub struct TcpEndpoint {
    pub(super) host: HostConfig,
    pub(super) scheme: &'static str,
    pub(super) algorithm: Algorithm,
    /// Packets with messages of the network for the algorithm.
    messages: Vec<(Selector, Parse)>,
    serves_shortest_first: bool,
    pub(super) params: Arc<TcpParams>,
    pacer: Option<Pacer<FlowId, PacedPacket>>,
    pub(super) listening: BTreeSet<u16>,
    /// Whether the application decides when peers get the confirmation that everything arrived.
    pub(super) holds: bool,
    /// Connections; one that carries one object has the name of its flow.
    pub(super) flows: BTreeMap<FlowId, Flow>,
    /// Connections that stay open and take objects.
    pub(super) pool: Pool,
    /// Which of them carries an object.
    pub(super) carriers: BTreeMap<FlowId, FlowId>,
    /// Own port and peer name a connection.
    pub(super) by_address: BTreeMap<(u16, SocketAddrV4), FlowId>,
    /// Handshakes that peers began and have not finished, oldest first.
    pub(super) half_open: BTreeSet<FlowId>,
    /// SYNs whose data must not be delivered again.
    delivered_syns: DeliveredSyns,
    timers: Timers<FlowId>,
    /// Flows that may have something to send: receivers, whose ACKs go first, and senders.
    control_turns: VecDeque<FlowId>,
    data_turns: VecDeque<FlowId>,
    resets: VecDeque<(u16, SocketAddrV4, Segment<'static>)>,
    pub(super) events: VecDeque<Event>,
    /// Parameters of the next flow to a peer, with the threshold that the last one ended with; of
    /// peers to which a flow has finished. Empty without `share_threshold`.
    of_peers: BTreeMap<Ipv4Addr, Arc<TcpParams>>,
    /// For delivered bytes and for packets in the pacer.
    pub(super) buffers: BufferPool,
    /// Payload of the segment being sent.
    payload: Vec<u8>,
    pub(super) next_flow: u64,
    next_port: u16,
    pub(super) rng: SmallRng,
    pub(super) counters: EndpointCounters,
}

impl TcpEndpoint {
    /// `scheme` is the name in the records. `pacer` is what makes `hull` of `dctcp`. The host's
    /// seed decides initial sequence numbers, ports and which flows the pacer associates; its MTU
    /// lowers the segment size where it has to.
    pub fn new(
        host: HostConfig,
        scheme: &'static str,
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
        Ok(TcpEndpoint {
            host,
            scheme,
            messages: algorithm.feedback.messages(),
            serves_shortest_first: algorithm.feedback.serves_shortest_first(),
            algorithm,
            delivered_syns: DeliveredSyns::new(params.time_wait()),
            params: Arc::new(params),
            pacer: pacer.map(|pacer| Pacer::new(pacer, rng.random())),
            listening: BTreeSet::new(),
            holds: false,
            flows: BTreeMap::new(),
            pool: Pool::default(),
            carriers: BTreeMap::new(),
            by_address: BTreeMap::new(),
            half_open: BTreeSet::new(),
            timers: Timers::default(),
            control_turns: VecDeque::new(),
            data_turns: VecDeque::new(),
            resets: VecDeque::new(),
            events: VecDeque::new(),
            of_peers: BTreeMap::new(),
            buffers: BufferPool::default(),
            payload: Vec::new(),
            next_flow: 0,
            next_port: rng.random_range(host.source_ports.0..=host.source_ports.1),
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
        self.pacer.as_ref().map(Pacer::counters)
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

    fn free_port(&mut self, to: SocketAddrV4) -> Option<u16> {
        let (first, last) = self.host.source_ports;
        for _ in first..=last {
            let port = self.next_port;
            self.next_port = if port == last { first } else { port + 1 };
            if !self.by_address.contains_key(&(port, to)) && !self.listening.contains(&port) {
                return Some(port);
            }
        }
        None
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
            Some(port) if self.by_address.contains_key(&(port, to)) => {
                Err(SendError::PortInUse { port, to })
            }
            Some(port) => Ok(port),
            None => self.free_port(to).ok_or(SendError::NoFreePort { to }),
        }
    }

    fn next_id(&mut self) -> FlowId {
        self.next_flow += 1;
        FlowId(self.next_flow - 1)
    }

    pub(super) fn insert(&mut self, now: Instant, mut flow: Flow) -> FlowId {
        let id = self.next_id();
        flow.id = id;
        flow.timer_slot = self.timers.open_slot();
        self.by_address.insert((flow.local.port(), flow.peer), id);
        self.flows.insert(id, flow);
        self.after_input(now, id);
        id
    }

    fn remove(&mut self, now: Instant, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            if flow.connection.took_early() {
                let syn = (flow.local.port(), flow.peer, flow.session);
                self.delivered_syns.remember(now, syn);
            }
            self.by_address.remove(&(flow.local.port(), flow.peer));
            self.timers.close_slot(flow.timer_slot);
            self.half_open.remove(&id);
            if let Some(kept) = &flow.kept {
                self.pool.remove(*flow.peer.ip(), kept.dscp, id);
            }
        }
    }

    /// Something happened to the flow: reports it, and gives it a turn to send.
    pub(super) fn after_input(&mut self, now: Instant, id: FlowId) {
        let Some(flow) = self.flows.get(&id) else {
            return;
        };
        let was_reported = flow.ending == Ending::Reported;
        self.report(now, id);
        let Some(flow) = self.flows.get_mut(&id) else {
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
            self.half_open.remove(&id);
        }
        if !flow.in_turn {
            flow.in_turn = true;
            if flow.sends_data() {
                self.data_turns.push_back(id);
            } else {
                self.control_turns.push_back(id);
            }
        }
        self.refresh_deadline(id);
    }

    /// Tells what has happened on a connection.
    fn report(&mut self, now: Instant, id: FlowId) {
        match self.flows.get_mut(&id) {
            Some(flow) if flow.kept.is_some() => self.report_kept(now, id),
            Some(flow) => flow.report(now, id, self.scheme, &mut self.buffers, &mut self.events),
            None => {}
        }
    }

    fn refresh_deadline(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get(&id) {
            let deadline = flow.next_deadline();
            self.timers.set(flow.timer_slot, id, deadline);
        }
    }

    /// Is there room for one more handshake? The oldest makes room if its peer has had more than
    /// the time of a timeout to answer (RFC 4987 3.3); younger ones are probably honest.
    fn has_room_for_handshake(&mut self, now: Instant) -> bool {
        if self.half_open.len() < self.params.max_half_open
            && self.flows.len() < self.params.max_flows
        {
            return true;
        }
        let oldest = self.half_open.first().copied();
        let Some((id, flow)) = oldest.and_then(|id| Some((id, self.flows.get(&id)?))) else {
            return false;
        };
        if now.since(flow.started) < self.params.initial_rto() {
            return false;
        }
        self.counters.evicted_handshakes += 1;
        if flow.connection.took_early()
            && let Some(flow) = self.flows.get_mut(&id)
        {
            let reason = "the peer has not ended the handshake, and another wants its place";
            flow.abort_reason = Some(reason.to_owned());
            flow.connection.abort();
            self.report(now, id);
        }
        self.remove(now, id);
        true
    }

    /// A SYN to a port we listen on.
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
        if has_data && self.delivered_syns.knows(now, syn) {
            self.counters.duplicate_syns += 1;
            return;
        }
        let plain = (has_data && self.delivered_syns.is_full()).then(|| segment.without_data());
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
        flow.kept = stays_open.then(|| {
            Box::new(PersistentConnection::new(
                false,
                dscp,
                self.params.keep_open(),
            ))
        });
        flow.is_half_open = true;
        let id = self.insert(now, flow);
        // What its SYN carried may have ended it already.
        if self.flows.get(&id).is_some_and(|flow| flow.is_half_open) {
            self.half_open.insert(id);
        }
        if stays_open {
            self.pool.add(*peer.ip(), dscp, None, id);
        }
    }

    /// RFC 9293 3.10.7.1 and 3.10.7.2: no connection has this address.
    fn handle_stranger(
        &mut self,
        now: Instant,
        port: u16,
        peer: SocketAddrV4,
        segment: &Segment<'_>,
        dscp: u8,
    ) {
        if self.listening.contains(&port) && segment.opens_a_connection() {
            return self.accept(now, port, peer, segment, dscp);
        }
        self.counters.stray_segments += 1;
        if let Some(reset) = segment.reset_for()
            && self.resets.len() < MAX_WAITING_RESETS
        {
            self.resets.push_back((port, peer, reset));
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
        let Some(&id) = self.by_address.get(&(sender.port(), receiver)) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.local == sender) {
            let had_effect = flow.connection.handle_message(now, &message);
            self.counters.quenched += u64::from(had_effect);
            self.after_input(now, id);
        }
    }

    /// The next packet of the flows that send (or with `control` those that receive), each in its
    /// turn, written over `packet`. Flows of classes that are not wanted stay where they are. Ended
    /// flows are removed.
    fn poll_turns(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        control: bool,
        packet: &mut Vec<u8>,
    ) -> Turn {
        let turns = if control {
            self.control_turns.len()
        } else {
            self.data_turns.len()
        };
        for _ in 0..turns {
            let chooses = !control && self.serves_shortest_first;
            if chooses && !put_shortest_first(&mut self.data_turns, &self.flows, wanted) {
                break;
            }
            let queue = if control {
                &mut self.control_turns
            } else {
                &mut self.data_turns
            };
            let Some(id) = queue.pop_front() else {
                break;
            };
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            if !wanted.contains(flow.dscp) {
                queue.push_back(id);
                continue;
            }
            let room = self.pacer.as_mut().is_none_or(|pacer| {
                pacer.has_room(now, id, usize::from(self.params.mss_bytes) + HEADER_BYTES)
            });
            if !room {
                // Nothing is dropped between TCP and the pacer: the flow waits for the FIFO.
                queue.push_back(id);
                continue;
            }
            if let Some(mut kept) = flow.kept.take() {
                kept.fill(flow);
                flow.kept = Some(kept);
            }
            let segment = flow.connection.poll_transmit(now, &mut self.payload);
            flow.in_turn = segment.is_some();
            let sent = segment.map(|segment| {
                match flow.connection.in_burst() {
                    true => queue.push_front(id),
                    false => queue.push_back(id),
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
            self.refresh_deadline(id);
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
        if let (PacketKind::Data, Some(pacer)) = (info.kind, &mut self.pacer) {
            let bytes = packet.len();
            let paced = std::mem::replace(packet, self.buffers.take());
            match pacer.enqueue(now, (info.flow, paced), bytes, info.flow) {
                Admission::Queued => return Turn::Paced,
                Admission::Pass((_, passed)) | Admission::Full((_, passed)) => {
                    self.buffers.put(std::mem::replace(packet, passed));
                }
            }
        }
        Turn::Sent(info)
    }

    /// The packet that the pacer lets go next. One of a class that is not wanted stays, and with it
    /// what is behind it: the pacer is one FIFO.
    fn poll_pacer(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        let pacer = self.pacer.as_mut()?;
        let (_, first) = pacer.next_ready(now)?;
        if !wanted.contains(first[DSCP_AT] >> 2) {
            return None;
        }
        let (flow, paced) = pacer.poll(now)?;
        self.buffers.put(std::mem::replace(packet, paced));
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

    fn unlisten(&mut self, port: u16) {
        self.listening.remove(&port);
    }

    fn uses_port(&self, port: u16) -> bool {
        let mut resets = self.resets.iter();
        self.by_address.keys().any(|(own, _)| *own == port) || resets.any(|(own, ..)| *own == port)
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
        let address = *to.ip();
        if address == self.host.address
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_unspecified()
        {
            return Err(SendError::BadDestination { address });
        }
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
            self.with_kept(id, |kept, _, _| kept.set_paused(flow, paused));
            self.after_input(now, id);
        } else if let Some(receiver) = self.flows.get_mut(&flow)
            && receiver.role == Role::Receiver
        {
            receiver.paused = paused;
            self.after_input(now, flow);
        }
    }

    fn progress(&self, flow: FlowId) -> Option<Progress> {
        match self.carriers.get(&flow) {
            Some(id) => {
                let connection = self.flows.get(id)?;
                connection.kept.as_ref()?.progress(flow, connection)
            }
            None => self.flows.get(&flow)?.progress(),
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.buffers.put(buffer);
    }

    fn hold_confirmations(&mut self) {
        self.holds = true;
    }

    fn confirm(&mut self, now: Instant, flow: FlowId) {
        if let Some(&id) = self.carriers.get(&flow) {
            self.with_kept(id, |kept, connection, shared| {
                kept.confirm(flow, connection, shared);
            });
            self.after_input(now, id);
        } else if let Some(receiver) = self.flows.get_mut(&flow)
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
        let segment = Segment::from_wire(tcp, ip.header.ecn);
        let Some(&id) = self.by_address.get(&(port, peer)) else {
            return self.handle_stranger(now, port, peer, &segment, ip.header.dscp);
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
        while let Some((deadline, id)) = self.timers.first()
            && deadline <= now
        {
            let Some(flow) = self.flows.get_mut(&id) else {
                return;
            };
            flow.handle_deadline(now);
            self.after_input(now, id);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.handle_timeout(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let flows = self.timers.first().map(|(deadline, _)| deadline);
        // A packet that waits only for the NIC has no deadline.
        let pacer = self.pacer.as_ref().filter(|pacer| !pacer.has_ready());
        let pacer = pacer.and_then(Pacer::next_deadline);
        Instant::earliest([flows, pacer])
    }

    fn poll_transmit_of(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        if wanted.contains(self.params.dscp)
            && let Some((port, peer, reset)) = self.resets.pop_front()
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
        if let Turn::Sent(info) = self.poll_turns(now, wanted, true, packet) {
            return Some(info);
        }
        loop {
            if let Some(paced) = self.poll_pacer(now, wanted, packet) {
                return Some(paced);
            }
            match self.poll_turns(now, wanted, false, packet) {
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
        let is_idle = |flow: &Flow| flow.kept.as_ref().is_some_and(|kept| kept.is_idle());
        !self.flows.values().all(is_idle)
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
