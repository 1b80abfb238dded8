//! The configuration: profiles of ports, which port has which, flow control, and queue state for
//! the program. Humans write it as TOML, programs exchange it as JSON (docs/architecture.md,
//! "Traffic manager configuration").

mod headroom;
mod validation;

use std::collections::BTreeMap;

use ebb_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::limits::{CLASSES, MAX_QUEUES};

pub(crate) use headroom::{Need, Thresholds};
pub use validation::ConfigError;
pub(crate) use validation::SHARE_STEPS;

/// Capacity of every queue in BMv2's simple_switch, in packets.
const BMV2_QUEUE_CAPACITY_PACKETS: u64 = 64;
/// The key of `[ports]` that covers every port not listed.
const DEFAULT_PORT: &str = "default";
/// Beginning of the name of the profile of a port that is no link; its number follows.
const UNLIMITED_PORT: &str = "unlimited-port-";

/// Configuration of the traffic manager of one switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Priority flow control of the lossless queues; none if no queue is lossless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Pfc>,
    /// State of the queues that the switch writes into registers of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export: Vec<Export>,
    /// Where queues with ranks find what they go by; none if no queue has ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankFields>,
}

/// Fields of packets by which queues with ranks choose: of the program's metadata by their names, or
/// of a header with its name in front. Each has at most 32 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankFields {
    /// Rank of the packet: the least leaves first.
    pub field: String,
    /// Number of the packet's flow, whose packets leave in order of arrival.
    pub flow: String,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Time that the switch takes from the last bit of a frame on this port to its ingress
    /// pipeline. MAC control frames do not take it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pipeline_delay_ns: u64,
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
    /// Bytes that came in on this port and may wait for room at the port they go to. It is given
    /// together with `egress_bytes`, or not at all; none means that packets go to the queues of
    /// their output port at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_bytes: Option<u64>,
    /// Bytes that the queues of this port hold together before packets wait at the ports they came
    /// in on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bytes: Option<u64>,
    /// Each queue may hold `egress_bytes` by itself, so that none takes room from another.
    #[serde(default, skip_serializing_if = "is_false")]
    pub egress_per_queue: bool,
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
    /// Value of v1model's `standard_metadata.priority` that selects the queue, 0 (lowest) to 7, or of
    /// Tofino's `qid`, to 31.
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
    /// Whether the pool's limit does not hold for the queue itself: the others in the pool give way to
    /// it, and when none is left its packets are kept up to its own capacity. So the limit bounds only
    /// what gives way, as a marking threshold would.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pool_exempt: bool,
    /// Treatment of a packet for which there is no room.
    #[serde(default)]
    pub on_full: OnFull,
    /// Whether the neighbours are asked to pause before the queue would lose a packet (`[pfc]`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub lossless: bool,
    /// Whether the packet of the least rank leaves first, instead of the earliest one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rank: bool,
}

/// Treatment of a packet that does not fit into its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// The packet is dropped.
    #[default]
    TailDrop,
    /// The packet goes back to the ingress pipeline, where P4 decides.
    Deflect,
    /// Packets that matter less are dropped instead: those at the tail of the lowest queue that
    /// shares the buffer, or, in a queue with ranks, those of the greatest rank. If there are too
    /// few of them the packet is dropped.
    PushOut,
    /// As push-out, but what gives way, or the packet if too few do, goes back to the ingress pipeline,
    /// where P4 decides. Of queues with ranks.
    PushOutDeflect,
    /// The packet, or the youngest one that waits in the queue, goes back to the ingress pipeline with equal
    /// probability, so that flows which arrive in step do not always lose the same packets (NDP, SIGCOMM 2017,
    /// section 3.1). Of queues without ranks.
    DeflectEither,
}

impl OnFull {
    /// Whether other packets may give way.
    pub(crate) fn pushes_out(self) -> bool {
        matches!(self, OnFull::PushOut | OnFull::PushOutDeflect)
    }

    /// Whether what is not kept goes back to the ingress pipeline.
    pub(crate) fn deflects(self) -> bool {
        matches!(
            self,
            OnFull::Deflect | OnFull::PushOutDeflect | OnFull::DeflectEither
        )
    }
}

/// Queues that are served in strict priority among themselves, or in order of arrival. Groups share the
/// link by weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Ids of the queues; every queue of the profile is in exactly one group.
    pub queues: Vec<u8>,
    /// Which queue of the group is served first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: Order,
    /// Packets that the group may send per round of the weighted round robin; at least 1. A group
    /// with a share takes no part in it.
    #[serde(default = "one")]
    pub weight: u32,
    /// Share of the link, above 0 and below 1 in steps of a millionth, within which the group is
    /// served before all groups without one; beyond it, after them. None means by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Bytes on the wire that a group with a share may send at once after it was silent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub burst_bytes: u64,
    /// The share is the most that the group gets: beyond it its packets wait, also while the link is
    /// idle. Of groups of one queue.
    #[serde(default, skip_serializing_if = "is_false")]
    pub capped: bool,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            order: Order::default(),
            weight: one(),
            share: None,
            burst_bytes: 0,
            capped: false,
        }
    }
}

/// Which queue of a group is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The one with the highest id.
    #[default]
    Priority,
    /// The one whose head joined first, of several at one instant that with the highest id: the queues
    /// are one first-in, first-out queue whose packets differ only in what gives way.
    Arrival,
}

fn one() -> u32 {
    1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Priority flow control (IEEE 802.1Qbb): when the neighbour at a port is asked to pause a lossless
/// queue, by the bytes that came in on the port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pfc {
    /// The neighbour is asked to pause a queue when more bytes than this count for it. `None`, as
    /// `resume_bytes`: computed from `ingress_bytes`, rates and delays of the profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_bytes: Option<u64>,
    /// It is asked to resume when no more than this count; at most `pause_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_bytes: Option<u64>,
    /// Which bytes count for a queue.
    #[serde(default)]
    pub accounting: Accounting,
    /// Time from the last bit of a PFC frame until the receiver starts no more frames of the queue.
    #[serde(default)]
    pub response_ns: u64,
    /// How late a process under the wall clock may wake up; 0 under virtual time. PFC frames go out
    /// and are obeyed as late as that.
    #[serde(default)]
    pub wakeup_ns: u64,
    /// Longest frame with all that it costs on the wire.
    #[serde(default = "longest_frame")]
    pub max_frame_bytes: u64,
    /// How long a neighbour may keep a queue paused, renewals included, before this counts as a pause
    /// storm; 0 means for ever. Where pauses are ignored after a storm, it is also for how long none
    /// must have arrived before they are obeyed again.
    #[serde(default = "one_second")]
    pub watchdog_ns: u64,
    /// Reaction to a pause storm.
    #[serde(default)]
    pub watchdog: Watchdog,
}

/// A frame of 1500 bytes of payload with Ethernet header, FCS and inter-frame gap.
fn longest_frame() -> u64 {
    1530
}

fn one_second() -> u64 {
    1_000_000_000
}

/// Which of the bytes that came in on a port count for a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accounting {
    /// Those in the queue and in the queues above it, which are all served before a new packet.
    #[default]
    Drain,
    /// Those in the queue.
    Class,
}

/// Reaction to a neighbour that pauses a queue for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watchdog {
    /// It is counted and reported.
    #[default]
    Report,
    /// The port's pauses are ignored from then on as well.
    Ignore,
}

/// State of all queues that the switch writes into a register of the program: the cell of a queue
/// is `port * 8 + queue`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Name of the register in the program.
    pub register: String,
    /// Quantity that is written.
    pub what: QueueState,
    /// Time between two updates; 0 means that the register is always exact.
    #[serde(default)]
    pub period_ns: u64,
}

/// Quantity of a queue that a register of the program shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueState {
    /// Bytes that wait in the queue and in those of the port above it.
    DrainBytes,
    /// Bytes that wait in the queue.
    DepthBytes,
    /// Packets that wait in the queue.
    DepthPackets,
}

impl TrafficManagerConfig {
    /// The configuration of BMv2 without options, save for `--priority-queues`: tail-drop queues of
    /// 64 packets, strict priority, no rate limit.
    pub fn like_bmv2(priority_queues: u8) -> Self {
        Self {
            profile: vec![Profile::like_bmv2(priority_queues)],
            ports: BTreeMap::from([(DEFAULT_PORT.into(), Profile::LIKE_BMV2.into())]),
            ..Self::default()
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
        let profile = Profile::like_bmv2(CLASSES as u8);
        let name = format!("{UNLIMITED_PORT}{port}");
        self.ports.insert(port.to_string(), name.clone());
        self.profile.retain(|p| p.name != name);
        self.profile.push(Profile { name, ..profile });
    }

    /// Gives ports whose queues nobody has configured as many as programs of an architecture can name:
    /// all of them for Tofino, and otherwise one, as BMv2 without options, and eight to a port that is
    /// no link. True: something has changed.
    pub(crate) fn fit(&mut self, all: bool) -> bool {
        let mut changed = false;
        for profile in &mut self.profile {
            let few = match &*profile.name {
                Profile::LIKE_BMV2 => 1,
                name if name.starts_with(UNLIMITED_PORT) => CLASSES as u8,
                _ => continue,
            };
            let [few, many] = [few, MAX_QUEUES as u8].map(|count| Profile::like_bmv2(count).queue);
            let (wanted, other) = if all { (many, few) } else { (few, many) };
            if profile.queue == other {
                profile.queue = wanted;
                changed = true;
            }
        }
        changed
    }
}

impl Profile {
    const LIKE_BMV2: &str = "like-bmv2";

    /// Profile of a port with this many queues (1 to 32) as in [`TrafficManagerConfig::like_bmv2`].
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

    /// The lossless queues: bit i stands for queue i.
    pub fn lossless(&self) -> u8 {
        let lossless = self.queue.iter().filter(|queue| queue.lossless);
        lossless.fold(0, |set, queue| set | 1 << (usize::from(queue.id) % CLASSES))
    }
}
