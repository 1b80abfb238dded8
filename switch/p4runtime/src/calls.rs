//! What every call has in common, whatever the service: its connection counts it, and the bytes of its
//! request that are kept count against a limit of all calls together.
//!
//! A message is gathered before it is decoded, so calls that never send their last byte would keep what they
//! sent. A message is kept until its call ends, for what was decoded from it is kept as long; one of a stream
//! until it is complete, as the next one comes when it has been handled.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::server::NamedService;

use crate::connections::Connection;

/// The only call whose client sends more than one message.
const STREAM: &str = "/p4.v1.P4Runtime/StreamChannel";
/// What precedes each message in gRPC: a byte that says whether it is compressed, and its length in 4 bytes.
const PREFIX_BYTES: usize = 5;

/// How many bytes the requests of all calls of a server may take together.
pub struct Budget {
    held: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            limit,
        })
    }
}

/// A service whose calls are counted.
#[derive(Clone)]
pub struct Counted<S> {
    service: S,
    budget: Arc<Budget>,
}

impl<S> Counted<S> {
    pub fn new(service: S, budget: Arc<Budget>) -> Self {
        Self { service, budget }
    }
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = Arc::new(Call::new(
            request.extensions().get().cloned(),
            self.budget.clone(),
        ));
        let boundaries = (request.uri().path() == STREAM).then(Boundaries::default);
        let counted = call.clone();
        let request = request.map(|body| {
            Body::new(Counting {
                body,
                call: counted,
                boundaries,
            })
        });
        let response = self.service.call(request);
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map(|body| Body::new(Holding { body, _call: call })))
        })
    }
}

/// A call, from its start until neither its request nor its answer is needed.
struct Call {
    connection: Option<Arc<Connection>>,
    budget: Arc<Budget>,
    held: AtomicUsize,
}

impl Call {
    fn new(connection: Option<Arc<Connection>>, budget: Arc<Budget>) -> Self {
        if let Some(connection) = &connection {
            connection.begin_call();
        }
        Self {
            connection,
            budget,
            held: AtomicUsize::new(0),
        }
    }

    fn hold(&self, bytes: usize) -> Result<(), Status> {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        match before + bytes <= self.budget.limit {
            true => Ok(()),
            false => Err(Status::resource_exhausted(format!(
                "the requests of all clients together have more than {} bytes, which is the limit; try again",
                self.budget.limit
            ))),
        }
    }

    /// Gives back what the call holds, but for `rest` bytes.
    fn release(&self, rest: usize) {
        let held = self.held.swap(rest, Ordering::Relaxed);
        self.budget.held.fetch_sub(held - rest, Ordering::Relaxed);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.release(0);
        if let Some(connection) = &self.connection {
            connection.end_call();
        }
    }
}

/// Where the messages of a stream end.
#[derive(Default)]
struct Boundaries {
    prefix: Vec<u8>,
    /// Bytes that the message still lacks, once its prefix is there.
    missing: usize,
}

impl Boundaries {
    /// The next bytes of the stream have come. If they complete a message: how many of them belong to the
    /// next one, which is not complete.
    fn advance(&mut self, mut bytes: &[u8]) -> Option<usize> {
        let mut rest = None;
        while !bytes.is_empty() {
            if self.prefix.len() < PREFIX_BYTES {
                let lacking = PREFIX_BYTES - self.prefix.len();
                let (some, others) = bytes.split_at(lacking.min(bytes.len()));
                self.prefix.extend_from_slice(some);
                bytes = others;
                if let [_, length @ ..] = &self.prefix[..]
                    && let Ok(length) = <[u8; 4]>::try_from(length)
                {
                    self.missing = u32::from_be_bytes(length) as usize;
                }
            } else {
                let some = self.missing.min(bytes.len());
                self.missing -= some;
                bytes = &bytes[some..];
            }
            if self.prefix.len() == PREFIX_BYTES && self.missing == 0 {
                self.prefix.clear();
                rest = Some(bytes.len());
            }
        }
        rest
    }
}

/// The body of a request, whose bytes count while they are kept.
struct Counting {
    body: Body,
    call: Arc<Call>,
    /// Where messages end, if the request is a stream; none: it is one message.
    boundaries: Option<Boundaries>,
}

impl HttpBody for Counting {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let counting = &mut *self;
            if let Err(full) = counting.call.hold(data.len()) {
                return Poll::Ready(Some(Err(full)));
            }
            let rest = counting.boundaries.as_mut().and_then(|b| b.advance(data));
            if let Some(rest) = rest {
                counting.call.release(rest);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which keeps its call alive until it is sent.
struct Holding {
    body: Body,
    _call: Arc<Call>,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.resize(PREFIX_BYTES + length, 7);
        bytes
    }

    #[test]
    fn messages_of_a_stream_are_told_apart_however_they_are_cut() {
        let stream = [message(0), message(3), message(300), message(1)].concat();
        for cut in 1..stream.len() {
            let mut boundaries = Boundaries::default();
            let mut held = 0;
            for part in stream.chunks(cut) {
                held += part.len();
                if let Some(rest) = boundaries.advance(part) {
                    assert!(rest < part.len());
                    held = rest;
                }
                assert!(held < PREFIX_BYTES + 300 + cut, "{cut}");
            }
            assert_eq!(held, 0, "{cut}");
        }
        let mut open = Boundaries::default();
        assert_eq!(open.advance(&message(10)[..14]), None);
    }

    #[test]
    fn calls_share_a_budget_and_give_it_back() {
        let budget = Budget::new(100);
        let first = Call::new(None, budget.clone());
        first.hold(60).unwrap();
        let second = Call::new(None, budget.clone());
        let full = second.hold(60).unwrap_err();
        assert_eq!(full.code(), tonic::Code::ResourceExhausted);
        drop(second);
        first.release(10);
        Call::new(None, budget.clone()).hold(90).unwrap();
        drop(first);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
