//! The service of one device.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};

use super::batch::{self, Reading, Scope};
use super::chip::{Chip, Port};
use super::notices;
use super::schema::Schema;
use super::state::State;
use crate::answer::Answer;
use crate::error::{EntityError, Result as Outcome, bf_runtime_errors, bf_runtime_status};
use crate::lock::lock;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
use crate::proto::bf_runtime::set_forwarding_pipeline_config_request::Action;
use crate::proto::bf_runtime::write_request::Atomicity;
use crate::served_device::ServedDevice;

/// Bytes in which Tofino 2 counts the depth of queues.
const CELL_BYTES_OF_TOFINO_2: u64 = 176;
/// How many updates of a batch are done between two packets.
const UPDATES_BETWEEN_PACKETS: usize = 100;
/// How many entries of a read are looked up between two packets.
const ENTRIES_BETWEEN_PACKETS: usize = 200;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// BF Runtime of one device, for one program.
pub struct Service {
    host: Arc<ServedDevice>,
    schema: Arc<Schema>,
    state: Arc<Mutex<State>>,
}

/// Wishes of a client besides the request, which it sends as metadata of the call.
#[derive(Clone, Copy)]
struct Wishes {
    /// When what has not been done is left; none: all is done.
    deadline: Option<Instant>,
    /// The result of each element is in the answer, and the call itself succeeds.
    errors_in_response: bool,
    /// Entries that are not there are no failure; the answer tells of them all the same.
    ignore_not_found: bool,
}

impl Wishes {
    fn of(metadata: &MetadataMap) -> Wishes {
        let is_set = |name: &str| metadata.get(name).is_some_and(|value| value == "1");
        let number = |name: &str| metadata.get(name)?.to_str().ok()?.parse().ok();
        let after = match (number("deadline_sec"), number("deadline_nsec")) {
            (None, None) => None,
            (seconds, nanoseconds) => Some(
                Duration::from_secs(seconds.unwrap_or(0))
                    .saturating_add(Duration::from_nanos(nanoseconds.unwrap_or(0))),
            ),
        };
        Wishes {
            deadline: after.and_then(|after| Instant::now().checked_add(after)),
            errors_in_response: is_set("error_in_resp"),
            ignore_not_found: is_set("ignore_not_found"),
        }
    }

    /// Errors for the answer, unless the call fails.
    fn judge(self, results: &[Outcome<()>], elements: &str) -> Result<Vec<bf::Error>, Status> {
        if self.errors_in_response {
            return Ok(bf_runtime_errors(results));
        }
        if self.ignore_not_found {
            let is_missing = |error: &EntityError| error.code == Code::NotFound;
            let failed = results.iter().cloned().map(|result| match result {
                Err(error) if is_missing(&error) => Ok(()),
                result => result,
            });
            bf_runtime_status(&failed.collect::<Vec<_>>(), elements)?;
            return Ok(bf_runtime_errors(results));
        }
        bf_runtime_status(results, elements)?;
        Ok(Vec::new())
    }
}

impl Service {
    /// The service of a device that runs the schema's program.
    pub fn new(host: Arc<ServedDevice>, schema: Arc<Schema>) -> Self {
        let ports = host.device.port_names().into_iter();
        let ports = ports.map(|(number, name)| Port { number, name });
        let chip = Chip::new(ports.collect());
        Self {
            host,
            schema,
            state: Arc::new(Mutex::new(State::new(chip))),
        }
    }

    fn check(&self, target: Option<&bf::TargetDevice>) -> Result<(), Status> {
        let device = target.map_or(0, |target| target.device_id);
        self.host.check_device(device.into())
    }

    /// Refuses names of other programs; none is the one that there is.
    fn check_name(&self, name: &str) -> Result<(), Status> {
        match name.is_empty() || name == self.schema.name {
            true => Ok(()),
            false => Err(Status::not_found(format!(
                "the switch runs program '{}', not the one that is asked for",
                self.schema.name
            ))),
        }
    }
}

#[tonic::async_trait]
impl BfRuntime for Service {
    type ReadStream = BoxStream<bf::ReadResponse>;
    type StreamChannelStream = BoxStream<bf::StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<bf::WriteRequest>,
    ) -> Result<Response<bf::WriteResponse>, Status> {
        let wishes = Wishes::of(request.metadata());
        let request = request.into_inner();
        self.check(request.target.as_ref())?;
        self.check_name(&request.p4_name)?;
        if request.atomicity() != Atomicity::ContinueOnError {
            return Err(Status::unimplemented(
                "batches are done with CONTINUE_ON_ERROR; there are no transactions",
            ));
        }
        let target = request.target;
        let _gate = self.host.gate.lock().await;
        let forwarding = self.host.active()?;
        let mut updates = VecDeque::from(request.updates);
        let mut results = Vec::with_capacity(updates.len());
        while !updates.is_empty() {
            if wishes
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Err(Status::deadline_exceeded(format!(
                    "{} updates were left when the client's time was over",
                    updates.len()
                )));
            }
            let some: Vec<_> = updates
                .drain(..updates.len().min(UPDATES_BETWEEN_PACKETS))
                .collect();
            let (schema, state) = (self.schema.clone(), self.state.clone());
            let write = move |ctx: &mut crate::entities::Context| -> Vec<_> {
                let scope = Scope {
                    schema: &schema,
                    target: target.as_ref(),
                };
                let mut state = lock(&state);
                some.iter()
                    .map(|update| batch::write(ctx, scope, &mut state, update))
                    .collect()
            };
            results.extend(self.host.on(&forwarding, write).await?);
        }
        let status = wishes.judge(&results, "updates")?;
        Ok(Response::new(bf::WriteResponse { status }))
    }

    async fn read(
        &self,
        request: Request<bf::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let wishes = Wishes::of(request.metadata());
        let request = request.into_inner();
        self.check(request.target.as_ref())?;
        self.check_name(&request.p4_name)?;
        self.host.active()?;
        let (answer, responses) = Answer::new(self.host.answers.clone());
        let host = self.host.clone();
        let source = Source {
            schema: self.schema.clone(),
            state: self.state.clone(),
            target: request.target,
        };
        tokio::spawn(async move {
            // The writes wait for one read at most, and nobody reads for who has gone.
            let _turn = tokio::select! {
                turn = host.reading.lock() => turn,
                () = answer.closed() => return,
            };
            if let Err(status) =
                read_entities(&host, &source, request.entities, wishes, &answer).await
            {
                answer.fail(status);
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<bf::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<bf::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.host.check_device(request.device_id.into())?;
        if request.action() != Action::Bind {
            return Err(Status::unimplemented(
                "clients BIND to the program that the switch runs; start ebb-switch with another one, or push it \
                 by P4Runtime",
            ));
        }
        for config in &request.config {
            self.check_name(&config.p4_name)?;
        }
        Ok(Response::new(
            bf::SetForwardingPipelineConfigResponse::default(),
        ))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<bf::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<bf::GetForwardingPipelineConfigResponse>, Status> {
        self.host
            .check_device(request.into_inner().device_id.into())?;
        if let Ok(forwarding) = self.host.active() {
            let cells = self.host.on(&forwarding, |ctx| ctx.pipeline.cell_bytes());
            let is_second = cells.await? == Some(CELL_BYTES_OF_TOFINO_2);
            lock(&self.state).chip.set_second(is_second);
        }
        Ok(Response::new(bf::GetForwardingPipelineConfigResponse {
            config: vec![bf::ForwardingPipelineConfig {
                p4_name: self.schema.name.clone(),
                bfruntime_info: self.schema.text.clone(),
            }],
            non_p4_config: Some(bf::NonP4Config {
                bfruntime_info: lock(&self.state).chip.schema(),
            }),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<bf::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (told, messages) = tokio::sync::mpsc::channel(notices::WAITING);
        tokio::spawn(notices::serve(
            notices::Client {
                host: self.host.clone(),
                schema: self.schema.clone(),
                state: self.state.clone(),
                told,
            },
            request.into_inner(),
        ));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

/// The tables and the state that the elements of a read refer to.
struct Source {
    schema: Arc<Schema>,
    state: Arc<Mutex<State>>,
    target: Option<bf::TargetDevice>,
}

/// Sends what the elements of a request select, a part between any two packets; errors come at the end.
async fn read_entities(
    host: &ServedDevice,
    source: &Source,
    elements: Vec<bf::Entity>,
    wishes: Wishes,
    answer: &Answer<bf::ReadResponse>,
) -> Result<(), Status> {
    let mut results = Vec::with_capacity(elements.len());
    for element in &elements {
        let done = match Reading::new(element) {
            Ok(reading) => read_element(host, source, reading, answer).await?,
            Err(error) => Err(error),
        };
        results.push(done);
    }
    let status = wishes.judge(&results, "requests")?;
    if !status.is_empty() {
        answer.part(bf::ReadResponse {
            entities: Vec::new(),
            status,
        })?;
    }
    Ok(())
}

async fn read_element(
    host: &ServedDevice,
    source: &Source,
    mut reading: Reading,
    answer: &Answer<bf::ReadResponse>,
) -> Result<Outcome<()>, Status> {
    let forwarding = host.active()?;
    let _gate = host.gate.lock().await;
    loop {
        if !host.is_active(&forwarding) {
            let message = "the program was replaced; read again";
            return Err(Status::new(Code::Aborted, message));
        }
        let (schema, state, target) = (source.schema.clone(), source.state.clone(), source.target);
        let part = move |ctx: &mut crate::entities::Context| {
            let scope = Scope {
                schema: &schema,
                target: target.as_ref(),
            };
            let mut found = Vec::new();
            let part = (ENTRIES_BETWEEN_PACKETS, &mut found);
            let ended = reading.part(ctx, scope, &mut lock(&state), part);
            (reading, found, ended)
        };
        let (after, entities, ended) = host.on(&forwarding, part).await?;
        reading = after;
        if !entities.is_empty() {
            answer.part(bf::ReadResponse {
                entities,
                status: Vec::new(),
            })?;
        }
        match ended {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}
