//! Writing table entries and default entries (spec, "TableEntry").

use ebb_pipeline::control::TableEntry;
use ebb_units::Duration;

use crate::entities::action::Use;
use crate::entities::entry_key::{EntryKey, entry_error, entry_key};
use crate::entities::plan::TablePlan;
use crate::entities::table_action::decode_table_action;
use crate::entities::{Change, Context, direct};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::table::IdleTimeoutBehavior;
use crate::proto::p4;
use crate::store::{DefaultEntry, Extra, Notes};

pub fn write(ctx: &mut Context, change: Change, entry: &p4::TableEntry) -> Result<()> {
    let (table, plan) = ctx.table(entry.table_id)?;
    let written = match (entry.is_const, entry.is_default_action) {
        (true, _) => Err(EntityError::invalid(
            "is_const is set; it is for reading only",
        )),
        (false, true) => write_default(ctx, table, plan, change, entry),
        (false, false) => write_entry(ctx, table, plan, change, entry),
    };
    written.map_err(|e| e.at(format!("table '{}'", table.name())))
}

fn write_entry(
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
    change: Change,
    entry: &p4::TableEntry,
) -> Result<()> {
    // An entry without fields in a table without fields could only be the default entry.
    if table.match_fields.is_empty() {
        return Err(EntityError::invalid(
            "the table has no match fields; it only has a default entry (is_default_action)",
        ));
    }
    if table.is_const_table {
        match (change, &entry.action) {
            (Change::Modify, None) => {}
            (Change::Modify, Some(_)) => return Err(const_entry()),
            _ => return Err(const_table()),
        }
    }
    let key = entry_key(table, plan, ctx.names, entry)?;
    match change {
        Change::Insert => insert(ctx, table, plan, key, entry),
        Change::Modify => modify(ctx, table, plan, key, entry),
        Change::Delete => {
            let found = ctx.pipeline.find_entry(plan.id, &key.fields, key.priority);
            if ctx
                .pipeline
                .is_const_entry(plan.id, found.map_err(entry_error)?)
            {
                return Err(EntityError::permission_denied(
                    "the entry is const in the P4 program: it cannot be deleted",
                ));
            }
            let deleted = ctx
                .pipeline
                .delete_entry(plan.id, &key.fields, key.priority);
            let id = deleted.map_err(entry_error)?;
            ctx.store.table(table.id()).set_extra(id, Extra::default());
            Ok(())
        }
    }
}

fn insert(
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
    key: EntryKey,
    entry: &p4::TableEntry,
) -> Result<()> {
    let notes = notes(table, entry)?;
    direct::check(plan, entry)?;
    let action = entry.action.as_ref();
    let action = action.ok_or_else(|| EntityError::invalid("the entry has no action"))?;
    let (action, set) = decode_table_action(ctx, table, plan, action, Use::Entry)?;
    let installed = pipeline_entry(key, action, &notes);
    let inserted = ctx.pipeline.insert_entry(ctx.now, plan.id, installed);
    let id = inserted.map_err(entry_error)?;
    let extra = Extra { notes, set };
    if extra != Extra::default() {
        ctx.store.table(table.id()).set_extra(id, extra);
    }
    direct::set(ctx, plan, Some(id), entry)
}

fn modify(
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
    key: EntryKey,
    entry: &p4::TableEntry,
) -> Result<()> {
    let found = ctx.pipeline.find_entry(plan.id, &key.fields, key.priority);
    let id = found.map_err(entry_error)?;
    direct::check(plan, entry)?;
    // Without an action only the direct resources change.
    if let Some(action) = &entry.action {
        if ctx.pipeline.is_const_entry(plan.id, id) {
            return Err(const_entry());
        }
        let notes = notes(table, entry)?;
        let (action, set) = decode_table_action(ctx, table, plan, action, Use::Entry)?;
        let installed = pipeline_entry(key, action, &notes);
        let modified = ctx.pipeline.modify_entry(ctx.now, plan.id, installed);
        modified.map_err(entry_error)?;
        ctx.store
            .table(table.id())
            .set_extra(id, Extra { notes, set });
    }
    direct::set(ctx, plan, Some(id), entry)
}

fn pipeline_entry(
    key: EntryKey,
    action: ebb_pipeline::control::TableAction,
    notes: &Notes,
) -> TableEntry {
    let timeout_ns = notes.idle_timeout_ns.unsigned_abs();
    TableEntry {
        key: key.fields,
        priority: key.priority,
        action,
        idle_timeout: (timeout_ns > 0).then(|| Duration::from_nanos(timeout_ns)),
        // Kept in the store, with what else is the client's.
        metadata: Vec::new(),
    }
}

fn write_default(
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
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
    direct::check(plan, entry)?;
    if table.const_default_action_id != 0 && entry.action.is_some() {
        return Err(EntityError::permission_denied(
            "the default action is const in the P4 program",
        ));
    }
    let mut default = DefaultEntry::default();
    let mut action = None;
    if let Some(given) = &entry.action {
        // Tofino's tables may miss to a member or group; those of v1model may not (spec, "Action Profiles").
        if table.implementation_id != 0 && ctx.pipeline.cell_bytes().is_none() {
            return Err(EntityError::permission_denied(
                "the default action of a table with an action profile is constant",
            ));
        }
        let (decoded, _) = decode_table_action(ctx, table, plan, given, Use::Default)?;
        action = Some(decoded);
        default.action = Some(given.clone());
        default.notes = notes(table, entry)?;
    }
    // A const default needs no reset.
    if table.const_default_action_id == 0 {
        ctx.pipeline.set_default_entry(plan.id, action)?;
    }
    ctx.store.table(table.id()).default = default;
    direct::set(ctx, plan, None, entry)
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

fn const_table() -> EntityError {
    EntityError::permission_denied("the entries of this table are const in the P4 program")
}

fn const_entry() -> EntityError {
    EntityError::permission_denied(
        "the entry is const: only its direct resources can be modified, so give no action",
    )
}
