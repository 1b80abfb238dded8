//! Record of a flow that has ended: one JSON object per flow; see `docs/agent-records.md`.

use std::net::SocketAddrV4;

use ebb_units::Instant;
use serde::Serialize;

/// Part of an endpoint in a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It sent the stream.
    Sender,
    /// It received the stream.
    Receiver,
}

/// How a flow ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "status", content = "reason", rename_all = "lowercase")]
pub enum Status {
    /// With success.
    Finished,
    /// Without success; the reason as a text for people.
    Failed(String),
}

/// A flow that has ended.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowRecord {
    /// Part of the endpoint whose record it is.
    pub role: Role,
    /// Name of the transport.
    #[serde(rename = "scheme")]
    pub transport: &'static str,
    /// Address and port of this end.
    pub local: SocketAddrV4,
    /// Address and port of the other end.
    pub peer: SocketAddrV4,
    /// Session id of the receiver-driven header; TCP: the initial sequence number of the sender.
    pub session: u32,
    /// Bytes of the stream: envelope and content.
    pub stream_bytes: u64,
    /// Sender: when it was asked to send. Receiver: arrival of the first packet.
    pub started_at_ns: u64,
    /// Sender: everything confirmed. Receiver: everything delivered. Either: given up.
    pub finished_at_ns: u64,
    /// Time between the two.
    pub duration_ns: u64,
    /// How it ended.
    #[serde(flatten)]
    pub status: Status,
    /// Counters of packets and events.
    #[serde(flatten)]
    pub counters: Counters,
    /// `None` for the receiver-driven transports.
    #[serde(flatten)]
    pub tcp: Option<TcpSummary>,
    /// Only of a one-to-many flow at its sender.
    #[serde(flatten)]
    pub group: Option<GroupSummary>,
    /// Only of a many-to-one flow at its receiver, in the order of [`crate::ExpectRequest`]. `peer` is
    /// the one that was heard first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<SenderSummary>,
}

/// Outcome of one sender of a many-to-one flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SenderSummary {
    /// Port 0: nothing was ever heard of it.
    pub peer: SocketAddrV4,
    /// Symbols that arrived whole.
    pub packets_received: u64,
    /// Reason why it left before the end. None: it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Outcome of the receivers of a one-to-many flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct GroupSummary {
    /// Receivers of the group.
    pub receivers: u32,
    /// Those of them that got everything.
    pub receivers_finished: u32,
    /// Stragglers that went on as flows of their own.
    pub receivers_detached: u32,
}

/// Fields of the TCP family: its estimators when the flow ended.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct TcpSummary {
    /// Smoothed round-trip time; `None` if nothing was measured.
    pub srtt_ns: Option<u64>,
    /// Congestion window.
    pub window_bytes: u64,
    /// Loss episodes that SACK or duplicate ACKs found, each one reduction of the window.
    pub loss_episodes: u64,
    /// Estimate of the fraction of marked bytes, 0 to 1 (alpha of DCTCP); `None` for a congestion control without one.
    pub marked_fraction: Option<f64>,
    /// The same by its former key, until the next release.
    pub dctcp_alpha: Option<f64>,
}

impl FlowRecord {
    /// A record in which nothing has been counted.
    pub(crate) fn new(
        role: Role,
        transport: &'static str,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        status: Status,
    ) -> Self {
        FlowRecord {
            role,
            transport,
            local,
            peer,
            session: 0,
            stream_bytes: 0,
            started_at_ns: 0,
            finished_at_ns: 0,
            duration_ns: 0,
            status,
            counters: Counters::default(),
            tcp: None,
            group: None,
            senders: Vec::new(),
        }
    }

    /// Sets the three times from start and end.
    pub fn set_times(&mut self, started: Instant, finished: Instant) {
        self.started_at_ns = started.as_nanos();
        self.finished_at_ns = finished.as_nanos();
        self.duration_ns = finished.since(started).as_nanos();
    }
}

/// Counted per flow and role. What a transport does not have stays 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counters {
    /// DATA, SYMBOL or TCP segments with payload that were sent, retransmissions included.
    pub packets_sent: u64,
    /// The same received whole; duplicates included, trimmed ones not.
    pub packets_received: u64,
    /// Payload bytes sent, retransmissions and repair symbols included.
    pub payload_bytes_sent: u64,
    /// Receiver: packets that arrived trimmed. NDP sender: NACKs that named an unacknowledged packet.
    pub trimmed: u64,
    /// Sender: trimmed headers of this flow that a switch returned.
    pub returned: u64,
    /// Packets sent again (NDP, TCP). SCDP: only symbol 0, to make a silent receiver speak.
    pub retransmitted: u64,
    /// TCP: of those, sent by fast retransmit or SACK recovery, not by a timeout.
    pub fast_retransmitted: u64,
    /// SCDP: repair symbols sent or received.
    pub repair_symbols: u64,
    /// Receiver: pulls that asked for a packet. The closing pull of SCDP asks for none.
    pub pulls_sent: u64,
    /// Sender: pulls that asked for a packet.
    pub pulls_received: u64,
    /// Acknowledgments sent by the receiver or received by the sender (NDP, TCP).
    pub acks: u64,
    /// Expiries of the retransmission timer or of the receiver's idle timer.
    pub timeouts: u64,
    /// Received packets with CE. TCP sender: acknowledgments with ECE.
    pub ce_marks: u64,
    /// Source blocks that needed decoding.
    pub decodes: u64,
    /// Processor time of those decodings.
    pub decode_ns: u64,
    /// SCDP sender: preparations of source blocks for repair symbols; a block may need several.
    pub encodes: u64,
    /// Processor time of those preparations, reading the blocks included.
    pub encode_ns: u64,
    /// Packets received that brought nothing new.
    pub duplicates: u64,
    /// Symbols that the group needed and this receiver did not. Sender: symbols times receivers
    /// that had finished.
    pub unneeded: u64,
    /// Packets of the flow that were dropped for a wrong checksum or a contradiction.
    pub rejected: u64,
}
