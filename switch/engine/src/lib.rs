//! One engine, two clocks.
//!
//! ```text
//!  Switch      a pipeline, a traffic manager and the packet's ways between them
//!  network     switches, hosts, links with their state; partitions that run them in one event order
//!  simulation  runs the partitions of a network under a virtual clock, in conservative windows
//!  driver      runs the partitions of a network under the wall clock; its hosts are Linux interfaces
//! ```
//!
//! [`ControlHandle`] is how a server on another thread reaches the nodes under either clock.

#[cfg(test)]
extern crate self as ebb_engine;

mod capture;
mod config_file;
mod conservation;
mod control;
mod driver;
mod drops;
mod ecn;
mod lateness;
mod network;
mod prefetch;
mod report;
pub mod simulation;
mod switch;
pub mod trace;

pub use capture::create_anew;
pub use config_file::{FileError, read_config, read_traffic_manager_config};
pub use control::{Command, ControlHandle, ControlReceiver, Stopped, control_channel};
pub use driver::{Driver, DriverError, DriverOptions, Interface, Reception};
pub use drops::DropReason;
pub use lateness::LatenessReport;
pub use network::{
    Host, LinkInfo, LinkState, LinkStateError, Network, NetworkError, NodeId, NodePort,
    QueueSample, Work,
};
pub use report::{DropRow, SwitchReport, drop_table};
pub use switch::{Listener, MAX_COPIES, MAX_PASSES, Notice, PortId, Switch, SwitchOptions};
