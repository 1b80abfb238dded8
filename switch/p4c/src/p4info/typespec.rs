//! Types as the control plane sees them: `P4DataTypeSpec` and `P4TypeInfo`.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::message::{Message, Node};
use super::notes::{self, Owner};
use crate::annotations::{self, own_name};
use crate::eval::{self, Value};
use crate::types::{NewType, StructKind, Type};

/// The user's types that the program's control-plane objects mention.
#[derive(Debug, Default)]
pub struct TypeInfo {
    structs: BTreeMap<String, Message>,
    headers: BTreeMap<String, Message>,
    enums: BTreeMap<String, Message>,
    serializable_enums: BTreeMap<String, Message>,
    new_types: BTreeMap<String, Message>,
    errors: Option<Message>,
    /// Some object has a type at all; otherwise the field is left out, as p4c does.
    pub used: bool,
}

/// How values of a `type` are shown to the controller (`@p4runtime_translation`).
enum Translation {
    Bits { uri: String, width: u64 },
    Text { uri: String },
}

impl TypeInfo {
    pub fn to_message(&self) -> Option<Message> {
        if !self.used {
            return None;
        }
        let mut message = Message::default();
        let maps = [
            ("structs", &self.structs),
            ("headers", &self.headers),
            ("enums", &self.enums),
        ];
        for (name, map) in maps {
            add_map(&mut message, name, map);
        }
        if let Some(errors) = &self.errors {
            message.message("error", errors.clone());
        }
        add_map(&mut message, "serializable_enums", &self.serializable_enums);
        add_map(&mut message, "new_types", &self.new_types);
        Some(message)
    }

    /// The name and width of a scalar in a match field or parameter. Width `None`: any.
    pub fn scalar(&mut self, ty: &Type, errors: &[String]) -> (Option<String>, Option<u64>) {
        self.spec(ty, errors);
        let name = match ty {
            Type::New(n) => Some(own_name(&n.name, &n.annotations)),
            Type::Enum(e) if e.underlying.is_none() => Some(own_name(&e.name, &e.annotations)),
            _ => None,
        };
        let width = match ty {
            Type::New(n) => match translation(n) {
                Some(Translation::Bits { width, .. }) => Some(width),
                Some(Translation::Text { .. }) => None,
                None => ty.width().map(u64::from),
            },
            Type::Enum(e) if e.underlying.is_none() => None,
            _ => ty.width().map(u64::from),
        };
        (name, width)
    }

    /// `P4DataTypeSpec` of a type; user types are entered into the type info.
    pub fn spec(&mut self, ty: &Type, errors: &[String]) -> Message {
        self.used = true;
        let mut spec = Message::default();
        let named = |name: &str| {
            let mut message = Message::default();
            message.text("name", name);
            message
        };
        match ty {
            Type::Bits { .. } | Type::Varbit(_) => {
                spec.message("bitstring", bitstring(ty));
            }
            Type::Bool => {
                spec.message("bool", Message::default());
            }
            Type::Tuple(items) => {
                let members = items
                    .iter()
                    .map(|i| Node::Message(self.spec(i, errors)))
                    .collect();
                let mut tuple = Message::default();
                tuple.repeated("members", members);
                spec.message("tuple", tuple);
            }
            Type::Struct(s) if s.kind == StructKind::Struct => {
                let name = own_name(&s.name, &s.annotations);
                if !self.structs.contains_key(&name) {
                    let mut members = Vec::new();
                    for field in &s.fields {
                        let mut member = Message::default();
                        member.text("name", own_name(&field.name, &field.annotations));
                        member.message("type_spec", self.spec(&field.ty, errors));
                        members.push(Node::Message(member));
                    }
                    let mut info = Message::default();
                    info.repeated("members", members);
                    self.structs.insert(name.clone(), info);
                }
                spec.message("struct", named(&name));
            }
            Type::Struct(s) => {
                let name = own_name(&s.name, &s.annotations);
                if !self.headers.contains_key(&name) {
                    let mut members = Vec::new();
                    for field in &s.fields {
                        let mut member = Message::default();
                        member.text("name", own_name(&field.name, &field.annotations));
                        member.message("type_spec", bitstring(field.ty.stored()));
                        members.push(Node::Message(member));
                    }
                    let mut info = Message::default();
                    info.repeated("members", members);
                    self.headers.insert(name.clone(), info);
                }
                spec.message("header", named(&name));
            }
            Type::Enum(e) => match &e.underlying {
                Some((underlying, values)) => {
                    let info = serializable_enum(underlying, &e.members, values);
                    let name = own_name(&e.name, &e.annotations);
                    spec.message("serializable_enum", named(&name));
                    self.serializable_enums.entry(name).or_insert(info);
                }
                None => {
                    let members = e.members.iter().map(|m| Node::Message(named(m))).collect();
                    let mut info = Message::default();
                    info.repeated("members", members);
                    let name = own_name(&e.name, &e.annotations);
                    spec.message("enum", named(&name));
                    self.enums.entry(name).or_insert(info);
                }
            },
            Type::Error => {
                let members = errors.iter().map(|e| Node::Text(e.clone())).collect();
                let mut info = Message::default();
                info.repeated("members", members);
                self.errors.get_or_insert(info);
                spec.message("error", Message::default());
            }
            Type::New(n) => {
                let name = own_name(&n.name, &n.annotations);
                spec.message("new_type", named(&name));
                self.new_type(name, n, errors);
            }
            _ => {}
        }
        spec
    }

    fn new_type(&mut self, name: String, n: &NewType, errors: &[String]) {
        if self.new_types.contains_key(&name) {
            return;
        }
        let mut info = Message::default();
        match translation(n) {
            None => {
                // The controller sees what is behind a `type` of a `type`.
                let mut original = &n.underlying;
                while let Type::New(inner) = original {
                    original = &inner.underlying;
                }
                info.message("original_type", self.spec(original, errors));
            }
            Some(translation) => {
                let mut translated = Message::default();
                match translation {
                    Translation::Bits { uri, width } => {
                        translated.text("uri", uri).number("sdn_bitwidth", width);
                    }
                    Translation::Text { uri } => {
                        translated
                            .text("uri", uri)
                            .message("sdn_string", Message::default());
                    }
                }
                info.message("translated_type", translated);
            }
        }
        let told = ["p4runtime_translation"];
        notes::add_except(&mut info, &n.annotations, Owner::Object, &told);
        self.new_types.insert(name, info);
    }
}

fn add_map(message: &mut Message, name: &'static str, map: &BTreeMap<String, Message>) {
    if !map.is_empty() {
        message.add(
            name,
            Node::Map(map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()),
        );
    }
}

fn bitstring(ty: &Type) -> Message {
    let mut width = Message::default();
    let mut bits = Message::default();
    match ty {
        Type::Bits { width: w, signed } => {
            width.number("bitwidth", *w);
            bits.message(if *signed { "int" } else { "bit" }, width);
        }
        Type::Varbit(w) => {
            width.number("max_bitwidth", *w);
            bits.message("varbit", width);
        }
        other => {
            width.number("bitwidth", other.width().unwrap_or(1));
            bits.message("bit", width);
        }
    }
    bits
}

fn serializable_enum(underlying: &Type, members: &[String], values: &[BigInt]) -> Message {
    let width = underlying.width().unwrap_or(0);
    let mut ty = Message::default();
    ty.number("bitwidth", width);
    let members = members
        .iter()
        .zip(values)
        .map(|(name, value)| {
            let mut member = Message::default();
            member
                .text("name", name.clone())
                .add("value", Node::Bytes(bytes(value, width)));
            Node::Message(member)
        })
        .collect();
    let mut info = Message::default();
    info.message("underlying_type", ty)
        .repeated("members", members);
    info
}

/// Big-endian, as many bytes as the width needs.
pub fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let (_, magnitude) = eval::wrap(value, width, false).to_bytes_be();
    let size = width.div_ceil(8) as usize;
    let mut out = vec![0; size.saturating_sub(magnitude.len())];
    out.extend(magnitude);
    out
}

/// `@p4runtime_translation("uri", 32)`, `(..., bit<32>)` or `(..., string)`
fn translation(n: &NewType) -> Option<Translation> {
    let values = &annotations::find(&n.annotations, "p4runtime_translation")?.values;
    let uri = annotations::string(&n.annotations, "p4runtime_translation")?;
    Some(match values.get(1).map(|v| &v.value) {
        Some(Value::Int(width)) => Translation::Bits {
            uri,
            width: width.to_u64()?,
        },
        _ => Translation::Text { uri },
    })
}
