//! Programs for PSA: two parsers, two deparsers made of primitives, and the externs of PSA.
//!
//! The JSON is that of programs for Tofino (see [`super::tofino`]) with `psa` as its architecture. Field lists name
//! what the deparsers send to the parsers of another pass.

use ebb_bmv2_json::{self as json, Value as Json};

use super::backend::{Backend, hex_value};
use super::tofino::values::{choose, compare, concatenated, number};
use crate::elaborate::flat::Psa;
use crate::eval::Value;
use crate::ir::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::source::Span;
use crate::types::{StructKind, Type};

impl Backend<'_> {
    /// Converts a program for PSA.
    pub(super) fn psa(&mut self, psa: &Psa) {
        self.json.architecture = Some(self.program.architecture.name().to_owned());
        self.layout.declare_own_standard();
        self.parsers_of(&psa.pipe, 0);
        self.value_sets();
        self.controls_of(&psa.pipe, 0);
        self.psa_instances();
        for (name, var) in &psa.standard {
            self.alias_fields(name, *var);
        }
        for (id, (name, var)) in (1..).zip(&psa.carried) {
            let ty = self.flat.vars[*var].ty.clone();
            let mut elements = Vec::new();
            self.carried(&Expr::var(*var, ty, Span::default()), &mut elements);
            self.json.field_lists.push(json::FieldList {
                id,
                name: (*name).to_owned(),
                source_info: None,
                elements,
            });
        }
    }

    /// Aliases by which the switch finds the fields of the architecture's metadata.
    fn alias_fields(&mut self, name: &str, var: usize) {
        let ty = self.flat.vars[var].ty.clone();
        let root = Expr::var(var, ty.clone(), Span::default());
        let fields = ty.as_struct().map(|s| s.fields.iter());
        for field in fields.into_iter().flatten() {
            let member = Expr::field(root.clone(), &field.name, field.ty.clone());
            if let Some(place) = self.field_of(&member) {
                if field.name == "class_of_service" && name == "psa_ingress_output_metadata_t" {
                    let alias = "intrinsic_metadata.priority".to_owned();
                    self.layout.alias(alias, place.clone());
                }
                self.layout.alias(format!("{name}.{}", field.name), place);
            }
        }
    }

    /// The fields of a value, those of headers with their validity.
    fn carried(&self, value: &Expr, elements: &mut Vec<Json>) {
        if matches!(&value.ty, Type::Struct(s) if s.kind == StructKind::Header) {
            let headers = self.layout.header_instances(value);
            elements.extend(headers.into_iter().map(|name| Json::field(name, "$valid$")));
        }
        match &value.ty {
            Type::Struct(_) | Type::Stack(..) | Type::Tuple(_) => {
                for member in value.members() {
                    self.carried(&member, elements);
                }
            }
            _ => elements.extend(self.field_of(value).map(Json::Field)),
        }
    }

    /// Declares counters, meters and registers.
    fn psa_instances(&mut self) {
        let flat = self.flat;
        for (index, object) in flat.objects.iter().enumerate() {
            match object.extern_name.as_str() {
                "Counter" => self.counter(object, Some(self.size(object)), None),
                "DirectCounter" => self.direct_counter(index, object),
                "Meter" => self.meter((object, 0), self.size(object), None, None),
                "DirectMeter" => self.metered(index, object),
                "Register" => self.register_array(object, self.size(object), None),
                "packet_in" | "packet_out" | "ActionProfile" | "ActionSelector" | "Hash"
                | "Checksum" | "InternetChecksum" | "Random" | "Digest" => {}
                "PacketReplicationEngine" | "BufferingQueueingEngine" => {}
                other => self.missing(other, object.span),
            }
        }
    }

    /// A call of a method, or of a function if there is no object, whose value goes to `result`.
    pub(super) fn psa_call(
        &mut self,
        object: Option<usize>,
        (name, type_args): (&str, &[Type]),
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        if args.iter().any(|a| matches!(a.kind, ExprKind::Poison)) {
            return;
        }
        match object {
            Some(index) => self.psa_method(index, name, args, result, span),
            None => match psa_function(name, args, span) {
                Some(value) => self.give(result, value, span),
                None if matches!(name, "assert" | "assume" | "verify") => {
                    self.extern_call(None, name, type_args, args, span);
                }
                None => self.missing(name, span),
            },
        }
    }

    fn psa_method(
        &mut self,
        index: usize,
        name: &str,
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        let Some(object) = self.flat.objects.get(index) else {
            return;
        };
        let (extern_name, array) = (object.extern_name.as_str(), object.name.clone());
        match (extern_name, name, args) {
            ("packet_out", "emit", [headers]) => self.emit_headers(headers, span),
            ("Counter", "count", [cell]) => {
                let parameters = vec![Json::CounterArray(array), self.argument(cell)];
                self.emit("count", parameters, span);
            }
            // The table counts its hits by itself.
            ("DirectCounter", "count", []) => {}
            ("Meter", "execute", [cell, before @ ..]) => {
                let colour = self.indexed_colour(array, cell, span);
                self.give_psa_colour(colour, before.first(), result, span);
            }
            ("DirectMeter", "execute", before) => {
                let colour = self.direct_colour(index, span);
                self.give_psa_colour(colour, before.first(), result, span);
            }
            ("Register", "read", [cell]) => self.read_register(array, index, cell, result, span),
            ("Register", "write", [cell, value]) => self.write_register(array, cell, value, span),
            ("Random", "read", []) => {
                let Some(result) = result else { return };
                let (Some(min), Some(max)) = (object.arg("min"), object.arg("max")) else {
                    return;
                };
                let parameters = [result, min, max].map(|e| self.argument(e));
                self.emit("modify_field_rng_uniform", parameters.into(), span);
            }
            ("Hash", "get_hash", _) => self.psa_hash(index, args, result, span),
            ("InternetChecksum", ..) => self.psa_checksum(index, name, args, result, span),
            ("Checksum", ..) if psa_algorithm(self, index, "hash") == Some("csum16") => {
                let name = if name == "update" { "add" } else { name };
                self.psa_checksum(index, name, args, result, span);
            }
            ("Checksum", ..) => self.missing("Checksum but of ONES_COMPLEMENT16", span),
            ("Digest", "pack", [data]) => self.pack_digest(&array, data, span),
            _ => self.missing(&format!("{extern_name}.{name}"), span),
        }
    }

    /// A colour as PSA numbers it. One that the packet comes with can only get worse.
    fn give_psa_colour(
        &mut self,
        colour: Expr,
        before: Option<&Expr>,
        result: Option<&Expr>,
        span: Span,
    ) {
        let Some(result) = result else { return };
        let is = |of: &Expr, n: u64| {
            compare(
                BinaryOp::Eq,
                of.clone(),
                number(n, of.ty.width().unwrap_or(32), span),
            )
        };
        let mut colour = colour;
        if let Some(before) = before {
            // Red is 0, green 1, yellow 2.
            let seen = self.temp(&Type::bit(32), span);
            self.assign(&seen, before, span);
            let [green, yellow, red] = [0, 1, 2].map(|n| number(n, 8, span));
            let severity = choose(is(&seen, 1), green, choose(is(&seen, 2), yellow, red));
            let worse = compare(BinaryOp::Gt, severity.clone(), colour.clone());
            let chosen = self.temp(&Type::bit(8), span);
            self.assign(&chosen, &choose(worse, severity, colour), span);
            colour = chosen;
        }
        let [red, green, yellow] = [0, 1, 2].map(|n| number(n, 32, span));
        let value = choose(is(&colour, 0), green, choose(is(&colour, 1), yellow, red));
        self.assign(result, &value, span);
    }

    fn psa_hash(&mut self, index: usize, args: &[Expr], result: Option<&Expr>, span: Span) {
        let Some(algorithm) = psa_algorithm(self, index, "algo") else {
            return self.missing("Hash of a custom CRC", span);
        };
        let Some(result) = result else { return };
        let width = result.ty.width().unwrap_or(0);
        let (base, data, max) = match args {
            [data] => (None, data, None),
            [base, data, max] => (Some(base), data, Some(max)),
            _ => return,
        };
        if algorithm == "identity" && base.is_none() {
            if let Some(bits) = concatenated(data) {
                self.give(Some(result), bits, span);
            }
            return;
        }
        if width > 64 {
            return self.missing("Hash of more than 64 bits", span);
        }
        let mut input = self.fields_of(data, span);
        // Bits that are no whole bytes are filled up in front, as on psa_switch.
        let bits: u32 = data
            .leaves()
            .iter()
            .filter_map(|leaf| leaf.ty.width())
            .sum();
        let missing = bits.next_multiple_of(8) - bits;
        if missing > 0 {
            let zeros = json::CalculationInput {
                value: hex_value(0, missing),
                bitwidth: Some(missing),
            };
            input.insert(0, zeros);
        }
        self.emit_hash(result, base, (algorithm, input), max, span);
    }

    /// The sum of a checksum is kept in a variable; its complement is the checksum.
    fn psa_checksum(
        &mut self,
        index: usize,
        name: &str,
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        let kept = self.kept(index, &Type::bit(16), span);
        let complement = |e: Expr| {
            let kind = ExprKind::Unary(UnaryOp::Complement, Box::new(e));
            Expr::new(kind, Type::bit(16), span)
        };
        match (name, args) {
            ("clear", []) => self.assign(&kept, &number(0, 16, span), span),
            ("add" | "subtract", [data]) => {
                let sum = self.internet_checksum(data, span);
                let addend = if name == "add" { complement(sum) } else { sum };
                self.add_ones_complement(&kept, &addend, span);
            }
            ("get", []) => self.give(result, complement(kept), span),
            ("get_state", []) => self.give(result, kept, span),
            ("set_state", [value]) => self.assign(&kept, value, span),
            _ => self.missing(&format!("InternetChecksum.{name}"), span),
        }
    }
}

/// The switch's name of the algorithm that an object is constructed with; none of those that it has not.
fn psa_algorithm(backend: &Backend<'_>, object: usize, argument: &str) -> Option<&'static str> {
    algorithm_named(backend.flat.objects[object].arg(argument)?)
}

/// The switch's name of a member of `PSA_HashAlgorithm_t`.
pub(super) fn algorithm_named(member: &Expr) -> Option<&'static str> {
    let Some(Value::Member(name)) = member.as_value() else {
        return None;
    };
    Some(match name.as_str() {
        "IDENTITY" => "identity",
        "CRC32" | "TARGET_DEFAULT" => "crc32",
        "CRC16" => "crc16",
        "ONES_COMPLEMENT16" => "csum16",
        _ => return None,
    })
}

/// The fate of a packet, as deparsers ask for it.
fn psa_function(name: &str, args: &[Expr], span: Span) -> Option<Expr> {
    let is = |field: &str| Expr::field(args[0].clone(), field, Type::Bool);
    let both = |a: Expr, b: Expr| Expr::binary(BinaryOp::And, a, b, Type::Bool, span);
    let not = |a: Expr| Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(a)), Type::Bool, span);
    Some(match name {
        "psa_clone_i2e" | "psa_clone_e2e" => is("clone"),
        "psa_resubmit" => both(not(is("drop")), is("resubmit")),
        "psa_normal" => both(not(is("drop")), not(is("resubmit"))),
        "psa_recirculate" => {
            let port = Expr::field(args.get(1)?.clone(), "egress_port", Type::bit(32));
            let back = compare(BinaryOp::Eq, port, number(0xffff_fffa, 32, span));
            both(not(is("drop")), back)
        }
        _ => return None,
    })
}
