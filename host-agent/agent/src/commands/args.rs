//! Options that several commands have.

use std::path::PathBuf;

use clap::Args;
use ebb_transport::TransportKind;

/// Options of the engine, or of the daemon that has one.
#[derive(Args, Debug)]
pub struct EngineArgs {
    /// Interface of the host, e.g. h1-eth1; not needed if there is only one with an IPv4 address
    #[arg(long)]
    pub interface: Option<String>,
    /// Share a ring with the switch at the other end of the interface, instead of sending frames through
    /// the kernel: the Unix socket that the switch has for the interface (docs/agent.md)
    #[arg(long, value_name = "PATH")]
    pub ring: Option<PathBuf>,
    /// Parameters (JSON, or TOML by its extension); those that are not in it have their defaults
    #[arg(long)]
    pub params: Option<PathBuf>,
    /// Seed of session ids and path entropy; drawn by chance if not given
    #[arg(long)]
    pub protocol_seed: Option<u64>,
    /// Socket of the daemon; by default the one that every host has
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// One JSON object per line, also on a terminal
    #[arg(long)]
    pub json: bool,
    /// Report in a last line how late the engine of this process was (docs/agent-records.md)
    #[arg(long)]
    pub lateness: bool,
}

#[derive(Args, Debug)]
pub struct CommonArgs {
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Transport
    #[arg(long, alias = "scheme", value_enum, default_value_t = TransportKind::Scdp)]
    pub transport: TransportKind,
}

/// Treatment of objects that others send or ask for.
#[derive(Args, Debug)]
pub struct DirectoryArgs {
    /// Directory for objects that arrive; created if it is missing
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Let objects that arrive replace files of the same names; without it they are refused
    #[arg(long, requires = "dir")]
    pub overwrite: bool,
    /// Directory whose files other hosts may fetch
    #[arg(long, value_name = "DIR")]
    pub serve: Option<PathBuf>,
}
