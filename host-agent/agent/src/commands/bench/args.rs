//! `ebb-agent bench`: its command line.

use std::path::PathBuf;

use clap::Args;
use ebb_transport::TransportKind;

use super::file::WorkloadFile;
use crate::api::MAX_START_NS;
use crate::api::message::Peer;
use crate::commands::args::CommonArgs;

#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub point: PointArgs,
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

const DAY_NS: u64 = 86_400_000_000_000;

/// From this host to another one.
#[derive(Args, Debug)]
pub struct PointArgs {
    /// Send to this host, on which `ebb-agent recv` or `run --dir` runs: IP or IP:PORT
    #[arg(
        value_name = "HOST",
        required_unless_present = "workload",
        conflicts_with = "workload"
    )]
    pub host: Option<Peer>,
    /// Size of the objects
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub bytes: u64,
    /// Send objects one after another for so long; without it, 10 s, or with --count as many
    #[arg(long, value_name = "T", conflicts_with = "count")]
    pub seconds: Option<f64>,
    /// Send this many objects one after another, each of the parallel flows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Flows at a time
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub parallel: u16,
    /// Rather than send, fetch this object, which the host serves (recv --serve DIR)
    #[arg(long, value_name = "NAME")]
    pub fetch: Option<String>,
    /// 0 normal .. 7 most urgent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: u8,
}

/// This host's share of a workload.
#[derive(Args, Debug)]
pub struct WorkloadArgs {
    /// Run this host's share of a workload (docs/workloads.md)
    #[arg(long, value_name = "FILE", requires = "start_at_ns")]
    pub workload: Option<PathBuf>,
    /// Name of this host in the workload
    #[arg(long = "self", value_name = "NAME", requires = "workload")]
    pub me: Option<String>,
    /// Instead of --self: this host has virtual machines, and runs the shares of these (JSON, or TOML
    /// by its extension; docs/tenant-pacer.md)
    #[arg(
        long,
        value_name = "FILE",
        requires = "workload",
        conflicts_with = "me"
    )]
    pub vms: Option<PathBuf>,
    /// The time of CLOCK_MONOTONIC, in ns, that the workload calls 0; the same on all hosts, and
    /// late enough that all of them are ready
    #[arg(long, value_name = "T", requires = "workload", value_parser = clap::value_parser!(u64).range(..MAX_START_NS))]
    pub start_at_ns: Option<u64>,
    #[command(flatten)]
    pub file: WorkloadFile,
    /// Another transport than --transport for a part of the workload; once for each such part
    #[arg(
        long, alias = "scheme-of", value_name = "TRAFFIC=TRANSPORT", requires = "workload",
        value_parser = traffic_transport
    )]
    pub transport_of: Vec<(String, TransportKind)>,
    /// End when nothing has begun or ended for so long
    #[arg(
        long, value_name = "NS", default_value_t = 10_000_000_000,
        value_parser = clap::value_parser!(u64).range(1..DAY_NS)
    )]
    pub patience_ns: u64,
    /// How long before its start a transfer is prepared: content and its hash
    #[arg(
        long, value_name = "NS", default_value_t = 1_000_000_000,
        value_parser = clap::value_parser!(u64).range(..DAY_NS)
    )]
    pub lead_ns: u64,
    /// Added to the ideal time that a slowdown is measured against: bytes at the link's rate
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub base_rtt_ns: u64,
}

/// Reads `TRAFFIC=TRANSPORT`.
fn traffic_transport(text: &str) -> Result<(String, TransportKind), String> {
    let (traffic, transport) = text
        .split_once('=')
        .ok_or("expected TRAFFIC=TRANSPORT, e.g. storage=ndp")?;
    let transport = transport
        .parse::<TransportKind>()
        .map_err(|error| error.to_string())?;
    Ok((traffic.to_owned(), transport))
}
