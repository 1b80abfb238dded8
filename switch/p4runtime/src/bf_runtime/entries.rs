//! Entities of P4Runtime that an entry of BF Runtime stands for: their updates, and finding them.

use super::answer;
use super::request;
use super::schema::{Kind, Table, fixed};
use crate::entities::{self, Context, Position};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;

/// How many entities are looked up at once.
const PART: usize = 1000;

/// Carries out an update of P4Runtime.
pub fn change(ctx: &mut Context, kind: p4::update::Type, entity: Entity) -> Result<()> {
    let update = p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    };
    entities::write(ctx, &update)
}

/// All that a filter selects.
pub fn everything(ctx: &mut Context, filter: &Entity) -> Result<Vec<Entity>> {
    let (mut found, mut at) = (Vec::new(), Position::default());
    while !read_part(ctx, filter, (&mut at, found.len() + PART), &mut found)? {}
    Ok(found.into_iter().filter_map(|e| e.entity).collect())
}

/// The entry that there is with the key of another.
pub fn only(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<bf::TableEntry> {
    let filter = with_resources(table, request::named(table, entry)?);
    let mut found = everything(ctx, &filter)?.into_iter();
    let found = found.find_map(|entity| {
        answer::entry(table, entity).filter(|e| e.is_default_entry == entry.is_default_entry)
    });
    found.ok_or_else(|| no_entry(table))
}

/// The refusal of a key that no entry has.
pub fn no_entry(table: &Table) -> EntityError {
    EntityError::not_found(format!("{} has no such entry", table.name))
}

/// Adds about as many entities as a part has to those found. True: there are no more.
pub fn read_part(
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

/// A read of entries asks for their counters and meters too, where the table has some.
pub fn with_resources(table: &Table, filter: Entity) -> Entity {
    let Entity::TableEntry(entry) = filter else {
        return filter;
    };
    debug_assert_eq!(table.kind, Kind::Match);
    Entity::TableEntry(p4::TableEntry {
        counter_data: table.has_counts().then(p4::CounterData::default),
        meter_config: table.has_meter().then(p4::MeterConfig::default),
        time_since_last_hit: table
            .has(fixed::HIT_STATE)
            .then(p4::table_entry::IdleTimeout::default),
        ..entry
    })
}
