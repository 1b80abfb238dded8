//! What the clients wrote, in canonical form, so that a read returns exactly that (spec,
//! "Read-Write Symmetry"). The pipeline has its own copy of what it needs of it.

use std::collections::BTreeMap;

use ebb_pipeline::Pipeline;
use ebb_pipeline::control::TableAction;

use crate::entities::{FieldKey, direct_action, encode_action, needs_priority};
use crate::error::Result;
use crate::p4info::{Index, Object};
use crate::proto::{config, p4};

/// What tells entries of one table apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    pub fields: Vec<FieldKey>,
    pub priority: i32,
}

#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// `None`: an entry of the program whose action the P4Info does not name, or the default entry
    /// as the program has it.
    pub action: Option<p4::TableAction>,
    pub meter: Option<p4::MeterConfig>,
    pub notes: Notes,
    pub is_const: bool,
}

/// What the data plane has no use for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    pub idle_timeout_ns: i64,
}

#[derive(Debug, Default)]
pub struct Table {
    pub entries: BTreeMap<EntryKey, Entry>,
    pub default: Entry,
}

#[derive(Debug, Default)]
pub struct Profile {
    pub members: BTreeMap<u32, p4::Action>,
    pub groups: BTreeMap<u32, p4::ActionProfileGroup>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub tables: BTreeMap<u32, Table>,
    pub profiles: BTreeMap<u32, Profile>,
    /// Configured cells of indirect meters, by meter and index.
    pub meters: BTreeMap<(u32, i64), p4::MeterConfig>,
    pub multicast_groups: BTreeMap<u32, p4::MulticastGroupEntry>,
    pub clone_sessions: BTreeMap<u32, p4::CloneSessionEntry>,
    pub digests: BTreeMap<u32, p4::digest_entry::Config>,
    pub value_sets: BTreeMap<u32, Vec<p4::ValueSetMember>>,
}

impl Store {
    /// An empty store, with the entries that the program brings.
    pub fn new(info: &Index, pipeline: &Pipeline) -> Result<Self> {
        let mut store = Self::default();
        for (id, table) in &info.tables {
            let contents = initial_entries(info, table, pipeline)
                .map_err(|e| e.at(format!("table '{}'", table.name())))?;
            store.tables.insert(*id, contents);
        }
        for id in info.action_profiles.keys() {
            store.profiles.insert(*id, Profile::default());
        }
        Ok(store)
    }
}

fn initial_entries(info: &Index, table: &config::Table, pipeline: &Pipeline) -> Result<Table> {
    let mut contents = Table::default();
    let id = pipeline.table(table.name())?;
    let with_priority = needs_priority(&table.match_fields);
    for view in pipeline.entries(id) {
        let fields = FieldKey::from_pipeline(&table.match_fields, &view.entry.key)?;
        let key = EntryKey {
            fields,
            priority: if with_priority {
                view.entry.priority
            } else {
                0
            },
        };
        let action = match &view.entry.action {
            TableAction::Direct(call) => encode_action(info, &table.action_refs, pipeline, call),
            _ => None,
        };
        let entry = Entry {
            action: action.map(direct_action),
            is_const: view.is_const,
            ..Entry::default()
        };
        contents.entries.insert(key, entry);
    }
    Ok(contents)
}
