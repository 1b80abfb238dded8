//! Low-pass filters and random early detection, for which P4Runtime has no message: tables of their own, or fields of
//! the entries of a match table.

use ebb_pipeline::FilterId;
use ebb_pipeline::control::FilterConfig;

use super::answer::{data_field, exact, without_action};
use super::request::{self, check_fields, to_number};
use super::schema::{Table, name};
use super::tables::{cell_of, plain_name};
use crate::entities::Context;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;
use crate::proto::bf_runtime::update::Type;

/// Configures a cell of a filter table, or resets it; without a key all of them.
pub fn write(ctx: &mut Context, table: &Table, kind: Type, entry: &bf::TableEntry) -> Result<()> {
    let filter = ctx.pipeline.filter(plain_name(ctx, table))?;
    let index = index(table, entry)?;
    match (kind, index) {
        (Type::Delete | Type::Reset, index) => Ok(ctx.pipeline.reset_filter(filter, index)?),
        (Type::Insert | Type::Modify | Type::InsertOrModify, Some(index)) => {
            let old = ctx.pipeline.filter_config(filter, index)?;
            let config = changed(table, entry, old)?;
            Ok(ctx.pipeline.configure_filter(filter, index, config)?)
        }
        _ => Err(EntityError::invalid(format!(
            "a cell of {} is set by its index",
            table.name
        ))),
    }
}

/// The cells that an entry selects, from the one with number `first` on, up to `limit`; and whether these were all.
pub fn read(
    ctx: &Context,
    table: &Table,
    entry: &bf::TableEntry,
    (first, limit): (u64, usize),
) -> Result<(Vec<bf::TableEntry>, bool)> {
    let filter = ctx.pipeline.filter(plain_name(ctx, table))?;
    let size = ctx.pipeline.filter_size(filter);
    let cells = match index(table, entry)? {
        Some(index) => index..index.saturating_add(1),
        None => first..size.min(first.saturating_add(limit as u64)),
    };
    let is_last = entry.key.is_some() || cells.end == size;
    let found = cells.map(|index| {
        let config = ctx.pipeline.filter_config(filter, index)?;
        let key = table.key.first();
        let key = key.map(|field| exact(field, &index.to_be_bytes()));
        Ok(bf::TableEntry {
            table_id: table.id,
            key: Some(bf::TableKey {
                fields: key.into_iter().collect(),
            }),
            data: Some(without_action(fields(table, config))),
            ..bf::TableEntry::default()
        })
    });
    Ok((found.collect::<Result<_>>()?, is_last))
}

/// A change of the filter of an entry, which was checked.
pub struct Change {
    filter: FilterId,
    config: FilterConfig,
}

/// The change that an update makes to the filter of its entry; none: it does not name it.
pub fn change_of(
    ctx: &mut Context,
    table: &Table,
    kind: Type,
    entry: &bf::TableEntry,
) -> Result<Option<Change>> {
    let Some(filter) = direct(ctx, table)? else {
        return Ok(None);
    };
    let data = entry.data.as_ref();
    let is_named = data.is_some_and(|data| {
        let mut given = data.fields.iter();
        given.any(|of| {
            table
                .fields()
                .any(|f| f.id == of.field_id && is_of_filter(&f.name))
        })
    });
    if !is_named {
        return Ok(None);
    }
    if entry.is_default_entry {
        return Err(EntityError::invalid("the default entry has no filter"));
    }
    let present = match kind {
        Type::Insert => None,
        Type::InsertOrModify => cell_of(ctx, table, entry).unwrap_or(None),
        _ => cell_of(ctx, table, entry)?,
    };
    let old = match present {
        Some(cell) => ctx.pipeline.filter_config(filter, cell)?,
        None => ctx.pipeline.initial_filter_config(filter),
    };
    let config = changed(table, entry, old)?;
    ctx.pipeline.check_filter_config(filter, &config)?;
    Ok(Some(Change { filter, config }))
}

/// Makes a change of the filter of an entry that is there now.
pub fn carry_out(
    ctx: &mut Context,
    table: &Table,
    entry: &bf::TableEntry,
    change: Option<Change>,
) -> Result<()> {
    let Some(Change { filter, config }) = change else {
        return Ok(());
    };
    if let Some(cell) = cell_of(ctx, table, entry)? {
        ctx.pipeline.configure_filter(filter, cell, config)?;
    }
    Ok(())
}

/// Adds the fields of its filter to an entry that was read.
pub fn show(ctx: &mut Context, table: &Table, entry: &mut bf::TableEntry) -> Result<()> {
    let Some(filter) = direct(ctx, table)?.filter(|_| !entry.is_default_entry) else {
        return Ok(());
    };
    if let Some(cell) = cell_of(ctx, table, entry)? {
        let config = ctx.pipeline.filter_config(filter, cell)?;
        let data = entry.data.get_or_insert_default();
        data.fields.extend(fields(table, config));
    }
    Ok(())
}

/// Whether the entries of a match table have filters.
pub fn has_some(table: &Table) -> bool {
    table.fields().any(|field| is_of_filter(&field.name))
}

/// The filters that the entries of a match table have.
fn direct(ctx: &Context, table: &Table) -> Result<Option<FilterId>> {
    if !has_some(table) {
        return Ok(None);
    }
    let id = ctx.table(table.p4_id())?.1.id;
    Ok(ctx.pipeline.direct_filter(id))
}

fn is_of_filter(name: &str) -> bool {
    name.starts_with("$LPF_SPEC_") || name.starts_with("$WRED_SPEC_")
}

/// The index of a cell; none: all.
fn index(table: &Table, entry: &bf::TableEntry) -> Result<Option<u64>> {
    let (Some(key), Some(field)) = (&entry.key, table.key.first()) else {
        return Ok(None);
    };
    check_fields(table, key)?;
    request::exact(key, field.id)
        .map_or(Ok(0), to_number)
        .map(Some)
}

/// A configuration with the fields that an entry gives in the place of the old ones.
fn changed(
    table: &Table,
    entry: &bf::TableEntry,
    mut config: FilterConfig,
) -> Result<FilterConfig> {
    let data = entry.data.clone().unwrap_or_default();
    let value = |name: &str| {
        let field = table.fields().find(|field| field.name == name)?;
        request::field(&data, field.id)?.value.clone()
    };
    let float = |name: &str, to: &mut f32| match value(name) {
        None => Ok(()),
        Some(Value::FloatVal(given)) => {
            *to = given;
            Ok(())
        }
        Some(_) => Err(EntityError::invalid(format!("{name} is a float"))),
    };
    let number = |name: &str, to: &mut u32| match value(name) {
        None => Ok(()),
        Some(Value::Stream(given)) => {
            let given = to_number(&given)?;
            *to = u32::try_from(given)
                .map_err(|_| EntityError::out_of_range(format!("{name} {given}")))?;
            Ok(())
        }
        Some(_) => Err(EntityError::invalid(format!("{name} is a number"))),
    };
    match &mut config {
        FilterConfig::LowPass(c) => {
            match value(name::LPF_TYPE) {
                None => {}
                Some(Value::StrVal(kind)) if kind == "RATE" => c.is_rate = true,
                Some(Value::StrVal(kind)) if kind == "SAMPLE" => c.is_rate = false,
                Some(other) => {
                    return Err(EntityError::invalid(format!(
                        "{} is RATE or SAMPLE, not {other:?}",
                        name::LPF_TYPE
                    )));
                }
            }
            float(name::LPF_GAIN, &mut c.gain_ns)?;
            float(name::LPF_DECAY, &mut c.decay_ns)?;
            number(name::LPF_SCALE, &mut c.scale_down)?;
        }
        FilterConfig::EarlyDetection(c) => {
            float(name::WRED_TIME, &mut c.time_constant_ns)?;
            number(name::WRED_LEAST, &mut c.min_cells)?;
            number(name::WRED_LARGEST, &mut c.max_cells)?;
            float(name::WRED_PROBABILITY, &mut c.max_probability)?;
        }
    }
    Ok(config)
}

/// The fields of a configuration, those that the table has.
fn fields(table: &Table, config: FilterConfig) -> Vec<bf::DataField> {
    let number = |value: u32| Value::Stream(value.to_be_bytes().into());
    let values = match config {
        FilterConfig::LowPass(c) => {
            let kind = if c.is_rate { "RATE" } else { "SAMPLE" };
            [
                (name::LPF_TYPE, Value::StrVal(kind.into())),
                (name::LPF_GAIN, Value::FloatVal(c.gain_ns)),
                (name::LPF_DECAY, Value::FloatVal(c.decay_ns)),
                (name::LPF_SCALE, number(c.scale_down)),
            ]
        }
        FilterConfig::EarlyDetection(c) => [
            (name::WRED_TIME, Value::FloatVal(c.time_constant_ns)),
            (name::WRED_LEAST, number(c.min_cells)),
            (name::WRED_LARGEST, number(c.max_cells)),
            (name::WRED_PROBABILITY, Value::FloatVal(c.max_probability)),
        ],
    };
    let known = values.into_iter().filter_map(|(name, value)| {
        let field = table.fields().find(|field| field.name == name)?;
        Some(data_field(field.id, value))
    });
    known.collect()
}
