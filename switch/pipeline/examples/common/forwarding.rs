//! Batches of frames through a pipeline, for measurements.

use ebb_bmv2_json::Program;
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline};
use ebb_units::Instant;

/// A pipeline, and the packets between its ingress and its egress.
pub struct Forwarding {
    pub pipeline: Pipeline,
    queue: Vec<(u16, Box<Packet>)>,
}

impl Forwarding {
    /// Loads a program, to be executed `native` or `interpreted`; `batch` is how many packets pass at a time.
    pub fn new(program: &Program, executor: &str, batch: usize) -> Result<Self, String> {
        let load = match executor {
            "native" => Pipeline::load,
            _ => Pipeline::load_interpreted,
        };
        Ok(Self {
            pipeline: load(program).map_err(|e| e.to_string())?,
            queue: Vec::with_capacity(batch),
        })
    }

    /// Takes the frames in.
    pub fn ingress(&mut self, now: Instant, frames: &mut Vec<Vec<u8>>) {
        for frame in frames.drain(..) {
            let outcome = self.pipeline.ingress(now, frame, &IngressInput::default());
            if let IngressVerdict::Unicast {
                egress_spec,
                packet,
                ..
            } = outcome.verdict
            {
                self.queue.push((egress_spec, packet));
            }
        }
    }

    /// Lets the packets out that were taken in; fails if they are not `expected`.
    pub fn egress(
        &mut self,
        now: Instant,
        frames: &mut Vec<Vec<u8>>,
        expected: usize,
    ) -> Result<(), String> {
        for (egress_port, packet) in self.queue.drain(..) {
            let input = EgressInput {
                egress_port,
                ..EgressInput::default()
            };
            let verdict = self.pipeline.egress(now, packet, &input).verdict;
            if let EgressVerdict::Transmit(frame) = verdict {
                frames.push(frame);
            }
        }
        match frames.len() == expected {
            true => Ok(()),
            false => Err(format!("{} of {expected} frames were sent", frames.len())),
        }
    }
}
