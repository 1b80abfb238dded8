//! The harness with inputs of several kinds. One executable: linking takes longer than most of the tests.

mod calls;
mod corpora;
mod generated;
mod invariants;
mod protobuf;
