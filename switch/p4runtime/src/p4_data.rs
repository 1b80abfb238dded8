//! Values of a digest in the shape of their P4 type (spec, "P4Data").

use crate::bytes::{is_zero, strip};
use crate::error::{EntityError, Result};
use crate::proto::config::p4_data_type_spec::TypeSpec;
use crate::proto::config::{P4DataTypeSpec, P4TypeInfo};
use crate::proto::p4::p4_data::Data;
use crate::proto::p4::{P4Data, P4Header, P4StructLike};

/// How deep the type of a digest may nest and how many parts it may have; no P4 program comes near.
const MAX_DEPTH: usize = 64;
const MAX_PARTS: usize = 1 << 16;

/// Checks that [`encode_data`] terminates: in a P4Info, a struct may contain itself.
pub fn check_type(spec: Option<&P4DataTypeSpec>, types: &P4TypeInfo) -> Result<()> {
    let mut parts = 0;
    match count(spec, types, 0, &mut parts) {
        true => Ok(()),
        false => Err(EntityError::invalid(format!(
            "its type has more than {MAX_PARTS} parts, or they nest more than {MAX_DEPTH} deep"
        ))),
    }
}

fn count(
    spec: Option<&P4DataTypeSpec>,
    types: &P4TypeInfo,
    depth: usize,
    parts: &mut usize,
) -> bool {
    *parts += 1;
    if depth > MAX_DEPTH || *parts > MAX_PARTS {
        return false;
    }
    let mut inner = |spec| count(spec, types, depth + 1, parts);
    match spec.and_then(|s| s.type_spec.as_ref()) {
        Some(TypeSpec::Struct(name)) => {
            let members = types.structs.get(&name.name).map(|s| &s.members);
            let mut members = members.into_iter().flatten();
            members.all(|m| inner(m.type_spec.as_ref()))
        }
        Some(TypeSpec::Tuple(tuple)) => tuple.members.iter().all(|m| inner(Some(m))),
        _ => true,
    }
}

/// The values of a digest, in the shape of its P4 type, which [`check_type`] has seen.
pub fn encode_data(
    spec: Option<&P4DataTypeSpec>,
    types: &P4TypeInfo,
    values: Vec<Vec<u8>>,
) -> P4Data {
    let mut values = values.into_iter();
    encode(spec, types, &mut values)
}

fn encode(
    spec: Option<&P4DataTypeSpec>,
    types: &P4TypeInfo,
    values: &mut impl Iterator<Item = Vec<u8>>,
) -> P4Data {
    let data = match spec.and_then(|s| s.type_spec.as_ref()) {
        Some(TypeSpec::Struct(name)) => {
            let members = types.structs.get(&name.name).map(|s| &s.members);
            let members = members.into_iter().flatten();
            Data::Struct(P4StructLike {
                members: members
                    .map(|m| encode(m.type_spec.as_ref(), types, values))
                    .collect(),
            })
        }
        Some(TypeSpec::Tuple(tuple)) => Data::Tuple(P4StructLike {
            members: tuple
                .members
                .iter()
                .map(|m| encode(Some(m), types, values))
                .collect(),
        }),
        Some(TypeSpec::Header(name)) => {
            let fields = types.headers.get(&name.name).map_or(0, |h| h.members.len());
            let bitstrings = values.by_ref().take(fields);
            Data::Header(P4Header {
                is_valid: true,
                bitstrings: bitstrings.map(|v| strip(&v).to_vec()).collect(),
            })
        }
        Some(TypeSpec::Bool(_)) => Data::Bool(values.next().is_some_and(|v| !is_zero(&v))),
        _ => Data::Bitstring(strip(&values.next().unwrap_or_default()).to_vec()),
    };
    P4Data { data: Some(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_a_part_of_itself_is_refused() {
        use crate::proto::config::p4_struct_type_spec::Member;
        use crate::proto::config::{P4NamedType, P4StructTypeSpec};
        let named = |name: &str| P4DataTypeSpec {
            type_spec: Some(TypeSpec::Struct(P4NamedType { name: name.into() })),
        };
        let of = |parts: &[&str]| P4StructTypeSpec {
            members: parts
                .iter()
                .map(|part| Member {
                    name: "m".into(),
                    type_spec: Some(named(part)),
                })
                .collect(),
            ..Default::default()
        };
        let mut types = P4TypeInfo::default();
        types.structs.insert("leaf".into(), of(&[]));
        types.structs.insert("pair".into(), of(&["leaf", "leaf"]));
        assert!(check_type(Some(&named("pair")), &types).is_ok());
        types.structs.insert("itself".into(), of(&["itself"]));
        assert!(check_type(Some(&named("itself")), &types).is_err());
        // 2^40 parts.
        for n in 0..40 {
            let (name, part) = (format!("s{n}"), format!("s{}", n + 1));
            types.structs.insert(name, of(&[&part, &part]));
        }
        assert!(check_type(Some(&named("s0")), &types).is_err());
    }
}
