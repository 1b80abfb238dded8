//! The P4Runtime service of one device.

use std::pin::Pin;
use std::sync::Arc;

use prost::Message;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::entities;
use crate::error::{EntityError, batch_status};
use crate::forwarding::{Forwarding, lock};
use crate::host::Host;
use crate::proto::p4;
use crate::proto::p4::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::p4::p4_runtime_server::P4Runtime;
use crate::proto::p4::set_forwarding_pipeline_config_request::Action;
use crate::proto::p4::write_request::Atomicity;
use crate::stream::serve_controller;

/// The version of the API that the descriptors are of.
const API_VERSION: &str = "1.5.0";
/// Clients accept messages of 4 MiB unless told otherwise.
const READ_CHUNK_BYTES: usize = 1 << 20;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub struct Service {
    host: Arc<Host>,
}

impl Service {
    pub fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    async fn verify(
        &self,
        config: Option<p4::ForwardingPipelineConfig>,
    ) -> Result<Forwarding, Status> {
        let config = config.ok_or_else(|| {
            Status::invalid_argument("the request has no config, which this action needs")
        })?;
        // Loading a program takes a while; other controllers should not wait for it.
        let programs = self.host.programs.clone();
        let verify = move || Forwarding::verify(&programs, config);
        let verified = tokio::task::spawn_blocking(verify).await;
        verified
            .map_err(|e| Status::internal(format!("loading the program failed: {e}")))?
            .map_err(EntityError::into_status)
    }

    /// Puts a verified config into the switch, with the state of `old` if there is one to keep.
    async fn commit(
        &self,
        forwarding: Arc<Forwarding>,
        old: Option<Arc<Forwarding>>,
    ) -> Result<(), Status> {
        let new = forwarding.clone();
        let installed = self.host.on_switch(move |switch| {
            if let Some(old) = old {
                new.take_over(&old, switch)?;
            }
            new.install(switch);
            Ok(())
        });
        installed.await?.map_err(EntityError::into_status)?;
        let mut configs = lock(&self.host.configs);
        configs.committed = Some(forwarding);
        configs.saved = None;
        lock(&self.host.digests).clear();
        Ok(())
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = BoxStream<p4::ReadResponse>;
    type StreamChannelStream = BoxStream<p4::StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<p4::WriteRequest>,
    ) -> Result<Response<p4::WriteResponse>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        if request.atomicity() != Atomicity::ContinueOnError {
            return Err(Status::unimplemented(format!(
                "atomicity {} is not there; use CONTINUE_ON_ERROR",
                request.atomicity().as_str_name()
            )));
        }
        let _gate = self.host.gate.lock().await;
        self.host
            .check_primary(&request.role, request.election_id.as_ref())?;
        let updates = request.updates;
        let write = move |ctx: &mut entities::Context| -> Vec<_> {
            updates.iter().map(|u| entities::write(ctx, u)).collect()
        };
        let results = self.host.on_pipeline(write).await?;
        batch_status(&results)?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let filters = request.entities;
        let read = move |ctx: &mut entities::Context| -> Result<Vec<_>, EntityError> {
            let mut found = Vec::new();
            for filter in &filters {
                found.extend(entities::read(ctx, filter)?);
            }
            Ok(found)
        };
        let found = self.host.on_pipeline(read).await?;
        let responses = chunks(found.map_err(EntityError::into_status)?);
        let responses = tokio_stream::iter(responses.into_iter().map(Ok));
        Ok(Response::new(Box::pin(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let _gate = self.host.gate.lock().await;
        self.host
            .check_primary(&request.role, request.election_id.as_ref())?;
        match request.action() {
            Action::Unspecified => {
                return Err(Status::invalid_argument(
                    "the request has no action; use VERIFY_AND_COMMIT to load a program",
                ));
            }
            Action::Verify => {
                self.verify(request.config).await?;
            }
            Action::VerifyAndSave => {
                let verified = Arc::new(self.verify(request.config).await?);
                lock(&self.host.configs).saved = Some(verified);
            }
            Action::VerifyAndCommit => {
                let verified = self.verify(request.config).await?;
                self.commit(Arc::new(verified), None).await?;
            }
            Action::ReconcileAndCommit => {
                let verified = self.verify(request.config).await?;
                let old = lock(&self.host.configs).committed.clone();
                self.commit(Arc::new(verified), old).await?;
            }
            Action::Commit => {
                if request.config.is_some() {
                    return Err(Status::invalid_argument(
                        "COMMIT takes the saved config; the request must not have one",
                    ));
                }
                let saved = lock(&self.host.configs).saved.clone();
                let saved = saved.ok_or_else(|| {
                    Status::failed_precondition("no config is saved; use VERIFY_AND_SAVE first")
                })?;
                self.commit(saved, None).await?;
            }
        }
        Ok(Response::new(p4::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let forwarding = self.host.active()?;
        let kind = request.response_type();
        let whole = &forwarding.loaded.config;
        let mut config = p4::ForwardingPipelineConfig {
            cookie: forwarding.cookie,
            ..Default::default()
        };
        if matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie) {
            config.p4info.clone_from(&whole.p4info);
        }
        if matches!(
            kind,
            ResponseType::All | ResponseType::DeviceConfigAndCookie
        ) {
            config.p4_device_config.clone_from(&whole.p4_device_config);
        }
        Ok(Response::new(p4::GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (id, outgoing) = self.host.open_stream();
        tokio::spawn(serve_controller(
            self.host.clone(),
            id,
            request.into_inner(),
        ));
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn capabilities(
        &self,
        request: Request<p4::CapabilitiesRequest>,
    ) -> Result<Response<p4::CapabilitiesResponse>, Status> {
        match request.into_inner().device_id {
            0 => {}
            id => self.host.check_device(id)?,
        }
        Ok(Response::new(p4::CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.into(),
            experimental: None,
        }))
    }
}

/// Responses of about `READ_CHUNK_BYTES` each.
fn chunks(entities: Vec<p4::Entity>) -> Vec<p4::ReadResponse> {
    let mut responses = Vec::new();
    let mut response = p4::ReadResponse::default();
    let mut size = 0;
    for entity in entities {
        size += entity.encoded_len();
        response.entities.push(entity);
        if size >= READ_CHUNK_BYTES {
            responses.push(std::mem::take(&mut response));
            size = 0;
        }
    }
    if !response.entities.is_empty() {
        responses.push(response);
    }
    responses
}
