//! Direct counters and meters: those of table entries.

use ebb_pipeline::control::{CounterValue, MeterConfig};

use crate::entities::table::{entry_key, pipeline_key};
use crate::entities::table_read::{key_entry, matching};
use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::counter_spec::Unit;
use crate::proto::p4;
use crate::store::{Entry, EntryKey};

pub fn write_counter(
    ctx: &mut Context,
    change: Change,
    entry: &p4::DirectCounterEntry,
) -> Result<()> {
    change.only_modify("a direct counter")?;
    let (table, key) = locate(ctx, entry.table_entry.as_ref())?;
    let mut set = || {
        require(ctx.info.direct_counter_of(table).is_some(), "counter")?;
        let data = entry.data.as_ref();
        let data = data.ok_or_else(|| EntityError::invalid("data is not set"))?;
        let value = checked_counter(data)?;
        let id = ctx.pipeline.table(table.name())?;
        ctx.pipeline
            .set_entry_counter(id, &pipeline_key(&key), key.priority, value)?;
        Ok(())
    };
    set().map_err(|e: EntityError| e.at(format!("direct counter of table '{}'", table.name())))
}

pub fn write_meter(ctx: &mut Context, change: Change, entry: &p4::DirectMeterEntry) -> Result<()> {
    change.only_modify("a direct meter")?;
    let (table, key) = locate(ctx, entry.table_entry.as_ref())?;
    let mut set = || {
        require(ctx.info.direct_meter_of(table).is_some(), "meter")?;
        let config = checked_meter(ctx, table, entry.config.as_ref())?;
        let id = ctx.pipeline.table(table.name())?;
        ctx.pipeline
            .set_entry_meter(ctx.now, id, &pipeline_key(&key), key.priority, config)?;
        let contents = ctx.store.tables.entry(table.id()).or_default();
        if let Some(stored) = contents.entries.get_mut(&key) {
            stored.meter = entry.config;
        }
        Ok(())
    };
    set().map_err(|e: EntityError| e.at(format!("direct meter of table '{}'", table.name())))
}

pub fn read_counters(
    ctx: &Context,
    filter: &p4::DirectCounterEntry,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    let has = |table: &config::Table| ctx.info.direct_counter_of(table).is_some();
    for (table, key, _) in cells(ctx, filter.table_entry.as_ref(), has, "counter")? {
        let id = ctx.pipeline.table(table.name())?;
        let view = ctx.pipeline.entry(id, &pipeline_key(key), key.priority)?;
        out.push(entity(Kind::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(key_entry(table, key)),
            data: counter_data(ctx, table, view.counter),
        })));
    }
    Ok(())
}

pub fn read_meters(
    ctx: &Context,
    filter: &p4::DirectMeterEntry,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    let has = |table: &config::Table| ctx.info.direct_meter_of(table).is_some();
    for (table, key, entry) in cells(ctx, filter.table_entry.as_ref(), has, "meter")? {
        out.push(entity(Kind::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(key_entry(table, key)),
            config: entry.meter,
            counter_data: None,
        })));
    }
    Ok(())
}

/// The value of a direct counter in the units that the program counts. `None` without a counter.
pub fn counter_data(
    ctx: &Context,
    table: &config::Table,
    value: CounterValue,
) -> Option<p4::CounterData> {
    let counter = ctx.info.direct_counter_of(table)?;
    Some(shown_counter(counter.spec.as_ref(), value))
}

pub fn checked_counter(data: &p4::CounterData) -> Result<CounterValue> {
    let checked = |what: &str, value: i64| {
        u64::try_from(value)
            .map_err(|_| EntityError::out_of_range(format!("{what} {value}; allowed: 0 and above")))
    };
    Ok(CounterValue {
        packets: checked("packet_count", data.packet_count)?,
        bytes: checked("byte_count", data.byte_count)?,
    })
}

pub fn shown_counter(spec: Option<&config::CounterSpec>, value: CounterValue) -> p4::CounterData {
    let unit = spec.map_or(Unit::Both, config::CounterSpec::unit);
    let shown = |value: u64, hidden: Unit| match unit == hidden {
        true => 0,
        false => value.min(i64::MAX as u64) as i64,
    };
    p4::CounterData {
        packet_count: shown(value.packets, Unit::Bytes),
        byte_count: shown(value.bytes, Unit::Packets),
    }
}

pub fn checked_meter(
    ctx: &Context,
    table: &config::Table,
    given: Option<&p4::MeterConfig>,
) -> Result<Option<MeterConfig>> {
    let Some(given) = given else { return Ok(None) };
    require(ctx.info.direct_meter_of(table).is_some(), "meter")?;
    checked_rates(given).map(Some)
}

/// Two-rate three-colour meters, which RFC 2698 defines for PIR >= CIR.
pub fn checked_rates(given: &p4::MeterConfig) -> Result<MeterConfig> {
    let checked = |what: &str, value: i64| {
        u64::try_from(value)
            .map_err(|_| EntityError::out_of_range(format!("{what} {value}; allowed: 0 and above")))
    };
    if given.eburst != 0 {
        return Err(EntityError::invalid(format!(
            "eburst {}; must be 0, meters are two-rate three-colour (RFC 2698)",
            given.eburst
        )));
    }
    if given.pir < given.cir {
        return Err(EntityError::invalid(format!(
            "pir {} is below cir {}; RFC 2698 wants pir >= cir",
            given.pir, given.cir
        )));
    }
    Ok(MeterConfig {
        cir: checked("cir", given.cir)?,
        cburst: checked("cburst", given.cburst)?,
        pir: checked("pir", given.pir)?,
        pburst: checked("pburst", given.pburst)?,
    })
}

pub fn no_default_resources() -> EntityError {
    EntityError::unimplemented(
        "direct counters and meters are kept for installed entries only, not for the default entry",
    )
}

/// The entry that a direct resource belongs to.
fn locate<'a>(
    ctx: &Context<'a>,
    entry: Option<&p4::TableEntry>,
) -> Result<(&'a config::Table, EntryKey)> {
    let entry = entry.ok_or_else(|| EntityError::invalid("table_entry is not set"))?;
    let info = ctx.info;
    let table = info.table(entry.table_id)?;
    let find = || {
        if entry.is_default_action {
            return Err(no_default_resources());
        }
        let key = entry_key(table, entry)?;
        let contents = ctx.store.tables.get(&table.id());
        match contents.is_some_and(|t| t.entries.contains_key(&key)) {
            true => Ok(key),
            false => Err(EntityError::not_found(
                "no entry has this match and priority",
            )),
        }
    };
    let key = find().map_err(|e| e.at(format!("table '{}'", table.name())))?;
    Ok((table, key))
}

type Cell<'a> = (&'a config::Table, &'a EntryKey, &'a Entry);

/// The entries whose resource a filter selects; table id 0 selects all tables that have one.
fn cells<'a>(
    ctx: &'a Context,
    filter: Option<&p4::TableEntry>,
    has: impl Fn(&config::Table) -> bool,
    what: &str,
) -> Result<Vec<Cell<'a>>> {
    let all = p4::TableEntry::default();
    let filter = filter.unwrap_or(&all);
    let wildcard = filter.table_id == 0;
    if !wildcard {
        let table = ctx.info.table(filter.table_id)?;
        let check = match filter.is_default_action {
            true => Err(no_default_resources()),
            false => require(has(table), what),
        };
        check.map_err(|e| e.at(format!("table '{}'", table.name())))?;
    }
    let mut cells = Vec::new();
    for (_, table) in selected(&ctx.info.tables, filter.table_id) {
        if has(table) {
            let entries = matching(ctx, table, filter, wildcard)?;
            cells.extend(entries.into_iter().map(|(key, entry)| (table, key, entry)));
        }
    }
    Ok(cells)
}

fn require(has: bool, what: &str) -> Result<()> {
    match has {
        true => Ok(()),
        false => Err(EntityError::invalid(format!(
            "the table has no direct {what}"
        ))),
    }
}
