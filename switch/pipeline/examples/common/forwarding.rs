//! Batches of frames through a pipeline, for measurements; and their command line.

use std::process::ExitCode;

use ebb_bmv2_json::Program;
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline};
use ebb_units::Instant;

pub const EXECUTORS: [&str; 2] = ["native", "interpreted"];

/// A pipeline, and the packets between its ingress and its egress.
pub struct Forwarding {
    pub pipeline: Pipeline,
    queue: Vec<(u16, Box<Packet>)>,
}

impl Forwarding {
    /// Loads a program for one of the [`EXECUTORS`]; `batch` is how many packets pass at a time.
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

/// The `main` of an example with the arguments `[PACKETS [native | interpreted]]`: how many packets, `packets` if
/// nobody says, and through which executor (none: nobody says).
pub fn main(
    name: &str,
    packets: usize,
    run: fn(usize, Option<&str>) -> Result<(), String>,
) -> ExitCode {
    // `cargo test` builds examples too, and leaves them in the same folder.
    if cfg!(debug_assertions) {
        eprintln!("{name}: built by cargo test, without optimisation; start it with cargo run");
        return ExitCode::FAILURE;
    }
    let usage = format!("usage: {name} [PACKETS [native | interpreted]]");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only = match args.get(1).map(String::as_str) {
        Some(other) if !EXECUTORS.contains(&other) => Err(format!("{usage}: what is '{other}'?")),
        only => Ok(only),
    };
    let packets = match args.first() {
        None => Ok(packets),
        Some(n) => n.parse().map_err(|e| format!("{usage}: {n}: {e}")),
    };
    match packets.and_then(|packets| run(packets, only?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
