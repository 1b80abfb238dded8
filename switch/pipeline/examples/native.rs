//! The pipeline alone, without I/O: how long a packet takes in native code and interpreted, how often it
//! allocates, and how long a program loads.
//!
//! `cargo run -p ebb-pipeline --example native [PACKETS [native | interpreted]]`, for `fabric.p4` with the
//! entries and frames of the example `hop`, and for a small IPv4 router (`tests/common/router.p4`) with the same
//! frames. A line of JSON for each. Native code and interpreter take turns batch by batch, so that a loaded machine
//! slows both down.
//!
//! On a loaded machine count instructions instead, as the difference of two runs:
//! `valgrind --tool=callgrind .. PACKETS native`.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../tests/common/counting.rs"]
mod counting;
#[path = "../tests/common/fabric.rs"]
mod fabric;
#[path = "../tests/common/router.rs"]
mod router;

use std::process::ExitCode;
use std::time::Duration;

use ebb_pipeline::control::ControlError;
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline};
use ebb_units::Instant;
use serde_json::json;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 60;
/// Batches until all memory is there that the pipeline keeps.
const WARM_UP: u32 = 10;

const EXECUTORS: [&str; 2] = ["native", "interpreted"];
const USAGE: &str = "usage: native [PACKETS [native | interpreted]]";

/// A program with its entries.
struct Subject {
    name: &'static str,
    program: fn() -> Result<ebb_bmv2_json::Program, String>,
    install: fn(&mut Pipeline) -> Result<(), ControlError>,
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        name: "fabric",
        program: fabric::program,
        install: fabric::install,
    },
    Subject {
        name: "router",
        program: router::program,
        install: router::install,
    },
];

/// A switch, and frames that go round in it.
struct Round {
    executor: &'static str,
    pipeline: Pipeline,
    fresh: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
    queue: Vec<(u16, Box<Packet>)>,
    load: Duration,
    ingress: Duration,
    egress: Duration,
    /// Time of a packet in the quickest batch.
    best: Duration,
    batches: u32,
    allocations: u64,
}

impl Round {
    fn new(subject: &Subject, executor: &'static str) -> Result<Round, String> {
        let program = (subject.program)()?;
        let start = std::time::Instant::now();
        let load = match executor {
            "native" => Pipeline::load,
            _ => Pipeline::load_interpreted,
        };
        let mut pipeline = load(&program).map_err(|e| e.to_string())?;
        let load = start.elapsed();
        (subject.install)(&mut pipeline).map_err(|e| e.to_string())?;
        let mut frames = fabric::frames()?;
        // The longest kind is a full packet; the payload's checksum is no business of a switch.
        frames[0].resize(1514, 0xeb);
        let frames: Vec<Vec<u8>> = frames.iter().cycle().take(BATCH).cloned().collect();
        Ok(Round {
            executor,
            pipeline,
            fresh: frames.clone(),
            frames,
            queue: Vec::with_capacity(BATCH),
            load,
            ingress: Duration::ZERO,
            egress: Duration::ZERO,
            best: Duration::MAX,
            batches: 0,
            allocations: 0,
        })
    }

    fn batch(&mut self) -> Result<(), String> {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros(u64::from(self.batches) * BATCH as u64);
        let before = counting::allocations();
        let start = std::time::Instant::now();
        for frame in self.frames.drain(..) {
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
        let ingress_done = std::time::Instant::now();
        for (egress_port, packet) in self.queue.drain(..) {
            let input = EgressInput {
                egress_port,
                ..EgressInput::default()
            };
            let verdict = self.pipeline.egress(now, packet, &input).verdict;
            if let EgressVerdict::Transmit(frame) = verdict {
                self.frames.push(frame);
            }
        }
        let end = std::time::Instant::now();
        if self.batches >= WARM_UP {
            self.allocations += counting::allocations() - before;
        }
        self.ingress += ingress_done - start;
        self.egress += end - ingress_done;
        self.best = self.best.min((end - start) / BATCH as u32);
        self.batches += 1;
        if self.frames.len() != BATCH {
            return Err(format!("{} of {BATCH} frames were sent", self.frames.len()));
        }
        for (frame, fresh) in self.frames.iter_mut().zip(&self.fresh) {
            frame[..34].copy_from_slice(&fresh[..34]);
        }
        Ok(())
    }

    fn ns_per_packet(&self, spent: Duration) -> f64 {
        spent.as_nanos() as f64 / f64::from(self.batches) / BATCH as f64
    }

    fn report(&self, program: &str) {
        let line = json!({
            "program": program,
            "executor": self.executor,
            "packets": self.batches as usize * BATCH,
            "ingress_ns": self.ns_per_packet(self.ingress),
            "egress_ns": self.ns_per_packet(self.egress),
            "quickest_batch_ns": self.best.as_nanos() as u64,
            "counted_packets": self.batches.saturating_sub(WARM_UP) as usize * BATCH,
            "allocations": self.allocations,
            "load_ms": self.load.as_secs_f64() * 1e3,
        });
        println!("{line}");
    }
}

fn run(packets: usize, only: Option<&str>) -> Result<(), String> {
    for subject in &SUBJECTS {
        let mut rounds = EXECUTORS
            .into_iter()
            .filter(|name| only.is_none_or(|only| only == *name))
            .map(|executor| Round::new(subject, executor))
            .collect::<Result<Vec<_>, String>>()?;
        for _ in 0..packets.div_ceil(BATCH) {
            rounds.iter_mut().try_for_each(Round::batch)?;
        }
        rounds.iter().for_each(|round| round.report(subject.name));
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only = match args.get(1).map(String::as_str) {
        None => Ok(None),
        Some(name) if EXECUTORS.contains(&name) => Ok(Some(name)),
        Some(other) => Err(format!("{USAGE}: what is '{other}'?")),
    };
    let packets = match args.first() {
        None => Ok(600_000),
        Some(n) => n.parse().map_err(|e| format!("{USAGE}: {n}: {e}")),
    };
    match packets.and_then(|packets| run(packets, only?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
