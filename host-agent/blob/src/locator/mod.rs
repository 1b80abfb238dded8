//! The locator: the table, the names with their content, and who holds which tract.
//!
//! All that has to survive a crash is in [`Snapshot`]. A request returns its changes and its answer; the
//! answer may be sent, and the next request handled, once the changes are durable. Then whatever has been
//! answered stays true, and a crash forgets only what nobody has been told: open writes apart, which it
//! forgets as a whole, so that none of them takes effect any more.

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
