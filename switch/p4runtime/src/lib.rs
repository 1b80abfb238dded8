//! The P4Runtime service of a switch with gNMI and Ebb's traffic-manager service beside it, and the fabric service of
//! the network it is part of.
//!
//! [`Server::bind`] takes the addresses, [`Server::serve`] serves one [`Device`] on each. A device
//! is whatever can run a [`Job`] in the thread that owns a [`Switch`]; a [`Fabric`] is whoever has
//! them all and the links between them.
//!
//! ```text
//! service ─ stream ─► served_device (streams, arbitration, configs) ─► device ─► switch thread:
//!                                                  forwarding ─► entities ─► store, pipeline
//! programs (what the switches share)
//! ```
//!
//! A batch of updates runs between two packets. "Spec" in comments is the P4Runtime Specification.

mod answer;
mod arbitration;
mod bf_runtime;
mod by_device;
mod bytes;
mod calls;
mod codec;
mod connections;
mod device;
mod digests;
mod entities;
mod error;
mod fabric;
#[cfg(test)]
#[path = "../tests/fixture/mod.rs"]
mod fixture;
mod forwarding;
mod gnmi;
mod lock;
mod mailbox;
mod offline;
mod p4_data;
mod p4info;
mod packet_io;
mod plain;
mod preload;
mod private_socket;
mod programs;
pub mod proto;
mod quote;
mod role;
mod samples;
mod served_device;
mod server;
mod service;
mod sessions;
mod shapes;
mod store;
mod stream;
mod tls;
mod trace;
mod traffic;
mod translation;

pub use arbitration::Arbitration;
pub use bf_runtime::{Schema, SchemaError};
pub use device::{Device, Event, Job, Lateness, PortState, Switch, TraceRequest, TraceSink};
pub use error::EntityError;
pub use fabric::{Fabric, Layout, LinkEnd, Node, SwitchInfo};
pub use offline::Offline;
pub use plain::Plain;
pub use preload::{PreloadError, ProgramFiles, read_config};
pub use server::{MAX_MESSAGE_BYTES, ServeError, Server};
pub use sessions::Sessions;
pub use tls::{TlsError, TlsFiles};
