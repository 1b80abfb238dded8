//! Entities of P4Runtime as entries of BF Runtime, whose values have all bytes of their width.

use super::request::{is_scalar, swapped_id, turned};
use super::schema::{Field, Key, Match, Table, fixed};
use crate::bytes;
use crate::proto::bf_runtime::data_field::{BoolArray, IntArray, Value};
use crate::proto::bf_runtime::key_field::{self, MatchType};
use crate::proto::bf_runtime::{DataField, KeyField, TableData, TableEntry, TableKey};
use crate::proto::p4;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::field_match::FieldMatchType;

/// The entry; none: the entity is of another kind.
pub fn entry(table: &Table, entity: Entity) -> Option<TableEntry> {
    let (key, data) = match entity {
        Entity::TableEntry(entry) if entry.is_default_action => {
            return Some(TableEntry {
                table_id: table.id,
                is_default_entry: true,
                data: Some(match_data(table, &entry)),
                ..TableEntry::default()
            });
        }
        Entity::TableEntry(entry) => (match_key(table, &entry), match_data(table, &entry)),
        Entity::ActionProfileMember(member) => {
            let data = member.action.map(|action| action_data(table, &action));
            (
                index(table, swapped_id(member.member_id).into()),
                data.unwrap_or_default(),
            )
        }
        Entity::ActionProfileGroup(group) => (
            index(table, swapped_id(group.group_id).into()),
            group_data(table, &group),
        ),
        Entity::CounterEntry(cell) => {
            let fields = cell.data.map(|data| counter_fields(table, &data));
            (
                cell_key(table, cell.index),
                without_action(fields.unwrap_or_default()),
            )
        }
        Entity::MeterEntry(cell) => {
            let fields = meter_fields(table, cell.config.as_ref());
            (cell_key(table, cell.index), without_action(fields))
        }
        Entity::RegisterEntry(cell) => {
            let fields = cell.data.map(|data| register_fields(table, data));
            (
                cell_key(table, cell.index),
                without_action(fields.unwrap_or_default()),
            )
        }
        _ => return None,
    };
    Some(TableEntry {
        table_id: table.id,
        key: Some(key),
        data: Some(data),
        ..TableEntry::default()
    })
}

/// Data that belongs to no action.
pub fn without_action(fields: impl IntoIterator<Item = DataField>) -> TableData {
    TableData {
        action_id: 0,
        fields: fields.into_iter().collect(),
    }
}

fn index(table: &Table, index: u64) -> TableKey {
    let fields = table
        .key
        .first()
        .map(|field| exact(field, &index.to_be_bytes()));
    TableKey {
        fields: fields.into_iter().collect(),
    }
}

fn cell_key(table: &Table, cell: Option<p4::Index>) -> TableKey {
    let number = cell.map_or(0, |cell| cell.index.unsigned_abs());
    index(table, number)
}

/// A field that is compared exactly.
pub fn exact(field: &Key, value: &[u8]) -> KeyField {
    let value = bytes::padded(value, field.width());
    KeyField {
        field_id: field.id,
        match_type: Some(MatchType::Exact(key_field::Exact { value })),
    }
}

/// The key of an entry of a match table.
pub fn match_key(table: &Table, entry: &p4::TableEntry) -> TableKey {
    let fields = table.key.iter().map(|field| match field.id {
        fixed::PRIORITY => exact(field, &turned(entry.priority).to_be_bytes()),
        _ => {
            let found = entry.r#match.iter().find(|m| m.field_id == field.id);
            let found = found.and_then(|m| m.field_match_type.as_ref());
            KeyField {
                field_id: field.id,
                match_type: Some(match_type(field, found)),
            }
        }
    });
    TableKey {
        fields: fields.collect(),
    }
}

/// P4Runtime leaves a field out that matches any value.
pub fn match_type(field: &Key, found: Option<&FieldMatchType>) -> MatchType {
    let width = field.width();
    let full = |value: &[u8]| bytes::padded(value, width);
    match (field.match_type, found) {
        (Match::Lpm, Some(FieldMatchType::Lpm(lpm))) => MatchType::Lpm(key_field::Lpm {
            value: full(&lpm.value),
            prefix_len: lpm.prefix_len,
        }),
        (Match::Lpm, _) => MatchType::Lpm(key_field::Lpm {
            value: full(&[]),
            prefix_len: 0,
        }),
        (Match::Ternary, Some(FieldMatchType::Ternary(of))) => {
            MatchType::Ternary(key_field::Ternary {
                value: full(&of.value),
                mask: full(&of.mask),
            })
        }
        // A value set may have fields that the program compares exactly.
        (Match::Ternary, Some(FieldMatchType::Exact(of))) => {
            MatchType::Ternary(key_field::Ternary {
                value: full(&of.value),
                mask: full(&bytes::ones(width)),
            })
        }
        (Match::Ternary, _) => MatchType::Ternary(key_field::Ternary {
            value: full(&[]),
            mask: full(&[]),
        }),
        (Match::Range, Some(FieldMatchType::Range(of))) => MatchType::Range(key_field::Range {
            low: full(&of.low),
            high: full(&of.high),
        }),
        (Match::Range, _) => MatchType::Range(key_field::Range {
            low: full(&[]),
            high: full(&bytes::ones(width)),
        }),
        (Match::Optional, Some(FieldMatchType::Optional(of))) => {
            MatchType::Optional(key_field::Optional {
                value: full(&of.value),
                is_valid: true,
            })
        }
        (Match::Optional, _) => MatchType::Optional(key_field::Optional {
            value: full(&[]),
            is_valid: false,
        }),
        (_, Some(FieldMatchType::Exact(of))) => MatchType::Exact(key_field::Exact {
            value: full(&of.value),
        }),
        (_, _) => MatchType::Exact(key_field::Exact { value: full(&[]) }),
    }
}

fn match_data(table: &Table, entry: &p4::TableEntry) -> TableData {
    use p4::table_action::Type;
    let mut data = match entry
        .action
        .as_ref()
        .and_then(|action| action.r#type.as_ref())
    {
        Some(Type::Action(action)) => action_data(table, action),
        Some(Type::ActionProfileMemberId(id)) => {
            without_action(vec![number(fixed::MEMBER, swapped_id(*id))])
        }
        Some(Type::ActionProfileGroupId(id)) => {
            without_action(vec![number(fixed::GROUP, swapped_id(*id))])
        }
        _ => TableData::default(),
    };
    if let Some(counts) = &entry.counter_data {
        data.fields.extend(counter_fields(table, counts));
    }
    data.fields
        .extend(meter_fields(table, entry.meter_config.as_ref()));
    if table.has(fixed::TTL) {
        // As much as is left until the entry is idle.
        let elapsed = entry.time_since_last_hit.map_or(0, |hit| hit.elapsed_ns);
        let milliseconds = (entry.idle_timeout_ns - elapsed).max(0) / 1_000_000;
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        data.fields.push(number(fixed::TTL, milliseconds));
    }
    if table.has(fixed::HIT_STATE) {
        let idle = entry.time_since_last_hit.is_some_and(|hit| {
            entry.idle_timeout_ns > 0 && hit.elapsed_ns >= entry.idle_timeout_ns
        });
        let state = if idle { "ENTRY_IDLE" } else { "ENTRY_ACTIVE" };
        let value = Value::StrVal(state.into());
        data.fields.push(data_field(fixed::HIT_STATE, value));
    }
    data
}

fn action_data(table: &Table, action: &p4::Action) -> TableData {
    let spec = table
        .action_specs
        .iter()
        .find(|spec| spec.id == action.action_id);
    let params = spec.map_or(&[][..], |spec| &spec.data);
    let fields = params.iter().map(|param| {
        let given = action.params.iter().find(|p| p.param_id == param.id);
        stream(param, given.map_or(&[], |p| &p.value))
    });
    TableData {
        action_id: action.action_id,
        fields: fields.collect(),
    }
}

/// A field with its value.
pub fn data_field(field_id: u32, value: Value) -> DataField {
    DataField {
        field_id,
        value: Some(value),
    }
}

/// A field whose value has as many bytes as its width takes.
pub fn stream(field: &Field, value: &[u8]) -> DataField {
    data_field(field.id, Value::Stream(bytes::padded(value, field.width())))
}

/// A number of 32 bits.
fn number(field_id: u32, value: u32) -> DataField {
    data_field(field_id, Value::Stream(value.to_be_bytes().into()))
}

fn group_data(table: &Table, group: &p4::ActionProfileGroup) -> TableData {
    let members: Vec<u32> = group
        .members
        .iter()
        .map(|member| swapped_id(member.member_id))
        .collect();
    let active = vec![true; members.len()];
    let mut fields = vec![
        data_field(fixed::MEMBER, Value::IntArrVal(IntArray { val: members })),
        data_field(
            fixed::MEMBER_STATUS,
            Value::BoolArrVal(BoolArray { val: active }),
        ),
    ];
    if table.has(fixed::MAX_GROUP_SIZE) {
        fields.push(number(fixed::MAX_GROUP_SIZE, group.max_size.unsigned_abs()));
    }
    without_action(fields)
}

fn counter_fields(table: &Table, data: &p4::CounterData) -> Vec<DataField> {
    let counts = [
        (fixed::COUNTER_BYTES, data.byte_count),
        (fixed::COUNTER_PACKETS, data.packet_count),
    ];
    let counts = counts.into_iter().filter(|(id, _)| table.has(*id));
    counts
        .map(|(id, count)| long(id, count.unsigned_abs()))
        .collect()
}

fn long(field_id: u32, value: u64) -> DataField {
    data_field(field_id, Value::Stream(value.to_be_bytes().into()))
}

/// Rates and bursts; those of no configuration are unlimited.
fn meter_fields(table: &Table, config: Option<&p4::MeterConfig>) -> Vec<DataField> {
    let values = config.map(|c| [c.cir, c.pir, c.cburst, c.pburst]);
    let mut found = Vec::new();
    for (ids, unit) in [(fixed::METER_BYTES, 125), (fixed::METER_PACKETS, 1)] {
        for (at, id) in ids.into_iter().enumerate().filter(|(_, id)| table.has(*id)) {
            let value = values.map_or(i64::MAX, |values| values[at]);
            let value = if value == i64::MAX {
                u64::MAX
            } else {
                value.unsigned_abs() / unit
            };
            found.push(long(id, value));
        }
    }
    found
}

/// Shows the rates and bursts of unlimited byte meters as the chip does: as the largest that it has. The cells of its
/// buffer tell its generation.
pub fn limit_rates(data: &mut TableData, cell_bytes: u64) {
    // The largest mantissa and exponent at clocks of 1.27 and 1 GHz, in kbit/s and kbit.
    const BURST: u64 = 4_380_866_642;
    let rate = match cell_bytes {
        80 => 5_195_848_221,
        _ => 4_087_999_890_u64,
    };
    let limits = fixed::METER_BYTES
        .into_iter()
        .zip([rate, rate, BURST, BURST]);
    for (id, most) in limits {
        let fields = data.fields.iter_mut().filter(|field| field.field_id == id);
        for field in fields {
            if matches!(&field.value, Some(Value::Stream(value)) if *value == u64::MAX.to_be_bytes())
            {
                *field = long(id, most);
            }
        }
    }
}

fn register_fields(table: &Table, data: p4::P4Data) -> Vec<DataField> {
    use p4::p4_data::Data;
    let members = match data.data {
        Some(Data::Struct(of)) if !is_scalar(table) => of.members,
        data => vec![p4::P4Data { data }],
    };
    let fields = table.fields().zip(members);
    fields
        .map(|(field, member)| match member.data {
            Some(Data::Bitstring(value)) => stream(field, &value),
            Some(Data::Bool(value)) => stream(field, &[u8::from(value)]),
            _ => stream(field, &[]),
        })
        .collect()
}
