//! gNMI of one device, at the address of P4Runtime: the paths of openconfig-interfaces that controllers of switches
//! read (names, status, counters).

mod encoding;
mod model;
mod path;
mod subscription;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::calls::HeldShare;
use crate::proto::gnmi as proto;
use crate::proto::gnmi::g_nmi_server::GNmi;
use crate::samples::{Pace, Samples};
use crate::served_device::ServedDevice;
use encoding::{ENCODINGS, Form, UpdateEncoder};
use model::{INTERFACES, Interfaces, Leaf, P4RT, Sample};
use path::{Found, Prefix, Steps};

/// The version of gNMI whose messages these are.
const VERSION: &str = "0.10.0";
/// How many paths a request or a subscription may have.
const MOST_PATHS: usize = 1024;
/// How many values a Get may have, about 2 MB of an answer: clients accept messages of 4 MiB.
const MOST_VALUES_OF_GET: usize = 16 << 10;
/// How many streams of subscriptions a device serves at once, and how many values may be kept for all its clients
/// together: those that subscriptions keep, to find changes (28 bytes each), and those of a Get until it is
/// read (130 bytes). All devices of a server share what would else be more than enough for one.
const MOST_STREAMS: usize = 64;
const MOST_VALUES: usize = 128 << 10;
const STREAMS_OF_ALL: usize = 1024;
const VALUES_OF_ALL: usize = 1 << 20;
/// Room that each device has, however many there are.
const LEAST_STREAMS: usize = 8;
const LEAST_VALUES: usize = 8 << 10;

pub struct Service {
    shared: Arc<Shared>,
    streams: Arc<Semaphore>,
    most_streams: usize,
}

/// State of all calls.
struct Shared {
    served: Arc<ServedDevice>,
    pace: Arc<Pace>,
    interfaces: Interfaces,
    samples: Samples<Sample>,
    /// Values that may still be kept.
    values: Arc<Semaphore>,
    /// Held while the paths of a request are looked up: others than clients of gNMI wait for one path at most,
    /// however many requests there are.
    looking_up: tokio::sync::Mutex<()>,
}

impl Service {
    /// For one of this many devices of a server.
    pub fn new(served: Arc<ServedDevice>, pace: Arc<Pace>, devices: usize) -> Self {
        let most_streams = (STREAMS_OF_ALL / devices).clamp(LEAST_STREAMS, MOST_STREAMS);
        let most_values = (VALUES_OF_ALL / devices).clamp(LEAST_VALUES, MOST_VALUES);
        Self {
            shared: Arc::new(Shared {
                interfaces: Interfaces::new(served.device.port_names()),
                served,
                pace,
                samples: Samples::default(),
                values: Arc::new(Semaphore::new(most_values)),
                looking_up: tokio::sync::Mutex::default(),
            }),
            streams: Arc::new(Semaphore::new(most_streams)),
            most_streams,
        }
    }
}

impl Shared {
    /// A sample of the interfaces, of that time or later.
    async fn sample(&self, since: Instant) -> Result<Arc<Sample>, Status> {
        let take = async || {
            let device = &*self.served.device;
            let states = self.pace.sample(device, |switch| switch.ports()).await?;
            Ok(self.interfaces.sample(now_ns(), &states))
        };
        Ok(self.samples.since(since, take).await?.1)
    }

    /// Room for this many values, which is given back when the result is dropped.
    fn reserve(&self, values: usize) -> Result<OwnedSemaphorePermit, Status> {
        let values = u32::try_from(values).unwrap_or(u32::MAX);
        let room = self.values.clone().try_acquire_many_owned(values);
        room.map_err(|_| {
            Status::resource_exhausted(
                "too many values are kept for all clients together; end a subscription, or read the answers",
            )
        })
    }
}

/// Nanoseconds since 1970, as notifications have them.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

fn notification(at_ns: i64, prefix: &Prefix, update: Vec<proto::Update>) -> proto::Notification {
    proto::Notification {
        timestamp: at_ns,
        prefix: prefix.answer(),
        update,
        ..proto::Notification::default()
    }
}

fn check_paths(paths: usize) -> Result<(), Status> {
    match paths > MOST_PATHS {
        true => Err(Status::resource_exhausted(format!(
            "{paths} paths at once; allowed: {MOST_PATHS}"
        ))),
        false => Ok(()),
    }
}

/// Whether a request that names models wants what is of the leaf's one.
fn is_of_models(leaf: &Leaf, models: &[proto::ModelData]) -> bool {
    models.is_empty() || models.iter().any(|model| model.name == leaf.module)
}

/// Whether a leaf is of the kind that a Get asks for.
fn is_of_type(leaf: &Leaf, kind: i32) -> bool {
    use proto::get_request::DataType;
    match DataType::try_from(kind) {
        Ok(DataType::Config) => leaf.path[0] == "config",
        Ok(DataType::State | DataType::Operational) => leaf.path[0] == "state",
        _ => true,
    }
}

#[tonic::async_trait]
impl GNmi for Service {
    type SubscribeStream =
        Pin<Box<dyn Stream<Item = Result<proto::SubscribeResponse, Status>> + Send>>;

    async fn capabilities(
        &self,
        _: Request<proto::CapabilityRequest>,
    ) -> Result<Response<proto::CapabilityResponse>, Status> {
        let model = |name: &str, version: &str| proto::ModelData {
            name: name.to_owned(),
            organization: "OpenConfig working group".to_owned(),
            version: version.to_owned(),
        };
        Ok(Response::new(proto::CapabilityResponse {
            supported_models: vec![model(INTERFACES, "3.7.1"), model(P4RT, "1.0.0")],
            supported_encodings: ENCODINGS.map(i32::from).to_vec(),
            g_nmi_version: VERSION.to_owned(),
            ..proto::CapabilityResponse::default()
        }))
    }

    async fn get(
        &self,
        request: Request<proto::GetRequest>,
    ) -> Result<Response<proto::GetResponse>, Status> {
        let mut request = request.into_inner();
        check_paths(request.path.len())?;
        let form = Form::of_get(request.encoding)?;
        let prefix = Prefix::read(request.prefix.as_ref())?;
        if request.path.is_empty() {
            // It is the root.
            request.path.push(proto::Path::default());
        }
        let Shared { interfaces, .. } = &*self.shared;
        let (mut steps, mut values) = (Steps::default(), 0);
        let _turn = self.shared.looking_up.lock().await;
        let sample = self.shared.sample(Instant::now()).await?;
        let mut notifications = Vec::with_capacity(request.path.len());
        for path in &request.path {
            let (pattern, origin) = prefix.pattern(path)?;
            let mut found = pattern.find(interfaces, &mut steps)?;
            found.retain(|found| {
                let leaf = found.place.leaf();
                is_of_type(leaf, request.r#type)
                    && is_of_models(leaf, &request.use_models)
                    && sample.value(found.place).is_some()
            });
            if found.is_empty() && !interfaces.is_empty() {
                return Err(nothing(pattern.is_implemented()));
            }
            values += found.len();
            if values > MOST_VALUES_OF_GET {
                return Err(Status::resource_exhausted(format!(
                    "more than {MOST_VALUES_OF_GET} values at once; ask for less, or subscribe"
                )));
            }
            let encoder = UpdateEncoder {
                form,
                interfaces,
                sample: &sample,
            };
            // Leaf by leaf, a path with wildcards stands for several: each interface has a notification.
            let of_one = |a: &Found, b: &Found| {
                form != Form::Typed || a.place.interface == b.place.interface
            };
            let groups = found.chunk_by(of_one);
            notifications
                .extend(groups.map(|group| {
                    notification(sample.at_ns, &prefix, encoder.nodes(group, origin))
                }));
            // Others wait no longer than one path takes.
            tokio::task::yield_now().await;
        }
        let share = self.shared.reserve(values)?;
        let mut response = Response::new(proto::GetResponse {
            notification: notifications,
            ..proto::GetResponse::default()
        });
        response.extensions_mut().insert(HeldShare::new(share));
        Ok(response)
    }

    async fn set(
        &self,
        _: Request<proto::SetRequest>,
    ) -> Result<Response<proto::SetResponse>, Status> {
        Err(Status::unimplemented(
            "interfaces are configured by the operating system, and links of a fabric by ebb-fabric",
        ))
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<proto::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let permit = self.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted(format!(
                "{} streams of subscriptions at once; end one of them first",
                self.most_streams
            ))
        })?;
        // A message waits for the client, and none is made before it has been taken.
        let (sender, receiver) = mpsc::channel(1);
        let (shared, requests) = (self.shared.clone(), request.into_inner());
        tokio::spawn(async move {
            let closed = sender.clone();
            let end = tokio::select! {
                end = subscription::serve(&shared, requests, &sender) => end,
                () = closed.closed() => Ok(()),
            };
            // Room for another stream is free before the client gets the end of this one.
            drop(permit);
            if let Err(status) = end {
                // The client may have gone meanwhile.
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Why there is nothing at a path.
fn nothing(is_implemented: bool) -> Status {
    match is_implemented {
        true => Status::not_found(
            "there is nothing at this path; there are the leaves of /interfaces/interface[name=..]",
        ),
        false => Status::unimplemented(
            "no switch has anything at this path; there are the leaves of \
             /interfaces/interface[name=..] that docs/p4runtime.md lists",
        ),
    }
}
