//! The machine that the agent runs on: clocks, signals, files, addresses, routes, and what keeps
//! the kernel and other agents out of its way.

pub mod clock;
pub mod interface;
mod ip_command;
pub mod kernel_rules;
pub mod next_hop;
pub mod objects;
pub mod port_lock;
pub mod signals;
pub mod waker;
