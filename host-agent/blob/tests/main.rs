//! The store under faults, with a virtual clock. One executable: see `faults.rs`.

mod faults;
mod files;
mod history;
mod locator;
mod world;
