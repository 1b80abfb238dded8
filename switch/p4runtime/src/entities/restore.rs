//! The writes that bring a state back: what RECONCILE_AND_COMMIT replays on the new pipeline.

use ebb_pipeline::Pipeline;
use tonic::Code;

use crate::entities::entry_key::key_entry;
use crate::entities::{Context, Kind, Position, entity, read, table_read, update, write};
use crate::error::Result;
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::p4;
use crate::proto::p4::packet_replication_engine_entry::Type as Replication;
use crate::proto::p4::update::Type;

/// The updates, what others depend on first. Counters and registers are not among them.
pub fn restore_updates(ctx: &mut Context) -> Result<Vec<p4::Update>> {
    let replication = |kind| {
        Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    let everything = [
        (Type::Insert, Kind::ActionProfileMember(Default::default())),
        (Type::Insert, Kind::ActionProfileGroup(Default::default())),
        (Type::Insert, Kind::TableEntry(Default::default())),
        (Type::Modify, Kind::MeterEntry(Default::default())),
        (
            Type::Insert,
            replication(Replication::MulticastGroupEntry(Default::default())),
        ),
        (
            Type::Insert,
            replication(Replication::CloneSessionEntry(Default::default())),
        ),
        (Type::Insert, Kind::DigestEntry(Default::default())),
        (Type::Modify, Kind::ValueSetEntry(Default::default())),
    ];
    let mut out = deletions(ctx)?;
    for (kind, filter) in everything {
        let mut found = Vec::new();
        let all = (&mut Position::default(), usize::MAX);
        read(ctx, &entity(filter), all, &mut found)?;
        for entity in found {
            out.extend(restored(ctx, kind, entity));
        }
    }
    for table_id in ctx.info.tables.keys().copied() {
        let default = p4::TableEntry {
            table_id,
            is_default_action: true,
            ..Default::default()
        };
        let mut whole = table_read::snapshot(ctx, &default).unwrap_or(default);
        whole.counter_data = None;
        // A default entry that is as the program has it needs no message.
        if whole.action.is_some() || whole.meter_config.is_some() {
            out.push(update(Type::Modify, entity(Kind::TableEntry(whole))));
        }
    }
    Ok(out)
}

/// Deletions of entries that the program brings and somebody has deleted: the new program may bring
/// them, too.
fn deletions(ctx: &Context) -> Result<Vec<p4::Update>> {
    let preinitialized = |t: &&config::Table| t.has_initial_entries && !t.is_const_table;
    let mut tables = ctx.info.tables.values().filter(preinitialized).peekable();
    let mut out = Vec::new();
    if tables.peek().is_none() {
        return Ok(out);
    }
    let fresh = Pipeline::new(ctx.pipeline.program().clone());
    for table in tables {
        let (_, plan) = ctx.table(table.id())?;
        for view in fresh.entries(plan.id) {
            let (key, priority) = (&view.entry.key, view.entry.priority);
            if ctx.pipeline.find_entry(plan.id, key, priority).is_err() {
                let entry = key_entry(ctx, table, &view)?;
                out.push(update(Type::Delete, entity(Kind::TableEntry(entry))));
            }
        }
    }
    Ok(out)
}

/// How an entity is to be written; `None`: there is nothing to say of it.
fn restored(ctx: &mut Context, kind: Type, found: p4::Entity) -> Option<p4::Update> {
    match found.entity? {
        Kind::TableEntry(entry) => {
            let mut whole = table_read::snapshot(ctx, &entry)?;
            whole.counter_data = None;
            // The program brings its const entries itself, but not their meters.
            match (entry.is_const, &whole.meter_config) {
                (true, None) => None,
                (true, Some(_)) => Some(update(Type::Modify, entity(Kind::TableEntry(whole)))),
                (false, _) => Some(update(kind, entity(Kind::TableEntry(whole)))),
            }
        }
        Kind::MeterEntry(meter) if meter.config.is_none() => None,
        other => Some(update(kind, entity(other))),
    }
}

/// An entry that the new program brings itself is changed to what it was, and one that it does not
/// bring need not be deleted.
pub fn restore(ctx: &mut Context, change: &p4::Update) -> Result<()> {
    match (write(ctx, change), change.r#type()) {
        (Err(error), _) if error.code == Code::AlreadyExists => {
            let mut modify = change.clone();
            modify.set_type(Type::Modify);
            write(ctx, &modify)
        }
        (Err(error), Type::Delete) if error.code == Code::NotFound => Ok(()),
        (result, _) => result,
    }
}
