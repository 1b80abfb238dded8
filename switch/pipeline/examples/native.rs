//! The pipeline alone, without I/O: how long a packet takes in native code and interpreted, how often it
//! allocates, and how long a program loads.
//!
//! `cargo run -p ebb-pipeline --example native [PACKETS [native | interpreted]]`, for `fabric.p4` with routes,
//! classes, ECN threshold and phantom queue, and for a small IPv4 router (`tests/common/router.p4`); the frames are
//! full Ebb DATA, PULL and TCP in turn. A line of JSON for each. Native code and interpreter take turns batch by batch,
//! so that a loaded machine slows both down.
//!
//! On a loaded machine count instructions instead (`pipeline_instructions`).

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "common/command_line.rs"]
mod command_line;
#[path = "../tests/common/counting.rs"]
mod counting;
#[path = "../tests/common/fabric.rs"]
mod fabric;
#[path = "common/forwarding.rs"]
mod forwarding;
#[path = "../tests/common/frames.rs"]
mod frames;
#[path = "../tests/common/router.rs"]
mod router;

use std::process::ExitCode;
use std::time::Duration;

use command_line::EXECUTORS;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::ControlError;
use ebb_units::Instant;
use forwarding::Forwarding;
use serde_json::json;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 60;
/// Batches until all memory is there that the pipeline keeps.
const WARM_UP: u32 = 10;

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
    forwarding: Forwarding,
    fresh: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
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
        let mut forwarding = Forwarding::new(&program, executor, BATCH)?;
        let load = start.elapsed();
        (subject.install)(&mut forwarding.pipeline).map_err(|e| e.to_string())?;
        let mut frames = frames::frames()?;
        // The longest kind is a full packet; the payload's checksum is no business of a switch.
        frames[0].resize(1514, 0xeb);
        let frames: Vec<Vec<u8>> = frames.iter().cycle().take(BATCH).cloned().collect();
        Ok(Round {
            executor,
            forwarding,
            fresh: frames.clone(),
            frames,
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
        self.forwarding.ingress(now, &mut self.frames);
        let ingress_done = std::time::Instant::now();
        let sent = self.forwarding.egress(now, &mut self.frames, BATCH);
        let end = std::time::Instant::now();
        if self.batches >= WARM_UP {
            self.allocations += counting::allocations() - before;
        }
        self.ingress += ingress_done - start;
        self.egress += end - ingress_done;
        self.best = self.best.min((end - start) / BATCH as u32);
        self.batches += 1;
        sent?;
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
    command_line::main("native", 600_000, run)
}
