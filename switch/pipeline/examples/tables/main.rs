//! How much full tables cost: `router.p4` with routes, an access list that matches nothing and groups, against the
//! same program with empty tables.
//!
//! `cargo run -p ebb-pipeline --example tables [PACKETS [native | interpreted]]` prints a
//! line of JSON. The two take turns, batch by batch, so that a loaded machine slows both down;
//! flows are met at random.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

mod entries;

use std::process::ExitCode;
use std::time::{Duration, Instant as Clock};

use ebb_bmv2_json::Program;
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Packet, Pipeline};
use ebb_units::Instant;
use entries::{Random, flows, install};
use serde_json::json;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 64;
const USAGE: &str = "usage: tables [PACKETS [native | interpreted]]";

struct Side {
    pipeline: Pipeline,
    /// Memory of frames.
    frames: Vec<Vec<u8>>,
    queue: Vec<(u16, Box<Packet>)>,
    /// Nanoseconds per packet of each batch.
    batches: Vec<f64>,
}

impl Side {
    fn new(interpreted: bool) -> Result<Side, String> {
        let source =
            Program::from_json(include_bytes!("router.json")).map_err(|e| e.to_string())?;
        let load = match interpreted {
            true => Pipeline::load_interpreted,
            false => Pipeline::load,
        };
        Ok(Side {
            pipeline: load(&source).map_err(|e| e.to_string())?,
            frames: Vec::new(),
            queue: Vec::with_capacity(BATCH),
            batches: Vec::new(),
        })
    }

    fn batch(&mut self, flows: &[&[u8]]) -> Result<(), String> {
        self.frames.resize_with(flows.len(), Vec::new);
        for (frame, flow) in self.frames.iter_mut().zip(flows) {
            frame.clear();
            frame.extend_from_slice(flow);
        }
        let start = Clock::now();
        for frame in self.frames.drain(..) {
            let input = IngressInput::default();
            let outcome = self.pipeline.ingress(Instant::ZERO, frame, &input);
            if let IngressVerdict::Unicast {
                egress_spec,
                packet,
                ..
            } = outcome.verdict
            {
                self.queue.push((egress_spec, packet));
            }
        }
        for (egress_port, packet) in self.queue.drain(..) {
            let input = EgressInput {
                egress_port,
                ..EgressInput::default()
            };
            let outcome = self.pipeline.egress(Instant::ZERO, packet, &input);
            if let EgressVerdict::Transmit(frame) = outcome.verdict {
                self.frames.push(frame);
            }
        }
        let time = start.elapsed();
        self.batches.push(ns(time) / flows.len() as f64);
        match self.frames.len() == flows.len() {
            true => Ok(()),
            false => Err(format!(
                "{} of {} packets were sent",
                self.frames.len(),
                flows.len()
            )),
        }
    }

    /// Half of the batches took no longer.
    fn median_ns(&mut self) -> f64 {
        self.batches.sort_by(f64::total_cmp);
        self.batches[self.batches.len() / 2]
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn run(packets: usize, interpreted: bool) -> Result<(), String> {
    let mut rows = Vec::new();
    for flow_count in [1, 256, 4096] {
        let mut full = Side::new(interpreted)?;
        let mut random = Random(1);
        let start = Clock::now();
        let routes = install(&mut full.pipeline, &mut random)?;
        let install_ms = ns(start.elapsed()) / 1e6;
        let flows = flows(flow_count, &routes, &mut random);
        let mut empty = Side::new(interpreted)?;
        for _ in 0..packets.div_ceil(BATCH) {
            let batch: Vec<&[u8]> = (0..BATCH)
                .map(|_| flows[random.below(flow_count as u32) as usize].as_slice())
                .collect();
            empty.batch(&batch)?;
            full.batch(&batch)?;
        }
        let (empty_ns, full_ns) = (empty.median_ns(), full.median_ns());
        rows.push(
            json!({"flows": flow_count, "empty_ns": empty_ns, "full_ns": full_ns,
            "ratio": full_ns / empty_ns, "install_ms": install_ms}),
        );
    }
    let result = json!({"routes": entries::ROUTES, "acl_entries": entries::ACL_ENTRIES,
        "members": entries::MEMBERS, "packets": packets, "native": !interpreted, "rows": rows});
    println!("{result}");
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let interpreted = match args.get(1).map(String::as_str) {
        None | Some("native") => Ok(false),
        Some("interpreted") => Ok(true),
        Some(other) => Err(format!("{USAGE}: what is '{other}'?")),
    };
    let packets = match args.first() {
        None => Ok(200_000),
        Some(n) => n.parse().map_err(|e| format!("{USAGE}: {n}: {e}")),
    };
    match packets.and_then(|packets| run(packets, interpreted?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
