//! Externs, value sets, digests and controller headers.

use num_traits::ToPrimitive;

use super::ids::Kind;
use super::message::{Message, Node};
use super::notes::{self, Owner};
use super::{Builder, named};
use crate::annotations::{self, own_name};
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::Object;
use crate::eval::Value;
use crate::ir::Annotation;
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
            .map(|digest| {
                let mut out = Message::default();
                out.message("preamble", self.preamble(Kind::Digest, &digest.name, &[]));
                let ty = self.types.spec(&digest.ty, &self.program.errors);
                out.message("type_spec", ty);
                Node::Message(out)
            })
            .collect();
        info.repeated("digests", digests);
    }

    /// `None`: a direct resource that no table has.
    fn object(&mut self, index: usize, object: &Object) -> Option<Message> {
        let kind = kind(&object.extern_name)?;
        let mut out = Message::default();
        // Those about the size of groups and the type of meters are fields of their own.
        let shown: Vec<Annotation> = object
            .annotations
            .iter()
            .filter(|a| {
                let name = a.name.text.as_str();
                !SELECTOR_SIZES.contains(&name) && meter_type(name).is_none()
            })
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
                    self.selector_limits(&mut out, object);
                }
                self.check_selector(object);
            }
            Kind::Register => {
                let ty = object.type_args.first()?;
                out.message("type_spec", self.types.spec(ty, &self.program.errors));
                out.number("size", size());
                if let Some(Type::New(index)) = object.type_args.get(1) {
                    let name = own_name(&index.name, &index.annotations);
                    out.message("index_type_name", named(&name));
                }
            }
            _ => {
                let mut spec = Message::default();
                spec.add("unit", Node::Symbol(unit(object)));
                if matches!(kind, Kind::Meter | Kind::DirectMeter) {
                    self.add_meter_type(&mut spec, object);
                }
                out.message("spec", spec);
                if matches!(kind, Kind::DirectCounter | Kind::DirectMeter) {
                    out.number("direct_table_id", table?);
                } else {
                    out.number("size", size());
                    if let Some(Type::New(index)) = object.type_args.first() {
                        let name = own_name(&index.name, &index.annotations);
                        out.message("index_type_name", named(&name));
                    }
                }
            }
        }
        Some(out)
    }

    /// Two rates and three colours are the default, and left out.
    fn add_meter_type(&self, spec: &mut Message, object: &Object) {
        let given = |a: &Annotation| Some((meter_type(&a.name.text)?, a.name.span));
        let types: Vec<_> = object.annotations.iter().filter_map(given).collect();
        if let [(first, at), .., (last, again)] = types[..]
            && first != last
        {
            let message = format!("meter `{}` has two types", object.name);
            self.diagnostics
                .report(Diagnostic::error("bad-annotation", again, message).note(at, "the first"));
        }
        if let Some((ty, _)) = types.first().filter(|(ty, _)| *ty != TWO_RATES) {
            spec.add("type", Node::Symbol(ty));
        }
    }

    fn selector_limits(&self, out: &mut Message, object: &Object) {
        let list = &object.annotations;
        if let Some(limit) = annotations::number(list, "max_group_size") {
            out.number("max_group_size", limit);
        }
        match size_semantics(object).as_deref() {
            Some("sum_of_weights") => {
                out.message("sum_of_weights", Message::default());
            }
            Some("sum_of_members") => {
                let mut members = Message::default();
                if let Some(limit) = annotations::number(list, "max_member_weight") {
                    members.number("max_member_weight", limit);
                }
                out.message("sum_of_members", members);
            }
            Some(other) => {
                let place = annotations::find(list, "selector_size_semantics");
                let span = place.map_or(object.span, |a| a.name.span);
                let message = format!(
                    "the semantics of sizes are sum_of_weights or sum_of_members, not `{other}`"
                );
                self.diagnostics
                    .report(Diagnostic::error("bad-annotation", span, message));
            }
            None => {}
        }
    }

    /// Sizes of groups where there are no groups, or none that they are for.
    fn check_selector(&self, object: &Object) {
        let is_selector = object.extern_name == "action_selector";
        let of_members = size_semantics(object).as_deref() == Some("sum_of_members");
        for annotation in &object.annotations {
            let name = annotation.name.text.as_str();
            let why = if SELECTOR_SIZES.contains(&name) && !is_selector {
                "an action profile has no groups"
            } else if name == "max_member_weight" && !of_members {
                "it is for @selector_size_semantics(\"sum_of_members\")"
            } else {
                continue;
            };
            let message = format!("@{name} is ignored: {why}");
            self.diagnostics.report(Diagnostic::warning(
                "ignored-annotation",
                annotation.name.span,
                message,
            ));
        }
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
        let ids = self.field_ids(all.iter().map(|f| &f.annotations[..]));
        let mut metadata = Vec::new();
        let visible = |f: &FieldType| !annotations::has(&f.annotations, "hidden");
        for (field, id) in all.iter().zip(ids).filter(|(f, _)| visible(f)) {
            let (type_name, width) = self.types.scalar(&field.ty, &self.program.errors);
            let mut message = Message::default();
            message.number("id", id);
            message.text("name", field.name.clone());
            notes::add(&mut message, &field.annotations, Owner::PacketField);
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
        let ids = self.field_ids(
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
                .map(|a| self.match_of_value_set(a));
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

impl Builder<'_> {
    /// BMv2 compares value sets with all bits, whatever the controller is told.
    fn match_of_value_set(&self, annotation: &Annotation) -> &'static str {
        let Some(Value::Member(kind)) = annotation.values.first().map(|v| &v.value) else {
            return "EXACT";
        };
        let span = annotation.name.span;
        if kind != "exact" {
            let message = format!("BMv2's value sets match exactly, not by {kind}");
            self.diagnostics
                .report(Diagnostic::warning("ignored-annotation", span, message));
        }
        super::match_type(kind).unwrap_or_else(|| {
            let message = format!("a value set does not match by `{kind}`");
            self.diagnostics
                .report(Diagnostic::error("bad-annotation", span, message));
            "EXACT"
        })
    }
}

/// Annotations of an action selector that say how large its groups may be.
const SELECTOR_SIZES: &[&str] = &[
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
];

const TWO_RATES: &str = "TWO_RATE_THREE_COLOR";

/// What an annotation of a meter says of its configurations (P4Runtime specification, "Meter & DirectMeter").
fn meter_type(annotation: &str) -> Option<&'static str> {
    Some(match annotation {
        "two_rate_three_color" => TWO_RATES,
        "single_rate_three_color" => "SINGLE_RATE_THREE_COLOR",
        "single_rate_two_color" => "SINGLE_RATE_TWO_COLOR",
        _ => return None,
    })
}

fn size_semantics(object: &Object) -> Option<String> {
    let text = annotations::string(&object.annotations, "selector_size_semantics")?;
    Some(text.to_ascii_lowercase())
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
