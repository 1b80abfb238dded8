//! The gRPC servers: one address for each device.

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
use crate::host::Host;
use crate::proto::p4::p4_runtime_server::P4RuntimeServer;
use crate::proto::tm::traffic_manager_server::TrafficManagerServer;
use crate::stream::serve_events;
use crate::{service, traffic};

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
         stop what uses the address or choose another one with --grpc-server-addr"
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
    endpoints: Vec<(TcpListener, SocketAddr)>,
}

impl Server {
    /// Takes the addresses, so that a failure shows before anything else has started. Port 0 is any
    /// free port.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        let bind = |address: &SocketAddr| {
            let listen = || {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                Ok((listener, bound))
            };
            listen().map_err(|source| ServeError::Bind {
                address: *address,
                source,
            })
        };
        let endpoints = addresses.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { endpoints })
    }

    /// Where the server listens, in the order given to `bind`.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.endpoints.iter().map(|(_, address)| *address)
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
        for ((listener, address), device) in self.endpoints.into_iter().zip(devices) {
            let host = Host::new(device);
            hosts.push(host.clone());
            let mut stopped = stopped.clone();
            let signal = async move {
                // An error means that the sender is gone: stop, too.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            servers.spawn(serve_device(listener, address, host, signal));
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

async fn serve_device(
    listener: TcpListener,
    address: SocketAddr,
    host: Arc<Host>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener)
        .map_err(|source| ServeError::Bind { address, source })?;
    let p4runtime = P4RuntimeServer::new(service::Service::new(host.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let traffic = TrafficManagerServer::new(traffic::Service::new(host.clone()));
    let server = Grpc::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(p4runtime)
        .add_service(traffic)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop);
    let events = tokio::spawn(serve_events(host));
    let result = server.await;
    events.abort();
    result.map_err(|source| ServeError::Serve { address, source })
}
