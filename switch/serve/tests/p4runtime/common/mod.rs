//! A server on loopback with a simulated switch behind it, and a controller that talks to it.

#[path = "../../../../p4runtime/tests/fixture/mod.rs"]
pub mod fixture;
pub mod messages;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use ebb_p4runtime::proto::p4::write_request::Atomicity;
use ebb_p4runtime::proto::{p4, rpc};
use ebb_p4runtime::{Device, Event, Job, Server};
use ebb_serve::EngineDevice;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

pub use crate::one_switch::{DEVICE_ID, OneSwitch};

/// Longest wait for what must happen: longer than a busy machine takes for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many jobs a device has had once no more have come for a second.
pub async fn settled(jobs: &AtomicUsize) -> usize {
    let (mut before, began) = (0, Instant::now());
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = jobs.load(Ordering::Relaxed);
        if now > 0 && now == before {
            return now;
        }
        assert!(began.elapsed() < PATIENCE, "{now} jobs, and no end");
        before = now;
    }
}

/// The program that most tests are about.
static CONFIG: LazyLock<p4::ForwardingPipelineConfig> =
    LazyLock::new(|| p4::ForwardingPipelineConfig {
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: 42 }),
        ..fixture::compiled("entities").pipeline_config()
    });

pub fn config() -> p4::ForwardingPipelineConfig {
    CONFIG.clone()
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

pub struct Running {
    pub address: SocketAddr,
    pub switch: Arc<OneSwitch>,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    pub async fn start() -> Self {
        let server = Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        Self::with(server, OneSwitch::start())
    }

    pub fn with(server: Server, switch: Arc<OneSwitch>) -> Self {
        let device = Arc::new(switch.device());
        Self::with_device(server, switch, device)
    }

    /// A server, and how many jobs its device has had.
    pub async fn counted() -> (Self, Arc<AtomicUsize>) {
        let server = Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let switch = OneSwitch::start();
        let jobs = Arc::<AtomicUsize>::default();
        let device = Counted {
            device: switch.device(),
            jobs: jobs.clone(),
        };
        let server = Self::with_device(server, switch, Arc::new(device));
        (server, jobs)
    }

    fn with_device(server: Server, switch: Arc<OneSwitch>, device: Arc<dyn Device>) -> Self {
        let address = server.addresses().next().unwrap();
        let devices = vec![device];
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            server.serve(devices, shutdown).await.unwrap();
        });
        Self {
            address,
            switch,
            stop: Some(stop),
            task,
        }
    }

    /// Two switches of one server, which ends with the first.
    pub fn two() -> [Self; 2] {
        let server = Server::bind(&["127.0.0.1:0".parse().unwrap(); 2]).unwrap();
        let addresses: Vec<_> = server.addresses().collect();
        let switches = [OneSwitch::start(), OneSwitch::start()];
        let device = |switch: &Arc<OneSwitch>| Arc::new(switch.device()) as Arc<dyn Device>;
        let devices = switches.iter().map(device).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            server.serve(devices, shutdown).await.unwrap();
        });
        let [first, second] = switches;
        [
            (addresses[0], first, Some(stop), served),
            (addresses[1], second, None, tokio::spawn(async {})),
        ]
        .map(|(address, switch, stop, task)| Self {
            address,
            switch,
            stop,
            task,
        })
    }

    pub async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, self.task)
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
}

/// A device whose jobs are counted.
struct Counted {
    device: EngineDevice,
    jobs: Arc<AtomicUsize>,
}

impl Device for Counted {
    fn id(&self) -> u64 {
        self.device.id()
    }

    fn port_names(&self) -> Vec<(u16, String)> {
        self.device.port_names()
    }

    fn submit(&self, job: Job) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.device.submit(job);
    }

    fn subscribe(&self, events: mpsc::Sender<Event>) {
        self.device.subscribe(events);
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
        let message = tokio::time::timeout(PATIENCE, self.responses.message()).await;
        let message = message.expect("nothing on the stream for `PATIENCE`")?;
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

    /// Code and message of an insert that must be refused.
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
    /// Reads all entries of a table, or of all tables with id 0.
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
