//! Environment of a host: transports with their ports, sources and sinks of objects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_transport::object::{Envelope, EnvelopeHeader};
use ebb_transport::{FlowId, Objection, StreamBytes, Transport, TransportKind};
use ebb_units::Instant;

use crate::request::Error;

/// Number of a client.
pub type ClientId = u64;
/// Flow ids are unique per transport only.
pub type Key = (TransportKind, FlowId);

/// The transports of a host.
pub trait Engine {
    /// The transport of `kind`, if it is open.
    fn transport(&mut self, kind: TransportKind) -> Option<&mut dyn Transport>;

    /// Makes sure that `kind` runs here.
    fn open(&mut self, kind: TransportKind) -> Result<(), String>;

    /// Makes sure that `kind` runs here and accepts flows to `port`.
    fn listen(&mut self, kind: TransportKind, port: u16) -> Result<(), String>;

    /// Accepts no more flows to `port`. Those that are open continue.
    fn unlisten(&mut self, now: Instant, kind: TransportKind, port: u16);

    /// The ports that are for flows of `kind`; `None`: it is not open.
    fn ports(&self, kind: TransportKind) -> Option<Ports>;
}

/// Arguments of every call from outside: its time and the transports.
pub(crate) struct Call<'a> {
    /// Current time, the same throughout a call.
    pub now: Instant,
    /// Transports of the host.
    pub engine: &'a mut dyn Engine,
}

/// Ports for flows that begin here. A range has a first and a last port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// Where flows leave from, each tried in turn. `None`: the transport picks one.
    pub sources: Option<(u16, u16)>,
    /// Where the answers to fetches come to.
    pub replies: (u16, u16),
}

/// Where the content of an object comes from.
pub enum Content<Source> {
    /// There is nothing to send.
    None,
    /// It has been prepared before.
    Ready(Arc<Envelope>),
    /// It is to be opened and hashed.
    From(Source),
}

/// Something to prepare before a transfer can start.
pub struct Task<Source> {
    /// Comes back with the result.
    pub ticket: u64,
    /// The client for whom it is; for what other hosts fetch, the one that offers it.
    pub owner: Option<ClientId>,
    /// Name under which it is sent or offered.
    pub name: String,
    /// Its bytes, or where they come from.
    pub content: Content<Source>,
    /// Hosts that have to be reachable; if there is nothing to send, one of them is enough.
    pub hosts: Vec<Ipv4Addr>,
}

/// The object, unless there was nothing to send.
pub type Prepared = Result<Option<Arc<Envelope>>, Error>;

/// Result of handing bytes to a sink.
#[derive(Debug, Default)]
pub struct Pushed {
    /// It has enough for now: the flow is to be paused until [`Update::Drained`].
    pub pause: bool,
    /// A buffer that is done with, for the transport to use again.
    pub buffer: Option<StreamBytes>,
}

/// Reason why the content of an object cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    /// Text for the record of the flow.
    pub reason: String,
    /// The reason in the form that its sender gets. None: it gets none.
    pub objection: Option<Objection>,
}

impl From<String> for Unusable {
    fn from(reason: String) -> Self {
        Unusable {
            reason,
            objection: None,
        }
    }
}

impl From<&str> for Unusable {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// News about a sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Update {
    /// The flow can resume.
    Drained,
    /// The content cannot be taken, or is not what its envelope says.
    Failed(Unusable),
    /// All content is checked, and stored at the target.
    Done,
}

/// Sources and sinks of objects. Nothing here waits: slow results come later, with
/// [`crate::HostApplication::handle_prepared`] and [`crate::HostApplication::handle_sink`].
pub trait Storage {
    /// Where the content of an object that is sent comes from.
    type Source;
    /// Where an object that was asked for goes.
    type Target;
    /// Where objects go that come to a listener.
    type Listening;
    /// An object that is being received.
    type Sink;

    /// Opens and hashes an object, and finds the way to hosts. `None`: the result follows.
    fn prepare(&mut self, task: Task<Self::Source>) -> Option<Prepared>;

    /// Nobody wants the result of a [`Task`] any more.
    fn cancel(&mut self, ticket: u64);

    /// Owner and source of an object that may be fetched though it was not offered by its name, such as a file of a
    /// folder that is served. `None`: there is no such object.
    fn find(&self, name: &str) -> Option<(ClientId, Self::Source)>;

    /// Destination of an object that arrived at a listener. `None`: the application decides.
    fn target(&mut self, listening: &Self::Listening) -> Option<Self::Target>;

    /// Gets ready for an object. Without a target its content waits for [`decide`](Self::decide).
    fn open(
        &mut self,
        key: Key,
        target: Option<Self::Target>,
        header: &EnvelopeHeader,
    ) -> Result<Self::Sink, Unusable>;

    /// The next bytes of the stream; the first ones begin with the envelope.
    fn push(&mut self, key: Key, sink: &mut Self::Sink, bytes: StreamBytes) -> Pushed;

    /// Sets the target of an object that was opened without one.
    fn decide(&mut self, key: Key, target: Self::Target);

    /// The stream has ended. `None`: [`Update::Done`] or [`Update::Failed`] follows.
    fn end(&mut self, key: Key, sink: &mut Self::Sink) -> Option<Update>;

    /// The flow is forgotten: an incomplete object is removed.
    fn close(&mut self, key: Key);
}
