//! The gRPC servers: one address for each device, and one for the fabric they are part of.

use std::collections::HashMap;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Server as Grpc, ServerTlsConfig};

use crate::device::Device;
use crate::fabric::{self, Fabric};
use crate::forwarding::Forwarding;
use crate::host::Host;
use crate::programs::Programs;
use crate::proto::fabric::fabric_server::FabricServer;
use crate::proto::p4::ForwardingPipelineConfig;
use crate::proto::p4::p4_runtime_server::P4RuntimeServer;
use crate::proto::tm::traffic_manager_server::TrafficManagerServer;
use crate::proto::trace::trace_server::TraceServer;
use crate::stream::serve_events;
use crate::tls::{TlsError, TlsFiles};
use crate::{service, trace, traffic};

/// Programs and large batches come in one message.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
/// A batch of 500 updates is about 30 KB; it should not wait for the window.
const WINDOW_BYTES: u32 = 1 << 20;
/// Of all streams of a connection. The HTTP/2 library ends a connection (`too_many_data_frames`) on which
/// small messages wait whose sizes, each taken as 256 bytes short of itself, add up to half of this: with the
/// window of one stream a burst of 3,500 packet-outs did it.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// A controller that vanished without a word must not stay primary for long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long open calls may take to end when the server stops.
const DRAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "cannot listen on {address}: {reason}; \
         stop what uses the address or choose another one (--grpc-server-addr, or \
         grpc_server_addr and fabric_addr of the fabric file)"
    )]
    Bind {
        address: SocketAddr,
        reason: std::io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the program that switch {index} is to start with cannot be loaded: {problem}")]
    Preload { index: usize, problem: String },
    #[error("the gRPC server of {address} failed")]
    Serve {
        address: SocketAddr,
        source: tonic::transport::Error,
    },
}

/// Addresses that are taken and devices that are to be served there.
#[derive(Default)]
pub struct Server {
    endpoints: Vec<Endpoint>,
    fabric: Option<(Endpoint, Arc<dyn Fabric>)>,
    programs: Arc<Programs>,
    /// By index of the device.
    preloads: HashMap<usize, Forwarding>,
    tls: Option<ServerTlsConfig>,
}

type Endpoint = (TcpListener, SocketAddr);

impl Server {
    /// Takes the addresses, so that a failure shows before anything else has started. Port 0 is any
    /// free port.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        let endpoints = addresses.iter().copied().map(bind);
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// Also serves the fabric service, at an address of its own. The switches of the fabric's layout
    /// are the devices of [`serve`](Self::serve), in the same order.
    pub fn with_fabric(
        mut self,
        address: SocketAddr,
        fabric: Arc<dyn Fabric>,
    ) -> Result<Self, ServeError> {
        self.fabric = Some((bind(address)?, fabric));
        Ok(self)
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

    /// A device starts with this config, as if a controller had installed it. Its index is that of
    /// the address given to `bind`.
    pub fn preload(
        mut self,
        index: usize,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, ServeError> {
        let forwarding = Forwarding::verify(&self.programs, config);
        let forwarding = forwarding.map_err(|error| ServeError::Preload {
            index,
            problem: error.message,
        })?;
        self.preloads.insert(index, forwarding);
        Ok(self)
    }

    /// Where the server listens, in the order given to `bind`.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.endpoints.iter().map(|(_, address)| *address)
    }

    /// Where the fabric service listens.
    pub fn fabric_address(&self) -> Option<SocketAddr> {
        self.fabric.as_ref().map(|((_, address), _)| *address)
    }

    /// Serves the devices on the addresses, one each and in the same order, until `shutdown`.
    pub async fn serve(
        mut self,
        devices: Vec<Arc<dyn Device>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let mut servers = JoinSet::new();
        let mut hosts = Vec::new();
        for (index, (endpoint, device)) in self.endpoints.into_iter().zip(devices).enumerate() {
            let host = Host::new(device, self.programs.clone());
            if let Some(forwarding) = self.preloads.remove(&index) {
                let loaded = host.commit(Arc::new(forwarding), None).await;
                loaded.map_err(|status| ServeError::Preload {
                    index,
                    problem: status.message().to_owned(),
                })?;
            }
            hosts.push(host.clone());
            let grpc = grpc(endpoint.1, self.tls.as_ref())?;
            servers.spawn(serve_device(grpc, endpoint, host, is_true(stopped.clone())));
        }
        if let Some((endpoint, fabric)) = self.fabric {
            let service = fabric::Service::new(fabric, hosts.clone());
            let grpc = grpc(endpoint.1, self.tls.as_ref())?;
            let stopped = is_true(stopped.clone());
            servers.spawn(serve_fabric(grpc, endpoint, service, stopped));
        }
        tokio::pin!(shutdown);
        let result = tokio::select! {
            () = &mut shutdown => Ok(()),
            Some(result) = servers.join_next() => result.unwrap_or(Ok(())),
        };
        let _ = stop.send(true);
        hosts.iter().for_each(|host| host.close_all());
        let drain = async { while servers.join_next().await.is_some() {} };
        // What does not end by itself is cut when the tasks are dropped.
        let _ = tokio::time::timeout(DRAIN, drain).await;
        result
    }
}

fn bind(address: SocketAddr) -> Result<Endpoint, ServeError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|reason| ServeError::Bind { address, reason })
}

async fn is_true(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone: stop, too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn incoming((listener, address): Endpoint) -> Result<TcpListenerStream, ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener)
        .map_err(|reason| ServeError::Bind { address, reason })?;
    Ok(TcpListenerStream::new(listener))
}

fn grpc(address: SocketAddr, tls: Option<&ServerTlsConfig>) -> Result<Grpc, ServeError> {
    let grpc = Grpc::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    match tls {
        Some(tls) => grpc.tls_config(tls.clone()),
        None => Ok(grpc),
    }
    .map_err(|source| ServeError::Serve { address, source })
}

async fn serve_device(
    mut grpc: Grpc,
    endpoint: Endpoint,
    host: Arc<Host>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = endpoint.1;
    let p4runtime = P4RuntimeServer::new(service::Service::new(host.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let traffic = TrafficManagerServer::new(traffic::Service::new(host.clone()));
    let traces = TraceServer::new(trace::Service::new(host.clone()));
    let server = grpc
        .add_service(p4runtime)
        .add_service(traffic)
        .add_service(traces)
        .serve_with_incoming_shutdown(incoming(endpoint)?, stop);
    let events = tokio::spawn(serve_events(host));
    let result = server.await;
    events.abort();
    result.map_err(|source| ServeError::Serve { address, source })
}

async fn serve_fabric(
    mut grpc: Grpc,
    endpoint: Endpoint,
    service: fabric::Service,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = endpoint.1;
    grpc.add_service(FabricServer::new(service))
        .serve_with_incoming_shutdown(incoming(endpoint)?, stop)
        .await
        .map_err(|source| ServeError::Serve { address, source })
}
