//! P4Info and entries as text and as JSON, the former as p4c lays it out.
//!
//! Values of annotations come before the fields about widths, types and limits, whatever their numbers are. Fields
//! that have their default are left out.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ebb_p4_proto::DESCRIPTORS;
use prost::Name;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};
use serde_json::Value as Json;

/// The protobuf text format, with file and name of the message at the top, for tools.
pub fn to_text<M: Name>(message: &M) -> String {
    let message = dynamic(message);
    let kind = message.descriptor();
    let (file, name) = (kind.parent_file(), kind.full_name());
    let mut out = format!("# proto-file: {}\n# proto-message: {name}\n\n", file.name());
    write_fields(&mut out, &message, 0);
    out
}

/// Protobuf's JSON mapping: names in camel case, bytes in base64. Sizes are numbers although they have 64 bits.
pub fn to_json<M: Name>(message: &M) -> Json {
    object(&dynamic(message))
}

/// The message as one whose fields have names.
fn dynamic<M: Name>(message: &M) -> DynamicMessage {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        // A test that writes any message reads them.
        DescriptorPool::decode(DESCRIPTORS).expect("the descriptors of ebb-p4-proto")
    });
    let kind = POOL.get_message_by_name(&M::full_name());
    let kind = kind.expect("messages are generated from the descriptors");
    let bytes = message.encode_to_vec();
    DynamicMessage::decode(kind, bytes.as_slice()).expect("prost reads what it has written")
}

fn fields(message: &DynamicMessage) -> Vec<(FieldDescriptor, &Value)> {
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(|(field, _)| {
        let group = match field.name() {
            "annotations" => 1,
            "doc" => 2,
            "structured_annotations" => 3,
            "bitwidth" | "match_type" | "other_match_type" | "type_name" => 4,
            "scope" | "platform_properties" => 4,
            _ => 0,
        };
        (group, field.number())
    });
    fields
}

/// Entries of a map by their keys, which are all names, and the field that their values have.
fn entries<'a>(
    field: &FieldDescriptor,
    value: &'a Value,
) -> (FieldDescriptor, Vec<(&'a str, &'a Value)>) {
    let (Kind::Message(entry), Some(map)) = (field.kind(), value.as_map()) else {
        unreachable!("{} is a map", field.full_name());
    };
    let mut entries: Vec<_> = map
        .iter()
        .map(|(key, value)| (key.as_str().unwrap_or_default(), value))
        .collect();
    entries.sort_by_key(|(key, _)| *key);
    (entry.map_entry_value_field(), entries)
}

fn symbol(field: &FieldDescriptor, number: i32) -> String {
    let Kind::Enum(symbols) = field.kind() else {
        unreachable!("{} is an enum", field.full_name());
    };
    let symbol = symbols.get_value(number).expect("a value of the enum");
    symbol.name().to_owned()
}

fn write_fields(out: &mut String, message: &DynamicMessage, indent: usize) {
    for (field, value) in fields(message) {
        write_field(out, &field, value, indent);
    }
}

fn write_field(out: &mut String, field: &FieldDescriptor, value: &Value, indent: usize) {
    let (pad, name) = ("  ".repeat(indent), field.name());
    // Writing to a String cannot fail.
    let _ = match value {
        Value::List(values) => {
            values
                .iter()
                .for_each(|v| write_field(out, field, v, indent));
            Ok(())
        }
        Value::Map(_) => {
            let (of_value, entries) = entries(field, value);
            for (key, value) in entries {
                let _ = writeln!(
                    out,
                    "{pad}{name} {{\n{pad}  key: {}",
                    quoted(key.as_bytes())
                );
                write_field(out, &of_value, value, indent + 1);
                let _ = writeln!(out, "{pad}}}");
            }
            Ok(())
        }
        Value::Message(inner) => {
            let _ = writeln!(out, "{pad}{name} {{");
            write_fields(out, inner, indent + 1);
            writeln!(out, "{pad}}}")
        }
        Value::Bool(value) => writeln!(out, "{pad}{name}: {value}"),
        Value::String(value) => writeln!(out, "{pad}{name}: {}", quoted(value.as_bytes())),
        Value::Bytes(value) => writeln!(out, "{pad}{name}: {}", quoted(value)),
        Value::EnumNumber(value) => writeln!(out, "{pad}{name}: {}", symbol(field, *value)),
        number => writeln!(out, "{pad}{name}: {number}"),
    };
}

/// With C's escapes, everything beyond ASCII in octal, as protobuf's own printer does.
fn quoted(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|byte| match byte {
        b'\n' | b'\r' | b'\t' | b' '..=b'~' => byte.escape_ascii().to_string(),
        _ => format!("\\{byte:03o}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn object(message: &DynamicMessage) -> Json {
    let named = |(field, value): (FieldDescriptor, &Value)| {
        (field.json_name().to_owned(), json(&field, value))
    };
    Json::Object(fields(message).into_iter().map(named).collect())
}

fn json(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::Message(inner) => object(inner),
        Value::List(values) => values.iter().map(|v| json(field, v)).collect(),
        Value::Map(_) => {
            let (of_value, entries) = entries(field, value);
            let entries = entries.into_iter();
            Json::Object(
                entries
                    .map(|(k, v)| (k.to_owned(), json(&of_value, v)))
                    .collect(),
            )
        }
        Value::Bool(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::Bytes(value) => base64(value).into(),
        Value::EnumNumber(value) => symbol(field, *value).into(),
        Value::I32(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::I64(value) if field.name() == "int64_value" => value.to_string().into(),
        Value::I64(value) => (*value).into(),
        other => unreachable!("{}: {other}", field.full_name()),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        let group = group << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { digit.into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use ebb_p4_proto::p4::{self, action::Param};

    use super::*;

    #[test]
    fn both_forms_of_one_message() {
        let param = |value: &[u8]| Param {
            param_id: 1,
            value: value.to_vec(),
        };
        let action = p4::Action {
            action_id: 0,
            params: vec![param(b"\0a\xff'"), param(b"a")],
        };
        assert_eq!(
            to_text(&action),
            "# proto-file: p4/v1/p4runtime.proto\n# proto-message: p4.v1.Action\n\n\
             params {\n  param_id: 1\n  value: \"\\000a\\377\\'\"\n}\nparams {\n  param_id: 1\n  value: \"a\"\n}\n"
        );
        assert_eq!(
            to_json(&action).to_string(),
            r#"{"params":[{"paramId":1,"value":"AGH/Jw=="},{"paramId":1,"value":"YQ=="}]}"#
        );
    }
}
