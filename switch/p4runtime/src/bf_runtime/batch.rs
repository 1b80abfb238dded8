//! Updates and reads of BF Runtime on a pipeline.

use tonic::Code;

use super::answer;
use super::request::{self, counter_data, has_counter, is_fixed, meter_config};
use super::schema::{Kind, Schema, Table};
use crate::entities::{self, Context, Position};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::update::Type;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;

/// How many entries that are to go are looked up at once.
const PART: usize = 1000;

/// Carries out one update.
pub fn write(ctx: &mut Context, schema: &Schema, update: &bf::Update) -> Result<()> {
    let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
    let entry = match entity {
        Some(bf::entity::Entity::TableEntry(entry)) => entry,
        // Counters and registers are read where they are; there is nothing to synchronise.
        Some(bf::entity::Entity::TableOperation(operation)) => {
            return schema.table(operation.table_id).map(|_| ());
        }
        Some(bf::entity::Entity::TableUsage(_)) => {
            return Err(EntityError::invalid("the usage of a table is only read"));
        }
        None => {
            return Err(EntityError::unimplemented(
                "the update is of no table entry; attributes and handles of tables are not there",
            ));
        }
    };
    let table = schema.table(entry.table_id)?;
    written(ctx, table, update.r#type(), entry)
}

fn written(ctx: &mut Context, table: &Table, kind: Type, entry: &bf::TableEntry) -> Result<()> {
    let lasting = is_fixed(table) || entry.is_default_entry;
    match kind {
        Type::Delete | Type::Reset if lasting => reset(ctx, table, entry),
        Type::Delete => delete(ctx, table, entry),
        Type::Insert | Type::Modify | Type::InsertOrModify if lasting => change(
            ctx,
            p4::update::Type::Modify,
            request::entity(table, entry)?,
        ),
        Type::Insert => change(
            ctx,
            p4::update::Type::Insert,
            request::entity(table, entry)?,
        ),
        Type::Modify => modify(ctx, table, entry),
        Type::InsertOrModify => {
            let entity = request::entity(table, entry)?;
            match change(ctx, p4::update::Type::Insert, entity.clone()) {
                Err(error) if error.code == Code::AlreadyExists => {
                    change(ctx, p4::update::Type::Modify, entity)
                }
                done => done,
            }
        }
        Type::Reset => Err(EntityError::invalid(
            "only default entries and objects are reset",
        )),
        Type::ModifyInc => Err(EntityError::unimplemented(
            "MODIFY_INC; read what there is and MODIFY it",
        )),
        Type::Unspecified => Err(EntityError::invalid("an update without a type")),
    }
}

fn change(ctx: &mut Context, kind: p4::update::Type, entity: Entity) -> Result<()> {
    let update = p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    };
    entities::write(ctx, &update)
}

/// Data without an action sets the entry's counter or meter and leaves its action.
fn modify(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let entity = request::entity(table, entry)?;
    let (Entity::TableEntry(found), Some(data)) = (&entity, &entry.data) else {
        return change(ctx, p4::update::Type::Modify, entity);
    };
    if found.action.is_some() {
        return change(ctx, p4::update::Type::Modify, entity);
    }
    let of_entry = p4::TableEntry {
        table_id: found.table_id,
        r#match: found.r#match.clone(),
        priority: found.priority,
        ..p4::TableEntry::default()
    };
    let config = meter_config(data)?;
    if !has_counter(data) && config.is_none() {
        return Err(EntityError::invalid(
            "the data has neither action nor counter nor meter",
        ));
    }
    if has_counter(data) {
        let counter = Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(of_entry.clone()),
            data: Some(counter_data(data)?),
        });
        change(ctx, p4::update::Type::Modify, counter)?;
    }
    if config.is_some() {
        let meter = Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(of_entry),
            config,
            counter_data: None,
        });
        change(ctx, p4::update::Type::Modify, meter)?;
    }
    Ok(())
}

/// The default action of the program, or zero in a cell of an object, in all cells without a key.
fn reset(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let without_data = bf::TableEntry {
        data: None,
        ..entry.clone()
    };
    let zero = bf::TableData::default();
    let entity = match request::entity(table, &without_data)? {
        Entity::CounterEntry(cell) => Entity::CounterEntry(p4::CounterEntry {
            data: Some(p4::CounterData::default()),
            ..cell
        }),
        Entity::RegisterEntry(cell) => Entity::RegisterEntry(p4::RegisterEntry {
            data: Some(request::register_data(table, &zero)?),
            ..cell
        }),
        other => other,
    };
    change(ctx, p4::update::Type::Modify, entity)
}

/// An entry, or all of them without a key.
fn delete(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let without_data = bf::TableEntry {
        data: None,
        ..entry.clone()
    };
    let filter = request::entity(table, &without_data)?;
    if entry.key.is_some() {
        return change(ctx, p4::update::Type::Delete, filter);
    }
    let (mut found, mut at) = (Vec::new(), Position::default());
    while !read_part(ctx, &filter, (&mut at, found.len() + PART), &mut found)? {}
    let entities = found.into_iter().filter_map(|e| e.entity);
    for entity in entities.filter(is_removable) {
        change(ctx, p4::update::Type::Delete, entity)?;
    }
    Ok(())
}

/// Neither a default entry nor one that the program gives for good.
fn is_removable(entity: &Entity) -> bool {
    match entity {
        Entity::TableEntry(entry) => !entry.is_default_action && !entry.is_const,
        _ => true,
    }
}

fn read_part(
    ctx: &mut Context,
    filter: &Entity,
    part: (&mut Position, usize),
    found: &mut Vec<p4::Entity>,
) -> Result<bool> {
    let filter = p4::Entity {
        entity: Some(filter.clone()),
    };
    entities::read(ctx, &filter, part, found)
}

/// A read on its way: one element of a request.
pub struct Reading {
    entry: bf::TableEntry,
    filter: Entity,
    usage: Option<u32>,
    position: Position,
    is_found: bool,
}

impl Reading {
    /// The read that an element of a request asks for.
    pub fn new(schema: &Schema, entity: &bf::Entity) -> Result<Reading> {
        let (entry, usage) = match entity.entity.as_ref() {
            Some(bf::entity::Entity::TableEntry(entry)) => (entry.clone(), None),
            Some(bf::entity::Entity::TableUsage(usage)) => {
                let entry = bf::TableEntry {
                    table_id: usage.table_id,
                    ..bf::TableEntry::default()
                };
                (entry, Some(0))
            }
            _ => {
                return Err(EntityError::unimplemented(
                    "the element is of no table entry; attributes and handles of tables are not there",
                ));
            }
        };
        let table = schema.table(entry.table_id)?;
        let without_data = bf::TableEntry {
            data: None,
            ..entry.clone()
        };
        let filter = request::entity(table, &without_data)?;
        Ok(Reading {
            filter: with_resources(table, filter),
            entry,
            usage,
            position: Position::default(),
            is_found: false,
        })
    }

    /// Adds about `limit` entries to `found`. True: there are no more.
    pub fn part(
        &mut self,
        ctx: &mut Context,
        schema: &Schema,
        limit: usize,
        found: &mut Vec<bf::Entity>,
    ) -> Result<bool> {
        let table = schema.table(self.entry.table_id)?;
        let mut entities = Vec::new();
        let part = (&mut self.position, limit);
        let ended = read_part(ctx, &self.filter, part, &mut entities)?;
        let entries = entities
            .into_iter()
            .filter_map(|e| answer::entry(table, e.entity?));
        for entry in entries.filter(|e| e.is_default_entry == self.entry.is_default_entry) {
            self.is_found = true;
            match &mut self.usage {
                Some(count) => *count += 1,
                None => found.push(entity(bf::entity::Entity::TableEntry(entry))),
            }
        }
        if !ended {
            return Ok(false);
        }
        if let Some(usage) = self.usage {
            let table_id = table.id;
            let usage = bf::TableUsage { table_id, usage };
            found.push(entity(bf::entity::Entity::TableUsage(usage)));
        }
        let one = self.entry.key.is_some() && self.usage.is_none();
        match one && !self.is_found {
            true => Err(EntityError::not_found(format!(
                "{} has no such entry",
                table.name
            ))),
            false => Ok(true),
        }
    }
}

fn entity(entity: bf::entity::Entity) -> bf::Entity {
    bf::Entity {
        entity: Some(entity),
    }
}

/// A read of entries asks for their counters and meters too, where the table has some.
fn with_resources(table: &Table, filter: Entity) -> Entity {
    use super::schema::fixed;
    let Entity::TableEntry(entry) = filter else {
        return filter;
    };
    debug_assert_eq!(table.kind, Kind::Match);
    let has_counter = table.has(fixed::COUNTER_BYTES) || table.has(fixed::COUNTER_PACKETS);
    let has_meter = table.has(fixed::METER_BYTES[0]) || table.has(fixed::METER_PACKETS[0]);
    Entity::TableEntry(p4::TableEntry {
        counter_data: has_counter.then(p4::CounterData::default),
        meter_config: has_meter.then(p4::MeterConfig::default),
        time_since_last_hit: table
            .has(fixed::HIT_STATE)
            .then(p4::table_entry::IdleTimeout::default),
        ..entry
    })
}
