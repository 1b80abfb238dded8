//! Tables of objects: profiles and selectors, counters, meters, registers, filters, value sets, digests and the
//! metadata of ports.

use ebb_p4_proto::config::{
    ActionProfile, CounterSpec, MeterSpec, Preamble, counter_spec, meter_spec,
};
use num_traits::ToPrimitive;
use serde_json::{Value, json};

use super::field::{self, Fixed, data, defaulted, mandatory, ty};
use super::table::{Prefix, Source, Table, annotations};
use crate::elaborate::flat::{FlatKind, FlatParser, Object, Pipe};
use crate::types::Type;

/// Ports of Tofino, all pipes together.
const PORTS: i64 = 288;
/// Bits of port metadata that a program leaves unread.
const PORT_METADATA_BITS: i32 = 64;

/// Groups of the members of a profile.
pub(super) struct Selector {
    /// As BF Runtime has it. v1model has one object for members and groups, whose groups end in `_sel`.
    pub name: String,
    groups: i64,
    /// Members of a group at most.
    largest: i64,
}

impl Selector {
    pub(super) fn id(&self) -> u32 {
        Prefix::ActionSelector.hash(&self.name)
    }

    /// Its groups, and the member that a hash selects.
    fn tables(&self, profile: u32) -> [Value; 2] {
        let (name, id) = (&self.name, self.id());
        let mut groups = Table::new(name.clone(), id, "Selector", self.groups);
        groups.depends_on = vec![profile];
        groups.key = vec![index(field::SELECTOR_GROUP_ID)];
        groups.data = vec![
            field::repeated(field::ACTION_MEMBER_ID, ty("uint32")),
            field::repeated(field::ACTION_MEMBER_STATUS, ty("bool")),
            data(field::MAX_GROUP_SIZE, defaulted("uint32", self.largest)),
            data(field::ADT_OFFSET, defaulted("uint32", 0xdead_beef_u32)),
        ];
        let member = Prefix::SelectorGetMember.of(id);
        let mut get = Table::new(format!("{name}_get_member"), member, "SelectorGetMember", 1);
        get.depends_on = vec![id];
        get.key = [field::GET_MEMBER_GROUP, field::HASH_VALUE]
            .map(|of| field::key(of, true, "Exact", ty("uint64")))
            .into();
        get.data = vec![data(field::GET_MEMBER_ID, ty("uint64"))];
        [groups.into_json(), get.into_json()]
    }
}

impl Source<'_> {
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut tables = Vec::new();
        for profile in &self.info.action_profiles {
            tables.extend(self.action_profile(profile));
        }
        for counter in &self.info.counters {
            let mut made = self.object(
                counter.preamble.as_ref(),
                Prefix::Counter,
                "Counter",
                counter.size,
            );
            made.key = vec![index(field::COUNTER_INDEX)];
            made.data = counter_fields(counter.spec.as_ref());
            made.operations = vec!["Sync"];
            tables.push(made.into_json());
        }
        for meter in &self.info.meters {
            let mut made = self.object(meter.preamble.as_ref(), Prefix::Meter, "Meter", meter.size);
            made.key = vec![index(field::METER_INDEX)];
            made.data = meter_fields(meter.spec.as_ref());
            made.attributes = vec!["MeterByteCountAdjust"];
            tables.push(made.into_json());
        }
        for register in &self.info.registers {
            tables.push(self.register(register).into_json());
        }
        tables.extend(
            self.flat
                .objects
                .iter()
                .filter_map(|object| self.other(object)),
        );
        tables.extend(self.value_sets());
        tables
    }

    fn object(
        &self,
        pre: Option<&Preamble>,
        prefix: Prefix,
        kind: &'static str,
        size: i64,
    ) -> Table {
        let pre = pre.cloned().unwrap_or_default();
        let mut made = Table::new(self.name(&pre.name), prefix.of(pre.id), kind, size);
        made.annotations = annotations(&pre.annotations);
        made
    }

    /// The selector of the profile with this id in P4Info.
    pub(super) fn selector_of(&self, profile: u32) -> Option<Selector> {
        let has_id = |p: &&ActionProfile| p.preamble.as_ref().is_some_and(|pre| pre.id == profile);
        let found = self.info.action_profiles.iter().find(has_id)?;
        let name = &found.preamble.as_ref()?.name;
        let objects = self.flat.objects.iter().enumerate();
        let mut selectors = objects.filter(|(_, o)| o.extern_name == "ActionSelector");
        let of_profile = |at: usize| self.flat.objects[self.flat.profile(at)].name == *name;
        match selectors.find(|(at, _)| of_profile(*at)) {
            Some((_, object)) => Some(Selector {
                name: self.name(&object.name),
                groups: number(object, "num_groups"),
                largest: number(object, "max_group_size"),
            }),
            None => found.with_selector.then(|| Selector {
                name: self.name(&format!("{name}_sel")),
                groups: found.size,
                largest: found.max_group_size.into(),
            }),
        }
    }

    /// The members of a profile; with a selector its groups, and the member that a hash selects.
    fn action_profile(&self, profile: &ActionProfile) -> Vec<Value> {
        let uses_it = |t: &&ebb_p4_proto::config::Table| {
            profile
                .preamble
                .as_ref()
                .is_some_and(|pre| t.implementation_id == pre.id)
        };
        let Some(table) = self.info.tables.iter().find(uses_it) else {
            return Vec::new();
        };
        let mut made = self.object(
            profile.preamble.as_ref(),
            Prefix::ActionProfile,
            "Action",
            profile.size,
        );
        let id = made.id;
        made.key = vec![index(field::ACTION_MEMBER_ID)];
        let mut members = made.into_json();
        members["action_specs"] = self.action_specs(table).into();
        let selector = self.selector_of(table.implementation_id);
        let groups = selector.map(|selector| selector.tables(id));
        [members]
            .into_iter()
            .chain(groups.into_iter().flatten())
            .collect()
    }

    fn register(&self, of: &ebb_p4_proto::config::Register) -> Table {
        let mut made = self.object(
            of.preamble.as_ref(),
            Prefix::Register,
            "Register",
            of.size.into(),
        );
        let name = of.preamble.as_ref().map_or("", |pre| &pre.name);
        made.annotations.clear();
        made.key = vec![index(field::REGISTER_INDEX)];
        let spec = of.type_spec.as_ref();
        let members = spec.and_then(|spec| field::members(spec, self.info.type_info.as_ref()));
        for (id, (member, ty)) in (1..).zip(members.unwrap_or_default()) {
            made.data.push(register_field(id, name, &member, ty));
        }
        made.operations = vec!["Sync"];
        made
    }

    /// An object that P4Info has no list for.
    fn other(&self, object: &Object) -> Option<Value> {
        let name = self.name(&object.name);
        let sized = |prefix: Prefix, kind| {
            let id = prefix.hash(&name);
            Table::new(name.clone(), id, kind, number(object, "size"))
        };
        let mut made = match object.extern_name.as_str() {
            "Lpf" => {
                let mut made = sized(Prefix::Lpf, "Lpf");
                made.key = vec![index(field::LPF_INDEX)];
                made.data = lpf_fields();
                made
            }
            "Wred" => {
                let mut made = sized(Prefix::Wred, "Wred");
                made.key = vec![index(field::WRED_INDEX)];
                made.data = wred_fields();
                made
            }
            "RegisterParam" => {
                let mut made = sized(Prefix::RegisterParam, "RegisterParam");
                made.size = 1;
                let width = object.type_args.first()?.width()?;
                let mut ty = field::bytes(width.try_into().ok()?);
                ty["default_value"] = number(object, "initial_value").into();
                made.data = vec![field::named(1, "value", Vec::new(), true, ty)];
                made
            }
            _ => return None,
        };
        made.annotations = annotations(&crate::p4info::plain_annotations(&object.annotations));
        Some(made.into_json())
    }

    fn value_sets(&self) -> impl Iterator<Item = Value> {
        self.info.value_sets.iter().map(|of| {
            let size = of.size.into();
            let mut made = self.object(
                of.preamble.as_ref(),
                Prefix::ValueSet,
                "ParserValueSet",
                size,
            );
            for (id, field) in (1..).zip(&of.r#match) {
                let name = if field.name.is_empty() {
                    "f1"
                } else {
                    &field.name
                };
                let width = field::bytes(field.bitwidth);
                made.key.push(field::named_key(
                    id,
                    name,
                    Vec::new(),
                    false,
                    "Ternary",
                    width,
                ));
            }
            made.attributes = vec!["EntryScope"];
            made.into_json()
        })
    }

    pub(super) fn learn_filters(&self) -> Vec<Value> {
        let types = self.info.type_info.as_ref();
        let mut filters = Vec::new();
        for digest in &self.info.digests {
            let pre = digest.preamble.clone().unwrap_or_default();
            let spec = digest.type_spec.as_ref();
            let members = spec
                .and_then(|spec| field::members(spec, types))
                .unwrap_or_default();
            let fields = (1..).zip(members).map(|(id, (name, ty))| {
                json!({ "id": id, "name": name, "repeated": false, "annotations": [], "type": ty })
            });
            filters.push(json!({
                "name": self.name(&pre.name),
                "id": Prefix::Digest.of(pre.id),
                "annotations": annotations(&pre.annotations),
                "fields": fields.collect::<Vec<_>>(),
            }));
        }
        filters
    }

    /// The tables of port metadata, which each ingress parser has: the fields that the program unpacks, or one of all
    /// bits.
    pub(super) fn port_metadata(&self) -> impl Iterator<Item = Value> {
        let pipes = self.flat.tofino.iter().flat_map(|tofino| &tofino.pipes);
        pipes.map(|pipe| self.port_metadata_of(pipe))
    }

    fn port_metadata_of(&self, pipe: &Pipe) -> Value {
        let parser = &pipe.ingress_parser;
        let name = format!("{}.{}.$PORT_METADATA", pipe.name, parser.name);
        let id = Prefix::PortMetadata.hash(&name);
        let mut made = Table::new(name, id, "PortMetadata", PORTS);
        made.key = vec![field::key(
            field::PORT_METADATA_PORT,
            true,
            "Exact",
            field::bytes(9),
        )];
        made.data = match unpacked_port_metadata(parser) {
            Some(fields) => fields,
            None => vec![data(
                field::PORT_METADATA_DEFAULT,
                field::bytes(PORT_METADATA_BITS),
            )],
        };
        made.into_json()
    }
}

/// The fields of the type that `port_metadata_unpack` returns; none if the program does not call it.
fn unpacked_port_metadata(parser: &FlatParser) -> Option<Vec<Value>> {
    let states = parser.states.iter();
    let ty = states
        .flat_map(|state| &state.body)
        .find_map(|s| match &s.kind {
            FlatKind::Extern { name, result, .. } if name == "port_metadata_unpack" => {
                result.as_ref().map(|result| &result.ty)
            }
            _ => None,
        })?;
    let Type::Struct(of) = ty else {
        return None;
    };
    let fields = (1..).zip(&of.fields).map(|(id, of)| {
        let width = i32::try_from(of.ty.width()?).ok()?;
        Some(field::named(
            id,
            &of.name,
            Vec::new(),
            false,
            field::bytes(width),
        ))
    });
    fields.collect()
}

/// A number that an index is.
fn index(field: Fixed) -> Value {
    field::key(field, true, "Exact", ty("uint32"))
}

/// A number that the constructor is given; 0 without it.
fn number(object: &Object, argument: &str) -> i64 {
    let given = object.arg(argument);
    given.and_then(|e| e.as_int()?.to_i64()).unwrap_or(0)
}

/// A member of a register's cells.
fn register_field(id: u32, register: &str, member: &str, ty: Value) -> Value {
    let note = json!({ "name": "$bfrt_field_class", "value": "register_data" });
    field::named(id, &format!("{register}.{member}"), vec![note], true, ty)
}

/// The members of a direct register's cells, numbered from `first` on. P4Info has no list of these registers.
pub(super) fn register_fields(register: &Object, first: u32) -> Vec<Value> {
    let fields: Vec<(&str, &Type)> = match register.type_args.first() {
        Some(Type::Struct(of)) => of.fields.iter().map(|f| (&*f.name, &f.ty)).collect(),
        Some(ty) => vec![("f1", ty)],
        None => Vec::new(),
    };
    let made = (first..).zip(fields).filter_map(|(id, (member, ty))| {
        let ty = match ty {
            Type::Bool => defaulted("bool", true),
            ty => field::bytes(ty.width()?.try_into().ok()?),
        };
        Some(register_field(id, &register.name, member, ty))
    });
    made.collect()
}

pub(super) fn counter_fields(spec: Option<&CounterSpec>) -> Vec<Value> {
    use counter_spec::Unit;
    let unit = spec.map_or(Unit::Unspecified, CounterSpec::unit);
    let fields = [
        (field::COUNTER_BYTES, Unit::Bytes),
        (field::COUNTER_PACKETS, Unit::Packets),
    ];
    let counted = fields
        .into_iter()
        .filter(|(_, of)| unit == *of || unit == Unit::Both);
    counted
        .map(|(field, _)| data(field, defaulted("uint64", 0)))
        .collect()
}

/// Rates and bursts, unlimited by default.
pub(super) fn meter_fields(spec: Option<&MeterSpec>) -> Vec<Value> {
    let fields = match spec.map_or(meter_spec::Unit::Unspecified, MeterSpec::unit) {
        meter_spec::Unit::Packets => field::METER_PACKETS,
        _ => field::METER_BYTES,
    };
    fields
        .map(|field| data(field, defaulted("uint64", u64::MAX)))
        .into()
}

/// How a low-pass filter is configured.
pub(super) fn lpf_fields() -> Vec<Value> {
    let [gain, decay] = field::LPF_TIMES;
    vec![
        mandatory(field::LPF_TYPE, field::choice(&["RATE", "SAMPLE"])),
        mandatory(gain, ty("float")),
        mandatory(decay, ty("float")),
        mandatory(field::LPF_SCALE, ty("uint32")),
    ]
}

/// How random early detection is configured.
pub(super) fn wred_fields() -> Vec<Value> {
    let [least, largest] = field::WRED_THRESHOLDS;
    vec![
        mandatory(field::WRED_TIME, ty("float")),
        mandatory(least, ty("uint32")),
        mandatory(largest, ty("uint32")),
        mandatory(field::WRED_PROBABILITY, ty("float")),
    ]
}
