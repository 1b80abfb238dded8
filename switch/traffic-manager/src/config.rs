//! The configuration: profiles of ports, and which port has which. Humans write it as TOML,
//! programs exchange it as JSON (docs/architecture.md, "Traffic manager configuration").

use std::collections::{BTreeMap, BTreeSet};

use ebb_units::BitRate;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::MAX_QUEUES;

/// Capacity of every queue in BMv2's simple_switch, in packets.
const BMV2_QUEUE_CAPACITY_PACKETS: u64 = 64;
/// The key of `[ports]` that covers every port not listed.
const DEFAULT_PORT: &str = "default";

/// Configuration of the traffic manager of one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficManagerConfig {
    /// Unit in which P4 sees `enq_qdepth` and `deq_qdepth`.
    #[serde(default)]
    pub depth_unit: DepthUnit,
    /// The profiles that ports refer to by name.
    #[serde(default)]
    pub profile: Vec<Profile>,
    /// Name of the profile of each port; the key is a port number, or "default" for all ports that
    /// are not listed.
    #[serde(default)]
    pub ports: BTreeMap<String, String>,
}

/// Unit of the queue depths that P4 sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DepthUnit {
    /// Packets, as BMv2 counts.
    #[default]
    Packets,
    /// Bytes.
    Bytes,
}

/// The properties that a kind of port has: its link, its queues and how they are scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name by which `[ports]` refers to the profile; unique.
    pub name: String,
    /// Rate of the link in bits per second; 0 means no limit.
    #[serde(default)]
    pub rate_bps: BitRate,
    /// Propagation delay of the link, added after the last bit has left.
    #[serde(default)]
    pub delay_ns: u64,
    /// Delay added to frames that arrive on this port from outside the network.
    #[serde(default)]
    pub rx_delay_ns: u64,
    /// Bytes that each frame costs on the wire beyond its own: 24 counts preamble, FCS and
    /// inter-frame gap.
    #[serde(default)]
    pub frame_overhead_bytes: u64,
    /// Most packets that the queues with `pool = true` hold together; none means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_packets: Option<u64>,
    /// Most bytes that the queues with `pool = true` hold together; none means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_bytes: Option<u64>,
    /// The queues that exist; a packet for another one is dropped.
    #[serde(default)]
    pub queue: Vec<QueueConfig>,
    /// Groups of the scheduler; empty means strict priority over all queues, highest id first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
}

/// One queue of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Value of v1model's `standard_metadata.priority` that selects the queue: 0 (lowest) to 7.
    pub id: u8,
    /// Most packets that may wait; none means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_packets: Option<u64>,
    /// Most bytes that may wait; none means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Whether the queue also counts against the port's shared pool.
    #[serde(default)]
    pub pool: bool,
    /// What happens to a packet for which there is no room.
    #[serde(default)]
    pub on_full: OnFull,
}

/// What happens to a packet that does not fit into its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// The packet is dropped.
    #[default]
    TailDrop,
    /// The packet goes back to the ingress pipeline, where P4 decides.
    Deflect,
    /// Reserved for dropping from the tail of a lower priority instead; validation refuses it.
    PushOut,
}

/// Queues that are served in strict priority among themselves. Groups share the link by weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Ids of the queues; every queue of the profile is in exactly one group.
    pub queues: Vec<u8>,
    /// Packets that the group may send per round of the weighted round robin; at least 1.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// A configuration that makes no sense, with the place and the remedy.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("traffic manager: {place}: {problem}")]
pub struct ConfigError {
    place: String,
    problem: String,
}

impl ConfigError {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

impl TrafficManagerConfig {
    /// The configuration of BMv2 without options, save for `--priority-queues`: tail-drop queues of
    /// 64 packets, strict priority, no rate limit.
    pub fn like_bmv2(priority_queues: u8) -> Self {
        Self {
            depth_unit: DepthUnit::Packets,
            profile: vec![Profile::like_bmv2(priority_queues)],
            ports: BTreeMap::from([(DEFAULT_PORT.into(), Profile::LIKE_BMV2.into())]),
        }
    }

    /// The profile of a port: the one it is listed with, else that of "default"; none if there is
    /// neither.
    pub fn profile_of(&self, port: u16) -> Option<&Profile> {
        let name = self.ports.get(&port.to_string());
        let name = name.or_else(|| self.ports.get(DEFAULT_PORT))?;
        self.profile.iter().find(|p| p.name == *name)
    }

    /// Whether `[ports]` lists this port itself.
    pub fn lists_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port.to_string())
    }

    /// Gives a port that is no link (the CPU port) eight queues like BMv2's and no rate limit.
    pub fn set_unlimited(&mut self, port: u16) {
        let profile = Profile::like_bmv2(MAX_QUEUES as u8);
        let name = format!("unlimited-port-{port}");
        self.ports.insert(port.to_string(), name.clone());
        self.profile.retain(|p| p.name != name);
        self.profile.push(Profile { name, ..profile });
    }

    /// Checks what the types cannot express. A traffic manager takes only configurations that pass.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        for profile in &self.profile {
            if !names.insert(profile.name.as_str()) {
                return Err(ConfigError::new(
                    format!("profile \"{}\"", profile.name),
                    "defined twice; give each profile a name of its own",
                ));
            }
            profile.validate()?;
        }
        for (port, name) in &self.ports {
            let place = format!("[ports] {port} = \"{name}\"");
            if port != DEFAULT_PORT
                && port.parse::<u16>().map(|n| n.to_string()).as_ref() != Ok(port)
            {
                return Err(ConfigError::new(
                    place,
                    "the key must be a port number (0 to 65535) or \"default\"",
                ));
            }
            if !names.contains(name.as_str()) {
                let known: Vec<_> = names.iter().copied().collect();
                let problem = format!("no such profile; defined: {}", list_or_none(&known));
                return Err(ConfigError::new(place, problem));
            }
        }
        Ok(())
    }
}

impl Profile {
    const LIKE_BMV2: &str = "like-bmv2";

    /// Profile of a port with this many queues (1 to 8) as in [`TrafficManagerConfig::like_bmv2`].
    pub fn like_bmv2(priority_queues: u8) -> Self {
        let count = priority_queues.clamp(1, MAX_QUEUES as u8);
        let queue = |id| QueueConfig {
            id,
            capacity_packets: Some(BMV2_QUEUE_CAPACITY_PACKETS),
            ..QueueConfig::default()
        };
        Self {
            name: Self::LIKE_BMV2.into(),
            queue: (0..count).map(queue).collect(),
            ..Self::default()
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let place = format!("profile \"{}\"", self.name);
        let fail = |problem: String| Err(ConfigError::new(place.clone(), problem));
        if self.queue.is_empty() {
            return fail("has no queue; add a [[profile.queue]]".into());
        }
        let mut ids = BTreeSet::new();
        for queue in &self.queue {
            if !ids.insert(queue.id) {
                return fail(format!("queue {} is defined twice", queue.id));
            }
            self.validate_queue(queue)?;
        }
        let limits = [
            ("pool_packets", self.pool_packets),
            ("pool_bytes", self.pool_bytes),
        ];
        for (key, limit) in limits {
            if limit == Some(0) {
                return fail(format!("{key} = 0 holds nothing; omit it for no limit"));
            }
            if limit.is_some() && !self.queue.iter().any(|q| q.pool) {
                return fail(format!("{key} is set, but no queue says pool = true"));
            }
        }
        self.validate_groups(&place, &ids)
    }

    fn validate_queue(&self, queue: &QueueConfig) -> Result<(), ConfigError> {
        let place = format!("profile \"{}\", queue {}", self.name, queue.id);
        let fail = |problem: &str| Err(ConfigError::new(place.clone(), problem));
        if usize::from(queue.id) >= MAX_QUEUES {
            return fail("queue ids are 0 (lowest priority) to 7");
        }
        if queue.capacity_packets == Some(0) || queue.capacity_bytes == Some(0) {
            return fail("a capacity of 0 holds nothing; omit it for no limit");
        }
        if queue.pool && self.pool_packets.is_none() && self.pool_bytes.is_none() {
            return fail("pool = true, but the profile has neither pool_packets nor pool_bytes");
        }
        if queue.on_full == OnFull::PushOut {
            return fail(
                "on_full = \"push-out\" is not there yet; use \"tail-drop\" or \"deflect\"",
            );
        }
        Ok(())
    }

    fn validate_groups(&self, place: &str, ids: &BTreeSet<u8>) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::new(place, problem));
        let mut grouped = BTreeSet::new();
        for group in &self.group {
            if group.weight == 0 {
                return fail(format!(
                    "group of queues {:?}: weight 0 would never be served; use 1 or more",
                    group.queues
                ));
            }
            if group.queues.is_empty() {
                return fail("a group without queues".into());
            }
            for id in &group.queues {
                if !ids.contains(id) {
                    let known: Vec<_> = ids.iter().map(u8::to_string).collect();
                    return fail(format!(
                        "a group names queue {id}, which is not defined; defined: {}",
                        known.join(", ")
                    ));
                }
                if !grouped.insert(*id) {
                    return fail(format!("queue {id} is in two groups"));
                }
            }
        }
        match ids.difference(&grouped).next() {
            Some(id) if !self.group.is_empty() => fail(format!(
                "queue {id} is in no group and would never be served; add it to one"
            )),
            _ => Ok(()),
        }
    }
}

fn list_or_none(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        _ => names.join(", "),
    }
}
