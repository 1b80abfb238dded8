//! What every call has in common, whatever the service: its connection counts it, and the bytes of its
//! request that are kept count against a limit of all calls together.
//!
//! A message is gathered before it is decoded, so calls that never send their last byte would keep what they
//! sent. A message is kept until its call ends, for what was decoded from it is kept as long. In calls that last, that
//! is until it is complete, or answered.
//!
//! A large answer is handed to HTTP/2 in pieces, so that it waits here for as long as its client does not read, and
//! what it takes of a limit ([`Kept`]) with it.

use std::any::Any;
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

/// The calls that last and whose messages are handled as they come.
const HANDLED_AT_ONCE: [&str; 3] = [
    "/p4.v1.P4Runtime/StreamChannel",
    "/ebb.tm.v1.TrafficManager/StreamStats",
    "/ebb.trace.v1.Trace/Watch",
];
/// The call that lasts and whose message is worked on until it is answered.
const HANDLED_WHEN_ANSWERED: &str = "/gnmi.gNMI/Subscribe";
/// The most of an answer that HTTP/2 has, beyond what its client has room for.
const PIECE_BYTES: usize = 64 << 10;
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
        let path = request.uri().path();
        let boundaries = HANDLED_AT_ONCE.contains(&path).then(Boundaries::default);
        let until_answered = path == HANDLED_WHEN_ANSWERED;
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
            let mut response = response.await?;
            let kept = response.extensions_mut().remove();
            Ok(response.map(|body| {
                Body::new(Holding {
                    body,
                    rest: Bytes::new(),
                    call,
                    until_answered,
                    _kept: kept,
                })
            }))
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
    /// Where messages end that are handled at once.
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

/// What an answer takes of a limit until it is sent. Services put it into the extensions of their responses.
#[derive(Clone)]
pub struct Kept {
    _share: Arc<dyn Any + Send + Sync>,
}

impl Kept {
    pub fn new(share: impl Any + Send + Sync) -> Self {
        Self {
            _share: Arc::new(share),
        }
    }
}

/// The body of an answer, which keeps its call alive until it is sent.
struct Holding {
    body: Body,
    /// What of a frame is still to be handed on.
    rest: Bytes,
    call: Arc<Call>,
    /// Whether the request is not kept any longer once there is an answer.
    until_answered: bool,
    _kept: Option<Kept>,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()? {
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                None => return Poll::Ready(None),
            }
        }
        if self.until_answered {
            self.call.release(0);
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest + body.lower());
        if let Some(upper) = body.upper() {
            hint.set_upper(rest + upper);
        }
        hint
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

    #[tokio::test]
    async fn a_large_answer_waits_here_with_what_it_takes_of_a_limit() {
        struct Whole(Option<Bytes>);
        impl HttpBody for Whole {
            type Data = Bytes;
            type Error = Status;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
            }
        }
        let whole = message(3 * PIECE_BYTES);
        let limit = Arc::new(());
        let budget = Budget::new(100);
        let call = Arc::new(Call::new(None, budget.clone()));
        let mut answer = Body::new(Holding {
            body: Body::new(Whole(Some(whole.clone().into()))),
            rest: Bytes::new(),
            call: call.clone(),
            until_answered: true,
            _kept: Some(Kept::new(limit.clone())),
        });
        call.hold(50).unwrap();
        let mut sent = Vec::new();
        loop {
            let next = std::future::poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx)).await;
            let Some(frame) = next else { break };
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES, "{}", piece.len());
            assert_eq!(budget.held.load(Ordering::Relaxed), 0);
            assert_eq!(Arc::strong_count(&limit), 2);
            sent.extend_from_slice(&piece);
        }
        assert_eq!(sent, whole);
        drop(answer);
        assert_eq!(Arc::strong_count(&limit), 1);
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
