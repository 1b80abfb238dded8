//! The pipelines of v1model and of Tofino: parser, match-action, deparser and the state that the control plane sets.
//! It uses no I/O and no clock.
//!
//! [`Pipeline::load`] takes a BMv2 JSON program. A frame goes through [`Pipeline::ingress`], which
//! returns its outcome; the traffic manager queues the packet; [`Pipeline::egress`] turns it into a
//! frame again. The module [`control`] has the functions of a P4Runtime server. The behaviour is that of
//! BMv2's `simple_switch`. Where P4 leaves something undefined, the result is zero or nothing, and
//! always the same.

// With this name the tests here and the integration tests share fixtures.
#[cfg(test)]
extern crate self as ebb_pipeline;

pub mod control;

mod action;
mod bits;
mod by_id;
mod calculation;
mod crc_catalogue;
mod drop_reason;
mod dynamic_hash;
mod error;
mod expr;
mod filter;
#[cfg(test)]
#[path = "../tests/fixture.rs"]
mod fixture;
mod flow;
mod frames;
mod free_list;
mod front;
pub mod generator;
mod hash;
mod ids;
mod journey;
mod layout;
mod machine;
mod math_unit;
mod names;
mod native;
#[cfg(test)]
mod oracle_tests;
mod order;
mod outcome;
mod packet;
#[cfg(test)]
mod panic_tests;
mod parser;
mod pipeline;
mod profile;
mod program;
mod psa;
mod slot;
mod state;
mod stateful;
mod stats;
mod table;
mod tofino;
pub mod trace;
mod wire;

pub use drop_reason::DropReason;
pub use dynamic_hash::{HashConfig, HashField, HashFunction, HashSlice};
pub use error::LoadError;
pub use frames::Frames;
pub use ids::*;
pub use journey::{Journey, Lineage, MAX_COPIES};
pub use outcome::*;
pub use packet::{Packet, PacketField, Pool, Preserved};
pub use pipeline::Pipeline;
pub use program::Program;
pub use stats::PipelineStats;
