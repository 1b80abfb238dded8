//! The P4Runtime service and Ebb's traffic-manager service.

pub mod arbitration;
pub mod bytes;
pub mod entities;
pub mod error;
pub mod p4info;
pub mod proto;
pub mod store;
