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
//!
//! An agent that is killed leaves its rule behind, and the kernel would never answer on those ports
//! again. So rules for ports carry a mark (`protocol 235`), and whoever adds a rule first removes
//! the marked ones whose ports no agent of this host has locked. A lock is taken before its rule is
//! added and given up after it was removed, and one agent at a time changes rules: what has no lock
//! is nobody's.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::machine::ip_command::{query, run};
use crate::machine::port_lock::{PortRange, locked_ranges};

const OUR_PRIORITY: u64 = 50;
/// The rule's `protocol`, which says who added it: none of those that have names.
const OUR_MARK: &str = "235";
const LOCAL_PRIORITY: u64 = 100;

/// A rule in force. Dropping it removes it if it is for this agent only.
pub struct KernelRule {
    /// Protocol and ports of the rule that is removed at the end. `None`: it stays.
    ports: Option<(&'static str, PortRange)>,
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

    /// Hides all receiver-driven packets. Stays, as other agents of the host need it too.
    pub fn hide_receiver_driven() -> anyhow::Result<Self> {
        let _turn = RulesLock::wait()?;
        prepare()?;
        change("add", &["ipproto", "253"])?;
        Ok(KernelRule { ports: None })
    }

    fn hide_ports(protocol: &'static str, ports: PortRange) -> anyhow::Result<Self> {
        let _turn = RulesLock::wait()?;
        prepare()?;
        change("add", &selector(protocol, &ports.to_string()))?;
        Ok(KernelRule {
            ports: Some((protocol, ports)),
        })
    }
}

impl Drop for KernelRule {
    fn drop(&mut self) {
        let Some((protocol, ports)) = self.ports else {
            return;
        };
        let removed = RulesLock::wait().and_then(|_turn| {
            // An agent at another address of this host may use the same ports, and then the rule.
            let locks = locked_ranges()?.into_iter();
            if locks.filter(|range| range.first == ports.first).count() > 1 {
                return Ok(());
            }
            change("del", &selector(protocol, &ports.to_string()))
        });
        if let Err(error) = removed {
            tracing::warn!("the rule that hides our ports stays: {error:#}");
        }
    }
}

/// One agent at a time changes the rules of a host: a name that one socket can have.
struct RulesLock(#[allow(dead_code)] UnixDatagram); // what counts is that it is open

impl RulesLock {
    /// How long to wait for others, each of which calls `ip` some times.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn wait() -> anyhow::Result<Self> {
        let name = SocketAddr::from_abstract_name("ebb-agent/kernel-rules")?;
        let end = Instant::now() + Self::PATIENCE;
        loop {
            match UnixDatagram::bind_addr(&name) {
                Ok(socket) => return Ok(RulesLock(socket)),
                Err(error) if Instant::now() >= end => {
                    return Err(error).context("another ebb-agent changes the rules of this host");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

fn selector<'a>(protocol: &'a str, ports: &'a str) -> [&'a str; 6] {
    ["ipproto", protocol, "dport", ports, "protocol", OUR_MARK]
}

fn change(verb: &str, selector: &[&str]) -> anyhow::Result<()> {
    let priority = OUR_PRIORITY.to_string();
    let rule = ["rule", verb, "pref", &priority];
    unless_exists(run(&[&rule, selector, &["blackhole"]].concat()))
}

/// Makes room for our rules, and removes those of agents that were killed.
fn prepare() -> anyhow::Result<()> {
    let rules = query(&["rule", "show"])?;
    move_local_rule_back(&rules)?;
    let locked = locked_ranges()?;
    for rule in &rules {
        let Some((protocol, ports)) = marked(rule) else {
            continue;
        };
        if !locked.iter().any(|range| range.overlaps(ports)) {
            tracing::info!("a killed agent left the rule for {protocol} ports {ports}: removed");
            change("del", &selector(protocol, &ports.to_string()))?;
        }
    }
    Ok(())
}

/// Protocol and ports of a rule that an agent added for itself.
fn marked(rule: &Value) -> Option<(&str, PortRange)> {
    let port = |key: &str| u16::try_from(rule[key].as_u64()?).ok();
    let mark = match &rule["protocol"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let ports = match port("dport") {
        Some(port) => PortRange::one(port),
        None => PortRange {
            first: port("dport_start")?,
            last: port("dport_end")?,
        },
    };
    let is_ours = mark == OUR_MARK && rule["priority"].as_u64() == Some(OUR_PRIORITY);
    Some((rule["ipproto"].as_str().filter(|_| is_ours)?, ports))
}

fn move_local_rule_back(rules: &[Value]) -> anyhow::Result<()> {
    for rule in rules {
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
            // The rule is still there: another agent that starts now has not moved it either.
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
