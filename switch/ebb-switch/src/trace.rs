//! Traces of packets, as text on stdout and in the log.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, bail};
use ebb_engine::Switch;
use ebb_engine::trace::{Cause, Event, Visit, Watch};

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
    // It is the first watch of the switch, so there is room for it.
    switch.watch(Watch {
        ports,
        packets,
        // The threads of a fabric print at the same time, so each visit is written as a whole. A watch without a
        // reader ends.
        sink: Box::new(|visit| {
            if visit.events.is_empty() {
                return true;
            }
            let mut out = std::io::stdout().lock();
            write!(out, "{visit}").and_then(|()| out.flush()).is_ok()
        }),
    });
}

/// Logs the first `bytes` bytes of each packet that comes in and of each that leaves, in BMv2's words. 0: none.
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

/// Logs what happens to all packets, if the log is detailed: at level debug where they come in, wait, leave or are
/// dropped, at level trace every step. They are then interpreted, which is slower.
pub fn log(switch: &mut Switch) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    switch.watch(Watch {
        ports: BTreeSet::new(),
        packets: u64::MAX,
        sink: Box::new(|visit| {
            for event in &visit.events {
                let text = alone(visit, event).to_string();
                for line in text.lines().skip(1).map(str::trim) {
                    let (switch, packet) = (&visit.switch, visit.packet_id);
                    match event {
                        Event::Pipeline(_) => tracing::trace!("{switch} packet {packet}: {line}"),
                        _ if packet == 0 => tracing::debug!("{switch} link: {line}"),
                        _ => tracing::debug!("{switch} packet {packet}: {line}"),
                    }
                }
            }
            true
        }),
    });
}

/// One event of a visit, whose text has a line for the packet before it.
fn alone(visit: &Visit, event: &Event) -> Visit {
    Visit {
        events: vec![event.clone()],
        switch: visit.switch.clone(),
        ..*visit
    }
}

/// Checks that all places are on switches of this process.
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
