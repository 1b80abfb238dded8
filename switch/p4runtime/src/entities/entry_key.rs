//! Identity of entries in a table, as clients write it and as they read it.

use ebb_pipeline::control::{ControlError, EntryView, MatchKey};

use crate::entities::Context;
use crate::entities::matching::{FieldKey, decode_key, encode_key};
use crate::entities::plan::TablePlan;
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::p4;
use crate::translation::Names;

/// The key of an entry in the pipeline.
pub struct EntryKey {
    pub fields: Vec<MatchKey>,
    pub priority: i32,
}

/// The key of an entry, with its priority checked.
pub fn entry_key(
    table: &config::Table,
    plan: &TablePlan,
    names: &mut Names,
    entry: &p4::TableEntry,
) -> Result<EntryKey> {
    let fields = decode_key(&table.match_fields, &entry.r#match, names)?;
    if plan.needs_priority && entry.priority <= 0 {
        return Err(EntityError::invalid(format!(
            "priority {}; a table with ternary, range or optional fields needs one above 0 \
             (higher wins)",
            entry.priority
        )));
    }
    if !plan.needs_priority && entry.priority != 0 {
        return Err(EntityError::invalid(format!(
            "priority {}; must be 0, the table has only exact and lpm fields",
            entry.priority
        )));
    }
    Ok(EntryKey {
        fields: fields.into_iter().map(FieldKey::into_pipeline).collect(),
        priority: entry.priority,
    })
}

/// The fields that identify an entry.
pub fn key_entry(ctx: &Context, table: &config::Table, view: &EntryView) -> Result<p4::TableEntry> {
    let fields = FieldKey::from_pipeline(&table.match_fields, &view.entry.key)?;
    Ok(p4::TableEntry {
        table_id: table.id(),
        r#match: encode_key(&table.match_fields, &fields, ctx.names),
        priority: view.entry.priority,
        ..Default::default()
    })
}

/// The pipeline's error in the words of P4Runtime.
pub fn entry_error(error: ControlError) -> EntityError {
    match error {
        ControlError::AlreadyExists { .. } => {
            EntityError::already_exists("an entry with this match and priority exists; use MODIFY")
        }
        ControlError::NotFound {
            kind: "table entry",
            ..
        } => EntityError::not_found("no entry has this match and priority"),
        ControlError::Full { size, .. } => EntityError::exhausted(format!(
            "the table is full: it has {size} entries, its size is {size}"
        )),
        other => other.into(),
    }
}
