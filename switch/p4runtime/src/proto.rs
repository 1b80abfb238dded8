//! The generated messages and services.

#[allow(clippy::all, clippy::doc_lazy_continuation)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}

pub use generated::ebb::fabric::v1 as fabric;
pub use generated::ebb::tm::v1 as tm;
pub use generated::ebb::trace::v1 as trace;
pub use generated::google::rpc;
pub use generated::p4::config::v1 as config;
pub use generated::p4::v1 as p4;

/// The descriptors of all messages, for P4Info as text and for the shapes of messages.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.fds"));
