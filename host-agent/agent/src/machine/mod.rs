//! The machine that the agent runs on: clocks, signals, files, addresses, routes, and what keeps
//! the kernel and other agents out of its way.

pub mod clock;
pub mod files;
pub mod folder;
pub mod interface;
mod ip_command;
pub mod kernel_rules;
pub mod lock;
pub mod next_hop;
pub mod port_lock;
pub mod signals;
pub mod waker;
pub mod warning_limit;
