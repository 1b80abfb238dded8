//! What happens to packets, as text on stdout and in the log.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, bail};
use ebb_engine::Switch;
use ebb_engine::trace::{Cause, Event, Watch};

use crate::options::TracePoint;

/// Prints what happens to packets that come in at these places of a switch, if there are any.
pub fn print(switch: &mut Switch, points: &[TracePoint], packets: u64) {
    let name = switch.name();
    let here = points
        .iter()
        .filter(|point| point.switch.as_deref().is_none_or(|s| s == name));
    let Some(ports) = here.map(|p| p.port).collect::<Option<BTreeSet<_>>>() else {
        // One of them is for all ports.
        return watch(switch, BTreeSet::new(), packets);
    };
    if !ports.is_empty() {
        watch(switch, ports, packets);
    }
}

fn watch(switch: &mut Switch, ports: BTreeSet<u16>, packets: u64) {
    // It is the first, so that there is room.
    switch.watch(Watch {
        ports,
        packets,
        // Whole visits, since the threads of a fabric print at the same time. Without a reader it ends.
        sink: Box::new(|visit| {
            let mut out = std::io::stdout().lock();
            write!(out, "{visit}").and_then(|()| out.flush()).is_ok()
        }),
    });
}

/// Logs so many bytes of each packet that comes in and that leaves, in BMv2's words.
pub fn dump(switch: &mut Switch, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let hex = move |frame: &[u8]| -> String {
        let shown = &frame[..bytes.min(frame.len())];
        shown.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    switch.watch(Watch {
        ports: BTreeSet::new(),
        packets: u64::MAX,
        sink: Box::new(move |visit| {
            for event in &visit.events {
                let (what, port, frame) = match event {
                    Event::Enters {
                        port,
                        cause: Cause::Arrived,
                        frame,
                    } => ("Received", port, frame),
                    Event::Sent { port, frame, .. } => ("Sending", port, frame),
                    _ => continue,
                };
                let (length, bytes) = (frame.len(), hex(frame));
                tracing::info!("{what} packet of length {length} on port {port}: {bytes}");
            }
            true
        }),
    });
}

/// That all places are on switches of this process.
pub fn check<'a>(
    points: &[TracePoint],
    switches: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    for name in points.iter().filter_map(|p| p.switch.as_deref()) {
        if !switches.clone().any(|s| s == name) {
            let known: Vec<_> = switches.collect();
            bail!(
                "--trace: there is no switch \"{name}\"; expected PORT, SWITCH or SWITCH:PORT, with a \
                 switch of: {}",
                known.join(", ")
            );
        }
    }
    Ok(())
}
