//! State that a control plane can read and change.
//!
//! Objects have the names of the BMv2 JSON, which are the P4 names that P4Runtime uses. A name is
//! turned into a handle once; everything else takes the handle.

mod error;
mod hashes;
mod liveness;
mod profiles;
mod replication;
mod schema;
mod state;
mod tables;
mod types;

pub use error::*;
pub(crate) use profiles::bind;
pub use types::*;
