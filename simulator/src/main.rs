//! `ebb-simulator` runs a network in virtual time. It takes orders on stdin and answers on stdout,
//! both as JSON objects, one per line. `ebb-sim` (Python) is the command for people.
//!
//! While the clock stands still, before the first run and between two runs, every switch serves
//! P4Runtime at its address, as it would under the wall clock. Programs outside may play hosts: what arrives at them is
//! written, and what they send is an order.

mod build;
mod catalog;
mod departures;
mod exchange;
mod external;
mod feed;
mod host;
mod hosts;
mod lines;
mod machine;
mod network;
mod node;
mod run;
mod sampling;
mod servers;
mod session;
mod skipping;
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
    take_fresh_memory();
    ebb_log::start();
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

/// Has large arrays of zeros taken from the kernel, whose pages are zero and cost nothing until they are written to:
/// most counters and registers of a program are never used. glibc raises its threshold each time it frees such an
/// array, and then clears memory of its own.
fn take_fresh_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes a setting of the allocator, before there is a second thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
