//! Protobuf's binary form of the messages that the compiler writes.
//!
//! [`super::message::Message`] knows fields by name; their numbers and types stand in a table here, as p4info.proto,
//! p4types.proto and p4runtime.proto of P4Runtime 1.5 define them.

use super::message::{Message, Node};

/// Fields of one message: name, number, and for messages the type.
type Fields = &'static [(&'static str, u32, &'static str)];

/// A scalar field: strings, bytes, numbers, booleans and enums tell by their node what they are.
const S: &str = "";

/// Types are called as in the .proto files where these have a name of their own.
#[rustfmt::skip]
const MESSAGES: &[(&str, Fields)] = &[
    ("P4Info", &[
        ("pkg_info", 1, "PkgInfo"), ("tables", 2, "Table"), ("actions", 3, "Action"), ("action_profiles", 4, "ActionProfile"),
        ("counters", 5, "Object"), ("direct_counters", 6, "DirectObject"), ("meters", 7, "Object"), ("direct_meters", 8, "DirectObject"),
        ("controller_packet_metadata", 9, "ControllerPacketMetadata"), ("value_sets", 10, "ValueSet"), ("registers", 11, "Register"),
        ("digests", 12, "Digest"), ("type_info", 200, "TypeInfo"),
    ]),
    ("PkgInfo", &[
        ("name", 1, S), ("version", 2, S), ("doc", 3, "Documentation"), ("annotations", 4, S), ("arch", 5, S), ("organization", 6, S),
        ("contact", 7, S), ("url", 8, S), ("structured_annotations", 9, "StructuredAnnotation"), ("platform_properties", 11, "PlatformProperties"),
    ]),
    ("PlatformProperties", &[
        ("multicast_group_table_size", 1, S), ("multicast_group_table_total_replicas", 2, S), ("multicast_group_table_max_replicas_per_entry", 3, S),
    ]),
    ("Documentation", &[("brief", 1, S), ("description", 2, S)]),
    ("Preamble", &[
        ("id", 1, S), ("name", 2, S), ("alias", 3, S), ("annotations", 4, S), ("doc", 5, "Documentation"),
        ("structured_annotations", 6, "StructuredAnnotation"),
    ]),
    ("StructuredAnnotation", &[("name", 1, S), ("expression_list", 2, "ExpressionList"), ("kv_pair_list", 3, "KeyValuePairList")]),
    ("ExpressionList", &[("expressions", 1, "Expression")]),
    ("KeyValuePairList", &[("kv_pairs", 1, "KeyValuePair")]),
    ("KeyValuePair", &[("key", 1, S), ("value", 2, "Expression")]),
    ("Expression", &[("string_value", 1, S), ("int64_value", 2, S), ("bool_value", 3, S)]),
    ("Table", &[
        ("preamble", 1, "Preamble"), ("match_fields", 2, "MatchField"), ("action_refs", 3, "ActionRef"), ("const_default_action_id", 4, S),
        ("initial_default_action", 5, "TableActionCall"), ("implementation_id", 6, S), ("direct_resource_ids", 7, S), ("size", 8, S),
        ("idle_timeout_behavior", 9, S), ("is_const_table", 10, S), ("has_initial_entries", 11, S),
    ]),
    ("MatchField", &[
        ("id", 1, S), ("name", 2, S), ("annotations", 3, S), ("bitwidth", 4, S), ("match_type", 5, S), ("doc", 6, "Documentation"),
        ("other_match_type", 7, S), ("type_name", 8, "NamedType"), ("structured_annotations", 9, "StructuredAnnotation"),
    ]),
    ("ActionRef", &[("id", 1, S), ("annotations", 2, S), ("scope", 3, S), ("structured_annotations", 4, "StructuredAnnotation")]),
    ("TableActionCall", &[("action_id", 1, S), ("arguments", 4, "Argument")]),
    ("Argument", &[("param_id", 2, S), ("value", 3, S)]),
    ("Action", &[("preamble", 1, "Preamble"), ("params", 2, "Param")]),
    ("Param", &[
        ("id", 1, S), ("name", 2, S), ("annotations", 3, S), ("bitwidth", 4, S), ("doc", 5, "Documentation"), ("type_name", 6, "NamedType"),
        ("structured_annotations", 7, "StructuredAnnotation"),
    ]),
    ("ActionProfile", &[
        ("preamble", 1, "Preamble"), ("table_ids", 2, S), ("with_selector", 3, S), ("size", 4, S), ("max_group_size", 5, S),
        ("sum_of_weights", 6, "SumOfWeights"), ("sum_of_members", 7, "SumOfMembers"), ("weights_disallowed", 8, S),
    ]),
    ("SumOfWeights", &[]),
    ("SumOfMembers", &[("max_member_weight", 1, S)]),
    ("Object", &[("preamble", 1, "Preamble"), ("spec", 2, "Spec"), ("size", 3, S), ("index_type_name", 4, "NamedType")]),
    ("DirectObject", &[("preamble", 1, "Preamble"), ("spec", 2, "Spec"), ("direct_table_id", 3, S)]),
    ("Spec", &[("unit", 1, S), ("type", 2, S)]),
    ("ControllerPacketMetadata", &[("preamble", 1, "Preamble"), ("metadata", 2, "PacketMetadata")]),
    ("PacketMetadata", &[
        ("id", 1, S), ("name", 2, S), ("annotations", 3, S), ("bitwidth", 4, S), ("type_name", 5, "NamedType"),
        ("structured_annotations", 6, "StructuredAnnotation"),
    ]),
    ("ValueSet", &[("preamble", 1, "Preamble"), ("match", 2, "MatchField"), ("size", 3, S)]),
    ("Register", &[("preamble", 1, "Preamble"), ("type_spec", 2, "DataType"), ("size", 3, S), ("index_type_name", 4, "NamedType")]),
    ("Digest", &[("preamble", 1, "Preamble"), ("type_spec", 2, "DataType")]),
    ("TypeInfo", &[
        ("structs", 1, "StructType"), ("headers", 2, "HeaderType"), ("header_unions", 3, "HeaderUnionType"), ("enums", 4, "EnumType"),
        ("error", 5, "ErrorType"), ("serializable_enums", 6, "SerializableEnumType"), ("new_types", 7, "NewType"),
    ]),
    ("DataType", &[
        ("bitstring", 1, "Bitstring"), ("bool", 2, "Empty"), ("tuple", 3, "TupleType"), ("struct", 4, "NamedType"), ("header", 5, "NamedType"),
        ("header_union", 6, "NamedType"), ("header_stack", 7, "HeaderStack"), ("header_union_stack", 8, "HeaderUnionStack"),
        ("enum", 9, "NamedType"), ("error", 10, "Empty"), ("serializable_enum", 11, "NamedType"), ("new_type", 12, "NamedType"),
    ]),
    ("Empty", &[]),
    ("NamedType", &[("name", 1, S)]),
    ("Bitstring", &[("bit", 1, "Bits"), ("int", 2, "Bits"), ("varbit", 3, "Varbit")]),
    ("Bits", &[("bitwidth", 1, S)]),
    ("Varbit", &[("max_bitwidth", 1, S)]),
    ("TupleType", &[("members", 1, "DataType")]),
    ("StructType", &[
        ("members", 1, "StructMember"), ("annotations", 2, S), ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("StructMember", &[("name", 1, S), ("type_spec", 2, "DataType")]),
    ("HeaderType", &[
        ("members", 1, "HeaderMember"), ("annotations", 2, S), ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("HeaderMember", &[("name", 1, S), ("type_spec", 2, "Bitstring")]),
    ("HeaderUnionType", &[
        ("members", 1, "HeaderUnionMember"), ("annotations", 2, S), ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("HeaderUnionMember", &[("name", 1, S), ("header", 2, "NamedType")]),
    ("HeaderStack", &[("header", 1, "NamedType"), ("size", 2, S)]),
    ("HeaderUnionStack", &[("header_union", 1, "NamedType"), ("size", 2, S)]),
    ("EnumType", &[
        ("members", 1, "EnumMember"), ("annotations", 2, S), ("structured_annotations", 3, "StructuredAnnotation"),
    ]),
    ("EnumMember", &[("name", 1, S), ("annotations", 2, S), ("structured_annotations", 3, "StructuredAnnotation")]),
    ("SerializableEnumType", &[
        ("underlying_type", 1, "Bits"), ("members", 2, "SerializableEnumMember"), ("annotations", 3, S),
        ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("SerializableEnumMember", &[
        ("name", 1, S), ("value", 2, S), ("annotations", 3, S), ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("ErrorType", &[("members", 1, S)]),
    ("NewType", &[
        ("original_type", 1, "DataType"), ("translated_type", 2, "Translation"), ("annotations", 3, S),
        ("structured_annotations", 4, "StructuredAnnotation"),
    ]),
    ("Translation", &[("uri", 1, S), ("sdn_bitwidth", 2, S), ("sdn_string", 3, "Empty")]),
    // p4runtime.proto
    ("WriteRequest", &[("updates", 4, "Update")]),
    ("Update", &[("type", 1, S), ("entity", 2, "Entity")]),
    ("Entity", &[("table_entry", 2, "TableEntry")]),
    ("TableEntry", &[("table_id", 1, S), ("match", 2, "FieldMatch"), ("action", 3, "TableAction"), ("priority", 4, S), ("is_const", 13, S)]),
    ("FieldMatch", &[
        ("field_id", 1, S), ("exact", 2, "OneValue"), ("ternary", 3, "TwoValues"), ("lpm", 4, "Prefix"), ("range", 6, "Range"),
        ("optional", 7, "OneValue"),
    ]),
    ("OneValue", &[("value", 1, S)]),
    ("TwoValues", &[("value", 1, S), ("mask", 2, S)]),
    ("Prefix", &[("value", 1, S), ("prefix_len", 2, S)]),
    ("Range", &[("low", 1, S), ("high", 2, S)]),
    ("TableAction", &[("action", 1, "ActionCall")]),
    ("ActionCall", &[("action_id", 1, S), ("params", 4, "Argument")]),
];

/// The numbers of enum values, by the field that has them.
#[rustfmt::skip]
const SYMBOLS: &[(&str, &str, u64)] = &[
    ("match_type", "EXACT", 2), ("match_type", "LPM", 3), ("match_type", "TERNARY", 4), ("match_type", "RANGE", 5), ("match_type", "OPTIONAL", 6),
    ("idle_timeout_behavior", "NOTIFY_CONTROL", 1),
    ("scope", "TABLE_ONLY", 1), ("scope", "DEFAULT_ONLY", 2),
    ("unit", "BYTES", 1), ("unit", "PACKETS", 2), ("unit", "BOTH", 3),
    ("type", "TWO_RATE_THREE_COLOR", 0), ("type", "SINGLE_RATE_THREE_COLOR", 1), ("type", "SINGLE_RATE_TWO_COLOR", 2),
    ("type", "INSERT", 1),
];

const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// The message as bytes. A panic means that the compiler writes a field that the tables above do not have.
pub fn encode(message: &Message, type_name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = MESSAGES.iter().find(|(name, _)| *name == type_name);
    let (_, fields) = fields.unwrap_or_else(|| panic!("no message {type_name}"));
    for (name, node) in &message.0 {
        let field = fields.iter().find(|(known, ..)| known == name);
        let (_, number, type_name) = field.unwrap_or_else(|| panic!("no {name} in {type_name}"));
        encode_field(&mut out, *number, name, node, type_name);
    }
    out
}

fn encode_field(out: &mut Vec<u8>, number: u32, name: &str, node: &Node, type_name: &str) {
    let scalar = |node: &Node| match node {
        Node::Number(value) => Some(*value),
        // Negative numbers of 64 bits have ten bytes, as two's complement.
        Node::Signed(value) => Some(value.cast_unsigned()),
        Node::Bool(value) => Some(u64::from(*value)),
        Node::Symbol(symbol) => {
            let known = SYMBOLS.iter().find(|(f, s, _)| *f == name && s == symbol);
            Some(known.unwrap_or_else(|| panic!("no {symbol} in {name}")).2)
        }
        _ => None,
    };
    match node {
        Node::Message(inner) => delimited(out, number, &encode(inner, type_name)),
        Node::Text(text) => delimited(out, number, text.as_bytes()),
        Node::Bytes(bytes) => delimited(out, number, bytes),
        Node::Map(entries) => {
            for (key, value) in entries {
                let mut entry = Vec::new();
                delimited(&mut entry, 1, key.as_bytes());
                delimited(&mut entry, 2, &encode(value, type_name));
                delimited(out, number, &entry);
            }
        }
        Node::Repeated(nodes) => match nodes.iter().map(scalar).collect::<Option<Vec<u64>>>() {
            // Repeated numbers are packed in proto3.
            Some(values) => {
                let mut packed = Vec::new();
                values.iter().for_each(|value| varint(&mut packed, *value));
                delimited(out, number, &packed);
            }
            None => {
                for node in nodes {
                    encode_field(out, number, name, node, type_name);
                }
            }
        },
        Node::Number(_) | Node::Signed(_) | Node::Bool(_) | Node::Symbol(_) => {
            varint(out, u64::from(number << 3 | VARINT));
            varint(out, scalar(node).unwrap_or_default());
        }
    }
}

fn delimited(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number << 3 | LENGTH_DELIMITED));
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf's page on its encoding: 150 as a varint, -1 in ten bytes, packed numbers, a string.
    #[test]
    fn numbers_and_texts_as_protobuf_has_them() {
        let mut out = Vec::new();
        encode_field(&mut out, 1, "x", &Node::Number(150), S);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        encode_field(&mut out, 1, "x", &Node::Signed(-1), S);
        assert_eq!(out, [0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        out.clear();
        let packed = Node::Repeated(vec![
            Node::Number(3),
            Node::Number(270),
            Node::Number(86_942),
        ]);
        encode_field(&mut out, 6, "x", &packed, S);
        assert_eq!(out, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        out.clear();
        encode_field(&mut out, 2, "x", &Node::Text("testing".into()), S);
        assert_eq!(out, *b"\x12\x07testing");
    }

    /// Fields of the table are known by name, so a wrong type of a message would only show in a rare program.
    #[test]
    fn every_type_in_the_table_exists() {
        for (message, fields) in MESSAGES {
            for (field, number, type_name) in *fields {
                let known = type_name.is_empty() || MESSAGES.iter().any(|(m, _)| m == type_name);
                assert!(known, "{message}.{field}: {type_name}");
                let same = fields.iter().filter(|(_, n, _)| n == number).count();
                assert_eq!(same, 1, "{message}.{field}: number {number} twice");
            }
        }
    }
}
