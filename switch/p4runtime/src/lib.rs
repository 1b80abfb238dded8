//! The P4Runtime service and Ebb's traffic-manager service.

pub mod proto;
