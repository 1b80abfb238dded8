//! Rows of tables that belong to no program: their columns, and how requests and answers have them.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::request::to_number;
use crate::bytes;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;
use crate::proto::bf_runtime::key_field::{self, MatchType};

/// A column: its number, its name, its type, whether it has several values. Bytes have their width behind a slash.
pub type Column = (u32, &'static str, &'static str, bool);

/// An action of rows: its number, its name, its columns.
pub type Action = (u32, &'static str, &'static [Column]);

/// A table.
pub struct Spec {
    pub name: &'static str,
    pub id: u32,
    pub kind: &'static str,
    pub size: u32,
    /// None: there is one row, the default entry.
    pub key: &'static [Column],
    pub data: &'static [Column],
    /// The actions that rows may have.
    pub actions: &'static [Action],
}

/// The fields of a row by number.
pub type Row = BTreeMap<u32, bf::DataField>;

/// A row with these fields.
pub fn row<const N: usize>(fields: [(u32, Value); N]) -> Row {
    let fields = fields.map(|(field_id, value)| {
        let value = Some(value);
        (field_id, bf::DataField { field_id, value })
    });
    fields.into()
}

/// Bits of a type.
fn width(ty: &str) -> usize {
    match (ty, ty.split_once('/')) {
        (_, Some((_, width))) => width.parse().unwrap_or(32),
        ("uint8", _) => 8,
        ("uint16", _) => 16,
        ("uint64", _) => 64,
        _ => 32,
    }
}

fn plain((id, name, ty, repeated): Column) -> Json {
    let ty = match ty.split_once('/') {
        Some((bytes, _)) => json!({ "type": bytes, "width": width(ty) }),
        None => json!({ "type": ty }),
    };
    json!({ "id": id, "name": name, "repeated": repeated, "annotations": [], "type": ty })
}

/// A column of data as the schema has it.
pub fn data_column(column: Column) -> Json {
    json!({ "mandatory": false, "read_only": false, "singleton": plain(column) })
}

/// A column of the key as the schema has it.
pub fn key_column(column: Column) -> Json {
    let mut made = plain(column);
    made["mandatory"] = true.into();
    made["match_type"] = "Exact".into();
    made
}

/// A row as clients get it; without a key it is the default entry.
pub fn answered(spec: &Spec, key: &[u64], action_id: u32, row: &Row) -> bf::TableEntry {
    let fields = spec.key.iter().zip(key).map(|((id, _, ty, _), key)| {
        let value = bytes::padded(&key.to_be_bytes(), width(ty));
        bf::KeyField {
            field_id: *id,
            match_type: Some(MatchType::Exact(key_field::Exact { value })),
        }
    });
    let fields: Vec<_> = fields.collect();
    bf::TableEntry {
        table_id: spec.id,
        is_default_entry: fields.is_empty(),
        key: (!fields.is_empty()).then_some(bf::TableKey { fields }),
        data: Some(bf::TableData {
            action_id,
            fields: row.values().cloned().collect(),
        }),
        ..bf::TableEntry::default()
    }
}

/// The value of the only field of a key. None: the entry has no key.
pub fn key(spec: &Spec, entry: &bf::TableEntry) -> Result<Option<u64>> {
    Ok(keys(spec, entry)?.and_then(|keys| keys.first().copied()))
}

/// The values of the fields of a key. None: the entry has no key, which means all of them.
pub fn keys(spec: &Spec, entry: &bf::TableEntry) -> Result<Option<Vec<u64>>> {
    let given = entry.key.iter().flat_map(|key| &key.fields);
    if given.clone().next().is_none() || spec.key.is_empty() {
        return Ok(None);
    }
    let value = |(id, name, ty, _): &Column| {
        let field = given.clone().find(|field| field.field_id == *id);
        let Some(MatchType::Exact(exact)) = field.and_then(|of| of.match_type.as_ref()) else {
            return Err(EntityError::invalid(format!(
                "{name} is a field of its key, compared exactly"
            )));
        };
        let value = to_number(&exact.value)?;
        let most = u64::MAX >> (64 - width(ty));
        (value <= most).then_some(value).ok_or_else(|| {
            EntityError::out_of_range(format!("{name} {value}; allowed: 0 to {most}"))
        })
    };
    spec.key.iter().map(value).collect::<Result<_>>().map(Some)
}

/// The fields of an entry on top of those that are there.
pub fn checked(spec: &Spec, entry: &bf::TableEntry, mut row: Row) -> Result<Row> {
    let data = entry.data.as_ref();
    let id = data.map_or(0, |data| data.action_id);
    let action = spec.actions.iter().find(|(of, ..)| *of == id);
    if id != 0 && action.is_none() {
        let names: Vec<_> = spec.actions.iter().map(|(_, name, _)| *name).collect();
        return Err(EntityError::unimplemented(match names.is_empty() {
            true => "entries have no action".to_owned(),
            false => format!(
                "entries have no such action; they have: {}",
                names.join(", ")
            ),
        }));
    }
    let of_action = action.map_or(&[][..], |(.., data)| data);
    for field in data.into_iter().flat_map(|data| &data.fields) {
        let mut columns = spec.data.iter().chain(of_action);
        let column = columns.find(|(id, ..)| *id == field.field_id);
        let Some((_, name, ty, repeated)) = column else {
            return Err(EntityError::invalid(format!(
                "there is no data field {}",
                field.field_id
            )));
        };
        let fits = match (&field.value, *repeated, *ty) {
            (Some(Value::StrVal(_)), false, "string")
            | (Some(Value::BoolVal(_)), false, "bool")
            | (Some(Value::BoolArrVal(_)), true, "bool")
            | (Some(Value::Stream(_)), false, "uint8" | "uint16" | "uint32" | "uint64") => true,
            (Some(Value::Stream(bytes)), false, ty) if ty.contains('/') => {
                bytes.len() <= width(ty).div_ceil(8)
            }
            // Bytes, one after the other.
            (Some(Value::Stream(_)), true, "bytes/8") => true,
            (Some(Value::IntArrVal(list)), true, "uint8" | "uint16" | "uint32") => {
                let most = u32::MAX >> (32 - width(ty));
                list.val.iter().all(|number| *number <= most)
            }
            // A list without members.
            (None, true, _) => true,
            _ => false,
        };
        if !fits {
            return Err(EntityError::invalid(format!(
                "{name} does not fit its type, {ty}"
            )));
        }
        row.insert(field.field_id, field.clone());
    }
    Ok(row)
}

/// The numbers of a field; none, if the row does not have it. A false one is 0, a true one 1.
pub fn numbers(row: &Row, column: u32) -> Vec<u64> {
    match row.get(&column).and_then(|field| field.value.as_ref()) {
        Some(Value::IntArrVal(list)) => list.val.iter().map(|n| u64::from(*n)).collect(),
        Some(Value::BoolArrVal(list)) => list.val.iter().map(|b| u64::from(*b)).collect(),
        Some(Value::BoolVal(value)) => vec![u64::from(*value)],
        Some(Value::Stream(value)) => vec![to_number(value).unwrap_or(u64::MAX)],
        _ => Vec::new(),
    }
}

/// The number of a field, 0 if the row does not have it.
pub fn number(row: &Row, column: u32) -> u64 {
    numbers(row, column).first().copied().unwrap_or(0)
}
