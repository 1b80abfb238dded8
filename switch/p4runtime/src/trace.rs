//! The trace service of one device.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::device::TraceRequest;
use crate::host::Host;
use crate::proto::trace as proto;
use crate::proto::trace::trace_server::Trace;

/// How many visits may wait for a slow client.
const BUFFER: usize = 1024;

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
        let (sender, receiver) = mpsc::channel(BUFFER);
        let mut lost = 0;
        let sink = move |mut visit: proto::Visit| {
            visit.lost = lost;
            match sender.try_send(Ok(visit)) {
                Ok(()) => lost = 0,
                Err(mpsc::error::TrySendError::Full(_)) => lost += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        };
        let begin = self
            .host
            .on_switch(move |switch| switch.trace(trace, Box::new(sink)));
        match begin.await? {
            true => Ok(Response::new(Box::pin(ReceiverStream::new(receiver)))),
            false => Err(Status::resource_exhausted(
                "too many traces of this switch at once; end one of them first",
            )),
        }
    }
}
