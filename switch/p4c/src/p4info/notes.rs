//! Annotations, structured annotations and documentation of an object.

use num_traits::ToPrimitive;

use super::message::{Message, Node};
use crate::annotations;
use crate::eval::Value;
use crate::ir::Annotation;

/// Annotations that P4Info expresses otherwise.
const CONSUMED: &[&str] = &["name", "id", "hidden", "brief", "description"];
/// The same for match fields, which stay in P4Info although they are hidden.
const CONSUMED_OF_FIELDS: &[&str] = &["name", "id", "brief", "description"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Object,
    MatchField,
    /// A field of a controller header, for which P4Info has no documentation.
    PacketField,
}

/// Adds what the annotations say to the preamble or field of an object.
pub fn add(out: &mut Message, list: &[Annotation], owner: Owner) {
    add_except(out, list, owner, &[]);
}

/// As [`add`], without some that are told elsewhere.
pub fn add_except(out: &mut Message, list: &[Annotation], owner: Owner, except: &[&str]) {
    let consumed = match owner {
        Owner::Object | Owner::PacketField => CONSUMED,
        Owner::MatchField => CONSUMED_OF_FIELDS,
    };
    let shown = |a: &&Annotation| {
        let name = a.name.text.as_str();
        !consumed.contains(&name) && !except.contains(&name)
    };
    let (structured, plain): (Vec<&Annotation>, Vec<&Annotation>) =
        list.iter().filter(shown).partition(|a| a.structured);
    let plain = plain.into_iter().map(|a| {
        let body = annotations::text(&a.body);
        Node::Text(match body.is_empty() {
            true => format!("@{}", a.name.text),
            false => format!("@{}({body})", a.name.text),
        })
    });
    out.repeated("annotations", plain.collect());
    if let Some(doc) = documentation(list)
        && owner != Owner::PacketField
    {
        out.message("doc", doc);
    }
    let structured = structured
        .into_iter()
        .map(|a| Node::Message(structure(a)))
        .collect();
    out.repeated("structured_annotations", structured);
}

/// `@brief("...")` and `@description("...")`
fn documentation(list: &[Annotation]) -> Option<Message> {
    let mut doc = Message::default();
    for name in ["brief", "description"] {
        if let Some(text) = annotations::string(list, name) {
            doc.text(name, text);
        }
    }
    (!doc.0.is_empty()).then_some(doc)
}

/// `@name[1, true]` or `@name[key = "value"]`
fn structure(annotation: &Annotation) -> Message {
    let mut out = Message::default();
    out.text("name", annotation.name.text.clone());
    let nodes: Vec<Node> = annotation
        .values
        .iter()
        .map(|v| match &v.key {
            None => Node::Message(scalar(&v.value)),
            Some(key) => {
                let mut pair = Message::default();
                pair.text("key", key.clone())
                    .message("value", scalar(&v.value));
                Node::Message(pair)
            }
        })
        .collect();
    let mut values = Message::default();
    match annotation.values.first() {
        None => {}
        Some(first) if first.key.is_some() => {
            values.repeated("kv_pairs", nodes);
            out.message("kv_pair_list", values);
        }
        Some(_) => {
            values.repeated("expressions", nodes);
            out.message("expression_list", values);
        }
    }
    out
}

fn scalar(value: &Value) -> Message {
    let mut out = Message::default();
    match value {
        Value::Int(number) => {
            out.add("int64_value", Node::Signed(number.to_i64().unwrap_or(0)));
        }
        Value::Bool(value) => {
            out.add("bool_value", Node::Bool(*value));
        }
        Value::Str(text) | Value::Error(text) | Value::Member(text) => {
            out.text("string_value", text.clone());
        }
    }
    out
}
