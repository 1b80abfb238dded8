//! Services of several devices at one address: a request is for the device whose id it has (P4Runtime, 6.2).

use std::collections::HashMap;

use tonic::{Request, Response, Status, Streaming};

use crate::proto::p4::p4_runtime_server::P4Runtime;
use crate::proto::p4::stream_message_request::Update;
use crate::proto::tm::traffic_manager_server::TrafficManager;
use crate::proto::trace::trace_server::Trace;
use crate::proto::{p4, tm, trace as proto};
use crate::{service, trace, traffic};

/// A service of each device, by its id.
pub struct ByDevice<S>(HashMap<u64, S>);

impl<S> ByDevice<S> {
    pub fn new(services: impl IntoIterator<Item = (u64, S)>) -> Self {
        Self(services.into_iter().collect())
    }

    fn of(&self, device_id: u64) -> Result<&S, Status> {
        self.0.get(&device_id).ok_or_else(|| {
            let devices = self.0.len();
            Status::not_found(format!(
                "no device {device_id} here; this address serves {devices} others"
            ))
        })
    }

    /// One for requests that are the same to all.
    fn any(&self) -> Result<&S, Status> {
        let none = || Status::not_found("there is no device here");
        self.0.values().next().ok_or_else(none)
    }
}

#[tonic::async_trait]
impl P4Runtime for ByDevice<service::Service> {
    type ReadStream = <service::Service as P4Runtime>::ReadStream;
    type StreamChannelStream = <service::Service as P4Runtime>::StreamChannelStream;

    async fn write(
        &self,
        request: Request<p4::WriteRequest>,
    ) -> Result<Response<p4::WriteResponse>, Status> {
        self.of(request.get_ref().device_id)?.write(request).await
    }

    async fn read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        self.of(request.get_ref().device_id)?.read(request).await
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.set_forwarding_pipeline_config(request).await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::GetForwardingPipelineConfigResponse>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.get_forwarding_pipeline_config(request).await
    }

    /// The first message is the arbitration, which names the device of the stream.
    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut messages = request.into_inner();
        let first = messages.message().await?;
        let update = first.as_ref().and_then(|message| message.update.as_ref());
        let Some(Update::Arbitration(arbitration)) = update else {
            return Err(Status::failed_precondition(
                "a stream to an address of several devices begins with an arbitration, which names its device",
            ));
        };
        let service = self.of(arbitration.device_id)?;
        service.open_stream(first, messages)
    }

    async fn capabilities(
        &self,
        request: Request<p4::CapabilitiesRequest>,
    ) -> Result<Response<p4::CapabilitiesResponse>, Status> {
        let service = match request.get_ref().device_id {
            0 => self.any()?,
            id => self.of(id)?,
        };
        service.capabilities(request).await
    }
}

#[tonic::async_trait]
impl TrafficManager for ByDevice<traffic::Service> {
    type StreamStatsStream = <traffic::Service as TrafficManager>::StreamStatsStream;

    async fn get_config(
        &self,
        request: Request<tm::GetConfigRequest>,
    ) -> Result<Response<tm::GetConfigResponse>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.get_config(request).await
    }

    async fn set_config(
        &self,
        request: Request<tm::SetConfigRequest>,
    ) -> Result<Response<tm::SetConfigResponse>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.set_config(request).await
    }

    async fn get_stats(
        &self,
        request: Request<tm::GetStatsRequest>,
    ) -> Result<Response<tm::Stats>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.get_stats(request).await
    }

    async fn stream_stats(
        &self,
        request: Request<tm::StreamStatsRequest>,
    ) -> Result<Response<Self::StreamStatsStream>, Status> {
        let service = self.of(request.get_ref().device_id)?;
        service.stream_stats(request).await
    }
}

#[tonic::async_trait]
impl Trace for ByDevice<trace::Service> {
    type WatchStream = <trace::Service as Trace>::WatchStream;

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.of(request.get_ref().device_id)?.watch(request).await
    }
}
