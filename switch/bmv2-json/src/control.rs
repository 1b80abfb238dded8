//! Actions and pipelines: tables, action profiles, conditions.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{FieldRef, HexStr, SourceInfo, Value};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Action {
    pub name: String,
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub runtime_data: Vec<ActionParameter>,
    pub primitives: Vec<Primitive>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionParameter {
    #[serde(default)]
    pub name: String,
    /// BMv2 does not read it, and keeps as many bits as are given.
    #[serde(default = "wide")]
    pub bitwidth: u32,
}

fn wide() -> u32 {
    512
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    pub op: String,
    #[serde(default)]
    pub parameters: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    pub name: String,
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The name of the first table or condition; none: the pipeline does nothing.
    pub init_table: Option<String>,
    pub tables: Vec<Table>,
    pub action_profiles: Vec<ActionProfile>,
    pub conditionals: Vec<Conditional>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub key: Vec<KeyField>,
    /// Match type of the whole table: the strongest of its fields (range > ternary > lpm > exact).
    pub match_type: MatchType,
    #[serde(rename = "type")]
    pub kind: TableKind,
    /// The name of the profile; none if the table is `simple`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// In older files: the name of a profile that is listed nowhere, and its selector.
    /// [`Program::from_json`](crate::Program::from_json) lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act_prof_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    #[serde(default)]
    pub with_counters: bool,
    #[serde(default)]
    pub support_timeout: bool,
    #[serde(default)]
    pub direct_meters: Option<String>,
    /// `id`s of the actions, parallel to `actions`.
    #[serde(default)]
    pub action_ids: Vec<u32>,
    #[serde(default)]
    pub actions: Vec<String>,
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// By action name, or by `__HIT__` and `__MISS__`.
    #[serde(default)]
    pub next_tables: IndexMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Makes the table immutable, unless the entries say [otherwise](Entry::is_const).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchType {
    #[default]
    Exact,
    Lpm,
    Ternary,
    Range,
    Valid,
    Optional,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    #[default]
    Simple,
    Indirect,
    IndirectWs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyField {
    pub match_type: MatchType,
    /// The name the control plane uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub target: KeyTarget,
    /// A mask that is laid on the field before it is matched; none: all bits count.
    #[serde(default)]
    pub mask: Option<HexStr>,
}

/// A field, or a header when the match type is `valid`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyTarget {
    Field(FieldRef),
    Header(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefaultEntry {
    pub action_id: u32,
    /// Whether the control plane may not choose another action.
    pub action_const: bool,
    pub action_data: Vec<HexStr>,
    /// Whether the control plane may not change the arguments either.
    pub action_entry_const: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub match_key: Vec<EntryKey>,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "snake_case")]
pub enum EntryKey {
    Exact {
        key: HexStr,
    },
    Lpm {
        key: HexStr,
        #[serde(default)]
        prefix_length: u32,
    },
    Ternary {
        key: HexStr,
        mask: HexStr,
    },
    Range {
        start: HexStr,
        end: HexStr,
    },
    Valid {
        #[serde(default)]
        key: bool,
    },
    Optional {
        key: HexStr,
        mask: HexStr,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionEntry {
    pub action_id: u32,
    pub action_data: Vec<HexStr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default = "ActionProfile::unlimited")]
    pub max_size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

impl ActionProfile {
    /// The size of a profile that gives none: BMv2 does not limit any.
    pub(crate) fn unlimited() -> u32 {
        u32::MAX
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    pub algo: String,
    #[serde(default)]
    pub input: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub expression: Value,
    pub true_next: Option<String>,
    pub false_next: Option<String>,
}

/// A node that calls an action without parameters. p4c writes a table without key instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionCall {
    pub name: String,
    pub id: u32,
    pub action_id: u32,
    pub next_node: Option<String>,
}
