//! Write and Read of every kind of entity: checks against the P4Info, then the data plane, then the
//! store, in this order, so that a refused update leaves no trace.

mod action;
mod action_profile;
mod cells;
mod digest;
mod direct;
mod entry_key;
mod matching;
mod plan;
mod replication;
mod restore;
mod selector;
mod table;
mod table_action;
mod table_read;
mod undo;
mod value_set;

use ebb_pipeline::{EntryId, Pipeline};
use ebb_units::Instant;

pub use action_profile::write_resizable_group;
pub use cells::CellType;
pub use direct::{entry_id, last_hit};
pub use matching::match_kind;
pub use plan::{Plans, TablePlan, action_of, plans};
pub use replication::GROUP_0;
pub use restore::{restore, restore_updates};
pub use table_read::idle_entry;
pub use undo::{inverse, write_all_or_nothing};
pub use value_set::write_masked_value_set;

use crate::error::{EntityError, Result};
use crate::p4info::Index;
use crate::proto::config;
use crate::proto::p4;
use crate::proto::p4::entity::Entity as Kind;
use crate::store::Store;
use crate::translation::Names;

/// State that an update may read and change.
pub struct Context<'a> {
    pub info: &'a Index,
    pub plans: &'a Plans,
    pub names: &'a mut Names,
    pub store: &'a mut Store,
    pub pipeline: &'a mut Pipeline,
    pub now: Instant,
}

impl<'a> Context<'a> {
    /// A table with what is known of it.
    pub fn table(&self, id: u32) -> Result<(&'a config::Table, &'a TablePlan)> {
        let table = self.info.table(id)?;
        let plan = self.plans.get(&id);
        let plan = plan.ok_or_else(|| EntityError::internal(format!("no plan of table {id}")))?;
        Ok((table, plan))
    }
}

/// How far a read has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The table, counter, meter or register.
    pub object: u32,
    /// The next entry of a table.
    pub entry: Option<EntryId>,
    /// The next cell of an array.
    pub cell: u64,
}

impl Position {
    /// Goes to the start of an object, unless the read is there already.
    fn enter(&mut self, object: u32) {
        if object != self.object {
            *self = Self {
                object,
                ..Self::default()
            };
        }
    }
}

/// The type of an update, one of those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Insert,
    Modify,
    Delete,
}

impl Change {
    /// Refuses all but MODIFY, for things that exist as long as the program does.
    fn only_modify(self, what: &str) -> Result<()> {
        match self {
            Change::Modify => Ok(()),
            _ => Err(EntityError::invalid(format!(
                "{what} can only be MODIFY-ed, never inserted or deleted"
            ))),
        }
    }

    /// An inserted entity must not exist, any other must.
    fn check_existence(self, exists: bool) -> Result<()> {
        match (self, exists) {
            (Change::Insert, true) => Err(EntityError::already_exists("exists; use MODIFY")),
            (Change::Modify | Change::Delete, false) => {
                Err(EntityError::not_found("does not exist; insert it first"))
            }
            _ => Ok(()),
        }
    }
}

pub fn write(ctx: &mut Context, update: &p4::Update) -> Result<()> {
    let change = match update.r#type() {
        p4::update::Type::Insert => Change::Insert,
        p4::update::Type::Modify => Change::Modify,
        p4::update::Type::Delete => Change::Delete,
        p4::update::Type::Unspecified => {
            return Err(EntityError::invalid(format!(
                "type {}; allowed: INSERT (1), MODIFY (2), DELETE (3)",
                update.r#type
            )));
        }
    };
    let kind = update.entity.as_ref().and_then(|e| e.entity.as_ref());
    match kind.ok_or_else(|| EntityError::invalid("the update has no entity"))? {
        Kind::TableEntry(e) => table::write(ctx, change, e),
        Kind::ActionProfileMember(e) => action_profile::write_member(ctx, change, e),
        Kind::ActionProfileGroup(e) => action_profile::write_group(ctx, change, e),
        Kind::CounterEntry(e) => cells::write_counter(ctx, change, e),
        Kind::MeterEntry(e) => cells::write_meter(ctx, change, e),
        Kind::RegisterEntry(e) => cells::write_register(ctx, change, e),
        Kind::DirectCounterEntry(e) => direct::write_counter(ctx, change, e),
        Kind::DirectMeterEntry(e) => direct::write_meter(ctx, change, e),
        Kind::PacketReplicationEngineEntry(e) => replication::write(ctx, change, e),
        Kind::DigestEntry(e) => digest::write(ctx, change, e),
        Kind::ValueSetEntry(e) => value_set::write(ctx, change, e),
        Kind::ExternEntry(_) => Err(no_externs()),
    }
}

/// Adds the entities that an entity of a request selects to `out`: of tables and arrays about `limit` (the second
/// of `part`), from a position on (the first), which moves. True when there are no more.
pub fn read(
    ctx: &mut Context,
    entity: &p4::Entity,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    let kind = entity.entity.as_ref();
    match kind.ok_or_else(|| EntityError::invalid("an entity of the request is empty"))? {
        Kind::TableEntry(e) => return table_read::read(ctx, e, part, out),
        Kind::ActionProfileMember(e) => action_profile::read_members(ctx, e, out)?,
        Kind::ActionProfileGroup(e) => action_profile::read_groups(ctx, e, out)?,
        Kind::CounterEntry(e) => return cells::read_counters(ctx, e, part, out),
        Kind::MeterEntry(e) => return cells::read_meters(ctx, e, part, out),
        Kind::RegisterEntry(e) => return cells::read_registers(ctx, e, part, out),
        Kind::DirectCounterEntry(e) => return direct::read_counters(ctx, e, part, out),
        Kind::DirectMeterEntry(e) => return direct::read_meters(ctx, e, part, out),
        Kind::PacketReplicationEngineEntry(e) => replication::read(ctx, e, out)?,
        Kind::DigestEntry(e) => digest::read(ctx, e, out)?,
        Kind::ValueSetEntry(e) => value_set::read(ctx, e, out)?,
        Kind::ExternEntry(_) => return Err(no_externs()),
    }
    Ok(true)
}

fn no_externs() -> EntityError {
    EntityError::unimplemented("v1model has no externs beyond those with an entity of their own")
}

/// The object with this id, or all objects for id 0, as it means in reads.
fn selected<T>(
    all: &std::collections::BTreeMap<u32, T>,
    id: u32,
) -> impl Iterator<Item = (u32, &T)> {
    all.iter()
        .filter(move |(key, _)| id == 0 || **key == id)
        .map(|(key, value)| (*key, value))
}

fn entity(kind: Kind) -> p4::Entity {
    p4::Entity { entity: Some(kind) }
}

fn update(kind: p4::update::Type, entity: p4::Entity) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(entity),
    }
}
