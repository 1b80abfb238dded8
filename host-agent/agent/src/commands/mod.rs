//! The command line: a module per command, and what they share.

mod args;
mod bench;
mod blob;
mod fetch;
mod load;
mod output;
mod pace;
mod params;
mod receive;
pub mod record;
mod send;
mod session;
mod transports;

use clap::{Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(
    version = ebb_version::text(),
    about = "Sends and receives objects over NDP, SCDP, Trevi and the TCP family"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serve the applications of this host until SIGINT or SIGTERM
    Run(receive::RunArgs),
    /// Send an object; exit code 1 if it did not arrive
    Send(send::SendArgs),
    /// Get an object from one or several hosts that serve it
    Fetch(fetch::FetchArgs),
    /// Receive objects until SIGINT or SIGTERM
    Recv(receive::RecvArgs),
    /// Store and read named blobs on several hosts (docs/blob-store.md)
    #[command(subcommand)]
    Blob(blob::BlobCommand),
    /// Measure what goes to a host, or run this host's share of a workload
    Bench(bench::BenchArgs),
    /// Print the transfers of a workload as JSON lines (docs/workloads.md)
    Workload(bench::ListArgs),
    /// Send packets to a host at a constant rate, whatever becomes of them, and count what arrives
    Load(load::LoadArgs),
    /// Count what others send with `load`, until SIGINT or SIGTERM
    Sink(load::SinkArgs),
    /// Pace the traffic of a host as a bump in the wire (HULL), until SIGINT or SIGTERM
    Pace(pace::PaceArgs),
    /// Print every parameter with its value in force, as JSON
    Params(params::ParamsArgs),
    /// Print what transports there are and what each can do, as JSON
    Transports,
}

impl Command {
    /// Whether all that was asked for went well.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Command::Run(args) => receive::run_daemon(args),
            Command::Fetch(args) => fetch::run(args),
            Command::Recv(args) => receive::run(args),
            Command::Send(args) => send::run(args),
            Command::Blob(command) => command.run(),
            Command::Bench(args) => bench::run(args),
            Command::Workload(args) => bench::list(args),
            Command::Load(args) => load::run(args),
            Command::Sink(args) => load::run_sink(args),
            Command::Pace(args) => pace::run(args),
            Command::Params(args) => params::run(args),
            Command::Transports => transports::run(),
        }
    }
}
