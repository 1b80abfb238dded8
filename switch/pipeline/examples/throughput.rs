//! How long one packet takes from ingress to deparsed frame.
//!
//! `cargo run --release -p ebb-pipeline --example throughput [PACKETS]`. The program is `fabric.p4` with
//! routes, classes, ECN threshold and phantom queue; the frames are Ebb DATA, PULL and TCP in turn.
//!
//! On a loaded machine count instructions instead, of each stage by itself, as the difference of two runs:
//! `valgrind --tool=callgrind --toggle-collect=ebb_pipeline::pipeline::Pipeline::ingress .. PACKETS`.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../tests/common/fabric.rs"]
mod fabric;

use std::process::ExitCode;
use std::time::Duration;

use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict};
use ebb_units::Instant;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 60;

#[derive(Default)]
struct Spent {
    ingress: Duration,
    egress: Duration,
    deparse: Duration,
}

fn run(packets: usize) -> Result<(), String> {
    let mut pipeline = fabric::pipeline()?;
    let frames = fabric::frames()?;
    let mut spent = Spent::default();
    let mut queue = Vec::with_capacity(BATCH);
    let mut out = Vec::new();
    let mut transmitted = 0;
    let batches = packets.div_ceil(BATCH);
    for batch in 0..batches {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros((batch * BATCH) as u64);
        let start = std::time::Instant::now();
        for frame in frames.iter().cycle().take(BATCH) {
            let outcome = pipeline.ingress(now, frame, &IngressInput::default());
            if let IngressVerdict::Unicast {
                egress_spec,
                packet,
                ..
            } = outcome.verdict
            {
                queue.push((egress_spec, packet));
            }
        }
        let ingress_done = std::time::Instant::now();
        for (egress_port, packet) in &mut queue {
            let input = EgressInput {
                egress_port: *egress_port,
                ..EgressInput::default()
            };
            let outcome = pipeline.egress(now, packet, &input, &mut out);
            transmitted += usize::from(matches!(outcome.verdict, EgressVerdict::Transmit));
        }
        let egress_done = std::time::Instant::now();
        for (_, packet) in &mut queue {
            pipeline.deparse(packet, &mut out);
        }
        spent.deparse += egress_done.elapsed();
        spent.egress += egress_done - ingress_done;
        spent.ingress += ingress_done - start;
        for (_, packet) in queue.drain(..) {
            pipeline.recycle(packet);
        }
    }
    let n = (batches * BATCH) as f64;
    let ns = |d: Duration| d.as_nanos() as f64 / n;
    println!(
        "ns/packet: ingress {:.0}, egress {:.0} (of which deparse {:.0}), total {:.0}; {transmitted} of {n} transmitted",
        ns(spent.ingress),
        ns(spent.egress),
        ns(spent.deparse),
        ns(spent.ingress + spent.egress),
    );
    Ok(())
}

fn main() -> ExitCode {
    let packets = std::env::args().nth(1).map_or(Ok(600_000), |n| n.parse());
    let result = packets
        .map_err(|e| format!("usage: throughput [PACKETS]: {e}"))
        .and_then(run);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
