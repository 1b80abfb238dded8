//! The v1model pipeline: parser, match-action, deparser and their control-plane state, without I/O or clock.
#![allow(unused)]
pub mod control;
mod ids;
mod outcome;
mod packet;

use control::*;
use ebb_units::{Duration, Instant};
pub use ids::*;
pub use outcome::*;
pub use packet::{Packet, Preserved};

/// Why a program cannot be loaded; names the object.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct LoadError {
    pub object: String,
    pub problem: String,
}

pub struct Pipeline {
    _p: (),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineStats {
    pub parsed: u64,
}

impl Pipeline {
    pub fn load(program: &ebb_bmv2_json::Program) -> Result<Pipeline, LoadError> {
        unimplemented!("the next commit")
    }
    /// Seeds `random()` and the selectors; the default seed is 0.
    pub fn set_seed(&mut self, seed: u64) {
        unimplemented!("the next commit")
    }
    /// 511 unless set (`--drop-port`).
    pub fn set_drop_port(&mut self, port: u16) {
        unimplemented!("the next commit")
    }
    pub fn ingress(&mut self, now: Instant, frame: &[u8], input: &IngressInput) -> IngressOutcome {
        unimplemented!("the next commit")
    }
    /// Appends nothing: `out` is cleared, then holds the deparsed frame unless dropped.
    pub fn egress(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        input: &EgressInput,
        out: &mut Vec<u8>,
    ) -> EgressOutcome {
        unimplemented!("the next commit")
    }
    /// Checksums updated; `out` is cleared first. Also right after ingress (deflection).
    pub fn deparse(&mut self, packet: &mut Packet, out: &mut Vec<u8>) {
        unimplemented!("the next commit")
    }
    /// A replica, from pooled memory.
    pub fn clone_packet(&mut self, packet: &Packet) -> Packet {
        unimplemented!("the next commit")
    }
    /// Gives a packet's memory back to the pool (dropping it is fine too, but allocates again).
    pub fn recycle(&mut self, packet: Packet) {
        unimplemented!("the next commit")
    }
    /// v1model `priority`: the queue.
    pub fn priority(&self, packet: &Packet) -> u8 {
        unimplemented!("the next commit")
    }
    pub fn multicast_replicas(&self, group: u16) -> &[Replica] {
        unimplemented!("the next commit")
    }
    pub fn clone_session(&self, session: u32) -> Option<&CloneSession> {
        unimplemented!("the next commit")
    }
    pub fn stats(&self) -> &PipelineStats {
        unimplemented!("the next commit")
    }
}
