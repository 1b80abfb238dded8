//! All sessions of one scheme on one host: the [`Transport`] of NDP and of SCDP.
//!
//! What arrives is handled in `inbound`; this file has the tables, the way out and the timers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, Ecn, Ipv4Header, PacketType, Protocol};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::pull_queue::{MAX_PRIORITY, PullQueue};
use super::session::{Cast, Ending, Outbox, ReceiverSession, Scheme, SenderSession};
use super::tombstones::{Epitaph, SessionKey, Tombstone, Tombstones};
use super::{DscpParams, ResetReason};
use crate::nic::NicParams;
use crate::object::ObjectSource;
use crate::record::{Counters, FlowRecord, GroupSummary, Role, Status};
use crate::transport::{
    DecodeResult, Event, FlowId, GroupRequest, Job, ListenError, PacketKind, Progress, SendError,
    SendRequest, Transport, TxInfo,
};

/// Ended sessions that are remembered; more than are ever open at once.
const MAX_TOMBSTONES: usize = 65_536;
/// Answers to packets without a session that may wait to be sent.
pub(super) const MAX_STRAY_RESETS: usize = 256;
/// The flow that packets without a session belong to.
pub(super) const STRAY: FlowId = FlowId(0);

/// RFC 6335: the ports that nobody is assigned.
pub const EPHEMERAL_PORTS: (u16, u16) = (49152, 65535);

/// A heap, because it keeps its memory.
type Deadlines = BinaryHeap<Reverse<(Instant, FlowId)>>;

/// What a host is.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    pub address: Ipv4Addr,
    pub nic: NicParams,
    pub dscp: DscpParams,
    /// Source ports that flows may take, first and last.
    pub source_ports: (u16, u16),
    /// For session ids and path entropy.
    pub seed: u64,
}

/// Arrived packets that belong to no flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StrayCounters {
    /// Not a packet of this protocol, or damaged.
    pub malformed: u64,
    /// For another host, or of another scheme.
    pub misdirected: u64,
    /// Of no open session.
    pub unknown_session: u64,
}

/// The two ends of a session and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Of a one-to-many session: the multicast address.
    pub peer: SocketAddrV4,
    pub local_port: u16,
    pub session: u32,
}

impl Path {
    /// Whether a packet from `src` belongs here: a guessed session id alone is not enough.
    pub fn matches(&self, src: Ipv4Addr, header: &EbbHeader) -> bool {
        *self.peer.ip() == src && self.matches_ports(header)
    }

    /// The same where the session was found by the address already.
    pub fn matches_ports(&self, header: &EbbHeader) -> bool {
        self.peer.port() == header.source_port
            && self.local_port == header.destination_port
            && self.session == header.session
    }

    /// The way to one peer of several.
    fn to(self, address: Ipv4Addr) -> Path {
        let peer = SocketAddrV4::new(address, self.peer.port());
        Path { peer, ..self }
    }
}

/// An open session.
pub(super) struct Open<T> {
    pub path: Path,
    /// The peer, or the receivers of a group.
    pub peers: Vec<Ipv4Addr>,
    pub state: T,
    pub started: Instant,
    pub stream_bytes: u64,
    /// Sender: what its packets announce. Receiver: what the first packet announced.
    pub priority: Option<u8>,
    /// As entered in `Host::deadlines`.
    pub deadline: Option<Instant>,
}

/// See the module documentation.
pub struct Host<S: Scheme> {
    pub(super) config: HostConfig,
    pub(super) params: S::Params,
    rng: SmallRng,
    pub(super) listening: BTreeSet<u16>,
    last_flow: u64,
    last_port: u16,
    pub(super) senders: BTreeMap<FlowId, Open<S::Sender>>,
    /// By receiver and session id, with the receiver's place in `Open::peers`.
    pub(super) senders_by_key: BTreeMap<SessionKey, (FlowId, usize)>,
    pub(super) receivers: BTreeMap<FlowId, Open<S::Receiver>>,
    pub(super) receivers_by_key: BTreeMap<SessionKey, FlowId>,
    pub(super) tombstones: Tombstones,
    pub(super) control: VecDeque<(FlowId, Path, EbbHeader)>,
    pulls: PullQueue,
    /// Senders with a packet to send, next one first.
    ready: VecDeque<FlowId>,
    /// When sessions are to be looked at, next one first. Only what `Open::deadline` says counts.
    deadlines: Deadlines,
    pub(super) events: VecDeque<Event>,
    jobs: VecDeque<Job>,
    pub(super) stray: StrayCounters,
    payload: Vec<u8>,
    /// Handed to every call into a receiver session, so that it need not be allocated.
    pub(super) out: Outbox,
}

impl<S: Scheme> Host<S> {
    pub fn new(config: HostConfig, params: S::Params) -> Self {
        let mut rng = SmallRng::seed_from_u64(config.seed);
        let nic = config.nic;
        let full_frame = nic.frame_time(usize::from(nic.mtu_bytes));
        // Longer than any sender waits for a last confirmation, and what is on its way to it.
        let retry = S::retry(&params);
        let linger = S::limits(&params)
            .linger
            .max(retry.patience() + retry.max_rto);
        Host {
            pulls: PullQueue::new(full_frame, nic.catch_up()),
            tombstones: Tombstones::new(linger, MAX_TOMBSTONES),
            last_port: rng.random_range(config.source_ports.0..=config.source_ports.1),
            config,
            params,
            rng,
            listening: BTreeSet::new(),
            last_flow: STRAY.0,
            senders: BTreeMap::new(),
            senders_by_key: BTreeMap::new(),
            receivers: BTreeMap::new(),
            receivers_by_key: BTreeMap::new(),
            control: VecDeque::new(),
            ready: VecDeque::new(),
            deadlines: Deadlines::new(),
            events: VecDeque::new(),
            jobs: VecDeque::new(),
            stray: StrayCounters::default(),
            payload: Vec::new(),
            out: Outbox::default(),
        }
    }

    /// Packets that belonged to no flow.
    pub fn stray(&self) -> StrayCounters {
        self.stray
    }

    /// Payload of a full packet.
    pub(super) fn symbol_bytes(&self) -> u16 {
        self.config.nic.mtu_bytes - (Ipv4Header::BYTES + EbbHeader::BYTES) as u16
    }

    pub(super) fn new_flow(&mut self) -> FlowId {
        self.last_flow += 1;
        FlowId(self.last_flow)
    }

    fn choose_port(&mut self, to: SocketAddrV4, wanted: Option<u16>) -> Result<u16, SendError> {
        let in_use = |host: &Self, port| {
            host.senders
                .values()
                .any(|s| s.path.peer == to && s.path.local_port == port)
        };
        if let Some(port) = wanted {
            return if port == 0 {
                Err(SendError::PortZero)
            } else if in_use(self, port) {
                Err(SendError::PortInUse { port, to })
            } else {
                Ok(port)
            };
        }
        let (first, last) = self.config.source_ports;
        for _ in first..=last {
            self.last_port = if self.last_port == last {
                first
            } else {
                self.last_port + 1
            };
            if !in_use(self, self.last_port) {
                return Ok(self.last_port);
            }
        }
        Err(SendError::NoFreePort { to })
    }

    fn check_destination(&self, address: Ipv4Addr) -> Result<(), SendError> {
        let nobody = address == self.config.address
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_unspecified();
        if nobody {
            return Err(SendError::BadDestination { address });
        }
        Ok(())
    }

    /// Opens a session that sends to `to`; pulls come from `peers`.
    fn start(
        &mut self,
        now: Instant,
        to: SocketAddrV4,
        source_port: Option<u16>,
        source: Arc<dyn ObjectSource>,
        peers: Vec<Ipv4Addr>,
        priority: u8,
        cast: Cast,
    ) -> Result<FlowId, SendError> {
        if to.port() == 0 {
            return Err(SendError::PortZero);
        }
        let limit = S::max_object_bytes(&self.params, self.symbol_bytes());
        let bytes = source.len();
        if bytes > limit {
            return Err(SendError::TooLarge { bytes, limit });
        }
        let open = self.senders.len();
        if open >= S::limits(&self.params).max_flows {
            return Err(SendError::TooManyFlows { open });
        }
        let local_port = self.choose_port(to, source_port)?;
        let mut session = self.rng.random();
        let taken = |host: &Self, session| {
            let mut keys = peers.iter().map(|&address| (address, session));
            keys.any(|key| host.senders_by_key.contains_key(&key))
        };
        while taken(self, session) {
            session = self.rng.random();
        }
        let flow = self.new_flow();
        let state = S::sender(now, &self.params, self.symbol_bytes(), source, cast);
        let path = Path {
            peer: to,
            local_port,
            session,
        };
        let keys: Vec<_> = (0..)
            .zip(&peers)
            .map(|(index, &address)| ((address, session), (flow, index)))
            .collect();
        let open = Open {
            path,
            peers,
            state,
            started: now,
            stream_bytes: bytes,
            priority: Some(priority.min(MAX_PRIORITY)),
            deadline: None,
        };
        self.senders.insert(flow, open);
        self.senders_by_key.extend(keys);
        self.after_sender(now, flow);
        Ok(flow)
    }

    /// Writes the packet that carries `header`.
    fn emit(&mut self, path: &Path, header: EbbHeader, with_payload: bool, packet: &mut Vec<u8>) {
        let header = EbbHeader {
            source_port: path.local_port,
            destination_port: path.peer.port(),
            session: path.session,
            entropy: self.rng.random(),
            ..header
        };
        let to = *path.peer.ip();
        let header = EbbHeader {
            // The low half names the group; the high half is the same for all of 239.x/16.
            multicast_group: if to.is_multicast() {
                u32::from(to) as u16
            } else {
                0
            },
            ..header
        };
        let payload: &[u8] = if with_payload { &self.payload } else { &[] };
        let dscp = if with_payload {
            self.config.dscp.trimmable
        } else {
            self.config.dscp.control
        };
        packet.clear();
        Ipv4Header::new(self.config.address, to, Protocol::EBB, dscp, Ecn::NotEct)
            .emit(EbbHeader::BYTES + payload.len(), packet);
        header.emit(payload, packet);
    }

    /// Sees to it that a session is looked at when it says so. One that is entered for an earlier
    /// time stays there, and is entered again when that has come: deadlines move with every packet,
    /// and hardly any of them passes.
    fn set_deadline(
        deadlines: &mut Deadlines,
        flow: FlowId,
        entered: &mut Option<Instant>,
        wanted: Option<Instant>,
    ) {
        let Some(at) = wanted.filter(|at| entered.is_none_or(|entered| *at < entered)) else {
            return;
        };
        *entered = Some(at);
        deadlines.push(Reverse((at, flow)));
    }

    /// To be called after every call into a sender session.
    pub(super) fn after_sender(&mut self, now: Instant, flow: FlowId) {
        let Some(open) = self.senders.get_mut(&flow) else {
            return;
        };
        if let Some(ending) = open.state.ending() {
            let reset = matches!(ending, Ending::Failed(_)).then_some(ResetReason::GaveUp);
            self.end_sender(now, flow, ending, reset);
            return;
        }
        let detached = open.state.take_detached(now);
        Self::set_deadline(
            &mut self.deadlines,
            flow,
            &mut open.deadline,
            open.state.deadline(),
        );
        if open.state.can_send() && !self.ready.contains(&flow) {
            self.ready.push_back(flow);
        }
        if let Some((index, state)) = detached {
            self.detach(now, flow, index, state);
        }
    }

    /// Receiver `index` of a group goes on with a session of its own, under the same session id.
    fn detach(&mut self, now: Instant, flow: FlowId, index: usize, state: S::Sender) {
        let Some(open) = self.senders.get(&flow) else {
            return;
        };
        let Some(&address) = open.peers.get(index) else {
            return;
        };
        let path = open.path.to(address);
        let alone = Open {
            path,
            peers: vec![address],
            state,
            started: open.started,
            stream_bytes: open.stream_bytes,
            priority: open.priority,
            deadline: None,
        };
        let straggler = self.new_flow();
        self.senders.insert(straggler, alone);
        self.senders_by_key
            .insert((address, path.session), (straggler, 0));
        self.events.push_back(Event::Detached {
            flow,
            straggler,
            peer: path.peer,
        });
        self.after_sender(now, straggler);
        // There may be a second one.
        self.after_sender(now, flow);
    }

    /// To be called after every call into a receiver session.
    pub(super) fn after_receiver(&mut self, now: Instant, flow: FlowId) {
        let Some(open) = self.receivers.get_mut(&flow) else {
            return;
        };
        let out = &mut self.out;
        let answers = out.control.drain(..);
        self.control
            .extend(answers.map(|header| (flow, open.path, header)));
        self.jobs.extend(out.jobs.drain(..));
        let delivered = out.delivered.drain(..);
        self.events
            .extend(delivered.map(|bytes| Event::Delivered { flow, bytes }));
        let pulls = std::mem::take(&mut out.pulls);
        if let Some(ending) = open.state.ending() {
            let reset = matches!(ending, Ending::Failed(_)).then_some(ResetReason::GaveUp);
            self.end_receiver(now, flow, ending, reset);
            return;
        }
        self.pulls
            .push(now, flow, open.priority.unwrap_or(0), pulls);
        Self::set_deadline(
            &mut self.deadlines,
            flow,
            &mut open.deadline,
            open.state.deadline(),
        );
    }

    pub(super) fn end_sender(
        &mut self,
        now: Instant,
        flow: FlowId,
        ending: Ending,
        reset: Option<ResetReason>,
    ) {
        let Some(mut open) = self.senders.remove(&flow) else {
            return;
        };
        let path = open.path;
        for &address in &open.peers {
            let key = (address, path.session);
            if self
                .senders_by_key
                .get(&key)
                .is_some_and(|(f, _)| *f == flow)
            {
                self.senders_by_key.remove(&key);
                if let Some(reason) = reset {
                    self.control
                        .push_back((flow, path.to(address), reset_header(reason)));
                }
            }
        }
        self.ready.retain(|&f| f != flow);
        let counters = *open.state.counters();
        let group = open.state.group();
        let ending = match ending {
            Ending::Failed(reason) if group.is_some() => {
                let unfinished = open.state.unfinished().into_iter();
                let names: Vec<String> = unfinished
                    .filter_map(|index| open.peers.get(index))
                    .map(Ipv4Addr::to_string)
                    .collect();
                match &names[..] {
                    [] => Ending::Failed(reason),
                    _ => Ending::Failed(format!("{} did not finish: {reason}", names.join(", "))),
                }
            }
            other => other,
        };
        self.report(now, flow, Role::Sender, &open, (counters, group), ending);
    }

    pub(super) fn end_receiver(
        &mut self,
        now: Instant,
        flow: FlowId,
        ending: Ending,
        reset: Option<ResetReason>,
    ) {
        let Some(mut open) = self.receivers.remove(&flow) else {
            return;
        };
        let key = (*open.path.peer.ip(), open.path.session);
        self.receivers_by_key.remove(&key);
        self.pulls.remove(flow);
        if let Some(reason) = reset {
            self.control.retain(|(f, ..)| *f != flow);
            self.control
                .push_back((flow, open.path, reset_header(reason)));
        }
        let epitaph = match &ending {
            Ending::Finished => Epitaph::Finished(open.state.closing()),
            Ending::Failed(_) => Epitaph::Reset(reset.unwrap_or(ResetReason::UnknownSession)),
        };
        self.tombstones.insert(
            now,
            key,
            Tombstone {
                flow,
                path: open.path,
                epitaph,
            },
        );
        let counters = *open.state.counters();
        open.state.release(&mut self.out.buffers);
        self.report(now, flow, Role::Receiver, &open, (counters, None), ending);
    }

    fn report<T>(
        &mut self,
        now: Instant,
        flow: FlowId,
        role: Role,
        open: &Open<T>,
        (counters, group): (Counters, Option<GroupSummary>),
        ending: Ending,
    ) {
        let finished = ending == Ending::Finished;
        let mut record = FlowRecord {
            role,
            scheme: S::NAME,
            local: SocketAddrV4::new(self.config.address, open.path.local_port),
            peer: open.path.peer,
            session: open.path.session,
            stream_bytes: open.stream_bytes,
            started_at_ns: 0,
            finished_at_ns: 0,
            duration_ns: 0,
            status: match ending {
                Ending::Finished => Status::Finished,
                Ending::Failed(reason) => Status::Failed(reason),
            },
            counters,
            tcp: None,
            group,
        };
        record.set_times(open.started, now);
        self.events.push_back(if finished {
            Event::Finished { flow, record }
        } else {
            Event::Failed { flow, record }
        });
    }

    fn poll_pull(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        while let Some(flow) = self.pulls.pop(now) {
            let Some(open) = self.receivers.get_mut(&flow) else {
                continue;
            };
            let header = open.state.next_pull(now);
            open.state.counters().pulls_sent += u64::from(header.is_some());
            Self::set_deadline(
                &mut self.deadlines,
                flow,
                &mut open.deadline,
                open.state.deadline(),
            );
            let path = open.path;
            if let Some(header) = header {
                self.emit(&path, header, false, packet);
                return Some(TxInfo {
                    flow,
                    kind: PacketKind::Control,
                });
            }
        }
        None
    }

    fn poll_data(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        while let Some(flow) = self.ready.pop_front() {
            let Some(open) = self.senders.get_mut(&flow).filter(|s| s.state.can_send()) else {
                continue;
            };
            self.payload.clear();
            match open.state.next_packet(now, &mut self.payload) {
                Ok(header) => {
                    let counters = open.state.counters();
                    counters.packets_sent += 1;
                    counters.payload_bytes_sent += self.payload.len() as u64;
                    counters.retransmitted +=
                        u64::from(header.flags.contains(EbbFlags::RETRANSMIT));
                    counters.repair_symbols += u64::from(header.flags.contains(EbbFlags::REPAIR));
                    let header = EbbHeader {
                        priority: open.priority.unwrap_or(0),
                        ..header
                    };
                    let path = open.path;
                    self.after_sender(now, flow);
                    self.emit(&path, header, true, packet);
                    return Some(TxInfo {
                        flow,
                        kind: PacketKind::Data,
                    });
                }
                Err(error) => {
                    let reason = format!("cannot read the object to be sent: {error}");
                    self.end_sender(
                        now,
                        flow,
                        Ending::Failed(reason),
                        Some(ResetReason::Aborted),
                    );
                }
            }
        }
        None
    }
}

/// A RESET that carries `reason`.
pub(super) fn reset_header(reason: ResetReason) -> EbbHeader {
    EbbHeader {
        symbol: reason as u32,
        ..EbbHeader::new(PacketType::Reset, 0, 0)
    }
}

impl<S: Scheme> Transport for Host<S> {
    fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        self.listening.insert(port);
        Ok(())
    }

    fn send(&mut self, now: Instant, request: SendRequest) -> Result<FlowId, SendError> {
        let address = *request.to.ip();
        self.check_destination(address)?;
        let peers = vec![address];
        self.start(
            now,
            request.to,
            request.source_port,
            request.source,
            peers,
            request.priority,
            Cast::Unicast,
        )
    }

    fn send_group(&mut self, now: Instant, request: GroupRequest) -> Result<FlowId, SendError> {
        if !S::GROUPS {
            return Err(SendError::NoGroups);
        }
        let address = *request.group.ip();
        if !address.is_multicast() {
            return Err(SendError::NotAGroup { address });
        }
        let peers = request.receivers;
        let different: BTreeSet<Ipv4Addr> = peers.iter().copied().collect();
        if peers.is_empty() || different.len() != peers.len() {
            return Err(SendError::BadReceivers);
        }
        for &address in &peers {
            self.check_destination(address)?;
        }
        let receivers = peers.len();
        self.start(
            now,
            request.group,
            request.source_port,
            request.source,
            peers,
            0,
            Cast::Group { receivers },
        )
    }

    fn abort(&mut self, now: Instant, flow: FlowId, reason: &str) {
        let (ending, reset) = (Ending::Failed(reason.to_owned()), ResetReason::Aborted);
        if self.senders.contains_key(&flow) {
            self.end_sender(now, flow, ending, Some(reset));
        } else if self.receivers.contains_key(&flow) {
            self.end_receiver(now, flow, ending, Some(reset));
        } else if let Some(stone) = self.tombstones.by_flow(flow) {
            // What would confirm the object may still be waiting to be sent.
            stone.epitaph = Epitaph::Reset(reset);
            let path = stone.path;
            self.control.retain(|(f, ..)| *f != flow);
            self.control.push_back((flow, path, reset_header(reset)));
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        self.inbound(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.tombstones.expire(now);
        while let Some(&Reverse((at, flow))) = self.deadlines.peek()
            && at <= now
        {
            // Taken out first, so that a session that asks for the same time again cannot loop.
            self.deadlines.pop();
            let is_current = |deadline: Option<Instant>| deadline == Some(at);
            if let Some(open) = self.senders.get_mut(&flow) {
                if !is_current(open.deadline) {
                    continue;
                }
                open.deadline = None;
                if open.state.deadline().is_some_and(|at| at <= now) {
                    open.state.handle_timeout(now);
                }
                self.after_sender(now, flow);
            } else if let Some(open) = self.receivers.get_mut(&flow) {
                if !is_current(open.deadline) {
                    continue;
                }
                open.deadline = None;
                if open.state.deadline().is_some_and(|at| at <= now) {
                    open.state.handle_timeout(now, &mut self.out);
                }
                self.after_receiver(now, flow);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timer = self.deadlines.peek().map(|Reverse((at, _))| *at);
        [timer, self.tombstones.next_expiry(), self.pulls.next_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn poll_transmit(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        loop {
            if let Some((flow, path, header)) = self.control.pop_front() {
                self.emit(&path, header, false, packet);
                return Some(TxInfo {
                    flow,
                    kind: PacketKind::Control,
                });
            }
            if let Some(info) = self.poll_pull(now, packet) {
                return Some(info);
            }
            if let Some(info) = self.poll_data(now, packet) {
                return Some(info);
            }
            if self.control.is_empty() {
                return None;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn set_paused(&mut self, now: Instant, flow: FlowId, paused: bool) {
        if let Some(open) = self.receivers.get_mut(&flow) {
            open.state.set_paused(now, paused, &mut self.out);
            self.after_receiver(now, flow);
        }
    }

    fn progress(&self, flow: FlowId) -> Option<Progress> {
        let (done_bytes, total) = match self.senders.get(&flow) {
            Some(open) => (open.state.done_bytes(), open.stream_bytes),
            None => {
                let open = self.receivers.get(&flow)?;
                (open.state.done_bytes(), open.stream_bytes)
            }
        };
        Some(Progress {
            done_bytes,
            total_bytes: Some(total),
        })
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.out.buffers.give(buffer);
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn handle_job(&mut self, now: Instant, result: DecodeResult) {
        let flow = result.flow();
        let Some(open) = self.receivers.get_mut(&flow) else {
            return;
        };
        open.state.handle_job(now, result, &mut self.out);
        self.after_receiver(now, flow);
    }

    fn is_active(&self) -> bool {
        !self.senders.is_empty()
            || !self.receivers.is_empty()
            || !self.control.is_empty()
            || self.tombstones.next_expiry().is_some()
    }
}
