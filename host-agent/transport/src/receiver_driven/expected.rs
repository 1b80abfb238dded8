//! Many-to-one sessions before their first packet: the expected senders, and why some of them will not send.

use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader};

use super::ResetReason;
use super::params::Section;
use super::path::{Expected, Open, Path};
use super::session::{Ending, ReceiverDriven, ReceiverSession, SenderSummary};
use super::session_table::SessionTable;
use super::tombstones::{Epitaph, Tombstone};
use crate::record::{Counters, Role};
use crate::transport::{ExpectRequest, FlowId, SendError};

impl<S: ReceiverDriven> SessionTable<S> {
    /// Reserves the session that senders will open. The error names what the request contradicts.
    pub(super) fn expect_session(
        &mut self,
        now: Instant,
        request: ExpectRequest,
    ) -> Result<FlowId, SendError> {
        let Some(patience) = S::many_to_one(&self.params) else {
            return Err(SendError::NoManyToOne);
        };
        let ExpectRequest {
            port,
            session,
            senders,
        } = request;
        if port == 0 {
            return Err(SendError::PortZero);
        }
        let mut different = senders.clone();
        different.sort_unstable();
        different.dedup();
        if senders.is_empty() || senders.len() > 15 || different.len() != senders.len() {
            return Err(SendError::BadSenders);
        }
        for &address in &senders {
            self.check_destination(address)?;
            let key = (address, session);
            if self.receivers_by_key.contains_key(&key) || self.tombstones.get(&key).is_some() {
                return Err(SendError::SessionInUse { session });
            }
        }
        let open = self.receivers.len() + self.expected.len();
        if open >= self.params.session().max_flows as usize {
            return Err(SendError::TooManyFlows { open });
        }
        let flow = self.new_flow();
        for (index, &address) in senders.iter().enumerate() {
            self.receivers_by_key
                .insert((address, session), (flow, index));
        }
        let timer = self.timers.open_slot();
        self.timers.set(timer, flow, Some(now + patience));
        let expected = Expected {
            local_port: port,
            session,
            senders: senders.into_iter().map(|address| (address, None)).collect(),
            started: now,
            paused: false,
            timer,
        };
        self.expected.insert(flow, expected);
        Ok(flow)
    }

    /// Opens an expected session with its first packet. `Err`: it is refused.
    pub(super) fn open_expected(
        &mut self,
        now: Instant,
        flow: FlowId,
        index: usize,
        header: &EbbHeader,
    ) -> Result<(), ResetReason> {
        let Some(expected) = self.expected.get(&flow) else {
            return Err(ResetReason::UnknownSession);
        };
        let matches = header.flags.contains(EbbFlags::MULTI_SOURCE)
            && header.flags.contains(EbbFlags::SYN)
            && header.destination_port == expected.local_port
            && usize::from(header.senders) == expected.senders.len()
            && usize::from(header.sender) == index;
        if !matches {
            return Err(ResetReason::UnknownSession);
        }
        let state = if self.is_impossible(header) {
            None
        } else {
            let seed = self.seed_of(expected.senders[index].0, header.session);
            S::Receiver::open(now, &self.params, flow, seed, header)
        };
        let Some(state) = state else {
            self.lose_expected(
                now,
                flow,
                index,
                "it sends an object of impossible shape".into(),
            );
            return Err(ResetReason::BadSession);
        };
        let Some(expected) = self.expected.remove(&flow) else {
            return Err(ResetReason::UnknownSession);
        };
        let peers = expected.senders.iter();
        let mut peers: Vec<SocketAddrV4> = peers
            .map(|(address, _)| SocketAddrV4::new(*address, 0))
            .collect();
        peers[index].set_port(header.source_port);
        let path = Path {
            peer: peers[index],
            local_port: expected.local_port,
            session: expected.session,
        };
        let open = Open {
            path,
            peers,
            state,
            started: now,
            stream_bytes: header.object_bytes,
            priority: None,
            timer: expected.timer,
            ready: false,
            heard: false,
        };
        self.receivers.insert(flow, Box::new(open));
        if expected.paused {
            self.pause_receiver(now, flow, true);
        }
        for (index, (_, gone)) in expected.senders.into_iter().enumerate() {
            if let Some(reason) = gone {
                self.lose_sender(now, flow, index, reason);
            }
        }
        Ok(())
    }

    /// A sender of a many-to-one session will not send (any more).
    pub(super) fn lose_sender(&mut self, now: Instant, flow: FlowId, index: usize, reason: String) {
        if let Some(open) = self.receivers.get_mut(&flow) {
            open.state.sender_left(now, index, reason, &mut self.out);
            self.after_receiver(now, flow);
        } else {
            self.lose_expected(now, flow, index, reason);
        }
    }

    fn lose_expected(&mut self, now: Instant, flow: FlowId, index: usize, reason: String) {
        let Some(expected) = self.expected.get_mut(&flow) else {
            return;
        };
        if let Some((_, gone)) = expected.senders.get_mut(index) {
            gone.get_or_insert(reason);
        }
        if expected.senders.iter().all(|(_, gone)| gone.is_some()) {
            let all = expected.senders.iter();
            let reasons: Vec<String> = all
                .filter_map(|(address, gone)| Some(format!("{address}: {}", gone.as_ref()?)))
                .collect();
            let reason = format!("no sender is left: {}", reasons.join("; "));
            self.end_expected(now, flow, reason, None);
        }
    }

    pub(super) fn pause_expected(&mut self, flow: FlowId, paused: bool) {
        if let Some(expected) = self.expected.get_mut(&flow) {
            expected.paused = paused;
        }
    }

    /// No sender has sent anything in time: the session fails.
    pub(super) fn expected_in_vain(&mut self, now: Instant, flow: FlowId) {
        let Some(expected) = self.expected.get(&flow) else {
            return;
        };
        let waited = now.since(expected.started);
        let all = expected.senders.iter();
        let senders: Vec<String> = all
            .map(|(address, gone)| match gone {
                Some(reason) => format!("{address} ({reason})"),
                None => address.to_string(),
            })
            .collect();
        let reason = format!(
            "nothing arrived for {waited} from any of the senders {}; are they asked, and do they \
             serve the object?",
            senders.join(", ")
        );
        self.end_expected(now, flow, reason, None);
    }

    pub(super) fn end_expected(
        &mut self,
        now: Instant,
        flow: FlowId,
        reason: String,
        reset: Option<ResetReason>,
    ) {
        let Some(expected) = self.expected.remove(&flow) else {
            return;
        };
        self.timers.close_slot(expected.timer);
        let mut peers = Vec::new();
        for (address, gone) in expected.senders {
            let key = (address, expected.session);
            let peer = SocketAddrV4::new(address, 0);
            self.receivers_by_key.remove(&key);
            // The ports of senders are not known. Late packets of theirs are answered with the reason.
            let path = Path {
                peer,
                local_port: expected.local_port,
                session: expected.session,
            };
            let epitaph = Epitaph::Reset(reset.unwrap_or(ResetReason::UnknownSession));
            let stone = Tombstone {
                flow,
                path,
                epitaph,
                asked: 0,
            };
            self.tombstones.insert(now, key, stone);
            peers.push((peer, gone));
        }
        let path = Path {
            peer: peers
                .first()
                .map_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), |p| p.0),
            local_port: expected.local_port,
            session: expected.session,
        };
        let senders = peers.into_iter().map(|(peer, gone)| SenderSummary {
            peer,
            packets_received: 0,
            left: gone,
        });
        let ending = Ending::Failed(reason);
        let mut record = self.record(
            now,
            Role::Receiver,
            (path, expected.started, 0),
            (Counters::default(), None),
            ending,
        );
        record.senders = senders.collect();
        self.events.push_back(crate::Event::Failed { flow, record });
    }
}
