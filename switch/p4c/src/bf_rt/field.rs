//! Fields of keys and data. Fixed ones begin with `$` and have numbers above those of the program's own.

use ebb_p4_proto::config::{
    P4DataTypeSpec, P4TypeInfo, p4_bitstring_like_type_spec, p4_data_type_spec,
};
use serde_json::{Value, json};

/// A fixed field: its number and its name.
#[derive(Clone, Copy)]
pub(super) struct Fixed(pub u32, pub &'static str);

pub(super) const MATCH_PRIORITY: Fixed = Fixed(65537, "$MATCH_PRIORITY");
pub(super) const ACTION_MEMBER_ID: Fixed = Fixed(65539, "$ACTION_MEMBER_ID");
pub(super) const SELECTOR_GROUP_ID: Fixed = Fixed(65540, "$SELECTOR_GROUP_ID");
pub(super) const ENTRY_TTL: Fixed = Fixed(65543, "$ENTRY_TTL");
pub(super) const ENTRY_HIT_STATE: Fixed = Fixed(65544, "$ENTRY_HIT_STATE");
pub(super) const METER_BYTES: [Fixed; 4] = [
    Fixed(65545, "$METER_SPEC_CIR_KBPS"),
    Fixed(65546, "$METER_SPEC_PIR_KBPS"),
    Fixed(65547, "$METER_SPEC_CBS_KBITS"),
    Fixed(65548, "$METER_SPEC_PBS_KBITS"),
];
pub(super) const METER_PACKETS: [Fixed; 4] = [
    Fixed(65549, "$METER_SPEC_CIR_PPS"),
    Fixed(65550, "$METER_SPEC_PIR_PPS"),
    Fixed(65551, "$METER_SPEC_CBS_PKTS"),
    Fixed(65552, "$METER_SPEC_PBS_PKTS"),
];
pub(super) const COUNTER_BYTES: Fixed = Fixed(65553, "$COUNTER_SPEC_BYTES");
pub(super) const COUNTER_PACKETS: Fixed = Fixed(65554, "$COUNTER_SPEC_PKTS");
pub(super) const METER_INDEX: Fixed = Fixed(65555, "$METER_INDEX");
pub(super) const COUNTER_INDEX: Fixed = Fixed(65556, "$COUNTER_INDEX");
pub(super) const REGISTER_INDEX: Fixed = Fixed(65557, "$REGISTER_INDEX");
pub(super) const LPF_INDEX: Fixed = Fixed(65560, "$LPF_INDEX");
pub(super) const WRED_INDEX: Fixed = Fixed(65561, "$WRED_INDEX");
/// As in the table that tells the member of a hash.
pub(super) const GET_MEMBER_ID: Fixed = Fixed(65562, "$ACTION_MEMBER_ID");
pub(super) const GET_MEMBER_GROUP: Fixed = Fixed(65563, "$SELECTOR_GROUP_ID");
pub(super) const ACTION_MEMBER_STATUS: Fixed = Fixed(65564, "$ACTION_MEMBER_STATUS");
pub(super) const MAX_GROUP_SIZE: Fixed = Fixed(65565, "$MAX_GROUP_SIZE");
pub(super) const ADT_OFFSET: Fixed = Fixed(65566, "$ADT_OFFSET");
pub(super) const LPF_TYPE: Fixed = Fixed(65567, "$LPF_SPEC_TYPE");
pub(super) const LPF_TIMES: [Fixed; 2] = [
    Fixed(65568, "$LPF_SPEC_GAIN_TIME_CONSTANT_NS"),
    Fixed(65569, "$LPF_SPEC_DECAY_TIME_CONSTANT_NS"),
];
pub(super) const LPF_SCALE: Fixed = Fixed(65570, "$LPF_SPEC_OUT_SCALE_DOWN_FACTOR");
pub(super) const WRED_TIME: Fixed = Fixed(65571, "$WRED_SPEC_TIME_CONSTANT_NS");
pub(super) const WRED_THRESHOLDS: [Fixed; 2] = [
    Fixed(65572, "$WRED_SPEC_MIN_THRESH_CELLS"),
    Fixed(65573, "$WRED_SPEC_MAX_THRESH_CELLS"),
];
pub(super) const WRED_PROBABILITY: Fixed = Fixed(65574, "$WRED_SPEC_MAX_PROBABILITY");
pub(super) const PORT_METADATA_PORT: Fixed = Fixed(65575, "ig_intr_md.ingress_port");
pub(super) const PORT_METADATA_DEFAULT: Fixed = Fixed(65576, "$DEFAULT_FIELD");
pub(super) const HASH_ROTATE: Fixed = Fixed(65577, "rotate");
pub(super) const HASH_SEED: Fixed = Fixed(65578, "seed");
pub(super) const HASH_MSB: Fixed = Fixed(65579, "msb");
pub(super) const HASH_EXTEND: Fixed = Fixed(65580, "extend");
/// Numbers of the two actions that give a hash its algorithm.
pub(super) const HASH_PRE_DEFINED: u32 = 65581;
pub(super) const HASH_USER_DEFINED: u32 = 65582;
pub(super) const HASH_VALUE: Fixed = Fixed(65583, "hash_value");
pub(super) const HASH_START_BIT: Fixed = Fixed(65584, "start_bit");
pub(super) const HASH_LENGTH: Fixed = Fixed(65585, "length");
pub(super) const HASH_ORDER: Fixed = Fixed(65586, "order");

/// A field of a key.
pub(super) fn key(Fixed(id, name): Fixed, mandatory: bool, kind: &str, ty: Value) -> Value {
    named_key(id, name, Vec::new(), mandatory, kind, ty)
}

/// A field of a key that the program names.
pub(super) fn named_key(
    id: u32,
    name: &str,
    annotations: Vec<Value>,
    mandatory: bool,
    kind: &str,
    ty: Value,
) -> Value {
    json!({
        "id": id,
        "name": name,
        "repeated": false,
        "annotations": annotations,
        "mandatory": mandatory,
        "match_type": kind,
        "type": ty,
    })
}

/// A data field that may be written and left out.
pub(super) fn data(field: Fixed, ty: Value) -> Value {
    singleton(false, plain(field, false, ty))
}

/// A data field that an entry must have.
pub(super) fn mandatory(field: Fixed, ty: Value) -> Value {
    singleton(true, plain(field, false, ty))
}

/// A data field with a value for each member.
pub(super) fn repeated(field: Fixed, ty: Value) -> Value {
    singleton(false, plain(field, true, ty))
}

/// One of these data fields, which an entry must have.
pub(super) fn one_of(fields: [Fixed; 2], ty: &Value) -> Value {
    let choices = fields.map(|field| plain(field, false, ty.clone()));
    json!({ "mandatory": true, "read_only": false, "oneof": choices })
}

/// A data field that the program names.
pub(super) fn named(
    id: u32,
    name: &str,
    annotations: Vec<Value>,
    mandatory: bool,
    ty: Value,
) -> Value {
    singleton(
        mandatory,
        json!({
            "id": id, "name": name, "repeated": false, "annotations": annotations, "type": ty,
        }),
    )
}

/// A data field that is only read.
pub(super) fn read_only(field: Fixed, ty: Value) -> Value {
    json!({ "mandatory": false, "read_only": true, "singleton": plain(field, false, ty) })
}

/// A data field that the program names, of values that are groups of fields.
pub(super) fn containers(
    id: u32,
    name: &str,
    annotations: Vec<Value>,
    fields: Vec<Value>,
) -> Value {
    let container = json!({
        "id": id, "name": name, "repeated": true, "annotations": annotations, "container": fields,
    });
    singleton(false, container)
}

fn singleton(mandatory: bool, field: Value) -> Value {
    json!({ "mandatory": mandatory, "read_only": false, "singleton": field })
}

fn plain(Fixed(id, name): Fixed, repeated: bool, ty: Value) -> Value {
    json!({ "id": id, "name": name, "repeated": repeated, "annotations": [], "type": ty })
}

/// `uint32`, `uint64`, `bool`, `float`
pub(super) fn ty(name: &str) -> Value {
    json!({ "type": name })
}

/// Likewise, with the value that an entry has which leaves the field out.
pub(super) fn defaulted(name: &str, default: impl Into<Value>) -> Value {
    json!({ "type": name, "default_value": default.into() })
}

/// A number of this many bits.
pub(super) fn bytes(width: i32) -> Value {
    json!({ "type": "bytes", "width": width })
}

/// A word out of some.
pub(super) fn choice(choices: &[&str]) -> Value {
    json!({ "type": "string", "choices": choices })
}

/// A member of a type of P4: its name, and its type in BF Runtime.
pub(super) type Member = (String, Value);

/// Members of a struct or tuple, or the type itself as `f1`; none where BF Runtime has no form for a member.
pub(super) fn members(spec: &P4DataTypeSpec, types: Option<&P4TypeInfo>) -> Option<Vec<Member>> {
    use p4_data_type_spec::TypeSpec;
    match spec.type_spec.as_ref()? {
        TypeSpec::Struct(of) => {
            let found = types?.structs.get(&of.name)?;
            let member = |m: &ebb_p4_proto::config::p4_struct_type_spec::Member| {
                Some((m.name.clone(), scalar(m.type_spec.as_ref()?, types)?))
            };
            found.members.iter().map(member).collect()
        }
        TypeSpec::Header(of) => {
            let found = types?.headers.get(&of.name)?;
            let member = |m: &ebb_p4_proto::config::p4_header_type_spec::Member| {
                Some((m.name.clone(), bitstring(m.type_spec.as_ref()?)?))
            };
            found.members.iter().map(member).collect()
        }
        TypeSpec::Tuple(of) => (1..)
            .zip(&of.members)
            .map(|(number, m)| Some((format!("f{number}"), scalar(m, types)?)))
            .collect(),
        _ => Some(vec![("f1".to_owned(), scalar(spec, types)?)]),
    }
}

fn scalar(spec: &P4DataTypeSpec, types: Option<&P4TypeInfo>) -> Option<Value> {
    use p4_data_type_spec::TypeSpec;
    match spec.type_spec.as_ref()? {
        TypeSpec::Bitstring(of) => bitstring(of),
        TypeSpec::Bool(_) => Some(defaulted("bool", true)),
        TypeSpec::SerializableEnum(of) => {
            let found = types?.serializable_enums.get(&of.name)?;
            Some(bytes(found.underlying_type.as_ref()?.bitwidth))
        }
        TypeSpec::NewType(of) => {
            use ebb_p4_proto::config::p4_new_type_spec::Representation;
            match types?.new_types.get(&of.name)?.representation.as_ref()? {
                Representation::OriginalType(original) => scalar(original, types),
                Representation::TranslatedType(_) => None,
            }
        }
        _ => None,
    }
}

fn bitstring(of: &ebb_p4_proto::config::P4BitstringLikeTypeSpec) -> Option<Value> {
    use p4_bitstring_like_type_spec::TypeSpec;
    Some(bytes(match of.type_spec.as_ref()? {
        TypeSpec::Bit(bit) => bit.bitwidth,
        TypeSpec::Int(int) => int.bitwidth,
        TypeSpec::Varbit(varbit) => varbit.max_bitwidth,
    }))
}
