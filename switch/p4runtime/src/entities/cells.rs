//! Arrays of cells: indirect counters, indirect meters and registers.

use std::collections::BTreeMap;
use std::ops::Range;

use ebb_pipeline::control::MeterCounts;

use crate::bytes::{self, canonical, from_signed, strip, to_signed};
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
    let ty = CellType::of(ctx.info, register).map_err(place)?;
    let data = entry.data.as_ref().and_then(|d| d.data.as_ref());
    let value = ty.bytes(data).map_err(place)?;
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
            let ty = CellType::of(ctx.info, register)?;
            let values = ctx.pipeline.register(register.name())?;
            for index in cells {
                let value = ctx.pipeline.register_value(values, index)?;
                out.push(entity(Kind::RegisterEntry(p4::RegisterEntry {
                    register_id: id,
                    index: Some(to_index(index)),
                    data: Some(ty.data(&value)),
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

/// Most bits of a cell that is a struct: those of the pairs and quadruples of Tofino.
const MAX_STRUCT_BITS: usize = 128;

/// A number of a cell: its width in bits, and whether it is signed.
type Part = (usize, bool);

/// The type of the cells of a register: a number, or a struct of numbers, the first of which is the most significant.
pub struct CellType {
    parts: Vec<Part>,
    is_struct: bool,
}

impl CellType {
    /// The type that P4Info gives a register. BMv2's hold one number; `bool` never gets here from p4c.
    pub fn of(info: &Index, register: &config::Register) -> Result<CellType> {
        use config::p4_data_type_spec::TypeSpec;
        let spec = register.type_spec.as_ref();
        let Some(TypeSpec::Struct(name)) = spec.and_then(|s| s.type_spec.as_ref()) else {
            return Ok(CellType {
                parts: vec![number(info, spec)?],
                is_struct: false,
            });
        };
        let members = info.types.structs.get(&name.name).map(|s| &s.members);
        let members = members.into_iter().flatten();
        let parts = members.map(|m| number(info, m.type_spec.as_ref()));
        let ty = CellType {
            parts: parts.collect::<Result<_>>()?,
            is_struct: true,
        };
        match ty.width() {
            0 => Err(unsupported()),
            width if width > MAX_STRUCT_BITS => Err(EntityError::unimplemented(format!(
                "its structs have {width} bits, at most {MAX_STRUCT_BITS} are there"
            ))),
            _ => Ok(ty),
        }
    }

    /// Bits of a cell.
    pub fn width(&self) -> usize {
        self.parts.iter().map(|(width, _)| width).sum()
    }

    /// A cell as the pipeline has it.
    fn bytes(&self, data: Option<&Data>) -> Result<Vec<u8>> {
        if !self.is_struct {
            return part_bytes(self.parts[0], data);
        }
        let Some(Data::Struct(given)) = data else {
            return Err(EntityError::invalid(format!(
                "data must be a struct of {} members",
                self.parts.len()
            )));
        };
        if given.members.len() != self.parts.len() {
            return Err(EntityError::invalid(format!(
                "its struct has {} members, {} were given",
                self.parts.len(),
                given.members.len()
            )));
        }
        let mut whole = 0u128;
        for (part, member) in self.parts.iter().zip(&given.members) {
            let bytes = part_bytes(*part, member.data.as_ref())?;
            let number = bytes::number(&bytes);
            whole = whole.checked_shl(part.0 as u32).unwrap_or(0) | number;
        }
        Ok(strip(&whole.to_be_bytes()).to_vec())
    }

    /// A cell of the pipeline in the shape of its type.
    fn data(&self, value: &[u8]) -> p4::P4Data {
        if !self.is_struct {
            return part_data(self.parts[0], value);
        }
        let whole = bytes::number(value);
        let mut above = self.width();
        let members = self.parts.iter().map(|part| {
            above -= part.0;
            let mask = u128::MAX >> (128 - part.0.clamp(1, 128));
            let number = whole.checked_shr(above as u32).unwrap_or(0) & mask;
            part_data(*part, strip(&number.to_be_bytes()))
        });
        let members = members.collect();
        p4::P4Data {
            data: Some(Data::Struct(p4::P4StructLike { members })),
        }
    }
}

fn part_bytes((width, signed): Part, data: Option<&Data>) -> Result<Vec<u8>> {
    match data {
        Some(Data::Bitstring(value)) if signed => from_signed(value, width),
        Some(Data::Bitstring(value)) => canonical(value, width),
        _ => Err(EntityError::invalid(format!(
            "data must be a bitstring of {width} bits"
        ))),
    }
}

fn part_data((width, signed): Part, value: &[u8]) -> p4::P4Data {
    let bytes = match signed {
        true => to_signed(value, width),
        false => strip(value).to_vec(),
    };
    p4::P4Data {
        data: Some(Data::Bitstring(bytes)),
    }
}

fn number(info: &Index, spec: Option<&config::P4DataTypeSpec>) -> Result<Part> {
    use config::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use config::p4_data_type_spec::TypeSpec;
    use config::p4_new_type_spec::Representation;
    let mut spec = spec;
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
    found.ok_or_else(unsupported)
}

fn unsupported() -> EntityError {
    EntityError::unimplemented("only registers of bit<W>, int<W> and structs of them are there")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: &[u8]) -> p4::P4Data {
        p4::P4Data {
            data: Some(Data::Bitstring(value.to_vec())),
        }
    }

    fn pair(members: Vec<p4::P4Data>) -> Data {
        Data::Struct(p4::P4StructLike { members })
    }

    #[test]
    fn the_first_member_of_a_struct_is_the_most_significant() {
        let ty = CellType {
            parts: vec![(32, false), (12, true)],
            is_struct: true,
        };
        let given = pair(vec![bits(&[1, 2]), bits(&[0xff])]);
        let bytes = ty.bytes(Some(&given)).unwrap();
        assert_eq!(bytes, [0x10, 0x2f, 0xff]);
        assert_eq!(ty.data(&bytes).data, Some(given));
        let zero = pair(vec![bits(&[0]), bits(&[0])]);
        assert_eq!(ty.data(&[0]).data, Some(zero));
    }

    #[test]
    fn what_does_not_fit_a_struct_is_refused() {
        let ty = CellType {
            parts: vec![(8, false), (8, false)],
            is_struct: true,
        };
        let refused = |data: Option<&Data>| ty.bytes(data).unwrap_err().message;
        assert!(refused(None).contains("a struct of 2 members"));
        assert!(refused(Some(&Data::Bitstring(vec![1]))).contains("a struct of 2 members"));
        assert!(refused(Some(&pair(vec![bits(&[1])]))).contains("2 members, 1 were given"));
        let too_wide = pair(vec![bits(&[1]), bits(&[1, 0])]);
        assert!(refused(Some(&too_wide)).contains("needs 9 bits"));
    }
}
