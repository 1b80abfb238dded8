//! `ebb-agent`: sends and receives objects over NDP, SCDP and the TCP family, on a raw socket.
//! Command line and files: `docs/architecture.md`; what it prints: `docs/agent-records.md`;
//! what applications can ask of it: `docs/agent-api.md`.

mod api;
mod bench;
mod cli;
mod clock;
mod daemon;
mod faults;
mod fetch;
mod file_lock;
mod histogram;
mod interface;
mod ip_command;
mod kernel_rules;
mod lateness;
mod link;
mod load;
mod next_hop;
mod objects;
mod output;
mod pace;
mod params;
mod port_lock;
mod receive;
mod record;
mod runtime;
mod send;
mod session;
mod signals;
mod transports;
mod waker;
mod workers;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// What the runner slows down by the dilation before it gives it back to `send` and `recv`.
fn print_params(args: &cli::ParamsArgs) -> anyhow::Result<bool> {
    let params = params::Params::read(args.params.as_deref())?;
    let text = serde_json::to_string_pretty(&params)?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(true)
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .init();
    let result = match cli::Cli::parse().command {
        cli::Command::Run(args) => receive::run_daemon(&args),
        cli::Command::Fetch(args) => fetch::run(&args),
        cli::Command::Recv(args) => receive::run(&args),
        cli::Command::Send(args) => send::run(&args),
        cli::Command::Bench(args) => bench::run(&args),
        cli::Command::Workload(args) => bench::list(&args),
        cli::Command::Load(args) => load::run(&args),
        cli::Command::Sink(args) => load::run_sink(&args),
        cli::Command::Pace(args) => pace::run(&args),
        cli::Command::Params(args) => print_params(&args),
    };
    record::finish();
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let text = format!("{error:#}");
            // Some have several lines of their own; those of peers are escaped where they come in.
            let lines: Vec<_> = text.lines().map(ebb_host::printable).collect();
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(std::io::stderr(), "ebb-agent: {}", lines.join("\n"));
            ExitCode::from(2)
        }
    }
}
