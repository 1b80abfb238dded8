//! The trace service of one device.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::device::{TraceRequest, TraceSink};
use crate::mailbox::{Limits, Mailbox, Refused};
use crate::proto::trace as proto;
use crate::proto::trace::trace_server::Trace;
use crate::served_device::ServedDevice;

/// Most visits that wait for a slow client; it gets the number of those it misses.
const WAITING: Limits = Limits {
    messages: 1024,
    bytes: 4 << 20,
};

pub struct Service {
    served: Arc<ServedDevice>,
}

impl Service {
    pub fn new(served: Arc<ServedDevice>) -> Self {
        Self { served }
    }
}

/// Puts visits into a mailbox. Without room there a visit is not built at all: a client that does not read costs
/// packets little.
fn sink(mailbox: Mailbox<proto::Visit>) -> TraceSink {
    let mut lost = 0;
    Box::new(move |visit| {
        let Some(visit) = visit else {
            return !mailbox.is_closed();
        };
        if mailbox.is_full() {
            lost += 1;
            return !mailbox.is_closed();
        }
        let message = proto::Visit { lost, ..visit() };
        match mailbox.try_send(message) {
            Ok(()) => lost = 0,
            Err(Refused::Full) => lost += 1,
            Err(Refused::Closed) => return false,
        }
        true
    })
}

#[tonic::async_trait]
impl Trace for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::Visit, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        self.served.check_device(request.device_id)?;
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
        let sink = sink(mailbox);
        let begin = self
            .served
            .on_switch(move |switch| switch.trace(trace, sink));
        match begin.await? {
            true => Ok(Response::new(Box::pin(visits))),
            false => Err(Status::resource_exhausted(
                "too many traces of this switch at once; end one of them first",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn what_a_slow_client_loses_is_counted_and_not_made() {
        let limits = Limits {
            messages: 3,
            bytes: 1 << 20,
        };
        let (mailbox, mut visits) = Mailbox::new(limits);
        let mut sink = sink(mailbox);
        let made = Cell::new(0);
        let visit = || {
            made.set(made.get() + 1);
            proto::Visit {
                packet_id: made.get(),
                ..proto::Visit::default()
            }
        };
        for _ in 0..100 {
            assert!(sink(Some(&visit)));
        }
        assert_eq!(made.get(), 3);
        for packet in 1..=3 {
            let taken = visits.next().await.unwrap().unwrap();
            assert_eq!((taken.packet_id, taken.lost), (packet, 0));
        }
        assert!(sink(Some(&visit)));
        assert_eq!(visits.next().await.unwrap().unwrap().lost, 97);
        assert!(sink(None));
        drop(visits);
        assert!(!sink(None));
        assert!(!sink(Some(&visit)));
    }
}
