//! SCDP: a rateless, receiver-driven transport (`docs/scdp.md`).

mod decode;

pub use decode::{DecodeJob, DecodeResult};
