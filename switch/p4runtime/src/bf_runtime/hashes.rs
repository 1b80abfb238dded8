//! Hashes that are set at run time, for which P4Runtime has no message: which bits of their inputs take part, the
//! algorithm, and the hash of given values.

use ebb_pipeline::{HashConfig, HashFunction, HashId, HashSlice};

use super::answer::{data_field, without_action};
use super::request::{self, check_fields, to_number};
use super::schema::{Action, Kind, Table};
use super::tables::plain_name;
use crate::bytes;
use crate::entities::Context;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::container_array::Container;
use crate::proto::bf_runtime::data_field::{ContainerArray, Value};
use crate::proto::bf_runtime::update::Type;

/// Numbers of fields and actions, as compilers write them.
mod id {
    pub const ROTATE: u32 = 65577;
    pub const SEED: u32 = 65578;
    pub const MSB: u32 = 65579;
    pub const EXTEND: u32 = 65580;
    pub const PRE_DEFINED: u32 = 65581;
    pub const USER_DEFINED: u32 = 65582;
    pub const START_BIT: u32 = 65584;
    pub const LENGTH: u32 = 65585;
    pub const ORDER: u32 = 65586;
}

/// The hash of a table, whose name ends in that of the table.
fn hash_of(ctx: &Context, table: &Table) -> Result<HashId> {
    let name = plain_name(ctx, table);
    let hash = name.rsplit_once('.').map_or(name, |(hash, _)| hash);
    Ok(ctx.pipeline.hash(hash)?)
}

/// Sets inputs or algorithm of a hash, or puts back those of the program.
pub fn write(ctx: &mut Context, table: &Table, kind: Type, entry: &bf::TableEntry) -> Result<()> {
    let hash = hash_of(ctx, table)?;
    let mut config = ctx.pipeline.hash_config(hash);
    let data = match kind {
        Type::Delete | Type::Reset => None,
        Type::Insert | Type::Modify | Type::InsertOrModify => {
            Some(entry.data.clone().unwrap_or_default())
        }
        _ => {
            let name = &table.name;
            return Err(EntityError::invalid(format!(
                "{name} has one entry, which is set"
            )));
        }
    };
    match (table.kind, data) {
        (Kind::HashInputs, None) => config.slices = None,
        (Kind::HashInputs, Some(data)) => config.slices = Some(slices(ctx, table, hash, &data)?),
        (_, None) => {
            config = HashConfig {
                slices: config.slices,
                ..HashConfig::default()
            }
        }
        (_, Some(data)) => set_algorithm(table, &data, &mut config)?,
    }
    Ok(ctx.pipeline.set_hash(hash, config)?)
}

/// The slices that an entry lists. Those with order 0 take no part.
fn slices(
    ctx: &Context,
    table: &Table,
    hash: HashId,
    data: &bf::TableData,
) -> Result<Vec<HashSlice>> {
    let mut made = Vec::new();
    for given in &data.fields {
        let place = table.fields().position(|field| field.id == given.field_id);
        let inputs = ctx.pipeline.hash_fields(hash);
        let input = place.and_then(|place| Some((place, inputs.get(place)?)));
        let (field, input) = input.ok_or_else(|| {
            EntityError::invalid(format!("{} has no field {}", table.name, given.field_id))
        })?;
        let Some(Value::ContainerArrVal(list)) = &given.value else {
            let name = &input.name;
            return Err(EntityError::invalid(format!(
                "{name}: a list of slices is expected"
            )));
        };
        for slice in &list.container {
            let number = |id: u32| {
                // The public client sends fields that it is not given, without a value.
                let is_given =
                    |field: &&bf::DataField| field.field_id == id && field.value.is_some();
                let found = slice.val.iter().find(is_given);
                found.map(|field| number(&field.value)).transpose()
            };
            let order = number(id::ORDER)?.ok_or_else(|| {
                EntityError::invalid(format!("a slice of {} without order", input.name))
            })?;
            let start = number(id::START_BIT)?.unwrap_or(0);
            let start_bit = u32::try_from(start)
                .ok()
                .filter(|start| *start < input.bits);
            let start_bit = start_bit.ok_or_else(|| {
                let (name, last) = (&input.name, input.bits - 1);
                EntityError::invalid(format!("{name} has bits 0 to {last}; start_bit is {start}"))
            })?;
            // A length beyond the end is cut.
            let rest = input.bits - start_bit;
            let length = number(id::LENGTH)?.map_or(rest, |length| length.min(rest.into()) as u32);
            if order > 0 {
                made.push(HashSlice {
                    field,
                    start_bit,
                    bits: length,
                    order,
                });
            }
        }
    }
    Ok(made)
}

/// Takes over the algorithm that an entry names. What it leaves out has its default.
fn set_algorithm(table: &Table, data: &bf::TableData, config: &mut HashConfig) -> Result<()> {
    let plain = |id: u32| request::field(data, id).map(|field| &field.value);
    let plain_number = |id: u32| plain(id).map_or(Ok(0), number);
    let plain_flag = |id: u32| plain(id).map_or(Ok(false), flag);
    for (id, name) in [(id::SEED, "seed"), (id::MSB, "msb")] {
        let is_set = match id {
            id::MSB => plain_flag(id)?,
            _ => plain_number(id)? != 0,
        };
        if is_set {
            let text = format!("{}: {name} is not there in this switch", table.name);
            return Err(EntityError::unimplemented(text));
        }
    }
    let rotate = plain_number(id::ROTATE)?;
    config.rotate =
        u32::try_from(rotate).map_err(|_| EntityError::out_of_range(format!("rotate {rotate}")))?;
    config.extend = plain_flag(id::EXTEND)?;
    config.function = match data.action_id {
        0 => None,
        id => Some(function(table.action(id)?, data)?),
    };
    Ok(())
}

fn function(action: &Action, data: &bf::TableData) -> Result<HashFunction> {
    let value = |name: &str| {
        let of = action.data.iter().find(|field| field.name == name)?;
        Some(&request::field(data, of.id)?.value)
    };
    if action.id == id::PRE_DEFINED {
        let name = match value("algorithm_name") {
            None => "RANDOM",
            Some(Some(Value::StrVal(name))) => name.as_str(),
            Some(_) => return Err(EntityError::invalid("algorithm_name is a text")),
        };
        // The chip's random matrix is not published; a program that asks for one has this check, too.
        let known = match name.to_ascii_uppercase().as_str() {
            "IDENTITY" => Some(HashFunction::Identity),
            "RANDOM" => HashFunction::by_name("CRC_32"),
            name => HashFunction::by_name(name),
        };
        return known.ok_or_else(|| {
            EntityError::unimplemented(format!("there is no hash algorithm {name} in this switch"))
        });
    }
    let number = |name: &str| value(name).map(number).transpose();
    let wanted = |name: &str| {
        number(name)?.ok_or_else(|| EntityError::invalid(format!("user_defined needs {name}")))
    };
    let bits = wanted("hash_bit_width")?;
    Ok(HashFunction::Crc {
        bits: u32::try_from(bits).unwrap_or(u32::MAX),
        polynomial: wanted("polynomial")?,
        reversed: value("reverse").map_or(Ok(false), flag)?,
        init: number("init")?.unwrap_or(0),
        final_xor: number("final_xor")?.unwrap_or(0),
    })
}

fn number(value: &Option<Value>) -> Result<u64> {
    match value {
        Some(Value::Stream(bytes)) => to_number(bytes),
        _ => Err(EntityError::invalid("a number is expected")),
    }
}

fn flag(value: &Option<Value>) -> Result<bool> {
    match value {
        Some(Value::BoolVal(flag)) => Ok(*flag),
        _ => Err(EntityError::invalid("true or false is expected")),
    }
}

/// The configuration of a hash, as the table shows it.
pub fn read(ctx: &Context, table: &Table) -> Result<bf::TableEntry> {
    let hash = hash_of(ctx, table)?;
    let config = ctx.pipeline.hash_config(hash);
    let (action_id, fields) = match table.kind {
        Kind::HashInputs => (0, shown_slices(ctx, table, hash, &config)),
        _ => shown_algorithm(table, &config)?,
    };
    Ok(bf::TableEntry {
        table_id: table.id,
        data: Some(bf::TableData { action_id, fields }),
        is_default_entry: true,
        ..bf::TableEntry::default()
    })
}

fn whole(number: u64) -> Value {
    Value::Stream(number.to_be_bytes().into())
}

/// The slices of each input; before any are given, the whole of each in the order of the program.
fn shown_slices(
    ctx: &Context,
    table: &Table,
    hash: HashId,
    config: &HashConfig,
) -> Vec<bf::DataField> {
    let inputs = ctx.pipeline.hash_fields(hash);
    let of_program = (1..).zip(inputs).enumerate();
    let of_program = of_program.map(|(field, (order, input))| HashSlice {
        field,
        start_bit: 0,
        bits: input.bits,
        order,
    });
    let slices = match &config.slices {
        Some(slices) => slices.clone(),
        None => of_program.collect(),
    };
    let shown = table.fields().enumerate().filter_map(|(place, of)| {
        let own = slices.iter().filter(|slice| slice.field == place);
        let container: Vec<Container> = own
            .map(|slice| Container {
                val: vec![
                    data_field(id::START_BIT, whole(slice.start_bit.into())),
                    data_field(id::LENGTH, whole(slice.bits.into())),
                    data_field(id::ORDER, whole(slice.order)),
                ],
            })
            .collect();
        let list = Value::ContainerArrVal(ContainerArray { container });
        slices
            .iter()
            .any(|slice| slice.field == place)
            .then(|| data_field(of.id, list))
    });
    shown.collect()
}

/// The algorithm, with the action that names it; without one it is that of the program.
fn shown_algorithm(table: &Table, config: &HashConfig) -> Result<(u32, Vec<bf::DataField>)> {
    let small = |number: u32| Value::Stream(number.to_be_bytes().into());
    let mut fields = vec![
        data_field(id::ROTATE, small(config.rotate)),
        data_field(id::SEED, small(0)),
        data_field(id::MSB, Value::BoolVal(false)),
        data_field(id::EXTEND, Value::BoolVal(config.extend)),
    ];
    let Some(function) = config.function else {
        return Ok((0, fields));
    };
    let known = match function {
        HashFunction::Identity => Some("IDENTITY"),
        HashFunction::Crc { .. } => function.name(),
    };
    let (action_id, values) = match (known, function) {
        (
            None,
            HashFunction::Crc {
                bits,
                polynomial,
                reversed,
                init,
                final_xor,
            },
        ) => {
            let values = vec![
                ("reverse", Value::BoolVal(reversed)),
                ("polynomial", whole(polynomial)),
                ("init", whole(init)),
                ("final_xor", whole(final_xor)),
                ("hash_bit_width", whole(bits.into())),
            ];
            (id::USER_DEFINED, values)
        }
        (name, _) => {
            let name = Value::StrVal(name.unwrap_or_default().to_owned());
            (id::PRE_DEFINED, vec![("algorithm_name", name)])
        }
    };
    let action = table.action(action_id)?;
    for (name, value) in values {
        let of = action.data.iter().find(|of| of.name == name);
        fields.extend(of.map(|of| data_field(of.id, value)));
    }
    Ok((action_id, fields))
}

/// The hash of the values that an entry has for its key; those that it leaves out are 0.
pub fn compute(ctx: &Context, table: &Table, entry: &bf::TableEntry) -> Result<bf::TableEntry> {
    let hash = hash_of(ctx, table)?;
    let key = entry
        .key
        .clone()
        .ok_or_else(|| EntityError::invalid(format!("{} gives the hash of a key", table.name)))?;
    check_fields(table, &key)?;
    let mut of_key = table.key.iter();
    let mut values = Vec::new();
    for input in ctx.pipeline.hash_fields(hash) {
        let value = match input.constant {
            Some(constant) => constant,
            None => {
                let given = of_key.next().and_then(|of| request::exact(&key, of.id));
                value_of(given.unwrap_or_default(), input.bits, &input.name)?
            }
        };
        values.push(value);
    }
    let made = ctx.pipeline.compute_hash(hash, &values)?;
    let bytes = ctx.pipeline.hash_bits(hash).div_ceil(8) as usize;
    let made = made.to_be_bytes()[8 - bytes..].to_vec();
    let result = table
        .fields()
        .map(|of| data_field(of.id, Value::Stream(made.clone())));
    Ok(bf::TableEntry {
        table_id: table.id,
        key: Some(key),
        data: Some(without_action(result)),
        ..bf::TableEntry::default()
    })
}

/// The number that these bytes are, which has to fit into this many bits, at most 128.
fn value_of(bytes: &[u8], bits: u32, name: &str) -> Result<u128> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let value = bytes::number(digits);
    if digits.len() > 16 || (bits < 128 && value >> bits != 0) {
        return Err(EntityError::out_of_range(format!("{name} has {bits} bits")));
    }
    Ok(value)
}
