//! Match keys: P4Runtime lists fields and leaves "don't care" out, the pipeline has one key for each field of
//! the table (spec, "Match Format").

use ebb_pipeline::control::{MatchKey, MatchKind};

use crate::bytes::{self, canonical, hex};
use crate::error::{EntityError, Result};
use crate::p4info::choices;
use crate::proto::config::MatchField;
use crate::proto::config::match_field::{Match, MatchType};
use crate::proto::p4::FieldMatch;
use crate::proto::p4::field_match::{self, FieldMatchType};
use crate::translation::Names;

/// One field of a match key, canonical and ordered, so that reads have a stable order. "Don't care"
/// is a zero mask, a zero prefix, the full range or `None`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldKey {
    Exact(Vec<u8>),
    Lpm { value: Vec<u8>, prefix_len: usize },
    Ternary { value: Vec<u8>, mask: Vec<u8> },
    Range { low: Vec<u8>, high: Vec<u8> },
    Optional(Option<Vec<u8>>),
}

impl FieldKey {
    pub fn into_pipeline(self) -> MatchKey {
        match self {
            FieldKey::Exact(value) => MatchKey::Exact(value),
            FieldKey::Lpm { value, prefix_len } => MatchKey::Lpm {
                value,
                prefix_len: prefix_len as u32,
            },
            FieldKey::Ternary { value, mask } => MatchKey::Ternary { value, mask },
            FieldKey::Range { low, high } => MatchKey::Range { low, high },
            FieldKey::Optional(value) => MatchKey::Optional(value),
        }
    }

    /// Keys of the program's own entries. BMv2 JSON has ternary fields where P4 has optional ones.
    pub fn from_pipeline(fields: &[MatchField], key: &[MatchKey]) -> Result<Vec<FieldKey>> {
        let own = |bytes: &Vec<u8>| bytes::strip(bytes).to_vec();
        let convert = |(field, key): (&MatchField, &MatchKey)| {
            let kind = match_type(field)?;
            Ok(match key {
                MatchKey::Any => dont_care(kind, field.bitwidth.max(0) as usize)?,
                MatchKey::Exact(value) => FieldKey::Exact(own(value)),
                MatchKey::Valid(valid) => FieldKey::Exact(vec![u8::from(*valid)]),
                MatchKey::Lpm { value, prefix_len } => FieldKey::Lpm {
                    value: own(value),
                    prefix_len: *prefix_len as usize,
                },
                MatchKey::Ternary { value, mask } if kind == MatchType::Optional => {
                    FieldKey::Optional((!bytes::is_zero(mask)).then(|| own(value)))
                }
                MatchKey::Ternary { value, mask } => FieldKey::Ternary {
                    value: own(value),
                    mask: own(mask),
                },
                MatchKey::Range { low, high } => FieldKey::Range {
                    low: own(low),
                    high: own(high),
                },
                MatchKey::Optional(value) => FieldKey::Optional(value.as_ref().map(own)),
            })
        };
        fields.iter().zip(key).map(convert).collect()
    }
}

/// Match kinds of Tofino that choose where entries are stored.
const STORED_BY: [&str; 2] = ["atcam_partition_index", "dleft_hash"];

pub fn match_type(field: &MatchField) -> Result<MatchType> {
    match &field.r#match {
        Some(Match::MatchType(kind)) => match MatchType::try_from(*kind) {
            Ok(MatchType::Unspecified) | Err(_) => Err(EntityError::invalid(format!(
                "P4Info: field '{}' has unknown match type {kind}",
                field.name
            ))),
            Ok(kind) => Ok(kind),
        },
        // All bits of such a field select the part of the table that is looked up, so it matches exactly.
        Some(Match::OtherMatchType(kind)) if STORED_BY.contains(&kind.as_str()) => {
            Ok(MatchType::Exact)
        }
        Some(Match::OtherMatchType(kind)) => Err(EntityError::unimplemented(format!(
            "field '{}' has match type '{kind}'; there are exact, lpm, ternary, range, optional",
            field.name
        ))),
        None => Err(EntityError::invalid(format!(
            "P4Info: field '{}' has no match type",
            field.name
        ))),
    }
}

/// How the pipeline matches the field.
pub fn match_kind(field: &MatchField) -> Result<MatchKind> {
    Ok(match match_type(field)? {
        MatchType::Exact | MatchType::Unspecified => MatchKind::Exact,
        MatchType::Lpm => MatchKind::Lpm,
        MatchType::Ternary | MatchType::Optional => MatchKind::Ternary,
        MatchType::Range => MatchKind::Range,
    })
}

/// Whether entries of a table with these fields have a priority.
pub fn needs_priority(fields: &[MatchField]) -> bool {
    fields.iter().filter_map(|f| match_type(f).ok()).any(|t| {
        matches!(
            t,
            MatchType::Ternary | MatchType::Range | MatchType::Optional
        )
    })
}

/// One key per field of the table, in the order of the P4Info.
pub fn decode_key(
    fields: &[MatchField],
    given: &[FieldMatch],
    names: &mut Names,
) -> Result<Vec<FieldKey>> {
    for (i, m) in given.iter().enumerate() {
        if !fields.iter().any(|f| f.id == m.field_id) {
            let known = choices(fields.iter().map(|f| (f.name.as_str(), f.id)));
            return Err(EntityError::invalid(format!(
                "no match field has id {}; fields: {known}",
                m.field_id
            )));
        }
        if given[..i].iter().any(|other| other.field_id == m.field_id) {
            return Err(EntityError::invalid(format!(
                "match field {} is given twice",
                m.field_id
            )));
        }
    }
    fields
        .iter()
        .map(|field| {
            let kind = match_type(field)?;
            let width = field.bitwidth.max(0) as usize;
            let key = match given.iter().find(|m| m.field_id == field.id) {
                None => dont_care(kind, width),
                Some(m) => {
                    let value = |bytes: &[u8]| names.decode(field.type_name.as_ref(), width, bytes);
                    decode_field(kind, width, m.field_match_type.as_ref(), value)
                }
            };
            key.map_err(|e| {
                e.at(format!(
                    "field '{}' ({}, {width} bits)",
                    field.name,
                    type_name(kind)
                ))
            })
        })
        .collect()
}

pub fn encode_key(fields: &[MatchField], key: &[FieldKey], names: &Names) -> Vec<FieldMatch> {
    let encode = |(field, key): (&MatchField, &FieldKey)| {
        let value = |bytes: &[u8]| names.encode(field.type_name.as_ref(), bytes);
        let width = field.bitwidth.max(0) as usize;
        Some(FieldMatch {
            field_id: field.id,
            field_match_type: Some(encode_field(width, key, value)?),
        })
    };
    fields.iter().zip(key).filter_map(encode).collect()
}

fn type_name(kind: MatchType) -> &'static str {
    match kind {
        MatchType::Exact => "exact",
        MatchType::Lpm => "lpm",
        MatchType::Ternary => "ternary",
        MatchType::Range => "range",
        MatchType::Optional => "optional",
        MatchType::Unspecified => "unspecified",
    }
}

fn dont_care(kind: MatchType, width: usize) -> Result<FieldKey> {
    let zero = || vec![0];
    Ok(match kind {
        MatchType::Lpm => FieldKey::Lpm {
            value: zero(),
            prefix_len: 0,
        },
        MatchType::Ternary => FieldKey::Ternary {
            value: zero(),
            mask: zero(),
        },
        MatchType::Range => FieldKey::Range {
            low: zero(),
            high: bytes::ones(width),
        },
        MatchType::Optional => FieldKey::Optional(None),
        MatchType::Exact | MatchType::Unspecified => {
            return Err(EntityError::invalid(
                "missing; an exact field must be given in every entry",
            ));
        }
    })
}

fn decode_field(
    kind: MatchType,
    width: usize,
    given: Option<&FieldMatchType>,
    mut decode: impl FnMut(&[u8]) -> Result<Vec<u8>>,
) -> Result<FieldKey> {
    let Some(given) = given else {
        return Err(EntityError::invalid(
            "has no value; leave a \"don't care\" field out of the match",
        ));
    };
    match (kind, given) {
        (MatchType::Exact, FieldMatchType::Exact(m)) => Ok(FieldKey::Exact(decode(&m.value)?)),
        (MatchType::Optional, FieldMatchType::Optional(m)) => {
            Ok(FieldKey::Optional(Some(decode(&m.value)?)))
        }
        (MatchType::Lpm, FieldMatchType::Lpm(m)) => decode_lpm(width, m),
        (MatchType::Ternary, FieldMatchType::Ternary(m)) => decode_ternary(width, m),
        (MatchType::Range, FieldMatchType::Range(m)) => decode_range(width, m),
        (_, given) => Err(EntityError::invalid(format!(
            "the entry gives a value of type {}",
            given_name(given)
        ))),
    }
}

fn decode_lpm(width: usize, m: &field_match::Lpm) -> Result<FieldKey> {
    let value = canonical(&m.value, width)?;
    let prefix_len = usize::try_from(m.prefix_len)
        .ok()
        .filter(|len| (1..=width).contains(len));
    let Some(prefix_len) = prefix_len else {
        let hint = match m.prefix_len {
            0 => "; leave a \"don't care\" field out of the match",
            _ => "",
        };
        return Err(EntityError::invalid(format!(
            "prefix length {}; allowed: 1 to {width}{hint}",
            m.prefix_len
        )));
    };
    let mask = bytes::prefix_mask(prefix_len, width);
    check_masked(&value, &mask, &format!("the /{prefix_len} prefix"))?;
    Ok(FieldKey::Lpm { value, prefix_len })
}

fn decode_ternary(width: usize, m: &field_match::Ternary) -> Result<FieldKey> {
    let value = canonical(&m.value, width)?;
    let mask = canonical(&m.mask, width).map_err(|e| e.at("mask"))?;
    if bytes::is_zero(&mask) {
        return Err(EntityError::invalid(
            "mask 0; leave a \"don't care\" field out of the match",
        ));
    }
    check_masked(&value, &mask, &format!("the mask {}", hex(&mask)))?;
    Ok(FieldKey::Ternary { value, mask })
}

fn decode_range(width: usize, m: &field_match::Range) -> Result<FieldKey> {
    let low = canonical(&m.low, width).map_err(|e| e.at("low"))?;
    let high = canonical(&m.high, width).map_err(|e| e.at("high"))?;
    if bytes::compare(&low, &high).is_gt() {
        return Err(EntityError::invalid(format!(
            "low {} is above high {}",
            hex(&low),
            hex(&high)
        )));
    }
    if bytes::is_zero(&low) && high == bytes::ones(width) {
        return Err(EntityError::invalid(
            "the range is everything; leave a \"don't care\" field out of the match",
        ));
    }
    Ok(FieldKey::Range { low, high })
}

fn check_masked(value: &[u8], mask: &[u8], what: &str) -> Result<()> {
    let stray = bytes::outside(value, mask);
    if bytes::is_zero(&stray) {
        return Ok(());
    }
    Err(EntityError::invalid(format!(
        "value {} has bits {} outside of {what}; set them to 0",
        hex(value),
        hex(&stray)
    )))
}

fn given_name(given: &FieldMatchType) -> &'static str {
    match given {
        FieldMatchType::Exact(_) => "exact",
        FieldMatchType::Ternary(_) => "ternary",
        FieldMatchType::Lpm(_) => "lpm",
        FieldMatchType::Range(_) => "range",
        FieldMatchType::Optional(_) => "optional",
        FieldMatchType::Other(_) => "other",
    }
}

/// `None` for "don't care", which is left out.
fn encode_field(
    width: usize,
    key: &FieldKey,
    encode: impl Fn(&[u8]) -> Vec<u8>,
) -> Option<FieldMatchType> {
    Some(match key {
        FieldKey::Exact(value) => FieldMatchType::Exact(field_match::Exact {
            value: encode(value),
        }),
        FieldKey::Lpm { prefix_len: 0, .. } => return None,
        FieldKey::Lpm { value, prefix_len } => FieldMatchType::Lpm(field_match::Lpm {
            value: value.clone(),
            prefix_len: *prefix_len as i32,
        }),
        FieldKey::Ternary { mask, .. } if bytes::is_zero(mask) => return None,
        FieldKey::Ternary { value, mask } => FieldMatchType::Ternary(field_match::Ternary {
            value: value.clone(),
            mask: mask.clone(),
        }),
        FieldKey::Range { low, high } if bytes::is_zero(low) && *high == bytes::ones(width) => {
            return None;
        }
        FieldKey::Range { low, high } => FieldMatchType::Range(field_match::Range {
            low: low.clone(),
            high: high.clone(),
        }),
        FieldKey::Optional(value) => FieldMatchType::Optional(field_match::Optional {
            value: encode(value.as_ref()?),
        }),
    })
}
