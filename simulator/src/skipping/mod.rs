//! Skips rounds of a workload that repeat each other (`docs/simulation.md`, Skipping).
//!
//! A jump changes no state of the network: clock, packets, queues and registers stay as they are. It removes the last
//! rounds of the workload from the schedule, and everything that is still due from outside is due earlier by the time
//! that these rounds would have taken. Transfers that end later are then reported with the numbers of later rounds, at
//! times that are later by what has been skipped; skipped rounds are reported as copies of the last one that was
//! simulated, each a period later.

mod jump;
mod notices;
mod rounds;
mod steadiness;

pub use jump::World;
pub use notices::{HostNotice, Skipping, Skips};
