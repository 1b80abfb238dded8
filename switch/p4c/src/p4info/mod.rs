//! The P4Info backend: what the control plane can see of a program, for P4Runtime.

mod entries;
mod ids;
pub mod message;
mod notes;
mod objects;
mod typespec;
mod wire;

use std::collections::HashMap;

use num_traits::ToPrimitive;

use crate::annotations;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::digests::{self, Digest};
use crate::elaborate::flat::{ActionParam, Flat, FlatTable};
use crate::eval::Value;
use crate::ir::{Annotation, Expr, Program};
use crate::source::Span;
use crate::types::{StructType, Type};
use ids::{Kind, Symbols};
use message::{Message, Node};
use notes::Owner;
use typespec::{TypeInfo, bytes};

/// What `@pkginfo` may say, in the order of P4Info's fields; the architecture comes third.
const PACKAGE_PROPERTIES: [&str; 5] = ["name", "version", "organization", "contact", "url"];
const PLATFORM_PROPERTIES: [&str; 3] = [
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
];

struct Builder<'a> {
    program: &'a Program,
    flat: &'a Flat,
    diagnostics: &'a Diagnostics,
    symbols: Symbols,
    types: TypeInfo,
    /// Visible actions and tables, in order.
    actions: Vec<VisibleAction<'a>>,
    tables: Vec<&'a FlatTable>,
    digests: Vec<Digest>,
}

struct VisibleAction<'a> {
    name: String,
    annotations: &'a [Annotation],
    params: Vec<ActionParam>,
}

/// P4Info, and the program's entries as a P4Runtime `WriteRequest`.
#[derive(Debug)]
pub struct Generated {
    pub p4info: Message,
    /// Or why there are none: an entry that P4Runtime has no form for.
    pub entries: Result<Message, Box<Diagnostic>>,
}

/// Generates both messages.
pub fn generate(program: &Program, flat: &Flat, diagnostics: &Diagnostics) -> Generated {
    let mut builder = Builder {
        program,
        flat,
        diagnostics,
        symbols: Symbols::default(),
        types: TypeInfo::default(),
        actions: Vec::new(),
        tables: Vec::new(),
        digests: Vec::new(),
    };
    builder.collect();
    Generated {
        entries: builder.entries(),
        p4info: builder.build(),
    }
}

/// The message in protobuf text format.
pub fn to_text(message: &Message) -> String {
    message.to_text("p4/config/v1/p4info.proto", "p4.config.v1.P4Info")
}

/// The message in protobuf's binary format.
pub fn to_binary(message: &Message) -> Vec<u8> {
    wire::encode(message, "P4Info")
}

/// A `WriteRequest` in protobuf text format.
pub fn entries_to_text(message: &Message) -> String {
    message.to_text("p4/v1/p4runtime.proto", "p4.v1.WriteRequest")
}

/// A `WriteRequest` in protobuf's binary format.
pub fn entries_to_binary(message: &Message) -> Vec<u8> {
    wire::encode(message, "WriteRequest")
}

impl Builder<'_> {
    fn collect(&mut self) {
        let flat = self.flat;
        // Actions by name: where each is declared.
        let mut seen: HashMap<String, Span> = HashMap::new();
        for unit in &flat.units {
            let control = &self.program.controls[unit.control];
            let of_unit = |t: &&FlatTable| t.unit == unit.id;
            // Global actions come with the first control whose tables use them.
            let used: Vec<usize> = flat
                .tables
                .iter()
                .filter(of_unit)
                .flat_map(|t| t.actions.clone())
                .collect();
            let global = used
                .iter()
                .map(|a| &flat.actions[*a])
                .filter(|a| a.unit.is_none());
            let own = control.actions.iter().filter_map(|declared| {
                let flat_action = flat
                    .actions
                    .iter()
                    .find(|a| a.unit == Some(unit.id) && a.action == *declared);
                flat_action
                    .map(|a| (a.name.clone(), &a.annotations[..], a.params.clone(), a.span))
                    .or_else(|| {
                        // Actions that are only called have no data from the control plane.
                        flat.called_actions
                            .contains(&(unit.id, true, *declared))
                            .then(|| {
                                let action = &self.program.actions[*declared];
                                let own = annotations::string(&action.annotations, "name")
                                    .unwrap_or_else(|| action.name.clone());
                                let name = match own.strip_prefix('.') {
                                    Some(absolute) => absolute.to_owned(),
                                    None => format!("{}.{own}", unit.path),
                                };
                                (name, &action.annotations[..], Vec::new(), action.span)
                            })
                    })
            });
            let called = flat
                .called_actions
                .iter()
                .filter(|(u, own, _)| *u == unit.id && !own);
            let called = called.map(|(_, _, action)| {
                let action = &self.program.actions[*action];
                let name = annotations::string(&action.annotations, "name")
                    .unwrap_or_else(|| action.name.clone());
                let name = name.trim_start_matches('.').to_owned();
                (name, &action.annotations[..], Vec::new(), action.span)
            });
            let visible: Vec<_> = global
                .map(|a| (a.name.clone(), &a.annotations[..], a.params.clone(), a.span))
                .chain(called)
                .chain(own)
                .collect();
            for (name, annotations, params, span) in visible {
                if annotations::has(annotations, "hidden") {
                    continue;
                }
                if let Some(first) = seen.get(&name).filter(|first| **first != span) {
                    self.same_name("action", &name, [span, *first]);
                }
                if seen.insert(name.clone(), span).is_none() {
                    self.symbol(Kind::Action, &name, annotations, Span::default());
                    self.actions.push(VisibleAction {
                        name,
                        annotations,
                        params,
                    });
                }
            }
            for declared in &control.tables {
                let table = flat
                    .tables
                    .iter()
                    .find(|t| t.unit == unit.id && t.table == *declared);
                let Some(table) = table else { continue };
                let properties = &self.program.tables[table.table];
                if !annotations::has(&properties.annotations, "hidden") {
                    if let Some(other) = self.tables.iter().find(|t| t.name == table.name) {
                        self.same_name(
                            "table",
                            &table.name,
                            [properties.span, self.program.tables[other.table].span],
                        );
                    }
                    self.symbol(
                        Kind::Table,
                        &table.name,
                        &properties.annotations,
                        properties.span,
                    );
                    self.tables.push(table);
                }
            }
        }
        let mut objects: HashMap<(Kind, &str), Span> = HashMap::new();
        for object in &flat.objects {
            if let Some(kind) = objects::kind(&object.extern_name).filter(|_| object.declared) {
                if let Some(first) = objects.insert((kind, &object.name), object.span) {
                    self.same_name(&object.extern_name, &object.name, [object.span, first]);
                }
                self.symbol(kind, &object.name, &object.annotations, object.span);
            }
        }
        for value_set in &flat.value_sets {
            let key = (Kind::ValueSet, &value_set.name[..]);
            if let Some(first) = objects.insert(key, value_set.span) {
                self.same_name("value_set", &value_set.name, [value_set.span, first]);
            }
            self.symbol(
                Kind::ValueSet,
                &value_set.name,
                &value_set.annotations,
                value_set.span,
            );
        }
        for header in self.controller_headers() {
            self.symbol(
                Kind::ControllerHeader,
                &header.name,
                &header.annotations,
                header.span,
            );
        }
        // p4c writes the (empty) type info of a program with extern functions; so do we.
        self.types.used |= !digests::extern_calls(flat).is_empty();
        self.digests = digests::digests(flat);
        for digest in std::mem::take(&mut self.digests) {
            self.symbol(Kind::Digest, &digest.name, &[], Span::default());
            self.digests.push(digest);
        }
        self.symbols.assign();
    }

    fn same_name(&self, kind: &str, name: &str, [second, first]: [Span; 2]) {
        let message = format!("the control plane knows two {kind}s as `{name}`");
        self.diagnostics.report(
            Diagnostic::error("duplicate-name", second, message)
                .note(first, "the first one")
                .help("give one of them another @name"),
        );
    }

    fn controller_headers(&self) -> Vec<std::rc::Rc<StructType>> {
        let headers = self.program.headers.iter();
        headers
            .filter(|h| annotations::has(&h.annotations, "controller_header"))
            .cloned()
            .collect()
    }

    fn symbol(&mut self, kind: Kind, name: &str, annotations: &[Annotation], span: Span) {
        let id = annotations::number(annotations, "id").and_then(|id| id.to_u32());
        if let Err(bad) = self.symbols.add(kind, name, id) {
            let place = annotations::find(annotations, "id").map_or(span, |a| a.name.span);
            let message = format!(
                "@id({:#x}) of `{name}` is taken, or has the prefix of another kind",
                bad.0
            );
            self.diagnostics
                .report(Diagnostic::error("bad-id", place, message));
        }
    }

    fn build(&mut self) -> Message {
        let mut info = Message::default();
        info.message("pkg_info", self.package());
        let tables = std::mem::take(&mut self.tables);
        let tables = tables
            .into_iter()
            .map(|t| Node::Message(self.table(t)))
            .collect();
        info.repeated("tables", tables);
        let actions = std::mem::take(&mut self.actions);
        let actions = actions
            .iter()
            .map(|a| Node::Message(self.action(a)))
            .collect();
        info.repeated("actions", actions);
        self.add_objects(&mut info);
        if let Some(types) = self.types.to_message() {
            info.message("type_info", types);
        }
        info
    }

    /// Architecture, and what `@pkginfo` on `main` says.
    fn package(&self) -> Message {
        let mut package = Message::default();
        let empty: &[Annotation] = &[];
        let main = self
            .program
            .main
            .map_or(empty, |id| &self.program.instances[id].annotations);
        self.check_keys(main, "pkginfo", &PACKAGE_PROPERTIES);
        self.check_keys(main, "platform_property", &PLATFORM_PROPERTIES);
        let (before, after) = PACKAGE_PROPERTIES.split_at(2);
        for name in before {
            package_property(&mut package, main, name);
        }
        package.text("arch", "v1model");
        for name in after {
            package_property(&mut package, main, name);
        }
        let told = ["pkginfo", "platform_property"];
        notes::add_except(&mut package, main, Owner::Object, &told);
        if let Some(limits) = platform_properties(main) {
            package.message("platform_properties", limits);
        }
        package
    }

    /// Keys that P4Info has no field for.
    fn check_keys(&self, list: &[Annotation], name: &str, known: &[&'static str]) {
        let Some(annotation) = annotations::find(list, name) else {
            return;
        };
        let keys = annotation.values.iter().filter_map(|v| v.key.as_deref());
        for key in keys.filter(|key| !known.contains(key)) {
            let message = format!("P4Info has no `{key}` for @{name}; it is ignored");
            let known = known.iter().copied();
            self.diagnostics.report(
                Diagnostic::warning("unknown-property", annotation.name.span, message)
                    .suggest(key, known),
            );
        }
    }

    fn preamble(&self, kind: Kind, name: &str, annotations: &[Annotation]) -> Message {
        let mut preamble = Message::default();
        preamble.number("id", self.symbols.id(kind, name));
        preamble
            .text("name", name)
            .text("alias", self.symbols.alias(name));
        self.note(&mut preamble, annotations);
        preamble
    }

    /// Numbers of keys, parameters or fields: `@id`, and small ones for the rest, which are counted as p4c does it.
    fn field_ids<'b>(&self, items: impl Iterator<Item = &'b [Annotation]>) -> Vec<u64> {
        let mut taken: Vec<u64> = Vec::new();
        let mut chosen = Vec::new();
        for list in items {
            let id = annotations::number(list, "id");
            if let (Some(id), Some(annotation)) = (id, annotations::find(list, "id")) {
                if id == 0 || id > u32::MAX.into() || taken.contains(&id) {
                    let message = format!("@id({id}) is taken, or not between 1 and {}", u32::MAX);
                    self.diagnostics.report(Diagnostic::error(
                        "bad-id",
                        annotation.name.span,
                        message,
                    ));
                }
                taken.push(id);
            }
            chosen.push(id);
        }
        let mut next = 1;
        let mut number = |id: Option<u64>| match id {
            Some(id) => {
                next += 1;
                id
            }
            None => {
                while taken.contains(&next) {
                    next += 1;
                }
                taken.push(next);
                next
            }
        };
        chosen.into_iter().map(&mut number).collect()
    }

    fn note(&self, out: &mut Message, annotations: &[Annotation]) {
        notes::add(out, annotations, Owner::Object);
    }

    fn table(&mut self, table: &FlatTable) -> Message {
        // As p4c: a program with tables has type info, if only an empty one.
        self.types.used = true;
        let declared = &self.program.tables[table.table];
        let mut out = Message::default();
        out.message(
            "preamble",
            self.preamble(Kind::Table, &table.name, &declared.annotations),
        );

        let mut fields = Vec::new();
        let ids = self.field_ids(declared.key.iter().map(|k| &k.annotations[..]));
        let keys = declared.key.iter().zip(ids);
        for (key, id) in keys.filter(|(key, _)| key.match_kind != "selector") {
            let (type_name, width) = self.types.scalar(&key.expr.ty, &self.program.errors);
            let mut field = Message::default();
            field
                .number("id", id)
                .text("name", key.name.clone().unwrap_or_default());
            notes::add(&mut field, &key.annotations, Owner::MatchField);
            // Errors have no width that a controller could know.
            if let Some(width) = width.filter(|_| key.expr.ty != Type::Error) {
                field.number("bitwidth", width);
            }
            match match_type(&key.match_kind) {
                Some(symbol) => field.add("match_type", Node::Symbol(symbol)),
                None => field.text("other_match_type", key.match_kind.clone()),
            };
            if let Some(name) = type_name {
                field.message("type_name", named(&name));
            }
            fields.push(Node::Message(field));
        }
        out.repeated("match_fields", fields);

        let mut refs = Vec::new();
        for (action, reference) in table.actions.iter().zip(&declared.actions) {
            let mut action_ref = Message::default();
            action_ref.number(
                "id",
                self.symbols
                    .id(Kind::Action, &self.flat.actions[*action].name),
            );
            self.note(&mut action_ref, &reference.annotations);
            if annotations::has(&reference.annotations, "tableonly") {
                action_ref.add("scope", Node::Symbol("TABLE_ONLY"));
            } else if annotations::has(&reference.annotations, "defaultonly") {
                action_ref.add("scope", Node::Symbol("DEFAULT_ONLY"));
            }
            refs.push(Node::Message(action_ref));
        }
        out.repeated("action_refs", refs);

        if let Some(call) = &declared.default_action {
            let action = &self.flat.actions[table.actions[call.action_ref]];
            let id = self.symbols.id(Kind::Action, &action.name);
            if declared.default_is_const {
                out.number("const_default_action_id", id);
            }
            let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
            let arguments = table.default_data.iter().zip(ids).filter_map(|(data, id)| {
                let mut argument = Message::default();
                argument
                    .number("param_id", id)
                    .add("value", Node::Bytes(constant_bytes(data)?));
                Some(Node::Message(argument))
            });
            let mut initial = Message::default();
            initial
                .number("action_id", id)
                .repeated("arguments", arguments.collect());
            out.message("initial_default_action", initial);
        }
        if let Some(object) = table.implementation {
            out.number(
                "implementation_id",
                self.symbols
                    .id(Kind::ActionProfile, &self.flat.objects[object].name),
            );
        }
        let direct = [
            (Kind::DirectCounter, table.counters),
            (Kind::DirectMeter, table.meters),
        ];
        let direct = direct.iter().filter_map(|(kind, object)| {
            Some(self.symbols.id(*kind, &self.flat.objects[(*object)?].name))
        });
        out.repeated(
            "direct_resource_ids",
            direct.map(|id| Node::Number(id.into())).collect(),
        );
        out.number("size", table.size.unwrap_or(1024));
        if declared.support_timeout {
            out.add("idle_timeout_behavior", Node::Symbol("NOTIFY_CONTROL"));
        }
        out.flag("is_const_table", declared.entries_are_const);
        out.flag("has_initial_entries", !table.entries.is_empty());
        out
    }

    fn action(&mut self, action: &VisibleAction<'_>) -> Message {
        let mut out = Message::default();
        out.message(
            "preamble",
            self.preamble(Kind::Action, &action.name, action.annotations),
        );
        let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
        let mut params = Vec::new();
        for (param, id) in action.params.iter().zip(ids) {
            let (type_name, width) = self.types.scalar(&param.ty, &self.program.errors);
            let mut message = Message::default();
            message.number("id", id).text("name", param.own_name());
            self.note(&mut message, &param.annotations);
            if let Some(width) = width {
                message.number("bitwidth", width);
            }
            if let Some(name) = type_name {
                message.message("type_name", named(&name));
            }
            params.push(Node::Message(message));
        }
        out.repeated("params", params);
        out
    }
}

fn named(name: &str) -> Message {
    let mut message = Message::default();
    message.text("name", name);
    message
}

fn match_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "exact" => "EXACT",
        "lpm" => "LPM",
        "ternary" => "TERNARY",
        "range" => "RANGE",
        "optional" => "OPTIONAL",
        _ => return None,
    })
}

fn constant_bytes(expr: &Expr) -> Option<Vec<u8>> {
    match expr.as_value()? {
        Value::Int(value) => Some(bytes(value, expr.ty.width()?)),
        Value::Bool(value) => Some(vec![u8::from(*value)]),
        _ => None,
    }
}

/// `@pkginfo(name = "value")`
fn package_property(package: &mut Message, list: &[Annotation], name: &'static str) {
    if let Some(Value::Str(text)) = setting(list, "pkginfo", name) {
        package.text(name, text.clone());
    }
}

/// `@platform_property(name = number)`
fn platform_properties(list: &[Annotation]) -> Option<Message> {
    annotations::find(list, "platform_property")?;
    let mut limits = Message::default();
    for name in PLATFORM_PROPERTIES {
        if let Some(Value::Int(number)) = setting(list, "platform_property", name) {
            limits.number(name, number.to_u64()?);
        }
    }
    Some(limits)
}

/// The value of `key` in `@annotation(key = value)`.
fn setting<'a>(list: &'a [Annotation], annotation: &str, key: &str) -> Option<&'a Value> {
    let values = &annotations::find(list, annotation)?.values;
    let found = values.iter().find(|v| v.key.as_deref() == Some(key))?;
    Some(&found.value)
}
