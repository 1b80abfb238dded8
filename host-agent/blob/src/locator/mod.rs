//! The locator: the table, the names with their content, and who holds which tract.
//!
//! All that has to survive a crash is in [`Snapshot`]. A request returns its changes and its answer; the
//! answer may be sent, and the next request handled, once the changes are durable. So every
//! answer stays true after a crash, which loses only changes that nobody has seen, and all open writes: none
//! of them takes effect later.

mod catalog;
mod core;
mod questions;
mod replicas;
mod servers;
mod state;
mod writes;
mod writing;

pub use core::Locator;
pub use state::{Change, Config, ServerRecord, Snapshot};

pub(crate) use replicas::MAX_NAMED;
