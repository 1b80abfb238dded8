//! The gRPC servers: one address for each device, and one for the fabric they are part of.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server as Grpc;

use crate::device::Device;
use crate::fabric::{self, Fabric};
use crate::host::Host;
use crate::programs::Programs;
use crate::proto::fabric::fabric_server::FabricServer;
use crate::proto::p4::p4_runtime_server::P4RuntimeServer;
use crate::proto::tm::traffic_manager_server::TrafficManagerServer;
use crate::proto::trace::trace_server::TraceServer;
use crate::stream::serve_events;
use crate::{service, trace, traffic};

/// Programs and large batches come in one message.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
/// A controller that vanished without a word must not stay primary for long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long open calls may take to end when the server stops.
const DRAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "cannot listen on {address}: {source}; \
         stop what uses the address or choose another one (--grpc-server-addr, or \
         grpc_server_addr and fabric_addr of the fabric file)"
    )]
    Bind {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("the gRPC server of {address} failed: {source}")]
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
    interpreted: bool,
}

type Endpoint = (TcpListener, SocketAddr);

impl Server {
    /// Takes the addresses, so that a failure shows before anything else has started. Port 0 is any
    /// free port.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        let endpoints = addresses.iter().copied().map(bind);
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            fabric: None,
            interpreted: false,
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
        self.interpreted = interpreted;
        self
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
        self,
        devices: Vec<Arc<dyn Device>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let mut servers = JoinSet::new();
        let mut hosts = Vec::new();
        let programs = Arc::new(Programs::new(self.interpreted));
        for (endpoint, device) in self.endpoints.into_iter().zip(devices) {
            let host = Host::new(device, programs.clone());
            hosts.push(host.clone());
            servers.spawn(serve_device(endpoint, host, is_true(stopped.clone())));
        }
        if let Some((endpoint, fabric)) = self.fabric {
            let service = fabric::Service::new(fabric, hosts.clone());
            servers.spawn(serve_fabric(endpoint, service, is_true(stopped.clone())));
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
    listen().map_err(|source| ServeError::Bind { address, source })
}

async fn is_true(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone: stop, too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn incoming((listener, address): Endpoint) -> Result<TcpListenerStream, ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener)
        .map_err(|source| ServeError::Bind { address, source })?;
    Ok(TcpListenerStream::new(listener))
}

fn grpc() -> Grpc {
    Grpc::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
}

async fn serve_device(
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
    let server = grpc()
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
    endpoint: Endpoint,
    service: fabric::Service,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = endpoint.1;
    grpc()
        .add_service(FabricServer::new(service))
        .serve_with_incoming_shutdown(incoming(endpoint)?, stop)
        .await
        .map_err(|source| ServeError::Serve { address, source })
}
