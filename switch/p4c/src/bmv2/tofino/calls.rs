//! Calls of externs of TNA as primitives.

use ebb_bmv2_json::{self as json, Value as Json};
use num_bigint::BigInt;

use super::super::backend::{Backend, Stage, hex_value};
use super::super::layout::Place;
use super::values::{choose, compare, concatenated, number, repeated, slice};
use crate::eval;
use crate::ir::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::source::Span;
use crate::types::{StructKind, Type};

impl Backend<'_> {
    /// A call of a method, or of a function if there is no object, whose value goes to `result`.
    pub(in super::super) fn tofino_call(
        &mut self,
        object: Option<usize>,
        name: &str,
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        if args.iter().any(|a| matches!(a.kind, ExprKind::Poison)) {
            return;
        }
        match object {
            Some(index) => self.tofino_method(index, name, args, result, span),
            None => self.tofino_function(name, args, result, span),
        }
    }

    /// Stores the value of a call, if it is wanted.
    pub(in super::super) fn give(&mut self, result: Option<&Expr>, value: Expr, span: Span) {
        if let Some(result) = result {
            let value = match value.ty.stored() == result.ty.stored() {
                true => value,
                false => value.cast(result.ty.clone()),
            };
            self.assign(result, &value, span);
        }
    }

    fn tofino_function(&mut self, name: &str, args: &[Expr], result: Option<&Expr>, span: Span) {
        match (name, args) {
            ("sizeInBytes" | "sizeInBits", [header]) => {
                let bits = u64::from(header.ty.width().unwrap_or(0));
                let size = if name == "sizeInBytes" {
                    bits / 8
                } else {
                    bits
                };
                self.give(result, number(size, 32, span), span);
            }
            ("max" | "min", [a, b]) => {
                let op = if name == "max" {
                    BinaryOp::Ge
                } else {
                    BinaryOp::Le
                };
                let chosen = choose(compare(op, a.clone(), b.clone()), a.clone(), b.clone());
                self.give(result, chosen, span);
            }
            ("funnel_shift_right", [target, high, low, amount]) => {
                let width = target.ty.width().unwrap_or(0);
                let both = Type::bit(2 * width);
                let joined = Expr::binary(BinaryOp::Concat, high.clone(), low.clone(), both, span);
                match amount
                    .as_number::<u32>()
                    .filter(|n| *n <= width && width > 0)
                {
                    Some(n) => self.assign(target, &slice(joined, n + width - 1, n), span),
                    None => self.missing("funnel_shift_right by as many bits", span),
                }
            }
            ("invalidate", [field]) => self.invalidate(field, span),
            ("verify", [_, _]) => self.missing("verify outside of parsers", span),
            _ => self.missing(name, span),
        }
    }

    /// A field that was never written: the port that is none, or zero.
    fn invalidate(&mut self, field: &Expr, span: Span) {
        if field.ty.is_header() {
            return self.set_valid(field, false, span);
        }
        let is_port =
            matches!(&field.kind, ExprKind::Field(_, name) if name == "ucast_egress_port");
        let width = field.ty.width().unwrap_or(1);
        let value = if is_port {
            eval::mask(width)
        } else {
            BigInt::default()
        };
        let nothing = Expr::int(value, Type::bit(width), span).cast(field.ty.clone());
        self.assign(field, &nothing, span);
    }

    fn tofino_method(
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
            ("Counter", "count", [cell, adjust])
                if self.counts_departing(index) && matches!(adjust.kind, ExprKind::DontCare) =>
            {
                let parameters = vec![Json::CounterArray(array), self.argument(cell)];
                self.emit("count_departing", parameters, span);
            }
            ("Counter", "count", [_, _]) if self.counts_departing(index) => {
                self.missing("adjust_byte_count of the bytes that leave", span);
            }
            ("Counter", "count", [cell, adjust]) => {
                let mut parameters = vec![Json::CounterArray(array), self.argument(cell)];
                if !matches!(adjust.kind, ExprKind::DontCare) {
                    parameters.push(self.argument(adjust));
                }
                self.emit("count", parameters, span);
            }
            ("DirectCounter", "count", _) if self.counts_departing(index) => {
                self.emit("count_departing", Vec::new(), span);
            }
            // The table counts its hits by itself.
            ("DirectCounter", "count", _) => {}
            ("Meter", "execute", [cell, others @ ..]) => {
                let colour = self.indexed_colour(array, cell, span);
                self.give_colour(index, colour, others, result, span);
            }
            ("DirectMeter", "execute", others) => {
                let colour = self.direct_colour(index, span);
                self.give_colour(index, colour, others, result, span);
            }
            ("Register", "read", [cell]) => self.read_register(array, index, cell, result, span),
            ("Register", "write", [cell, value]) => {
                // The method returns the value before.
                self.read_register(array.clone(), index, cell, result, span);
                self.write_register(array, cell, value, span);
            }
            ("DirectRegister", "read", []) => {
                let cell = self.entry_index(span);
                self.read_register(array, index, &cell, result, span);
            }
            ("DirectRegister", "write", [value]) => {
                let cell = self.entry_index(span);
                self.write_register(array, &cell, value, span);
            }
            // A register with one cell, which the control plane writes.
            ("RegisterParam", "read", []) => {
                self.read_register(array, index, &number(0, 32, span), result, span);
            }
            ("Lpf" | "Wred", "execute", [x, cell]) => {
                self.filter(array, x, cell.clone(), result, span);
            }
            ("DirectLpf" | "DirectWred", "execute", [x]) => {
                let cell = self.entry_index(span);
                self.filter(array, x, cell, result, span);
            }
            ("MathUnit", "execute", [x]) => self.math_unit(index, x, result, span),
            (_, "predicate", conditions) if extern_name.contains("RegisterAction") => {
                self.give(result, predicate(conditions, span), span);
            }
            ("Hash", "get", [data]) => self.hash(index, data, result, span),
            ("Random", "get", []) => {
                let Some(result) = result else { return };
                let most = eval::mask(result.ty.width().unwrap_or(1));
                let parameters = vec![
                    self.argument(result),
                    hex_value(0, 8),
                    hex_value(most, result.ty.width().unwrap_or(1)),
                ];
                self.emit("modify_field_rng_uniform", parameters, span);
            }
            ("Checksum", ..) => self.checksum_call(index, name, args, result, span),
            ("ParserCounter", ..) => self.parser_counter(index, name, args, result, span),
            // It says which of two packets that arrive together is dropped by a parser that has no room.
            ("ParserPriority", "set", _) => {}
            ("Mirror", "emit", [session, header @ ..]) => {
                self.deparser_request(index, "mirror", "mirror_type", span, |b| {
                    let header = header.first();
                    let mut parameters = vec![b.argument(session)];
                    parameters.extend(header.and_then(|h| b.header_in_front(h, span)));
                    b.emit("mirror", parameters, span);
                });
            }
            ("Resubmit", "emit", header) => {
                self.deparser_request(index, "resubmit", "resubmit_type", span, |b| {
                    let header = header.first();
                    let header = header.and_then(|h| b.header_in_front(h, span));
                    b.emit("resubmit_with", header.into_iter().collect(), span);
                });
            }
            ("Digest", "pack", [data]) => {
                self.deparser_request(index, "digest", "digest_type", span, |b| {
                    b.pack_digest(&array, data, span);
                });
            }
            _ => self.missing(&format!("{extern_name}.{name}"), span),
        }
    }

    /// Whether a counter counts the bytes that leave the deparser of egress, not those that come to it.
    fn counts_departing(&self, counter: usize) -> bool {
        let wanted = self.flat.objects[counter].arg("true_egress_accounting");
        let wanted = wanted.and_then(Expr::as_value) == Some(&eval::Value::Bool(true));
        wanted && self.stage != Stage::Ingress
    }

    /// The output of a cell of a filter array for `x`.
    fn filter(&mut self, array: String, x: &Expr, cell: Expr, result: Option<&Expr>, span: Span) {
        let parameters = |to: Json, b: &Self| {
            let (cell, x) = (b.argument(&cell), b.argument(x));
            vec![to, Json::FilterArray(array), cell, x]
        };
        // A filter sees its input, whether its output is wanted or not.
        let made = self.temp(&Type::bit(32), span);
        let parameters = parameters(self.argument(&made), self);
        self.emit("filter", parameters, span);
        self.give(result, made, span);
    }

    /// `factor * op(x)`, of which the constructor has the factor as a number or as a quotient.
    fn math_unit(&mut self, index: usize, x: &Expr, result: Option<&Expr>, span: Span) {
        const OPS: [&str; 6] = ["MUL", "SQR", "SQRT", "DIV", "RSQR", "RSQRT"];
        let object = &self.flat.objects[index];
        let number = |name: &str| object.arg(name).and_then(Expr::as_number::<u64>);
        let op = match object.arg("op").and_then(Expr::as_value) {
            Some(eval::Value::Member(op)) => OPS.iter().position(|of| *of == op),
            _ => None,
        };
        let factor = match (number("factor"), number("A"), number("B")) {
            (Some(factor), ..) => Some((factor, 1)),
            (None, Some(a), Some(b)) if b > 0 => Some((a, b)),
            _ => None,
        };
        let (Some(op), Some((a, b))) = (op, factor) else {
            return self.missing("MathUnit of a table or of a negative factor", span);
        };
        let Some(result) = result else { return };
        let width = result.ty.width().unwrap_or(0);
        let parameters = vec![
            self.argument(result),
            self.argument(x),
            hex_value(op as u64, 8),
            hex_value(a, 64),
            hex_value(b, 64),
            hex_value(u64::from(width), 8),
        ];
        self.emit("math_unit", parameters, span);
    }

    /// The cell of a direct register: the index of the entry whose action runs.
    fn entry_index(&mut self, span: Span) -> Expr {
        let index = self.temp(&Type::bit(32), span);
        let parameters = vec![self.argument(&index)];
        self.emit("entry_index", parameters, span);
        index
    }

    /// The value that the program has for a colour: that of the constructor, or of MeterColor_t, where red is 3. A
    /// colour that the packet comes with can only get worse.
    fn give_colour(
        &mut self,
        meter: usize,
        colour: Expr,
        others: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        let object = &self.flat.objects[meter];
        let value_of = |name: &str, usual: u64| {
            let given = object.arg(name).and_then(Expr::as_number::<u64>);
            number(given.unwrap_or(usual), 8, span)
        };
        let [green, yellow, red] =
            [("green", 0), ("yellow", 1), ("red", 3)].map(|(name, usual)| value_of(name, usual));
        let mut colour = colour;
        if let [before, _] = others
            && !matches!(before.kind, ExprKind::DontCare)
        {
            let before = before.clone().cast(Type::bit(8));
            let is_red = compare(BinaryOp::Eq, before.clone(), number(3, 8, span));
            let before = choose(is_red, number(2, 8, span), before);
            let worse = compare(BinaryOp::Gt, before.clone(), colour.clone());
            let seen = self.temp(&Type::bit(8), span);
            self.assign(&seen, &choose(worse, before, colour), span);
            colour = seen;
        }
        if let Some(adjust) = others.last() {
            self.adjust_meter(meter, adjust, span);
        }
        let is = |n: u64| compare(BinaryOp::Eq, colour.clone(), number(n, 8, span));
        let value = choose(is(0), green, choose(is(1), yellow, red));
        self.give(result, value, span);
    }

    /// Notes how many bytes of each packet a meter leaves out: a constant, the same in all its calls.
    fn adjust_meter(&mut self, meter: usize, adjust: &Expr, span: Span) {
        let bytes = match adjust.kind {
            ExprKind::DontCare => Some(0),
            _ => adjust.as_number::<u32>(),
        };
        let Some(bytes) = bytes else {
            return self.missing("adjust_byte_count that is not constant", span);
        };
        if *self.meter_adjusts.entry(meter).or_insert(bytes) != bytes {
            self.missing("second adjust_byte_count of a meter", span);
        }
    }

    fn hash(&mut self, index: usize, data: &Expr, result: Option<&Expr>, span: Span) {
        let Some(algorithm) = self.hash_algorithm(index) else {
            return;
        };
        let Some(result) = result else { return };
        let width = result.ty.width().unwrap_or(0);
        if algorithm == "identity" {
            if let Some(bits) = concatenated(data) {
                self.give(Some(result), bits, span);
            }
            return;
        }
        if width > 64 {
            return self.missing("Hash of more than 64 bits", span);
        }
        let leaves = self.symmetric(index, data.leaves(), span);
        let input = self.fields_of_leaves(leaves, span);
        let Some(bits) = self.repeated_bits(index).filter(|bits| *bits < width) else {
            self.emit_hash(result, None, (&algorithm, input), None, span);
            return self.make_configurable(index, width);
        };
        let once = self.temp(&Type::bit(bits), span);
        self.emit_hash(&once, None, (&algorithm, input), None, span);
        self.make_configurable(index, bits);
        self.give(Some(result), repeated(&once, width.div_ceil(bits)), span);
    }

    /// Says of the calculation that was made last how the control plane can set the hash that it belongs to.
    fn make_configurable(&mut self, hash: usize, bits: u32) {
        let (Some(call), Some(last)) = (self.hashes.get(&hash), self.json.calculations.last_mut())
        else {
            return;
        };
        let fields = call.fields.iter().map(|field| field.name.clone());
        last.configurable = Some(json::Configurable {
            name: self.flat.objects[hash].name.clone(),
            bits,
            fields: fields.collect(),
        });
    }

    /// Puts `base + hash modulo max` into a variable of up to 64 bits; without `max` as much of the hash as it holds.
    pub(in super::super) fn emit_hash(
        &mut self,
        result: &Expr,
        base: Option<&Expr>,
        (algorithm, input): (&str, Vec<json::CalculationInput>),
        max: Option<&Expr>,
        span: Span,
    ) {
        let calculation = Json::Calculation(self.calculation_named(algorithm, input, span));
        let width = result.ty.width().unwrap_or(0);
        if width > 63 && max.is_none() {
            let parameters = vec![self.argument(result), calculation];
            return self.emit("whole_hash", parameters, span);
        }
        let parameters = vec![
            self.argument(result),
            base.map_or(hex_value(0, 8), |base| self.argument(base)),
            calculation,
            max.map_or_else(
                || hex_value(1u64 << width, width + 1),
                |max| self.argument(max),
            ),
        ];
        self.emit("modify_field_with_hash_based_offset", parameters, span);
    }

    /// The inputs of a hash; of a pair that `@symmetric` names the smaller comes first.
    fn symmetric(&mut self, hash: usize, mut leaves: Vec<Expr>, span: Span) -> Vec<Expr> {
        let annotations = &self.flat.objects[hash].annotations;
        let pairs = annotations.iter().filter(|a| a.name.text == "symmetric");
        let pairs: Vec<Vec<String>> = pairs
            .map(|a| crate::annotations::strings(&a.body))
            .collect();
        for pair in pairs {
            let place = |name: &String| leaves.iter().position(|leaf| is_path(leaf, name));
            let [Some(a), Some(b)] = [pair.first(), pair.get(1)].map(|name| name.and_then(place))
            else {
                self.missing("@symmetric of what is no input of the hash", span);
                continue;
            };
            let is_less = compare(BinaryOp::Le, leaves[a].clone(), leaves[b].clone());
            let [first, second] = [a, b].map(|at| self.temp(&leaves[at].ty, span));
            self.assign(
                &first,
                &choose(is_less.clone(), leaves[a].clone(), leaves[b].clone()),
                span,
            );
            self.assign(
                &second,
                &choose(is_less, leaves[b].clone(), leaves[a].clone()),
                span,
            );
            (leaves[a], leaves[b]) = (first, second);
        }
        leaves
    }

    /// The complement of the one's complement sum of the data, in a new variable.
    pub(in super::super) fn internet_checksum(&mut self, data: &Expr, span: Span) -> Expr {
        let input = self.fields_of(data, span);
        let calculation = self.calculation_named("csum16", input, span);
        let sum = self.temp(&Type::bit(16), span);
        let parameters = vec![
            self.argument(&sum),
            hex_value(0, 8),
            Json::Calculation(calculation),
            hex_value(0x1_0000, 17),
        ];
        self.emit("modify_field_with_hash_based_offset", parameters, span);
        sum
    }

    fn checksum_call(
        &mut self,
        index: usize,
        name: &str,
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        let bits = Type::bit(16);
        let complement = |e: Expr| {
            let kind = ExprKind::Unary(UnaryOp::Complement, Box::new(e));
            Expr::new(kind, Type::bit(16), span)
        };
        match (name, args) {
            ("update", [data, zeros_as_ones]) => {
                let sum = self.internet_checksum(data, span);
                let wanted = zeros_as_ones.as_value() == Some(&eval::Value::Bool(true));
                let value = match wanted {
                    true => {
                        let zero = compare(BinaryOp::Eq, sum.clone(), number(0, 16, span));
                        choose(zero, number(0xffff, 16, span), sum)
                    }
                    false => sum,
                };
                self.give(result, value, span);
            }
            ("add" | "subtract", [data]) => {
                let kept = self.kept(index, &bits, span);
                let sum = self.internet_checksum(data, span);
                let addend = if name == "add" { complement(sum) } else { sum };
                self.add_ones_complement(&kept, &addend, span);
            }
            ("verify", []) => {
                let kept = self.kept(index, &bits, span);
                // True is wrong.
                let wrong = compare(BinaryOp::Ne, kept, number(0xffff, 16, span));
                self.give(result, wrong, span);
            }
            ("get", []) => {
                let kept = self.kept(index, &bits, span);
                // A parser computes what a deparser adds to the rest, a deparser the checksum itself.
                let value = match self.stage {
                    Stage::Parser => kept,
                    _ => complement(kept),
                };
                self.give(result, value, span);
            }
            ("subtract_all_and_deposit", [residual]) => {
                let kept = self.kept(index, &bits, span);
                self.give(Some(residual), kept, span);
            }
            _ => self.missing(&format!("Checksum.{name}"), span),
        }
    }

    fn parser_counter(
        &mut self,
        index: usize,
        name: &str,
        args: &[Expr],
        result: Option<&Expr>,
        span: Span,
    ) {
        let bits = Type::bit(16);
        let kept = self.kept(index, &bits, span);
        let operation = |op, by: &Expr| {
            let by = by.clone().cast(Type::bit(16));
            Expr::binary(op, kept.clone(), by, Type::bit(16), span)
        };
        match (name, args) {
            ("set", [value]) => self.assign(&kept, &value.clone().cast(bits), span),
            ("increment", [by]) => {
                let value = operation(BinaryOp::Add, by);
                self.assign(&kept, &value, span);
            }
            ("decrement", [by]) => {
                let value = operation(BinaryOp::Sub, by);
                self.assign(&kept, &value, span);
            }
            ("is_zero", []) => {
                let zero = compare(BinaryOp::Eq, kept, number(0, 16, span));
                self.give(result, zero, span);
            }
            ("is_negative", []) => {
                let sign = slice(kept, 15, 15);
                let negative = compare(BinaryOp::Eq, sign, number(1, 1, span));
                self.give(result, negative, span);
            }
            _ => self.missing(
                &format!("ParserCounter.{name} with {} arguments", args.len()),
                span,
            ),
        }
    }

    /// A request of a deparser, made only if the metadata selects the object, where its constructor names the value.
    fn deparser_request(
        &mut self,
        object: usize,
        what: &str,
        selector: &str,
        span: Span,
        make: impl FnOnce(&mut Self),
    ) {
        if self.stage == Stage::Parser {
            return self.missing(&format!("{what} in parsers"), span);
        }
        let gress = match self.stage {
            Stage::Ingress => "ingress",
            _ => "egress",
        };
        let wanted = self.flat.objects[object].arg(selector);
        let metadata = format!("{gress}_intrinsic_metadata_for_deparser_t");
        let tofino = self.flat.tofino.as_ref();
        let var = tofino.and_then(|t| t.intrinsic.get(&metadata)).copied();
        let (Some(wanted), Some(var)) = (wanted, var) else {
            return make(self);
        };
        let root = Expr::var(var, self.flat.vars[var].ty.clone(), span);
        let field = Expr::field(root, selector, wanted.ty.clone());
        let is_selected = compare(BinaryOp::Eq, field, wanted.clone());
        let condition = self.data(&is_selected).wrapped();
        let skip = self.jump("_jump_if_zero", vec![condition], span);
        make(self);
        self.land_here([skip]);
    }

    /// A header that goes in front of a packet: the program's own, or one made of values.
    fn header_in_front(&mut self, value: &Expr, span: Span) -> Option<Json> {
        let is_header = matches!(&value.ty, Type::Struct(s) if s.kind == StructKind::Header);
        if !is_header {
            self.missing("mirror or resubmit with what is no header", span);
            return None;
        }
        if let Some(Place::Header(name)) = self.place(value) {
            return Some(Json::Header(name));
        }
        let made = self.temp(&value.ty, span);
        self.assign(&made, value, span);
        match self.place(&made) {
            Some(Place::Header(name)) => Some(Json::Header(name)),
            _ => None,
        }
    }

    /// The list of fields of a digest, which has the name of its object.
    pub(in super::super) fn digest_list(&mut self, name: &str, data: &Expr, span: Span) -> u32 {
        let mut elements = Vec::new();
        for leaf in data.leaves() {
            elements.extend(self.field_with(&leaf, span).map(Json::Field));
        }
        let id = self.json.learn_lists.len() as u32 + 1;
        let source_info = self.source_info(span);
        self.json.learn_lists.push(json::FieldList {
            id,
            name: name.to_owned(),
            source_info,
            elements,
        });
        id
    }
}

/// Whether an expression is the field with this path, whose first word is the name of a parameter.
fn is_path(e: &Expr, path: &str) -> bool {
    match (&e.kind, path.rsplit_once('.')) {
        (ExprKind::Field(base, name), Some((before, last))) => {
            name == last && is_path(base, before)
        }
        (ExprKind::Var(_), None) => true,
        _ => false,
    }
}

/// One bit for what held of the conditions of a register action: the bit whose number has bit i where condition i held.
fn predicate(conditions: &[Expr], span: Span) -> Expr {
    let mut value = number(1, 16, span);
    for (place, condition) in conditions.iter().enumerate() {
        if !matches!(condition.kind, ExprKind::DontCare) {
            let by = number(1 << place, 8, span);
            let shifted = Expr::binary(BinaryOp::Shl, value.clone(), by, Type::bit(16), span);
            value = choose(condition.clone(), shifted, value);
        }
    }
    value
}
