//! Writing table entries and default entries (spec, "TableEntry").

use ebb_pipeline::TableId;
use ebb_pipeline::control::{self, MatchKey, TableAction};
use ebb_units::Duration;

use crate::entities::action::Use;
use crate::entities::matching::{decode_key, needs_priority};
use crate::entities::table_action::decode_table_action;
use crate::entities::{Change, Context, direct};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::table::IdleTimeoutBehavior;
use crate::proto::p4;
use crate::store::{Entry, EntryKey, Notes, Table};

pub fn write(ctx: &mut Context, change: Change, entry: &p4::TableEntry) -> Result<()> {
    let table = ctx.info.table(entry.table_id)?;
    check_direct_resources(ctx, table, entry)
        .and_then(|()| match entry.is_default_action {
            true => write_default(ctx, table, change, entry),
            false => write_entry(ctx, table, change, entry),
        })
        .map_err(|e| e.at(format!("table '{}'", table.name())))
}

/// The key of an entry, with its priority checked.
pub fn entry_key(table: &config::Table, entry: &p4::TableEntry) -> Result<EntryKey> {
    let fields = decode_key(&table.match_fields, &entry.r#match)?;
    let needed = needs_priority(&table.match_fields);
    if needed && entry.priority <= 0 {
        return Err(EntityError::invalid(format!(
            "priority {}; a table with ternary, range or optional fields needs one above 0 \
             (higher wins)",
            entry.priority
        )));
    }
    if !needed && entry.priority != 0 {
        return Err(EntityError::invalid(format!(
            "priority {}; must be 0, the table has only exact and lpm fields",
            entry.priority
        )));
    }
    Ok(EntryKey {
        fields,
        priority: entry.priority,
    })
}

fn write_entry(
    ctx: &mut Context,
    table: &config::Table,
    change: Change,
    entry: &p4::TableEntry,
) -> Result<()> {
    // An entry without fields in a table without fields could only be the default entry.
    if table.match_fields.is_empty() {
        return Err(EntityError::invalid(
            "the table has no match fields; it only has a default entry (is_default_action)",
        ));
    }
    let key = entry_key(table, entry)?;
    let exists = contents(ctx, table).entries.contains_key(&key);
    match change {
        Change::Insert if table.is_const_table => Err(const_table()),
        Change::Insert if exists => Err(EntityError::already_exists(
            "an entry with this match and priority exists; use MODIFY",
        )),
        Change::Insert => insert(ctx, table, key, entry),
        _ if !exists => Err(EntityError::not_found(
            "no entry has this match and priority",
        )),
        Change::Modify => modify(ctx, table, key, entry),
        Change::Delete => delete(ctx, table, &key),
    }
}

fn insert(
    ctx: &mut Context,
    table: &config::Table,
    key: EntryKey,
    entry: &p4::TableEntry,
) -> Result<()> {
    let (count, size) = (contents(ctx, table).entries.len(), table.size);
    if size > 0 && count >= size as usize {
        return Err(EntityError::exhausted(format!(
            "the table is full: it has {count} entries, its size is {size}"
        )));
    }
    let notes = notes(table, entry)?;
    direct::checked_meter(ctx, table, entry.meter_config.as_ref())?;
    let action = entry.action.as_ref();
    let action = action.ok_or_else(|| EntityError::invalid("the entry has no action"))?;
    let (action, canonical) = decode_table_action(ctx, table, action, Use::Entry)?;

    let id = ctx.pipeline.table(table.name())?;
    let installed = pipeline_entry(&key, action, &notes);
    ctx.pipeline.insert_entry(ctx.now, id, installed)?;
    let stored = Entry {
        action: Some(canonical),
        meter: entry.meter_config,
        notes,
        is_const: false,
    };
    contents(ctx, table).entries.insert(key.clone(), stored);
    set_direct_resources(ctx, table, id, &key, entry)
}

fn modify(
    ctx: &mut Context,
    table: &config::Table,
    key: EntryKey,
    entry: &p4::TableEntry,
) -> Result<()> {
    let mut changed = find(ctx, table, &key)?;
    if changed.is_const && entry.action.is_some() {
        return Err(EntityError::permission_denied(
            "the entry is const: only its direct resources can be modified, so give no action",
        ));
    }
    direct::checked_meter(ctx, table, entry.meter_config.as_ref())?;
    let id = ctx.pipeline.table(table.name())?;
    // Without an action only the direct resources change.
    if let Some(action) = &entry.action {
        changed.notes = notes(table, entry)?;
        let (action, canonical) = decode_table_action(ctx, table, action, Use::Entry)?;
        let installed = pipeline_entry(&key, action, &changed.notes);
        ctx.pipeline.modify_entry(ctx.now, id, installed)?;
        changed.action = Some(canonical);
    }
    changed.meter = entry.meter_config;
    contents(ctx, table).entries.insert(key.clone(), changed);
    set_direct_resources(ctx, table, id, &key, entry)
}

/// What is unset resets a meter and leaves a counter alone (spec, "Direct Resources").
fn set_direct_resources(
    ctx: &mut Context,
    table: &config::Table,
    id: TableId,
    key: &EntryKey,
    entry: &p4::TableEntry,
) -> Result<()> {
    let match_key = pipeline_key(key);
    if let Some(data) = &entry.counter_data {
        let value = direct::checked_counter(data)?;
        ctx.pipeline
            .set_entry_counter(id, &match_key, key.priority, value)?;
    }
    if ctx.info.direct_meter_of(table).is_some() {
        let meter = direct::checked_meter(ctx, table, entry.meter_config.as_ref())?;
        ctx.pipeline
            .set_entry_meter(ctx.now, id, &match_key, key.priority, meter)?;
    }
    Ok(())
}

fn delete(ctx: &mut Context, table: &config::Table, key: &EntryKey) -> Result<()> {
    if find(ctx, table, key)?.is_const {
        return Err(EntityError::permission_denied(
            "the entry is const: it cannot be deleted",
        ));
    }
    let id = ctx.pipeline.table(table.name())?;
    ctx.pipeline
        .delete_entry(id, &pipeline_key(key), key.priority)?;
    contents(ctx, table).entries.remove(key);
    Ok(())
}

pub fn pipeline_key(key: &EntryKey) -> Vec<MatchKey> {
    key.fields.iter().map(|f| f.to_pipeline()).collect()
}

fn pipeline_entry(key: &EntryKey, action: TableAction, notes: &Notes) -> control::TableEntry {
    let timeout_ns = notes.idle_timeout_ns.unsigned_abs();
    control::TableEntry {
        key: pipeline_key(key),
        priority: key.priority,
        action,
        idle_timeout: (timeout_ns > 0).then(|| Duration::from_nanos(timeout_ns)),
        metadata: notes.metadata.clone(),
    }
}

fn write_default(
    ctx: &mut Context,
    table: &config::Table,
    change: Change,
    entry: &p4::TableEntry,
) -> Result<()> {
    if change != Change::Modify {
        return Err(EntityError::invalid(
            "the default entry always exists; use MODIFY (without an action: reset it)",
        ));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 || entry.idle_timeout_ns != 0 {
        return Err(EntityError::invalid(
            "a default entry has no match, no priority and no idle timeout",
        ));
    }
    if entry.counter_data.is_some() || entry.meter_config.is_some() {
        return Err(direct::no_default_resources());
    }
    if table.const_default_action_id != 0 && entry.action.is_some() {
        return Err(EntityError::permission_denied(
            "the default action is const in the P4 program",
        ));
    }
    let mut default = Entry::default();
    let mut action = None;
    if let Some(given) = &entry.action {
        if table.implementation_id != 0 {
            return Err(EntityError::permission_denied(
                "the default action of a table with an action profile is constant",
            ));
        }
        let (decoded, canonical) = decode_table_action(ctx, table, given, Use::Default)?;
        action = Some(decoded);
        default.action = Some(canonical);
        default.notes = notes(table, entry)?;
    }
    let id = ctx.pipeline.table(table.name())?;
    // A const default needs no reset.
    if table.const_default_action_id == 0 {
        ctx.pipeline.set_default_entry(id, action)?;
    }
    contents(ctx, table).default = default;
    Ok(())
}

/// What is asked of direct resources must be possible before anything is changed.
fn check_direct_resources(
    ctx: &Context,
    table: &config::Table,
    entry: &p4::TableEntry,
) -> Result<()> {
    let fail = |what: &str| Err(EntityError::invalid(what.to_owned()));
    if entry.counter_data.is_some() && ctx.info.direct_counter_of(table).is_none() {
        return fail("counter_data is set, but the table has no direct counter");
    }
    if let Some(data) = &entry.counter_data {
        direct::checked_counter(data)?;
    }
    if entry.meter_counter_data.is_some() {
        return fail("meter_counter_data is set, but meters have no counters here");
    }
    if entry.time_since_last_hit.is_some() {
        return fail("time_since_last_hit is set; it is for reading only");
    }
    Ok(())
}

fn notes(table: &config::Table, entry: &p4::TableEntry) -> Result<Notes> {
    let supported = table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl;
    if entry.idle_timeout_ns != 0 && !supported {
        return Err(EntityError::invalid(
            "idle_timeout_ns is set, but the table does not support idle timeouts \
             (`support_timeout = true` in P4)",
        ));
    }
    if entry.idle_timeout_ns < 0 {
        return Err(EntityError::invalid(format!(
            "idle_timeout_ns {}; allowed: 0 (never) and above",
            entry.idle_timeout_ns
        )));
    }
    #[allow(deprecated)] // Old clients still use it, and it costs nothing to keep.
    let controller_metadata = entry.controller_metadata;
    Ok(Notes {
        controller_metadata,
        metadata: entry.metadata.clone(),
        idle_timeout_ns: entry.idle_timeout_ns,
    })
}

fn contents<'a>(ctx: &'a mut Context, table: &config::Table) -> &'a mut Table {
    ctx.store.tables.entry(table.id()).or_default()
}

fn find(ctx: &mut Context, table: &config::Table, key: &EntryKey) -> Result<Entry> {
    let entry = contents(ctx, table).entries.get(key).cloned();
    entry.ok_or_else(|| EntityError::not_found("no entry has this match and priority"))
}

fn const_table() -> EntityError {
    EntityError::permission_denied("the entries of this table are const in the P4 program")
}
