//! Tables whose entries P4Runtime has in another form, and MODIFY_INC.

use std::collections::BTreeMap;

use super::answer::{data_field, exact, match_type, stream, without_action};
use super::entries::{change, only};
use super::request::{self, check_fields, field_match, takes_away, to_number};
use super::schema::{Field, Key, Kind, Table, fixed};
use crate::bytes;
use crate::entities::{self, Context};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::{BoolArray, IntArray, Value};
use crate::proto::bf_runtime::update::Type;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;

/// Adds a member to a value set, or takes it away; without a key all.
pub fn write_value_set(
    ctx: &mut Context,
    table: &Table,
    kind: Type,
    entry: &bf::TableEntry,
) -> Result<()> {
    let id = table.p4_id();
    let mut members = ctx.store.value_sets.get(&id).cloned().unwrap_or_default();
    match (kind, member(ctx, table, entry)?) {
        (Type::Insert | Type::InsertOrModify, Some(member)) => {
            let is_there = members.contains(&member);
            if is_there && kind == Type::Insert {
                return Err(EntityError::already_exists("the value set has this member"));
            }
            if !is_there {
                members.push(member);
            }
        }
        (Type::Delete, Some(member)) => {
            let at = members.iter().position(|there| *there == member);
            let at = at.ok_or_else(|| {
                EntityError::not_found(format!("{} has no such member", table.name))
            })?;
            members.remove(at);
        }
        (Type::Delete, None) => members.clear(),
        _ => {
            return Err(EntityError::invalid(format!(
                "members of {} are inserted and deleted",
                table.name
            )));
        }
    }
    let entry = p4::ValueSetEntry {
        value_set_id: id,
        members,
    };
    match ctx.pipeline.cell_bytes() {
        Some(_) => entities::write_masked_value_set(ctx, &entry),
        None => change(ctx, p4::update::Type::Modify, Entity::ValueSetEntry(entry)),
    }
}

/// The member with the key of an entry; none: the entry has no key.
fn member(
    ctx: &Context,
    table: &Table,
    entry: &bf::TableEntry,
) -> Result<Option<p4::ValueSetMember>> {
    let Some(key) = &entry.key else {
        return Ok(None);
    };
    check_fields(table, key)?;
    let mut matches = Vec::new();
    for field in &table.key {
        let made = field_match(field, key)?;
        matches.extend(match is_exact(ctx, table, field.id) {
            true => exactly(ctx, field, made)?,
            false => made,
        });
    }
    Ok(Some(p4::ValueSetMember { r#match: matches }))
}

/// Whether the program compares a field of a value set exactly. BF Runtime has masks for all.
fn is_exact(ctx: &Context, table: &Table, field: u32) -> bool {
    use crate::proto::config::match_field::{Match, MatchType};
    let set = ctx.info.value_sets.get(&table.p4_id());
    let field = set.and_then(|set| set.r#match.iter().find(|of| of.id == field));
    let kind = field.and_then(|field| field.r#match.as_ref());
    matches!(kind, Some(Match::MatchType(kind)) if *kind == MatchType::Exact as i32)
}

/// A value whose mask leaves no bit out; on Tofino it may leave some out.
fn exactly(
    ctx: &Context,
    field: &Key,
    given: Option<p4::FieldMatch>,
) -> Result<Option<p4::FieldMatch>> {
    use p4::field_match::{Exact, FieldMatchType};
    let kind = given
        .as_ref()
        .and_then(|given| given.field_match_type.clone());
    let value = match kind {
        Some(FieldMatchType::Exact(exact)) => exact.value,
        Some(FieldMatchType::Ternary(of)) if of.mask == bytes::ones(field.width()) => of.value,
        _ if ctx.pipeline.cell_bytes().is_some() => return Ok(given),
        _ => {
            return Err(EntityError::invalid(format!(
                "field {} is compared exactly: its mask has all bits",
                field.name
            )));
        }
    };
    Ok(Some(p4::FieldMatch {
        field_id: field.id,
        field_match_type: Some(FieldMatchType::Exact(Exact { value })),
    }))
}

/// The members of a value set that an entry selects.
pub fn value_set(
    ctx: &Context,
    table: &Table,
    entry: &bf::TableEntry,
) -> Result<Vec<bf::TableEntry>> {
    let members = ctx.store.value_sets.get(&table.p4_id());
    let wanted = member(ctx, table, entry)?;
    let members = members.into_iter().flatten();
    let members = members.filter(|of| wanted.as_ref().is_none_or(|wanted| wanted == *of));
    let made = members.map(|member| {
        let fields = table.key.iter().map(|field| {
            let found = member.r#match.iter().find(|m| m.field_id == field.id);
            let found = found.and_then(|m| m.field_match_type.as_ref());
            bf::KeyField {
                field_id: field.id,
                match_type: Some(match_type(field, found)),
            }
        });
        bf::TableEntry {
            table_id: table.id,
            key: Some(bf::TableKey {
                fields: fields.collect(),
            }),
            data: Some(bf::TableData::default()),
            ..bf::TableEntry::default()
        }
    });
    Ok(made.collect())
}

/// Sets the bytes that come in front of the packets of a port, or clears them; without a key of all ports.
pub fn write_port_metadata(
    ctx: &mut Context,
    table: &Table,
    kind: Type,
    entry: &bf::TableEntry,
) -> Result<()> {
    let port = port(table, entry)?;
    if let Some(port) = port.filter(|port| !has_port(ctx, table, *port)) {
        return Err(EntityError::invalid(format!(
            "port {port} belongs to another pipeline than {}",
            table.name
        )));
    }
    match (kind, port) {
        (Type::Insert | Type::Modify | Type::InsertOrModify, Some(port)) => {
            let data = entry.data.clone().unwrap_or_default();
            let bits = packed(table, &data)?;
            ctx.pipeline.set_port_metadata(port, Some(bits));
        }
        (Type::Delete | Type::Reset, Some(port)) => ctx.pipeline.set_port_metadata(port, None),
        (Type::Delete | Type::Reset, None) => {
            let ports = ctx.pipeline.port_metadata().map(|(port, _)| port);
            let ports: Vec<u16> = ports.filter(|port| has_port(ctx, table, *port)).collect();
            for port in ports {
                ctx.pipeline.set_port_metadata(port, None);
            }
        }
        _ => {
            return Err(EntityError::invalid(format!(
                "an entry of {} has a port",
                table.name
            )));
        }
    }
    Ok(())
}

/// The metadata of the ports that an entry selects.
pub fn port_metadata(
    ctx: &Context,
    table: &Table,
    entry: &bf::TableEntry,
) -> Result<Vec<bf::TableEntry>> {
    let wanted = port(table, entry)?;
    let ports = ctx.pipeline.port_metadata();
    let ports = ports.filter(|(port, _)| wanted.is_none_or(|wanted| wanted == *port));
    let ports = ports.filter(|(port, _)| has_port(ctx, table, *port));
    let made = ports.map(|(port, bits)| {
        let key = table
            .key
            .first()
            .map(|field| exact(field, &port.to_be_bytes()));
        bf::TableEntry {
            table_id: table.id,
            key: Some(bf::TableKey {
                fields: key.into_iter().collect(),
            }),
            data: Some(unpacked(table, bits)),
            ..bf::TableEntry::default()
        }
    });
    Ok(made.collect())
}

/// Whether a port is one of the pipeline that a table of port metadata belongs to.
fn has_port(ctx: &Context, table: &Table, port: u16) -> bool {
    let pipe = ctx.pipeline.pipe_names().get(ctx.pipeline.pipe_of(port));
    let own = table.name.split_once('.').map_or("", |(pipe, _)| pipe);
    pipe.is_none_or(|pipe| pipe == own)
}

/// The name of an object in the data plane, which is without that of the pipeline if there is only one.
pub fn plain_name<'t>(ctx: &Context, table: &'t Table) -> &'t str {
    match ctx.pipeline.pipe_names() {
        [] => table.name.split_once('.').map_or("", |(_, name)| name),
        _ => &table.name,
    }
}

/// Sets the bits that a table compares of each field of its key. A field that is left out is compared whole.
pub fn set_key_mask(ctx: &mut Context, table: &Table, given: &bf::DynKeyMask) -> Result<()> {
    let known = |id: u32| table.key.iter().any(|field| field.id == id);
    if let Some(field) = given.fields.iter().find(|field| !known(field.field_id)) {
        return Err(EntityError::invalid(format!(
            "{} has no key field {}",
            table.name, field.field_id
        )));
    }
    let masks = table.key.iter().map(|field| {
        let mask = given.fields.iter().find(|of| of.field_id == field.id);
        let Some(mask) = mask else {
            return Ok(bytes::ones(field.width()));
        };
        let fits = match mask.mask.is_empty() {
            true => Ok(vec![0]),
            false => bytes::canonical(&mask.mask, field.width()),
        };
        fits.map_err(|e| e.at(format_args!("key field {}", field.name)))
    });
    let masks = masks.collect::<Result<Vec<_>>>()?;
    let id = ctx.table(table.p4_id())?.1.id;
    Ok(ctx.pipeline.set_key_masks(id, &masks)?)
}

/// The bits that a table compares of each field of its key.
pub fn key_mask(ctx: &Context, table: &Table) -> Result<bf::DynKeyMask> {
    let id = ctx.table(table.p4_id())?.1.id;
    let masks = ctx.pipeline.key_masks(id);
    let fields = table
        .key
        .iter()
        .zip(masks)
        .map(|(field, mask)| bf::KeyFieldMask {
            field_id: field.id,
            mask: bytes::padded(&mask, field.width()),
        });
    Ok(bf::DynKeyMask {
        fields: fields.collect(),
    })
}

/// Sets how many bytes the meters of a table add to the length of each packet: one number, in all pipes.
pub fn adjust_meters(ctx: &mut Context, table: &Table, bytes: i32) -> Result<()> {
    if table.kind == Kind::Match {
        let id = ctx.table(table.p4_id())?.1.id;
        return Ok(ctx.pipeline.adjust_direct_meter(id, bytes)?);
    }
    let meter = ctx.pipeline.meter(plain_name(ctx, table))?;
    ctx.pipeline.adjust_meter(meter, bytes);
    Ok(())
}

/// Sets a parameter of register actions.
pub fn write_register_param(
    ctx: &mut Context,
    table: &Table,
    kind: Type,
    entry: &bf::TableEntry,
) -> Result<()> {
    let register = ctx.pipeline.register(plain_name(ctx, table))?;
    if matches!(kind, Type::Reset | Type::Delete) {
        return Ok(ctx.pipeline.reset_register(register, None)?);
    }
    if !matches!(kind, Type::Insert | Type::Modify | Type::InsertOrModify) {
        return Err(EntityError::invalid(format!(
            "{} has one value, which is set",
            table.name
        )));
    }
    let data = entry.data.as_ref();
    let given = table
        .fields()
        .next()
        .and_then(|field| request::field(data?, field.id));
    let Some(Value::Stream(value)) = given.and_then(|field| field.value.as_ref()) else {
        return Err(EntityError::invalid("a value of bytes is expected"));
    };
    ctx.pipeline.set_register_value(register, 0, value)?;
    Ok(())
}

/// The value of a parameter of register actions.
pub fn register_param(ctx: &Context, table: &Table) -> Result<bf::TableEntry> {
    let register = ctx.pipeline.register(plain_name(ctx, table))?;
    let value = ctx.pipeline.register_value(register, 0)?;
    let fields = table.fields().map(|field| stream(field, &value));
    Ok(bf::TableEntry {
        table_id: table.id,
        data: Some(without_action(fields)),
        is_default_entry: true,
        ..bf::TableEntry::default()
    })
}

/// Bits that a cell of a register has at most.
const MOST_CELL_BITS: usize = 128;

/// The fields of direct registers of a match table, by register: each is a cell of every entry.
fn direct_registers(table: &Table) -> BTreeMap<&str, Vec<&Field>> {
    let mut found: BTreeMap<&str, Vec<&Field>> = BTreeMap::new();
    for field in table.fields() {
        if let Some(register) = field.register() {
            found.entry(register).or_default().push(field);
        }
    }
    let bits = |fields: &[&Field]| fields.iter().map(|field| field.width()).sum::<usize>();
    found.retain(|_, fields| {
        bits(fields) <= MOST_CELL_BITS && fields.iter().all(|of| of.width() > 0)
    });
    found
}

/// Fields of direct registers with the values that an update gives them. Refuses values that do not fit.
pub fn direct_register_values<'a>(
    table: &'a Table,
    entry: &bf::TableEntry,
) -> Result<Vec<(&'a Field, u128)>> {
    let mut found = Vec::new();
    for field in table.fields().filter(|of| of.register().is_some()) {
        let given = entry
            .data
            .as_ref()
            .and_then(|data| request::field(data, field.id));
        let Some(given) = given else { continue };
        let value = match &given.value {
            Some(Value::Stream(value)) => bytes::canonical(value, field.width()),
            Some(Value::BoolVal(value)) => Ok(vec![u8::from(*value)]),
            _ => Err(EntityError::invalid("a value of bytes is expected")),
        };
        let value = value.map_err(|e| e.at(format_args!("field {}", field.name)))?;
        found.push((field, bytes::number(&value)));
    }
    match found.first() {
        Some((field, _)) if entry.is_default_entry => Err(EntityError::invalid(format!(
            "the default entry has no cell for field {}",
            field.name
        ))),
        _ => Ok(found),
    }
}

/// Sets fields of the direct registers of an entry that is there.
pub fn write_direct_registers(
    ctx: &mut Context,
    table: &Table,
    entry: &bf::TableEntry,
    values: &[(&Field, u128)],
) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let Some(cell) = cell_of(ctx, table, entry)? else {
        return Ok(());
    };
    for (name, fields) in direct_registers(table) {
        let register = ctx.pipeline.register(name)?;
        let mut whole = bytes::number(&ctx.pipeline.register_value(register, cell)?);
        for (field, lowest) in places(&fields) {
            if let Some((_, value)) = values.iter().find(|(of, _)| of.id == field.id) {
                let mask = u128::MAX >> (128 - field.width());
                whole = whole & !(mask << lowest) | value << lowest;
            }
        }
        let value = bytes::strip(&whole.to_be_bytes()).to_vec();
        ctx.pipeline.set_register_value(register, cell, &value)?;
    }
    Ok(())
}

/// Adds the fields of direct registers to an entry that was read.
pub fn show_direct_registers(
    ctx: &mut Context,
    table: &Table,
    entry: &mut bf::TableEntry,
) -> Result<()> {
    let registers = direct_registers(table);
    if registers.is_empty() || entry.is_default_entry {
        return Ok(());
    }
    let Some(cell) = cell_of(ctx, table, entry)? else {
        return Ok(());
    };
    for (name, fields) in registers {
        let register = ctx.pipeline.register(name)?;
        let whole = bytes::number(&ctx.pipeline.register_value(register, cell)?);
        let shown = places(&fields).map(|(field, lowest)| {
            let mask = u128::MAX >> (128 - field.width());
            let value = (whole >> lowest & mask).to_be_bytes();
            stream(field, bytes::strip(&value))
        });
        let data = entry.data.get_or_insert_default();
        data.fields.extend(shown);
    }
    Ok(())
}

/// Fields of a cell with their lowest bits: the first has the highest.
fn places<'a>(fields: &'a [&Field]) -> impl Iterator<Item = (&'a Field, usize)> {
    let mut lowest: usize = fields.iter().map(|field| field.width()).sum();
    fields.iter().map(move |field| {
        lowest -= field.width();
        (*field, lowest)
    })
}

/// The cell of an entry in the direct registers and filters of its table; none: it is the default entry.
pub fn cell_of(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<Option<u64>> {
    let Entity::TableEntry(entry) = request::named(table, entry)? else {
        return Ok(None);
    };
    let id = entities::entry_id(ctx, &entry)?;
    Ok(id.map(|id| ctx.pipeline.direct_cell(id)))
}

fn port(table: &Table, entry: &bf::TableEntry) -> Result<Option<u16>> {
    let (Some(key), Some(field)) = (&entry.key, table.key.first()) else {
        return Ok(None);
    };
    check_fields(table, key)?;
    let given = request::exact(key, field.id).map_or(Ok(0), to_number)?;
    let port = u16::try_from(given).ok().filter(|port| *port < 512);
    port.map(Some)
        .ok_or_else(|| EntityError::out_of_range(format!("port {given}; allowed: 0 to 511")))
}

/// The fields of an entry one after the other, as bytes; the last is filled up at the end.
fn packed(table: &Table, data: &bf::TableData) -> Result<Vec<u8>> {
    let mut bits = Vec::new();
    for field in table.fields() {
        let value = match request::field(data, field.id).and_then(|of| of.value.as_ref()) {
            Some(Value::Stream(value)) => bytes::canonical(value, field.width())
                .map_err(|e| e.at(format_args!("field {}", field.name)))?,
            None => Vec::new(),
            Some(_) => return Err(EntityError::invalid("a value of bytes is expected")),
        };
        let value = bytes::padded(&value, field.width());
        let all = value
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
        bits.extend(all.skip(value.len() * 8 - field.width()));
    }
    let whole = bits.chunks(8);
    Ok(whole
        .map(|bits| {
            let byte = bits.iter().fold(0, |byte, bit| byte << 1 | bit);
            byte << (8 - bits.len())
        })
        .collect())
}

fn unpacked(table: &Table, packed: &[u8]) -> bf::TableData {
    let mut bits = packed
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let fields = table.fields().map(|field| {
        let mut value = vec![0_u8; field.width().div_ceil(8)];
        for at in (0..field.width()).rev() {
            let last = value.len() - 1;
            value[last - at / 8] |= bits.next().unwrap_or(0) << (at % 8);
        }
        data_field(field.id, Value::Stream(value))
    });
    without_action(fields)
}

/// MODIFY_INC of counts, which are added or taken off.
pub fn add(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let given = entry.data.clone().unwrap_or_default();
    let mut present = only(ctx, table, entry)?;
    let data = present.data.get_or_insert_default();
    add_counts(table, data, &given, takes_away(entry))?;
    let entity = request::entity(table, &present)?;
    change(ctx, p4::update::Type::Modify, entity)
}

/// Adds members to those of a group, or takes them away.
pub fn change_members(data: &mut bf::TableData, given: &bf::TableData, takes: bool) {
    let (change, active) = request::membership(given);
    let active = active.iter().copied().chain(std::iter::repeat(true));
    let (members, states) = request::membership(data);
    let all = members.iter().copied().zip(states.iter().copied());
    let mut all: Vec<(u32, bool)> = all.filter(|(member, _)| !change.contains(member)).collect();
    if !takes {
        all.extend(change.iter().copied().zip(active));
    }
    for field in &mut data.fields {
        match &mut field.value {
            Some(Value::IntArrVal(IntArray { val })) => *val = all.iter().map(|of| of.0).collect(),
            Some(Value::BoolArrVal(BoolArray { val })) => {
                *val = all.iter().map(|of| of.1).collect()
            }
            _ => {}
        }
    }
}

fn add_counts(
    table: &Table,
    data: &mut bf::TableData,
    given: &bf::TableData,
    takes: bool,
) -> Result<()> {
    for field in &given.fields {
        if !matches!(
            field.field_id,
            fixed::COUNTER_BYTES | fixed::COUNTER_PACKETS
        ) {
            return Err(EntityError::unimplemented(format!(
                "MODIFY_INC of {}: counts and members of groups are added to; read others and MODIFY them",
                table.name
            )));
        }
        let old = request::number(data, field.field_id)?.unwrap_or(0);
        let change = request::number(given, field.field_id)?.unwrap_or(0);
        let new = match takes {
            true => old.saturating_sub(change),
            false => old.saturating_add(change),
        };
        for present in data
            .fields
            .iter_mut()
            .filter(|of| of.field_id == field.field_id)
        {
            present.value = Some(Value::Stream(new.to_be_bytes().into()));
        }
    }
    Ok(())
}
