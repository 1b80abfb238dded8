//! The lines on stdin and stdout, each of them a JSON object (`docs/simulation.md`).

use std::borrow::Cow;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use ebb_host::FlowFields;
use ebb_transport::nic::{NicStatistics, PerClass};
use ebb_transport::tenant::{Delays, HypervisorCounters};
use ebb_units::Duration;
use ebb_workload::{Open, OpenFields};
use serde::{Deserialize, Serialize};

use crate::host::{Arrivals, Ended, Notice, Unfinished};
use crate::skipping::Skips;

/// An order, which is a line on stdin.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Lets the clock run until `until_ns`, or until all transfers have ended if `flows` is true.
    Run {
        until_ns: u64,
        #[serde(default)]
        flows: bool,
        /// Or until something has arrived at external hosts and it is their turn.
        #[serde(default)]
        frames: bool,
    },
    /// Sends frames from an external host.
    Send {
        host: String,
        frames: Vec<TimedFrame>,
    },
    /// Prints the depths of these queues from now on, and of no others.
    Sample(SampleOrder),
    /// Prints all that has not ended, and the hash of the trace.
    Report,
}

/// Queues to sample, and the interval.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleOrder {
    /// Time between two samples.
    pub every_ns: u64,
    /// The queues; empty ends the samples.
    pub queues: Vec<QueueName>,
}

/// A queue of a switch port.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueueName {
    pub switch: String,
    pub port: u16,
    pub queue: u8,
}

/// A frame, and the time at which its first bit may leave a host, or its last bit has arrived at one.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimedFrame {
    pub at_ns: u64,
    /// The frame without FCS, in base64 (RFC 4648, section 4).
    pub frame: String,
}

/// A line on stdout. `docs/simulation.md` describes the keys of each.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The switches can be configured.
    Ready {
        /// Threads that run the network.
        threads: usize,
        /// Number of transfers of the workload.
        transfers: u64,
        /// The multicast groups that the network must know before the clock runs.
        groups: Vec<Group<'a>>,
        /// Reasons why switches start without the programs that the file has for them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
    },
    /// The clock runs; printed now and then.
    Progress {
        at_ns: u64,
        #[serde(flatten)]
        done: Done,
    },
    /// The clock stands still again.
    Paused {
        at_ns: u64,
        #[serde(flatten)]
        done: Done,
        /// Real time for which the clock has run so far, in seconds.
        seconds: f64,
    },
    /// A flow has ended at one of its ends.
    Flow(Box<FlowLine<'a>>),
    /// A transfer that no flow line describes: it failed, or has not ended.
    Transfer(TransferLine<'a>),
    /// Bytes of an object that had arrived at several times.
    Arrivals(ArrivalsLine<'a>),
    /// An object of which a part has arrived.
    Open(OpenLine<'a>),
    /// Pauses of the NIC of a host that obeys PFC.
    Nic(NicLine<'a>),
    /// Delays of packets from one VM to another.
    Delays(DelaysLine<'a>),
    /// Counters of the hypervisor of a host with VMs.
    Hypervisor(HypervisorLine<'a>),
    /// Rounds of a part of the workload that have been skipped.
    Skipping(SkippingLine<'a>),
    /// The queues to which the numbers of the samples that follow belong.
    Sampling {
        every_ns: u64,
        queues: Vec<&'a QueueName>,
    },
    /// Depths of these queues at an instant, before anything happens at it.
    Sample {
        at_ns: u64,
        packets: Vec<u64>,
        bytes: Vec<u64>,
    },
    /// A frame that has arrived at an external host.
    Frame {
        host: &'a str,
        #[serde(flatten)]
        frame: TimedFrame,
    },
    /// The end of a report, with the hash of everything that happened.
    End { trace_hash: String },
}

/// A multicast group of a one-to-many transfer.
#[derive(Serialize)]
pub struct Group<'a> {
    /// Address of the group.
    pub address: Ipv4Addr,
    /// Names of the receivers.
    pub receivers: Vec<&'a str>,
}

/// Progress of a run.
#[derive(Clone, Copy, Serialize)]
pub struct Done {
    /// Frames that arrived at switches.
    pub packet_hops: u64,
    /// Events at all nodes.
    pub events: u64,
    /// Transfers that have ended, well or not.
    pub ended: u64,
    /// Transfers that have not ended, those yet to start included.
    pub unfinished: u64,
    /// Virtual time that has been skipped; it is part of `at_ns`.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_ns: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Rounds of a part of the workload that have been skipped.
#[derive(Serialize)]
pub struct SkippingLine<'a> {
    traffic: &'a str,
    jumps: u64,
    rounds: u64,
    transfers: u64,
    bytes: u64,
    skipped_ns: u64,
    refused: Option<&'a str>,
}

/// A flow that has ended, as one of its hosts sees it.
#[derive(Serialize)]
pub struct FlowLine<'a> {
    host: &'a str,
    #[serde(flatten)]
    transfer: Option<OpenFields<'a>>,
    #[serde(flatten)]
    flow: FlowFields<'a>,
    /// It has been skipped: its values are derived from those of an earlier round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
}

/// A transfer, as the host that starts it sees it.
#[derive(Serialize)]
pub struct TransferLine<'a> {
    host: &'a str,
    #[serde(flatten)]
    transfer: OpenFields<'a>,
    status: &'static str,
    reason: Cow<'a, str>,
}

/// Pauses of the NIC of a host; lists have an element per class.
#[derive(Serialize)]
pub struct NicLine<'a> {
    host: &'a str,
    pauses_received: PerClass<u64>,
    paused_ns: PerClass<u64>,
    refused_frames: u64,
}

/// Delays of packets from one VM to another: from the time at which they conform to the guarantee to the arrival of
/// their last bit.
#[derive(Serialize)]
pub struct DelaysLine<'a> {
    host: &'a str,
    from_address: Ipv4Addr,
    packets: u64,
    longest_ns: u64,
    mean_ns: u64,
}

/// Counters of a hypervisor.
#[derive(Serialize)]
pub struct HypervisorLine<'a> {
    host: &'a str,
    void_frames: u64,
    void_bytes: u64,
    dropped_frames: u64,
    messages: u64,
    stale_messages: u64,
}

/// Bytes of an object that had arrived at several times.
#[derive(Serialize)]
pub struct ArrivalsLine<'a> {
    host: &'a str,
    transfer: u64,
    at_ns: &'a [u64],
    bytes: &'a [u64],
}

/// An object of which a part has arrived.
#[derive(Serialize)]
pub struct OpenLine<'a> {
    host: &'a str,
    peer: SocketAddrV4,
    #[serde(flatten)]
    transfer: OpenFields<'a>,
    arrived_bytes: u64,
}

impl<'a> Line<'a> {
    /// The line about something that has ended.
    pub fn notice(host: &'a str, notice: &'a Notice) -> Self {
        match notice {
            Notice::Arrivals { transfer, arrivals } => Line::arrivals(host, *transfer, arrivals),
            Notice::Flow(ended) => Line::Flow(Box::new(FlowLine::new(host, ended))),
            Notice::Failed { open, reason } => Line::transfer(host, open, "failed", reason),
            Notice::NotStarted(open) => {
                Line::transfer(host, open, "not-started", open.not_started())
            }
        }
    }

    /// The line about skipped rounds of a part of the workload.
    pub fn skipping(traffic: &'a str, skips: &'a Skips) -> Self {
        Line::Skipping(SkippingLine {
            traffic,
            jumps: skips.jumps,
            rounds: skips.rounds,
            transfers: skips.transfers,
            bytes: skips.bytes,
            skipped_ns: skips.time.as_nanos(),
            refused: skips.refused.as_deref(),
        })
    }

    /// The line about arrivals of an object.
    pub fn arrivals(host: &'a str, transfer: u64, arrivals: &'a Arrivals) -> Self {
        Line::Arrivals(ArrivalsLine {
            host,
            transfer,
            at_ns: &arrivals.at_ns,
            bytes: &arrivals.bytes,
        })
    }

    /// The line about the delays of packets to a VM.
    pub fn delays(host: &'a str, from_address: Ipv4Addr, delays: Delays) -> Self {
        Line::Delays(DelaysLine {
            host,
            from_address,
            packets: delays.packets,
            // Rounded up: a bound in whole ns holds if it holds for this value.
            longest_ns: delays.longest.as_picos().div_ceil(1_000),
            mean_ns: delays.sum.as_nanos() / delays.packets.max(1),
        })
    }

    /// The line about the hypervisor of a host.
    pub fn hypervisor(host: &'a str, counters: HypervisorCounters) -> Self {
        Line::Hypervisor(HypervisorLine {
            host,
            void_frames: counters.void_frames,
            void_bytes: counters.void_bytes,
            dropped_frames: counters.dropped_frames,
            messages: counters.messages,
            stale_messages: counters.stale_messages,
        })
    }

    /// The line about the NIC of a host.
    pub fn nic(host: &'a str, statistics: &NicStatistics) -> Self {
        Line::Nic(NicLine {
            host,
            pauses_received: statistics.pauses_received,
            paused_ns: statistics.paused.map(Duration::as_nanos),
            refused_frames: statistics.refused_frames,
        })
    }

    /// The line about an object that is not complete.
    pub fn open(host: &'a str, flow: &'a Unfinished<'a>) -> Self {
        Line::Open(OpenLine {
            host,
            peer: flow.peer,
            transfer: flow.open.fields(None, None),
            arrived_bytes: flow.arrived_bytes,
        })
    }

    /// The line about a transfer that no flow line describes.
    pub fn transfer(
        host: &'a str,
        open: &'a Open,
        status: &'static str,
        reason: impl Into<Cow<'a, str>>,
    ) -> Self {
        Line::Transfer(TransferLine {
            host,
            transfer: open.fields(None, None),
            status,
            reason: reason.into(),
        })
    }
}

impl<'a> FlowLine<'a> {
    fn new(host: &'a str, ended: &'a Ended) -> Self {
        let record = &ended.record;
        let good = record.status == ebb_transport::Status::Finished;
        let finished_at_ns = good.then_some(record.finished_at_ns);
        let open = ended.open.as_ref();
        FlowLine {
            host,
            transfer: open.map(|open| open.fields(ended.started_at_ns, finished_at_ns)),
            flow: FlowFields::new(ended.header.as_ref(), ended.intact, record),
            skipped: ended.skipped,
        }
    }
}

/// Appends a line to `out`; it reaches the reader when `out` is flushed or dropped.
pub fn append_line(out: &mut impl Write, line: &Line<'_>) -> Result<()> {
    serde_json::to_writer(&mut *out, line).context("cannot write to stdout")?;
    out.write_all(b"\n").context("cannot write to stdout")
}
