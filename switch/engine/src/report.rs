//! The report of a switch: its statistics, and what was lost where and why.

use std::fmt::Write;

use ebb_traffic_manager::{Count, PortStatistics};
use serde::Serialize;

use crate::lateness::LatenessReport;
use crate::switch::Switch;

/// The reason given for packets that the egress program dropped after their queue.
const EGRESS: &str = "egress";

/// Packets that were lost at one place for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropRow {
    /// The port where they were counted.
    pub port: u16,
    /// Their queue; `None` if they had none yet.
    pub queue: Option<u8>,
    /// The reason: of the switch, of the traffic manager, or of the program.
    pub reason: String,
    /// How many they were.
    #[serde(flatten)]
    pub count: Count,
}

/// Everything that a switch counted, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// Name of the switch.
    pub switch: String,
    /// Its P4Runtime device id.
    pub device_id: u64,
    /// Losses, ordered by port, queue and reason.
    pub drops: Vec<DropRow>,
    /// Statistics of its ports and queues.
    pub ports: Vec<PortStatistics>,
    /// How late it was at its interfaces.
    pub lateness: LatenessReport,
}

impl SwitchReport {
    /// The report of a switch as of now.
    pub fn of(switch: &Switch) -> Self {
        let ports = switch.statistics();
        let mut drops: Vec<DropRow> = switch
            .drops()
            .map(|(port, reason, count)| DropRow {
                port,
                queue: None,
                reason: reason.to_owned(),
                count,
            })
            .collect();
        for port in &ports {
            for queue in &port.queues {
                let by_manager = queue.dropped.iter().map(|(r, count)| (r.as_str(), *count));
                let by_egress = Some((EGRESS, queue.egress_dropped));
                let all = by_manager.chain(by_egress.filter(|(_, count)| !count.is_zero()));
                drops.extend(all.map(|(reason, count)| DropRow {
                    port: port.port,
                    queue: Some(queue.queue),
                    reason: reason.to_owned(),
                    count,
                }));
            }
        }
        drops.sort_by(|a, b| (a.port, a.queue, &a.reason).cmp(&(b.port, b.queue, &b.reason)));
        Self {
            switch: switch.name().to_owned(),
            device_id: switch.device_id(),
            drops,
            ports,
            lateness: switch.lateness(),
        }
    }
}

/// The drops as a table for people, and the pauses where there were any; a switch without either is
/// one line.
pub fn drop_table(reports: &[SwitchReport]) -> String {
    let mut text = String::new();
    for report in reports {
        write_drops(report, &mut text);
        write_pauses(report, &mut text);
    }
    text
}

fn write_drops(report: &SwitchReport, text: &mut String) {
    let name = &report.switch;
    if report.drops.is_empty() {
        let _ = writeln!(text, "{name}: no drops");
        return;
    }
    let _ = writeln!(
        text,
        "{name}: drops\n{:>6} {:>6}  {:<16} {:>12} {:>14}",
        "port", "queue", "reason", "packets", "bytes"
    );
    for row in &report.drops {
        let queue = row.queue.map_or("-".into(), |q| q.to_string());
        let _ = writeln!(
            text,
            "{:>6} {queue:>6}  {:<16} {:>12} {:>14}",
            row.port, row.reason, row.count.packets, row.count.bytes
        );
    }
}

/// The pauses that a switch asked for, and those that it was asked for, by port and queue.
fn write_pauses(report: &SwitchReport, text: &mut String) {
    let queues = report.ports.iter().flat_map(|port| {
        let queues = port.queues.iter();
        queues.map(|queue| (port.port, queue))
    });
    let paused = queues.filter(|(_, queue)| queue.pauses_sent + queue.pauses_received > 0);
    let mut paused = paused.peekable();
    if paused.peek().is_some() {
        let _ = writeln!(
            text,
            "{}: pauses\n{:>6} {:>6} {:>10} {:>10} {:>10} {:>8} {:>12}",
            report.switch, "port", "queue", "sent", "received", "expired", "storms", "paused ms"
        );
    }
    for (port, queue) in paused {
        let _ = writeln!(
            text,
            "{port:>6} {:>6} {:>10} {:>10} {:>10} {:>8} {:>12.3}",
            queue.queue,
            queue.pauses_sent,
            queue.pauses_received,
            queue.pauses_expired,
            queue.pause_storms,
            queue.paused_ns as f64 / 1e6
        );
    }
}
