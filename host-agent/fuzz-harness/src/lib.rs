//! Invariants of the hosts under hostile input, as functions of arbitrary bytes.
//!
//! The same functions are called by the fuzz targets (`host-agent/fuzz`) and, with fewer inputs, by
//! `cargo test` (`tests/`). Each panics when an invariant breaks:
//!
//! | function | bytes become | invariants |
//! |---|---|---|
//! | [`wire`] | one packet | no parser panics; what parses survives being written and read again |
//! | [`stream_head`] | the beginning of a stream, in pieces | no panic; no content from what is no envelope; pieces do not matter |
//! | [`blind`] | packets of strangers to a host with sessions of its own | no panic, bounded answers without content, its sessions arrive unharmed, and nothing is left behind |
//! | [`on_path`] | damage to the packets of its sessions, pauses, aborts | no panic, bounded output, every session ends, and nothing is left behind |
//! | [`together`] | the same, to sessions with more than two ends: a write to a group and a read from several hosts | the same |
//!
//! With inputs of odd length the applications of both hosts confirm what they received only after
//! a while; with half of all lengths the connections of TCP stay open, with half of those and of the
//! others SYNs carry data. The same two say the mode of Trevi, and a third of all lengths each has one of
//! its policies for stragglers.

mod attack;
mod forge;
mod parsers;
mod world;

pub use attack::{blind, on_path, together};
pub use parsers::{stream_head, wire};
