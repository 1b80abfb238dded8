//! Values the control plane exchanges with the pipeline.

use ebb_units::Duration;

use crate::ids::{ActionId, EntryId};

/// What an entry says about one key field. Values are big-endian bytes of any length that fit the
/// field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MatchKey {
    Exact(Vec<u8>),
    Lpm {
        value: Vec<u8>,
        prefix_len: u32,
    },
    Ternary {
        value: Vec<u8>,
        mask: Vec<u8>,
    },
    /// Both ends belong to the range.
    Range {
        low: Vec<u8>,
        high: Vec<u8>,
    },
    /// `None` matches everything. For fields of match kind `optional`, which BMv2 JSON calls ternary.
    Optional(Option<Vec<u8>>),
    /// Validity of a header.
    Valid(bool),
    /// Matches everything; not for exact fields.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    Exact,
    Lpm,
    /// `ternary` and `optional`.
    Ternary,
    Range,
    Valid,
}

/// An action with its arguments, big-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    pub action: ActionId,
    pub params: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableAction {
    Direct(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action selector.
    Group(u32),
    /// One-shot programming of an action selector: a group that lives and dies with the entry.
    Set(Vec<WeightedAction>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedAction {
    pub call: ActionCall,
    pub weight: u32,
    pub watch_port: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// One element for every key field.
    pub key: Vec<MatchKey>,
    /// Higher wins. Only for tables with a ternary or range field, and at least 1 there; 0 elsewhere.
    pub priority: i32,
    pub action: TableAction,
    pub idle_timeout: Option<Duration>,
    /// The controller's own, given back as it was.
    pub metadata: Vec<u8>,
}

/// An installed entry as the control plane reads it.
#[derive(Clone, Debug)]
pub struct EntryView {
    pub id: EntryId,
    /// Values are as wide as their fields; an `optional` field is a ternary one.
    pub entry: TableEntry,
    /// Comes from the program and cannot be changed.
    pub is_const: bool,
    /// Packets that hit the entry, if the table has a direct counter.
    pub counter: CounterValue,
    pub meter: Option<MeterConfig>,
    /// Or when it was installed; followed only if the table has idle timeouts.
    pub last_hit: ebb_units::Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    pub packets: u64,
    pub bytes: u64,
}

/// Three-colour meter, colour-blind: rates per second and bursts, in bytes or packets as the meter
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    pub cir: u64,
    pub cburst: u64,
    pub pir: u64,
    pub pburst: u64,
    /// `None`: two rates (RFC 2698). `Some`: a single one with this excess burst (RFC 2697), and
    /// `pir` and `pburst` mean nothing.
    pub eburst: Option<u64>,
}

/// Packets that a meter has coloured, green, yellow and red.
pub type MeterCounts = [CounterValue; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    Bytes,
    Packets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub member: u32,
    pub weight: u32,
    pub watch_port: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub members: Vec<GroupMember>,
    /// Bound on the sum of weights; 0: the profile's.
    pub max_size: u32,
}

/// A copy of a multicast packet that goes elsewhere while its port is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedReplica {
    pub primary: Replica,
    /// The first one whose port is up is taken; if there is none, the primary.
    pub backups: Vec<Replica>,
}

/// One copy of a multicast or cloned packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    pub port: u16,
    /// Becomes `egress_rid`.
    pub instance: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    pub replicas: Vec<Replica>,
    /// Copies are cut to this length; 0: not.
    pub packet_length_bytes: u32,
    pub class_of_service: u32,
}

/// How digests of a learn list are to be sent; kept for the server, not used by the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestConfig {
    pub max_timeout_ns: i64,
    pub max_list_size: i32,
    pub ack_timeout_ns: i64,
}

#[derive(Clone, Debug)]
pub struct KeyFieldInfo<'a> {
    pub name: &'a str,
    pub kind: MatchKind,
    pub bits: u32,
}

#[derive(Clone, Debug)]
pub struct TableInfo<'a> {
    pub name: &'a str,
    pub key: Vec<KeyFieldInfo<'a>>,
    pub max_size: u32,
    pub actions: &'a [ActionId],
    pub profile: Option<crate::ids::ProfileId>,
    pub with_counter: bool,
    pub meter: Option<MeterUnit>,
    /// All entries come from the program, and stay.
    pub is_const: bool,
    pub support_timeout: bool,
    pub needs_priority: bool,
}

#[derive(Clone, Debug)]
pub struct ActionInfo<'a> {
    pub name: &'a str,
    /// Name and width of each parameter.
    pub params: Vec<(&'a str, u32)>,
}
