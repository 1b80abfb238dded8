//! Arrays of cells: indirect counters, indirect meters and registers.

use std::collections::BTreeMap;
use std::ops::Range;

use ebb_pipeline::control::MeterCounts;

use crate::bytes::{canonical, from_signed, strip, to_signed};
use crate::entities::direct::{
    check_reset, checked_counter, checked_rates, meter_config, meter_counter_data, shown_counter,
};
use crate::entities::plan::meter_type;
use crate::entities::{Change, Context, Kind, Position, entity};
use crate::error::{EntityError, Result};
use crate::p4info::{Index, Object};
use crate::proto::config;
use crate::proto::p4;
use crate::proto::p4::p4_data::Data;

pub fn write_counter(ctx: &mut Context, change: Change, entry: &p4::CounterEntry) -> Result<()> {
    change.only_modify("a counter cell")?;
    let counter = ctx.info.find(&ctx.info.counters, entry.counter_id)?;
    let place = |e: EntityError| e.at(format!("counter '{}'", counter.name()));
    let cells = indices(entry.index, counter.size).map_err(place)?;
    // Without data nothing is modified.
    let Some(data) = &entry.data else {
        return Ok(());
    };
    let value = checked_counter(data).map_err(place)?;
    let id = ctx.pipeline.counter(counter.name())?;
    for index in cells {
        ctx.pipeline.set_counter_value(id, index, value)?;
    }
    Ok(())
}

pub fn read_counters(
    ctx: &Context,
    filter: &p4::CounterEntry,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    ctx.info
        .check_filter(&ctx.info.counters, filter.counter_id)?;
    let size = |counter: &config::Counter| counter.size;
    let selected = (filter.counter_id, filter.index);
    parts(
        &ctx.info.counters,
        size,
        selected,
        part,
        |id, counter, cells| {
            let values = ctx.pipeline.counter(counter.name())?;
            for index in cells {
                let value = ctx.pipeline.counter_value(values, index)?;
                out.push(entity(Kind::CounterEntry(p4::CounterEntry {
                    counter_id: id,
                    index: Some(to_index(index)),
                    data: Some(shown_counter(counter.spec.as_ref(), value)),
                })));
            }
            Ok(())
        },
    )
}

pub fn write_meter(ctx: &mut Context, change: Change, entry: &p4::MeterEntry) -> Result<()> {
    change.only_modify("a meter cell")?;
    let meter = ctx.info.find(&ctx.info.meters, entry.meter_id)?;
    let place = |e: EntityError| e.at(format!("meter '{}'", meter.name()));
    let reset = entry.counter_data.as_ref();
    reset.map_or(Ok(()), check_reset).map_err(place)?;
    let kind = meter_type(meter.spec.as_ref());
    let rates = entry.config.as_ref().map(|c| checked_rates(kind, c));
    let rates = rates.transpose().map_err(place)?;
    let id = ctx.pipeline.meter(meter.name())?;
    for index in indices(entry.index, meter.size).map_err(place)? {
        ctx.pipeline.set_meter_config(ctx.now, id, index, rates)?;
        if reset.is_some() {
            let zero = MeterCounts::default();
            ctx.pipeline.set_meter_counts(id, index, zero)?;
        }
    }
    Ok(())
}

pub fn read_meters(
    ctx: &Context,
    filter: &p4::MeterEntry,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    ctx.info.check_filter(&ctx.info.meters, filter.meter_id)?;
    let size = |meter: &config::Meter| meter.size;
    let selected = (filter.meter_id, filter.index);
    parts(
        &ctx.info.meters,
        size,
        selected,
        part,
        |id, meter, cells| {
            let values = ctx.pipeline.meter(meter.name())?;
            for index in cells {
                out.push(entity(Kind::MeterEntry(p4::MeterEntry {
                    meter_id: id,
                    index: Some(to_index(index)),
                    config: ctx.pipeline.meter_config(values, index)?.map(meter_config),
                    counter_data: match filter.counter_data {
                        Some(_) => Some(meter_counter_data(
                            ctx.pipeline.meter_counts(values, index)?,
                        )),
                        None => None,
                    },
                })));
            }
            Ok(())
        },
    )
}

pub fn write_register(ctx: &mut Context, change: Change, entry: &p4::RegisterEntry) -> Result<()> {
    change.only_modify("a register cell")?;
    let register = ctx.info.find(&ctx.info.registers, entry.register_id)?;
    let place = |e: EntityError| e.at(format!("register '{}'", register.name()));
    let (width, signed) = register_type(ctx.info, register).map_err(place)?;
    let Some(Data::Bitstring(value)) = entry.data.as_ref().and_then(|d| d.data.as_ref()) else {
        return Err(place(EntityError::invalid(format!(
            "data must be a bitstring of {width} bits"
        ))));
    };
    let value = match signed {
        true => from_signed(value, width),
        false => canonical(value, width),
    };
    let value = value.map_err(place)?;
    let id = ctx.pipeline.register(register.name())?;
    for index in indices(entry.index, register.size.into()).map_err(place)? {
        ctx.pipeline.set_register_value(id, index, &value)?;
    }
    Ok(())
}

pub fn read_registers(
    ctx: &Context,
    filter: &p4::RegisterEntry,
    part: (&mut Position, usize),
    out: &mut Vec<p4::Entity>,
) -> Result<bool> {
    ctx.info
        .check_filter(&ctx.info.registers, filter.register_id)?;
    let size = |register: &config::Register| register.size.into();
    let selected = (filter.register_id, filter.index);
    parts(
        &ctx.info.registers,
        size,
        selected,
        part,
        |id, register, cells| {
            let (width, signed) = register_type(ctx.info, register)?;
            let values = ctx.pipeline.register(register.name())?;
            for index in cells {
                let value = ctx.pipeline.register_value(values, index)?;
                out.push(entity(Kind::RegisterEntry(p4::RegisterEntry {
                    register_id: id,
                    index: Some(to_index(index)),
                    data: Some(p4::P4Data {
                        data: Some(Data::Bitstring(match signed {
                            true => to_signed(&value, width),
                            false => strip(&value).to_vec(),
                        })),
                    }),
                })));
            }
            Ok(())
        },
    )
}

/// The cells that an id and an index select, from a position on, `limit` of them. True when there are
/// no more.
fn parts<T: Object>(
    objects: &BTreeMap<u32, T>,
    size: impl Fn(&T) -> i64,
    (id, index): (u32, Option<p4::Index>),
    (position, limit): (&mut Position, usize),
    mut push: impl FnMut(u32, &T, Range<u64>) -> Result<()>,
) -> Result<bool> {
    let mut room = limit as u64;
    // With id 0 everything is selected (spec, "CounterEntry", "MeterEntry").
    let index = index.filter(|_| id != 0);
    for (key, object) in objects.range(position.object..) {
        if id != 0 && id != *key {
            continue;
        }
        position.enter(*key);
        let place = |e: EntityError| e.at(format!("{} '{}'", T::KIND, object.name()));
        let cells = indices(index, size(object)).map_err(place)?;
        let from = cells.start.max(position.cell);
        let to = cells.end.min(from.saturating_add(room));
        push(*key, object, from..to).map_err(place)?;
        room -= to - from;
        if to < cells.end {
            position.cell = to;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Width, and whether the value is signed. BMv2 registers hold one number; `bool` and structs never
/// get here from p4c.
pub fn register_type(info: &Index, register: &config::Register) -> Result<(usize, bool)> {
    use config::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use config::p4_data_type_spec::TypeSpec;
    use config::p4_new_type_spec::Representation;
    let mut spec = register.type_spec.as_ref();
    if let Some(TypeSpec::NewType(name)) = spec.and_then(|s| s.type_spec.as_ref()) {
        let new = info.types.new_types.get(&name.name);
        spec = match new.and_then(|n| n.representation.as_ref()) {
            Some(Representation::OriginalType(original)) => Some(original),
            _ => None,
        };
    }
    let found = match spec.and_then(|s| s.type_spec.as_ref()) {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(Bits::Bit(bit)) => Some((bit.bitwidth, false)),
            Some(Bits::Int(int)) => Some((int.bitwidth, true)),
            _ => None,
        },
        _ => None,
    };
    let found = found.and_then(|(w, signed)| Some((usize::try_from(w).ok()?, signed)));
    found.ok_or_else(|| EntityError::unimplemented("only registers of bit<W> and int<W> are there"))
}

/// The cells of an index, or all of them without one.
fn indices(index: Option<p4::Index>, size: i64) -> Result<Range<u64>> {
    let size = size.max(0) as u64;
    let Some(p4::Index { index }) = index else {
        return Ok(0..size);
    };
    let message = format!("index {index}; allowed: 0 to {}", size.saturating_sub(1));
    match u64::try_from(index) {
        Err(_) => Err(EntityError::invalid(message)),
        Ok(index) if index < size => Ok(index..index + 1),
        Ok(_) => Err(EntityError::out_of_range(message)),
    }
}

fn to_index(index: u64) -> p4::Index {
    p4::Index {
        index: index as i64,
    }
}
