//! How long one hop takes in the pipeline: a frame in, through ingress and egress, a frame out.
//!
//! `cargo run --release -p ebb-pipeline --example hop [HOPS]`. The program is `fabric.p4` with routes, classes,
//! ECN threshold and phantom queue; the frames are full Ebb DATA, PULL and TCP in turn. The same frames go
//! round, so that what is not restored by the program (the TTL) is restored here.
//!
//! On a loaded machine count instructions instead, as the difference of two runs:
//! `valgrind --tool=callgrind .. HOPS`.

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
}

/// Copies of each kind in turn.
fn batch() -> Result<Vec<Vec<u8>>, String> {
    let mut frames = fabric::frames()?;
    // The longest kind is a full packet; the payload's checksum is no business of a switch.
    frames[0].resize(1514, 0xeb);
    Ok(frames.iter().cycle().take(BATCH).cloned().collect())
}

fn run(hops: usize) -> Result<(), String> {
    let mut pipeline = fabric::pipeline()?;
    let fresh = batch()?;
    let mut frames = fresh.clone();
    let mut spent = Spent::default();
    let mut queue = Vec::with_capacity(BATCH);
    let mut transmitted = 0;
    let batches = hops.div_ceil(BATCH);
    for batch in 0..batches {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros((batch * BATCH) as u64);
        let start = std::time::Instant::now();
        for frame in frames.drain(..) {
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
        for (egress_port, packet) in queue.drain(..) {
            let input = EgressInput {
                egress_port,
                ..EgressInput::default()
            };
            if let EgressVerdict::Transmit(frame) = pipeline.egress(now, packet, &input).verdict {
                frames.push(frame);
            }
        }
        spent.egress += ingress_done.elapsed();
        spent.ingress += ingress_done - start;
        transmitted += frames.len();
        if frames.len() != BATCH {
            return Err(format!("{} of {BATCH} frames were sent", frames.len()));
        }
        for (frame, fresh) in frames.iter_mut().zip(&fresh) {
            frame[..34].copy_from_slice(&fresh[..34]);
        }
    }
    let n = (batches * BATCH) as f64;
    let ns = |d: Duration| d.as_nanos() as f64 / n;
    println!(
        "ns/hop: ingress {:.0}, egress {:.0}, total {:.0}; {transmitted} hops",
        ns(spent.ingress),
        ns(spent.egress),
        ns(spent.ingress + spent.egress),
    );
    Ok(())
}

fn main() -> ExitCode {
    let hops = std::env::args().nth(1).map_or(Ok(600_000), |n| n.parse());
    let result = hops
        .map_err(|e| format!("usage: hop [HOPS]: {e}"))
        .and_then(run);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
