//! The P4Runtime service of one device.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use prost::Message;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::answer::{Answer, Share};
use crate::calls::HeldShare;
use crate::entities::{self, Position};
use crate::error::{EntityError, batch_status};
use crate::forwarding::Forwarding;
use crate::lock::lock;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::p4::p4_runtime_server::P4Runtime;
use crate::proto::p4::set_forwarding_pipeline_config_request::Action;
use crate::proto::p4::write_request::Atomicity;
use crate::quote::short;
use crate::role::Rights;
use crate::served_device::ServedDevice;
use crate::stream::serve_controller;

/// The version of the API that the descriptors are of.
const API_VERSION: &str = "1.5.0";
/// How many updates of a batch are done between two packets, in about 0.2 ms.
const UPDATES_BETWEEN_PACKETS: usize = 100;
/// How many of these parts the switch is given before it has answered the first: each answer takes two threads
/// that wake up, which on a busy machine is long.
const PARTS_AHEAD: usize = 4;
/// How many entries of a read are looked up between two packets.
const ENTRIES_BETWEEN_PACKETS: usize = 200;
/// Elements of a Read that fail before the others are left alone: the error is to reach the client, and
/// clients limit its size.
const FAILED_FILTERS: usize = 100;
/// How many parts of a Read may be read before the primary may write between two elements of it.
const PARTS_BEFORE_WRITES: usize = 1000;
/// Length of a response to a Read after which the next one begins: by default clients accept messages of
/// 4 MiB.
const READ_CHUNK_BYTES: usize = 1 << 20;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub struct Service {
    host: Arc<ServedDevice>,
}

impl Service {
    pub fn new(host: Arc<ServedDevice>) -> Self {
        Self { host }
    }

    /// Opens a StreamChannel, of which one message may have been read already.
    pub fn open_stream(
        &self,
        first: Option<p4::StreamMessageRequest>,
        rest: Streaming<p4::StreamMessageRequest>,
    ) -> Result<Response<BoxStream<p4::StreamMessageResponse>>, Status> {
        let (id, outgoing) = self.host.open_stream()?;
        let messages = tokio_stream::iter(first.map(Ok)).chain(rest);
        tokio::spawn(serve_controller(self.host.clone(), id, messages));
        Ok(Response::new(Box::pin(outgoing)))
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
        let (_gate, rights) = self
            .host
            .enter(&request.role, request.election_id.as_ref())
            .await?;
        let forwarding = self.host.active()?;
        let whole = match Atomicity::try_from(request.atomicity) {
            Ok(atomicity) => atomicity != Atomicity::ContinueOnError,
            Err(_) => {
                return Err(unknown_value(
                    ("atomicity", request.atomicity),
                    "CONTINUE_ON_ERROR (0), ROLLBACK_ON_ERROR (1), DATAPLANE_ATOMIC (2)",
                ));
            }
        };
        let updates = request.updates;
        let configures_digests = updates.iter().any(is_of_digest);
        let mut results = Vec::with_capacity(updates.len());
        if !rights.is_full() {
            let may = |u: &p4::Update| rights.may_write(u.entity.as_ref());
            if whole && !updates.iter().all(may) {
                return Err(Status::permission_denied(
                    "the batch has updates of objects that are not of this role",
                ));
            }
        }
        if whole {
            let write =
                move |ctx: &mut entities::Context| entities::write_all_or_nothing(ctx, &updates);
            results = self.host.on(&forwarding, write).await?;
        } else {
            // Packets need not wait for all of a large batch.
            let rights = Arc::new(rights);
            let mut waiting = VecDeque::new();
            let updates = Arc::new(updates);
            for first in (0..updates.len()).step_by(UPDATES_BETWEEN_PACKETS) {
                let (updates, rights) = (updates.clone(), rights.clone());
                let write = move |ctx: &mut entities::Context| -> Vec<_> {
                    let write = |u: &p4::Update| match rights.may_write(u.entity.as_ref()) {
                        true => entities::write(ctx, u),
                        false => Err(not_of_role()),
                    };
                    let some = updates.iter().skip(first).take(UPDATES_BETWEEN_PACKETS);
                    some.map(write).collect()
                };
                waiting.push_back(self.host.on(&forwarding, write));
                if waiting.len() > PARTS_AHEAD
                    && let Some(part) = waiting.pop_front()
                {
                    results.extend(part.await?);
                }
            }
            for part in waiting {
                results.extend(part.await?);
            }
        }
        if configures_digests {
            self.host.configure_digests(&forwarding);
        }
        batch_status(&results, "updates", 0)?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let rights = self.host.rights(&request.role);
        let forwarding = self.host.active()?;
        let (answer, responses) = Answer::new(self.host.answers.clone());
        let host = self.host.clone();
        tokio::spawn(async move {
            // The primary's writes wait for one read at most, and nobody reads for who has gone.
            let _turn = tokio::select! {
                turn = host.reading.lock() => turn,
                () = answer.closed() => return,
            };
            let read = read_entities(&host, &forwarding, request.entities, &rights, &answer).await;
            if let Err(status) = read {
                answer.fail(status);
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id)?;
        let (_gate, rights) = self
            .host
            .enter(&request.role, request.election_id.as_ref())
            .await?;
        if !rights.may_push() {
            return Err(Status::permission_denied(format!(
                "role '{}' may not change the forwarding pipeline config (can_push_pipeline)",
                short(&request.role)
            )));
        }
        match Action::try_from(request.action) {
            Ok(Action::Unspecified) | Err(_) => {
                return Err(unknown_value(
                    ("action", request.action),
                    "VERIFY (1), VERIFY_AND_SAVE (2), VERIFY_AND_COMMIT (3), COMMIT (4), \
                     RECONCILE_AND_COMMIT (5)",
                ));
            }
            Ok(Action::Verify) => {
                self.verify(request.config).await?;
            }
            Ok(Action::VerifyAndSave) => {
                let verified = Arc::new(self.verify(request.config).await?);
                lock(&self.host.configs).saved = Some(verified);
            }
            Ok(Action::VerifyAndCommit) => {
                let verified = self.verify(request.config).await?;
                self.host.commit(Arc::new(verified), None).await?;
            }
            Ok(Action::ReconcileAndCommit) => {
                let verified = self.verify(request.config).await?;
                let old = lock(&self.host.configs).committed.clone();
                self.host.commit(Arc::new(verified), old).await?;
            }
            Ok(Action::Commit) => {
                if request.config.is_some() {
                    return Err(Status::invalid_argument(
                        "COMMIT takes the saved config; the request must not have one",
                    ));
                }
                let saved = lock(&self.host.configs).saved.clone();
                let saved = saved.ok_or_else(|| {
                    Status::not_found("no config is saved; use VERIFY_AND_SAVE first")
                })?;
                self.host.commit(saved, None).await?;
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
        let kind = ResponseType::try_from(request.response_type).map_err(|_| {
            unknown_value(
                ("response_type", request.response_type),
                "ALL (0), COOKIE_ONLY (1), P4INFO_AND_COOKIE (2), DEVICE_CONFIG_AND_COOKIE (3)",
            )
        })?;
        let Ok(forwarding) = self.host.active() else {
            // Nothing is known yet, which is not an error (spec, same section).
            return Ok(Response::new(Default::default()));
        };
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
        let answer = p4::GetForwardingPipelineConfigResponse {
            config: Some(config),
        };
        let share = Share::take(&self.host.answers, answer.encoded_len())?;
        let mut response = Response::new(answer);
        response.extensions_mut().insert(HeldShare::new(share));
        Ok(response)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        self.open_stream(None, request.into_inner())
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

/// The error for a number that no value of an enum has, from a newer client or from one that is wrong.
fn unknown_value((field, value): (&str, i32), allowed: &str) -> Status {
    Status::invalid_argument(format!("{field} {value}; allowed: {allowed}"))
}

fn is_of_digest(update: &p4::Update) -> bool {
    let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
    matches!(entity, Some(Entity::DigestEntry(_)))
}

/// Sends what a Read selects, a part between any two packets. Failures are reported at the end. No write comes between
/// the parts of an element, nor between the elements of any but a very long read.
async fn read_entities(
    host: &ServedDevice,
    forwarding: &Arc<Forwarding>,
    filters: Vec<p4::Entity>,
    rights: &Rights,
    answer: &Answer<p4::ReadResponse>,
) -> Result<(), Status> {
    let filters = Arc::new(filters);
    let mut gate = host.gate.lock().await;
    let mut parts = 0;
    let mut results: Vec<Result<(), EntityError>> = Vec::new();
    let (mut position, mut failed) = (Position::default(), 0);
    while results.len() < filters.len() {
        if parts >= PARTS_BEFORE_WRITES && position == Position::default() {
            drop(gate);
            gate = host.gate.lock().await;
            parts = 0;
        }
        if !host.is_active(forwarding) {
            return Err(Status::aborted(
                "the forwarding pipeline config was replaced; read again",
            ));
        }
        parts += 1;
        let (filters, first, from) = (filters.clone(), results.len(), position);
        let read = move |ctx: &mut entities::Context| read_part(ctx, &filters[first..], from);
        let part = host.on(forwarding, read).await?;
        position = part.position;
        failed += part.results.iter().filter(|r| r.is_err()).count();
        results.extend(part.results);
        let readable = part.found.into_iter().filter(|e| rights.may_read(e));
        for response in chunks(readable) {
            answer.part(response)?;
        }
        if failed >= FAILED_FILTERS {
            break;
        }
    }
    batch_status(&results, "requests", filters.len() - results.len())
}

/// The part of a Read that is done between two packets.
struct ReadPart {
    found: Vec<p4::Entity>,
    /// Results of the elements that are done.
    results: Vec<Result<(), EntityError>>,
    /// Where to continue in the next element.
    position: Position,
}

fn read_part(
    ctx: &mut entities::Context,
    filters: &[p4::Entity],
    mut position: Position,
) -> ReadPart {
    let (mut found, mut results) = (Vec::new(), Vec::new());
    for filter in filters.iter().take(ENTRIES_BETWEEN_PACKETS) {
        let before = found.len();
        let room = ENTRIES_BETWEEN_PACKETS.saturating_sub(before);
        if room == 0 {
            break;
        }
        match entities::read(ctx, filter, (&mut position, room), &mut found) {
            Ok(false) => break,
            Ok(true) => results.push(Ok(())),
            Err(error) => {
                found.truncate(before);
                results.push(Err(error));
            }
        }
        position = Position::default();
    }
    ReadPart {
        found,
        results,
        position,
    }
}

fn not_of_role() -> EntityError {
    EntityError::permission_denied("this role may not write that object of the P4Info")
}

/// Responses of about `READ_CHUNK_BYTES` each.
fn chunks(entities: impl Iterator<Item = p4::Entity>) -> Vec<p4::ReadResponse> {
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

#[cfg(test)]
mod tests {
    use tonic::body::Body;
    use tonic::codegen::{Service as _, http};

    use super::*;
    use crate::arbitration::Arbitration;
    use crate::calls::{Budget, Counted};
    use crate::fixture;
    use crate::plain::Plain;
    use crate::programs::Programs;
    use crate::proto::p4::p4_runtime_server::P4RuntimeServer;

    #[tokio::test]
    async fn a_config_counts_until_it_has_been_sent() {
        let config = fixture::compiled("entities").pipeline_config();
        let bytes = config.encoded_len();
        let programs = Arc::new(Programs::new(true));
        let host = ServedDevice::new(
            Arc::new(Plain::new(1)),
            programs.clone(),
            Arbitration::Required,
        );
        let forwarding = Forwarding::verify(&programs, config).unwrap();
        host.commit(Arc::new(forwarding), None).await.unwrap();
        let server = P4RuntimeServer::new(Service::new(host.clone()));
        let mut server = Counted::new(server, Budget::new(1000));
        let mut get = || {
            let path = "/p4.v1.P4Runtime/GetForwardingPipelineConfig";
            let request = http::Request::post(path).header("content-type", "application/grpc");
            // Two bytes: device_id 1.
            let message = "\0\0\0\0\u{2}\u{8}\u{1}".to_owned();
            server.call(request.body(Body::new(message)).unwrap())
        };
        let answers = [get().await.unwrap(), get().await.unwrap()];
        assert!(
            host.answers.bytes() >= 2 * bytes,
            "{}",
            host.answers.bytes()
        );
        drop(answers);
        assert_eq!(host.answers.bytes(), 0);
    }
}
