//! Arrivals: from bytes to the session that they belong to.

use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, EbbPacket, Ecn, Ipv4Header, PacketType, Protocol};

use super::ResetReason;
use super::params::Section;
use super::path::{Open, Path};
use super::session::{Ending, ReceiverDriven, ReceiverSession, SenderSession};
use super::session_table::{MAX_STRAY_RESETS, STRAY, SessionTable};
use super::tombstones::Epitaph;
use crate::record::Counters;
use crate::splitmix::splitmix64;
use crate::transport::{Event, FlowId};

impl<S: ReceiverDriven> SessionTable<S> {
    pub(super) fn inbound(&mut self, now: Instant, packet: &[u8]) {
        let Ok(ip) = Ipv4Header::parse(packet) else {
            return;
        };
        let dst = ip.header.dst;
        if ip.header.protocol != Protocol::EBB
            || (dst != self.config.address && !dst.is_multicast())
        {
            return;
        }
        let dscp = self.config.dscp;
        let trimmed = [dscp.trimmed, dscp.trimmed_lasthop].contains(&ip.header.dscp);
        let Ok(packet) = EbbHeader::parse(ip.payload, trimmed) else {
            return;
        };
        let (src, ce) = (ip.header.src, ip.header.ecn == Ecn::Ce);
        if packet.header.flags.contains(EbbFlags::RETURNED) {
            self.inbound_returned(now, src, &packet);
            return;
        }
        if packet.header.flags.contains(EbbFlags::MULTICAST) != dst.is_multicast() {
            return;
        }
        match packet.header.packet_type {
            found @ (PacketType::Data | PacketType::Symbol | PacketType::Coded) => {
                if found == S::PAYLOAD {
                    self.inbound_data(now, src, ce, &packet);
                } else {
                    self.refuse_stray(src, &packet.header, ResetReason::BadSession);
                }
            }
            PacketType::Pull
            | PacketType::Ack
            | PacketType::Nack
            | PacketType::Request
            | PacketType::Stop => {
                self.inbound_control(now, src, ce, &packet.header);
            }
            PacketType::Reset => self.inbound_reset(now, src, &packet.header),
        }
    }

    fn inbound_data(&mut self, now: Instant, src: Ipv4Addr, ce: bool, packet: &EbbPacket<'_>) {
        let header = &packet.header;
        let key = (src, header.session);
        let (flow, index) = match self.receivers_by_key.get(&key) {
            Some(&found) => found,
            None => match self.tombstones.get(&key).cloned() {
                Some(stone) if stone.path.is_from(src, header) => {
                    let answer = match stone.epitaph {
                        Epitaph::Finished(closing) => S::answer_late(&closing, header),
                        Epitaph::Reset(reason) => Some(reason.header()),
                    };
                    let path = stone.path.to(SocketAddrV4::new(src, header.source_port));
                    let answer = answer.map(|answer| (stone.flow, path, answer));
                    self.control.extend(answer);
                    self.tombstones.refresh(now, &key);
                    return;
                }
                Some(_) => return,
                None => match self.open_receiver(now, src, header) {
                    Ok(flow) => (flow, 0),
                    Err(reason) => {
                        self.refuse_stray(src, header, reason);
                        return;
                    }
                },
            },
        };
        if self.expected.contains_key(&flow)
            && let Err(reason) = self.open_expected(now, flow, index, header)
        {
            self.refuse_stray(src, header, reason);
            return;
        }
        let Some(open) = self.receivers.get_mut(&flow) else {
            return;
        };
        if !open.accepts(index, header) {
            return;
        }
        if self.held.contains_key(&flow) {
            if let Some(answer) = open.state.answer_held(header) {
                self.control
                    .push_back((flow, open.path_of(&answer), answer));
            }
            return;
        }
        // Nothing is known of an expected session until its first packet arrives.
        open.priority.get_or_insert(header.priority);
        open.state
            .handle_data(now, header, packet.payload, &mut self.out);
        count_arrival(open.state.counters(), packet, ce);
        self.after_receiver(now, flow);
    }

    /// A header of ours that a switch could not even queue as a header. The addresses are swapped,
    /// the ports are not.
    fn inbound_returned(&mut self, now: Instant, src: Ipv4Addr, packet: &EbbPacket<'_>) {
        let header = &packet.header;
        let is_ours = header.packet_type == S::PAYLOAD
            && header.flags.contains(EbbFlags::TRIMMED)
            && packet.payload.is_none();
        let found = self.senders_by_key.get(&(src, header.session));
        let open = found.and_then(|(flow, _)| Some((*flow, self.senders.get_mut(flow)?)));
        let Some((flow, open)) = open.filter(|(_, open)| {
            is_ours
                && open.path.local_port == header.source_port
                && open.path.peer.port() == header.destination_port
        }) else {
            return;
        };
        open.state.handle_returned(now, header);
        self.after_sender(now, flow);
    }

    /// Whether no session that we take has what this opening says.
    pub(super) fn is_impossible(&self, header: &EbbHeader) -> bool {
        (header.flags.contains(EbbFlags::MULTICAST) && !S::GROUPS)
            || header.symbol_bytes == 0
            || header.symbol_bytes > self.symbol_bytes()
            || header.object_bytes > S::max_object_bytes(&self.params, header.symbol_bytes)
    }

    /// Random numbers of a receiver session begin here.
    pub(super) fn seed_of(&self, from: Ipv4Addr, session: u32) -> u64 {
        let name = u64::from(u32::from(from)) << 32 | u64::from(session);
        splitmix64(self.config.seed, name)
    }

    /// There is no handshake: any packet of the initial window opens the session.
    fn open_receiver(
        &mut self,
        now: Instant,
        src: Ipv4Addr,
        header: &EbbHeader,
    ) -> Result<FlowId, ResetReason> {
        if !header.flags.contains(EbbFlags::SYN) {
            return Err(ResetReason::UnknownSession);
        }
        if !self.listening.contains(&header.destination_port) {
            return Err(ResetReason::NoListener);
        }
        let params = self.params.session();
        let of_peer = self
            .receivers_by_key
            .range((src, 0)..=(src, u32::MAX))
            .count();
        let open = self.receivers.len() + self.expected.len();
        if open >= params.max_flows as usize || of_peer >= params.max_flows_per_peer as usize {
            return Err(ResetReason::TooManySessions);
        }
        if header.flags.contains(EbbFlags::MULTI_SOURCE) {
            // Its receiver chooses the session and expects it.
            return Err(ResetReason::UnknownSession);
        }
        if self.is_impossible(header) {
            return Err(ResetReason::BadSession);
        }
        let flow = self.new_flow();
        let seed = self.seed_of(src, header.session);
        let state = S::Receiver::open(now, &self.params, flow, seed, header)
            .ok_or(ResetReason::BadSession)?;
        let path = Path {
            peer: SocketAddrV4::new(src, header.source_port),
            local_port: header.destination_port,
            session: header.session,
        };
        let stream_bytes = header.object_bytes;
        let open = Open {
            path,
            peers: vec![path.peer],
            state,
            started: now,
            stream_bytes,
            priority: None,
            timer: self.timers.open_slot(),
            ready: false,
            heard: false,
        };
        self.receivers.insert(flow, Box::new(open));
        self.receivers_by_key
            .insert((src, header.session), (flow, 0));
        self.events.push_back(Event::Opened {
            flow,
            local: SocketAddrV4::new(self.config.address, path.local_port),
            peer: path.peer,
        });
        Ok(flow)
    }

    fn inbound_control(&mut self, now: Instant, src: Ipv4Addr, ce: bool, header: &EbbHeader) {
        let found = self.senders_by_key.get(&(src, header.session)).copied();
        let open = found.and_then(|(flow, _)| self.senders.get_mut(&flow));
        let open = open.filter(|s| s.path.matches_ports(header));
        let (Some((flow, index)), Some(open)) = (found, open) else {
            if is_answered_without_session(header.packet_type) {
                // A receiver that waits for a sender that is gone is notified.
                self.refuse_stray(src, header, ResetReason::UnknownSession);
            }
            return;
        };
        open.state.counters().ce_marks += u64::from(ce);
        let rejected = open.state.counters().rejected;
        open.state.handle_control(now, index, header);
        let accepted = open.state.counters().rejected == rejected;
        if !open.heard && accepted {
            open.heard = true;
            self.events.push_back(Event::Heard { flow, peer: src });
        }
        self.after_sender(now, flow);
        if accepted
            && header.packet_type == PacketType::Stop
            && header.flags.contains(EbbFlags::FIN)
        {
            // The session is no more, which is what a receiver that has everything asks for.
            self.refuse_stray(src, header, ResetReason::UnknownSession);
        }
    }

    fn inbound_reset(&mut self, now: Instant, src: Ipv4Addr, header: &EbbHeader) {
        let ending = Ending::Failed(ResetReason::describe(header.symbol));
        let key = (src, header.session);
        let sender = self.senders_by_key.get(&key).copied();
        let receiver = self.receivers_by_key.get(&key).copied();
        if let Some((flow, index)) = sender
            && let Some(open) = self.senders.get_mut(&flow)
            && open.path.matches_ports(header)
        {
            if open.state.group().is_none() {
                self.end_sender(now, flow, ending, None);
                return;
            }
            // The others of the group stay.
            self.senders_by_key.remove(&key);
            let reason = ResetReason::describe(header.symbol);
            open.state.receiver_left(index, format!("{src}: {reason}"));
            self.after_sender(now, flow);
        } else if let Some((flow, index)) = receiver {
            let several = match self.receivers.get(&flow) {
                Some(open) if !open.comes_from(index, header) => return,
                Some(open) => open.peers.len() > 1,
                None => true,
            };
            if several || self.closing.contains(&flow) {
                // The others stay.
                self.lose_sender(now, flow, index, ResetReason::describe(header.symbol));
            } else {
                // A session that is held has nobody left to notify.
                self.end_receiver(now, flow, ending, None);
            }
        } else {
            self.forget_answered(src, header);
        }
    }

    /// Answers a packet for which there is no session.
    fn refuse_stray(&mut self, src: Ipv4Addr, header: &EbbHeader, reason: ResetReason) {
        // A packet to a group may not concern us: only its openings are answered.
        let to_others =
            header.flags.contains(EbbFlags::MULTICAST) && !header.flags.contains(EbbFlags::SYN);
        if to_others || self.control.len() >= MAX_STRAY_RESETS {
            return;
        }
        let path = Path {
            peer: SocketAddrV4::new(src, header.source_port),
            local_port: header.destination_port,
            session: header.session,
        };
        self.control.push_back((STRAY, path, reason.header()));
    }
}

impl<T> Open<T> {
    /// The ports of a packet whose sender was found by its address.
    fn comes_from(&self, index: usize, header: &EbbHeader) -> bool {
        let known = self.peers.get(index).map_or(0, SocketAddrV4::port);
        [0, header.source_port].contains(&known) && self.path.local_port == header.destination_port
    }

    /// Notes a packet of this session. The port of each of several senders is that of its first packet.
    fn accepts(&mut self, index: usize, header: &EbbHeader) -> bool {
        let several = self.peers.len() > 1;
        let of_several =
            usize::from(header.senders) == self.peers.len() && usize::from(header.sender) == index;
        if !self.comes_from(index, header) || (several && !of_several) {
            return false;
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.set_port(header.source_port);
        }
        true
    }
}

/// Whether a sender that does not know the session says so.
pub(super) fn is_answered_without_session(packet_type: PacketType) -> bool {
    matches!(
        packet_type,
        PacketType::Pull | PacketType::Request | PacketType::Stop
    )
}

fn count_arrival(counters: &mut Counters, packet: &EbbPacket<'_>, ce: bool) {
    counters.ce_marks += u64::from(ce);
    if packet.payload.is_none() {
        counters.trimmed += 1;
        return;
    }
    counters.packets_received += 1;
    counters.repair_symbols += u64::from(packet.header.flags.contains(EbbFlags::REPAIR));
}
