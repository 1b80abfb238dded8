//! Keeps the kernel from answering our packets.
//!
//! The kernel of the host owns the same address. It would answer our TCP segments with RST and our
//! protocol 253 with ICMP "protocol unreachable". A policy rule that sends such packets to a black
//! hole stops it: packet sockets see a frame before the kernel routes it. The rule must come before
//! the one for local addresses, which has priority 0; so that one is moved behind first.
//!
//! ```text
//!   50: ipproto 253 blackhole                    (all receiver-driven packets), or
//!   50: ipproto tcp dport FIRST-LAST blackhole   (TCP ports of this agent; removed at its end; udp: of a load)
//!  100: lookup local                             (was 0)
//! ```

use crate::ip_command::{query, run};
use crate::port_lock::PortRange;

const OUR_PRIORITY: u64 = 50;
const LOCAL_PRIORITY: u64 = 100;

/// A rule in force. Dropping it removes it if it is for this agent only.
pub struct KernelRule {
    selector: Vec<String>,
    remove: bool,
}

impl KernelRule {
    /// Hides TCP segments to `ports`.
    pub fn hide_tcp_ports(ports: PortRange) -> anyhow::Result<Self> {
        Self::hide_ports("tcp", ports)
    }

    /// Hides UDP datagrams to `ports`, which the kernel would answer with ICMP "unreachable".
    pub fn hide_udp_ports(ports: PortRange) -> anyhow::Result<Self> {
        Self::hide_ports("udp", ports)
    }

    fn hide_ports(protocol: &str, ports: PortRange) -> anyhow::Result<Self> {
        let ports = match ports {
            PortRange { first, last } if first == last => first.to_string(),
            PortRange { first, last } => format!("{first}-{last}"),
        };
        Self::add(&["ipproto", protocol, "dport", &ports], true)
    }

    /// Hides all receiver-driven packets. Stays, as other agents of the host need it too.
    pub fn hide_receiver_driven() -> anyhow::Result<Self> {
        Self::add(&["ipproto", "253"], false)
    }

    fn add(selector: &[&str], remove: bool) -> anyhow::Result<Self> {
        move_local_rule_back()?;
        let priority = OUR_PRIORITY.to_string();
        let rule = ["rule", "add", "pref", &priority];
        unless_exists(run(&[&rule, selector, &["blackhole"]].concat()))?;
        Ok(KernelRule {
            selector: selector.iter().map(|&s| s.to_owned()).collect(),
            remove,
        })
    }
}

impl Drop for KernelRule {
    fn drop(&mut self) {
        if self.remove {
            let selector: Vec<&str> = self.selector.iter().map(String::as_str).collect();
            let priority = OUR_PRIORITY.to_string();
            let rule = ["rule", "del", "pref", &priority];
            if let Err(error) = run(&[&rule, &selector[..], &["blackhole"]].concat()) {
                tracing::warn!("the rule that hides our ports stays: {error:#}");
            }
        }
    }
}

fn move_local_rule_back() -> anyhow::Result<()> {
    for rule in query(&["rule", "show"])? {
        let Some(priority) = rule["priority"].as_u64() else {
            continue;
        };
        if rule["table"] != "local" || priority > OUR_PRIORITY {
            continue;
        }
        let later = LOCAL_PRIORITY.to_string();
        unless_exists(run(&["rule", "add", "pref", &later, "lookup", "local"]))?;
        let deleted = run(&[
            "rule",
            "del",
            "pref",
            &priority.to_string(),
            "lookup",
            "local",
        ]);
        if let Err(error) = deleted
            && !error.to_string().contains("No such file")
        {
            // Not even another agent that starts now has moved it.
            return Err(error);
        }
    }
    Ok(())
}

fn unless_exists(result: anyhow::Result<String>) -> anyhow::Result<()> {
    match result {
        Err(error) if !error.to_string().contains("File exists") => Err(error),
        _ => Ok(()),
    }
}
