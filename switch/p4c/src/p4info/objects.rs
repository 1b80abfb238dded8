//! Externs, value sets, digests and controller headers.

use ebb_p4_proto::config::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
use ebb_p4_proto::config::controller_packet_metadata::Metadata;
use ebb_p4_proto::config::match_field::{Match, MatchType};
use ebb_p4_proto::config::meter_spec::Type as MeterType;
use ebb_p4_proto::config::{
    ActionProfile, ControllerPacketMetadata, Counter, CounterSpec, DirectCounter, DirectMeter,
    MatchField, Meter, MeterSpec, P4Info, P4NamedType, Preamble, Register, ValueSet, counter_spec,
};
use num_traits::ToPrimitive;

use super::ids::Kind;
use super::notes::{HIDDEN, Notes};
use super::type_info::named;
use super::{Builder, match_type, saturated};
use crate::annotations::{self, own_name};
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{FlatTable, FlatValueSet, Object};
use crate::eval::Value;
use crate::ir::Annotation;
use crate::types::{FieldType, StructType, Type};

/// The P4Info kind of an object.
pub(super) fn kind(object: &Object) -> Option<Kind> {
    Some(match object.extern_name.as_str() {
        "ActionSelector" if is_psa_selector(object) => Kind::ActionProfile,
        "action_profile" | "action_selector" | "ActionProfile" => Kind::ActionProfile,
        "counter" | "Counter" => Kind::Counter,
        "direct_counter" | "DirectCounter" => Kind::DirectCounter,
        "meter" | "Meter" => Kind::Meter,
        "direct_meter" | "DirectMeter" => Kind::DirectMeter,
        "register" | "Register" => Kind::Register,
        _ => return None,
    })
}

impl Builder<'_> {
    /// Adds the externs, each to the list of its kind. Direct resources that no table has are left out.
    pub(super) fn add_objects(&mut self, info: &mut P4Info) {
        let flat = self.flat;
        for (index, object) in flat.objects.iter().enumerate() {
            let Some(kind) = kind(object) else {
                continue;
            };
            let preamble = self.preamble(kind, &object.name, &object.annotations, TOLD);
            let id_of = |table: &FlatTable| self.symbols.id(Kind::Table, &table.name);
            let has_it = |t: &&FlatTable| t.counters == Some(index) || t.meters == Some(index);
            if flat.psa.is_some() && matches!(kind, Kind::Counter | Kind::Meter | Kind::Register) {
                // p4c enters the types of indices into the type info of PSA's programs.
                let index = object.type_args.last();
                index.into_iter().for_each(|ty| {
                    self.types.scalar(ty);
                });
            }
            let direct_table_id = flat.tables.iter().find(has_it).map(id_of);
            match kind {
                Kind::ActionProfile => {
                    let uses_it =
                        |t: &&FlatTable| t.implementation.is_some_and(|i| flat.profile(i) == index);
                    let tables = flat.tables.iter().filter(uses_it).map(id_of).collect();
                    let profile = self.action_profile(index, preamble, tables);
                    info.action_profiles.push(profile);
                }
                Kind::Counter => info.counters.push(Counter {
                    preamble,
                    spec: counter_spec(object),
                    size: size(object),
                    index_type_name: index_type(object.type_args.last()),
                }),
                Kind::Meter => info.meters.push(Meter {
                    preamble,
                    spec: self.meter_spec(object),
                    size: size(object),
                    index_type_name: index_type(object.type_args.first()),
                }),
                Kind::Register => info.registers.push(Register {
                    preamble,
                    type_spec: object.type_args.first().map(|ty| self.types.spec(ty)),
                    size: saturated(size(object).unsigned_abs()),
                    index_type_name: index_type(object.type_args.get(1)),
                }),
                Kind::DirectCounter => {
                    info.direct_counters
                        .extend(direct_table_id.map(|direct_table_id| DirectCounter {
                            preamble,
                            spec: counter_spec(object),
                            direct_table_id,
                        }))
                }
                Kind::DirectMeter => {
                    let spec = self.meter_spec(object);
                    info.direct_meters
                        .extend(direct_table_id.map(|direct_table_id| DirectMeter {
                            preamble,
                            spec,
                            direct_table_id,
                        }))
                }
                _ => {}
            }
        }
    }

    fn meter_spec(&self, object: &Object) -> Option<MeterSpec> {
        let given = |a: &Annotation| Some((meter_type(&a.name.text)?, a.name.span));
        let types: Vec<_> = object.annotations.iter().filter_map(given).collect();
        if let [(first, at), .., (last, again)] = types[..]
            && first != last
        {
            let message = format!("meter `{}` has two types", object.name);
            self.diagnostics
                .report(Diagnostic::error("bad-annotation", again, message).note(at, "the first"));
        }
        Some(MeterSpec {
            // Meters have the first two units of counters, with the same numbers.
            unit: unit(object) as i32,
            r#type: types.first().map_or(MeterType::default(), |(ty, _)| *ty) as i32,
        })
    }

    fn action_profile(
        &self,
        index: usize,
        preamble: Option<Preamble>,
        table_ids: Vec<u32>,
    ) -> ActionProfile {
        let object = &self.flat.objects[index];
        let mut profile = ActionProfile {
            preamble,
            table_ids,
            size: size(object),
            ..ActionProfile::default()
        };
        if object.extern_name == "action_selector" || is_psa_selector(object) {
            let list = &object.annotations;
            profile.with_selector = true;
            profile.max_group_size =
                annotations::number(list, "max_group_size").map_or(0, saturated);
            profile.selector_size_semantics = self.size_semantics(object);
        }
        self.check_selector(object);
        if let Some(selector) = self.selector_of(index) {
            profile.with_selector = true;
            profile.max_group_size = saturated(number(selector, "max_group_size"));
        }
        profile
    }

    /// The selector of TNA that is made of this profile.
    fn selector_of(&self, profile: usize) -> Option<&Object> {
        let objects = self.flat.objects.iter().enumerate();
        let mut selectors = objects.filter(|(_, o)| o.extern_name == "ActionSelector");
        let (_, found) = selectors.find(|(index, _)| self.flat.profile(*index) == profile)?;
        Some(found)
    }

    fn size_semantics(&self, object: &Object) -> Option<SelectorSizeSemantics> {
        let list = &object.annotations;
        let semantics = size_semantics(object)?;
        match semantics.as_str() {
            "sum_of_weights" => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
            "sum_of_members" => {
                let limit = annotations::number(list, "max_member_weight");
                Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers {
                    max_member_weight: limit.map_or(0, saturated),
                }))
            }
            other => {
                let place = annotations::find(list, "selector_size_semantics");
                let span = place.map_or(object.span, |a| a.name.span);
                let message = format!(
                    "the semantics of sizes are sum_of_weights or sum_of_members, not `{other}`"
                );
                self.diagnostics
                    .report(Diagnostic::error("bad-annotation", span, message));
                None
            }
        }
    }

    /// Warns of sizes of groups where there are no groups, or where they mean nothing for the groups.
    fn check_selector(&self, object: &Object) {
        let is_selector = object.extern_name == "action_selector" || is_psa_selector(object);
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

    pub(super) fn controller_header(&mut self, header: &StructType) -> ControllerPacketMetadata {
        let list = &header.annotations;
        let name = annotations::string(list, "controller_header").unwrap_or_default();
        let notes = Notes::of(list, HIDDEN);
        let mut fields = Vec::new();
        controller_fields("", &header.fields, &mut fields);
        let ids = self.field_ids(fields.iter().map(|f| &f.annotations[..]));
        let mut metadata = Vec::new();
        let visible = |f: &FieldType| !annotations::has(&f.annotations, "hidden");
        for (field, id) in fields.into_iter().zip(ids).filter(|(f, _)| visible(f)) {
            let (type_name, bitwidth) = self.types.scalar(&field.ty);
            let notes = Notes::of(&field.annotations, HIDDEN);
            metadata.push(Metadata {
                id,
                name: field.name,
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                bitwidth,
                type_name,
                ..Metadata::default()
            });
        }
        ControllerPacketMetadata {
            preamble: Some(Preamble {
                id: self.symbols.id(Kind::ControllerHeader, &header.name),
                name: name.clone(),
                alias: name,
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                doc: notes.doc,
                ..Preamble::default()
            }),
            metadata,
        }
    }

    pub(super) fn value_set(&mut self, value_set: &FlatValueSet) -> ValueSet {
        let fields: Vec<(Option<&FieldType>, &Type)> = match &value_set.ty {
            Type::Struct(s) => s.fields.iter().map(|f| (Some(f), &f.ty)).collect(),
            Type::Tuple(items) => items.iter().map(|t| (None, t)).collect(),
            ty => vec![(None, ty)],
        };
        let annotations = |field: &Option<_>| field.map_or(&[][..], |f: &FieldType| &f.annotations);
        let ids = self.field_ids(fields.iter().map(|(f, _)| annotations(f)));
        let mut matches = Vec::new();
        for ((field, ty), id) in fields.iter().zip(ids) {
            let (type_name, bitwidth) = self.types.scalar(ty);
            // A field matches exactly unless @match says otherwise.
            let kind = annotations::find(annotations(field), "match")
                .map_or(MatchType::Exact, |a| self.match_of_value_set(a));
            matches.push(MatchField {
                id,
                name: field.map_or_else(String::new, |f| f.name.clone()),
                bitwidth,
                r#match: Some(Match::MatchType(kind as i32)),
                type_name,
                ..MatchField::default()
            });
        }
        ValueSet {
            preamble: self.preamble(
                Kind::ValueSet,
                &value_set.name,
                &value_set.annotations,
                HIDDEN,
            ),
            r#match: matches,
            size: saturated(value_set.size),
        }
    }

    /// BMv2 compares value sets with all bits, whatever the controller is told.
    fn match_of_value_set(&self, annotation: &Annotation) -> MatchType {
        let Some(Value::Member(kind)) = annotation.values.first().map(|v| &v.value) else {
            return MatchType::Exact;
        };
        let span = annotation.name.span;
        if kind != "exact" {
            let message = format!("BMv2's value sets match exactly, not by {kind}");
            self.diagnostics
                .report(Diagnostic::warning("ignored-annotation", span, message));
        }
        match_type(kind).unwrap_or_else(|| {
            let message = format!("a value set does not match by `{kind}`");
            self.diagnostics
                .report(Diagnostic::error("bad-annotation", span, message));
            MatchType::Exact
        })
    }
}

/// Whether an object is PSA's selector, which has members and groups; TNA's is made of a profile.
fn is_psa_selector(object: &Object) -> bool {
    object.extern_name == "ActionSelector" && object.arg("outputWidth").is_some()
}

/// Annotations of an action selector that say how large its groups may be.
const SELECTOR_SIZES: &[&str] = &[
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
];

/// Annotations of externs that have fields of their own: sizes of groups and types of meters.
const TOLD: &[&str] = &[
    "hidden",
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
    "two_rate_three_color",
    "single_rate_three_color",
    "single_rate_two_color",
];

/// Restriction of the configurations of a meter by an annotation (P4Runtime specification, "Meter & DirectMeter").
fn meter_type(annotation: &str) -> Option<MeterType> {
    Some(match annotation {
        "two_rate_three_color" => MeterType::TwoRateThreeColor,
        "single_rate_three_color" => MeterType::SingleRateThreeColor,
        "single_rate_two_color" => MeterType::SingleRateTwoColor,
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

fn counter_spec(object: &Object) -> Option<CounterSpec> {
    let unit = unit(object) as i32;
    Some(CounterSpec { unit })
}

fn unit(object: &Object) -> counter_spec::Unit {
    let value = object.args.iter().find_map(|(_, e)| match e.as_value() {
        Some(Value::Member(name)) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    match value.as_deref() {
        Some("bytes") => counter_spec::Unit::Bytes,
        Some("packets_and_bytes") => counter_spec::Unit::Both,
        _ => counter_spec::Unit::Packets,
    }
}

fn size(object: &Object) -> i64 {
    let names = ["size", "n_counters", "n_meters"];
    saturated(
        names
            .map(|name| number(object, name))
            .into_iter()
            .max()
            .unwrap_or(0),
    )
}

/// The number that an argument of the constructor is; 0 if there is none.
fn number(object: &Object, argument: &str) -> u64 {
    let given = object.arg(argument);
    given.and_then(|e| e.as_int()?.to_u64()).unwrap_or(0)
}

/// The name of an index's type, if it is a `type` of the program.
fn index_type(ty: Option<&Type>) -> Option<P4NamedType> {
    match ty? {
        Type::New(index) => Some(named(own_name(&index.name, &index.annotations))),
        _ => None,
    }
}
