//! Measuring: `ebb-agent bench` from host to host or as one host's share of a workload, and
//! `ebb-agent workload`, which prints one. See `docs/workloads.md`.

mod args;
mod file;
mod list;
mod point;
mod runner;
mod summary;
mod tally;
mod workload;

pub use args::BenchArgs;
pub use list::{ListArgs, list};

/// Whether everything that was tried went well.
pub fn run(args: &BenchArgs) -> anyhow::Result<bool> {
    match (&args.workload.workload, args.point.host) {
        (Some(path), _) => workload::run(args, path),
        (None, Some(host)) => point::run(args, host),
        (None, None) => anyhow::bail!("nothing to do: give a HOST or --workload FILE"),
    }
}
