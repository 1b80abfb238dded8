//! Actions and pipelines: tables, action profiles, conditions.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{FieldRef, HexStr, SourceInfo, Value};

/// An action. Several may have one name; tables refer to the number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Action {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Parameters that entries and members give, in order.
    pub runtime_data: Vec<ActionParameter>,
    /// Operations in order.
    pub primitives: Vec<Primitive>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionParameter {
    /// Name in the P4 program.
    #[serde(default)]
    pub name: String,
    /// Width in bits. BMv2 does not read it, and keeps as many bits as are given.
    #[serde(default = "wide")]
    pub bitwidth: u32,
}

fn wide() -> u32 {
    512
}

/// An operation of an action, of a parser or of a deparser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    /// Name of the operation: `assign`, `add_header`, `count`, ..
    pub op: String,
    /// Arguments in order.
    #[serde(default)]
    pub parameters: Vec<Value>,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// A control of the architecture: `ingress` or `egress`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The name of the first table or condition; none: the pipeline does nothing.
    pub init_table: Option<String>,
    /// Tables, in any order: they name their successors.
    pub tables: Vec<Table>,
    /// Action profiles and selectors.
    pub action_profiles: Vec<ActionProfile>,
    /// Conditions, in any order: they name their successors.
    pub conditionals: Vec<Conditional>,
    /// Nodes that call an action; p4c writes none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

/// A table with its successors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Fields of the key, in order.
    #[serde(default)]
    pub key: Vec<KeyField>,
    /// Match type of the whole table: the strongest of its fields (range > ternary > lpm > exact).
    pub match_type: MatchType,
    /// Where the actions of entries are.
    #[serde(rename = "type")]
    pub kind: TableKind,
    /// The name of the profile; none if the table is `simple`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// In older files: the name of a profile that is listed nowhere, and its selector.
    /// [`Program::from_json`](crate::Program::from_json) lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act_prof_name: Option<String>,
    /// In older files: the selector of `act_prof_name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Number of entries that it has room for. None: 1,024, as on BMv2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// Whether each entry has a counter.
    #[serde(default)]
    pub with_counters: bool,
    /// Whether entries have idle timeouts.
    #[serde(default)]
    pub support_timeout: bool,
    /// Name of the meter array of its entries. None: entries have no meter.
    #[serde(default)]
    pub direct_meters: Option<String>,
    /// `id`s of the actions, parallel to `actions`.
    #[serde(default)]
    pub action_ids: Vec<u32>,
    /// Names of the actions, in the order of the P4 program.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Node after an action that `next_tables` does not name. None: the end of the pipeline.
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Next node by action name, or by `__HIT__` and `__MISS__`. None: the end of the pipeline.
    #[serde(default)]
    pub next_tables: IndexMap<String, Option<String>>,
    /// Action of a miss. None: nothing happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Entries of the program. They make the table immutable, unless they say [otherwise](Entry::is_const).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
}

/// Kinds of match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchType {
    /// All bits are equal.
    #[default]
    Exact,
    /// The longest prefix counts.
    Lpm,
    /// Bits under a mask are equal; the priority decides.
    Ternary,
    /// Between two values, both included; the priority decides.
    Range,
    /// The header is valid.
    Valid,
    /// Equal, or not looked at; the priority decides.
    Optional,
}

/// Where the actions of entries are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// In the entries.
    #[default]
    Simple,
    /// In members of an action profile.
    Indirect,
    /// In members or groups of an action selector.
    IndirectWs,
}

/// A field of the key of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyField {
    /// How it matches.
    pub match_type: MatchType,
    /// The name the control plane uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Value that is looked up.
    pub target: KeyTarget,
    /// A mask that is laid on the field before it is matched; none: all bits count.
    #[serde(default)]
    pub mask: Option<HexStr>,
}

/// A field, or a header when the match type is `valid`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyTarget {
    /// A field of a header.
    Field(FieldRef),
    /// Name of a header.
    Header(String),
}

/// Action of a miss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefaultEntry {
    /// Number of the action.
    pub action_id: u32,
    /// Whether the control plane may not choose another action.
    pub action_const: bool,
    /// Arguments in order.
    pub action_data: Vec<HexStr>,
    /// Whether the control plane may not change the arguments either.
    pub action_entry_const: bool,
}

/// An entry that the program gives to a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// A match for each field of the key, in order.
    #[serde(default)]
    pub match_key: Vec<EntryKey>,
    /// Action with its arguments.
    #[serde(default)]
    pub action_entry: ActionEntry,
    /// Lower numbers win, other than in P4Runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Whether this entry of a table is `const`, if not all of its `entries` are; none in a table whose entries all
    /// are. A table with such entries takes other ones, too. The key is ours; BMv2 does not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_const: Option<bool>,
}

/// Match of an entry for one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "snake_case")]
pub enum EntryKey {
    /// All bits are equal.
    Exact {
        /// The value.
        key: HexStr,
    },
    /// The first bits are equal.
    Lpm {
        /// The value.
        key: HexStr,
        /// Number of these bits.
        #[serde(default)]
        prefix_length: u32,
    },
    /// Bits under the mask are equal.
    Ternary {
        /// The value.
        key: HexStr,
        /// Bits that count.
        mask: HexStr,
    },
    /// Between two values.
    Range {
        /// Least value.
        start: HexStr,
        /// Largest value.
        end: HexStr,
    },
    /// Validity of a header.
    Valid {
        /// Whether it must be valid.
        #[serde(default)]
        key: bool,
    },
    /// All bits are equal, or none counts.
    Optional {
        /// The value.
        key: HexStr,
        /// All bits, or none.
        mask: HexStr,
    },
}

/// An action with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionEntry {
    /// Number of the action.
    pub action_id: u32,
    /// Arguments in order.
    pub action_data: Vec<HexStr>,
}

/// An action profile; with a selector its groups choose among members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of members that it has room for.
    #[serde(default = "ActionProfile::unlimited")]
    pub max_size: u32,
    /// How groups choose a member. None: there are no groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

impl ActionProfile {
    /// The size of a profile that gives none: BMv2 does not limit any.
    pub(crate) fn unlimited() -> u32 {
        u32::MAX
    }
}

/// Choice of a member of a group by a hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    /// Name of the hash algorithm.
    pub algo: String,
    /// Fields that are hashed, in order.
    #[serde(default)]
    pub input: Vec<Value>,
}

/// A node with two successors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Condition.
    pub expression: Value,
    /// Next node if it holds. None: the end of the pipeline.
    pub true_next: Option<String>,
    /// Next node if it does not hold. None: the end of the pipeline.
    pub false_next: Option<String>,
}

/// A node that calls an action without parameters. p4c writes a table without key instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionCall {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Number of the action.
    pub action_id: u32,
    /// Next node. None: the end of the pipeline.
    pub next_node: Option<String>,
}
