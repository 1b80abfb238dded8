//! BF Runtime beside P4Runtime, for the clients of P4 Studio.
//!
//! A request becomes updates and reads of P4Runtime, and what these find becomes an answer: the data plane has one
//! control protocol, of which this is another spelling. Which table is which object of P4Info stands in the schema
//! that the compiler writes (`ebb-p4c --bf-rt-schema`). Clients need no arbitration, as with P4 Studio.

mod answer;
mod batch;
mod chip;
mod connectors;
mod copies;
mod entries;
mod filters;
mod generator;
mod groups;
mod hashes;
mod idle;
mod notices;
mod request;
mod rows;
mod schema;
mod service;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;

pub use schema::{Schema, SchemaError};
pub use service::Service;
