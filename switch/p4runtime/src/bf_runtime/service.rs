//! The service of one device.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, broadcast};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};

use super::batch::{self, Operation, Reading, Scope};
use super::chip::{Chip, Port};
use super::notices;
use super::schema::Schema;
use super::state::State;
use super::transaction;
use crate::answer::Answer;
use crate::error::{EntityError, Result as Outcome, bf_runtime_errors, bf_runtime_status};
use crate::forwarding::Forwarding;
use crate::lock::lock;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::SetForwardingPipelineConfigResponseType as Step;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
use crate::proto::bf_runtime::set_forwarding_pipeline_config_request::Action;
use crate::proto::bf_runtime::write_request::Atomicity;
use crate::served_device::ServedDevice;

/// Bytes in which Tofino 2 counts the depth of queues.
const CELL_BYTES_OF_TOFINO_2: u64 = 176;
/// How many updates of a batch are done between two packets,
const UPDATES_BETWEEN_PACKETS: usize = 100;
/// and how long, unless a single one takes longer.
const UPDATING_BETWEEN_PACKETS: Duration = Duration::from_millis(1);
/// Elements of a read that fail before the others are left alone, as in P4Runtime: clients limit the size of errors.
const FAILED_REQUESTS: usize = 100;
/// How many streams a device serves at once.
const MOST_STREAMS: usize = 64;
/// How many entries of a read, or of an operation on a table, are looked up between two packets.
const ENTRIES_BETWEEN_PACKETS: usize = 200;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// BF Runtime of one device, for one program.
pub struct Service {
    host: Arc<ServedDevice>,
    schema: Arc<Schema>,
    state: Arc<Mutex<State>>,
    /// Steps of warm starts, for all clients.
    starts: broadcast::Sender<Step>,
    streams: Arc<Semaphore>,
}

/// Options of a call, which the client sends as its metadata.
#[derive(Clone, Copy)]
struct CallOptions {
    /// Time after which the elements not yet processed are left; none: all are processed.
    deadline: Option<Instant>,
    /// The result of each element is in the answer, and the call itself succeeds.
    errors_in_response: bool,
    /// Entries that are not there are no failure; the answer names them all the same.
    ignore_not_found: bool,
}

impl CallOptions {
    fn of(metadata: &MetadataMap) -> CallOptions {
        let is_set = |name: &str| metadata.get(name).is_some_and(|value| value == "1");
        let number = |name: &str| metadata.get(name)?.to_str().ok()?.parse().ok();
        let after = match (number("deadline_sec"), number("deadline_nsec")) {
            (None, None) => None,
            (seconds, nanoseconds) => Some(
                Duration::from_secs(seconds.unwrap_or(0))
                    .saturating_add(Duration::from_nanos(nanoseconds.unwrap_or(0))),
            ),
        };
        CallOptions {
            deadline: after.and_then(|after| Instant::now().checked_add(after)),
            errors_in_response: is_set("error_in_resp"),
            ignore_not_found: is_set("ignore_not_found"),
        }
    }

    /// Whether the result of an element has the call fail.
    fn is_failure(self, result: &Outcome<()>) -> bool {
        let is_ignored =
            |error: &EntityError| self.ignore_not_found && error.code == Code::NotFound;
        let failed = result.as_ref().is_err_and(|error| !is_ignored(error));
        failed && !self.errors_in_response
    }

    /// Errors for the answer, unless the call fails. `left_alone` is how many more elements there were.
    fn judge(
        self,
        results: &[Outcome<()>],
        elements: &str,
        left_alone: usize,
    ) -> Result<Vec<bf::Error>, Status> {
        if self.errors_in_response {
            return Ok(bf_runtime_errors(results));
        }
        if self.ignore_not_found {
            let failed = results.iter().map(|result| match self.is_failure(result) {
                true => result.clone(),
                false => Ok(()),
            });
            bf_runtime_status(&failed.collect::<Vec<_>>(), elements, left_alone)?;
            return Ok(bf_runtime_errors(results));
        }
        bf_runtime_status(results, elements, left_alone)?;
        Ok(Vec::new())
    }
}

impl Service {
    /// The service of a device that runs the schema's program.
    pub fn new(host: Arc<ServedDevice>, schema: Arc<Schema>) -> Self {
        let state = Arc::new(Mutex::new(State::new(chip_of(&host))));
        let (starts, _) = broadcast::channel(notices::WAITING);
        Self {
            host,
            schema,
            state,
            starts,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }

    /// Refuses configs other than the one of the program that the switch runs.
    fn check_config(&self, configs: &[bf::ForwardingPipelineConfig]) -> Result<(), Status> {
        let [config] = configs else {
            return Err(Status::invalid_argument(format!(
                "the request has {} configs; a switch has one program, whose pipelines may differ: Switch(a, b) of one \
                 P4 file",
                configs.len()
            )));
        };
        self.check_name(&config.p4_name)?;
        match config.bfruntime_info == self.schema.text {
            true => Ok(()),
            false => Err(Status::unimplemented(
                "the config has another schema than the program that the switch runs; start ebb-switch with another \
                 program, or push it by P4Runtime",
            )),
        }
    }

    /// A warm start: what is written from now on makes a new state of the same program, and packets see the old one
    /// until the end.
    fn begin(&self) -> Result<(), Status> {
        let active = self.host.active()?;
        let fresh = Forwarding::new(active.loaded.clone(), active.cookie);
        lock(&self.host.configs).saved = Some(Arc::new(fresh));
        let mut state = lock(&self.state);
        let mut chip = chip_of(&self.host);
        chip.is_second = state.chip.is_second;
        *state = State::new(chip);
        drop(state);
        self.announce(Step::WarmInitStarted);
        Ok(())
    }

    /// The end of a warm start.
    async fn end(&self) -> Result<(), Status> {
        let saved = lock(&self.host.configs).saved.clone();
        let saved = saved.ok_or_else(|| {
            Status::invalid_argument(
                "no warm start has begun; use VERIFY_AND_WARM_INIT_BEGIN first",
            )
        })?;
        self.host.commit(saved, None).await?;
        self.announce(Step::WarmInitFinished);
        Ok(())
    }

    /// Tells all clients of a step of a warm start, if there are any.
    fn announce(&self, step: Step) {
        let _ = self.starts.send(step);
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
        let options = CallOptions::of(request.metadata());
        let request = request.into_inner();
        self.check(request.target.as_ref())?;
        self.check_name(&request.p4_name)?;
        let is_whole = request.atomicity() != Atomicity::ContinueOnError;
        let target = request.target;
        let _gate = self.host.gate.lock().await;
        let forwarding = self.host.active()?;
        let mut updates = VecDeque::from(request.updates);
        let mut results = Vec::with_capacity(updates.len());
        let mut under_way = Operation::default();
        while !updates.is_empty() {
            if options
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Err(Status::deadline_exceeded(format!(
                    "{} updates were left when the client's time was over",
                    updates.len()
                )));
            }
            let mut left = std::mem::take(&mut updates);
            let mut operation = std::mem::take(&mut under_way);
            let (schema, state) = (self.schema.clone(), self.state.clone());
            let write = move |ctx: &mut crate::entities::Context| {
                let scope = Scope {
                    schema: &schema,
                    target: target.as_ref(),
                };
                let mut state = lock(&state);
                if is_whole {
                    let all = left.make_contiguous();
                    let done = transaction::write_all_or_nothing(ctx, scope, &mut state, all);
                    return (done, VecDeque::new(), operation);
                }
                let begun = Instant::now();
                let mut done = Vec::new();
                while done.len() < UPDATES_BETWEEN_PACKETS
                    && (done.is_empty() || begun.elapsed() < UPDATING_BETWEEN_PACKETS)
                    && let Some(update) = left.front()
                {
                    let part = (&mut operation, ENTRIES_BETWEEN_PACKETS);
                    let ended = batch::write_part(ctx, scope, &mut state, update, part);
                    let Some(result) = ended else { break };
                    done.push(result);
                    left.pop_front();
                    operation = Operation::default();
                }
                (done, left, operation)
            };
            let done;
            (done, updates, under_way) = self.host.on(&forwarding, write).await?;
            results.extend(done);
        }
        let status = options.judge(&results, "updates", 0)?;
        Ok(Response::new(bf::WriteResponse { status }))
    }

    async fn read(
        &self,
        request: Request<bf::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let options = CallOptions::of(request.metadata());
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
                read_entities(&host, &source, request.entities, options, &answer).await
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
        let _gate = self.host.gate.lock().await;
        match request.action() {
            Action::Bind => {
                for config in &request.config {
                    self.check_name(&config.p4_name)?;
                }
            }
            Action::Verify => self.check_config(&request.config)?,
            Action::VerifyAndWarmInitBegin => {
                self.check_config(&request.config)?;
                self.begin()?;
            }
            Action::VerifyAndWarmInitBeginAndEnd => {
                self.check_config(&request.config)?;
                self.begin()?;
                self.end().await?;
            }
            Action::WarmInitEnd if request.config.is_empty() => self.end().await?,
            Action::WarmInitEnd => {
                return Err(Status::invalid_argument(
                    "WARM_INIT_END takes the config that the start began with; the request must not have one",
                ));
            }
            Action::ReconcileAndWarmInitEnd => {
                return Err(Status::unimplemented(
                    "RECONCILE_AND_WARM_INIT_END is not there; P4Runtime has RECONCILE_AND_COMMIT",
                ));
            }
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
            lock(&self.state).chip.is_second = is_second;
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
        let place = self.streams.clone().try_acquire_owned();
        let place = place.map_err(|_| {
            Status::resource_exhausted(format!(
                "{MOST_STREAMS} clients of BF Runtime have a stream to this switch; end one of them first"
            ))
        })?;
        let (updates, messages) = tokio::sync::mpsc::channel(notices::WAITING);
        let client = notices::Client {
            host: self.host.clone(),
            schema: self.schema.clone(),
            state: self.state.clone(),
            starts: self.starts.subscribe(),
            updates,
        };
        tokio::spawn(async move {
            notices::serve(client, request.into_inner()).await;
            drop(place);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

/// Tables of the chip of a device, with its ports.
fn chip_of(host: &ServedDevice) -> Chip {
    let ports = host.device.port_names().into_iter();
    let ports = ports.map(|(number, name)| Port { number, name });
    Chip::new(ports.collect())
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
    options: CallOptions,
    answer: &Answer<bf::ReadResponse>,
) -> Result<(), Status> {
    let mut results = Vec::with_capacity(elements.len());
    let mut failed = 0;
    for element in &elements {
        let done = match Reading::new(element) {
            Ok(reading) => read_element(host, source, reading, answer).await?,
            Err(error) => Err(error),
        };
        failed += usize::from(options.is_failure(&done));
        results.push(done);
        if failed >= FAILED_REQUESTS {
            break;
        }
    }
    let status = options.judge(&results, "requests", elements.len() - results.len())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitration::Arbitration;
    use crate::fixture;
    use crate::plain::Plain;
    use crate::programs::Programs;
    use crate::proto::bf_runtime::data_field::Value;
    use crate::proto::bf_runtime::entity::Entity as Element;
    use crate::proto::bf_runtime::key_field::{Exact, MatchType};
    use crate::proto::bf_runtime::update::Type;

    /// Numbers of the schema of `direct_register.p4`.
    const TABLE: u32 = 48_480_649;
    const COUNTED: u32 = 31_942_583;

    async fn service() -> Service {
        let compiled = fixture::compiled("direct_register");
        let programs = Arc::new(Programs::new(true));
        let device = Arc::new(Plain::new(0));
        let host = ServedDevice::new(device, programs.clone(), Arbitration::Required);
        let forwarding = Forwarding::verify(&programs, compiled.pipeline_config()).unwrap();
        host.commit(Arc::new(forwarding), None).await.unwrap();
        let schema = Schema::parse("direct_register", compiled.bf_rt.to_string().into()).unwrap();
        Service::new(host, Arc::new(schema))
    }

    fn insert(ids: &[u8]) -> bf::WriteRequest {
        let updates = ids.iter().map(|id| bf::Update {
            r#type: Type::Insert as i32,
            entity: Some(bf::Entity {
                entity: Some(Element::TableEntry(bf::TableEntry {
                    table_id: TABLE,
                    key: Some(bf::TableKey {
                        fields: vec![bf::KeyField {
                            field_id: 1,
                            match_type: Some(MatchType::Exact(Exact { value: vec![*id] })),
                        }],
                    }),
                    data: Some(bf::TableData {
                        action_id: COUNTED,
                        fields: vec![bf::DataField {
                            field_id: 1,
                            value: Some(Value::Stream(vec![2])),
                        }],
                    }),
                    ..bf::TableEntry::default()
                })),
            }),
        });
        bf::WriteRequest {
            updates: updates.collect(),
            ..bf::WriteRequest::default()
        }
    }

    async fn entries(service: &Service) -> usize {
        let forwarding = service.host.active().unwrap();
        let count = service.host.on(&forwarding, |ctx| {
            let table = ctx.pipeline.table("I.t").unwrap();
            ctx.pipeline.entries(table).count()
        });
        count.await.unwrap()
    }

    #[tokio::test]
    async fn what_is_left_at_the_deadline_is_not_done() {
        let service = service().await;
        let with_deadline = |seconds: &'static str| {
            let mut request = Request::new(insert(&[1, 2]));
            let metadata = request.metadata_mut();
            metadata.insert("deadline_sec", seconds.parse().unwrap());
            metadata.insert("deadline_nsec", "0".parse().unwrap());
            request
        };
        let late = service.write(with_deadline("0")).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        assert_eq!(
            late.message(),
            "2 updates were left when the client's time was over"
        );
        assert_eq!(entries(&service).await, 0);
        service.write(with_deadline("3600")).await.unwrap();
        assert_eq!(entries(&service).await, 2);
    }

    #[tokio::test]
    async fn a_batch_continues_or_is_undone_as_it_asks() {
        let service = service().await;
        let batch = |atomicity: Atomicity, ids: &[u8]| {
            let mut request = insert(ids);
            request.set_atomicity(atomicity);
            service.write(Request::new(request))
        };
        let failed = batch(Atomicity::ContinueOnError, &[1, 1, 2]).await;
        assert_eq!(failed.unwrap_err().code(), Code::Unknown);
        assert_eq!(entries(&service).await, 2);
        for whole in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
            // Cells of direct registers could not be brought back.
            let refused = batch(whole, &[3, 4]).await.unwrap_err();
            assert!(refused.message().contains("direct registers"), "{refused}");
            assert_eq!(entries(&service).await, 2);
        }
    }

    #[tokio::test]
    async fn a_warm_start_makes_a_new_state_that_is_in_force_at_its_end() {
        let service = service().await;
        service.write(Request::new(insert(&[1, 2]))).await.unwrap();
        let old = service.host.active().unwrap();
        let set = |action: Action, with_config: bool| {
            let config = bf::ForwardingPipelineConfig {
                p4_name: "direct_register".into(),
                bfruntime_info: service.schema.text.clone(),
            };
            let mut request = bf::SetForwardingPipelineConfigRequest {
                config: with_config.then_some(config).into_iter().collect(),
                ..bf::SetForwardingPipelineConfigRequest::default()
            };
            request.set_action(action);
            service.set_forwarding_pipeline_config(Request::new(request))
        };
        let mut steps = service.starts.subscribe();
        let early = set(Action::WarmInitEnd, false).await.unwrap_err();
        assert_eq!(early.code(), Code::InvalidArgument, "{early}");
        let without = set(Action::VerifyAndWarmInitBegin, false)
            .await
            .unwrap_err();
        assert_eq!(without.code(), Code::InvalidArgument, "{without}");
        set(Action::VerifyAndWarmInitBegin, true).await.unwrap();
        assert_eq!(entries(&service).await, 0);
        service.write(Request::new(insert(&[3]))).await.unwrap();
        // Packets still see the old state.
        let on_switch = service.host.on(&old, |ctx| {
            let table = ctx.pipeline.table("I.t").unwrap();
            ctx.pipeline.entries(table).count()
        });
        assert_eq!(on_switch.await.unwrap(), 2);
        set(Action::WarmInitEnd, false).await.unwrap();
        assert_eq!(entries(&service).await, 1);
        let told = [steps.try_recv().unwrap(), steps.try_recv().unwrap()];
        assert_eq!(told, [Step::WarmInitStarted, Step::WarmInitFinished]);
    }

    #[tokio::test]
    async fn requests_for_another_device_or_program_are_refused() {
        let service = service().await;
        let mut request = insert(&[1]);
        request.target = Some(bf::TargetDevice {
            device_id: 7,
            ..bf::TargetDevice::default()
        });
        let refused = service.write(Request::new(request)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused}");
        let mut request = insert(&[1]);
        request.p4_name = "another".into();
        let refused = service.write(Request::new(request)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused}");
        assert_eq!(entries(&service).await, 0);
    }
}
