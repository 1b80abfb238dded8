//! Batches that are done as a whole or not at all. A batch runs between two packets, so what is undone no packet has
//! seen: ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC are the same here, as in P4Runtime.

use super::batch::{self, Scope};
use super::chip_tables;
use super::entries::everything;
use super::filters;
use super::request::{self, is_fixed};
use super::schema::{Field, Kind, Table};
use super::state::State;
use crate::entities::{self, Context};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::entity::Entity as Element;
use crate::proto::bf_runtime::update::Type;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::update::Type as Change;

/// The results of all updates. If one fails, it alone has an error, and none of the batch is in force.
pub fn write_all_or_nothing(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    updates: &[bf::Update],
) -> Vec<Result<()>> {
    let before = state.clone();
    let mut results: Vec<Result<()>> = updates.iter().map(|_| Ok(())).collect();
    let mut done: Vec<p4::Update> = Vec::new();
    for (number, update) in updates.iter().enumerate() {
        // The present state must be looked at before it changes.
        let written = inverse(ctx, scope, update).and_then(|back| {
            // One that empties a table may have done a part of that.
            let is_partial = back.len() > 1;
            let written = batch::write(ctx, scope, state, update);
            if written.is_ok() || is_partial {
                done.extend(back);
            }
            written
        });
        if let Err(error) = written {
            for update in done.iter().rev() {
                match entities::write(ctx, update) {
                    Err(error) if error.code != tonic::Code::AlreadyExists => {
                        tracing::error!(%error, "an update of a batch could not be undone");
                    }
                    _ => {}
                }
            }
            *state = before;
            results[number] = Err(error.at("nothing of the batch is done, because this failed"));
            return results;
        }
    }
    results
}

/// The updates of P4Runtime that undo an update. Refuses, by name, those that they cannot undo.
fn inverse(ctx: &mut Context, scope: Scope, update: &bf::Update) -> Result<Vec<p4::Update>> {
    let Some(Element::TableEntry(entry)) = update.entity.as_ref().and_then(|e| e.entity.as_ref())
    else {
        return Err(refused("what is no entry of a table"));
    };
    if chip_tables::has(entry.table_id) {
        return Err(refused("tables that belong to no program"));
    }
    let table = scope.schema.table(entry.table_id)?;
    let has_cells = table.fields().any(|of: &Field| of.register().is_some());
    match table.kind {
        Kind::Match if has_cells || filters::has_some(table) => {
            return Err(refused("entries with direct registers or filters"));
        }
        Kind::Match | Kind::Member | Kind::Group | Kind::Counter | Kind::Meter | Kind::Register => {
        }
        _ => return Err(refused(&table.name)),
    }
    let entity = request::named(table, entry)?;
    let lasts = is_fixed(table) || entry.is_default_entry;
    if entry.key.is_none() && !lasts {
        return removed(ctx, table, &entity);
    }
    let mut back = |change: Change| {
        let update = p4::Update {
            r#type: change as i32,
            entity: Some(p4::Entity {
                entity: Some(entity.clone()),
            }),
        };
        entities::inverse(ctx, &update)
    };
    Ok(match update.r#type() {
        _ if lasts => back(Change::Modify),
        Type::Insert => back(Change::Insert),
        Type::Delete => back(Change::Delete),
        Type::InsertOrModify => match back(Change::Modify) {
            present if present.is_empty() => back(Change::Insert),
            present => present,
        },
        _ => back(Change::Modify),
    })
}

/// The updates that put all entries of a table back.
fn removed(ctx: &mut Context, table: &Table, filter: &Entity) -> Result<Vec<p4::Update>> {
    debug_assert!(matches!(
        table.kind,
        Kind::Match | Kind::Member | Kind::Group
    ));
    let mut back = Vec::new();
    for entity in everything(ctx, filter)? {
        let update = p4::Update {
            r#type: Change::Delete as i32,
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        };
        back.extend(entities::inverse(ctx, &update));
    }
    Ok(back)
}

fn refused(what: &str) -> EntityError {
    EntityError::unimplemented(format!(
        "a batch that is done as a whole cannot change {what}; use CONTINUE_ON_ERROR"
    ))
}
