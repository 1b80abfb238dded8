//! v1model's extern functions and objects.

use ebb_bmv2_json::{self as json, Value as Json};
use num_bigint::BigInt;

use super::backend::{Backend, Stage, hex_value, numbered};
use super::layout::{Place, STANDARD};
use crate::annotations;
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{Object, Role};
use crate::eval::Value;
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::{FieldType, StructKind, Type};

impl Backend<'_> {
    pub(super) fn extern_call(
        &mut self,
        object: Option<usize>,
        name: &str,
        type_args: &[Type],
        args: &[Expr],
        span: Span,
    ) {
        if args.iter().any(|a| matches!(a.kind, ExprKind::Poison)) {
            return;
        }
        match object {
            Some(index) => self.method(index, name, args, span),
            None => self.function(name, type_args, args, span),
        }
    }

    fn method(&mut self, index: usize, name: &str, args: &[Expr], span: Span) {
        let Some(object) = self.flat.objects.get(index) else {
            return;
        };
        let array = object.name.clone();
        let extern_name = object.extern_name.as_str();
        let is_of_numbers = matches!(
            extern_name,
            "counter" | "meter" | "direct_meter" | "register"
        );
        let called = format!("{extern_name}.{name}");
        if is_of_numbers && !self.are_numbers(&called, args) {
            return;
        }
        let (op, parameters) = match (extern_name, name, args) {
            ("counter", "count", [index]) => (
                "count",
                vec![Json::CounterArray(array), self.argument(index)],
            ),
            // The table counts its hits by itself.
            ("direct_counter", "count", _) => return,
            ("meter", "execute_meter", [index, result]) => (
                "execute_meter",
                vec![
                    Json::MeterArray(array),
                    self.argument(index),
                    self.argument(result),
                ],
            ),
            ("direct_meter", "read", [result]) => {
                match self.field_of(result) {
                    Some(field) => self.meter_result(index, field, span),
                    None => self.error(
                        "unsupported-target",
                        span,
                        "a direct meter needs a field for its colour",
                    ),
                }
                return;
            }
            ("register", "read", [result, index]) => (
                "register_read",
                vec![
                    self.argument(result),
                    Json::RegisterArray(array),
                    self.argument(index),
                ],
            ),
            ("register", "write", [index, value]) => (
                "register_write",
                vec![
                    Json::RegisterArray(array),
                    self.argument(index),
                    self.argument(value),
                ],
            ),
            _ => {
                let message = format!("BMv2 has no `{called}` here");
                return self.unsupported_extern(span, message);
            }
        };
        self.emit(op, parameters, span);
    }

    fn unsupported_extern(&self, span: Span, message: String) {
        self.diagnostics
            .report(Diagnostic::error("unsupported-extern", span, message).help(
            "the externs that can run are those of <v1model.p4>; write it as a function or control",
        ));
    }

    /// BMv2 writes the colour of a direct meter to one field, when the table is applied.
    pub(super) fn meter_result(&mut self, meter: usize, field: json::FieldRef, span: Span) {
        let first = self
            .meter_targets
            .entry(meter)
            .or_insert_with(|| field.clone());
        if *first != field {
            let message = "a direct meter can only be read into one field";
            self.error("meter-targets-differ", span, message);
        }
    }

    fn function(&mut self, name: &str, type_args: &[Type], args: &[Expr], span: Span) {
        let (op, parameters) = match (name, args) {
            // In the v1model of before 2019 it has no argument.
            ("mark_to_drop", []) => ("mark_to_drop", vec![Json::Header(STANDARD.to_owned())]),
            ("mark_to_drop", [metadata]) => match self.place(metadata) {
                Some(Place::HeaderGroup(header, path)) if path.is_empty() => {
                    ("mark_to_drop", vec![Json::Header(header)])
                }
                _ => {
                    let message = "BMv2 marks standard metadata only";
                    return self.error("unsupported-target", metadata.span, message);
                }
            },
            ("random", numbers) if !self.are_numbers(name, numbers) => return,
            ("random", [result, low, high]) => (
                "modify_field_rng_uniform",
                vec![
                    self.argument(result),
                    self.argument(low),
                    self.argument(high),
                ],
            ),
            ("truncate", [length]) => ("truncate", vec![self.argument(length)]),
            ("assert" | "assume", [check]) => {
                let check = self.data(check).wrapped();
                self.emit(name, vec![check], span);
                return;
            }
            ("log_msg", [message, data @ ..]) => {
                if !data.iter().all(|data| self.is_data(name, data)) {
                    return;
                }
                let values = data
                    .iter()
                    .flat_map(Expr::leaves)
                    .map(|l| self.argument(&l))
                    .collect();
                let message = match (message.as_value(), data) {
                    (Some(Value::Str(text)), [data]) => Json::String(with_fields(text, data)),
                    _ => self.value(message),
                };
                ("log_msg", vec![message, Json::ParametersVector(values)])
            }
            ("hash", [result, algorithm, base, data, max]) => {
                let numbers = [result, base, max];
                if !self.are_numbers(name, numbers) || !self.is_data(name, data) {
                    return;
                }
                let input = self.fields_of(data, span);
                let Some(calculation) = self.calculation(algorithm, input, span) else {
                    return;
                };
                (
                    "modify_field_with_hash_based_offset",
                    vec![
                        self.argument(result),
                        self.argument(base),
                        Json::Calculation(calculation),
                        self.argument(max),
                    ],
                )
            }
            ("digest", [_, data]) if !self.is_data(name, data) => return,
            ("digest", [receiver, data]) => {
                self.warn_of_lost_digest(span);
                let id = self.learn_list(type_args.first(), data, span);
                (
                    "generate_digest",
                    vec![self.argument(receiver), hex_value(id, 32)],
                )
            }
            (
                "clone"
                | "clone3"
                | "clone_preserving_field_list"
                | "resubmit"
                | "resubmit_preserving_field_list"
                | "recirculate"
                | "recirculate_preserving_field_list",
                _,
            ) => return self.packet_copy(name, args, span),
            (
                "verify_checksum"
                | "update_checksum"
                | "verify_checksum_with_payload"
                | "update_checksum_with_payload",
                _,
            ) => {
                let message = format!("`{name}` belongs in the checksum controls");
                self.error("misplaced-call", span, message);
                return;
            }
            _ => return self.unknown_function(name, span),
        };
        self.emit(op, parameters, span);
    }

    /// Functions that send the packet once more, with the metadata of a field list: one that the program numbers, or
    /// the fields that the call names.
    fn packet_copy(&mut self, name: &str, args: &[Expr], span: Span) {
        let (op, parameters) = match (name, args) {
            ("clone" | "clone3" | "clone_preserving_field_list", [kind, session, list @ ..]) => {
                let op = self.clone_op(kind, span);
                let id = match list {
                    [] => self.empty_field_list(),
                    [fields, ..] if name == "clone3" => self.named_fields(fields, span),
                    [number, ..] => self.field_list(number, span),
                };
                (op, vec![self.argument(session), hex_value(id, 32)])
            }
            ("resubmit_preserving_field_list", [list]) => {
                self.check_stage(Stage::Ingress, "resubmit", span);
                ("resubmit", vec![hex_value(self.field_list(list, span), 32)])
            }
            ("resubmit", [fields]) => {
                self.check_stage(Stage::Ingress, "resubmit", span);
                let id = self.named_fields(fields, span);
                ("resubmit", vec![hex_value(id, 32)])
            }
            ("recirculate_preserving_field_list", [list]) => {
                self.check_stage(Stage::Egress, "recirculate", span);
                (
                    "recirculate",
                    vec![hex_value(self.field_list(list, span), 32)],
                )
            }
            ("recirculate", [fields]) => {
                self.check_stage(Stage::Egress, "recirculate", span);
                let id = self.named_fields(fields, span);
                ("recirculate", vec![hex_value(id, 32)])
            }
            _ => return self.unknown_function(name, span),
        };
        self.emit(op, parameters, span);
    }

    /// Whether all arguments are numbers, the only values that the extern works with, or enums, which are numbers in
    /// BMv2; others are reported.
    pub(super) fn are_numbers<'e>(
        &self,
        called: &str,
        args: impl IntoIterator<Item = &'e Expr>,
    ) -> bool {
        let is_number =
            |e: &Expr| matches!(e.ty.stored(), Type::Bits { .. } | Type::Int | Type::Enum(_));
        let mut all = true;
        for other in args.into_iter().filter(|e| !is_number(e)) {
            let ty = self.program.type_name(&other.ty);
            let message = format!("`{called}` works with numbers, not with `{ty}`");
            self.error("type-mismatch", other.span, message);
            all = false;
        }
        all
    }

    /// Whether data of an extern consists of values that fields can hold; what does not is reported.
    pub(super) fn is_data(&self, called: &str, data: &Expr) -> bool {
        let leaves = data.leaves();
        let strings = leaves.iter().filter(|l| matches!(l.ty, Type::String));
        for text in strings.clone() {
            let message = format!("the data of `{called}` cannot have a `string`");
            self.error("type-mismatch", text.span, message);
        }
        strings.count() == 0
    }

    fn unknown_function(&self, name: &str, span: Span) {
        let message = format!("BMv2 has no extern function `{name}`");
        self.unsupported_extern(span, message);
    }

    fn check_stage(&self, stage: Stage, name: &str, span: Span) {
        // A request for recirculation stays with the packet until BMv2 sees it, after the deparser.
        let is_asked =
            matches!(self.stage, Stage::Ingress | Stage::Deparser) && name == "recirculate";
        if self.stage != stage && !is_asked {
            let place = if stage == Stage::Ingress {
                "ingress"
            } else {
                "egress"
            };
            let message = format!("{name} is only possible in {place}");
            self.error("misplaced-call", span, message);
        }
    }

    /// BMv2 makes the clone of the pipeline in which it is asked for, whatever the type of the call.
    fn check_clone(&self, kind: &str, stage: Stage, span: Span) {
        let (made, place) = match self.stage {
            Stage::Ingress => ("I2E", "ingress"),
            Stage::Egress => ("E2E", "egress"),
            _ => return self.check_stage(stage, &format!("a clone of type {kind}"), span),
        };
        if made != kind {
            let message = format!("in {place} this makes a clone of type {made}, not {kind}");
            self.diagnostics
                .report(Diagnostic::warning("clone-type", span, message));
        }
    }

    /// A switch sends the digests of a packet when ingress has ended.
    fn warn_of_lost_digest(&self, span: Span) {
        if self.stage != Stage::Ingress {
            let message = "digests are only sent from ingress, this one is lost";
            let warning = Diagnostic::warning("lost-digest", span, message);
            let help = "clone the packet to the CPU port instead";
            self.diagnostics.report(warning.help(help));
        }
    }

    fn clone_op(&self, kind: &Expr, span: Span) -> &'static str {
        match kind.as_value() {
            Some(Value::Member(name)) if name == "I2E" => {
                self.check_clone("I2E", Stage::Ingress, span);
                "clone_ingress_pkt_to_egress"
            }
            Some(Value::Member(_)) => {
                self.check_clone("E2E", Stage::Egress, span);
                "clone_egress_pkt_to_egress"
            }
            _ => {
                let message = "the clone type must be known at compile time";
                self.error("not-constant", span, message);
                "clone_ingress_pkt_to_egress"
            }
        }
    }

    /// Adds a calculation and returns its name.
    pub(super) fn calculation(
        &mut self,
        algorithm: &Expr,
        input: Vec<json::CalculationInput>,
        span: Span,
    ) -> Option<String> {
        let Some(Value::Member(algo)) = algorithm.as_value() else {
            let message = "the hash algorithm must be known at compile time";
            self.error("not-constant", algorithm.span, message);
            return None;
        };
        Some(self.calculation_named(algo, input, span))
    }

    /// Adds a calculation with the algorithm of this name, and returns its name.
    pub(super) fn calculation_named(
        &mut self,
        algo: &str,
        input: Vec<json::CalculationInput>,
        span: Span,
    ) -> String {
        let id = self.json.calculations.len() as u32;
        let name = numbered("calc", id);
        let source_info = self.source_info(span);
        self.json.calculations.push(json::Calculation {
            name: name.clone(),
            id,
            source_info,
            algo: algo.to_owned(),
            input,
            configurable: None,
        });
        name
    }

    /// The list of fields that a digest carries; equal digests share it.
    fn learn_list(&mut self, ty: Option<&Type>, data: &Expr, span: Span) -> u32 {
        // Learn lists hold fields only.
        let mut elements = Vec::new();
        for leaf in data.leaves() {
            elements.extend(self.field_with(&leaf, span).map(Json::Field));
        }
        let digest = ty.and_then(|ty| self.digests.of_call(ty, span));
        let name = digest.map_or_else(|| "digest".to_owned(), |d| d.name.clone());
        let lists = &self.json.learn_lists;
        let of_name = self.learn_lists.entry(name.clone()).or_default();
        let mut known = of_name.iter().map(|index| &lists[*index]);
        if let Some(found) = known.find(|list| list.elements == elements) {
            return found.id;
        }
        of_name.push(lists.len());
        let id = lists.len() as u32 + 1;
        let source_info = self.source_info(span);
        self.json.learn_lists.push(json::FieldList {
            id,
            name,
            source_info,
            elements,
        });
        id
    }

    /// Field lists from `@field_list(n, ...)` on the fields of the metadata.
    pub(super) fn field_list_annotations(&mut self) {
        let metadata = self.flat.vars.iter().position(|v| v.role == Role::Metadata);
        let Some(id) = metadata else { return };
        let var = &self.flat.vars[id];
        let root = Expr::var(id, var.ty.clone(), var.span);
        let mut found: Vec<(BigInt, Vec<Json>)> = Vec::new();
        self.collect_field_lists(&root, &mut found);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, (number, elements)) in (1..).zip(found) {
            self.json.field_lists.push(json::FieldList {
                id,
                name: format!("field_list{number}"),
                source_info: None,
                elements,
            });
            self.field_lists.insert(number, id);
        }
    }

    fn collect_field_lists(&self, place: &Expr, found: &mut Vec<(BigInt, Vec<Json>)>) {
        let Type::Struct(s) = &place.ty else { return };
        if s.kind != StructKind::Struct {
            return;
        }
        for field in &s.fields {
            let FieldType { name, ty, .. } = field;
            let member = Expr::field(place.clone(), name, ty.clone());
            for number in annotations::numbers(&field.annotations, "field_list") {
                let at = found
                    .iter()
                    .position(|(n, _)| *n == number)
                    .unwrap_or_else(|| {
                        found.push((number, Vec::new()));
                        found.len() - 1
                    });
                for leaf in member.leaves() {
                    found[at].1.extend(self.field_of(&leaf).map(Json::Field));
                }
            }
            self.collect_field_lists(&member, found);
        }
    }

    fn field_list(&mut self, list: &Expr, span: Span) -> u32 {
        let Some(number) = list.as_int() else {
            let message = "the field list must be known at compile time";
            self.error("not-constant", list.span, message);
            return 0;
        };
        if let Some(id) = self.field_lists.get(number) {
            return *id;
        }
        let message = format!("no metadata field has @field_list({number})");
        self.diagnostics.report(
            Diagnostic::warning("empty-field-list", span, message).label("nothing is preserved"),
        );
        self.empty_field_list()
    }

    /// The id of a list of the fields that a call names: those of v1model before 2021 do.
    fn named_fields(&mut self, data: &Expr, span: Span) -> u32 {
        let mut elements = Vec::new();
        for leaf in data.leaves() {
            match self.field_of(&leaf) {
                Some(field) => elements.push(Json::Field(field)),
                None => {
                    let message = "only fields are preserved, this is a value";
                    let warning = Diagnostic::warning("empty-field-list", leaf.span, message);
                    let help = "put it into a metadata field, and name that";
                    self.diagnostics.report(warning.help(help));
                }
            }
        }
        if elements.is_empty() {
            return self.empty_field_list();
        }
        let id = self.json.field_lists.len() as u32 + 1;
        let source_info = self.source_info(span);
        self.json.field_lists.push(json::FieldList {
            id,
            name: format!("fl_{id}"),
            source_info,
            elements,
        });
        id
    }

    /// The id of a list that preserves nothing. Id 0 would not do: to BMv2 it means that no copy was asked for.
    fn empty_field_list(&mut self) -> u32 {
        let lists = &mut self.json.field_lists;
        if let Some(found) = lists.iter().find(|l| l.elements.is_empty()) {
            return found.id;
        }
        let id = lists.len() as u32 + 1;
        lists.push(json::FieldList {
            id,
            name: "empty".to_owned(),
            source_info: None,
            elements: Vec::new(),
        });
        id
    }

    /// Declares counters, meters and registers.
    pub(super) fn extern_instances(&mut self) {
        let flat = self.flat;
        for (index, object) in flat.objects.iter().enumerate() {
            match object.extern_name.as_str() {
                "counter" => self.counter(object, Some(self.size(object)), None),
                "direct_counter" => self.direct_counter(index, object),
                "meter" => self.meter((object, 0), self.size(object), None, None),
                "direct_meter" => self.direct_meter(index, object),
                "register" => self.register(object),
                "packet_in" | "packet_out" | "action_profile" | "action_selector" => {}
                other => {
                    let message = format!("BMv2 has no extern `{other}`");
                    self.unsupported_extern(object.span, message);
                }
            }
        }
    }

    /// Cells of an array, as p4c also none.
    pub(super) fn size(&self, object: &Object) -> u32 {
        // The last two are PSA's.
        let is_size = |name: &str| matches!(name, "size" | "n_counters" | "n_meters");
        let given = object.args.iter().find(|(name, _)| is_size(name));
        let size = given.and_then(|(_, e)| e.as_number()).unwrap_or(0);
        if size == 0 {
            let message = format!("`{}` has no cells: it keeps nothing", object.name);
            self.diagnostics
                .report(Diagnostic::warning("mismatch", object.span, message));
        }
        size
    }

    pub(super) fn direct_counter(&mut self, index: usize, object: &Object) {
        let Some(table) = self.direct_tables.get(&index) else {
            return self.unused(object);
        };
        let table = self.flat.tables[*table].name.clone();
        self.counter(object, None, Some(table));
    }

    /// A counter with cells, or one bound to a table, which has a cell for each entry.
    pub(super) fn counter(&mut self, object: &Object, size: Option<u32>, binding: Option<String>) {
        let counter = json::CounterArray {
            name: object.name.clone(),
            id: self.json.counter_arrays.len() as u32,
            source_info: self.source_info(object.span),
            size,
            is_direct: binding.is_some(),
            binding,
        };
        self.json.counter_arrays.push(counter);
    }

    pub(super) fn unused(&self, object: &Object) {
        let message = format!(
            "`{}` is not attached to any table that is applied",
            object.name
        );
        self.diagnostics
            .report(Diagnostic::warning("unused", object.span, message));
    }

    pub(super) fn direct_meter(&mut self, index: usize, object: &Object) {
        let Some(table) = self.direct_tables.get(&index).copied() else {
            return self.unused(object);
        };
        let Some(target) = self.meter_targets.get(&index).cloned() else {
            let message = format!("no action reads the direct meter `{}`", object.name);
            self.error("unread-meter", object.span, message);
            return;
        };
        let size = self.max_size(&self.flat.tables[table]);
        let binding = self.flat.tables[table].name.clone();
        let adjust = self.meter_adjusts.get(&index).copied().unwrap_or(0);
        self.meter((object, adjust), size, Some(binding), Some(target));
    }

    pub(super) fn meter(
        &mut self,
        (object, adjust_bytes): (&Object, u32),
        size: u32,
        binding: Option<String>,
        target: Option<json::FieldRef>,
    ) {
        let is_bytes = object.args.iter().any(
            |(_, e)| matches!(e.as_value(), Some(Value::Member(m)) if m == "bytes" || m == "BYTES"),
        );
        let id = self.json.meter_arrays.len() as u32;
        let meter = json::MeterArray {
            name: object.name.clone(),
            id,
            source_info: self.source_info(object.span),
            is_direct: binding.is_some(),
            size,
            rate_count: 2,
            unit: if is_bytes {
                json::MeterUnit::Bytes
            } else {
                json::MeterUnit::Packets
            },
            binding,
            result_target: target,
            adjust_bytes,
        };
        self.json.meter_arrays.push(meter);
    }

    fn register(&mut self, object: &Object) {
        let size = self.size(object);
        let width = match object.type_args.first().map(Type::stored) {
            Some(Type::Bits { width, .. }) if *width > 0 => *width,
            other => {
                let shown = other.map_or_else(String::new, |t| self.program.type_name(t));
                let message = format!("BMv2 registers hold bit<W> or int<W>, not `{shown}`");
                let help = "use one register for each field, or bit<1> for bool";
                self.error_with_help("unsupported-register", object.span, message, help);
                return;
            }
        };
        let id = self.json.register_arrays.len() as u32;
        let register = json::RegisterArray {
            name: object.name.clone(),
            id,
            source_info: self.source_info(object.span),
            size,
            bitwidth: width,
            initial_value: None,
            binding: None,
        };
        self.json.register_arrays.push(register);
    }
}

/// Each `{}` of a message takes one value; a struct or header has one for every field: `(a:{},b:{})`.
fn with_fields(message: &str, data: &Expr) -> String {
    let mut pieces = message.split("{}");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut values = data.members().into_iter();
    for piece in pieces {
        text += &values
            .next()
            .map_or("{}".to_owned(), |v| placeholder(&v.ty));
        text += piece;
    }
    text
}

fn placeholder(ty: &Type) -> String {
    let parts: Vec<String> = match ty {
        Type::Struct(s) => s
            .fields
            .iter()
            .map(|f| format!("{}:{}", f.name, placeholder(&f.ty)))
            .collect(),
        Type::Tuple(items) => items.iter().map(placeholder).collect(),
        Type::Stack(element, size) => vec![placeholder(element); *size as usize],
        _ => return "{}".to_owned(),
    };
    format!("({})", parts.join(","))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_struct_in_a_message_shows_its_fields() {
        let field = |name: &str, ty: Type| FieldType {
            name: name.to_owned(),
            ty,
            annotations: Vec::new(),
        };
        let pair = Type::Struct(Rc::new(crate::types::StructType {
            kind: StructKind::Header,
            name: "pair_t".to_owned(),
            args: Vec::new(),
            fields: vec![field("a", Type::bit(8)), field("b", Type::bit(16))].into(),
            annotations: Vec::new(),
            span: Span::default(),
        }));
        let value = |ty: &Type| Expr::var(0, ty.clone(), Span::default());
        let data = Expr::new(
            ExprKind::List(vec![value(&pair), value(&Type::Bool)]),
            Type::Tuple(Rc::new(vec![pair, Type::Bool])),
            Span::default(),
        );
        assert_eq!(with_fields("p={} b={} {}", &data), "p=(a:{},b:{}) b={} {}");
    }
}
