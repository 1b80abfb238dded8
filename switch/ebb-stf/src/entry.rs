//! Entries of an STF file as entries of the switch.

use ebb_pipeline::control::{ActionCall, KeyFieldInfo, MatchKey, MatchKind, TableAction};
use ebb_pipeline::{ActionId, Pipeline, TableId};

use crate::bench::in_words;
use crate::names;
use crate::scan::Number;
use crate::script::{Action, EntryAction, KeyValue};

/// The entry that an `add` with a label made.
pub struct Labelled {
    /// Name of its table for the control plane.
    pub table: String,
    /// A match for each field of the key.
    pub key: Vec<MatchKey>,
    /// Its priority; 0 if the table has no priorities.
    pub priority: i32,
}

/// One match for every key field; what is not given matches everything, or is 0 where the field is
/// exact.
pub fn keys(
    fields: &[KeyFieldInfo<'_>],
    given: &[(String, KeyValue)],
) -> Result<Vec<MatchKey>, String> {
    let mut keys: Vec<MatchKey> = fields
        .iter()
        .map(|field| match field.kind {
            MatchKind::Exact => MatchKey::Exact(vec![0]),
            MatchKind::Valid => MatchKey::Valid(false),
            _ => MatchKey::Any,
        })
        .collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    for (name, value) in given {
        let at = names::key_field(name, &names)?;
        keys[at] = key(&fields[at], value)?;
    }
    Ok(keys)
}

fn key(field: &KeyFieldInfo<'_>, value: &KeyValue) -> Result<MatchKey, String> {
    let (number, prefix) = match value {
        KeyValue::Number(number) => (number, None),
        KeyValue::Prefix(number, bits) => (number, Some(*bits)),
        KeyValue::Range(low, high) => return range(field, low, high),
    };
    match (field.kind, prefix) {
        (MatchKind::Lpm, prefix) => Ok(lpm(number, prefix, field.bits)),
        (_, Some(_)) => Err(format!("key field {} is not matched by prefix", field.name)),
        (MatchKind::Ternary, None) => Ok(ternary(number, field.bits)),
        (_, None) if number.has_wildcard() => Err(format!(
            "key field {} has no `*`, only ternary and lpm fields",
            field.name
        )),
        (MatchKind::Exact, None) => Ok(MatchKey::Exact(number.value())),
        (MatchKind::Valid, None) => Ok(MatchKey::Valid(!number.value().is_empty())),
        (MatchKind::Range, None) => Ok(MatchKey::Range {
            low: number.value(),
            high: number.value(),
        }),
    }
}

fn range(field: &KeyFieldInfo<'_>, low: &Number, high: &Number) -> Result<MatchKey, String> {
    if field.kind != MatchKind::Range || low.has_wildcard() || high.has_wildcard() {
        return Err(format!("key field {} is not matched by range", field.name));
    }
    Ok(MatchKey::Range {
        low: low.value(),
        high: high.value(),
    })
}

fn ternary(number: &Number, bits: u32) -> MatchKey {
    let mask = number.mask().unwrap_or_else(|| ones(bits));
    match mask.is_empty() {
        true => MatchKey::Any,
        false => MatchKey::Ternary {
            value: number.value(),
            mask,
        },
    }
}

fn lpm(number: &Number, prefix: Option<u32>, bits: u32) -> MatchKey {
    let prefix_len = prefix.or(number.prefix_bits()).unwrap_or(bits);
    match prefix_len {
        0 => MatchKey::Any,
        prefix_len => MatchKey::Lpm {
            value: number.value(),
            prefix_len,
        },
    }
}

fn ones(bits: u32) -> Vec<u8> {
    let mut ones = vec![0xff; bits.div_ceil(8) as usize];
    if let Some(first) = ones.first_mut()
        && !bits.is_multiple_of(8)
    {
        *first = (1 << (bits % 8)) - 1;
    }
    ones
}

/// Action of an entry of a table, or of its default entry.
pub fn table_action(
    pipeline: &Pipeline,
    table: TableId,
    action: &EntryAction,
) -> Result<TableAction, String> {
    let given = match action {
        EntryAction::Member(member) => return Ok(TableAction::Member(*member)),
        EntryAction::Group(group) => return Ok(TableAction::Group(*group)),
        EntryAction::Action(action) => action,
    };
    let info = pipeline.table_info(table);
    let names = info.actions.iter().map(|id| pipeline.action_info(*id).name);
    let name = names::resolve("action", &given.name, names)
        .map_err(|problem| format!("table {}: {problem}", info.name))?;
    let id = in_words(pipeline.table_action(table, name))?;
    Ok(TableAction::Direct(call(pipeline, id, given)?))
}

/// The action with its arguments in the order of the parameters.
pub fn call(pipeline: &Pipeline, id: ActionId, given: &Action) -> Result<ActionCall, String> {
    let info = pipeline.action_info(id);
    let (name, parameters) = (info.name, info.params);
    if let Some((unknown, _)) = given
        .arguments
        .iter()
        .find(|(name, _)| parameters.iter().all(|(parameter, _)| parameter != name))
    {
        let all: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "action {name} has no parameter `{unknown}`; it has {}",
            if all.is_empty() {
                "none".into()
            } else {
                all.join(", ")
            }
        ));
    }
    let values = parameters.iter().map(|(parameter, _)| {
        let argument = given.arguments.iter().find(|(name, _)| name == parameter);
        match argument {
            Some((_, value)) if value.has_wildcard() => Err(format!(
                "argument `{parameter}` of {name} has a `*`; only keys have it"
            )),
            Some((_, value)) => Ok(value.value()),
            None => Err(format!(
                "action {name}: parameter `{parameter}` has no value"
            )),
        }
    });
    Ok(ActionCall {
        action: id,
        params: values.collect::<Result<_, _>>()?,
    })
}
