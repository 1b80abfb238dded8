//! `ebb-simulator` runs a network in virtual time. It takes orders on stdin and answers on stdout,
//! both as JSON objects, one per line. `ebb-sim` (Python) is the command for people.
//!
//! While the clock stands still, before the first run and between two runs, every switch serves
//! P4Runtime at its address, as it would under the wall clock.

mod catalog;
mod feed;
mod host;
mod lines;
mod network;
mod run;
mod sampling;
mod servers;
mod session;
#[cfg(test)]
mod tests;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ebb_printable::printable_lines;

/// Runs a network in virtual time, by orders on stdin; answers are on stdout, both JSON lines. `ebb-sim` is the command
/// for people.
#[derive(Parser, Debug)]
#[command(name = "ebb-simulator", version = ebb_version::text())]
struct Options {
    /// Network file (JSON)
    network: PathBuf,
    /// Threads; the result is the same with any number. 0: as many as there are processors
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .init();
    let options = Options::parse();
    match session::run(&options.network, options.threads) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let problem = format!("{error:#}");
            eprintln!("ebb-simulator: {}", printable_lines(&problem));
            ExitCode::FAILURE
        }
    }
}
