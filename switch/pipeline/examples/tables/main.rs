//! How much full tables cost: `router.p4` with routes, an access list that matches nothing and groups, against the
//! same program with empty tables.
//!
//! `cargo run -p ebb-pipeline --example tables [PACKETS [native | interpreted]]` prints a
//! line of JSON. The two take turns, batch by batch, so that a loaded machine slows both down;
//! flows are met at random.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../common/command_line.rs"]
mod command_line;
mod entries;
#[path = "../common/forwarding.rs"]
mod forwarding;

use std::process::ExitCode;
use std::time::{Duration, Instant as Clock};

use command_line::EXECUTORS;
use ebb_bmv2_json::Program;
use ebb_units::Instant;
use entries::{Random, flows, install};
use forwarding::Forwarding;
use serde_json::json;

/// Packets between two looks at the clock, as a burst would be handled.
const BATCH: usize = 64;

struct Side {
    forwarding: Forwarding,
    /// Memory of frames.
    frames: Vec<Vec<u8>>,
    /// Nanoseconds per packet of each batch.
    batches: Vec<f64>,
}

impl Side {
    fn new(executor: &str) -> Result<Side, String> {
        let source =
            Program::from_json(include_bytes!("router.json")).map_err(|e| e.to_string())?;
        Ok(Side {
            forwarding: Forwarding::new(&source, executor, BATCH)?,
            frames: Vec::new(),
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
        self.forwarding.ingress(Instant::ZERO, &mut self.frames);
        let sent = (self.forwarding).egress(Instant::ZERO, &mut self.frames, flows.len());
        let time = start.elapsed();
        self.batches.push(ns(time) / flows.len() as f64);
        sent
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

fn run(packets: usize, executor: Option<&str>) -> Result<(), String> {
    let executor = executor.unwrap_or(EXECUTORS[0]);
    let mut rows = Vec::new();
    for flow_count in [1, 256, 4096] {
        let mut full = Side::new(executor)?;
        let mut random = Random(1);
        let start = Clock::now();
        let routes = install(&mut full.forwarding.pipeline, &mut random)?;
        let install_ms = ns(start.elapsed()) / 1e6;
        let flows = flows(flow_count, &routes, &mut random);
        let mut empty = Side::new(executor)?;
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
        "members": entries::MEMBERS, "packets": packets, "native": executor == "native", "rows": rows});
    println!("{result}");
    Ok(())
}

fn main() -> ExitCode {
    command_line::main("tables", 200_000, run)
}
