//! The service of one device.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use super::batch::{self, Reading};
use super::schema::Schema;
use crate::answer::Answer;
use crate::error::{EntityError, bf_runtime_status};
use crate::host::Host;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
use crate::proto::bf_runtime::set_forwarding_pipeline_config_request::Action;
use crate::proto::bf_runtime::stream_message_request::Update as Asked;
use crate::proto::bf_runtime::stream_message_response::Update as Told;
use crate::proto::bf_runtime::write_request::Atomicity;

/// How many updates of a batch are done between two packets.
const UPDATES_BETWEEN_PACKETS: usize = 100;
/// How many entries of a read are looked up between two packets.
const ENTRIES_BETWEEN_PACKETS: usize = 200;
/// The schema of tables of the chip, of which there are none.
const OF_THE_CHIP: &str = r#"{"schema_version": "1.0.0", "tables": [], "learn_filters": []}"#;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// BF Runtime of one device, for one program.
pub struct Service {
    host: Arc<Host>,
    schema: Arc<Schema>,
}

impl Service {
    /// The service of a device that runs the schema's program.
    pub fn new(host: Arc<Host>, schema: Arc<Schema>) -> Self {
        Self { host, schema }
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
        let request = request.into_inner();
        self.check(request.target.as_ref())?;
        self.check_name(&request.p4_name)?;
        if request.atomicity() != Atomicity::ContinueOnError {
            return Err(Status::unimplemented(
                "batches are done with CONTINUE_ON_ERROR; there are no transactions",
            ));
        }
        let _gate = self.host.gate.lock().await;
        let forwarding = self.host.active()?;
        let mut updates = VecDeque::from(request.updates);
        let mut results = Vec::with_capacity(updates.len());
        while !updates.is_empty() {
            let some: Vec<_> = updates
                .drain(..updates.len().min(UPDATES_BETWEEN_PACKETS))
                .collect();
            let schema = self.schema.clone();
            let write = move |ctx: &mut crate::entities::Context| -> Vec<_> {
                some.iter()
                    .map(|update| batch::write(ctx, &schema, update))
                    .collect()
            };
            results.extend(self.host.on(&forwarding, write).await?);
        }
        bf_runtime_status(&results, "updates")?;
        Ok(Response::new(bf::WriteResponse::default()))
    }

    async fn read(
        &self,
        request: Request<bf::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.check(request.target.as_ref())?;
        self.check_name(&request.p4_name)?;
        self.host.active()?;
        let (answer, responses) = Answer::new(self.host.answers.clone());
        let (host, schema) = (self.host.clone(), self.schema.clone());
        tokio::spawn(async move {
            // The writes wait for one read at most, and nobody reads for who has gone.
            let _turn = tokio::select! {
                turn = host.reading.lock() => turn,
                () = answer.closed() => return,
            };
            if let Err(status) = read_entities(&host, schema, request.entities, &answer).await {
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
        Ok(Response::new(bf::GetForwardingPipelineConfigResponse {
            config: vec![bf::ForwardingPipelineConfig {
                p4_name: self.schema.name.clone(),
                bfruntime_info: self.schema.text.clone(),
            }],
            non_p4_config: Some(bf::NonP4Config {
                bfruntime_info: OF_THE_CHIP.into(),
            }),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<bf::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let host = self.host.clone();
        let messages = request.into_inner();
        let answers = messages.filter_map(move |message| match message {
            Ok(message) => subscribed(&host, message).map(Ok),
            Err(status) => Some(Err(status)),
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// The answer to a subscription, which is only an acknowledgement: there are no notifications.
fn subscribed(host: &Host, message: bf::StreamMessageRequest) -> Option<bf::StreamMessageResponse> {
    let Some(Asked::Subscribe(asked)) = message.update else {
        return None;
    };
    let checked = host.check_device(asked.device_id.into());
    let status = checked
        .err()
        .map_or_else(bf::Status::default, |refused| bf::Status {
            code: refused.code() as i32,
            message: refused.message().to_owned(),
        });
    Some(bf::StreamMessageResponse {
        update: Some(Told::Subscribe(bf::Subscribe {
            status: Some(status),
            ..asked
        })),
    })
}

/// Sends what the elements of a request select, a part between any two packets; errors come at the end.
async fn read_entities(
    host: &Host,
    schema: Arc<Schema>,
    elements: Vec<bf::Entity>,
    answer: &Answer<bf::ReadResponse>,
) -> Result<(), Status> {
    let mut results = Vec::new();
    for element in &elements {
        let done = match Reading::new(&schema, element) {
            Ok(reading) => read_element(host, &schema, reading, answer).await?,
            Err(error) => Err(error),
        };
        results.push(done);
    }
    bf_runtime_status(&results, "requests")
}

async fn read_element(
    host: &Host,
    schema: &Arc<Schema>,
    mut reading: Reading,
    answer: &Answer<bf::ReadResponse>,
) -> Result<Result<(), EntityError>, Status> {
    let forwarding = host.active()?;
    let _gate = host.gate.lock().await;
    loop {
        if !host.is_active(&forwarding) {
            let message = "the program was replaced; read again";
            return Err(Status::new(Code::Aborted, message));
        }
        let of = schema.clone();
        let part = move |ctx: &mut crate::entities::Context| {
            let mut found = Vec::new();
            let ended = reading.part(ctx, &of, ENTRIES_BETWEEN_PACKETS, &mut found);
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
