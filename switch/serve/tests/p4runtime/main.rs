//! The services over gRPC, as their clients see them. One executable: linking takes longer than most of the tests.

mod common;
mod one_switch;

mod digests;
mod entities;
mod fabric;
mod gnmi;
mod hostile;
mod limits;
mod preinitialized;
mod push;
mod reads;
mod roles;
mod session;
mod shared_address;
mod specification;
mod start;
mod stream;
mod trace;
mod traffic;
