//! Values that the control plane exchanges with the pipeline.

use ebb_units::Duration;

use crate::ids::{ActionId, EntryId};

/// Condition of an entry on one key field. Values are big-endian bytes of any length that fit the
/// field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MatchKey {
    /// The field has this value.
    Exact(Vec<u8>),
    /// The field begins with the first `prefix_len` bits of `value`.
    Lpm {
        /// The value.
        value: Vec<u8>,
        /// Number of its first bits that count.
        prefix_len: u32,
    },
    /// The field equals `value` wherever `mask` has ones.
    Ternary {
        /// The value.
        value: Vec<u8>,
        /// Bits that count.
        mask: Vec<u8>,
    },
    /// The field lies in this range, both ends included.
    Range {
        /// Least value.
        low: Vec<u8>,
        /// Largest value.
        high: Vec<u8>,
    },
    /// The field has this value, or any value if `None`. For fields of match kind `optional`, which
    /// BMv2 JSON calls ternary.
    Optional(Option<Vec<u8>>),
    /// The header is valid, or is not.
    Valid(bool),
    /// Any value; not for exact fields.
    Any,
}

/// How a key field is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// By its whole value.
    Exact,
    /// By its longest prefix.
    Lpm,
    /// Under a mask; also for the match kind `optional`.
    Ternary,
    /// By a range.
    Range,
    /// By the validity of a header.
    Valid,
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// Its arguments, each big-endian.
    pub params: Vec<Vec<u8>>,
}

/// Effect of an entry on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableAction {
    /// Runs this action.
    Direct(ActionCall),
    /// Runs the action of a member of the table's action profile.
    Member(u32),
    /// Runs the action of one member of a group, chosen by the table's selector.
    Group(u32),
    /// Runs one of these actions, chosen by the table's selector: one-shot programming, a group
    /// that lives as long as the entry.
    Set(Vec<WeightedAction>),
}

/// One action of a one-shot set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedAction {
    /// The action with its arguments.
    pub call: ActionCall,
    /// Its share of the packets, at least 1.
    pub weight: u32,
    /// While this port is down the action is not chosen; `None` means always.
    pub watch_port: Option<u32>,
}

/// A table entry as the control plane writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// One element for each key field.
    pub key: Vec<MatchKey>,
    /// Higher values win; at least 1 in tables with a ternary or range field, and 0 in all others.
    pub priority: i32,
    /// Action of the entry.
    pub action: TableAction,
    /// After this time without a hit it is reported as idle; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// Bytes of the controller, which are given back unchanged.
    pub metadata: Vec<u8>,
}

/// An installed entry as the control plane reads it.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// The handle of the entry.
    pub id: EntryId,
    /// The entry. Its values are as wide as their fields, and an `optional` field reads as a
    /// ternary one.
    pub entry: TableEntry,
    /// Whether it comes from the program and cannot be changed.
    pub is_const: bool,
    /// Packets that hit the entry, if the table has a direct counter.
    pub counter: CounterValue,
    /// Configuration of its direct meter; `None` if it has none.
    pub meter: Option<MeterConfig>,
    /// When it was last hit or, before that, installed. Kept only if the table has idle timeouts.
    pub last_hit: ebb_units::Instant,
}

/// The value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets counted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Configuration of a colour-blind three-colour meter. Rates are per second, and all values are in
/// bytes or packets, as the meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed rate.
    pub cir: u64,
    /// Committed burst.
    pub cburst: u64,
    /// Peak rate.
    pub pir: u64,
    /// Peak burst.
    pub pburst: u64,
    /// `None` for a two-rate meter (RFC 2698). Otherwise the excess burst of a single-rate meter
    /// (RFC 2697), where `pir` and `pburst` have no meaning.
    pub eburst: Option<u64>,
}

/// Packets that a meter has coloured green, yellow and red.
pub type MeterCounts = [CounterValue; 3];

/// Unit that a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Number of the member in the action profile.
    pub member: u32,
    /// Its share of the packets, at least 1.
    pub weight: u32,
    /// While this port is down the member is not chosen; `None` means always.
    pub watch_port: Option<u32>,
}

/// A group of an action selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its members.
    pub members: Vec<GroupMember>,
    /// Most that the weights may add up to; 0 means the limit of the profile.
    pub max_size: u32,
}

/// A replica of a multicast group that goes elsewhere while its port is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedReplica {
    /// Where it goes normally.
    pub primary: Replica,
    /// The first of these whose port is up stands in; without one, the primary stays.
    pub backups: Vec<Replica>,
}

/// One copy of a multicast or cloned packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The port it goes to.
    pub port: u16,
    /// The number of the copy, which becomes `egress_rid`.
    pub instance: u16,
}

/// A clone session: the copies that a clone makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// The copies.
    pub replicas: Vec<Replica>,
    /// Copies are cut to this length; 0 means that they are not cut.
    pub packet_length_bytes: u32,
    /// The queue of the copies.
    pub class_of_service: u32,
}

/// Configuration of a filter of Tofino.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterConfig {
    /// That of `Lpf`.
    LowPass(LowPassConfig),
    /// That of `Wred`.
    EarlyDetection(EarlyDetectionConfig),
}

/// Configuration of a low-pass filter. By default its output is its input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LowPassConfig {
    /// Whether inputs are amounts, which are summed up, or samples, of which a mean is made.
    pub is_rate: bool,
    /// Time constant of a mean that rises.
    pub gain_ns: f32,
    /// Time constant of a mean that falls, and of a sum.
    pub decay_ns: f32,
    /// Bits by which the output is shifted to the right, up to 31.
    pub scale_down: u32,
}

/// Configuration of random early detection. By default nothing is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyDetectionConfig {
    /// Time constant of the mean of the inputs.
    pub time_constant_ns: f32,
    /// From this mean on packets are dropped, the more the longer the queue is.
    pub min_cells: u32,
    /// From this mean on all packets are dropped.
    pub max_cells: u32,
    /// Share of the packets that are dropped just below `max_cells`, 0 to 1.
    pub max_probability: f32,
}

/// The largest threshold of the chip, which no queue reaches: a mantissa of 8 bits, shifted by 24.
const MAX_THRESHOLD_CELLS: u32 = 0xff << 24;

impl Default for EarlyDetectionConfig {
    fn default() -> Self {
        EarlyDetectionConfig {
            time_constant_ns: 0.0,
            min_cells: MAX_THRESHOLD_CELLS,
            max_cells: MAX_THRESHOLD_CELLS,
            max_probability: 0.0,
        }
    }
}

/// Properties of a key field in the program.
#[derive(Clone, Debug)]
pub struct KeyFieldInfo<'a> {
    /// Its name in P4.
    pub name: &'a str,
    /// How it is matched.
    pub kind: MatchKind,
    /// Its width in bits.
    pub bits: u32,
}

/// Properties of a table in the program.
#[derive(Clone, Debug)]
pub struct TableInfo<'a> {
    /// Its name in P4.
    pub name: &'a str,
    /// The fields of its key.
    pub key: Vec<KeyFieldInfo<'a>>,
    /// Most entries that it can have.
    pub max_size: u32,
    /// Its actions.
    pub actions: &'a [ActionId],
    /// Its action profile; `None` if it has none.
    pub profile: Option<crate::ids::ProfileId>,
    /// Whether its entries have counters.
    pub with_counter: bool,
    /// Unit that the meters of its entries count; `None` if they have none.
    pub meter: Option<MeterUnit>,
    /// Whether all its entries come from the program and cannot be changed.
    pub is_const: bool,
    /// Whether its entries may have idle timeouts.
    pub support_timeout: bool,
    /// Whether its entries have priorities.
    pub needs_priority: bool,
}

/// Properties of an action in the program.
#[derive(Clone, Debug)]
pub struct ActionInfo<'a> {
    /// Its name in P4.
    pub name: &'a str,
    /// Name and width in bits of each parameter.
    pub params: Vec<(&'a str, u32)>,
}
