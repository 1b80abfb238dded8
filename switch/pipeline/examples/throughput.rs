//! How long one packet takes from ingress to deparsed frame.
//!
//! `cargo run --release -p ebb-pipeline --example throughput -- PROGRAM.json [BYTES]`. Tables are
//! empty but for what the program itself puts into them; the frame is TCP in IPv4 in Ethernet.

#![allow(clippy::disallowed_methods)] // a measurement reads the clock

use std::process::ExitCode;

use ebb_bmv2_json::Program;
use ebb_pipeline::{EgressInput, IngressInput, IngressVerdict, Pipeline};
use ebb_units::Instant;

const PACKETS: u32 = 500_000;

fn frame(bytes: usize) -> Vec<u8> {
    let mut f = vec![
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 6, 0,
        0, 10, 0, 0, 2, 10, 1, 0, 2, 0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff,
        0xff, 0, 0, 0, 0,
    ];
    f.resize(bytes.max(f.len()), 0);
    f
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: throughput PROGRAM.json [BYTES]");
        return ExitCode::from(2);
    };
    let bytes = args.next().and_then(|n| n.parse().ok()).unwrap_or(1514);
    let loaded = std::fs::read(&path)
        .map_err(|e| e.to_string())
        .and_then(|text| Program::from_json(&text).map_err(|e| e.to_string()))
        .and_then(|program| Pipeline::load(&program).map_err(|e| e.to_string()));
    let mut pipeline = match loaded {
        Ok(p) => p,
        Err(e) => {
            eprintln!("{path}: {e}");
            return ExitCode::FAILURE;
        }
    };
    let frame = frame(bytes);
    let mut out = Vec::new();
    let mut forwarded = 0u32;
    let start = std::time::Instant::now();
    for n in 0..PACKETS {
        let now = Instant::from_nanos(u64::from(n) * 1000);
        let outcome = pipeline.ingress(now, &frame, &IngressInput::default());
        if let IngressVerdict::Unicast { mut packet, .. } = outcome.verdict {
            pipeline.egress(now, &mut packet, &EgressInput::default(), &mut out);
            pipeline.recycle(packet);
            forwarded += 1;
        }
    }
    let ns = start.elapsed().as_nanos() / u128::from(PACKETS);
    println!("{ns} ns per packet, {forwarded} of {PACKETS} forwarded");
    ExitCode::SUCCESS
}
