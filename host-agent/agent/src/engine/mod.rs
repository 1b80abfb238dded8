//! The engine of `docs/agent.md`: transports on one network interface, driven by one thread.

pub mod departures;
pub mod faults;
pub mod frame_paths;
pub mod histogram;
pub mod hypervisor;
pub mod last_packets;
pub mod lateness;
pub mod link;
pub mod params;
pub mod pauses;
pub mod runtime;
pub mod transports;
pub mod workers;
