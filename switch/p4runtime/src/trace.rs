//! The trace service of one device.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::device::TraceRequest;
use crate::host::Host;
use crate::mailbox::{Limits, Mailbox, Refused};
use crate::proto::trace as proto;
use crate::proto::trace::trace_server::Trace;

/// What may wait for a slow client, which then hears how many visits it has lost.
const WAITING: Limits = Limits {
    messages: 1024,
    bytes: 4 << 20,
};

pub struct Service {
    host: Arc<Host>,
}

impl Service {
    pub fn new(host: Arc<Host>) -> Self {
        Self { host }
    }
}

#[tonic::async_trait]
impl Trace for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::Visit, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let port = |port: &u32| {
            u16::try_from(*port).map_err(|_| {
                Status::out_of_range(format!("port {port}; ports are 0 to {}", u16::MAX))
            })
        };
        let ports = request.port.iter().map(port);
        let trace = TraceRequest {
            ports: ports.collect::<Result<BTreeSet<_>, _>>()?,
            packets: match request.packets {
                0 => u64::MAX,
                packets => packets,
            },
        };
        let (mailbox, visits) = Mailbox::new(WAITING);
        let mut lost = 0;
        let sink = move |mut visit: proto::Visit| {
            if visit.events.is_empty() {
                return !mailbox.is_closed();
            }
            visit.lost = lost;
            match mailbox.try_send(visit) {
                Ok(()) => lost = 0,
                Err(Refused::Full) => lost += 1,
                Err(Refused::Closed) => return false,
            }
            true
        };
        let begin = self
            .host
            .on_switch(move |switch| switch.trace(trace, Box::new(sink)));
        match begin.await? {
            true => Ok(Response::new(Box::pin(visits))),
            false => Err(Status::resource_exhausted(
                "too many traces of this switch at once; end one of them first",
            )),
        }
    }
}
