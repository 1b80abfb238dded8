//! One engine for two clocks: networks of switches, hosts and links, run under a virtual clock here
//! or under the wall clock by the crate `ebb-driver`.
//!
//! ```text
//!  Switch      a pipeline, a traffic manager and the packet's ways between them
//!  network     switches, hosts, links with their state; partitions that run them in one event order
//!  simulation  runs the partitions of a network under a virtual clock, in conservative windows
//!  drive       what another clock needs to run them: that of the machine, in the crate ebb-driver
//! ```
//!
//! [`ControlHandle`] is how a server on another thread reaches the nodes under either clock. The
//! crate is sans-IO: it uses no clock, socket or file, and captured frames go to a [`FrameSink`].

mod capture;
mod conservation;
mod control;
pub mod drive;
mod drops;
mod ecn;
mod lateness;
mod network;
mod prefetch;
mod report;
pub mod simulation;
mod switch;
pub mod trace;

pub use capture::{Direction, FrameSink, OpenSink};
pub use control::{Command, ControlHandle, ControlReceiver, Stopped, control_channel};
pub use drops::DropReason;
pub use lateness::LatenessReport;
pub use network::{
    Host, LinkInfo, LinkState, LinkStateError, Network, NetworkError, NodeId, NodePort,
    QueueSample, Work,
};
pub use report::{DropRow, SwitchReport, drop_table};
pub use switch::{Listener, MAX_COPIES, MAX_PASSES, Notice, PortId, Switch, SwitchOptions};
