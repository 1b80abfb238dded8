//! Native code against the interpreter: how long a hop takes in the pipeline, and how long a program loads.
//!
//! `cargo run --release -p ebb-pipeline --example native [HOPS [native | interpreted]]`. Program, entries and frames
//! are those of the example `hop`. The two take turns batch by batch, so that a loaded machine slows both down.
//!
//! On a loaded machine count instructions instead, as the difference of two runs:
//! `valgrind --tool=callgrind .. HOPS native`.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../tests/common/fabric.rs"]
mod fabric;

use std::process::ExitCode;
use std::time::Duration;

use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline};
use ebb_units::Instant;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 60;

const USAGE: &str = "usage: native [HOPS [native | interpreted]]";

/// A switch, and frames that go round in it.
struct Round {
    name: &'static str,
    pipeline: Pipeline,
    fresh: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
    queue: Vec<(u16, Box<Packet>)>,
    load: Duration,
    ingress: Duration,
    egress: Duration,
    /// Of a hop in the quickest batch.
    best: Duration,
    batches: u32,
}

impl Round {
    fn new(name: &'static str) -> Result<Round, String> {
        let program = fabric::program()?;
        let start = std::time::Instant::now();
        let load = match name {
            "native" => Pipeline::load,
            _ => Pipeline::load_interpreted,
        };
        let mut pipeline = load(&program).map_err(|e| e.to_string())?;
        let load = start.elapsed();
        fabric::install(&mut pipeline).map_err(|e| e.to_string())?;
        let mut frames = fabric::frames()?;
        // The longest kind is a full packet; the payload's checksum is no business of a switch.
        frames[0].resize(1514, 0xeb);
        let frames: Vec<Vec<u8>> = frames.iter().cycle().take(BATCH).cloned().collect();
        Ok(Round {
            name,
            pipeline,
            fresh: frames.clone(),
            frames,
            queue: Vec::with_capacity(BATCH),
            load,
            ingress: Duration::ZERO,
            egress: Duration::ZERO,
            best: Duration::MAX,
            batches: 0,
        })
    }

    fn batch(&mut self) -> Result<(), String> {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros(u64::from(self.batches) * BATCH as u64);
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

    fn ns_per_hop(&self, spent: Duration) -> f64 {
        spent.as_nanos() as f64 / f64::from(self.batches) / BATCH as f64
    }

    fn total(&self) -> f64 {
        self.ns_per_hop(self.ingress + self.egress)
    }

    fn report(&self) {
        println!(
            "{:<11} {:.0} ns/hop: ingress {:.0}, egress {:.0}; quickest batch {}; loaded in {:.0} ms",
            self.name,
            self.total(),
            self.ns_per_hop(self.ingress),
            self.ns_per_hop(self.egress),
            self.best.as_nanos(),
            self.load.as_secs_f64() * 1e3,
        );
    }
}

fn run(hops: usize, only: Option<&str>) -> Result<(), String> {
    let mut rounds = ["native", "interpreted"]
        .into_iter()
        .filter(|name| only.is_none_or(|only| only == *name))
        .map(Round::new)
        .collect::<Result<Vec<_>, String>>()?;
    for _ in 0..hops.div_ceil(BATCH) {
        rounds.iter_mut().try_for_each(Round::batch)?;
    }
    rounds.iter().for_each(Round::report);
    if let [native, interpreted] = rounds.as_slice() {
        println!("{:.1} times as fast", interpreted.total() / native.total());
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only = match args.get(1).map(String::as_str) {
        None => Ok(None),
        Some(name @ ("native" | "interpreted")) => Ok(Some(name)),
        Some(other) => Err(format!("{USAGE}: what is '{other}'?")),
    };
    let hops = match args.first() {
        None => Ok(600_000),
        Some(n) => n.parse().map_err(|e| format!("{USAGE}: {n}: {e}")),
    };
    match hops.and_then(|hops| run(hops, only?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
