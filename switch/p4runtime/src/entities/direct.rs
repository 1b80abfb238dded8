//! Direct counters and meters: those of table entries.

use ebb_pipeline::EntryId;
use ebb_pipeline::control::{CounterValue, MeterConfig, MeterCounts};
use ebb_units::Instant;

use crate::entities::entry_key::{entry_error, entry_key, key_entry};
use crate::entities::plan::TablePlan;
use crate::entities::{Change, Context, Kind, Position, entity};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::config::counter_spec::Unit;
use crate::proto::config::meter_spec;
use crate::proto::p4;

/// Whether the table has the direct resources that the entry sets, and can take their values. It is asked before
/// anything is changed.
pub fn check(plan: &TablePlan, entry: &p4::TableEntry) -> Result<()> {
    let fail = |what: &str| Err(EntityError::invalid(what.to_owned()));
    if entry.counter_data.is_some() && !plan.has_counter {
        return fail("counter_data is set, but the table has no direct counter");
    }
    if let Some(data) = &entry.counter_data {
        checked_counter(data)?;
    }
    if entry.meter_counter_data.is_some() && plan.meter.is_none() {
        return fail("meter_counter_data is set, but the table has no direct meter");
    }
    if let Some(data) = &entry.meter_counter_data {
        check_reset(data)?;
    }
    checked_meter(plan, entry.meter_config.as_ref())?;
    if entry.time_since_last_hit.is_some() {
        return fail("time_since_last_hit is set; it is for reading only");
    }
    Ok(())
}

/// Sets the direct resources of an entry, or with `None` of the default entry. An entry that says nothing of them
/// resets a meter and leaves counters alone (spec, "Direct Resources").
pub fn set(
    ctx: &mut Context,
    plan: &TablePlan,
    id: Option<EntryId>,
    entry: &p4::TableEntry,
) -> Result<()> {
    if let Some(data) = &entry.counter_data {
        let value = checked_counter(data)?;
        ctx.pipeline.set_entry_counter(plan.id, id, value)?;
    }
    if plan.meter.is_some() {
        let meter = checked_meter(plan, entry.meter_config.as_ref())?;
        ctx.pipeline.set_entry_meter(ctx.now, plan.id, id, meter)?;
        if entry.meter_counter_data.is_some() {
            ctx.pipeline
                .set_entry_meter_counts(plan.id, id, MeterCounts::default())?;
        }
    }
    Ok(())
}

pub fn write_counter(
    ctx: &mut Context,
    change: Change,
    entry: &p4::DirectCounterEntry,
) -> Result<()> {
    change.only_modify("a direct counter")?;
    let (table, plan, id) = locate(ctx, entry.table_entry.as_ref())?;
    let mut set = || {
        require(plan.has_counter, "counter")?;
        // Without data nothing is modified.
        if let Some(data) = &entry.data {
            let value = checked_counter(data)?;
            ctx.pipeline.set_entry_counter(plan.id, id, value)?;
        }
        Ok(())
    };
    set().map_err(|e: EntityError| e.at(format!("direct counter of table '{}'", table.name())))
}

pub fn write_meter(ctx: &mut Context, change: Change, entry: &p4::DirectMeterEntry) -> Result<()> {
    change.only_modify("a direct meter")?;
    let (table, plan, id) = locate(ctx, entry.table_entry.as_ref())?;
    let mut set = || {
        require(plan.meter.is_some(), "meter")?;
        let config = checked_meter(plan, entry.config.as_ref())?;
        entry.counter_data.as_ref().map_or(Ok(()), check_reset)?;
        ctx.pipeline.set_entry_meter(ctx.now, plan.id, id, config)?;
        if entry.counter_data.is_some() {
            let zero = MeterCounts::default();
            ctx.pipeline.set_entry_meter_counts(plan.id, id, zero)?;
        }
        Ok(())
    };
    set().map_err(|e: EntityError| e.at(format!("direct meter of table '{}'", table.name())))
}

pub fn read_counters(
    ctx: &mut Context,
    filter: &p4::DirectCounterEntry,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    let has = |plan: &TablePlan| plan.has_counter;
    let (cells, done) = cells(ctx, filter.table_entry.as_ref(), part, has, "counter")?;
    for (table, plan, id, key) in cells {
        let value = ctx.pipeline.entry_counter(plan.id, id);
        out.push(entity(Kind::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(key),
            data: counter_data(ctx, table, value),
        })));
    }
    Ok(done)
}

pub fn read_meters(
    ctx: &mut Context,
    filter: &p4::DirectMeterEntry,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    let has = |plan: &TablePlan| plan.meter.is_some();
    let (cells, done) = cells(ctx, filter.table_entry.as_ref(), part, has, "meter")?;
    for (_, plan, id, key) in cells {
        let (config, counts) = ctx.pipeline.entry_meter(plan.id, id);
        let asked = filter.counter_data.is_some();
        out.push(entity(Kind::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(key),
            config: config.map(meter_config),
            counter_data: asked.then(|| meter_counter_data(counts)),
        })));
    }
    Ok(done)
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

fn not_negative(what: &str, value: i64) -> Result<u64> {
    u64::try_from(value)
        .map_err(|_| EntityError::out_of_range(format!("{what} {value}; allowed: 0 and above")))
}

pub fn checked_counter(data: &p4::CounterData) -> Result<CounterValue> {
    Ok(CounterValue {
        packets: not_negative("packet_count", data.packet_count)?,
        bytes: not_negative("byte_count", data.byte_count)?,
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

/// Packets and bytes by colour, whatever the meter measures.
pub fn meter_counter_data(counts: MeterCounts) -> p4::MeterCounterData {
    let [green, yellow, red] = counts.map(|c| Some(shown_counter(None, c)));
    p4::MeterCounterData { green, yellow, red }
}

/// A write of colour counters can only reset them (spec, "Direct Resources").
pub fn check_reset(data: &p4::MeterCounterData) -> Result<()> {
    let colours = [&data.green, &data.yellow, &data.red];
    let zero = |c: &p4::CounterData| c.packet_count == 0 && c.byte_count == 0;
    match colours.into_iter().flatten().all(zero) {
        true => Ok(()),
        false => Err(EntityError::invalid(
            "the counters of a meter's colours can only be reset, so they must be 0",
        )),
    }
}

fn checked_meter(plan: &TablePlan, given: Option<&p4::MeterConfig>) -> Result<Option<MeterConfig>> {
    let Some(given) = given else { return Ok(None) };
    require(plan.meter.is_some(), "meter")?;
    checked_rates(plan.meter.unwrap_or_default(), given).map(Some)
}

/// Checks a configuration for the type of its meter (spec, "MeterEntry & DirectMeterEntry"): two rates
/// (RFC 2698, which is for PIR >= CIR), or one with an excess burst (RFC 2697). If both rates and both bursts are
/// the same, a meter of two rates has two colours, as the type SINGLE_RATE_TWO_COLOR wants it.
pub fn checked_rates(kind: meter_spec::Type, given: &p4::MeterConfig) -> Result<MeterConfig> {
    let two_rates = kind == meter_spec::Type::TwoRateThreeColor;
    if !two_rates && (given.pir != given.cir || given.pburst != given.cburst) {
        return Err(EntityError::invalid(
            "the meter has a single rate: pir must be cir, and pburst must be cburst",
        ));
    }
    let excess = kind == meter_spec::Type::SingleRateThreeColor;
    if given.eburst != 0 && !excess {
        return Err(EntityError::invalid(format!(
            "eburst {}; must be 0, it is for single-rate three-colour meters",
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
        cir: not_negative("cir", given.cir)?,
        cburst: not_negative("cburst", given.cburst)?,
        pir: not_negative("pir", given.pir)?,
        pburst: not_negative("pburst", given.pburst)?,
        eburst: match excess {
            true => Some(not_negative("eburst", given.eburst)?),
            false => None,
        },
    })
}

/// The configuration as it was written: [`checked_rates`] keeps all values within `i64`.
pub fn meter_config(config: MeterConfig) -> p4::MeterConfig {
    p4::MeterConfig {
        cir: config.cir as i64,
        cburst: config.cburst as i64,
        pir: config.pir as i64,
        pburst: config.pburst as i64,
        eburst: config.eburst.unwrap_or_default() as i64,
    }
}

/// The entry that has this key; `None` is the default entry.
pub fn entry_id(ctx: &mut Context, entry: &p4::TableEntry) -> Result<Option<EntryId>> {
    locate(ctx, Some(entry)).map(|(_, _, id)| id)
}

/// When an entry was last hit; `None` for the default entry.
pub fn last_hit(ctx: &mut Context, entry: &p4::TableEntry) -> Result<Option<Instant>> {
    let (_, plan, id) = locate(ctx, Some(entry))?;
    let view = id.map(|id| ctx.pipeline.entry_by_id(plan.id, id));
    Ok(view
        .transpose()
        .map_err(entry_error)?
        .map(|view| view.last_hit))
}

/// The entry that a direct resource belongs to; `None` is the default entry.
fn locate<'a>(
    ctx: &mut Context<'a>,
    entry: Option<&p4::TableEntry>,
) -> Result<(&'a config::Table, &'a TablePlan, Option<EntryId>)> {
    let entry = entry.ok_or_else(|| EntityError::invalid("table_entry is not set"))?;
    let (table, plan) = ctx.table(entry.table_id)?;
    let id = if entry.is_default_action {
        None
    } else {
        let key = entry_key(table, plan, ctx.names, entry);
        let found = key.and_then(|key| {
            let found = ctx.pipeline.find_entry(plan.id, &key.fields, key.priority);
            found.map_err(entry_error)
        });
        Some(found.map_err(|e| e.at(format!("table '{}'", table.name())))?)
    };
    Ok((table, plan, id))
}

type Cell<'a> = (
    &'a config::Table,
    &'a TablePlan,
    Option<EntryId>,
    p4::TableEntry,
);

/// The entries whose resource a filter selects, about `limit` from a position on, and whether that is
/// all. Table id 0 selects all tables that have one.
fn cells<'a>(
    ctx: &mut Context<'a>,
    filter: Option<&p4::TableEntry>,
    (position, limit): (&mut Position, usize),
    has: impl Fn(&TablePlan) -> bool,
    what: &str,
) -> Result<(Vec<Cell<'a>>, bool)> {
    let all = p4::TableEntry::default();
    let filter = filter.unwrap_or(&all);
    if filter.table_id != 0 {
        let (table, plan) = ctx.table(filter.table_id)?;
        require(has(plan), what).map_err(|e| e.at(format!("table '{}'", table.name())))?;
        if filter.is_default_action || !filter.r#match.is_empty() {
            let (table, plan, id) = locate(ctx, Some(filter))?;
            let key = match id {
                Some(id) => key_entry(ctx, table, &ctx.pipeline.entry_by_id(plan.id, id)?)?,
                None => p4::TableEntry {
                    table_id: table.id(),
                    is_default_action: true,
                    ..Default::default()
                },
            };
            return Ok((vec![(table, plan, id, key)], true));
        }
    }
    let mut cells = Vec::new();
    for id in ctx.info.tables.range(position.object..).map(|(id, _)| id) {
        let (table, plan) = ctx.table(*id)?;
        if (filter.table_id != 0 && filter.table_id != *id) || !has(plan) {
            continue;
        }
        position.enter(*id);
        for view in ctx.pipeline.entries_from(plan.id, position.entry) {
            if cells.len() >= limit {
                position.entry = Some(view.id);
                return Ok((cells, false));
            }
            if filter.priority == 0 || filter.priority == view.entry.priority {
                let key = key_entry(ctx, table, &view)?;
                cells.push((table, plan, Some(view.id), key));
            }
        }
    }
    Ok((cells, true))
}

fn require(has: bool, what: &str) -> Result<()> {
    match has {
        true => Ok(()),
        false => Err(EntityError::invalid(format!(
            "the table has no direct {what}"
        ))),
    }
}
