//! Hosts switches and the links between them and drives them under a clock.
//!
//! * [`Switch`]: a pipeline and a traffic manager, and the packet's ways between them.
//! * [`Fabric`]: any number of switches and links with one event queue; sans-IO, deterministic.
//! * [`Driver`]: runs a fabric under the wall clock with external ports on Linux interfaces.
//! * [`simulation::Simulation`]: switches and hosts under a virtual clock, on several cores.
//! * [`ControlHandle`]: how a server on another thread reaches a running switch.

mod config_file;
mod driver;
mod drops;
mod ecn;
mod event_queue;
mod fabric;
mod report;
pub mod simulation;
mod switch;

pub use config_file::{FileError, read_config, read_traffic_manager_config};
pub use driver::{
    Command, ControlHandle, ControlReceiver, Driver, DriverError, Stopped, control_channel,
};
pub use drops::DropReason;
pub use fabric::{Endpoint, Fabric, Output, SwitchId, WiringError};
pub use report::{DropRow, SwitchReport, drop_table};
pub use switch::{Listener, MAX_PASSES, Notice, PortId, Switch, SwitchOptions};
