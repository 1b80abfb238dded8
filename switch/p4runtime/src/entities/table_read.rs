//! Reading table entries: filters and wildcards (spec, "Wildcard Reads").

use ebb_pipeline::control::TableAction;
use ebb_pipeline::{EntryId, TableId};

use crate::entities::action::encode_action;
use crate::entities::direct::counter_data;
use crate::entities::matching::{FieldKey, encode_key};
use crate::entities::table::{entry_key, pipeline_key};
use crate::entities::table_action::direct_action;
use crate::entities::{Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::table::IdleTimeoutBehavior;
use crate::proto::p4;
use crate::store::{Entry, EntryKey};

pub fn read(ctx: &Context, filter: &p4::TableEntry, out: &mut Vec<p4::Entity>) -> Result<()> {
    if filter.table_id != 0 {
        ctx.info.table(filter.table_id)?;
    }
    for (_, table) in selected(&ctx.info.tables, filter.table_id) {
        read_table(ctx, table, filter, out)
            .map_err(|e| e.at(format!("table '{}'", table.name())))?;
    }
    Ok(())
}

fn read_table(
    ctx: &Context,
    table: &config::Table,
    filter: &p4::TableEntry,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    // With table id 0 the resources are asked for wherever there are some.
    let wildcard = filter.table_id == 0;
    check_request(ctx, table, filter, wildcard)?;
    if filter.is_default_action {
        out.push(entity(Kind::TableEntry(default_entry(ctx, table)?)));
        return Ok(());
    }
    for (key, entry) in matching(ctx, table, filter, wildcard)? {
        out.push(entity(Kind::TableEntry(table_entry(
            ctx, table, key, entry, filter,
        )?)));
    }
    Ok(())
}

/// The entries that a filter selects: one, when it gives a match.
pub fn matching<'a>(
    ctx: &'a Context,
    table: &config::Table,
    filter: &p4::TableEntry,
    wildcard: bool,
) -> Result<Vec<(&'a EntryKey, &'a Entry)>> {
    let Some(contents) = ctx.store.tables.get(&table.id()) else {
        return Ok(Vec::new());
    };
    if wildcard {
        return Ok(contents.entries.iter().collect());
    }
    if !filter.r#match.is_empty() {
        let key = entry_key(table, filter)?;
        let entry = contents.entries.get_key_value(&key);
        return Ok(entry
            .filter(|(_, e)| selects(filter, e))
            .into_iter()
            .collect());
    }
    let selected = |(key, entry): &(&EntryKey, &Entry)| {
        (filter.priority == 0 || filter.priority == key.priority) && selects(filter, entry)
    };
    Ok(contents.entries.iter().filter(selected).collect())
}

fn selects(filter: &p4::TableEntry, entry: &Entry) -> bool {
    #[allow(deprecated)]
    let cookie = filter.controller_metadata;
    let action = |a: &p4::TableAction| match &a.r#type {
        Some(p4::table_action::Type::Action(action)) => Some(action.action_id),
        _ => None,
    };
    let wanted = filter.action.as_ref().and_then(action);
    (cookie == 0 || cookie == entry.notes.controller_metadata)
        && (filter.metadata.is_empty() || filter.metadata == entry.notes.metadata)
        && (wanted.is_none() || wanted == entry.action.as_ref().and_then(action))
}

fn check_request(
    ctx: &Context,
    table: &config::Table,
    filter: &p4::TableEntry,
    wildcard: bool,
) -> Result<()> {
    if wildcard {
        return Ok(());
    }
    let fail = |what: &str| Err(EntityError::invalid(what.to_owned()));
    if filter.counter_data.is_some() && ctx.info.direct_counter_of(table).is_none() {
        return fail("counter_data is asked for, but the table has no direct counter");
    }
    if filter.meter_config.is_some() && ctx.info.direct_meter_of(table).is_none() {
        return fail("meter_config is asked for, but the table has no direct meter");
    }
    if filter.time_since_last_hit.is_some() && !has_timeout(table) {
        return fail("time_since_last_hit is asked for, but the table has no idle timeouts");
    }
    Ok(())
}

fn has_timeout(table: &config::Table) -> bool {
    table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl
}

fn table_entry(
    ctx: &Context,
    table: &config::Table,
    key: &EntryKey,
    entry: &Entry,
    filter: &p4::TableEntry,
) -> Result<p4::TableEntry> {
    let mut out = key_entry(table, key);
    out.action.clone_from(&entry.action);
    out.is_const = entry.is_const;
    out.idle_timeout_ns = entry.notes.idle_timeout_ns;
    out.metadata.clone_from(&entry.notes.metadata);
    #[allow(deprecated)]
    {
        out.controller_metadata = entry.notes.controller_metadata;
    }
    if filter.meter_config.is_some() {
        out.meter_config = entry.meter;
    }
    let with_counter = filter.counter_data.is_some();
    let with_hit = filter.time_since_last_hit.is_some() && has_timeout(table);
    if with_counter || with_hit {
        let id = ctx.pipeline.table(table.name())?;
        let view = ctx.pipeline.entry(id, &pipeline_key(key), key.priority)?;
        if with_counter {
            out.counter_data = counter_data(ctx, table, view.counter);
        }
        if with_hit {
            out.time_since_last_hit = Some(p4::table_entry::IdleTimeout {
                elapsed_ns: ctx.now.since(view.last_hit).as_nanos() as i64,
            });
        }
    }
    Ok(out)
}

/// The fields that identify an entry.
pub fn key_entry(table: &config::Table, key: &EntryKey) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table.id(),
        r#match: encode_key(&table.match_fields, &key.fields),
        priority: key.priority,
        ..Default::default()
    }
}

fn default_entry(ctx: &Context, table: &config::Table) -> Result<p4::TableEntry> {
    let stored = ctx.store.tables.get(&table.id()).map(|t| &t.default);
    let stored = stored.cloned().unwrap_or_default();
    let id = ctx.pipeline.table(table.name())?;
    let action = match (stored.action, ctx.pipeline.default_entry(id)) {
        (Some(action), _) => Some(action),
        (None, Some(TableAction::Direct(call))) => {
            encode_action(ctx.info, &table.action_refs, ctx.pipeline, call).map(direct_action)
        }
        (None, _) => None,
    };
    let mut out = p4::TableEntry {
        table_id: table.id(),
        is_default_action: true,
        action,
        is_const: table.const_default_action_id != 0,
        metadata: stored.notes.metadata,
        ..Default::default()
    };
    #[allow(deprecated)]
    {
        out.controller_metadata = stored.notes.controller_metadata;
    }
    Ok(out)
}

/// What an idle-timeout notification says about an entry. `None`: it is gone by now.
pub fn idle_entry(ctx: &mut Context, table: TableId, entry: EntryId) -> Option<p4::TableEntry> {
    let name = ctx.pipeline.table_info(table).name;
    let definition = ctx.info.tables.values().find(|t| t.name() == name)?;
    let view = ctx.pipeline.entry_by_id(table, entry).ok()?;
    let fields = FieldKey::from_pipeline(&definition.match_fields, &view.entry.key).ok()?;
    let key = EntryKey {
        fields,
        priority: view.entry.priority,
    };
    let contents = ctx.store.tables.get(&definition.id())?;
    let notes = &contents.entries.get(&key)?.notes;
    #[allow(deprecated)]
    Some(p4::TableEntry {
        controller_metadata: notes.controller_metadata,
        metadata: notes.metadata.clone(),
        idle_timeout_ns: notes.idle_timeout_ns,
        ..key_entry(definition, &key)
    })
}
