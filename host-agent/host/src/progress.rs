//! Progress of transfers and flows.

use std::net::SocketAddrV4;

use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{FlowId, Role, TransportKind};
use ebb_units::{Duration, Instant};

use crate::application::{HostApplication, Notice};
use crate::environment::{Call, Engine, Key, Storage};
use crate::transfers::{Flow, Stage, TransferId};

/// Interval of progress notices.
const INTERVAL: Duration = Duration::from_millis(200);

/// A flow that is open.
#[derive(Clone, Debug)]
pub struct FlowState<'a> {
    /// Transport of the flow.
    pub transport: TransportKind,
    /// Whether this host sends or receives.
    pub role: Role,
    /// The other end. `None`: the flow is a request or a refusal.
    pub peer: Option<SocketAddrV4>,
    /// `None`: not known yet, or it brings no object.
    pub name: Option<&'a str>,
    /// Bytes of the stream that have been acknowledged (sender) or delivered (receiver).
    pub done_bytes: u64,
    /// Length of the stream, envelope included. `None`: not known yet.
    pub total_bytes: Option<u64>,
}

/// A flow that brings an object, or may turn out to.
#[derive(Clone, Copy, Debug)]
pub struct IncomingObject<'a> {
    /// The transport that it comes by.
    pub transport: TransportKind,
    /// Number of the flow, unique in its transport.
    pub flow: FlowId,
    /// With several senders the one that was asked first.
    pub peer: SocketAddrV4,
    /// `None`: it is not known yet what it brings.
    pub header: Option<&'a EnvelopeHeader>,
}

impl<S: Storage> HostApplication<S> {
    /// Sends progress notices from now on, until no client wants them.
    pub(crate) fn want_progress(&mut self, now: Instant) {
        self.progress_at.get_or_insert(now + INTERVAL);
    }

    pub(crate) fn tell_progress(&mut self, call: &mut Call<'_>) {
        self.progress_at = None;
        let watched = self.transfers.iter().filter(|(_, t)| t.progress);
        let watched: Vec<TransferId> = watched.map(|(id, _)| *id).collect();
        if !watched.is_empty() {
            self.want_progress(call.now);
        }
        for id in watched {
            let transfer = &self.transfers[&id];
            if transfer.flows.is_empty() {
                continue;
            }
            let (mut done_bytes, mut total_bytes) = (0, Some(0));
            for &flow in &transfer.flows {
                let (done, total) = self.how_far((transfer.transport, flow), call.engine);
                done_bytes += done;
                total_bytes = total_bytes.zip(total).map(|(sum, more)| sum + more);
            }
            let notice = Notice::Progress {
                transfer: id,
                done_bytes,
                total_bytes,
            };
            self.notify(transfer.client, notice);
        }
    }

    /// Bytes of the stream that are done, and of all, as far as they are known.
    fn how_far(&self, key: Key, engine: &mut dyn Engine) -> (u64, Option<u64>) {
        let transport = engine.transport(key.0);
        let known = transport.and_then(|transport| transport.progress(key.1));
        let known = known.map(|progress| (progress.done_bytes, progress.total_bytes));
        match self.flows.get(&key) {
            Some(Flow::Incoming(incoming)) => {
                let total = match &incoming.stage {
                    Stage::Object(object) => Some(stream_bytes(&object.header)),
                    _ => known.and_then(|(_, total)| total),
                };
                (incoming.received, total)
            }
            Some(Flow::Outgoing(outgoing)) => {
                let total = stream_bytes(&outgoing.header);
                (known.map_or(0, |(done, _)| done), Some(total))
            }
            _ => known.unwrap_or((0, None)),
        }
    }

    /// Transfers with numbers above `after`, each with how many flows it has.
    pub fn transfers_after(&self, after: TransferId) -> impl Iterator<Item = (TransferId, usize)> {
        let above = self.transfers.range(after.saturating_add(1)..);
        above.map(|(id, transfer)| (*id, transfer.flows.len()))
    }

    /// The flows of a transfer, `most` at most.
    pub fn flows_of(
        &self,
        id: TransferId,
        most: usize,
        engine: &mut dyn Engine,
    ) -> Vec<FlowState<'_>> {
        let Some(transfer) = self.transfers.get(&id) else {
            return Vec::new();
        };
        let flows = transfer.flows.iter().take(most);
        let state = |&flow: &FlowId| {
            let key = (transfer.transport, flow);
            let (done_bytes, total_bytes) = self.how_far(key, engine);
            let (role, peer, name) = match self.flows.get(&key) {
                Some(Flow::Outgoing(out)) => (Role::Sender, Some(out.peer), Some(&out.header)),
                Some(Flow::Incoming(incoming)) => {
                    let header = match &incoming.stage {
                        Stage::Object(object) => Some(&object.header),
                        _ => None,
                    };
                    (Role::Receiver, Some(incoming.peer), header)
                }
                _ => (Role::Receiver, None, None),
            };
            FlowState {
                transport: transfer.transport,
                role,
                peer,
                name: name.map(|header| &*header.name),
                done_bytes,
                total_bytes,
            }
        };
        flows.map(state).collect()
    }

    /// Flows of all transports that bring an object which is not complete, or may turn out to.
    pub fn incoming_objects(&self) -> impl Iterator<Item = IncomingObject<'_>> {
        self.flows.iter().filter_map(|((transport, flow), what)| {
            let Flow::Incoming(incoming) = what else {
                return None;
            };
            let header = match &incoming.stage {
                Stage::Head(_) => None,
                Stage::Object(object) => Some(&object.header),
                _ => return None,
            };
            Some(IncomingObject {
                transport: *transport,
                flow: *flow,
                peer: incoming.peer,
                header,
            })
        })
    }
}

fn stream_bytes(header: &EnvelopeHeader) -> u64 {
    header.content_bytes + header.head_bytes() as u64
}
