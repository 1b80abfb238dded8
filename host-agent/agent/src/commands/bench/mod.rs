//! Measuring: `ebb-agent bench` from host to host or as one host's share of a workload, and
//! `ebb-agent workload`, which prints one. See `docs/workloads.md`.

mod args;
mod file;
mod list;
mod point;
mod results;
mod runner;
mod summary;
mod vms;
mod workload;

use serde_json::Value;

pub use args::BenchArgs;
pub use list::{ListArgs, list};

/// Whether a flow, of which this is the record, brought what it was to bring.
fn is_good(record: &Value) -> bool {
    record["status"] == "finished" && record["sha256_ok"] != false
}

/// Whether everything that was tried went well.
pub fn run(args: &BenchArgs) -> anyhow::Result<bool> {
    match (&args.workload.workload, args.point.host) {
        (Some(path), _) => match &args.workload.vms {
            Some(vms) => vms::run(args, path, vms),
            None => workload::run(args, path),
        },
        (None, Some(host)) => point::run(args, host),
        (None, None) => anyhow::bail!("nothing to do: give a HOST or --workload FILE"),
    }
}
