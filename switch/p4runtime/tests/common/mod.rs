//! A server on loopback with a real pipeline behind it, and a controller that talks to it.

pub mod messages;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_p4runtime::proto::config::P4Info;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use ebb_p4runtime::proto::p4::write_request::Atomicity;
use ebb_p4runtime::proto::{p4, rpc};
use ebb_p4runtime::{Device, Event, Job, Lateness, Server, Switch, TraceRequest, TraceSink};
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Pipeline};
use ebb_traffic_manager::{
    ConfigError, Count, DelaySummary, PortStatistics, TrafficManager, TrafficManagerConfig,
};
use ebb_units::Instant;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

pub const DEVICE_ID: u64 = 7;
pub const JSON: &[u8] = include_bytes!("../fixture/entities.json");
const P4INFO: &str = include_str!("../fixture/entities.p4info.txtpb");
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.fds"));

pub fn p4info() -> P4Info {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let kind = pool.get_message_by_name("p4.config.v1.P4Info").unwrap();
    let message = DynamicMessage::parse_text_format(kind, P4INFO).unwrap();
    P4Info::decode(message.encode_to_vec().as_slice()).unwrap()
}

pub fn config() -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(p4info()),
        p4_device_config: JSON.to_vec(),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: 42 }),
    }
}

/// Changes the program of a config.
pub fn change_json(
    config: &mut p4::ForwardingPipelineConfig,
    change: impl FnOnce(&mut serde_json::Value),
) {
    let mut program = serde_json::from_slice(&config.p4_device_config).unwrap();
    change(&mut program);
    config.p4_device_config = program.to_string().into_bytes();
}

/// A switch without ports and without a thread: jobs run where they are submitted.
pub struct FakeSwitch {
    pub pipeline: Option<Pipeline>,
    pub traffic: TrafficManager<Vec<u8>>,
    pub packets_out: Vec<Vec<u8>>,
    pub now: Instant,
    /// How often a pipeline was put in.
    pub installs: usize,
}

impl FakeSwitch {
    /// Port and frame, if one leaves at once.
    pub fn forward(&mut self, port: u16, frame: Vec<u8>) -> Option<(u16, Vec<u8>)> {
        let now = self.now;
        let pipeline = self.pipeline.as_mut()?;
        let arrival = IngressInput {
            ingress_port: port,
            ..IngressInput::default()
        };
        let IngressVerdict::Unicast {
            egress_spec: egress_port,
            packet,
            ..
        } = pipeline.ingress(now, frame, &arrival).verdict
        else {
            return None;
        };
        let departure = EgressInput {
            egress_port,
            ..EgressInput::default()
        };
        match pipeline.egress(now, packet, &departure).verdict {
            EgressVerdict::Transmit(frame) => Some((egress_port, frame)),
            _ => None,
        }
    }
}

/// What every fake switch says.
pub const LATE_DEPARTURES: DelaySummary = DelaySummary {
    count: 3,
    p99_ns: 2000,
    p999_ns: 2500,
    max_ns: 2501,
};

impl Switch for FakeSwitch {
    fn now(&self) -> Instant {
        self.now
    }
    fn pipeline(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }
    fn install(&mut self, pipeline: Pipeline) {
        self.pipeline = Some(pipeline);
        self.installs += 1;
    }
    fn packet_out(&mut self, frame: Vec<u8>) {
        self.packets_out.push(frame);
    }
    fn traffic_config(&self) -> &TrafficManagerConfig {
        self.traffic.config()
    }
    fn set_traffic_config(&mut self, config: TrafficManagerConfig) -> Result<(), ConfigError> {
        self.traffic.reconfigure(self.now, config).map(drop)
    }
    fn traffic_statistics(&self) -> Vec<PortStatistics> {
        self.traffic.statistics()
    }
    fn reset_traffic_statistics(&mut self) {
        self.traffic.reset_statistics(self.now);
    }
    fn other_drops(&self) -> Vec<(u16, String, Count)> {
        let dropped = Count {
            packets: 2,
            bytes: 300,
        };
        vec![(5, "kernel-drop".to_owned(), dropped)]
    }
    fn lateness(&self) -> Lateness {
        Lateness {
            wakeups: DelaySummary::default(),
            departures: LATE_DEPARTURES,
        }
    }
    fn trace(&mut self, _: TraceRequest, _: TraceSink) -> bool {
        false
    }
}

/// Its switch has a thread of its own, as a real one has: who submits a job does not wait for it.
pub struct FakeDevice {
    pub switch: Arc<Mutex<FakeSwitch>>,
    jobs: std::sync::mpsc::Sender<Job>,
    events: Mutex<Option<mpsc::Sender<Event>>>,
}

impl FakeDevice {
    pub fn new() -> Arc<Self> {
        let switch = Arc::new(Mutex::new(FakeSwitch {
            pipeline: None,
            traffic: TrafficManager::new(TrafficManagerConfig::like_bmv2(1)).unwrap(),
            packets_out: Vec::new(),
            now: Instant::from_nanos(1_000),
            installs: 0,
        }));
        let (jobs, submitted) = std::sync::mpsc::channel::<Job>();
        let of_thread = switch.clone();
        std::thread::spawn(move || {
            for job in submitted {
                job(&mut *of_thread.lock().unwrap());
            }
        });
        Arc::new(Self {
            switch,
            jobs,
            events: Mutex::default(),
        })
    }

    pub fn emit(&self, event: Event) {
        let events = self.events.lock().unwrap();
        events.as_ref().unwrap().try_send(event).unwrap();
    }
}

impl Device for FakeDevice {
    fn id(&self) -> u64 {
        DEVICE_ID
    }
    fn submit(&self, job: Job) {
        self.jobs.send(job).unwrap();
    }
    fn subscribe(&self, events: mpsc::Sender<Event>) {
        *self.events.lock().unwrap() = Some(events);
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub device: Arc<FakeDevice>,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    pub async fn start() -> Self {
        let server = Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        Self::with(server, FakeDevice::new())
    }

    pub fn with(server: Server, device: Arc<FakeDevice>) -> Self {
        let address = server.addresses().next().unwrap();
        let devices: Vec<Arc<dyn Device>> = vec![device.clone()];
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            server.serve(devices, shutdown).await.unwrap();
        });
        Self {
            address,
            device,
            stop: Some(stop),
            task,
        }
    }

    pub async fn stop(mut self) {
        drop(self.stop.take());
        let limit = Duration::from_secs(5);
        tokio::time::timeout(limit, self.task)
            .await
            .unwrap()
            .unwrap();
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub async fn client(&self) -> P4RuntimeClient<Channel> {
        P4RuntimeClient::new(self.channel().await)
    }

    /// A primary, before any program is loaded.
    pub async fn primary(&self) -> Controller {
        let mut controller = Controller::connect(self, 1).await;
        assert_eq!(controller.arbitration().await, Code::Ok);
        controller
    }

    /// A primary with the fixture loaded.
    pub async fn ready(&self) -> Controller {
        self.ready_with(|_| {}).await
    }

    /// A primary with the fixture loaded, of which something is different.
    pub async fn ready_with(
        &self,
        change: impl FnOnce(&mut p4::ForwardingPipelineConfig),
    ) -> Controller {
        let mut controller = self.primary().await;
        controller.push(change).await.unwrap();
        controller
    }

    /// Looks at the pipeline, or changes it.
    pub fn on_pipeline<R>(&self, f: impl FnOnce(&mut Pipeline) -> R) -> R {
        f(self
            .device
            .switch
            .lock()
            .unwrap()
            .pipeline
            .as_mut()
            .unwrap())
    }
}

pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub election: u64,
    requests: mpsc::Sender<p4::StreamMessageRequest>,
    responses: Streaming<p4::StreamMessageResponse>,
}

impl Controller {
    pub async fn connect(server: &Running, election: u64) -> Self {
        Self::connect_as(server, DEVICE_ID, election).await
    }

    pub async fn connect_as(server: &Running, device_id: u64, election: u64) -> Self {
        let mut controller = Self::silent(server).await;
        controller.arbitrate(device_id, election).await;
        controller
    }

    /// A stream on which nothing was said yet.
    pub async fn silent(server: &Running) -> Self {
        Self::try_silent(server).await.unwrap()
    }

    pub async fn try_silent(server: &Running) -> Result<Self, Status> {
        let mut client = server.client().await;
        let (requests, receiver) = mpsc::channel(16);
        let responses = client.stream_channel(ReceiverStream::new(receiver));
        Ok(Self {
            responses: responses.await?.into_inner(),
            client,
            election: 0,
            requests,
        })
    }

    pub async fn arbitrate(&mut self, device_id: u64, election: u64) {
        self.election = election;
        let update = p4::MasterArbitrationUpdate {
            device_id,
            election_id: Some(uint128(election)),
            ..Default::default()
        };
        self.send(Request::Arbitration(update)).await;
    }

    pub async fn send(&self, update: Request) {
        let update = Some(update);
        self.send_raw(p4::StreamMessageRequest { update }).await;
    }

    pub async fn send_raw(&self, message: p4::StreamMessageRequest) {
        self.requests.send(message).await.unwrap();
    }

    /// The next message of the stream; `Ok(None)` at its end.
    pub async fn try_receive(&mut self) -> Result<Option<Update>, Status> {
        let limit = Duration::from_secs(5);
        let message = tokio::time::timeout(limit, self.responses.message()).await;
        let message = message.expect("nothing on the stream for 5 s")?;
        Ok(message.map(|m| m.update.expect("an empty message")))
    }

    pub async fn receive(&mut self) -> Update {
        self.try_receive().await.unwrap().expect("the stream ended")
    }

    /// The status of an arbitration notice, which must come next.
    pub async fn arbitration(&mut self) -> Code {
        match self.receive().await {
            Update::Arbitration(notice) => Code::from(notice.status.unwrap().code),
            other => panic!("expected arbitration, got {other:?}"),
        }
    }

    /// The error of a stream message, which must come next.
    pub async fn stream_error(&mut self) -> p4::StreamError {
        match self.receive().await {
            Update::Error(error) => error,
            other => panic!("expected a stream error, got {other:?}"),
        }
    }

    pub async fn set_config(
        &mut self,
        action: Action,
        config: Option<p4::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            election_id: Some(uint128(self.election)),
            action: action as i32,
            config,
            ..Default::default()
        };
        self.client
            .set_forwarding_pipeline_config(request)
            .await
            .map(drop)
    }

    /// Commits the fixture, of which something is different.
    pub async fn push(
        &mut self,
        change: impl FnOnce(&mut p4::ForwardingPipelineConfig),
    ) -> Result<(), Status> {
        let mut config = config();
        change(&mut config);
        self.set_config(Action::VerifyAndCommit, Some(config)).await
    }

    pub async fn write_all(&mut self, updates: Vec<p4::Update>) -> Result<(), Status> {
        self.write_with(Atomicity::ContinueOnError, updates).await
    }

    pub async fn write_with(
        &mut self,
        atomicity: Atomicity,
        updates: Vec<p4::Update>,
    ) -> Result<(), Status> {
        let request = p4::WriteRequest {
            device_id: DEVICE_ID,
            election_id: Some(uint128(self.election)),
            updates,
            atomicity: atomicity as i32,
            ..Default::default()
        };
        self.client.write(request).await.map(drop)
    }

    pub async fn write(
        &mut self,
        kind: p4::update::Type,
        entity: p4::entity::Entity,
    ) -> Result<(), Status> {
        self.write_all(vec![update(kind, entity)]).await
    }

    pub async fn insert(&mut self, entity: p4::entity::Entity) {
        self.write(p4::update::Type::Insert, entity).await.unwrap();
    }

    pub async fn modify(&mut self, entity: p4::entity::Entity) {
        self.write(p4::update::Type::Modify, entity).await.unwrap();
    }

    pub async fn delete(&mut self, entity: p4::entity::Entity) {
        self.write(p4::update::Type::Delete, entity).await.unwrap();
    }

    /// What a refused insert says.
    pub async fn refused(&mut self, entity: p4::entity::Entity) -> (Code, String) {
        self.refused_as(p4::update::Type::Insert, entity).await
    }

    pub async fn refused_as(
        &mut self,
        kind: p4::update::Type,
        entity: p4::entity::Entity,
    ) -> (Code, String) {
        let status = self.write(kind, entity).await.expect_err("was accepted");
        let errors = details(&status);
        assert_eq!(status.code(), Code::Unknown);
        assert_eq!(errors.len(), 1);
        (
            Code::from(errors[0].canonical_code),
            errors[0].message.clone(),
        )
    }

    pub async fn read(
        &mut self,
        filter: p4::entity::Entity,
    ) -> Result<Vec<p4::entity::Entity>, Status> {
        let request = p4::ReadRequest {
            device_id: DEVICE_ID,
            entities: vec![p4::Entity {
                entity: Some(filter),
            }],
            ..Default::default()
        };
        let mut responses = self.client.read(request).await?.into_inner();
        let mut out = Vec::new();
        while let Some(response) = responses.message().await? {
            out.extend(response.entities.into_iter().map(|e| e.entity.unwrap()));
        }
        Ok(out)
    }
}

impl Controller {
    /// All entries of a table; of all tables for 0.
    pub async fn read_table(&mut self, id: u32) -> Vec<p4::TableEntry> {
        let entry = |entity| match entity {
            Entity::TableEntry(entry) => entry,
            other => panic!("expected table entries, got {other:?}"),
        };
        let entities = self.read(messages::table(id)).await.unwrap();
        entities.into_iter().map(entry).collect()
    }

    /// The only entity that a filter selects.
    pub async fn read_one(&mut self, filter: p4::entity::Entity) -> p4::entity::Entity {
        let mut found = self.read(filter).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

pub fn update(kind: p4::update::Type, entity: p4::entity::Entity) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    }
}

pub fn uint128(low: u64) -> p4::Uint128 {
    p4::Uint128 { high: 0, low }
}

/// The codes of a batch.
pub fn codes(status: &Status) -> Vec<Code> {
    let details = details(status).into_iter();
    details.map(|e| Code::from(e.canonical_code)).collect()
}

/// The errors of a batch, from the status details.
pub fn details(status: &Status) -> Vec<p4::Error> {
    let status = rpc::Status::decode(status.details()).unwrap();
    let details = status.details.iter();
    details
        .map(|any| p4::Error::decode(any.value.as_slice()).unwrap())
        .collect()
}
