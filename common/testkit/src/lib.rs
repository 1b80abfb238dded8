//! Common parts of tests: tests that are reported as ignored where something is missing ([`tests!`]), network
//! namespaces, processes and folders that go away with the test, waiting with a bound, and what Callgrind counts.
//!
//! Only tests use this crate.

mod folder;
mod instructions;
mod namespace;
mod needs;
mod process;
mod size;
mod waiting;

pub use folder::{Folder, names};
pub use instructions::counted;
pub use namespace::{Namespace, run};
pub use needs::{Need, Trial, run_trials, trial};
pub use process::{Process, Signal, free_address};
pub use size::{cases, is_long};
pub use waiting::{PATIENCE, wait_until};

/// A name that no other test of this machine has at the same time.
fn unique(what: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("ebb-test-{}-{count}-{what}", std::process::id())
}
