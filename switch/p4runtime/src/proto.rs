//! The messages, and the generated services that carry them.

pub use ebb_p4_proto::{config, gnmi_ext, rpc};

/// Clients and servers of a package beside its messages.
macro_rules! with_services {
    ($package:ident, $file:literal) => {
        #[allow(missing_docs, clippy::all, clippy::doc_lazy_continuation)]
        pub mod $package {
            pub use ebb_p4_proto::$package::*;
            include!(concat!("services/", $file));
        }
    };
}

with_services!(bf_runtime, "bfrt_proto.rs");
with_services!(fabric, "ebb.fabric.v1.rs");
with_services!(gnmi, "gnmi.rs");
with_services!(p4, "p4.v1.rs");
with_services!(tm, "ebb.tm.v1.rs");
with_services!(trace, "ebb.trace.v1.rs");
