//! The messages of P4Info, P4Runtime, BF Runtime, gNMI and Ebb's own services, as Rust that prost has generated. The
//! services themselves, which need tonic, are in ebb-p4runtime.
//!
//! `make p4-proto` makes `src/generated` again, after a change of `proto/` or of finsy: its Python package has the
//! descriptors of P4Runtime, so the controller and we speak the same version. `make lint` fails until that is done
//! (`tools/protos.py`).

#[allow(clippy::all, clippy::doc_lazy_continuation)]
mod generated {
    include!("generated/messages.rs");
}

pub use generated::bfrt_proto as bf_runtime;
pub use generated::ebb::fabric::v1 as fabric;
pub use generated::ebb::tm::v1 as tm;
pub use generated::ebb::trace::v1 as trace;
pub use generated::gnmi;
pub use generated::gnmi_ext;
pub use generated::google::rpc;
pub use generated::p4::config::v1 as config;
pub use generated::p4::v1 as p4;

/// A `FileDescriptorSet` of all messages and services.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.fds");
