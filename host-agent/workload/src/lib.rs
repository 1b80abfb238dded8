//! Workloads: a specification in, transfers in the order of time out. No I/O, no clock.
//!
//! ```text
//! Workload (TOML or JSON) + hosts ──► Schedule: Iterator<Item = Transfer>
//! ```
//!
//! The same specification, hosts and seed give the same schedule on every machine, so that every
//! host can compute it alone and do its own share: see [`draws`]. All keys, defaults and the papers
//! they come from: `docs/workloads.md`.

mod arrivals;
pub mod draws;
mod error;
mod hosts;
mod patterns;
mod placement;
mod schedule;
mod share;
mod sizes;
mod spec;
mod tables;
#[cfg(test)]
mod testing;
mod times;
mod transfer;

pub use error::Error;
pub use hosts::{Group, HostId, HostList, Hosts, PlacedHost};
pub use placement::{Placement, ReplicaPlacement};
pub use schedule::Schedule;
pub use share::{Action, Open, OpenFields, Part, Share};
pub use sizes::{Interpolation, MixturePart, SizeDistribution};
pub use spec::{
    Arrivals, ConnectionChoice, Format, Pattern, ReadMode, Traffic, Workload, WriteMode,
};
pub use times::TimeDistribution;
pub use transfer::{After, Kind, Moment, Transfer, TransferLine};
