//! Packets through the native code of a program, for Callgrind to count (`tools/instructions`).
//!
//! `cargo run -p ebb-pipeline --example pipeline_instructions fabric | tofino | router`: `fabric.p4` or
//! `tna/fabric_marking.p4` with routes, classes, ECN threshold and phantom queue, or a small IPv4 router
//! (`tests/common/router.p4`). Prints how many packets are counted.

#[path = "../tests/common/fabric.rs"]
mod fabric;
#[path = "common/forwarding.rs"]
mod forwarding;
#[path = "../tests/common/frames.rs"]
mod frames;
#[path = "../tests/common/router.rs"]
mod router;

use ebb_pipeline::Pipeline;
use ebb_units::Instant;
use forwarding::Forwarding;

/// Packets between ingress and egress, as a burst would be handled.
const BATCH: usize = 60;
/// Batches until all memory is there that the pipeline keeps.
const WARM_UP: u64 = 10;
/// Batches that count.
const BATCHES: u64 = 100;

fn main() -> Result<(), String> {
    let (program, install): (_, fn(&mut Pipeline) -> _) = match std::env::args().nth(1).as_deref() {
        Some("fabric") => (fabric::program()?, fabric::install),
        Some("tofino") => (fabric::built("tna/fabric_marking")?, fabric::install),
        Some("router") => (router::program()?, router::install),
        _ => return Err("usage: pipeline_instructions fabric | tofino | router".to_owned()),
    };
    let mut forwarding = Forwarding::new(&program, "native", BATCH)?;
    install(&mut forwarding.pipeline).map_err(|e| e.to_string())?;
    let mut fresh = frames::frames()?;
    // The longest kind is a full packet; the payload's checksum is no business of a switch.
    fresh[0].resize(1514, 0xeb);
    let fresh: Vec<Vec<u8>> = fresh.iter().cycle().take(BATCH).cloned().collect();
    let mut frames = fresh.clone();
    let mut run = |number: u64| -> Result<(), String> {
        // 1 us per packet: the phantom queues drain far slower than they fill.
        let now = Instant::from_micros(number * BATCH as u64);
        forwarding.ingress(now, &mut frames);
        forwarding.egress(now, &mut frames, BATCH)?;
        for (frame, fresh) in frames.iter_mut().zip(&fresh) {
            frame[..34].copy_from_slice(&fresh[..34]);
        }
        Ok(())
    };
    (0..WARM_UP).try_for_each(&mut run)?;
    ebb_testkit::counted(|| (WARM_UP..WARM_UP + BATCHES).try_for_each(run))?;
    println!("{}", BATCHES * BATCH as u64);
    Ok(())
}
