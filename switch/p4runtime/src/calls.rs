//! Common rules of all calls, whatever the service: its connection counts it, and the bytes of its
//! request that are kept count against a limit of all calls together.
//!
//! A message is gathered before it is decoded, so calls that never send their last byte would keep what they
//! sent. A message is kept until its call ends, for what was decoded from it is kept as long. In calls that last, that
//! is until it is complete, or answered.
//!
//! A message that has begun to arrive and does not end makes room for others: it has [`ARRIVAL`], and when there is
//! no room left, the oldest one that began [`GRACE`] ago gives way. A connection may take a part of the room.
//!
//! A large answer is handed to HTTP/2 in pieces, so that it waits here for as long as its client does not read, and
//! what it takes of a limit ([`HeldShare`]) with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::server::NamedService;

use crate::connections::Connection;
use crate::lock::lock;

/// Calls with a stream of messages, each of which is handled as it arrives.
const HANDLED_AT_ONCE: [&str; 4] = [
    "/p4.v1.P4Runtime/StreamChannel",
    "/bfrt_proto.BfRuntime/StreamChannel",
    "/ebb.tm.v1.TrafficManager/StreamStats",
    "/ebb.trace.v1.Trace/Watch",
];
/// Call with a stream of messages, each of which is in use until it is answered.
const HANDLED_WHEN_ANSWERED: &str = "/gnmi.gNMI/Subscribe";
/// Largest piece of an answer that HTTP/2 holds beyond the client's flow-control window, bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes before each message in gRPC: a byte that says whether it is compressed, and its length in 4 bytes.
const PREFIX_BYTES: usize = 5;

/// Longest time from the first byte of a message to its last: 16 MiB need 5 Mbit/s.
const ARRIVAL: Duration = Duration::from_secs(30);
/// Time that a message has even if others need its room. Controllers send theirs in milliseconds, and retry for
/// longer than this.
const GRACE: Duration = Duration::from_secs(1);

/// Time limits of a message that has begun to arrive.
#[derive(Clone, Copy)]
struct Patience {
    arrival: Duration,
    grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            arrival: ARRIVAL,
            grace: GRACE,
        }
    }
}

/// Limit of the bytes that requests of all calls of a server take together.
pub struct Budget {
    /// Bytes taken now.
    held: AtomicUsize,
    /// Most bytes at a time.
    limit: usize,
    /// Most bytes of one connection; `None`: as many as `limit`.
    of_connection: Option<usize>,
    patience: Patience,
    arriving: Mutex<Arriving>,
}

/// Calls with an incomplete message, by the time of its first byte and a number.
#[derive(Default)]
struct Arriving {
    calls: BTreeMap<(Instant, u64), Weak<Call>>,
    last: u64,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with_share(limit, None)
    }

    /// A budget of `limit` bytes. `of_connection`: bytes of it that one connection may hold; none: all.
    pub fn with_share(limit: usize, of_connection: Option<usize>) -> Arc<Self> {
        Self::with_patience(limit, of_connection, Patience::default())
    }

    fn with_patience(limit: usize, of_connection: Option<usize>, patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            limit,
            of_connection,
            patience,
            arriving: Mutex::default(),
        })
    }

    /// Takes bytes if there is room.
    fn take(&self, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= self.limit;
        if !fits {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Ends the call whose message began first, unless that is less than [`GRACE`] ago. False: there is none.
    fn make_room(&self) -> bool {
        let mut arriving = lock(&self.arriving);
        let Some(oldest) = arriving.calls.first_entry() else {
            return false;
        };
        if oldest.key().0.elapsed() < self.patience.grace {
            return false;
        }
        let call = oldest.remove();
        drop(arriving);
        if let Some(call) = call.upgrade() {
            call.release(0);
            call.gives_way.notify_one();
        }
        true
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
        let handled_at_once = HANDLED_AT_ONCE.contains(&path);
        let until_answered = path == HANDLED_WHEN_ANSWERED;
        let counted = call.clone();
        let request = request.map(|body| {
            Body::new(Counting {
                body,
                call: counted,
                boundaries: Boundaries::default(),
                handled_at_once,
                arrival: None,
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
                    _held: kept,
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
    /// Told when the room is needed for others.
    gives_way: Notify,
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
            gives_way: Notify::new(),
        }
    }

    fn hold(&self, bytes: usize) -> Result<(), Status> {
        let connection = self.connection.as_ref().zip(self.budget.of_connection);
        if let Some((connection, most)) = connection
            && !connection.hold(bytes, most)
        {
            return Err(Status::resource_exhausted(format!(
                "the requests of this connection have more than {most} bytes, which is the limit; try again"
            )));
        }
        while !self.budget.take(bytes) {
            if !self.budget.make_room() {
                if let Some((connection, _)) = connection {
                    connection.release(bytes);
                }
                return Err(Status::resource_exhausted(format!(
                    "the requests of all clients together have more than {} bytes, which is the limit; try again",
                    self.budget.limit
                )));
            }
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back what the call holds, but for `rest` bytes.
    fn release(&self, rest: usize) {
        let keep = |held: usize| Some(held.min(rest));
        let before = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep);
        let returned = before.map_or(0, |held| held.saturating_sub(rest));
        self.budget.held.fetch_sub(returned, Ordering::Relaxed);
        if let (Some(connection), Some(_)) = (&self.connection, self.budget.of_connection) {
            connection.release(returned);
        }
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
    /// Whether a message has arrived in part.
    fn is_within(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// The next bytes of the stream have arrived. If they complete a message: how many of them belong to the
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

/// A message of which a part is there.
struct Arrival {
    call: Arc<Call>,
    /// Where it is among those that arrive.
    key: (Instant, u64),
    /// Ready, with the reason, when the rest is not waited for any longer.
    end: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl Arrival {
    fn begin(call: &Arc<Call>) -> Self {
        let mut arriving = lock(&call.budget.arriving);
        arriving.last += 1;
        let key = (Instant::now(), arriving.last);
        arriving.calls.insert(key, Arc::downgrade(call));
        drop(arriving);
        let waiting = call.clone();
        let arrival = call.budget.patience.arrival;
        let end = async move {
            tokio::select! {
                () = waiting.gives_way.notified() => Status::resource_exhausted(
                    "the rest of the request has not come, and others need the room; try again",
                ),
                () = tokio::time::sleep(arrival) => Status::deadline_exceeded(format!(
                    "the request has not come whole within {} s",
                    arrival.as_secs()
                )),
            }
        };
        Self {
            call: call.clone(),
            key,
            end: Box::pin(end),
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        lock(&self.call.budget.arriving).calls.remove(&self.key);
    }
}

/// The body of a request, whose bytes count while they are kept.
struct Counting {
    body: Body,
    call: Arc<Call>,
    boundaries: Boundaries,
    /// Whether messages are handled as they come, and so are kept no longer once they are complete.
    handled_at_once: bool,
    /// The message that is not complete; `None`: nothing of the next one is there.
    arrival: Option<Arrival>,
}

impl Counting {
    /// The next bytes have arrived.
    fn advance(&mut self, data: &[u8]) -> Result<(), Status> {
        self.call.hold(data.len())?;
        let complete = self.boundaries.advance(data);
        if let Some(rest) = complete {
            self.arrival = None;
            if self.handled_at_once {
                self.call.release(rest);
            }
        }
        if self.boundaries.is_within() && self.arrival.is_none() {
            self.arrival = Some(Arrival::begin(&self.call));
        }
        Ok(())
    }
}

impl HttpBody for Counting {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(arrival) = &mut self.arrival
            && let Poll::Ready(why) = arrival.end.as_mut().poll(cx)
        {
            self.arrival = None;
            return Poll::Ready(Some(Err(why)));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(full) = self.advance(data)
        {
            return Poll::Ready(Some(Err(full)));
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

/// Share of a limit that an answer holds until it is sent. Services put it into the extensions of their responses.
#[derive(Clone)]
pub struct HeldShare {
    _share: Arc<dyn Any + Send + Sync>,
}

impl HeldShare {
    pub fn new(share: impl Any + Send + Sync) -> Self {
        Self {
            _share: Arc::new(share),
        }
    }
}

/// The body of an answer, which keeps its call alive until it is sent.
struct Holding {
    body: Body,
    /// Rest of a frame that is to be handed on.
    rest: Bytes,
    call: Arc<Call>,
    /// Whether the request is not kept any longer once there is an answer.
    until_answered: bool,
    _held: Option<HeldShare>,
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
            _held: Some(HeldShare::new(limit.clone())),
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

    fn impatient(limit: usize, arrival: Duration, grace: Duration) -> Arc<Budget> {
        Budget::with_patience(limit, None, Patience { arrival, grace })
    }

    #[tokio::test]
    async fn a_message_that_has_begun_just_now_stays() {
        let budget = impatient(100, Duration::MAX, Duration::MAX);
        let call = || Arc::new(Call::new(None, budget.clone()));
        let [begun, other] = [call(), call()];
        begun.hold(50).unwrap();
        let _arrival = Arrival::begin(&begun);
        let full = other.hold(60).unwrap_err();
        assert_eq!(full.code(), tonic::Code::ResourceExhausted);
        assert_eq!(budget.held.load(Ordering::Relaxed), 50);
    }

    #[tokio::test]
    async fn what_is_half_sent_gives_way_to_others() {
        let budget = impatient(100, Duration::MAX, Duration::ZERO);
        let call = || Arc::new(Call::new(None, budget.clone()));
        let [stalled, complete, other] = [call(), call(), call()];
        complete.hold(40).unwrap();
        stalled.hold(50).unwrap();
        let mut arrival = Arrival::begin(&stalled);
        other.hold(60).unwrap();
        let why = arrival.end.as_mut().await;
        assert_eq!(why.code(), tonic::Code::ResourceExhausted);
        assert!(why.message().contains("others need the room"), "{why}");
        // A complete message stays.
        drop(arrival);
        assert!(call().hold(1).is_err());
        drop((stalled, complete, other));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert!(lock(&budget.arriving).calls.is_empty());
    }

    /// A request that comes in parts.
    struct Parts(tokio::sync::mpsc::Receiver<Bytes>);

    impl HttpBody for Parts {
        type Data = Bytes;
        type Error = Status;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let part = self.0.poll_recv(cx);
            part.map(|part| part.map(|data| Ok(Frame::data(data))))
        }
    }

    #[tokio::test]
    async fn a_message_has_a_time_to_come() {
        let patience = Duration::from_millis(10);
        let call = Arc::new(Call::new(None, impatient(100, patience, GRACE)));
        let (mut body, sent) = {
            let (sender, frames) = tokio::sync::mpsc::channel(4);
            let counting = Counting {
                body: Body::new(Parts(frames)),
                call: call.clone(),
                boundaries: Boundaries::default(),
                handled_at_once: true,
                arrival: None,
            };
            (counting, sender)
        };
        let whole = message(10);
        let send = async |part: &[u8]| {
            let data = Bytes::copy_from_slice(part);
            sent.send(data).await.unwrap();
        };
        let mut next = async || std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        // Between messages any time may pass.
        send(&whole).await;
        assert!(next().await.unwrap().is_ok());
        tokio::time::sleep(2 * patience).await;
        send(&whole[..12]).await;
        assert!(next().await.unwrap().is_ok());
        assert_eq!(call.held.load(Ordering::Relaxed), 12);
        let late = next().await.unwrap().unwrap_err();
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
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
