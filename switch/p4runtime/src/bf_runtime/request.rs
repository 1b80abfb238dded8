//! Requests of BF Runtime as entities of P4Runtime.

use super::schema::{Action, Field, Key, Kind, Match, Table, fixed};
use crate::bytes;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime::data_field::Value;
use crate::proto::bf_runtime::key_field::MatchType;
use crate::proto::bf_runtime::table_mod_inc_flag::Type as Incremental;
use crate::proto::bf_runtime::{DataField, TableData, TableEntry, TableKey};
use crate::proto::p4;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::field_match::FieldMatchType;

/// The entity that an entry names, without its data.
pub fn named(table: &Table, entry: &TableEntry) -> Result<Entity> {
    let data = None;
    entity(
        table,
        &TableEntry {
            data,
            ..entry.clone()
        },
    )
}

/// The entity that selects all entries of a table.
pub fn all_of(table: &Table) -> Result<Entity> {
    let table_id = table.id;
    entity(
        table,
        &TableEntry {
            table_id,
            ..TableEntry::default()
        },
    )
}

/// Entity of an entry, with its key, and with its data if it has some.
pub fn entity(table: &Table, entry: &TableEntry) -> Result<Entity> {
    let key = entry.key.as_ref();
    let data = entry.data.as_ref();
    Ok(match table.kind {
        Kind::Match if entry.is_default_entry => Entity::TableEntry(p4::TableEntry {
            is_default_action: true,
            ..match_entry(table, None, data)?
        }),
        Kind::Match => Entity::TableEntry(match_entry(table, key, data)?),
        Kind::Member => Entity::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: table.p4_id(),
            member_id: kept_id(table, key)?,
            action: action(table, data)?,
        }),
        Kind::Group => Entity::ActionProfileGroup(group(table, key, data)?),
        Kind::Counter => Entity::CounterEntry(p4::CounterEntry {
            counter_id: table.p4_id(),
            index: cell(table, key)?,
            data: data.map(counter_data).transpose()?,
        }),
        Kind::Meter => Entity::MeterEntry(p4::MeterEntry {
            meter_id: table.p4_id(),
            index: cell(table, key)?,
            config: data.map(meter_config).transpose()?.flatten(),
            counter_data: None,
        }),
        Kind::Register => Entity::RegisterEntry(p4::RegisterEntry {
            register_id: table.p4_id(),
            index: cell(table, key)?,
            data: data.map(|data| register_data(table, data)).transpose()?,
        }),
        Kind::ValueSet
        | Kind::PortMetadata
        | Kind::RegisterParam
        | Kind::Filter
        | Kind::SelectedMember
        | Kind::HashInputs
        | Kind::HashAlgorithm
        | Kind::HashValue
        | Kind::Other => return Err(of_the_chip(table)),
    })
}

/// The refusal of tables that have no object in this switch.
fn of_the_chip(table: &Table) -> EntityError {
    let name = &table.name;
    if name.contains("snapshot.") {
        return EntityError::unimplemented(format!(
            "{name}: a snapshot is of the fields at a stage of the chip, and this switch has no stages; the trace of a \
             packet shows its fields after each table (ebb-ctl trace)"
        ));
    }
    EntityError::unimplemented(format!(
        "{name} describes the chip; this switch has no such table"
    ))
}

/// Whether objects of a table exist as long as the program does.
pub fn is_fixed(table: &Table) -> bool {
    matches!(table.kind, Kind::Counter | Kind::Meter | Kind::Register)
}

fn match_entry(
    table: &Table,
    key: Option<&TableKey>,
    data: Option<&TableData>,
) -> Result<p4::TableEntry> {
    let mut entry = p4::TableEntry {
        table_id: table.p4_id(),
        ..p4::TableEntry::default()
    };
    if let Some(key) = key {
        check_fields(table, key)?;
        for field in &table.key {
            match field.id {
                fixed::PRIORITY => entry.priority = priority(key)?,
                _ => entry.r#match.extend(field_match(field, key)?),
            }
        }
    }
    if let Some(data) = data {
        entry.action = table_action(table, data)?;
        if has_counter(data) {
            entry.counter_data = Some(counter_data(data)?);
        }
        entry.meter_config = meter_config(data)?;
        if let Some(ttl) = number(data, fixed::TTL)? {
            // Milliseconds.
            entry.idle_timeout_ns = i64::try_from(ttl)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000);
        }
    }
    Ok(entry)
}

/// Refuses fields that the table does not have.
pub fn check_fields(table: &Table, key: &TableKey) -> Result<()> {
    let known = |id: u32| table.key.iter().any(|field| field.id == id);
    match key.fields.iter().find(|field| !known(field.field_id)) {
        Some(field) => Err(EntityError::invalid(format!(
            "{} has no key field {}",
            table.name, field.field_id
        ))),
        None => Ok(()),
    }
}

/// In BF Runtime the least number wins, in P4Runtime the largest.
pub fn turned(priority: i32) -> i32 {
    i32::MAX - priority
}

fn priority(key: &TableKey) -> Result<i32> {
    let given = exact(key, fixed::PRIORITY).map_or(Ok(0), to_number)?;
    let small = i32::try_from(given).ok().filter(|given| *given < i32::MAX);
    let small = small.ok_or_else(|| {
        EntityError::out_of_range(format!("priority {given}; allowed: 0 to {}", i32::MAX - 1))
    })?;
    Ok(turned(small))
}

/// The value of a field that is compared exactly.
pub fn exact(key: &TableKey, id: u32) -> Option<&[u8]> {
    let field = key.fields.iter().find(|field| field.field_id == id)?;
    match field.match_type.as_ref()? {
        MatchType::Exact(exact) => Some(&exact.value),
        _ => None,
    }
}

/// None: any value matches. An exact field that is left out is 0.
pub fn field_match(field: &Key, key: &TableKey) -> Result<Option<p4::FieldMatch>> {
    use p4::field_match as of;
    let given = key.fields.iter().find(|f| f.field_id == field.id);
    let given = given.and_then(|f| f.match_type.as_ref());
    let width = field.width();
    let fits = |value: &[u8]| {
        let value = bytes::canonical(or_zero(value), width);
        value.map_err(|e| e.at(format_args!("key field {}", field.name)))
    };
    let found = match (field.match_type, given) {
        (Match::Exact, Some(MatchType::Exact(given))) => FieldMatchType::Exact(of::Exact {
            value: fits(&given.value)?,
        }),
        (Match::Exact, None) => FieldMatchType::Exact(of::Exact { value: vec![0] }),
        (Match::Lpm, Some(MatchType::Lpm(given))) => {
            let length = usize::try_from(given.prefix_len)
                .ok()
                .filter(|n| *n <= width);
            let length = length.ok_or_else(|| out_of_prefix(field, given.prefix_len))?;
            if length == 0 {
                return Ok(None);
            }
            let mask = bytes::prefix_mask(length, width);
            FieldMatchType::Lpm(of::Lpm {
                value: masked(&fits(&given.value)?, &mask, width),
                prefix_len: given.prefix_len,
            })
        }
        (Match::Ternary, Some(given)) => {
            let (value, mask) = match given {
                MatchType::Ternary(given) => (fits(&given.value)?, fits(&given.mask)?),
                MatchType::Exact(given) => (fits(&given.value)?, bytes::ones(width)),
                _ => return Err(other_match(field)),
            };
            if bytes::is_zero(&mask) {
                return Ok(None);
            }
            FieldMatchType::Ternary(of::Ternary {
                value: masked(&value, &mask, width),
                mask,
            })
        }
        (Match::Range, Some(MatchType::Range(given))) => {
            let (low, high) = (fits(&given.low)?, fits(&given.high)?);
            if bytes::is_zero(&low) && high == bytes::ones(width) {
                return Ok(None);
            }
            FieldMatchType::Range(of::Range { low, high })
        }
        (Match::Optional, Some(MatchType::Optional(given))) if given.is_valid => {
            FieldMatchType::Optional(of::Optional {
                value: fits(&given.value)?,
            })
        }
        (Match::Optional, Some(MatchType::Optional(_))) => return Ok(None),
        (Match::Other, _) => return Err(other_match(field)),
        (_, None) => return Ok(None),
        _ => return Err(other_match(field)),
    };
    Ok(Some(p4::FieldMatch {
        field_id: field.id,
        field_match_type: Some(found),
    }))
}

fn other_match(field: &Key) -> EntityError {
    let (name, kind) = (&field.name, field.match_type);
    EntityError::invalid(format!("key field {name} is compared otherwise: {kind:?}"))
}

fn out_of_prefix(field: &Key, length: i32) -> EntityError {
    let (name, width) = (&field.name, field.width());
    EntityError::out_of_range(format!(
        "key field {name}: prefix of {length} bits; allowed: 0 to {width}"
    ))
}

/// Protobuf leaves an empty value out.
fn or_zero(value: &[u8]) -> &[u8] {
    if value.is_empty() { &[0] } else { value }
}

fn masked(value: &[u8], mask: &[u8], width: usize) -> Vec<u8> {
    let pairs = bytes::padded(value, width)
        .into_iter()
        .zip(bytes::padded(mask, width));
    bytes::strip(&pairs.map(|(value, mask)| value & mask).collect::<Vec<_>>()).to_vec()
}

/// The index of a counter, meter or register; none: all of them, in a read.
fn cell(table: &Table, key: Option<&TableKey>) -> Result<Option<p4::Index>> {
    let Some(key) = key else {
        return Ok(None);
    };
    let index = index(table, Some(key))?.into();
    Ok(Some(p4::Index { index }))
}

/// The only key of a table of objects; 0 means all of them, in a read.
fn index(table: &Table, key: Option<&TableKey>) -> Result<u32> {
    let (Some(key), Some(field)) = (key, table.key.first()) else {
        return Ok(0);
    };
    check_fields(table, key)?;
    let value = exact(key, field.id).map_or(Ok(0), to_number)?;
    u32::try_from(value).map_err(|_| EntityError::out_of_range(format!("{} {value}", field.name)))
}

/// The id of P4Runtime for one of BF Runtime, and the reverse: P4Runtime has no member or group 0, which here is the
/// last one.
pub fn swapped_id(id: u32) -> u32 {
    match id {
        0 => u32::MAX,
        u32::MAX => 0,
        id => id,
    }
}

/// The id of a member or group in P4Runtime; 0, which means all of them in a read, without a key.
fn kept_id(table: &Table, key: Option<&TableKey>) -> Result<u32> {
    let key = key.filter(|key| !key.fields.is_empty());
    key.map_or(Ok(0), |key| index(table, Some(key)).map(swapped_id))
}

/// A number as bytes without zeros in front.
pub fn bytes_of(number: u64) -> Vec<u8> {
    bytes::strip(&number.to_be_bytes()).to_vec()
}

/// Whether MODIFY_INC takes away: by the flag of today's clients, or by that of older ones.
pub fn takes_away(entry: &TableEntry) -> bool {
    let older = entry.table_mod_inc_flag;
    entry.table_flags.is_some_and(|flags| flags.mod_del)
        || older.is_some_and(|flag| flag.r#type() == Incremental::ModIncDelete)
}

/// A number of up to 64 bits.
pub fn to_number(value: &[u8]) -> Result<u64> {
    let value = bytes::canonical(or_zero(value), 64)?;
    Ok(bytes::number(&value) as u64)
}

/// A data field, if it is there.
pub fn field(data: &TableData, id: u32) -> Option<&DataField> {
    data.fields.iter().find(|field| field.field_id == id)
}

/// A numeric field, if it is there.
pub fn number(data: &TableData, id: u32) -> Result<Option<u64>> {
    match field(data, id).and_then(|field| field.value.as_ref()) {
        Some(Value::Stream(value)) => to_number(value).map(Some),
        Some(_) => Err(EntityError::invalid(format!("field {id} is a number"))),
        None => Ok(None),
    }
}

fn table_action(table: &Table, data: &TableData) -> Result<Option<p4::TableAction>> {
    use p4::table_action::Type;
    let member = number(data, fixed::MEMBER)?.filter(|_| table.has(fixed::MEMBER));
    let group = number(data, fixed::GROUP)?.filter(|_| table.has(fixed::GROUP));
    let id = |id: u64| {
        let id = u32::try_from(id).map_err(|_| EntityError::out_of_range(format!("id {id}")));
        id.map(swapped_id)
    };
    let found = match (member, group) {
        (Some(member), _) => Some(Type::ActionProfileMemberId(id(member)?)),
        (None, Some(group)) => Some(Type::ActionProfileGroupId(id(group)?)),
        (None, None) => action(table, Some(data))?.map(Type::Action),
    };
    Ok(found.map(|found| p4::TableAction {
        r#type: Some(found),
    }))
}

fn action(table: &Table, data: Option<&TableData>) -> Result<Option<p4::Action>> {
    let Some(data) = data.filter(|data| data.action_id != 0) else {
        return Ok(None);
    };
    let spec = table.action(data.action_id)?;
    let params = spec.data.iter().map(|param| parameter(spec, param, data));
    Ok(Some(p4::Action {
        action_id: data.action_id,
        params: params.collect::<Result<_>>()?,
    }))
}

/// A parameter, which is 0 if it is left out.
fn parameter(action: &Action, param: &Field, data: &TableData) -> Result<p4::action::Param> {
    let given = field(data, param.id).and_then(|field| field.value.as_ref());
    let value = match given {
        None => Ok(vec![0]),
        Some(Value::Stream(value)) => bytes::canonical(or_zero(value), param.width()),
        Some(Value::BoolVal(value)) => Ok(vec![u8::from(*value)]),
        Some(_) => Err(EntityError::invalid("a value of bytes is expected")),
    };
    let value = value.map_err(|e| {
        e.at(format_args!(
            "parameter {} of action {}",
            param.name, action.id
        ))
    });
    let param_id = param.id;
    value.map(|value| p4::action::Param { param_id, value })
}

/// Members of a group, and whether each is active.
pub fn membership(data: &TableData) -> (&[u32], &[bool]) {
    let value = |id| field(data, id).and_then(|field| field.value.as_ref());
    let members: &[u32] = match value(fixed::MEMBER) {
        Some(Value::IntArrVal(members)) => &members.val,
        _ => &[],
    };
    let active: &[bool] = match value(fixed::MEMBER_STATUS) {
        Some(Value::BoolArrVal(active)) => &active.val,
        _ => &[],
    };
    (members, active)
}

/// The active members of a group.
pub fn active_members(data: &TableData) -> Vec<u32> {
    let (members, active) = membership(data);
    let active = members.iter().zip(active).filter(|(_, active)| **active);
    active.map(|(member, _)| *member).collect()
}

fn group(
    table: &Table,
    key: Option<&TableKey>,
    data: Option<&TableData>,
) -> Result<p4::ActionProfileGroup> {
    let mut made = p4::ActionProfileGroup {
        action_profile_id: table.p4_id(),
        group_id: kept_id(table, key)?,
        ..p4::ActionProfileGroup::default()
    };
    let Some(data) = data else {
        return Ok(made);
    };
    let (members, active) = membership(data);
    if active.len() != members.len() {
        return Err(EntityError::invalid(format!(
            "{} members and {} of their states",
            members.len(),
            active.len()
        )));
    }
    // A member that is listed several times has as much weight.
    let mut weights: Vec<(u32, i32)> = Vec::new();
    for (member, _) in members.iter().zip(active).filter(|(_, active)| **active) {
        match weights.iter_mut().find(|(known, _)| known == member) {
            Some((_, weight)) => *weight += 1,
            None => weights.push((*member, 1)),
        }
    }
    let made_of = weights
        .into_iter()
        .map(|(member, weight)| p4::action_profile_group::Member {
            member_id: swapped_id(member),
            weight,
            ..Default::default()
        });
    made.members = made_of.collect();
    if let Some(size) = number(data, fixed::MAX_GROUP_SIZE)? {
        made.max_size = i32::try_from(size).unwrap_or(i32::MAX);
    }
    Ok(made)
}

/// Whether data has a counter's fields.
pub fn has_counter(data: &TableData) -> bool {
    let is_one =
        |f: &DataField| matches!(f.field_id, fixed::COUNTER_BYTES | fixed::COUNTER_PACKETS);
    data.fields.iter().any(is_one)
}

/// Counts; those left out are 0.
pub fn counter_data(data: &TableData) -> Result<p4::CounterData> {
    let count = |id| -> Result<i64> {
        Ok(i64::try_from(number(data, id)?.unwrap_or(0)).unwrap_or(i64::MAX))
    };
    Ok(p4::CounterData {
        byte_count: count(fixed::COUNTER_BYTES)?,
        packet_count: count(fixed::COUNTER_PACKETS)?,
    })
}

/// Rates and bursts, in bytes or packets. None: data has no field of a meter, or all are unlimited.
pub fn meter_config(data: &TableData) -> Result<Option<p4::MeterConfig>> {
    // A kilobit is 125 bytes.
    for (fields, unit) in [(fixed::METER_BYTES, 125), (fixed::METER_PACKETS, 1)] {
        let [cir, pir, cbs, pbs] = fields.map(|id| number(data, id));
        let [cir, pir, cbs, pbs] = [cir?, pir?, cbs?, pbs?];
        if [cir, pir, cbs, pbs]
            .iter()
            .all(|v| v.is_none_or(|v| v == u64::MAX))
        {
            continue;
        }
        let scaled = |value: Option<u64>| {
            let value = value.unwrap_or(u64::MAX).saturating_mul(unit);
            i64::try_from(value).unwrap_or(i64::MAX)
        };
        return Ok(Some(p4::MeterConfig {
            cir: scaled(cir),
            cburst: scaled(cbs),
            pir: scaled(pir),
            pburst: scaled(pbs),
            eburst: 0,
        }));
    }
    Ok(None)
}

/// An element of a register: a number, or a struct of those that its fields are.
pub fn register_data(table: &Table, data: &TableData) -> Result<p4::P4Data> {
    let member = |of: &Field| -> Result<p4::P4Data> {
        let value = match field(data, of.id).and_then(|field| field.value.as_ref()) {
            Some(Value::Stream(value)) => bytes::canonical(or_zero(value), of.width()),
            Some(Value::BoolVal(value)) => return Ok(boolean(*value)),
            None => Ok(vec![0]),
            Some(_) => Err(EntityError::invalid("a value of bytes is expected")),
        };
        let value = value.map_err(|e| e.at(format_args!("field {}", of.name)))?;
        Ok(p4::P4Data {
            data: Some(p4::p4_data::Data::Bitstring(value)),
        })
    };
    let mut members = table.fields().map(member).collect::<Result<Vec<_>>>()?;
    if is_scalar(table) {
        return members
            .pop()
            .ok_or_else(|| EntityError::internal("a register without fields"));
    }
    let members = p4::P4StructLike { members };
    Ok(p4::P4Data {
        data: Some(p4::p4_data::Data::Struct(members)),
    })
}

fn boolean(value: bool) -> p4::P4Data {
    p4::P4Data {
        data: Some(p4::p4_data::Data::Bool(value)),
    }
}

/// Whether the elements of a register are numbers: the schema calls their only field `f1`.
pub fn is_scalar(table: &Table) -> bool {
    let mut fields = table.fields();
    let first = fields.next();
    fields.next().is_none() && first.is_some_and(|field| field.name.ends_with(".f1"))
}
