//! The harness with inputs of three kinds. One executable: linking takes longer than most of the tests.

mod corpora;
mod found;
mod invariants;
