//! `ebb-agent pace`: a pacer as a bump in the wire, for the traffic of an unmodified host. HULL's
//! (docs/pacer.md), or with `--guarantee` that of a tenant's virtual machine (docs/tenant-pacer.md),
//! which every frame from inside passes.
//!
//! ```text
//!  host ── inside ─► cut, checksums ─► data of an associated flow? ─ yes ─► FIFO, token bucket ─► outside ── network
//!                                                                  └ no ────────────────────────►
//!         inside ◄──────────────────── ACKs with ECN-Echo associate their flow ◄───────────────── outside
//! ```

mod bridge;
mod cut;
mod exit;
mod guarantee;
mod shaper;
mod side;
#[cfg(test)]
mod testing;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use ebb_transport::pacer::FramePacer;
use ebb_transport::tenant::WIRE_OVERHEAD_BYTES;
use ebb_units::Duration;
use ebb_wire::EthernetHeader;
use serde::Serialize;

use crate::engine::params;
use crate::machine::clock;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;
use bridge::Bridge;
use shaper::Shaper;
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
    /// Pace all frames by this guarantee of a tenant's virtual machine instead of by HULL's pacer
    /// (JSON, or TOML by its extension; keys rate_bps, burst_bytes, peak_bps, void_frames, hose)
    #[arg(long, value_name = "FILE")]
    pub guarantee: Option<PathBuf>,
    /// Seed of the association by chance; drawn by chance if not given
    #[arg(long)]
    pub protocol_seed: Option<u64>,
    /// Print the counters as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Bytes that the wire adds to an IP packet: the Ethernet header, FCS, preamble and gap between frames.
const LINK_BYTES: u64 = EthernetHeader::BYTES as u64 + WIRE_OVERHEAD_BYTES;

/// The counters that are printed.
#[derive(Serialize)]
struct Report {
    event: &'static str,
    inside: SideCounters,
    outside: SideCounters,
    #[serde(flatten)]
    pacer: shaper::Report,
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
    let pacer: Box<dyn Shaper> = match &args.guarantee {
        None => Box::new(FramePacer::new(&params.pacer, seed)),
        Some(path) => {
            let frame_bytes = u64::from(params.nic.mtu_bytes) + LINK_BYTES;
            Box::new(guarantee::read(path, frame_bytes)?)
        }
    };
    let mut bridge = Bridge::new(
        (waker, signals),
        (Side::open(&args.inside)?, Side::open(&args.outside)?),
        pacer,
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
    let report = Report {
        event: "pace",
        inside: bridge.inside.counters,
        outside: bridge.outside.counters,
        pacer: bridge.exit.pacer.report(clock::now()),
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
            "from inside {} frames, {} bytes; from outside {} frames, {} bytes; {}; \
             dropped {} (interfaces)",
            inside.received_frames,
            inside.received_bytes,
            outside.received_frames,
            outside.received_bytes,
            self.pacer.for_people(),
            lost(inside) + lost(outside),
        )
    }
}

/// A reader that has gone is no reason to cut the wire.
fn print(json: bool, as_json: &str, for_people: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{}", if json { as_json } else { for_people });
    let _ = out.flush();
}
