//! Workloads: `ebb-agent workload` prints one. See `docs/workloads.md`.

mod file;
mod list;

pub use list::{ListArgs, list};
