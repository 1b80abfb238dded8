//! gNMI of one device: its interfaces, as far as openconfig-interfaces tells what controllers of switches want to know
//! (names, status, counters). Beside P4Runtime, on the same address.

mod interfaces;
mod path;
mod subscription;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::host::Host;
use crate::proto::gnmi as proto;
use crate::proto::gnmi::g_nmi_server::GNmi;
use interfaces::{Interface, Leaf, Value, leaves};
use path::Path;

/// The version of gNMI whose messages these are.
const VERSION: &str = "0.10.0";
/// How many streams of subscriptions a device serves at once.
const MOST_STREAMS: usize = 64;
/// How many paths a request or a subscription may have.
const MOST_PATHS: usize = 1024;
/// How many messages wait for a slow client. It then gets later samples, not more of them.
const BUFFER: usize = 64;

pub struct Service {
    host: Arc<Host>,
    streams: Arc<Semaphore>,
}

impl Service {
    pub fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }
}

/// The leaves of all interfaces as they are now.
async fn tree(host: &Host) -> Result<Vec<Leaf>, Status> {
    let states = host.on_switch(|switch| switch.ports()).await?;
    let names = host.device.port_names();
    let named = |(port, name): (u16, String)| {
        let state = states.iter().find(|state| state.port == port)?.clone();
        Some(Interface { name, state })
    };
    let found: Vec<Interface> = names.into_iter().filter_map(named).collect();
    Ok(leaves(&found))
}

/// How a client wants values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A field of `TypedValue` for each type. Also for JSON, which is what a request has that says nothing: Stratum
    /// answers so, and clients such as finsy rely on it.
    Typed,
    /// JSON as RFC 7951 has it, in which 64 bits are a string.
    JsonIetf,
}

impl Form {
    fn of(encoding: i32) -> Result<Form, Status> {
        match proto::Encoding::try_from(encoding) {
            Ok(proto::Encoding::Proto | proto::Encoding::Json) => Ok(Form::Typed),
            Ok(proto::Encoding::JsonIetf) => Ok(Form::JsonIetf),
            _ => Err(Status::unimplemented(format!(
                "encoding {encoding}; there are PROTO, JSON and JSON_IETF"
            ))),
        }
    }

    fn value(self, value: &Value) -> proto::TypedValue {
        use proto::typed_value::Value as Typed;
        let json = || match value {
            Value::Number(number) => serde_json::json!(number.to_string()),
            Value::Text(text) => serde_json::json!(text),
            Value::Flag(flag) => serde_json::json!(flag),
        };
        let value = match (self, value) {
            (Form::JsonIetf, _) => Typed::JsonIetfVal(json().to_string().into()),
            (Form::Typed, Value::Text(text)) => Typed::StringVal(text.clone()),
            (Form::Typed, Value::Number(number)) => Typed::UintVal(*number),
            (Form::Typed, Value::Flag(flag)) => Typed::BoolVal(*flag),
        };
        proto::TypedValue { value: Some(value) }
    }

    fn notification<'a>(self, leaves: impl Iterator<Item = &'a Leaf>) -> proto::Notification {
        let update = |leaf: &Leaf| proto::Update {
            path: Some(leaf.path.message()),
            val: Some(self.value(&leaf.value)),
            ..proto::Update::default()
        };
        proto::Notification {
            timestamp: now_ns(),
            update: leaves.map(update).collect(),
            ..proto::Notification::default()
        }
    }
}

/// Nanoseconds since 1970, as notifications have them.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

fn read_path(prefix: Option<&proto::Path>, path: &proto::Path) -> Result<Path, Status> {
    Path::read(prefix, path).map_err(Status::invalid_argument)
}

fn check_paths(paths: usize) -> Result<(), Status> {
    match paths > MOST_PATHS {
        true => Err(Status::resource_exhausted(format!(
            "{paths} paths at once; allowed: {MOST_PATHS}"
        ))),
        false => Ok(()),
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
        let encodings = [
            proto::Encoding::Proto,
            proto::Encoding::Json,
            proto::Encoding::JsonIetf,
        ];
        Ok(Response::new(proto::CapabilityResponse {
            supported_models: vec![
                model("openconfig-interfaces", "3.7.1"),
                model("openconfig-p4rt", "1.0.0"),
            ],
            supported_encodings: encodings.map(i32::from).to_vec(),
            g_nmi_version: VERSION.to_owned(),
            ..proto::CapabilityResponse::default()
        }))
    }

    async fn get(
        &self,
        request: Request<proto::GetRequest>,
    ) -> Result<Response<proto::GetResponse>, Status> {
        let request = request.into_inner();
        check_paths(request.path.len())?;
        let form = Form::of(request.encoding)?;
        let tree = tree(&self.host).await?;
        let kind = match proto::get_request::DataType::try_from(request.r#type) {
            Ok(proto::get_request::DataType::Config) => Some("config"),
            Ok(proto::get_request::DataType::State | proto::get_request::DataType::Operational) => {
                Some("state")
            }
            _ => None,
        };
        let is_kind =
            |leaf: &&Leaf| kind.is_none_or(|kind| leaf.path.0.iter().any(|elem| elem.name == kind));
        // Without a path it is the root.
        let root = [proto::Path::default()];
        let paths = if request.path.is_empty() {
            &root[..]
        } else {
            &request.path
        };
        let mut notification = Vec::new();
        for path in paths {
            let pattern = read_path(request.prefix.as_ref(), path)?;
            let found: Vec<&Leaf> = (tree.iter())
                .filter(|leaf| pattern.matches(&leaf.path))
                .filter(is_kind)
                .collect();
            if found.is_empty() && !tree.is_empty() {
                return Err(Status::not_found(
                    "there is nothing at this path; there are the leaves of \
                     /interfaces/interface[name=..]",
                ));
            }
            notification.push(form.notification(found.into_iter()));
        }
        Ok(Response::new(proto::GetResponse {
            notification,
            ..proto::GetResponse::default()
        }))
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
                "{MOST_STREAMS} streams of subscriptions at once; end one of them first"
            ))
        })?;
        let (sender, receiver) = mpsc::channel(BUFFER);
        let (host, requests) = (self.host.clone(), request.into_inner());
        tokio::spawn(async move {
            let closed = sender.clone();
            let end = tokio::select! {
                end = subscription::serve(&host, requests, &sender) => end,
                () = closed.closed() => Ok(()),
            };
            if let Err(status) = end {
                // The client may have gone meanwhile.
                let _ = sender.send(Err(status)).await;
            }
            drop(permit);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}
