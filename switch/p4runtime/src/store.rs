//! Data that clients wrote and the pipeline does not keep, so that a read returns exactly that (spec,
//! "Read-Write Symmetry"). What the pipeline knows is read from there: of an ordinary table entry
//! nothing is kept here.

use std::collections::{BTreeMap, HashMap};

use ebb_pipeline::EntryId;

use crate::p4info::Index;
use crate::proto::p4;

/// Fields of an entry that the data plane has no use for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    pub idle_timeout_ns: i64,
}

/// Data of an entry that the pipeline does not keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    pub notes: Notes,
    /// A one-shot set as it was given.
    pub set: Option<p4::TableAction>,
}

/// A default entry that a client has changed.
#[derive(Clone, Debug, Default)]
pub struct DefaultEntry {
    /// `None`: as the program has it.
    pub action: Option<p4::TableAction>,
    pub notes: Notes,
}

#[derive(Debug, Default)]
pub struct Table {
    /// Extras of the entries that have some.
    extras: HashMap<EntryId, Box<Extra>>,
    /// How many of them have a one-shot set.
    sets: usize,
    pub default: DefaultEntry,
}

impl Table {
    pub fn extra(&self, entry: EntryId) -> Option<&Extra> {
        self.extras.get(&entry).map(Box::as_ref)
    }

    pub fn set_extra(&mut self, entry: EntryId, extra: Extra) {
        self.sets += usize::from(extra.set.is_some());
        let old = match extra == Extra::default() {
            true => self.extras.remove(&entry),
            false => self.extras.insert(entry, Box::new(extra)),
        };
        self.sets -= usize::from(old.is_some_and(|old| old.set.is_some()));
    }
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
    pub multicast_groups: BTreeMap<u32, p4::MulticastGroupEntry>,
    pub clone_sessions: BTreeMap<u32, p4::CloneSessionEntry>,
    pub digests: BTreeMap<u32, p4::digest_entry::Config>,
    pub value_sets: BTreeMap<u32, Vec<p4::ValueSetMember>>,
}

impl Store {
    pub fn new(info: &Index) -> Self {
        let profiles = info.action_profiles.keys();
        Self {
            profiles: profiles.map(|id| (*id, Profile::default())).collect(),
            ..Self::default()
        }
    }

    /// Whether the table has entries with one-shot sets.
    pub fn has_sets(&self, table: u32) -> bool {
        self.tables.get(&table).is_some_and(|t| t.sets > 0)
    }

    /// Stored data of a table, to be changed; empty if nothing was written to it yet.
    pub fn table(&mut self, id: u32) -> &mut Table {
        self.tables.entry(id).or_default()
    }
}
