//! What was lost where: one row per switch, port, queue and reason.

use std::fmt::Write;

use ebb_traffic_manager::{Count, PortStatistics};
use serde::Serialize;

use crate::lateness::LatenessReport;
use crate::switch::Switch;

/// The reason of packets that the egress program dropped, after their queue.
const EGRESS: &str = "egress";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropRow {
    pub port: u16,
    /// Absent where the packet had no queue yet.
    pub queue: Option<u8>,
    pub reason: String,
    #[serde(flatten)]
    pub count: Count,
}

/// Everything a switch counted, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    pub switch: String,
    pub device_id: u64,
    pub drops: Vec<DropRow>,
    pub ports: Vec<PortStatistics>,
    pub lateness: LatenessReport,
}

impl SwitchReport {
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

/// A table for people. Switches without drops are one line.
pub fn drop_table(reports: &[SwitchReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let name = &report.switch;
        if report.drops.is_empty() {
            let _ = writeln!(text, "{name}: no drops");
            continue;
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
    text
}
