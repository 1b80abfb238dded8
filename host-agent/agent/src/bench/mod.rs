//! Workloads: `ebb-agent workload` prints one. See `docs/workloads.md`.

mod file;
mod list;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod summary;
#[cfg(test)]
mod tally;

pub use list::{ListArgs, list};
