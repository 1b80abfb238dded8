//! Sessions that this host opens: checks, port and session id.

use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::Instant;
use rand::Rng;

use super::params::Section;
use super::path::{Open, Path};
use super::pull_queue::MAX_PRIORITY;
use super::session::{Cast, ReceiverDriven, SenderSession};
use super::session_table::SessionTable;
use crate::addressing::check_destination;
use crate::transport::{FlowId, Part, SendError, SendRequest};

impl<S: ReceiverDriven> SessionTable<S> {
    fn choose_port(&mut self, to: SocketAddrV4, wanted: Option<u16>) -> Result<u16, SendError> {
        let ports = &self.ports;
        let is_free = |port| !ports.contains(&(to, port));
        match wanted {
            Some(0) => Err(SendError::PortZero),
            Some(port) if is_free(port) => Ok(port),
            Some(port) => Err(SendError::PortInUse { port, to }),
            None => {
                let port = self.source_ports.take(is_free);
                port.ok_or(SendError::NoFreePort { to })
            }
        }
    }

    pub(super) fn check_destination(&self, address: Ipv4Addr) -> Result<(), SendError> {
        check_destination(self.config.address, address)
    }

    /// Opens a session; its pulls come from `peers`.
    pub(super) fn start(
        &mut self,
        now: Instant,
        request: SendRequest,
        peers: Vec<SocketAddrV4>,
        cast: Cast,
    ) -> Result<FlowId, SendError> {
        let SendRequest {
            to,
            source_port,
            source,
            priority,
            part: _,
            via: _,
        } = request;
        if to.port() == 0 {
            return Err(SendError::PortZero);
        }
        let limit = S::max_object_bytes(&self.params, self.symbol_bytes());
        let bytes = source.len();
        if bytes > limit {
            return Err(SendError::TooLarge { bytes, limit });
        }
        let open = self.senders.len();
        if open >= self.params.session().max_flows as usize {
            return Err(SendError::TooManyFlows { open });
        }
        let local_port = self.choose_port(to, source_port)?;
        let taken = |host: &Self, session| {
            let mut keys = peers.iter().map(|peer| (*peer.ip(), session));
            keys.any(|key| host.senders_by_key.contains_key(&key))
        };
        let session = match cast {
            Cast::Part(Part { session, .. }) if taken(self, session) => {
                return Err(SendError::SessionInUse { session });
            }
            Cast::Part(Part { session, .. }) => session,
            Cast::Unicast | Cast::Group { .. } => {
                let mut session = self.rng.random();
                while taken(self, session) {
                    session = self.rng.random();
                }
                session
            }
        };
        let flow = self.new_flow();
        let state = S::Sender::open(now, &self.params, self.symbol_bytes(), source, cast);
        let path = Path {
            peer: to,
            local_port,
            session,
        };
        let keys: Vec<_> = (0..)
            .zip(&peers)
            .map(|(index, peer)| ((*peer.ip(), session), (flow, index)))
            .collect();
        let open = Open {
            path,
            peers,
            state,
            started: now,
            stream_bytes: bytes,
            priority: Some(priority.min(MAX_PRIORITY)),
            timer: self.timers.open_slot(),
            ready: false,
            heard: false,
        };
        self.ports.insert((to, local_port));
        self.senders.insert(flow, Box::new(open));
        self.senders_by_key.extend(keys);
        self.after_sender(now, flow);
        Ok(flow)
    }
}
