//! Objects of TNA in the JSON: arrays, and the algorithms of hashes.

use ebb_bmv2_json as json;

use super::super::backend::Backend;
use super::super::backend::hex;
use super::values;
use crate::elaborate::flat::Object;
use crate::eval::Value;
use crate::ir::{Expr, ExprKind};
use crate::types::Type;

impl Backend<'_> {
    /// Declares counters, meters and registers. Other objects are written where statements use them.
    pub(super) fn tofino_instances(&mut self) {
        let flat = self.flat;
        for (index, object) in flat.objects.iter().enumerate() {
            match object.extern_name.as_str() {
                "Counter" => self.counter(object, Some(self.size(object)), None),
                "DirectCounter" => self.direct_counter(index, object),
                "Meter" => {
                    let adjust = self.meter_adjusts.get(&index).copied().unwrap_or(0);
                    self.meter((object, adjust), self.size(object), None, None);
                }
                "DirectMeter" => self.metered(index, object),
                "Register" => self.register_array(object, self.size(object), None),
                "DirectRegister" => self.direct_register(index, object),
                "Lpf" | "Wred" => self.filter_array(object, self.size(object), None),
                "DirectLpf" | "DirectWred" => {
                    if let Some((size, table)) = self.only_user(index, object, "filter") {
                        self.filter_array(object, size, Some(table));
                    }
                }
                "RegisterParam" => self.register_array(object, 1, None),
                _ => {}
            }
        }
    }

    /// A direct meter, which has a colour even if no action uses it.
    pub(in super::super) fn metered(&mut self, index: usize, object: &Object) {
        if !self.meter_targets.contains_key(&index) {
            let colour = self.kept(index, &Type::bit(8), object.span);
            if let Some(field) = self.field_of(&colour) {
                self.meter_targets.insert(index, field);
            }
        }
        self.direct_meter(index, object);
    }

    /// A register with a cell for each entry of the table whose actions use it.
    fn direct_register(&mut self, index: usize, object: &Object) {
        if let Some((size, table)) = self.only_user(index, object, "register") {
            self.register_array(object, size, Some(table));
        }
    }

    /// Size and name of the one table whose actions use a direct object; an error if there is none, or another.
    fn only_user(&self, index: usize, object: &Object, kind: &str) -> Option<(u32, String)> {
        let code = if kind == "register" {
            "unsupported-register"
        } else {
            "unsupported-extern"
        };
        let mut users = self.flat.users(index);
        let Some(table) = users.next() else {
            let message = format!(
                "no action of a table uses the direct {kind} `{}`",
                object.name
            );
            self.error(code, object.span, message);
            return None;
        };
        if let Some(other) = users.next() {
            let message = format!(
                "the direct {kind} `{}` is used by the tables `{}` and `{}`; it belongs to one",
                object.name, table.name, other.name
            );
            self.error(code, object.span, message);
            return None;
        }
        Some((self.max_size(table), table.name.clone()))
    }

    /// Low-pass filters or random early detection.
    fn filter_array(&mut self, object: &Object, size: u32, binding: Option<String>) {
        let value_of = |name| object.arg(name).and_then(Expr::as_number).unwrap_or(0);
        let kind = match object.extern_name.as_str() {
            "Lpf" | "DirectLpf" => json::FilterKind::Lpf,
            _ => json::FilterKind::Wred {
                drop_value: value_of("drop_value"),
                no_drop_value: value_of("no_drop_value"),
            },
        };
        let array = json::FilterArray {
            name: object.name.clone(),
            id: self.json.filter_arrays.len() as u32,
            source_info: self.source_info(object.span),
            size,
            kind,
            binding,
        };
        self.json.filter_arrays.push(array);
    }

    pub(in super::super) fn register_array(
        &mut self,
        object: &Object,
        size: u32,
        binding: Option<String>,
    ) {
        let ty = object.type_args.first();
        let Some(width) = ty.and_then(Type::width).filter(|width| *width > 0) else {
            let shown = ty.map_or_else(String::new, |t| self.program.type_name(t));
            let message = format!("a register cannot hold `{shown}`");
            return self.error("unsupported-register", object.span, message);
        };
        let initial = object.arg("initial_value").and_then(values::concatenated);
        let number = initial.and_then(|value| self.constant_bits(&value));
        let array = json::RegisterArray {
            name: object.name.clone(),
            id: self.json.register_arrays.len() as u32,
            source_info: self.source_info(object.span),
            size,
            bitwidth: width,
            initial_value: number.filter(|n| n.bits() > 0).map(|n| hex(&n, width)),
            binding,
        };
        self.json.register_arrays.push(array);
    }

    /// The bits of constants one after the other; none if one is not constant.
    fn constant_bits(&self, value: &Expr) -> Option<num_bigint::BigInt> {
        match &value.kind {
            ExprKind::Binary(_, high, low) => {
                let low_width = low.ty.width()?;
                Some((self.constant_bits(high)? << low_width) + self.constant_bits(low)?)
            }
            ExprKind::Cast(inner) => self.constant_bits(inner),
            _ => self.key_number(value),
        }
    }

    /// The JSON's name of a hash object's algorithm. None: it has none, which is reported.
    pub(crate) fn hash_algorithm(&mut self, hash: usize) -> Option<String> {
        let object = &self.flat.objects[hash];
        let Some(Value::Member(algo)) = object.arg("algo").and_then(Expr::as_value) else {
            return None;
        };
        Some(match algo.as_str() {
            "XOR8" => "xor8".to_owned(),
            "XOR16" => "xor16".to_owned(),
            "XOR32" => "xor32".to_owned(),
            "CRC8" => "crc8_custom".to_owned(),
            "CRC16" => "crc16".to_owned(),
            // A random matrix of bits on the chip, which is not published.
            "CRC32" | "RANDOM" => "crc32".to_owned(),
            "CRC64" => crc(64, "0x42f0e1eba9ea3693", false, "0x0", "0x0"),
            "IDENTITY" => "identity".to_owned(),
            _ => {
                let polynomial = match object.arg("poly").map(|poly| &poly.kind) {
                    Some(ExprKind::Instance(poly)) => self.polynomial(*poly),
                    _ => None,
                };
                if polynomial.is_none() {
                    let message = "a hash of algorithm CUSTOM needs a CRCPolynomial";
                    self.error("unsupported-extern", object.span, message);
                }
                polynomial?
            }
        })
    }

    /// Bits of a CRC that fills a wider result by being repeated, lowest bits first; `None`: zeros fill it.
    pub(super) fn repeated_bits(&self, hash: usize) -> Option<u32> {
        let object = &self.flat.objects[hash];
        let Some(Value::Member(algo)) = object.arg("algo").and_then(Expr::as_value) else {
            return None;
        };
        match algo.as_str() {
            "CRC8" => Some(8),
            "CRC16" => Some(16),
            "CRC32" => Some(32),
            "CUSTOM" => {
                let ExprKind::Instance(index) = object.arg("poly")?.kind else {
                    return None;
                };
                let polynomial = &self.flat.objects[index];
                let extended = polynomial.arg("extended")?.as_value()?;
                let width = polynomial.type_args.first().and_then(Type::width);
                width.filter(|_| matches!(extended, Value::Bool(true)))
            }
            _ => None,
        }
    }

    /// A polynomial of the program as an algorithm.
    fn polynomial(&self, index: usize) -> Option<String> {
        let object = &self.flat.objects[index];
        let width = object.type_args.first().and_then(Type::width)?;
        let number = |name: &str| {
            let value = self.key_number(object.arg(name)?)?;
            Some(format!("{value:#x}"))
        };
        let reversed = matches!(object.arg("reversed")?.as_value()?, Value::Bool(true));
        if !(8..=64).contains(&width) {
            let message = format!("a CRC of {width} bits cannot be computed, only of 8 to 64");
            self.error("unsupported-extern", object.span, message);
            return None;
        }
        let (coeff, init, xor) = (number("coeff")?, number("init")?, number("xor")?);
        Some(crc(width, &coeff, reversed, &init, &xor))
    }
}

/// The name of a CRC with these parameters; the pipeline reads them from it.
fn crc(bits: u32, polynomial: &str, reversed: bool, init: &str, xor: &str) -> String {
    format!(
        "crc:{bits}:{polynomial}:{}:{init}:{xor}",
        u8::from(reversed)
    )
}
