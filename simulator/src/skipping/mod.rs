//! Skips rounds of a workload that repeat each other (`docs/simulation.md`, Skipping).
//!
//! The state of the network is never changed: its clock, packets, queues and registers go on as if nothing had
//! happened. What is taken off is the last rounds of the workload, and the rest of the world comes nearer by the time
//! that they would have taken: what has not ended is from then on told as later rounds, at times that are later by what
//! has been skipped. Rounds that have been skipped are told as the last one that was simulated, each a period later.

mod jump;
mod rounds;
mod steadiness;
mod telling;

pub use jump::World;
pub use telling::{Skipping, Skips, Told};
