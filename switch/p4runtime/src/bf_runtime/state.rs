//! State of a device that clients of BF Runtime write, and P4Runtime has no entity for.

use std::collections::{BTreeMap, HashMap};

use ebb_units::Duration;
use prost::Message;

use super::answer;
use super::chip::Chip;
use super::idle::{Clock, Hits};
use super::request;
use super::schema::{Kind, Table, fixed};
use crate::bytes;
use crate::entities::Context;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::idle_table::IdleTableMode;
use crate::proto::bf_runtime::mode::{PredefinedMode, Scope};
use crate::proto::bf_runtime::table_attribute::Attribute;

/// The pipe, gress or parser that stands for all of them.
pub const ALL_PIPES: u32 = 0xffff;
/// The handle of default entries.
pub const DEFAULT_ENTRY: u32 = 1;
const ALL_GRESSES: u32 = 0xff;
/// Milliseconds between two looks at the entries of a table, where the client does not say.
const QUERY_INTERVAL: u32 = 5000;
/// How many entries have a handle at most.
const MAX_HANDLES: usize = 1 << 20;

/// The state of a device.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Tables that belong to no program.
    pub chip: Chip,
    attributes: HashMap<u32, Attributes>,
    counts: HashMap<u32, BTreeMap<Vec<u8>, Vec<bf::DataField>>>,
    /// Members of groups with their states, as they were written: P4Runtime's groups have the active ones only.
    groups: HashMap<(u32, Vec<u8>), Vec<bf::DataField>>,
    /// Whether entries were hit.
    pub hits: Hits,
    handles: Vec<(u32, bf::TableKey)>,
    by_key: HashMap<(u32, Vec<u8>), u32>,
}

#[derive(Clone, Debug, Default)]
struct Attributes {
    scope: Option<bf::EntryScope>,
    idle: Option<bf::IdleTable>,
    clock: Clock,
    /// Bytes added to a packet at the meters of the table, by pipe.
    adjust: BTreeMap<u32, i32>,
}

/// How a request asks for counters: as they are in the data plane, or as they were when it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// As they are.
    Live,
    /// As they were read or written last, or at the last `Sync`; 0 before.
    Kept,
}

impl State {
    /// A state without rows and attributes, with these tables of the chip.
    pub fn new(chip: Chip) -> State {
        State {
            chip,
            ..State::default()
        }
    }

    /// Sets an attribute of a table.
    pub fn set_attribute(
        &mut self,
        table: &Table,
        given: &bf::TableAttribute,
        pipe: u32,
    ) -> Result<()> {
        let attribute = given.attribute.as_ref();
        let attribute = attribute.ok_or_else(|| EntityError::invalid("no attribute is given"))?;
        check_supported(table, attribute)?;
        let found = self.attributes.entry(table.id).or_default();
        match attribute {
            Attribute::EntryScope(scope) => {
                // A client sets those that it names.
                let known = found.scope.get_or_insert_default();
                known.gress_scope = scope.gress_scope.or(known.gress_scope);
                known.pipe_scope = scope.pipe_scope.or(known.pipe_scope);
                known.prsr_scope = scope.prsr_scope.or(known.prsr_scope);
            }
            Attribute::IdleTable(idle) => {
                let mut idle = *idle;
                if idle.idle_table_mode() == IdleTableMode::IdleTablePollMode {
                    idle.ttl_query_interval = 0;
                } else if idle.ttl_query_interval == 0 || !idle.enable {
                    idle.ttl_query_interval = QUERY_INTERVAL;
                }
                found.idle = Some(idle);
            }
            Attribute::ByteCountAdj(adjust) => {
                if pipe == ALL_PIPES {
                    found.adjust.clear();
                }
                found.adjust.insert(pipe, adjust.byte_count_adjust);
            }
            _ => return Err(not_there(table)),
        }
        Ok(())
    }

    /// The attribute that a request names by an empty one.
    pub fn attribute(
        &self,
        table: &Table,
        asked: &bf::TableAttribute,
        pipe: u32,
    ) -> Result<bf::TableAttribute> {
        let attribute = asked.attribute.as_ref();
        let attribute = attribute.ok_or_else(|| EntityError::invalid("no attribute is named"))?;
        check_supported(table, attribute)?;
        let found = self.attributes.get(&table.id).cloned().unwrap_or_default();
        let attribute = match attribute {
            Attribute::EntryScope(_) => Attribute::EntryScope(whole_scope(found.scope)),
            Attribute::IdleTable(_) => Attribute::IdleTable(found.idle.unwrap_or(bf::IdleTable {
                ttl_query_interval: QUERY_INTERVAL,
                ..bf::IdleTable::default()
            })),
            Attribute::ByteCountAdj(_) => Attribute::ByteCountAdj(bf::ByteCountAdj {
                byte_count_adjust: *[pipe, ALL_PIPES]
                    .iter()
                    .find_map(|pipe| found.adjust.get(pipe))
                    .unwrap_or(&0),
            }),
            _ => return Err(not_there(table)),
        };
        Ok(bf::TableAttribute {
            table_id: table.id,
            attribute: Some(attribute),
        })
    }

    /// The time of the entries of a table.
    pub fn clock(&self, table: u32) -> Clock {
        self.attributes
            .get(&table)
            .map_or_else(Clock::default, |found| found.clock)
    }

    /// Starts or stops the time of a table as its attribute says now, and every how often it looks at its entries.
    pub fn set_clock(&mut self, ctx: &mut Context, table: &Table) -> Result<()> {
        let found = self.attributes.entry(table.id).or_default();
        if let Some(idle) = found.idle {
            let every = Duration::from_millis(u64::from(idle.ttl_query_interval));
            let every = Some(every).filter(|every| idle.enable && !every.is_zero());
            let id = ctx.table(table.p4_id())?.1.id;
            found.clock.set(ctx, id, every);
        }
        Ok(())
    }

    /// Whether clients ask for the hits of a table's entries themselves.
    pub fn is_polled(&self, table: u32) -> bool {
        let idle = self.attributes.get(&table).and_then(|found| found.idle);
        idle.is_some_and(|idle| idle.idle_table_mode() == IdleTableMode::IdleTablePollMode)
    }

    /// Whether idle entries of a table are told of: unless a client has turned that off, or asks for them itself.
    pub fn tells_idle(&self, table: u32) -> bool {
        let idle = self.attributes.get(&table).and_then(|found| found.idle);
        idle.is_none_or(|idle| {
            idle.enable && idle.idle_table_mode() == IdleTableMode::IdleTableNotifyMode
        })
    }

    /// Whether a table has entries of its own in single pipes, or in groups of them.
    pub fn is_by_pipe(&self, table: &Table) -> bool {
        let scope = self.attributes.get(&table.id).and_then(|found| found.scope);
        scope
            .and_then(|scope| scope.pipe_scope)
            .is_some_and(is_single)
    }

    /// Refuses a target that the scope of a table does not have.
    pub fn check_target(&self, table: &Table, target: Option<&bf::TargetDevice>) -> Result<()> {
        let scope = self.attributes.get(&table.id).and_then(|found| found.scope);
        let (Some(scope), Some(target)) = (scope, target) else {
            return Ok(());
        };
        let parts = [
            ("pipe", scope.pipe_scope, target.pipe_id, ALL_PIPES),
            ("gress", scope.gress_scope, target.direction, ALL_GRESSES),
            ("parser", scope.prsr_scope, target.prsr_id, ALL_GRESSES),
        ];
        for (what, mode, given, all) in parts {
            // Without parsers of its own, a table does not care which is named.
            if table.kind != Kind::ValueSet && what != "pipe" {
                continue;
            }
            let single = mode.is_some_and(is_single);
            if single && given == all {
                return Err(EntityError::invalid(format!(
                    "{} has entries of its own in each {what}; name one",
                    table.name
                )));
            }
            if single && what == "pipe" && given != 0 {
                return Err(EntityError::invalid(format!(
                    "there is no pipe {given}, only 0"
                )));
            }
        }
        Ok(())
    }

    /// Keeps the counts of an entry.
    pub fn keep_counts(&mut self, table: &Table, entry: &bf::TableEntry) {
        let fields = entry.data.iter().flat_map(|data| &data.fields);
        let counts: Vec<_> = fields.filter(|field| is_count(field)).map(whole).collect();
        let kept = self.counts.entry(table.id).or_default();
        let key = entry.key.as_ref().map(Message::encode_to_vec);
        let key = key.unwrap_or_default();
        let is_zero = |field: &bf::DataField| match &field.value {
            Some(bf::data_field::Value::Stream(value)) => bytes::is_zero(value),
            _ => true,
        };
        match counts.iter().all(is_zero) {
            true => kept.remove(&key),
            false => kept.insert(key, counts),
        };
    }

    /// Puts the counts that are kept in the place of the present ones.
    pub fn show_kept(&self, table: &Table, entry: &mut bf::TableEntry) {
        let key = entry
            .key
            .as_ref()
            .map(Message::encode_to_vec)
            .unwrap_or_default();
        let kept = self.counts.get(&table.id).and_then(|kept| kept.get(&key));
        let fields = entry.data.iter_mut().flat_map(|data| &mut data.fields);
        for field in fields.filter(|field| is_count(field)) {
            let found = kept.and_then(|kept| kept.iter().find(|of| of.field_id == field.field_id));
            field.value = match found {
                Some(found) => found.value.clone(),
                None => Some(bf::data_field::Value::Stream(vec![0; 8])),
            };
        }
    }

    /// An entry was written or deleted: its counts are those of the request, 0 without.
    pub fn counts_written(&mut self, table: &Table, entry: &bf::TableEntry) -> Result<()> {
        if !table.has_counts() {
            return Ok(());
        }
        if entry.key.is_none() && !entry.is_default_entry {
            self.counts.remove(&table.id);
            return Ok(());
        }
        let key = canonical_key(table, entry)?;
        self.keep_counts(
            table,
            &bf::TableEntry {
                key,
                data: entry.data.clone(),
                ..bf::TableEntry::default()
            },
        );
        Ok(())
    }

    /// A group was written or deleted.
    pub fn group_written(
        &mut self,
        table: &Table,
        entry: &bf::TableEntry,
        deleted: bool,
    ) -> Result<()> {
        if entry.key.is_none() {
            self.groups.retain(|(of, _), _| *of != table.id);
            return Ok(());
        }
        let key = canonical_key(table, entry)?;
        let by = (
            table.id,
            key.map(|key| key.encode_to_vec()).unwrap_or_default(),
        );
        let fields = entry.data.iter().flat_map(|data| &data.fields);
        let members: Vec<_> = fields
            .filter(|field| is_membership(field))
            .cloned()
            .collect();
        if deleted {
            self.groups.remove(&by);
        } else if !members.is_empty() {
            self.groups.insert(by, members);
        }
        Ok(())
    }

    /// Shows the inactive members of a group too, unless P4Runtime has changed its active ones.
    pub fn show_members(&self, table: &Table, entry: &mut bf::TableEntry) {
        let key = entry
            .key
            .as_ref()
            .map(Message::encode_to_vec)
            .unwrap_or_default();
        let Some(written) = self.groups.get(&(table.id, key)) else {
            return;
        };
        let Some(data) = &mut entry.data else { return };
        let active = |fields: &[bf::DataField]| {
            let data = bf::TableData {
                action_id: 0,
                fields: fields.to_vec(),
            };
            let mut members = request::active_members(&data);
            members.sort_unstable();
            members.dedup();
            members
        };
        if active(written) == active(&data.fields) {
            data.fields.retain(|field| !is_membership(field));
            data.fields.splice(0..0, written.iter().cloned());
        }
    }

    /// The number by which an entry is read from now on.
    pub fn handle(&mut self, table: &Table, key: bf::TableKey) -> Result<u32> {
        let by = (table.id, key.encode_to_vec());
        if let Some(handle) = self.by_key.get(&by) {
            return Ok(*handle);
        }
        if self.handles.len() >= MAX_HANDLES {
            return Err(EntityError::exhausted(format!(
                "{MAX_HANDLES} entries have handles"
            )));
        }
        self.handles.push((table.id, key));
        let number = u32::try_from(self.handles.len()).unwrap_or(u32::MAX);
        let handle = DEFAULT_ENTRY + number;
        self.by_key.insert(by, handle);
        Ok(handle)
    }

    /// The key of an entry that was given this handle.
    pub fn key_of(&self, table: u32, handle: u32) -> Result<bf::TableKey> {
        let number = handle.checked_sub(DEFAULT_ENTRY + 1);
        let at = number.and_then(|number| usize::try_from(number).ok());
        let found = at
            .and_then(|at| self.handles.get(at))
            .filter(|(of, _)| *of == table);
        let found = found.map(|(_, key)| key.clone());
        found.ok_or_else(|| {
            EntityError::invalid(format!("no entry of this table has handle {handle}"))
        })
    }
}

/// Whether a scope is of single pipes, gresses or parsers, or of groups of them.
fn is_single(mode: bf::Mode) -> bool {
    match mode.scope {
        Some(Scope::Predef(mode)) => mode == PredefinedMode::Single as i32,
        Some(Scope::UserDefined(_)) => true,
        None => false,
    }
}

/// The key of a written entry as reads give it; none: the default entry.
pub fn canonical_key(table: &Table, entry: &bf::TableEntry) -> Result<Option<bf::TableKey>> {
    let entity = request::named(table, entry)?;
    Ok(answer::entry(table, entity).and_then(|entry| entry.key))
}

/// A count with all its bytes, as reads have it.
fn whole(field: &bf::DataField) -> bf::DataField {
    use bf::data_field::Value;
    let mut made = field.clone();
    if let Some(Value::Stream(value)) = &mut made.value {
        *value = bytes::padded(value, 64);
    }
    made
}

fn is_membership(field: &bf::DataField) -> bool {
    matches!(field.field_id, fixed::MEMBER | fixed::MEMBER_STATUS)
}

fn is_count(field: &bf::DataField) -> bool {
    matches!(
        field.field_id,
        fixed::COUNTER_BYTES | fixed::COUNTER_PACKETS
    )
}

/// All entries are those of all pipes, gresses and parsers, until somebody says otherwise.
fn whole_scope(scope: Option<bf::EntryScope>) -> bf::EntryScope {
    let all = bf::Mode {
        scope: Some(Scope::Predef(PredefinedMode::All as i32)),
        args: 0,
    };
    let scope = scope.unwrap_or_default();
    bf::EntryScope {
        gress_scope: scope.gress_scope.or(Some(all)),
        pipe_scope: scope.pipe_scope.or(Some(all)),
        prsr_scope: scope.prsr_scope.or(Some(all)),
    }
}

/// Refuses an attribute that a table does not have.
pub fn check_supported(table: &Table, attribute: &Attribute) -> Result<()> {
    let name = match attribute {
        Attribute::IdleTable(_) => "IdleTimeout",
        // All tables have entries, whether the schema says so or not.
        Attribute::EntryScope(_) => return Ok(()),
        Attribute::DynKeyMask(_) => "DynamicKeyMask",
        Attribute::DynHashing(_) => "DynamicHashing",
        Attribute::ByteCountAdj(_) => "MeterByteCountAdjust",
        Attribute::PortStatusNotify(_) => "port_status_notif_cb",
        Attribute::IntvlMs(_) => "poll_intvl_ms",
    };
    match table.attributes.iter().any(|of| of == name) {
        true => Ok(()),
        false => Err(EntityError::invalid(format!(
            "{} has no attribute {name}; it has: {}",
            table.name,
            table.attributes.join(", ")
        ))),
    }
}

fn not_there(table: &Table) -> EntityError {
    EntityError::unimplemented(format!("this attribute of {} is not there", table.name))
}
