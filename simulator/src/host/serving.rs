//! The server's side of a fetch.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_transport::{FetchRequest, Part, Refusal, RefusalCode, SendRequest, Transport};
use ebb_units::Instant;

use super::application::{Application, Flow};

impl Application {
    /// Another host asks for an object.
    pub(super) fn requested(
        &mut self,
        now: Instant,
        request: FetchRequest,
        peer: SocketAddrV4,
        transport: &mut dyn Transport,
    ) {
        let to = SocketAddrV4::new(*peer.ip(), request.reply_port);
        let id = self.catalog.transfer_of(&request.name);
        let offered = id.and_then(|id| self.offers.get(&id)).cloned();
        let served = match offered {
            None => Err((
                RefusalCode::Unknown,
                format!("there is no object `{}` here", request.name),
            )),
            Some(transfer) => {
                let part = (request.senders > 1).then_some(Part {
                    session: request.session,
                    sender: request.sender,
                    senders: request.senders,
                });
                let how = (request.priority, part);
                let served = self.serve(now, &transfer, to, how, transport);
                served.map_err(|reason| (RefusalCode::Unreadable, reason))
            }
        };
        if let Err((code, message)) = served {
            self.refuse(now, Refusal { code, message }, to, transport);
        }
    }

    /// Tells why an object is not sent. If that cannot be told either, the other host's patience ends.
    fn refuse(
        &mut self,
        now: Instant,
        refusal: Refusal,
        to: SocketAddrV4,
        transport: &mut dyn Transport,
    ) {
        let request = SendRequest {
            to,
            source_port: None,
            source: Arc::new(refusal.encode()),
            priority: 0,
            part: None,
        };
        match transport.send(now, request) {
            Ok(flow) => {
                self.flows.insert(flow, Flow::Refusal);
            }
            Err(error) => tracing::debug!("cannot refuse a request of {to}: {error}"),
        }
    }
}
