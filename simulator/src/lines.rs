//! The lines on stdin and stdout: one JSON object each. `docs/simulation.md`.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use ebb_engine::SwitchReport;
use ebb_host::FlowFields;
use ebb_workload::{Open, OpenFields};
use serde::{Deserialize, Serialize};

use crate::host::{Arrivals, Ended, Told, Unfinished};

/// A line on stdin.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Let the clock run until then, or until all transfers have ended if `flows` says so.
    Run {
        until_ns: u64,
        #[serde(default)]
        flows: bool,
    },
    /// Tell the depths of queues from now on, in place of those of before.
    Sample(SampleOrder),
    /// Tell all that there is to tell so far.
    Report,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleOrder {
    pub every_ns: u64,
    /// None: no more samples.
    pub queues: Vec<QueueName>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueueName {
    pub switch: String,
    pub port: u16,
    pub queue: u8,
}

/// A line on stdout.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The switches can be configured.
    Ready {
        threads: usize,
        /// How many there will be.
        transfers: u64,
        /// Which the network has to know before the clock runs.
        groups: Vec<Group<'a>>,
    },
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
        /// Real time that the clock has run in all.
        seconds: f64,
    },
    /// A flow has ended, at one of its ends.
    Flow(Box<FlowLine<'a>>),
    /// A transfer has ended without a flow to tell it, or not at all.
    Transfer(TransferLine<'a>),
    /// How much of an object had arrived when.
    Arrivals(ArrivalsLine<'a>),
    /// An object that has begun to come and is not complete.
    Open(OpenLine<'a>),
    /// What the numbers of the samples that follow belong to.
    Sampling {
        every_ns: u64,
        queues: Vec<&'a QueueName>,
    },
    /// Depths at an instant, before what happens at it.
    Sample {
        at_ns: u64,
        packets: Vec<u64>,
        bytes: Vec<u64>,
    },
    Switch(SwitchReport),
    End {
        trace_hash: String,
    },
}

#[derive(Serialize)]
pub struct Group<'a> {
    pub address: Ipv4Addr,
    pub receivers: Vec<&'a str>,
}

#[derive(Clone, Copy, Serialize)]
pub struct Done {
    pub packet_hops: u64,
    pub events: u64,
    /// Transfers that have ended, well or not.
    pub ended: u64,
    /// The others, yet to start included.
    pub unfinished: u64,
}

#[derive(Serialize)]
pub struct FlowLine<'a> {
    host: &'a str,
    #[serde(flatten)]
    transfer: Option<OpenFields<'a>>,
    #[serde(flatten)]
    flow: FlowFields<'a>,
}

#[derive(Serialize)]
pub struct TransferLine<'a> {
    host: &'a str,
    #[serde(flatten)]
    transfer: OpenFields<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
pub struct ArrivalsLine<'a> {
    host: &'a str,
    transfer: u64,
    at_ns: &'a [u64],
    bytes: &'a [u64],
}

#[derive(Serialize)]
pub struct OpenLine<'a> {
    host: &'a str,
    peer: SocketAddrV4,
    #[serde(flatten)]
    transfer: OpenFields<'a>,
    arrived_bytes: u64,
}

impl<'a> Line<'a> {
    pub fn told(host: &'a str, told: &'a Told) -> Self {
        match told {
            Told::Arrivals { transfer, arrivals } => Line::arrivals(host, *transfer, arrivals),
            Told::Flow(ended) => Line::Flow(Box::new(FlowLine::new(host, ended))),
            Told::Failed { open, reason } => Line::transfer(host, open, "failed", Some(reason)),
        }
    }

    pub fn arrivals(host: &'a str, transfer: u64, arrivals: &'a Arrivals) -> Self {
        Line::Arrivals(ArrivalsLine {
            host,
            transfer,
            at_ns: &arrivals.at_ns,
            bytes: &arrivals.bytes,
        })
    }

    pub fn open(host: &'a str, flow: &Unfinished<'a>) -> Self {
        Line::Open(OpenLine {
            host,
            peer: flow.peer,
            transfer: flow.open.fields(None, None),
            arrived_bytes: flow.arrived_bytes,
        })
    }

    pub fn transfer(
        host: &'a str,
        open: &'a Open,
        status: &'static str,
        reason: Option<&'a str>,
    ) -> Self {
        Line::Transfer(TransferLine {
            host,
            transfer: open.fields(None, None),
            status,
            reason,
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
        }
    }
}

/// Writes lines; they are on their way when it is dropped or flushed.
pub fn say(out: &mut impl Write, line: &Line<'_>) -> Result<()> {
    serde_json::to_writer(&mut *out, line).context("cannot write to stdout")?;
    out.write_all(b"\n").context("cannot write to stdout")
}
