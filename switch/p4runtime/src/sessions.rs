//! Controllers of one device without gRPC: their messages in an order of the caller's choice, and the answers. For
//! fuzzers and tests of invariants that no order of messages may break.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Runtime;
use tokio_stream::Stream;
use tonic::{Request, Status};

use crate::arbitration::{Arbitration, StreamId};
use crate::device::{Device, Event};
use crate::mailbox::Outgoing;
use crate::programs::Programs;
use crate::proto::p4;
use crate::proto::p4::p4_runtime_server::P4Runtime;
use crate::served_device::ServedDevice;
use crate::service::Service;
use crate::stream::{handle, handle_event, send_digest_lists};

type Messages = Pin<Box<dyn Stream<Item = Outgoing> + Send>>;

/// Streams of several controllers to one device, without gRPC.
pub struct Sessions {
    served: Arc<ServedDevice>,
    service: Service,
    streams: BTreeMap<StreamId, Messages>,
    runtime: Runtime,
}

impl Sessions {
    /// Programs are loaded without native code.
    pub fn new(device: Arc<dyn Device>) -> std::io::Result<Self> {
        let served =
            ServedDevice::new(device, Arc::new(Programs::new(true)), Arbitration::Required);
        Ok(Self {
            service: Service::new(served.clone()),
            served,
            streams: BTreeMap::new(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()?,
        })
    }

    /// Opens the stream of another controller.
    pub fn open(&mut self) -> Result<StreamId, Status> {
        let (id, messages) = self.served.open_stream()?;
        self.streams.insert(id, Box::pin(messages));
        Ok(id)
    }

    /// An error ends the stream.
    pub fn say(&mut self, id: StreamId, message: p4::StreamMessageRequest) -> Result<(), Status> {
        let served = self.served.clone();
        self.runtime.block_on(async {
            let said = handle(&served, id, message).await;
            if let Err(status) = &said {
                served.close_stream(id, Some(status.clone())).await;
            }
            said
        })
    }

    /// The controller goes.
    pub fn close(&mut self, id: StreamId) {
        self.streams.remove(&id);
        self.runtime.block_on(self.served.close_stream(id, None));
    }

    /// Messages to a controller since the last call.
    pub fn heard(&mut self, id: StreamId) -> Vec<Outgoing> {
        let mut heard = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        if let Some(stream) = self.streams.get_mut(&id) {
            while let Poll::Ready(Some(message)) = stream.as_mut().poll_next(&mut context) {
                heard.push(message);
            }
        }
        heard
    }

    /// The data plane says something.
    pub fn emit(&self, event: Event) {
        self.runtime.block_on(handle_event(&self.served, event));
        send_digest_lists(&self.served);
    }

    /// Calls Write.
    pub fn write(&self, request: p4::WriteRequest) -> Result<(), Status> {
        let done = self.service.write(Request::new(request));
        self.runtime.block_on(done).map(drop)
    }

    /// Calls SetForwardingPipelineConfig.
    pub fn push(&self, request: p4::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
        let request = Request::new(request);
        let done = self.service.set_forwarding_pipeline_config(request);
        self.runtime.block_on(done).map(drop)
    }
}
