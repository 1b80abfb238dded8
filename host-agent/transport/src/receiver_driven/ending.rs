//! End of sessions: buffers, messages to peers, tombstones, and the record.

use std::net::SocketAddrV4;

use ebb_units::Instant;
use ebb_wire::EbbHeader;

use super::ResetReason;
use super::path::{Open, Path};
use super::session::{Ending, ReceiverDriven, ReceiverSession, SenderSession, SenderSummary};
use super::session_table::SessionTable;
use super::tombstones::{Epitaph, Tombstone};
use crate::record::{Counters, FlowRecord, GroupSummary, Role, Status};
use crate::transport::{Event, FlowId};

impl<S: ReceiverDriven> SessionTable<S> {
    /// Ends a sender and reports that; `reset` is the reason for its peers; none: they get no message.
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
        for &peer in &open.peers {
            let key = (*peer.ip(), path.session);
            if self
                .senders_by_key
                .get(&key)
                .is_some_and(|(f, _)| *f == flow)
            {
                self.senders_by_key.remove(&key);
                if let Some(reason) = reset {
                    self.control
                        .push_back((flow, path.to(peer), reason.header()));
                }
            }
        }
        self.timers.close_slot(open.timer);
        self.ports.remove(&(path.peer, path.local_port));
        let counters = *open.state.counters();
        let group = open.state.group();
        let ending = match ending {
            Ending::Failed(reason) if group.is_some() => {
                let unfinished = open.state.unfinished().into_iter();
                let names: Vec<String> = unfinished
                    .filter_map(|index| open.peers.get(index))
                    .map(|peer| peer.ip().to_string())
                    .collect();
                match &names[..] {
                    [] => Ending::Failed(reason),
                    _ => Ending::Failed(format!("{} did not finish: {reason}", names.join(", "))),
                }
            }
            other => other,
        };
        let about = (path, open.started, open.stream_bytes);
        let finished = ending == Ending::Finished;
        let record = self.record(now, Role::Sender, about, (counters, group), ending);
        self.report(flow, finished, record);
    }

    /// Everything has been delivered, and the application notified. The session stays until it says
    /// what became of that; only its peer, by asking, makes it do anything.
    pub(super) fn hold_receiver(&mut self, now: Instant, flow: FlowId) {
        let Some(mut open) = self.receivers.remove(&flow) else {
            return;
        };
        self.timers.set(open.timer, flow, None);
        self.pulls.remove(flow);
        self.report_receiver(now, flow, &mut open, Ending::Finished);
        self.receivers.insert(flow, open);
    }

    /// Everything has been delivered, the application knows, and the senders are notified until they confirm
    /// that. Reports the end unless that was done.
    pub(super) fn close_receiver(&mut self, now: Instant, flow: FlowId) {
        let Some(mut open) = self.receivers.remove(&flow) else {
            return;
        };
        self.timers.set(open.timer, flow, open.state.deadline());
        if self.closing.insert(flow) && self.held.remove(&flow).is_none() {
            self.pulls.remove(flow);
            self.report_receiver(now, flow, &mut open, Ending::Finished);
        }
        self.receivers.insert(flow, open);
    }

    /// Reports how a receiver ended; its buffers serve others.
    fn report_receiver(
        &mut self,
        now: Instant,
        flow: FlowId,
        open: &mut Open<S::Receiver>,
        ending: Ending,
    ) {
        let counters = *open.state.counters();
        open.state.release(&mut self.out.buffers);
        let peers = open.peers.iter().zip(open.state.sources());
        let senders = peers
            .map(|(&peer, source)| SenderSummary { peer, ..source })
            .collect();
        let about = (open.path, open.started, open.stream_bytes);
        let finished = ending == Ending::Finished;
        let mut record = self.record(now, Role::Receiver, about, (counters, None), ending);
        record.senders = senders;
        self.report(flow, finished, record);
    }

    /// Ends a receiver, and reports that unless it is held; `reset` is the message to its peers, none:
    /// nothing.
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
        self.timers.close_slot(open.timer);
        self.pulls.remove(flow);
        if reset.is_some() {
            self.control.retain(|(f, ..)| *f != flow);
        }
        for (index, &peer) in open.peers.iter().enumerate() {
            let path = open.path.to(peer);
            let key = (*peer.ip(), path.session);
            self.receivers_by_key.remove(&key);
            if let Some(reason) = reset.filter(|_| peer.port() != 0) {
                self.control.push_back((flow, path, reason.header()));
            }
            let epitaph = match &ending {
                Ending::Finished => Epitaph::Finished(EbbHeader {
                    sender: index as u8,
                    ..open.state.closing()
                }),
                Ending::Failed(_) => Epitaph::Reset(reset.unwrap_or(ResetReason::UnknownSession)),
            };
            let stone = Tombstone {
                flow,
                path,
                epitaph,
                asked: 0,
            };
            self.tombstones.insert(now, key, stone);
        }
        let reported = self.held.remove(&flow).is_some() | self.closing.remove(&flow);
        if !reported {
            self.report_receiver(now, flow, &mut open, ending);
        }
    }

    fn report(&mut self, flow: FlowId, finished: bool, record: FlowRecord) {
        self.events.push_back(if finished {
            Event::Finished { flow, record }
        } else {
            Event::Failed { flow, record }
        });
    }

    pub(super) fn record(
        &self,
        now: Instant,
        role: Role,
        (path, started, stream_bytes): (Path, Instant, u64),
        (counters, group): (Counters, Option<GroupSummary>),
        ending: Ending,
    ) -> FlowRecord {
        let mut record = FlowRecord {
            role,
            transport: S::NAME,
            local: SocketAddrV4::new(self.config.address, path.local_port),
            peer: path.peer,
            session: path.session,
            stream_bytes,
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
            senders: Vec::new(),
        };
        record.set_times(started, now);
        record
    }
}
