//! The data plane of Tofino: both gresses parse and deparse the packet, and metadata come in front of it.
//!
//! ```text
//! ingress metadata ─ port metadata ─ packet ─► ingress ─► bytes ─► queues
//!          egress metadata ─ bytes of ingress ─► egress ─► bytes ─► link
//! ```
//!
//! Names, widths and meanings are those of TNA; docs/porting-tofino.md lists what is a guess.

mod blocks;
mod control;
mod front;
mod passes;
mod pipes;
mod primitives;

pub(crate) use blocks::{Blocks, Gress, Half, MAX_PIPES, Requests, Tofino, place, tail};
