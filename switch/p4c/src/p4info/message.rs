//! Protobuf messages as trees of named fields, and their text and JSON forms.
//!
//! P4Info is written, never read, by the compiler; two small writers need no generated code.

use std::fmt::Write as _;

/// A message: fields in the order of their numbers; repeated fields appear several times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<(&'static str, Node)>);

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Message(Message),
    Number(u64),
    Signed(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    /// Name of an enum value.
    Symbol(&'static str),
    /// Elements of a repeated field, for JSON to make an array of one element too.
    Repeated(Vec<Node>),
    /// Entries of a map field.
    Map(Vec<(String, Message)>),
}

impl Message {
    pub fn add(&mut self, name: &'static str, node: Node) -> &mut Self {
        self.0.push((name, node));
        self
    }

    pub fn number(&mut self, name: &'static str, value: impl Into<u64>) -> &mut Self {
        self.add(name, Node::Number(value.into()))
    }

    pub fn text(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.add(name, Node::Text(value.into()))
    }

    pub fn message(&mut self, name: &'static str, value: Message) -> &mut Self {
        self.add(name, Node::Message(value))
    }

    /// Leaves the field out if there are no elements, as protobuf does.
    pub fn repeated(&mut self, name: &'static str, nodes: Vec<Node>) -> &mut Self {
        if !nodes.is_empty() {
            self.add(name, Node::Repeated(nodes));
        }
        self
    }

    pub fn flag(&mut self, name: &'static str, value: bool) -> &mut Self {
        if value {
            self.add(name, Node::Bool(true));
        }
        self
    }

    /// Protobuf text format. `head` is the message type, for tools.
    pub fn to_text(&self, file: &str, message: &str) -> String {
        let mut out = format!("# proto-file: {file}\n# proto-message: {message}\n\n");
        write_fields(&mut out, self, 0);
        out
    }

    /// Protobuf's JSON mapping: camelCase names, bytes in base64.
    pub fn to_json(&self) -> serde_json::Value {
        let fields = self
            .0
            .iter()
            .map(|(name, node)| (camel_case(name), json(node)));
        serde_json::Value::Object(fields.collect())
    }
}

fn write_fields(out: &mut String, message: &Message, indent: usize) {
    for (name, node) in &message.0 {
        write_field(out, name, node, indent);
    }
}

fn write_field(out: &mut String, name: &str, node: &Node, indent: usize) {
    let pad = "  ".repeat(indent);
    // Writing to a String cannot fail.
    let _ = match node {
        Node::Message(inner) => {
            out.push_str(&format!("{pad}{name} {{\n"));
            write_fields(out, inner, indent + 1);
            writeln!(out, "{pad}}}")
        }
        Node::Number(value) => writeln!(out, "{pad}{name}: {value}"),
        Node::Signed(value) => writeln!(out, "{pad}{name}: {value}"),
        Node::Bool(value) => writeln!(out, "{pad}{name}: {value}"),
        Node::Text(value) => writeln!(out, "{pad}{name}: \"{}\"", escape(value.as_bytes())),
        Node::Bytes(value) => writeln!(out, "{pad}{name}: \"{}\"", escape(value)),
        Node::Symbol(value) => writeln!(out, "{pad}{name}: {value}"),
        Node::Repeated(nodes) => {
            nodes.iter().for_each(|n| write_field(out, name, n, indent));
            Ok(())
        }
        Node::Map(entries) => {
            for (key, value) in entries {
                let mut entry = Message::default();
                entry
                    .text("key", key.clone())
                    .message("value", value.clone());
                write_field(out, name, &Node::Message(entry), indent);
            }
            Ok(())
        }
    };
}

/// C escapes, everything beyond ASCII in octal, as protobuf's own printer does.
fn escape(bytes: &[u8]) -> String {
    let mut out: Vec<u8> = Vec::new();
    for &byte in bytes {
        match byte {
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            b'\'' => out.extend(b"\\'"),
            0x20..=0x7e => out.push(byte),
            _ => out.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn json(node: &Node) -> serde_json::Value {
    match node {
        Node::Message(inner) => inner.to_json(),
        Node::Number(value) => (*value).into(),
        // JSON has 64 bits as text.
        Node::Signed(value) => value.to_string().into(),
        Node::Bool(value) => (*value).into(),
        Node::Text(value) => value.clone().into(),
        Node::Bytes(value) => base64(value).into(),
        Node::Symbol(value) => (*value).into(),
        Node::Repeated(nodes) => nodes.iter().map(json).collect(),
        Node::Map(entries) => serde_json::Value::Object(
            entries
                .iter()
                .map(|(k, v)| (k.clone(), v.to_json()))
                .collect(),
        ),
    }
}

fn camel_case(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.push(c.to_ascii_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_one_message() {
        let mut inner = Message::default();
        inner
            .number("id", 1u64)
            .add("param_value", Node::Bytes(vec![0, b'a', 0xff]));
        let mut message = Message::default();
        message
            .repeated("match_fields", vec![Node::Message(inner)])
            .text("name", "say \"é\"");
        let text = message.to_text("f", "m");
        assert!(text.ends_with(
            "match_fields {\n  id: 1\n  param_value: \"\\000a\\377\"\n}\nname: \"say \\\"\\303\\251\\\"\"\n"
        ));
        assert_eq!(
            message.to_json().to_string(),
            r#"{"matchFields":[{"id":1,"paramValue":"AGH/"}],"name":"say \"é\""}"#
        );
        assert_eq!(base64(b"a"), "YQ==");
    }
}
