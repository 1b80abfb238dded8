//! Erasure codes of source blocks: the seam between the transports that code and their codes, and
//! the work of coding as jobs that any thread can do.

mod bits;
mod decode;
mod encode;
mod encoders;
mod erasure;
mod lt;
mod raptorq;
mod symbols;

pub use bits::Bits;
pub use decode::{DecodeJob, DecodeResult, Outcome};
pub use encode::{EncodeJob, EncodeResult};
pub use encoders::{Encoders, MAX_ENCODERS};
pub use erasure::BlockShape;
#[cfg(test)]
pub use erasure::Code;
pub use lt::{Lt, SENDER_SHIFT};
pub use raptorq::RaptorQ;
pub use symbols::Symbols;
