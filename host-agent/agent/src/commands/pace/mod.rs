//! `ebb-agent pace`: HULL's pacer as a bump in the wire, for the traffic of an unmodified host
//! (docs/pacer.md).
//!
//! ```text
//!  host ── inside ─► cut, checksums ─► data of an associated flow? ─ yes ─► FIFO, token bucket ─► outside ── network
//!                                                                  └ no ────────────────────────►
//!         inside ◄──────────────────── ACKs with ECN-Echo associate their flow ◄───────────────── outside
//! ```

mod bridge;
mod cut;
mod exit;
mod side;
#[cfg(test)]
mod testing;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use ebb_transport::pacer::FramePacer;
use ebb_units::Duration;
use serde::Serialize;

use crate::engine::params;
use crate::machine::clock;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;
use bridge::Bridge;
use side::{Side, SideCounters};

#[derive(Args, Debug)]
pub struct PaceArgs {
    /// Interface towards the host whose traffic is paced
    #[arg(long)]
    pub inside: String,
    /// Interface towards the network
    #[arg(long)]
    pub outside: String,
    /// Parameters (JSON, or TOML by its extension); of them sections `pacer` and `engine`
    #[arg(long)]
    pub params: Option<PathBuf>,
    /// Seed of the association by chance; drawn by chance if not given
    #[arg(long)]
    pub protocol_seed: Option<u64>,
    /// Print the counters as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The counters that are printed.
#[derive(Serialize)]
struct Report {
    event: &'static str,
    inside: SideCounters,
    outside: SideCounters,
    /// TCP segments with data of flows that were not associated.
    undelayed_segments: u64,
    /// Segments that went through the FIFO.
    paced_segments: u64,
    dropped_fifo_full: u64,
    ecn_echoes: u64,
    /// ECN-Echoes that associated their flow, or did so again.
    associations: u64,
    /// The most bytes that the FIFO held.
    max_backlog_bytes: u64,
    backlog_bytes: u64,
    /// R, the rate of the token bucket.
    rate_bps: u64,
}

/// Runs until SIGINT or SIGTERM. Prints the counters then, and for every SIGUSR1.
pub fn run(args: &PaceArgs) -> anyhow::Result<bool> {
    ensure!(
        args.inside != args.outside,
        "--inside and --outside are the same interface; a bump in the wire has two ends"
    );
    let params = params::read(args.params.as_deref())?;
    // First: a signal that comes from now on ends the bridge in good order.
    let waker = Waker::new().context("cannot create a pipe")?;
    let signals = Signals::install_with_reports(&waker).context("cannot handle signals")?;
    params.engine.prepare_thread()?;
    let seed = args.protocol_seed.unwrap_or_else(rand::random);
    let mut bridge = Bridge::new(
        (waker, signals),
        (Side::open(&args.inside)?, Side::open(&args.outside)?),
        FramePacer::new(&params.pacer, seed),
        Duration::from_micros(params.engine.spin_microseconds.into()),
    );
    print(args.json, r#"{"event":"ready"}"#, "ready");
    let result = bridge.run(|bridge| report(bridge, args.json));
    report(&mut bridge, args.json);
    result.map(|()| true)
}

fn report(bridge: &mut Bridge, json: bool) {
    bridge.inside.count_kernel_drops();
    bridge.outside.count_kernel_drops();
    let now = clock::now();
    let held = &mut bridge.exit.pacer;
    let (frames, pacer) = (held.counters(), held.pacer_counters());
    let report = Report {
        event: "pace",
        inside: bridge.inside.counters,
        outside: bridge.outside.counters,
        undelayed_segments: pacer.passed_packets,
        paced_segments: frames.held_frames,
        dropped_fifo_full: frames.dropped_frames,
        ecn_echoes: frames.ecn_echoes,
        associations: pacer.associations,
        max_backlog_bytes: pacer.max_backlog_bytes,
        backlog_bytes: held.backlog_bytes(),
        rate_bps: (held.rate_bytes_per_second(now) * 8.0) as u64,
    };
    let line = serde_json::to_string(&report).unwrap_or_default();
    print(json, &line, &report.for_people());
}

impl Report {
    fn for_people(&self) -> String {
        let (inside, outside) = (&self.inside, &self.outside);
        let lost = |side: &SideCounters| {
            side.dropped_not_sent + side.dropped_malformed + side.dropped_by_kernel
        };
        format!(
            "from inside {} frames, {} bytes; from outside {} frames, {} bytes; \
             paced {} segments, undelayed {}; {} associations by {} ECN-Echoes; \
             dropped {} (FIFO full) + {} (interfaces); FIFO at most {} bytes; rate {:.1} Mbit/s",
            inside.received_frames,
            inside.received_bytes,
            outside.received_frames,
            outside.received_bytes,
            self.paced_segments,
            self.undelayed_segments,
            self.associations,
            self.ecn_echoes,
            self.dropped_fifo_full,
            lost(inside) + lost(outside),
            self.max_backlog_bytes,
            self.rate_bps as f64 / 1e6,
        )
    }
}

/// A reader that has gone is no reason to cut the wire.
fn print(json: bool, as_json: &str, for_people: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{}", if json { as_json } else { for_people });
    let _ = out.flush();
}
