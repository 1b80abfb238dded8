//! The interface that every transport offers to whoever drives it.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_nic::DscpSet;
use ebb_units::Instant;

pub use crate::flow_id::FlowId;
use crate::job::{Job, JobResult};
use crate::object::ObjectSource;
use crate::objection::Objection;
use crate::record::FlowRecord;
use crate::selector::{Selector, dscp_of};

/// All flows of one transport on one host.
///
/// Time never goes back between calls. No method blocks, and no packet, however malformed, panics
/// or is an error: what cannot be understood is counted and dropped.
pub trait Transport {
    /// Accept flows to `port`. Listening twice on the same port is not an error.
    fn listen(&mut self, port: u16) -> Result<(), ListenError>;

    /// Accept no more flows to `port`. Those that are open continue.
    fn unlisten(&mut self, port: u16);

    /// True while a flow is open from or to this port of ours, or an ended one still answers late
    /// packets: they must keep coming.
    fn uses_port(&self, port: u16) -> bool;

    /// Start to send an object. The flow ends with [`Event::Finished`] or [`Event::Failed`].
    fn send(&mut self, now: Instant, request: SendRequest) -> Result<FlowId, SendError>;

    /// Start to send an object to a group of receivers behind one multicast address. One flow and
    /// one record, except for stragglers: see [`Event::Detached`].
    fn send_group(&mut self, _now: Instant, _request: GroupRequest) -> Result<FlowId, SendError> {
        Err(SendError::NoGroups)
    }

    /// Get ready for an object that several senders send parts of (many-to-one). It ends like any
    /// other flow, also if nobody answers; there is no [`Event::Opened`]. Senders that refuse, reset
    /// or fall silent are dispensed with as long as one is left.
    fn expect(&mut self, _now: Instant, _request: ExpectRequest) -> Result<FlowId, SendError> {
        Err(SendError::NoManyToOne)
    }

    /// A sender of a many-to-one flow is known not to send: its request failed or was refused.
    /// `reason` goes into the record.
    fn drop_sender(&mut self, _now: Instant, _flow: FlowId, _sender: Ipv4Addr, _reason: &str) {}

    /// Back-pressure: a receiver whose application cannot take more bytes asks for no more packets
    /// until it is resumed. What is under way still comes: at most a window, plus the blocks
    /// or segments that are held for order. Of no effect on a flow that has ended or that sends.
    fn set_paused(&mut self, _now: Instant, _flow: FlowId, _paused: bool) {}

    /// Progress of a flow. `None`: there is no such flow, or it has ended.
    fn progress(&self, _flow: FlowId) -> Option<Progress> {
        None
    }

    /// Takes back the bytes of [`Event::Delivered`], so that the next buffer need not be allocated.
    fn recycle(&mut self, _bytes: StreamBytes) {}

    /// Give a flow up and notify the peer. `reason` goes into the [`Event::Failed`] that follows.
    /// A flow that has ended already is left alone, except that a receiver that has not yet
    /// confirmed the last bytes notifies the peer that they were of no use.
    fn abort(&mut self, now: Instant, flow: FlowId, reason: &str);

    /// As [`abort`](Self::abort), of an object that is of no use here: its sender learns why, if the
    /// transport can.
    fn refuse(&mut self, now: Instant, flow: FlowId, reason: &str, _objection: Objection) {
        self.abort(now, flow, reason);
    }

    /// From now on the peer of a flow that arrived whole is notified only when the application has
    /// called [`confirm`](Self::confirm). Until then the peer waits, however long that takes, and
    /// [`abort`](Self::abort) still notifies it that the object was of no use. Without this call peers
    /// are notified at once.
    fn hold_confirmations(&mut self) {}

    /// The application has finished with an object that arrived whole: its sender is notified. Of no
    /// effect on any other flow.
    fn confirm(&mut self, _now: Instant, _flow: FlowId) {}

    /// Selectors of the packets to hand to [`handle_packet`](Self::handle_packet). They never change. Where a
    /// packet matches several, the first one determines the place of its port.
    fn selectors(&self) -> Vec<Selector>;

    /// A complete IPv4 packet arrived.
    fn handle_packet(&mut self, now: Instant, packet: &[u8]);

    /// Do what was due by `now`. Harmless when nothing was.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`handle_timeout`](Self::handle_timeout) or
    /// [`poll_transmit_of`](Self::poll_transmit_of) has something to do although nothing arrived.
    /// Packets that could leave at once have no deadline, and what waits only for its class neither:
    /// poll until `None` first.
    fn next_deadline(&self) -> Option<Instant>;

    /// The next packet to leave, written over `packet`, of those whose DSCP is in `wanted`: flows of
    /// other classes keep theirs and do not hinder the rest. To be called when the NIC takes a
    /// packet, so that the order of calls is the order on the wire: control before data, flows in
    /// turn.
    fn poll_transmit_of(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo>;

    /// The next packet to leave, whatever its class.
    fn poll_transmit(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        self.poll_transmit_of(now, DscpSet::ALL, packet)
    }

    /// The next event of the flows, in order.
    fn poll_event(&mut self) -> Option<Event>;

    /// Work that takes long enough to be done elsewhere. Results come back in any order.
    fn poll_job(&mut self) -> Option<Job> {
        None
    }

    /// The result of a [`Job`].
    fn handle_job(&mut self, _now: Instant, _result: JobResult) {}

    /// This host is about to go: finds out whether the peers of ended flows know of their ends, so that
    /// it need not stay active for those that do.
    fn leave(&mut self, _now: Instant) {}

    /// True while a flow is open or an ended one still answers late packets.
    fn is_active(&self) -> bool;
}

/// An object to be sent.
#[derive(Clone)]
pub struct SendRequest {
    /// Address and port of the receiver.
    pub to: SocketAddrV4,
    /// `None`: the transport picks a free ephemeral port.
    pub source_port: Option<u16>,
    /// The byte stream: an envelope and its content (see [`crate::object`]).
    pub source: Arc<dyn ObjectSource>,
    /// 0: normal. Larger is more urgent, up to 7: the receiver serves its pull queue in this order
    /// (NDP, SCDP), and the packets carry the DSCP of the class (TCP).
    pub priority: u8,
    /// This host is one of several that send the same object to the same receiver.
    pub part: Option<Part>,
    /// Choice of a connection. No effect where a flow needs none, or has one of its own.
    pub via: Via,
}

/// Choice of the connection for an object, where connections are persistent (TCP).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Via {
    /// The connection with the least to send.
    #[default]
    Any,
    /// The connection of this number, from 0, among those that this host opened.
    Number(u32),
    /// The connection over which this address has sent what is answered, if it is still open.
    From(SocketAddrV4),
    /// The same, but the address has not shown that it receives our packets: it may be forged.
    FromStranger(SocketAddrV4),
}

impl Via {
    /// Address of the peer whose connection is chosen. None: the choice does not depend on an address.
    pub fn answered(self) -> Option<SocketAddrV4> {
        match self {
            Via::From(address) | Via::FromStranger(address) => Some(address),
            Via::Any | Via::Number(_) => None,
        }
    }

    /// Whether the address has not shown that it receives our packets.
    pub fn is_to_stranger(self) -> bool {
        matches!(self, Via::FromStranger(_))
    }
}

/// A sender's place in a many-to-one session. The receiver chose it, see [`ExpectRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The session id of all senders.
    pub session: u32,
    /// 0-based, below `senders`.
    pub sender: u8,
    /// 1..=15.
    pub senders: u8,
}

/// An object to be received from several senders at once, each of which has its [`Part`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectRequest {
    /// Where the senders send to.
    pub port: u16,
    /// Session id that all senders use.
    pub session: u32,
    /// In the order of [`Part::sender`]; each of them once, at most 15.
    pub senders: Vec<Ipv4Addr>,
}

/// Progress of a flow, in bytes of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Receiver: delivered. Sender: known or supposed to have arrived.
    pub done_bytes: u64,
    /// Receiver: what has arrived whole and is of use, delivered or not; TCP: delivered. Sender: as
    /// `done_bytes`.
    pub arrived_bytes: u64,
    /// `None` where the length is not known yet (TCP receiver).
    pub total_bytes: Option<u64>,
}

/// An object to be sent to several receivers at once.
#[derive(Clone)]
pub struct GroupRequest {
    /// A multicast address that the network takes to all receivers, and the port they listen on.
    pub group: SocketAddrV4,
    /// Addresses of the receivers, each of them once.
    pub receivers: Vec<Ipv4Addr>,
    /// `None`: the transport picks a free ephemeral port.
    pub source_port: Option<u16>,
    /// The byte stream: an envelope and its content (see [`crate::object`]).
    pub source: Arc<dyn ObjectSource>,
    /// As [`SendRequest::priority`], at every receiver, stragglers included.
    pub priority: u8,
}

/// Kind of a polled packet, for the stages behind the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxInfo {
    /// Flow of the packet.
    pub flow: FlowId,
    /// Whether it may be paced.
    pub kind: PacketKind,
}

impl TxInfo {
    /// Order in which the packet leaves a host with several transports. `scavenger`: the DSCP of packets
    /// that give way to all others.
    pub fn urgency(&self, packet: &[u8], scavenger: u8) -> Urgency {
        match self.kind {
            _ if dscp_of(packet) == Some(scavenger) => Urgency::Scavenger,
            PacketKind::Control => Urgency::Control,
            PacketKind::Data => Urgency::Data,
        }
    }
}

/// Order in which packets of several transports of a host leave, the first variant first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// It has no payload.
    Control,
    /// It has payload.
    Data,
    /// It gives way to all others.
    Scavenger,
}

/// Kinds of packets, of which only one may be paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketKind {
    /// Pulls, acknowledgments, resets, pure TCP ACKs: never paced.
    Control,
    /// Carries payload.
    Data,
}

/// Bytes of a stream: in a buffer, or zeros that nobody had to write.
pub type StreamBytes = Cow<'static, [u8]>;

/// Event of a flow.
#[derive(Clone, Debug)]
pub enum Event {
    /// A peer opened a flow to us.
    Opened {
        /// Number of the new flow.
        flow: FlowId,
        /// Address and port that it came to.
        local: SocketAddrV4,
        /// Address and port of the sender.
        peer: SocketAddrV4,
    },
    /// The peer has shown that it receives our packets, so that its address is not forged: the TCP
    /// handshake is complete, or the first pull or acknowledgment has come to a sender (of a group:
    /// from any receiver). Emitted once per flow. A reset does not count: it comes from a host that has
    /// not asked for the flow.
    Heard {
        /// The flow.
        flow: FlowId,
        /// Address of the peer.
        peer: Ipv4Addr,
    },
    /// The next bytes of the stream, in order and without gaps.
    Delivered {
        /// The flow.
        flow: FlowId,
        /// The bytes, which go back by [`Transport::recycle`].
        bytes: StreamBytes,
    },
    /// Sender: the peer has confirmed everything. Receiver: everything has been delivered; with
    /// [`Transport::hold_confirmations`] the peer does not know yet.
    Finished {
        /// The flow.
        flow: FlowId,
        /// Its record.
        record: FlowRecord,
    },
    /// A receiver that kept the others of its group waiting continues as a flow of its own, which
    /// ends with an event of its own.
    Detached {
        /// The flow that the straggler left.
        flow: FlowId,
        /// Number of its own flow.
        straggler: FlowId,
        /// Address and port of the straggler.
        peer: SocketAddrV4,
    },
    /// The flow ended otherwise; `record.status` says why.
    Failed {
        /// The flow.
        flow: FlowId,
        /// Its record.
        record: FlowRecord,
    },
}

/// Reasons why a port cannot be listened on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum ListenError {
    #[error("port 0 cannot be listened on; choose 1..65535")]
    PortZero,
}

/// Reasons why a flow cannot begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum SendError {
    #[error(
        "source port {port} is in use by another flow to {to}; leave it unset to get a free one"
    )]
    PortInUse { port: u16, to: SocketAddrV4 },
    #[error("no free source port for a flow to {to}")]
    NoFreePort { to: SocketAddrV4 },
    #[error("the object has {bytes} bytes; this transport carries at most {limit} per flow")]
    TooLarge { bytes: u64, limit: u64 },
    #[error(
        "{address} is not a host to send to (own, multicast, broadcast or unspecified address)"
    )]
    BadDestination { address: Ipv4Addr },
    #[error("port 0 cannot be sent to; choose 1..65535")]
    PortZero,
    #[error("this transport has no one-to-many flows; SCDP has")]
    NoGroups,
    #[error("this transport has no many-to-one flows; SCDP has")]
    NoManyToOne,
    #[error("a many-to-one flow needs 1 to 15 senders, each of them once")]
    BadSenders,
    #[error("session {session:08x} is open already; choose another at random")]
    SessionInUse { session: u32 },
    #[error("{address} is not a multicast address; choose one of 239.0.0.0/8")]
    NotAGroup { address: Ipv4Addr },
    #[error("a group needs receivers, each of them once")]
    BadReceivers,
    #[error(
        "there is no connection {number} to a host: `max_connections_per_peer` is {limit}, and the \
         first is 0"
    )]
    NoSuchConnection { number: u32, limit: u32 },
    #[error("{open} flows are open, as many as `max_flows` allows")]
    TooManyFlows { open: usize },
}
