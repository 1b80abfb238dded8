//! Reading table entries: filters and wildcards (spec, "Wildcard Reads").

use ebb_pipeline::control::{EntryView, TableAction};
use ebb_pipeline::{EntryId, TableId};

use crate::entities::action::encode_action;
use crate::entities::direct::{counter_data, meter_config, meter_counter_data};
use crate::entities::entry_key::{entry_key, key_entry};
use crate::entities::matching::{FieldKey, decode_key};
use crate::entities::plan::TablePlan;
use crate::entities::table_action::direct_action;
use crate::entities::{Context, Kind, Position, entity};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::table::IdleTimeoutBehavior;
use crate::proto::p4;
use crate::proto::p4::table_action::Type;

/// How many entries a part of a read looks at for each that it may return.
const LOOKED_AT_PER_FOUND: usize = 5;

/// Reads on from `position`, about `limit` entries. True when there are no more.
pub fn read(
    ctx: &mut Context,
    filter: &p4::TableEntry,
    (position, limit): (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    let info = ctx.info;
    match filter.table_id {
        0 => check_wildcard(filter)?,
        id => drop(info.table(id)?),
    }
    for (id, table) in info.tables.range(position.object..) {
        if filter.table_id != 0 && filter.table_id != *id {
            continue;
        }
        position.enter(*id);
        let (_, plan) = ctx.table(*id)?;
        let read = read_table(ctx, (table, plan), filter, (position, limit), out);
        if !read.map_err(|e| e.at(format!("table '{}'", table.name())))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_table(
    ctx: &mut Context,
    (table, plan): (&config::Table, &TablePlan),
    filter: &p4::TableEntry,
    (position, limit): (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    // With table id 0 the resources are asked for wherever there are some.
    let wildcard = filter.table_id == 0;
    if !wildcard {
        check_request(table, plan, filter)?;
    }
    let any_priority = plan.needs_priority && filter.priority == 0;
    let push = |entry| entity(Kind::TableEntry(entry));
    if filter.is_default_action {
        out.push(push(default_entry(ctx, table, plan, filter)?));
        return Ok(true);
    }
    let mut fields = None;
    if !filter.r#match.is_empty() && any_priority {
        // Entries of several priorities may have this match.
        fields = Some(decode_key(&table.match_fields, &filter.r#match, ctx.names)?);
    } else if !filter.r#match.is_empty() {
        let key = entry_key(table, plan, ctx.names, filter)?;
        let found = ctx.pipeline.find_entry(plan.id, &key.fields, key.priority);
        if let Ok(id) = found {
            let view = ctx.pipeline.entry_by_id(plan.id, id)?;
            let entry = table_entry(ctx, table, plan, &view, filter)?;
            out.extend(selects(filter, &entry).then(|| push(entry)));
        }
        return Ok(true);
    }
    let views = ctx.pipeline.entries_from(plan.id, position.entry);
    for (looked_at, view) in views.enumerate() {
        // A filter that selects nothing must not hold the packets up for all of a large table.
        if out.len() >= limit || looked_at >= limit.saturating_mul(LOOKED_AT_PER_FOUND) {
            position.entry = Some(view.id);
            return Ok(false);
        }
        if let Some(fields) = &fields
            && *fields != FieldKey::from_pipeline(&table.match_fields, &view.entry.key)?
        {
            continue;
        }
        let entry = table_entry(ctx, table, plan, &view, filter)?;
        if wildcard || selects(filter, &entry) {
            out.push(push(entry));
        }
    }
    Ok(true)
}

/// With table id 0 "no other filter can be used"; default entries and direct resources may be asked for.
fn check_wildcard(filter: &p4::TableEntry) -> Result<()> {
    #[allow(deprecated)]
    let given = [
        ("match", !filter.r#match.is_empty()),
        ("action", filter.action.is_some()),
        ("priority", filter.priority != 0),
        ("controller_metadata", filter.controller_metadata != 0),
        ("metadata", !filter.metadata.is_empty()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((field, _)) => Err(EntityError::invalid(format!(
            "{field} is a filter within one table, but table_id is 0, which reads all of them; give the \
             table's id"
        ))),
    }
}

fn selects(filter: &p4::TableEntry, entry: &p4::TableEntry) -> bool {
    #[allow(deprecated)]
    let (cookie, of_entry) = (filter.controller_metadata, entry.controller_metadata);
    let action = |a: &p4::TableAction| match &a.r#type {
        Some(Type::Action(action)) => Some(action.action_id),
        _ => None,
    };
    let wanted = filter.action.as_ref().and_then(action);
    (filter.priority == 0 || filter.priority == entry.priority)
        && (cookie == 0 || cookie == of_entry)
        && (filter.metadata.is_empty() || filter.metadata == entry.metadata)
        && (wanted.is_none() || wanted == entry.action.as_ref().and_then(action))
}

fn check_request(table: &config::Table, plan: &TablePlan, filter: &p4::TableEntry) -> Result<()> {
    let fail = |what: &str| Err(EntityError::invalid(what.to_owned()));
    if filter.counter_data.is_some() && !plan.has_counter {
        return fail("counter_data is asked for, but the table has no direct counter");
    }
    if filter.meter_config.is_some() && plan.meter.is_none() {
        return fail("meter_config is asked for, but the table has no direct meter");
    }
    if filter.meter_counter_data.is_some() && plan.meter.is_none() {
        return fail("meter_counter_data is asked for, but the table has no direct meter");
    }
    if filter.time_since_last_hit.is_some() && (!has_timeout(table) || filter.is_default_action) {
        return fail("time_since_last_hit is asked for, but there are no idle timeouts");
    }
    Ok(())
}

fn has_timeout(table: &config::Table) -> bool {
    table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl
}

fn table_entry(
    ctx: &Context,
    table: &config::Table,
    plan: &TablePlan,
    view: &EntryView,
    filter: &p4::TableEntry,
) -> Result<p4::TableEntry> {
    let mut out = key_entry(ctx, table, view)?;
    let extra = ctx.store.tables.get(&table.id());
    let extra = extra.and_then(|t| t.extra(view.id));
    let kind = match &view.entry.action {
        TableAction::Direct(call) => {
            encode_action(ctx.info, ctx.names, &table.action_refs, ctx.pipeline, call)
                .map(Type::Action)
        }
        TableAction::Member(id) => Some(Type::ActionProfileMemberId(*id)),
        TableAction::Group(id) => Some(Type::ActionProfileGroupId(*id)),
        TableAction::Set(_) => None,
    };
    out.action = match kind {
        Some(kind) => Some(of_kind(kind)),
        None => extra.and_then(|e| e.set.clone()),
    };
    out.is_const = view.is_const;
    if let Some(extra) = extra {
        out.idle_timeout_ns = extra.notes.idle_timeout_ns;
        out.metadata.clone_from(&extra.notes.metadata);
        #[allow(deprecated)]
        {
            out.controller_metadata = extra.notes.controller_metadata;
        }
    }
    resources(ctx, table, plan, Some(view.id), filter, &mut out);
    if filter.time_since_last_hit.is_some() && has_timeout(table) {
        out.time_since_last_hit = Some(p4::table_entry::IdleTimeout {
            elapsed_ns: ctx.now.since(view.last_hit).as_nanos() as i64,
        });
    }
    Ok(out)
}

/// Adds the direct resources that the filter asks for. `entry` `None`: those of the default entry.
fn resources(
    ctx: &Context,
    table: &config::Table,
    plan: &TablePlan,
    entry: Option<EntryId>,
    filter: &p4::TableEntry,
    out: &mut p4::TableEntry,
) {
    if filter.counter_data.is_some() {
        let value = ctx.pipeline.entry_counter(plan.id, entry);
        out.counter_data = counter_data(ctx, table, value);
    }
    if plan.meter.is_some() {
        let (config, counts) = ctx.pipeline.entry_meter(plan.id, entry);
        if filter.meter_config.is_some() {
            out.meter_config = config.map(meter_config);
        }
        if filter.meter_counter_data.is_some() {
            out.meter_counter_data = Some(meter_counter_data(counts));
        }
    }
}

fn of_kind(kind: Type) -> p4::TableAction {
    p4::TableAction { r#type: Some(kind) }
}

fn default_entry(
    ctx: &Context,
    table: &config::Table,
    plan: &TablePlan,
    filter: &p4::TableEntry,
) -> Result<p4::TableEntry> {
    let notes = ctx.store.tables.get(&table.id()).map(|t| &t.default.notes);
    let notes = notes.cloned().unwrap_or_default();
    let action = match ctx.pipeline.default_entry(plan.id) {
        Some(TableAction::Direct(call)) => {
            encode_action(ctx.info, ctx.names, &table.action_refs, ctx.pipeline, call)
                .map(direct_action)
        }
        Some(TableAction::Member(id)) => Some(of_kind(Type::ActionProfileMemberId(*id))),
        Some(TableAction::Group(id)) => Some(of_kind(Type::ActionProfileGroupId(*id))),
        Some(TableAction::Set(_)) | None => None,
    };
    let mut out = p4::TableEntry {
        table_id: table.id(),
        is_default_action: true,
        action,
        is_const: table.const_default_action_id != 0,
        metadata: notes.metadata,
        ..Default::default()
    };
    #[allow(deprecated)]
    {
        out.controller_metadata = notes.controller_metadata;
    }
    resources(ctx, table, plan, None, filter, &mut out);
    Ok(out)
}

/// Everything that a write can say of the entry with the same key, if there is one.
pub fn snapshot(ctx: &mut Context, entry: &p4::TableEntry) -> Option<p4::TableEntry> {
    let (table, plan) = ctx.table(entry.table_id).ok()?;
    let wanted = p4::TableEntry {
        counter_data: plan.has_counter.then(Default::default),
        meter_config: plan.meter.map(|_| Default::default()),
        ..Default::default()
    };
    let mut whole = if entry.is_default_action {
        let mut default = default_entry(ctx, table, plan, &wanted).ok()?;
        // The default of the program is written by saying nothing.
        let stored = ctx.store.tables.get(&table.id());
        if stored.is_none_or(|t| t.default.action.is_none()) {
            default.action = None;
        }
        default
    } else {
        let key = entry_key(table, plan, ctx.names, entry).ok()?;
        let found = ctx.pipeline.find_entry(plan.id, &key.fields, key.priority);
        let view = ctx.pipeline.entry_by_id(plan.id, found.ok()?).ok()?;
        table_entry(ctx, table, plan, &view, &wanted).ok()?
    };
    if std::mem::take(&mut whole.is_const) {
        whole.action = None;
    }
    Some(whole)
}

/// The entry in an idle-timeout notification. `None`: it is gone by now.
pub fn idle_entry(ctx: &mut Context, table: TableId, entry: EntryId) -> Option<p4::TableEntry> {
    let name = ctx.pipeline.table_info(table).name;
    let definition = ctx.info.tables.values().find(|t| t.name() == name)?;
    let view = ctx.pipeline.entry_by_id(table, entry).ok()?;
    let extra = ctx.store.tables.get(&definition.id())?.extra(entry)?;
    #[allow(deprecated)]
    Some(p4::TableEntry {
        controller_metadata: extra.notes.controller_metadata,
        metadata: extra.notes.metadata.clone(),
        idle_timeout_ns: extra.notes.idle_timeout_ns,
        ..key_entry(ctx, definition, &view).ok()?
    })
}
