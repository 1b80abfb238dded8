//! The connections of one address: their limit, and which of them is closed for a new one.
//!
//! Peers without calls must not keep others out. So a connection that has made no call
//! [`FIRST_CALL`] after it was accepted is closed, whatever it waits for: TLS, the preface of HTTP/2, or the
//! call. Above the limit, and when the process has no file descriptor left, the one that has been without a
//! call for longest is closed. Controllers have an open stream, so they stay.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::lock::lock;

/// Longest time from accepting a connection to its first call: handshakes take milliseconds.
pub const FIRST_CALL: Duration = Duration::from_secs(10);
/// Pause after a connection was not accepted for want of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);
/// Shortest time between two warnings: in an attack their causes recur many times a second.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The open connections of one address.
pub struct Connections {
    /// Most of them at a time.
    limit: usize,
    /// Longest time from accepting one to its first call.
    first_call: Duration,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_number: BTreeMap<u64, Arc<Connection>>,
    /// Number of the latest connection.
    last: u64,
    /// Time of the last warning. None: there was none.
    warned: Option<Instant>,
}

/// One connection, as its calls know it.
pub struct Connection {
    number: u64,
    close: Notify,
    calls: Mutex<Calls>,
    /// Bytes of requests held for its calls.
    held: AtomicUsize,
}

struct Calls {
    open: usize,
    /// Whether the connection has ever made one.
    any: bool,
    /// End of the last call, or start of the connection.
    none_since: Instant,
}

impl Connection {
    pub fn begin_call(&self) {
        let mut calls = lock(&self.calls);
        calls.open += 1;
        calls.any = true;
    }

    pub fn end_call(&self) {
        let mut calls = lock(&self.calls);
        calls.open -= 1;
        calls.none_since = Instant::now();
    }

    /// Takes bytes for a call if the connection then has `most` at most.
    pub fn hold(&self, bytes: usize, most: usize) -> bool {
        let fits = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= most;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    pub fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// End of the last call; `None` during a call.
    fn idle_since(&self) -> Option<Instant> {
        let calls = lock(&self.calls);
        (calls.open == 0).then_some(calls.none_since)
    }

    /// Returns when the connection is to be closed, `first_call` from now if there is no call until then.
    async fn end(self: Arc<Self>, first_call: Duration) {
        let unused = async {
            tokio::time::sleep(first_call).await;
            if lock(&self.calls).any {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.close.notified() => {}
            () = unused => {}
        }
    }
}

impl Connections {
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with_patience(limit, FIRST_CALL)
    }

    fn with_patience(limit: usize, first_call: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            first_call,
            open: Mutex::default(),
        })
    }

    /// `None`: there are too many, and all have calls.
    fn admit<Io>(self: &Arc<Self>, io: Io) -> Option<Served<Io>> {
        let mut open = lock(&self.open);
        if open.by_number.len() >= self.limit {
            open.warn("the limit of connections is reached", self.limit);
            if !open.close_longest_idle() {
                return None;
            }
        }
        open.last += 1;
        let connection = Arc::new(Connection {
            number: open.last,
            close: Notify::new(),
            calls: Mutex::new(Calls {
                open: 0,
                any: false,
                none_since: Instant::now(),
            }),
            held: AtomicUsize::new(0),
        });
        open.by_number.insert(connection.number, connection.clone());
        Some(Served {
            io,
            end: Some(Box::pin(connection.clone().end(self.first_call))),
            connection,
            all: self.clone(),
        })
    }
}

impl Open {
    /// Closes the connection that has been without a call for longest. False: all have calls.
    fn close_longest_idle(&mut self) -> bool {
        let idle = self.by_number.values();
        let idle = idle.filter_map(|c| Some((c.idle_since()?, c.number)));
        let Some((_, number)) = idle.min() else {
            return false;
        };
        if let Some(connection) = self.by_number.remove(&number) {
            connection.close.notify_one();
        }
        true
    }

    fn warn(&mut self, what: &str, limit: usize) {
        if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                "gRPC: {what} ({limit}); connections without calls are closed to make room"
            );
        }
    }
}

/// A connection on which something is served.
pub struct Served<Io> {
    io: Io,
    connection: Arc<Connection>,
    all: Arc<Connections>,
    /// Ready when the connection is to be closed; `None` once it has been.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<Io> Drop for Served<Io> {
    fn drop(&mut self) {
        lock(&self.all.open)
            .by_number
            .remove(&self.connection.number);
    }
}

impl<Io> Connected for Served<Io> {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        self.connection.clone()
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Served<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ended = match &mut self.end {
            Some(end) => end.as_mut().poll(cx).is_ready(),
            None => true,
        };
        if ended {
            self.end = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Served<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Where connections come from.
pub trait Listen: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn next(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listen for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Without it the connection is only slower.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Accepts until the stream is dropped, which also closes the listener.
pub fn incoming<L: Listen>(
    listener: L,
    all: Arc<Connections>,
) -> ReceiverStream<io::Result<Served<L::Io>>> {
    let (sender, accepted) = mpsc::channel(1);
    tokio::spawn(accept_all(listener, all, sender));
    ReceiverStream::new(accepted)
}

async fn accept_all<L: Listen>(
    listener: L,
    all: Arc<Connections>,
    sender: mpsc::Sender<io::Result<Served<L::Io>>>,
) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    loop {
        let accepted = tokio::select! {
            accepted = listener.next() => accepted,
            () = sender.closed() => return,
        };
        match accepted {
            Ok(io) => {
                if let Some(served) = all.admit(io)
                    && sender.send(Ok(served)).await.is_err()
                {
                    return;
                }
            }
            // This one client has gone, or may not connect.
            Err(error)
                if matches!(
                    error.kind(),
                    ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied
                ) =>
            {
                tracing::debug!("gRPC: a connection was not accepted: {error}");
            }
            // No file descriptors or memory. The connection still waits, so to try again at once would
            // keep a processor busy.
            Err(error) => {
                {
                    let mut open = lock(&all.open);
                    let count = open.by_number.len();
                    open.warn(&format!("nothing can be accepted: {error}; open"), count);
                    open.close_longest_idle();
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    fn open(all: &Connections) -> usize {
        lock(&all.open).by_number.len()
    }

    /// Whether the server has ended it.
    async fn is_ended<Io: AsyncRead + Unpin>(served: &mut Served<Io>) -> bool {
        let mut byte = [0];
        let read = served.read(&mut byte);
        tokio::time::timeout(Duration::from_millis(1), read)
            .await
            .is_ok_and(|read| read.is_err())
    }

    fn pair(all: &Arc<Connections>) -> (UnixStream, Option<Served<UnixStream>>) {
        let (client, server) = UnixStream::pair().unwrap();
        (client, all.admit(server))
    }

    const PATIENCE: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_connection_that_makes_no_call_ends_and_one_that_did_stays() {
        let all = Connections::with_patience(4, PATIENCE);
        let (_silent, mut silent) = pair(&all);
        let (_used, mut used) = pair(&all);
        used.as_ref().unwrap().connection.begin_call();
        used.as_ref().unwrap().connection.end_call();
        assert!(!is_ended(silent.as_mut().unwrap()).await);
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(is_ended(silent.as_mut().unwrap()).await);
        assert!(!is_ended(used.as_mut().unwrap()).await);
        drop(silent);
        assert_eq!(open(&all), 1);
    }

    #[tokio::test]
    async fn the_one_that_has_no_call_for_longest_makes_room() {
        let all = Connections::new(3);
        let (_first, mut first) = pair(&all);
        let (_busy, mut busy) = pair(&all);
        busy.as_ref().unwrap().connection.begin_call();
        let (_third, mut third) = pair(&all);
        let (_fourth, fourth) = pair(&all);
        assert!(fourth.is_some());
        assert!(is_ended(first.as_mut().unwrap()).await);
        assert!(!is_ended(busy.as_mut().unwrap()).await);
        assert!(!is_ended(third.as_mut().unwrap()).await);
        for one in [&third, &fourth] {
            one.as_ref().unwrap().connection.begin_call();
        }
        assert!(pair(&all).1.is_none(), "all have calls");
        busy.as_ref().unwrap().connection.end_call();
        assert!(pair(&all).1.is_some());
    }

    /// As at the limit of file descriptors, until there is room.
    struct Short {
        room: tokio::sync::Semaphore,
        tried: Arc<Mutex<usize>>,
        clients: Mutex<Vec<UnixStream>>,
    }

    impl Listen for Arc<Short> {
        type Io = UnixStream;
        async fn next(&self) -> io::Result<UnixStream> {
            *lock(&self.tried) += 1;
            match self.room.try_acquire() {
                Ok(permit) => permit.forget(),
                Err(_) => return Err(io::Error::from_raw_os_error(24)),
            }
            let (client, server) = UnixStream::pair()?;
            lock(&self.clients).push(client);
            Ok(server)
        }
    }

    #[tokio::test]
    async fn without_file_descriptors_it_waits_and_goes_on() {
        use tokio_stream::StreamExt;
        let short = Arc::new(Short {
            room: tokio::sync::Semaphore::new(0),
            tried: Arc::default(),
            clients: Mutex::default(),
        });
        let mut accepted = incoming(short.clone(), Connections::new(10));
        tokio::time::sleep(4 * PAUSE).await;
        assert!((1..=5).contains(&*lock(&short.tried)));
        short.room.add_permits(1);
        assert!(accepted.next().await.unwrap().is_ok());
    }
}
