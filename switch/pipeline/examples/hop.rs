//! How long one hop takes in the pipeline: a frame in, through ingress and egress, a frame out.
//!
//! `cargo run -p ebb-pipeline --example hop [HOPS [SWITCHES [QUEUED]]]`. The program is `fabric.p4` with
//! routes, classes, ECN threshold and phantom queue; the frames are full Ebb DATA, PULL and TCP in turn. Many
//! switches (default 1) with packets that wait between ingress and egress (default 60 in each) show what the
//! caches do. The same frames go round; what the program changes in them is put right outside the measurement.
//!
//! On a loaded machine count instructions instead, as the difference of two runs:
//! `valgrind --tool=callgrind .. HOPS`; or misses, `valgrind --tool=cachegrind --cache-sim=yes ..`.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../tests/common/fabric.rs"]
mod fabric;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use ebb_pipeline::{
    EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline, Pool, Program,
};
use ebb_units::Instant;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 60;

/// More than what the program can have changed.
const HEADERS_BYTES: usize = 100;

#[derive(Default)]
struct Spent {
    ingress: Duration,
    egress: Duration,
}

/// One of the switches, and its packets between ingress and egress.
struct Switch {
    pipeline: Pipeline,
    queue: VecDeque<(u16, Box<Packet>)>,
}

impl Switch {
    fn ingress(&mut self, now: Instant, frame: Vec<u8>) -> Result<(), String> {
        let input = IngressInput::default();
        match self.pipeline.ingress(now, frame, &input).verdict {
            IngressVerdict::Unicast {
                egress_spec,
                packet,
                ..
            } => self.queue.push_back((egress_spec, packet)),
            other => return Err(format!("a frame was not forwarded: {other:?}")),
        }
        Ok(())
    }

    fn egress(&mut self, now: Instant) -> Result<Vec<u8>, String> {
        let (egress_port, packet) = self.queue.pop_front().ok_or("no packet waits")?;
        let input = EgressInput {
            egress_port,
            ..EgressInput::default()
        };
        match self.pipeline.egress(now, packet, &input).verdict {
            EgressVerdict::Transmit(frame) => Ok(frame),
            other => Err(format!("a frame was not sent: {other:?}")),
        }
    }
}

/// Copies of each kind in turn, full packets among them.
fn some_frames(n: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut frames = fabric::frames()?;
    // The payload's checksum is no business of a switch.
    frames[0].resize(1514, 0xeb);
    Ok(frames.iter().cycle().take(n).cloned().collect())
}

fn run([hops, switches, queued]: [usize; 3]) -> Result<(), String> {
    let program = Program::load(&fabric::program()?).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    let mut pool = Pool::default();
    let fresh = some_frames(BATCH)?;
    for _ in 0..switches {
        let mut pipeline = Pipeline::new(program.clone());
        fabric::install(&mut pipeline).map_err(|e| e.to_string())?;
        let mut switch = Switch {
            pipeline,
            queue: VecDeque::new(),
        };
        for frame in some_frames(queued)? {
            switch.ingress(Instant::ZERO, frame)?;
        }
        all.push(switch);
    }
    let mut frames = fresh.clone();
    let mut spent = Spent::default();
    let batches = hops.div_ceil(BATCH);
    for batch in 0..batches {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros((batch * BATCH) as u64);
        let switch = &mut all[batch.wrapping_mul(0x9e37_79b9) % switches];
        let start = std::time::Instant::now();
        switch.pipeline.exchange_pool(&mut pool);
        for frame in frames.drain(..) {
            switch.ingress(now, frame)?;
        }
        let ingress_done = std::time::Instant::now();
        for _ in 0..BATCH {
            frames.push(switch.egress(now)?);
        }
        switch.pipeline.exchange_pool(&mut pool);
        spent.egress += ingress_done.elapsed();
        spent.ingress += ingress_done - start;
        for (frame, fresh) in frames.iter_mut().zip(&fresh) {
            frame.resize(fresh.len(), 0);
            let headers = fresh.len().min(HEADERS_BYTES);
            frame[..headers].copy_from_slice(&fresh[..headers]);
        }
    }
    let n = (batches * BATCH) as f64;
    let ns = |d: Duration| d.as_nanos() as f64 / n;
    println!(
        "ns/hop: ingress {:.0}, egress {:.0}, total {:.0}; {n} hops, {switches} switches",
        ns(spent.ingress),
        ns(spent.egress),
        ns(spent.ingress + spent.egress),
    );
    Ok(())
}

fn main() -> ExitCode {
    let mut sizes = [600_000, 1, BATCH];
    for (size, arg) in sizes.iter_mut().zip(std::env::args().skip(1)) {
        match arg.parse() {
            Ok(n) if n > 0 => *size = n,
            _ => {
                eprintln!("usage: hop [HOPS [SWITCHES [QUEUED]]], each at least 1; not {arg}");
                return ExitCode::from(2);
            }
        }
    }
    match run(sizes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
