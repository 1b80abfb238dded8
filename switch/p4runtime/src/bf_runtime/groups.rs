//! Rules of Tofino's selectors beyond P4Runtime: a group that entries use must have an active member, and clients may
//! read the member that a hash selects.

use super::answer::{data_field, exact, without_action};
use super::entries::{everything, only};
use super::request;
use super::schema::{Kind, Schema, Table, fixed};
use super::state::{ALL_PIPES, State};
use crate::entities::Context;
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::table_action::Type;

/// Refuses an entry of a match table whose group has no active member.
pub fn check_entry(
    ctx: &mut Context,
    schema: &Schema,
    table: &Table,
    entry: &bf::TableEntry,
) -> Result<()> {
    let data = entry.data.as_ref();
    let group = data.and_then(|data| request::field(data, fixed::GROUP));
    let Some(Value::Stream(id)) = group.and_then(|field| field.value.clone()) else {
        return Ok(());
    };
    let Some(groups) = groups_of(schema, table).filter(|_| ctx.pipeline.cell_bytes().is_some())
    else {
        return Ok(());
    };
    let key = groups.key.first().map(|field| exact(field, &id));
    let group = bf::TableEntry {
        table_id: groups.id,
        key: Some(bf::TableKey {
            fields: key.into_iter().collect(),
        }),
        ..bf::TableEntry::default()
    };
    // A group that does not exist is refused elsewhere, with an error that names it.
    let Ok(group) = only(ctx, groups, &group) else {
        return Ok(());
    };
    match is_empty(&group) {
        true => Err(EntityError::invalid(format!(
            "the group of {} that {} is to use has no active member",
            groups.name, table.name
        ))),
        false => Ok(()),
    }
}

/// Refuses to leave a group that entries use without an active member.
pub fn check_group(
    ctx: &mut Context,
    schema: &Schema,
    groups: &Table,
    entry: &bf::TableEntry,
) -> Result<()> {
    if ctx.pipeline.cell_bytes().is_none() || entry.key.is_none() || !is_empty(entry) {
        return Ok(());
    }
    let Entity::ActionProfileGroup(group) = request::entity(groups, entry)? else {
        return Ok(());
    };
    for table in schema.tables().filter(|table| table.kind == Kind::Match) {
        if groups_of(schema, table).is_none_or(|of| of.id != groups.id) {
            continue;
        }
        let entries = everything(ctx, &request::all_of(table)?)?;
        let uses = |entity: &Entity| match entity {
            Entity::TableEntry(entry) => entry.action.as_ref().is_some_and(|action| {
                action.r#type == Some(Type::ActionProfileGroupId(group.group_id))
            }),
            _ => false,
        };
        if entries.iter().any(uses) {
            return Err(EntityError::invalid(format!(
                "entries of {} use this group of {}, which needs an active member",
                table.name, groups.name
            )));
        }
    }
    Ok(())
}

/// Refuses to change a group in one pipe, unless the tables that use it have entries of their own in each.
pub fn check_pipe(
    ctx: &Context,
    schema: &Schema,
    state: &State,
    groups: &Table,
    target: Option<&bf::TargetDevice>,
) -> Result<()> {
    let is_one = target.is_some_and(|target| target.pipe_id != ALL_PIPES);
    if !is_one || ctx.pipeline.cell_bytes().is_none() || state.is_by_pipe(groups) {
        return Ok(());
    }
    let mut tables = schema.tables().filter(|table| {
        table.kind == Kind::Match && groups_of(schema, table).is_some_and(|of| of.id == groups.id)
    });
    match tables.any(|table| state.is_by_pipe(table)) {
        true => Ok(()),
        false => Err(EntityError::invalid(format!(
            "groups of {} are those of all pipes: the target must be all of them",
            groups.name
        ))),
    }
}

/// The groups that entries of a match table may use.
fn groups_of<'a>(schema: &'a Schema, table: &Table) -> Option<&'a Table> {
    let selector = schema.table(*table.depends_on.first()?).ok()?;
    (selector.kind == Kind::Group).then_some(selector)
}

fn is_empty(group: &bf::TableEntry) -> bool {
    let data = group.data.clone().unwrap_or_default();
    request::active_members(&data).is_empty()
}

/// The member of a group that a hash selects.
pub fn selected_member(
    ctx: &Context,
    schema: &Schema,
    table: &Table,
    entry: &bf::TableEntry,
) -> Result<bf::TableEntry> {
    let name = &table.name;
    let (Some(key), [of_group, of_hash]) = (&entry.key, &table.key[..]) else {
        return Err(EntityError::invalid(format!(
            "{name} has a key of group and hash"
        )));
    };
    request::check_fields(table, key)?;
    let number = |id| request::exact(key, id).map_or(Ok(0), request::to_number);
    let (group, hash) = (number(of_group.id)?, number(of_hash.id)?);
    let groups = table.depends_on.first().copied().unwrap_or(0);
    let profile = ctx.info.action_profile(schema.table(groups)?.p4_id())?;
    let profile = ctx.pipeline.profile(profile.name())?;
    let p4_group = u32::try_from(group).map_or(0, request::swapped_id);
    let member = ctx.pipeline.selected_member(profile, p4_group, hash);
    let member = member.ok_or_else(|| {
        EntityError::not_found(format!("group {group} of {name} has no active member"))
    })?;
    let member = u64::from(request::swapped_id(member)).to_be_bytes();
    let fields = table
        .fields()
        .map(|field| data_field(field.id, Value::Stream(member.into())));
    Ok(bf::TableEntry {
        table_id: table.id,
        key: Some(key.clone()),
        data: Some(without_action(fields)),
        ..bf::TableEntry::default()
    })
}
