//! All sessions of one transport on one host: the [`Transport`] of NDP, of SCDP and of Trevi.
//!
//! This file has the tables, the timers and what the application asks for. What arrives is handled
//! in `inbound`, what leaves in `outbound`; sessions are opened in `opening` and end in `ending`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_nic::DscpSet;
use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header, Protocol};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::params::Section;
use super::path::{Expected, Leaving, Open, Path};
use super::pull_queue::PullQueue;
use super::session::{Cast, Ending, Outbox, ReceiverDriven, ReceiverSession, SenderSession};
use super::tombstones::{Epitaph, SessionKey, Tombstones};
use super::{DscpParams, ResetReason};
use crate::addressing::SourcePorts;
use crate::job::{Job, JobResult};
use crate::nic::NicParams;
use crate::objection::Objection;
use crate::record::Role;
use crate::selector::{Condition, Selector};
use crate::timers::Timers;
use crate::transport::{
    Event, ExpectRequest, FlowId, GroupRequest, ListenError, Progress, SendError, SendRequest,
    StreamBytes, Transport, TxInfo,
};

/// Ended sessions that are remembered; more than are ever open at once.
const MAX_TOMBSTONES: usize = 65_536;
/// Answers to packets without a session that may wait to be sent.
pub(super) const MAX_STRAY_RESETS: usize = 256;
/// The flow that packets without a session belong to.
pub(super) const STRAY: FlowId = FlowId(0);

/// Offsets in Ebb's header.
const FLAGS_AT: u8 = 1;
const SOURCE_PORT_AT: u8 = 4;
const DESTINATION_PORT_AT: u8 = 6;

/// RFC 6335: the ports that nobody is assigned.
pub const EPHEMERAL_PORTS: (u16, u16) = (49152, 65535);

/// Properties of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// Address of the host.
    pub address: Ipv4Addr,
    /// Parameters of its NIC.
    pub nic: NicParams,
    /// DSCPs of its packets.
    pub dscp: DscpParams,
    /// Source ports that flows may take, first and last.
    pub source_ports: (u16, u16),
    /// For session ids and path entropy.
    pub seed: u64,
}

/// See the module documentation.
pub struct SessionTable<S: ReceiverDriven> {
    pub(super) config: HostConfig,
    pub(super) params: S::Params,
    pub(super) rng: SmallRng,
    pub(super) listening: BTreeSet<u16>,
    last_flow: u64,
    pub(super) source_ports: SourcePorts,
    /// Sessions are in boxes, because a map has memory for eleven from the first one on.
    pub(super) senders: BTreeMap<FlowId, Box<Open<S::Sender>>>,
    /// Sender sessions by address of the receiver and session id, with the place of that receiver in
    /// `Open::peers`.
    pub(super) senders_by_key: BTreeMap<SessionKey, (FlowId, usize)>,
    pub(super) receivers: BTreeMap<FlowId, Box<Open<S::Receiver>>>,
    /// Receiver sessions, expected ones too, by address of the sender and session id, with the place
    /// of that sender in `Open::peers`.
    pub(super) receivers_by_key: BTreeMap<SessionKey, (FlowId, usize)>,
    pub(super) expected: BTreeMap<FlowId, Expected>,
    /// Whether the application decides when peers get the confirmation that everything arrived.
    holds: bool,
    /// Receivers whose end has been reported and not been confirmed yet, with the headers that
    /// confirm it to their peers.
    pub(super) held: BTreeMap<FlowId, Vec<(Path, EbbHeader)>>,
    /// Receivers whose end has been reported, and whose senders have not confirmed that they know.
    pub(super) closing: BTreeSet<FlowId>,
    /// Local ports in use, by peer.
    pub(super) ports: BTreeSet<(SocketAddrV4, u16)>,
    pub(super) tombstones: Tombstones,
    /// None: the host stays.
    pub(super) leaving: Option<Leaving>,
    pub(super) control: VecDeque<(FlowId, Path, EbbHeader)>,
    /// When a receiver session last gave an answer.
    answered_at: Instant,
    pub(super) pulls: PullQueue,
    /// Senders with a packet to send, next one first.
    pub(super) ready: VecDeque<FlowId>,
    pub(super) timers: Timers<FlowId>,
    pub(super) events: VecDeque<Event>,
    jobs: VecDeque<Job>,
    /// Payload of the packet that leaves now; kept so that it need not be allocated.
    pub(super) payload: Vec<u8>,
    /// Handed to every call into a receiver session, so that it need not be allocated.
    pub(super) out: Outbox,
}

impl<S: ReceiverDriven> SessionTable<S> {
    pub fn new(config: HostConfig, params: S::Params) -> Self {
        let mut rng = SmallRng::seed_from_u64(config.seed);
        let nic = config.nic;
        let full_frame = nic.frame_time(usize::from(nic.mtu_bytes));
        // A sender that waits for a last confirmation asks at least every `max_rto`, and each time
        // it is remembered anew: every one of them would have to be lost.
        let session = params.session();
        let retry = session.retry();
        let linger = session.linger().max(retry.retries_take() + retry.max_rto);
        SessionTable {
            pulls: PullQueue::new(full_frame, nic.catch_up()),
            tombstones: Tombstones::new(linger, MAX_TOMBSTONES),
            leaving: None,
            source_ports: SourcePorts::after(
                config.source_ports,
                rng.random_range(config.source_ports.0..=config.source_ports.1),
            ),
            config,
            params,
            rng,
            listening: BTreeSet::new(),
            last_flow: STRAY.0,
            senders: BTreeMap::new(),
            senders_by_key: BTreeMap::new(),
            receivers: BTreeMap::new(),
            receivers_by_key: BTreeMap::new(),
            expected: BTreeMap::new(),
            holds: false,
            held: BTreeMap::new(),
            closing: BTreeSet::new(),
            ports: BTreeSet::new(),
            control: VecDeque::new(),
            answered_at: Instant::ZERO,
            ready: VecDeque::new(),
            timers: Timers::default(),
            events: VecDeque::new(),
            jobs: VecDeque::new(),
            payload: Vec::new(),
            out: Outbox::default(),
        }
    }

    /// Payload of a full packet.
    pub(super) fn symbol_bytes(&self) -> u16 {
        self.config.nic.mtu_bytes - (Ipv4Header::BYTES + EbbHeader::BYTES) as u16
    }

    pub(super) fn new_flow(&mut self) -> FlowId {
        self.last_flow += 1;
        FlowId(self.last_flow)
    }

    pub(super) fn pause_receiver(&mut self, now: Instant, flow: FlowId, paused: bool) {
        if let Some(open) = self.receivers.get_mut(&flow)
            && !self.held.contains_key(&flow)
        {
            open.state.set_paused(now, paused, &mut self.out);
            self.after_receiver(now, flow);
        }
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
        while let Some(job) = open.state.poll_job(flow) {
            self.jobs.push_back(job);
        }
        self.timers.set(open.timer, flow, open.state.deadline());
        if open.state.can_send() && !open.ready {
            open.ready = true;
            self.ready.push_back(flow);
        }
        if let Some((index, state)) = detached {
            self.detach(now, flow, index, state);
        }
    }

    /// Receiver `index` of a group continues with a session of its own, under the same session id.
    fn detach(&mut self, now: Instant, flow: FlowId, index: usize, state: S::Sender) {
        let Some(open) = self.senders.get(&flow) else {
            return;
        };
        let Some(&peer) = open.peers.get(index) else {
            return;
        };
        let path = open.path.to(peer);
        let alone = Open {
            path,
            peers: vec![peer],
            state,
            started: open.started,
            stream_bytes: open.stream_bytes,
            priority: open.priority,
            timer: self.timers.open_slot(),
            ready: false,
            heard: false,
        };
        let straggler = self.new_flow();
        self.senders.insert(straggler, Box::new(alone));
        self.senders_by_key
            .insert((*peer.ip(), path.session), (straggler, 0));
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
        if self.held.contains_key(&flow) {
            return;
        }
        let Some(open) = self.receivers.get_mut(&flow) else {
            return;
        };
        let out = &mut self.out;
        let ending = open.state.ending();
        let finished = ending == Some(Ending::Finished);
        let is_held = self.holds && finished && !self.closing.contains(&flow);
        let answers = out.control.drain(..);
        if is_held {
            // The last words of a session are what confirms it.
            let answers = answers.map(|header| (open.path_of(&header), header));
            self.held.insert(flow, answers.collect());
        } else {
            for header in answers {
                let last = self.control.back_mut();
                let last = last.filter(|(of, ..)| *of == flow && self.answered_at == now);
                if last.is_none_or(|(.., last)| !S::join(last, &header)) {
                    let path = open.path_of(&header);
                    self.control.push_back((flow, path, header));
                    self.answered_at = now;
                }
            }
        }
        // Most packets bring neither.
        if !out.jobs.is_empty() {
            self.jobs.extend(out.jobs.drain(..));
        }
        if !out.delivered.is_empty() {
            let delivered = out.delivered.drain(..);
            self.events
                .extend(delivered.map(|bytes| Event::Delivered { flow, bytes }));
        }
        let pulls = std::mem::take(&mut out.pulls);
        let confirmed = open.state.is_confirmed();
        if is_held {
            self.hold_receiver(now, flow);
            return;
        }
        if finished && !confirmed {
            self.close_receiver(now, flow);
            return;
        }
        if let Some(ending) = ending {
            let reset = matches!(ending, Ending::Failed(_)).then_some(ResetReason::GaveUp);
            self.end_receiver(now, flow, ending, reset);
            return;
        }
        self.pulls
            .push(now, flow, open.priority.unwrap_or(0), pulls);
        self.timers.set(open.timer, flow, open.state.deadline());
    }

    /// Gives a flow up; `reason` is for its record, `reset` for the peer.
    fn give_up(&mut self, now: Instant, flow: FlowId, reason: &str, reset: ResetReason) {
        let ending = Ending::Failed(reason.to_owned());
        if self.senders.contains_key(&flow) {
            self.end_sender(now, flow, ending, Some(reset));
        } else if self.receivers.contains_key(&flow) {
            self.end_receiver(now, flow, ending, Some(reset));
        } else if self.expected.contains_key(&flow) {
            self.end_expected(now, flow, reason.to_owned(), Some(reset));
        } else {
            // A confirmation of the object may still be waiting to be sent.
            let stones = self.tombstones.of_flow(flow);
            let mut paths = Vec::new();
            for stone in stones {
                stone.epitaph = Epitaph::Reset(reset);
                paths.push(stone.path);
            }
            if !paths.is_empty() {
                self.control.retain(|(f, ..)| *f != flow);
            }
            for path in paths.into_iter().filter(|path| path.peer.port() != 0) {
                self.control.push_back((flow, path, reset.header()));
            }
        }
    }
}

impl<S: ReceiverDriven> Transport for SessionTable<S> {
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
        let senders = self.senders.values().map(|open| &open.path);
        let receivers = self.receivers.values().map(|open| &open.path);
        let waiting = self.control.iter().map(|(_, path, _)| path);
        let mut paths = senders
            .chain(receivers)
            .chain(waiting)
            .chain(self.tombstones.paths());
        let mut expected = self.expected.values();
        paths.any(|path| path.local_port == port)
            || expected.any(|expected| expected.local_port == port)
    }

    fn send(&mut self, now: Instant, request: SendRequest) -> Result<FlowId, SendError> {
        let address = *request.to.ip();
        self.check_destination(address)?;
        let cast = match request.part {
            None => Cast::Unicast,
            Some(_) if S::many_to_one(&self.params).is_none() => {
                return Err(SendError::NoManyToOne);
            }
            Some(part) if part.senders > 15 || part.sender >= part.senders => {
                return Err(SendError::BadSenders);
            }
            Some(part) => Cast::Part(part),
        };
        let peers = vec![request.to];
        self.start(now, request, peers, cast)
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
        let port = request.group.port();
        let peers = peers.into_iter().map(|ip| SocketAddrV4::new(ip, port));
        let request = SendRequest {
            to: request.group,
            source_port: request.source_port,
            source: request.source,
            priority: request.priority,
            part: None,
            via: crate::Via::Any,
        };
        self.start(now, request, peers.collect(), Cast::Group { receivers })
    }

    fn abort(&mut self, now: Instant, flow: FlowId, reason: &str) {
        self.give_up(now, flow, reason, ResetReason::Aborted);
    }

    fn refuse(&mut self, now: Instant, flow: FlowId, reason: &str, objection: Objection) {
        self.give_up(now, flow, reason, ResetReason::Refused(objection));
    }

    fn hold_confirmations(&mut self) {
        self.holds = true;
    }

    fn confirm(&mut self, now: Instant, flow: FlowId) {
        if let Some(answers) = self.held.get_mut(&flow) {
            let answers = std::mem::take(answers).into_iter();
            self.control
                .extend(answers.map(|(path, header)| (flow, path, header)));
            match self.receivers.get(&flow) {
                Some(open) if !open.state.is_confirmed() => self.close_receiver(now, flow),
                _ => self.end_receiver(now, flow, Ending::Finished, None),
            }
        }
    }

    fn expect(&mut self, now: Instant, request: ExpectRequest) -> Result<FlowId, SendError> {
        self.expect_session(now, request)
    }

    fn drop_sender(&mut self, now: Instant, flow: FlowId, sender: Ipv4Addr, reason: &str) {
        let of_flow = self.receivers_by_key.iter();
        let found = of_flow
            .filter(|((address, _), (of, _))| *of == flow && *address == sender)
            .map(|(_, (_, index))| *index)
            .next();
        if let Some(index) = found {
            self.lose_sender(now, flow, index, reason.to_owned());
        }
    }

    fn leave(&mut self, now: Instant) {
        self.begin_to_leave(now);
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        self.inbound(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.tombstones.expire(now);
        self.ask_if_due(now);
        while let Some((at, flow)) = self.timers.first()
            && at <= now
        {
            if let Some(open) = self.senders.get_mut(&flow) {
                // Taken out first, so that a session that asks for the same time again cannot loop.
                self.timers.set(open.timer, flow, None);
                open.state.handle_timeout(now);
                self.after_sender(now, flow);
            } else if let Some(open) = self.receivers.get_mut(&flow) {
                self.timers.set(open.timer, flow, None);
                open.state.handle_timeout(now, &mut self.out);
                self.after_receiver(now, flow);
            } else {
                self.expected_in_vain(now, flow);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| at);
        let remembered = self.tombstones.next_expiry();
        let question = self.leaving.filter(|_| remembered.is_some());
        let question = question.map(|leaving| leaving.at);
        Instant::earliest([timer, remembered, question, self.pulls.next_at()])
    }

    /// A packet that a switch returned has its addresses swapped, its ports not.
    fn selectors(&self) -> Vec<Selector> {
        let is_returned = Condition::Bits {
            at: FLAGS_AT,
            mask: EbbFlags::RETURNED.0,
        };
        vec![
            Selector::only(Protocol::EBB, SOURCE_PORT_AT, is_returned),
            Selector::any(Protocol::EBB, DESTINATION_PORT_AT),
        ]
    }

    fn poll_transmit_of(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        self.outbound(now, wanted, packet)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn set_paused(&mut self, now: Instant, flow: FlowId, paused: bool) {
        self.pause_expected(flow, paused);
        self.pause_receiver(now, flow, paused);
    }

    fn progress(&self, flow: FlowId) -> Option<Progress> {
        let (done_bytes, arrived_bytes, total) = match self.senders.get(&flow) {
            Some(open) => {
                let done = open.state.done_bytes();
                (done, done, open.stream_bytes)
            }
            None => {
                let open = self.receivers.get(&flow)?;
                let state = &open.state;
                (state.done_bytes(), state.arrived_bytes(), open.stream_bytes)
            }
        };
        Some(Progress {
            done_bytes,
            arrived_bytes,
            total_bytes: Some(total),
        })
    }

    fn recycle(&mut self, bytes: StreamBytes) {
        if let StreamBytes::Owned(buffer) = bytes {
            self.out.buffers.give(buffer);
        }
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn handle_job(&mut self, now: Instant, result: JobResult) {
        let flow = result.flow();
        match result.role() {
            Role::Receiver => {
                let open = self.receivers.get_mut(&flow);
                let Some(open) = open.filter(|_| !self.held.contains_key(&flow)) else {
                    S::Receiver::discard(result, &mut self.out.buffers);
                    return;
                };
                open.state.handle_job(now, result, &mut self.out);
                self.after_receiver(now, flow);
            }
            Role::Sender => {
                let Some(open) = self.senders.get_mut(&flow) else {
                    return;
                };
                match open.state.handle_job(result) {
                    Ok(()) => self.after_sender(now, flow),
                    Err(error) => self.cannot_read(now, flow, &error),
                }
            }
        }
    }

    fn is_active(&self) -> bool {
        !self.senders.is_empty()
            || !self.receivers.is_empty()
            || !self.expected.is_empty()
            || !self.control.is_empty()
            || self.tombstones.next_expiry().is_some()
    }
}
