//! The gRPC servers: one address for each device, and one for the fabric they are part of.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::server::Router;
use tonic::transport::{Server as Grpc, ServerTlsConfig};

use crate::arbitration::Arbitration;
use crate::bf_runtime::{self, Schema};
use crate::by_device::ByDevice;
use crate::calls::{Budget, Counted};
use crate::connections::{Connections, incoming};
use crate::device::Device;
use crate::fabric::{self, Fabric};
use crate::forwarding::Forwarding;
use crate::private_socket::PrivateSocket;
use crate::programs::Programs;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntimeServer;
use crate::proto::fabric::fabric_server::FabricServer;
use crate::proto::gnmi::g_nmi_server::GNmiServer;
use crate::proto::p4::ForwardingPipelineConfig;
use crate::proto::p4::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::proto::tm::traffic_manager_server::{TrafficManager, TrafficManagerServer};
use crate::proto::trace::trace_server::{Trace, TraceServer};
use crate::samples::Pace;
use crate::served_device::ServedDevice;
use crate::stream::serve_events;
use crate::tls::{TlsError, TlsFiles};
use crate::{gnmi, service, trace, traffic};

/// The longest message that is taken by default. The largest known program takes a few megabytes, a batch of
/// 1000 updates 60 KB.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Room for the requests of all clients to P4Runtime, as a number of the longest messages.
const MESSAGES_AT_ONCE: usize = 4;
/// How much of that may be of one connection.
const MESSAGES_OF_CONNECTION: usize = 2;
/// Room for the requests of all clients to the other services.
const OTHERS_AT_ONCE: usize = 1;
/// The longest request of gNMI: 1024 paths of 32 elements of 11 letters each.
const GNMI_MESSAGE_BYTES: usize = 512 << 10;
/// The longest request of a trace, which names ports.
const TRACE_MESSAGE_BYTES: usize = 256 << 10;
/// The most connections of one address.
const MAX_CONNECTIONS: usize = 128;
/// The least limit of connections of one address, however few file descriptors the process may have: a controller has
/// two, for P4Runtime and for the traffic manager, and others look.
const MIN_CONNECTIONS: usize = 8;
/// File descriptors of a process that are for no connection and no listening socket.
const OTHER_FILES: usize = 256;
/// Window of one stream, in bytes. A batch of 500 updates is about 30 KB; it should not wait for the window.
const WINDOW_BYTES: u32 = 1 << 20;
/// Window of all streams of a connection, in bytes. The HTTP/2 library adds up, over the DATA frames that wait, the
/// bytes that each is shorter than 256, and ends the connection (`too_many_data_frames`) when the sum exceeds half of
/// this: with the window of one stream a burst of 3,500 packet-outs did that.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Calls of a connection that may be open at once for each of the devices at its address; more wait.
const STREAMS_OF_DEVICE: u32 = 64;
/// How often a connection is asked whether its peer is there, and how long that may take to answer: a controller
/// that has vanished without a word must not stay primary for long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long open calls may take to end when the server stops.
const DRAIN: Duration = Duration::from_millis(500);

/// Advice about an address that cannot be used, other than another address.
fn what_helps(reason: &std::io::Error) -> &'static str {
    match reason.kind() {
        ErrorKind::AddrInUse => "stop what uses the address or ",
        ErrorKind::PermissionDenied => "ports below 1024 and folders of others are root's; ",
        _ => "",
    }
}

/// Reasons why a server does not start, or ends.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum ServeError {
    #[error(
        "cannot listen on {address}: {reason}; {}choose another one (--grpc-server-addr, or \
         grpc_server_addr and fabric_socket of the fabric file)",
        what_helps(.reason)
    )]
    Bind {
        address: String,
        reason: std::io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the program to start with cannot be loaded: {0}")]
    Preload(String),
    #[error("the gRPC server of {address} failed")]
    Serve {
        address: String,
        source: tonic::transport::Error,
    },
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Addresses that are taken and devices that are to be served there.
pub struct Server {
    endpoints: Vec<Endpoint>,
    /// The endpoint of each device.
    at: Vec<usize>,
    fabric: Option<(PrivateSocket, Arc<dyn Fabric>)>,
    programs: Arc<Programs>,
    /// By index of the device.
    preloads: HashMap<usize, Forwarding>,
    tls: Option<ServerTlsConfig>,
    arbitration: Arbitration,
    /// By index of the device.
    bf_runtime: HashMap<usize, Arc<Schema>>,
    /// Is told when the devices have their programs, with what those say that refuse theirs.
    loaded: Option<Loaded>,
    max_message_bytes: usize,
    packets_wait: bool,
}

type Endpoint = (TcpListener, SocketAddr);
/// Takes reasons why devices start without their programs.
type Loaded = Box<dyn FnOnce(Vec<String>) + Send>;

impl Server {
    /// Takes the address of each device, so that a failure shows before anything else has started. Port 0 is any free
    /// port. Devices that have the same address share it, and are told apart by their ids; gNMI and BF Runtime, whose
    /// requests have none, are not served there.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        let mut unlike: Vec<SocketAddr> = Vec::new();
        let mut known = HashMap::new();
        let at = addresses.iter().map(|address| {
            let mut add = || {
                unlike.push(*address);
                unlike.len() - 1
            };
            match address.port() {
                0 => add(),
                _ => *known.entry(*address).or_insert_with(add),
            }
        });
        let at = at.collect();
        allow_files(unlike.len());
        Ok(Self {
            endpoints: unlike.into_iter().map(bind).collect::<Result<_, _>>()?,
            at,
            fabric: None,
            programs: Arc::default(),
            preloads: HashMap::new(),
            tls: None,
            arbitration: Arbitration::default(),
            bf_runtime: HashMap::new(),
            loaded: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
            packets_wait: true,
        })
    }

    /// Also serves the fabric service, at a Unix socket for root and for this user. The switches of the
    /// fabric's layout are the devices of [`serve`](Self::serve), in the same order.
    pub fn with_fabric(
        mut self,
        socket: &Path,
        fabric: Arc<dyn Fabric>,
    ) -> Result<Self, ServeError> {
        let bound = PrivateSocket::bind(socket);
        let bound = bound.map_err(|reason| cannot_bind(socket.display(), reason))?;
        self.fabric = Some((bound, fabric));
        Ok(self)
    }

    /// The longest request that is accepted; [`MAX_MESSAGE_BYTES`] by default.
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// The clock of the switches stands while they answer, so nobody needs rest from clients that look at them.
    pub fn while_the_clock_stands(mut self) -> Self {
        self.packets_wait = false;
        self
    }

    /// Whether clients have to win the arbitration, which is the default.
    pub fn with_arbitration(mut self, arbitration: Arbitration) -> Self {
        self.arbitration = arbitration;
        self
    }

    /// Also serves BF Runtime for some devices, by their index among the addresses given to `bind`, for a program with
    /// this schema, to clients that need not win any arbitration.
    pub fn with_bf_runtime(
        mut self,
        devices: impl IntoIterator<Item = usize>,
        schema: Schema,
    ) -> Self {
        let schema = Arc::new(schema);
        let of = devices.into_iter().map(|index| (index, schema.clone()));
        self.bf_runtime.extend(of);
        self
    }

    /// `loaded` is called when all devices that start with a program have it, before anything is served, with the
    /// reasons of those that have refused it.
    pub fn when_loaded(mut self, loaded: impl FnOnce(Vec<String>) + Send + 'static) -> Self {
        self.loaded = Some(Box::new(loaded));
        self
    }

    /// Loads programs without native code.
    pub fn interpreted(mut self, interpreted: bool) -> Self {
        self.programs = Arc::new(Programs::new(interpreted));
        self
    }

    /// All servers speak TLS.
    pub fn with_tls(mut self, files: &TlsFiles) -> Result<Self, ServeError> {
        self.tls = Some(files.load()?);
        Ok(self)
    }

    /// Some devices, by their index among the addresses given to `bind`, start with this config, as if a controller had
    /// installed it. It is loaded once. A device that refuses it starts without: who pushes it hears why.
    pub fn preload(
        mut self,
        devices: impl IntoIterator<Item = usize>,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, ServeError> {
        let cookie = config.cookie;
        let loaded = self.programs.load(config);
        let loaded = loaded.map_err(|error| ServeError::Preload(error.message))?;
        for index in devices {
            let forwarding = Forwarding::new(loaded.clone(), cookie);
            self.preloads.insert(index, forwarding);
        }
        Ok(self)
    }

    /// Where the server listens, in the order given to `bind`.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.at.iter().map(|index| self.endpoints[*index].1)
    }

    /// Serves the devices on their addresses, which are in the same order, until `shutdown`.
    ///
    /// The future is boxed, so that all of gRPC below it is compiled in this crate and not again in
    /// each program that serves.
    pub fn serve<'a>(
        self,
        devices: Vec<Arc<dyn Device>>,
        shutdown: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, Result<(), ServeError>> {
        self.serve_until(devices, Box::pin(shutdown))
    }

    fn serve_until<'a>(
        self,
        devices: Vec<Arc<dyn Device>>,
        shutdown: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), ServeError>> {
        Box::pin(self.serve_all(devices, shutdown))
    }

    async fn serve_all(
        mut self,
        devices: Vec<Arc<dyn Device>>,
        mut shutdown: BoxFuture<'_, ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let mut servers = JoinSet::new();
        let bytes = |messages| self.max_message_bytes.saturating_mul(messages);
        let limits = Limits {
            message_bytes: self.max_message_bytes,
            budget: Budget::with_share(
                bytes(MESSAGES_AT_ONCE),
                Some(bytes(MESSAGES_OF_CONNECTION)),
            ),
            budget_of_others: Budget::new(bytes(OTHERS_AT_ONCE)),
            connections: connection_limit(self.endpoints.len() + 1),
            devices: self.at.len(),
            pace: Arc::new(Pace::new(self.packets_wait)),
        };
        let mut hosts = Vec::new();
        let mut served = vec![Vec::new(); self.endpoints.len()];
        let mut schemas = vec![None; self.endpoints.len()];
        let mut refusals = Vec::new();
        for (index, (at, device)) in self.at.into_iter().zip(devices).enumerate() {
            let host = ServedDevice::new(device, self.programs.clone(), self.arbitration);
            if let Some(forwarding) = self.preloads.remove(&index)
                && let Err(refused) = host.commit(Arc::new(forwarding), None).await
            {
                let (address, why) = (self.endpoints[at].1, refused.message());
                refusals.push(format!(
                    "{address}: the switch starts without its program: {why}"
                ));
            }
            schemas[at] = self.bf_runtime.remove(&index).or(schemas[at].take());
            served[at].push(host.clone());
            hosts.push(host);
        }
        refusals.iter().for_each(|why| tracing::warn!("{why}"));
        if let Some(loaded) = self.loaded.take() {
            loaded(refusals);
        }
        for ((endpoint, hosts), schema) in self.endpoints.into_iter().zip(served).zip(schemas) {
            let grpc = grpc(endpoint.1, self.tls.as_ref())?;
            let stop = is_true(stopped.clone());
            let limits = limits.clone();
            servers.spawn(serve_endpoint(grpc, endpoint, hosts, schema, limits, stop));
        }
        if let Some((socket, fabric)) = self.fabric {
            let service = fabric::Service::new(fabric, hosts.clone());
            let stop = is_true(stopped.clone());
            servers.spawn(serve_fabric(socket, service, limits, stop));
        }
        let result = tokio::select! {
            () = &mut shutdown => Ok(()),
            Some(result) = servers.join_next() => result.unwrap_or(Ok(())),
        };
        let _ = stop.send(true);
        hosts.iter().for_each(|host| host.close_all());
        let drain = async { while servers.join_next().await.is_some() {} };
        // Calls that do not end by themselves are cut when the tasks are dropped.
        let _ = tokio::time::timeout(DRAIN, drain).await;
        result
    }
}

/// Limits of the services of one server.
#[derive(Clone)]
struct Limits {
    message_bytes: usize,
    budget: Arc<Budget>,
    budget_of_others: Arc<Budget>,
    /// The most connections of each address.
    connections: usize,
    /// How many devices share the server.
    devices: usize,
    pace: Arc<Pace>,
}

/// Allows the process as many file descriptors as [`MIN_CONNECTIONS`] of each address need: many systems let a process
/// have 1024 unless it asks for more. What the system refuses is left as it is.
fn allow_files(addresses: usize) {
    let present = getrlimit(Resource::Nofile);
    let needed = (2 * MIN_CONNECTIONS * (addresses + 1) + OTHER_FILES) as u64;
    let needed = needed.min(present.maximum.unwrap_or(u64::MAX));
    if present.current.is_some_and(|current| current < needed) {
        let wanted = Rlimit {
            current: Some(needed),
            ..present
        };
        let _ = setrlimit(Resource::Nofile, wanted);
    }
}

/// Half of the file descriptors that the process may have are for connections.
fn connection_limit(addresses: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    });
    (files / 2 / addresses).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

fn bind(address: SocketAddr) -> Result<Endpoint, ServeError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|reason| cannot_bind(address, reason))
}

fn cannot_bind(address: impl Display, reason: std::io::Error) -> ServeError {
    ServeError::Bind {
        address: address.to_string(),
        reason,
    }
}

fn failed(address: impl Display, source: tonic::transport::Error) -> ServeError {
    ServeError::Serve {
        address: address.to_string(),
        source,
    }
}

async fn is_true(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone: stop, too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn plain_grpc() -> Grpc {
    Grpc::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
}

fn grpc(address: SocketAddr, tls: Option<&ServerTlsConfig>) -> Result<Grpc, ServeError> {
    let Some(tls) = tls else {
        return Ok(plain_grpc());
    };
    let grpc = plain_grpc().tls_config(tls.clone());
    grpc.map_err(|source| failed(address, source))
}

async fn serve_endpoint(
    grpc: Grpc,
    (listener, address): Endpoint,
    hosts: Vec<Arc<ServedDevice>>,
    schema: Option<Arc<Schema>>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener);
    let listener = listener.map_err(|reason| cannot_bind(address, reason))?;
    let connections = incoming(listener, Connections::new(limits.connections));
    let mut events: JoinSet<()> = hosts.iter().cloned().map(serve_events).collect();
    let router = match &hosts[..] {
        [host] => of_device(grpc, host, schema, limits),
        _ => of_devices(grpc, &hosts, limits),
    };
    let result = router.serve_with_incoming_shutdown(connections, stop).await;
    events.abort_all();
    result.map_err(|source| failed(address, source))
}

/// All services of one device.
fn of_device(
    mut grpc: Grpc,
    host: &Arc<ServedDevice>,
    schema: Option<Arc<Schema>>,
    limits: Limits,
) -> Router {
    let p4runtime = service::Service::new(host.clone());
    let traffic = traffic::Service::new(host.clone(), limits.pace.clone());
    let traces = trace::Service::new(host.clone());
    let interfaces = gnmi::Service::new(host.clone(), limits.pace.clone(), limits.devices);
    let interfaces = GNmiServer::new(interfaces).max_decoding_message_size(GNMI_MESSAGE_BYTES);
    let bf_runtime = schema.map(|schema| {
        let service = bf_runtime::Service::new(host.clone(), schema);
        let server = BfRuntimeServer::new(service).max_decoding_message_size(limits.message_bytes);
        Counted::new(server, limits.budget.clone())
    });
    let other = grpc
        .add_optional_service(bf_runtime)
        .add_service(Counted::new(interfaces, limits.budget_of_others.clone()));
    with_ids(other, p4runtime, traffic, traces, limits)
}

/// The services of several devices whose requests have the id of their device.
fn of_devices(grpc: Grpc, hosts: &[Arc<ServedDevice>], limits: Limits) -> Router {
    fn by_device<S>(
        hosts: &[Arc<ServedDevice>],
        service: impl Fn(Arc<ServedDevice>) -> S,
    ) -> ByDevice<S> {
        ByDevice::new(
            hosts
                .iter()
                .map(|host| (host.device.id(), service(host.clone()))),
        )
    }
    let streams = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let mut grpc = grpc.max_concurrent_streams(STREAMS_OF_DEVICE.saturating_mul(streams));
    let traffic = |host| traffic::Service::new(host, limits.pace.clone());
    let (p4runtime, traffic, traces) = (
        by_device(hosts, service::Service::new),
        by_device(hosts, traffic),
        by_device(hosts, trace::Service::new),
    );
    let none = grpc.add_optional_service(None::<GNmiServer<gnmi::Service>>);
    with_ids(none, p4runtime, traffic, traces, limits)
}

/// The services whose requests have the id of their device, beside others.
fn with_ids(
    others: Router,
    p4runtime: impl P4Runtime,
    traffic: impl TrafficManager,
    traces: impl Trace,
    limits: Limits,
) -> Router {
    let p4runtime = P4RuntimeServer::new(p4runtime).max_decoding_message_size(limits.message_bytes);
    let traces = TraceServer::new(traces).max_decoding_message_size(TRACE_MESSAGE_BYTES);
    let traffic = TrafficManagerServer::new(traffic);
    others
        .add_service(Counted::new(p4runtime, limits.budget))
        .add_service(Counted::new(traffic, limits.budget_of_others.clone()))
        .add_service(Counted::new(traces, limits.budget_of_others))
}

async fn serve_fabric(
    socket: PrivateSocket,
    service: fabric::Service,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let path = socket.path().display();
    let listener = socket.listener();
    let listener = listener.map_err(|reason| cannot_bind(&path, reason))?;
    let connections = incoming(listener, Connections::new(limits.connections));
    plain_grpc()
        .add_service(Counted::new(
            FabricServer::new(service),
            limits.budget_of_others,
        ))
        .serve_with_incoming_shutdown(connections, stop)
        .await
        .map_err(|source| failed(&path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_many_switches_asks_for_the_file_descriptors_that_it_needs() {
        let soft = || getrlimit(Resource::Nofile).current;
        let few = Rlimit {
            current: Some(300),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, few).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        drop(Server::bind(&[any]).unwrap());
        assert_eq!(soft(), Some(300), "two addresses need no more");
        drop(Server::bind(&[any; 40]).unwrap());
        assert_eq!(soft(), Some(16 * 41 + 256));
        assert_eq!(connection_limit(41), MIN_CONNECTIONS + 3);
    }
}
