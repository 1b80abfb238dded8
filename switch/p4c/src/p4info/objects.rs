//! Externs, value sets, digests and controller headers.

use num_traits::ToPrimitive;

use super::ids::Kind;
use super::message::{Message, Node};
use super::notes::{self, Owner};
use super::{Builder, field_ids, named};
use crate::annotations;
use crate::ast::Annotation;
use crate::elaborate::flat::Object;
use crate::eval::Value;
use crate::types::{FieldType, Type};

/// The P4Info kind of an extern type.
pub(super) fn kind(extern_name: &str) -> Option<Kind> {
    Some(match extern_name {
        "action_profile" | "action_selector" => Kind::ActionProfile,
        "counter" => Kind::Counter,
        "direct_counter" => Kind::DirectCounter,
        "meter" => Kind::Meter,
        "direct_meter" => Kind::DirectMeter,
        "register" => Kind::Register,
        _ => return None,
    })
}

impl Builder<'_> {
    /// In the order of P4Info's field numbers.
    pub(super) fn add_objects(&mut self, info: &mut Message) {
        let flat = self.flat;
        let groups: [(&'static str, &[&str]); 5] = [
            ("action_profiles", &["action_profile", "action_selector"]),
            ("counters", &["counter"]),
            ("direct_counters", &["direct_counter"]),
            ("meters", &["meter"]),
            ("direct_meters", &["direct_meter"]),
        ];
        for (field, names) in groups {
            let mut nodes = Vec::new();
            for (index, object) in flat.objects.iter().enumerate() {
                if names.contains(&object.extern_name.as_str()) {
                    nodes.extend(self.object(index, object).map(Node::Message));
                }
            }
            info.repeated(field, nodes);
        }
        let headers = self.controller_headers();
        let headers = headers
            .iter()
            .map(|h| Node::Message(self.controller_header(h)))
            .collect();
        info.repeated("controller_packet_metadata", headers);
        let value_sets = flat
            .value_sets
            .iter()
            .map(|v| Node::Message(self.value_set(v)))
            .collect();
        info.repeated("value_sets", value_sets);
        let mut registers = Vec::new();
        for (index, object) in flat.objects.iter().enumerate() {
            if object.extern_name == "register" {
                registers.extend(self.object(index, object).map(Node::Message));
            }
        }
        info.repeated("registers", registers);
        let digests = std::mem::take(&mut self.digests);
        let digests = digests
            .iter()
            .map(|(name, ty)| {
                let mut digest = Message::default();
                digest.message("preamble", self.preamble(Kind::Digest, name, &[]));
                digest.message("type_spec", self.types.spec(ty, &self.program.errors));
                Node::Message(digest)
            })
            .collect();
        info.repeated("digests", digests);
    }

    /// `None`: a direct resource that no table has.
    fn object(&mut self, index: usize, object: &Object) -> Option<Message> {
        let kind = kind(&object.extern_name)?;
        let mut out = Message::default();
        // Those about the size of groups are fields of their own.
        let shown: Vec<Annotation> = object
            .annotations
            .iter()
            .filter(|a| !SELECTOR_SIZES.contains(&a.name.text.as_str()))
            .cloned()
            .collect();
        out.message("preamble", self.preamble(kind, &object.name, &shown));
        let size = || {
            let size = object.args.iter().find(|(n, _)| n == "size");
            size.and_then(|(_, e)| e.as_int())
                .and_then(ToPrimitive::to_u64)
                .unwrap_or(0)
        };
        let table = self
            .flat
            .tables
            .iter()
            .find(|t| t.counters == Some(index) || t.meters == Some(index))
            .map(|t| self.symbols.id(Kind::Table, &t.name));
        match kind {
            Kind::ActionProfile => {
                let tables = self
                    .flat
                    .tables
                    .iter()
                    .filter(|t| t.implementation == Some(index));
                let ids = tables
                    .map(|t| Node::Number(self.symbols.id(Kind::Table, &t.name).into()))
                    .collect();
                out.repeated("table_ids", ids);
                out.flag("with_selector", object.extern_name == "action_selector");
                out.number("size", size());
                if object.extern_name == "action_selector" {
                    selector_limits(&mut out, &object.annotations);
                }
            }
            Kind::Register => {
                let ty = object.type_args.first()?;
                out.message("type_spec", self.types.spec(ty, &self.program.errors));
                out.number("size", size());
                if let Some(Type::New(index)) = object.type_args.get(1) {
                    out.message("index_type_name", named(&index.name));
                }
            }
            _ => {
                let mut spec = Message::default();
                spec.add("unit", Node::Symbol(unit(object)));
                out.message("spec", spec);
                if matches!(kind, Kind::DirectCounter | Kind::DirectMeter) {
                    out.number("direct_table_id", table?);
                } else {
                    out.number("size", size());
                    if let Some(Type::New(index)) = object.type_args.first() {
                        out.message("index_type_name", named(&index.name));
                    }
                }
            }
        }
        Some(out)
    }

    fn controller_header(&mut self, header: &crate::types::StructType) -> Message {
        let name =
            annotations::string(&header.annotations, "controller_header").unwrap_or_default();
        let mut preamble = Message::default();
        preamble.number("id", self.symbols.id(Kind::ControllerHeader, &header.name));
        preamble.text("name", name.clone()).text("alias", name);
        self.note(&mut preamble, &header.annotations);
        let mut all = Vec::new();
        controller_fields("", &header.fields, &mut all);
        let visible: Vec<FieldType> = all
            .into_iter()
            .filter(|f| !annotations::has(&f.annotations, "hidden"))
            .collect();
        let ids = field_ids(visible.iter().map(|f| &f.annotations[..]));
        let mut metadata = Vec::new();
        for (field, id) in visible.iter().zip(ids) {
            let (type_name, width) = self.types.scalar(&field.ty, &self.program.errors);
            let mut message = Message::default();
            message.number("id", id);
            message.text("name", field.name.clone());
            notes::add(
                &mut message,
                &field.annotations,
                Owner::PacketField,
                self.diagnostics,
            );
            if let Some(width) = width {
                message.number("bitwidth", width);
            }
            if let Some(name) = type_name {
                message.message("type_name", named(&name));
            }
            metadata.push(Node::Message(message));
        }
        let mut out = Message::default();
        out.message("preamble", preamble)
            .repeated("metadata", metadata);
        out
    }

    fn value_set(&mut self, value_set: &crate::elaborate::flat::FlatValueSet) -> Message {
        let mut out = Message::default();
        let preamble = self.preamble(Kind::ValueSet, &value_set.name, &value_set.annotations);
        out.message("preamble", preamble);
        let fields: Vec<(Option<&FieldType>, &Type)> = match &value_set.ty {
            Type::Struct(s) => s.fields.iter().map(|f| (Some(f), &f.ty)).collect(),
            Type::Tuple(items) => items.iter().map(|t| (None, t)).collect(),
            ty => vec![(None, ty)],
        };
        let ids = field_ids(
            fields
                .iter()
                .map(|(f, _)| f.map_or(&[][..], |f| &f.annotations[..])),
        );
        let mut matches = Vec::new();
        for ((field, ty), id) in fields.iter().zip(ids) {
            let (type_name, width) = self.types.scalar(ty, &self.program.errors);
            let mut message = Message::default();
            message.number("id", id);
            if let Some(field) = field {
                message.text("name", field.name.clone());
            }
            if let Some(width) = width {
                message.number("bitwidth", width);
            }
            // A field of a value set matches exactly unless @match says otherwise.
            let by_annotation = field
                .and_then(|f| annotations::find(&f.annotations, "match"))
                .and_then(|a| super::match_type(&annotations::text(&a.body)));
            message.add("match_type", Node::Symbol(by_annotation.unwrap_or("EXACT")));
            if let Some(name) = type_name {
                message.message("type_name", named(&name));
            }
            matches.push(Node::Message(message));
        }
        out.repeated("match", matches);
        out.number("size", value_set.size);
        out
    }
}

/// Annotations of an action selector that say how large its groups may be.
const SELECTOR_SIZES: &[&str] = &[
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
];

fn selector_limits(out: &mut Message, list: &[Annotation]) {
    if let Some(limit) = notes::number(list, "max_group_size") {
        out.number("max_group_size", limit);
    }
    let semantics = annotations::string(list, "selector_size_semantics");
    match semantics.map(|s| s.to_ascii_lowercase()).as_deref() {
        Some("sum_of_weights") => {
            out.message("sum_of_weights", Message::default());
        }
        Some("sum_of_members") => {
            let mut members = Message::default();
            if let Some(limit) = notes::number(list, "max_member_weight") {
                members.number("max_member_weight", limit);
            }
            out.message("sum_of_members", members);
        }
        _ => {}
    }
}

/// A struct in a header counts as its fields, with its name in front.
fn controller_fields(prefix: &str, fields: &[FieldType], out: &mut Vec<FieldType>) {
    for field in fields {
        let own = annotations::string(&field.annotations, "name");
        let name = format!("{prefix}{}", own.unwrap_or_else(|| field.name.clone()));
        match &field.ty {
            Type::Struct(inner) => controller_fields(&format!("{name}."), &inner.fields, out),
            _ => out.push(FieldType {
                name,
                ..field.clone()
            }),
        }
    }
}

fn unit(object: &Object) -> &'static str {
    let value = object.args.iter().find_map(|(_, e)| match e.as_value() {
        Some(Value::Member(name)) => Some(name.as_str()),
        _ => None,
    });
    match value {
        Some("bytes") => "BYTES",
        Some("packets_and_bytes") => "BOTH",
        _ => "PACKETS",
    }
}
