//! Switches and networks of an engine, as the services of `ebb-p4runtime` see them.
//!
//! Whoever runs the engine, under either clock, hands its [`ControlHandle`](ebb_engine::ControlHandle) to an
//! [`EngineDevice`] for each switch and to an [`EngineFabric`] for the network.

pub mod capture;
mod device;
mod fabric;
mod trace;

pub use device::EngineDevice;
pub use fabric::EngineFabric;
