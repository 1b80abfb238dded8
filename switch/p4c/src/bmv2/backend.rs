//! State of the conversion, and the means that all parts of it use.

use std::collections::{BTreeMap, HashMap, HashSet};

use ebb_bmv2_json as json;
use num_bigint::BigInt;
use num_traits::Signed;

use super::layout::{Layout, Place};
use crate::diagnostics::Diagnostics;
use crate::digests::{self, Digests};
use crate::elaborate::flat::Flat;
use crate::hashes::{self, HashCall};
use crate::ir::{Expr, Program};
use crate::names::Names;
use crate::source::{SourceMap, Span};
use crate::types::Type;

/// Which part of the program is being converted: some primitives only exist in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Parser,
    Ingress,
    Egress,
    Deparser,
}

pub(super) struct Backend<'a> {
    pub(super) program: &'a Program,
    pub(super) flat: &'a Flat,
    pub(super) sources: &'a SourceMap,
    pub(super) diagnostics: &'a Diagnostics,
    pub(super) json: json::Program,
    /// The primitives made so far of the action or state in work; [`Backend::apart`] begins another one.
    pub(super) out: Vec<json::Primitive>,
    pub(super) layout: Layout<'a>,
    pub(super) stage: Stage,
    pub(super) node_names: Names,
    /// JSON ids of the actions of the flat program.
    pub(super) action_ids: HashMap<usize, u32>,
    /// JSON ids of field lists by their P4 number.
    pub(super) field_lists: HashMap<BigInt, u32>,
    /// The field into which each direct meter puts its colour, by the index of the object.
    pub(super) meter_targets: HashMap<usize, json::FieldRef>,
    /// The table of each direct counter and meter, by the index of the object.
    pub(super) direct_tables: HashMap<usize, usize>,
    /// Bytes that each meter of Tofino leaves out of a packet, by the index of the object.
    pub(super) meter_adjusts: HashMap<usize, u32>,
    pub(super) profiles: HashSet<usize>,
    pub(super) digests: Digests,
    /// Indices of learn lists in the JSON, by name.
    pub(super) learn_lists: HashMap<String, Vec<usize>>,
    /// Variables that objects of Tofino keep while a packet passes, by the index of the object: the sum of a checksum,
    /// the value of a parser counter, the colour of a direct meter.
    pub(super) kept: HashMap<usize, Expr>,
    /// Hashes that can be set at run time, by the index of the object.
    pub(super) hashes: BTreeMap<usize, HashCall>,
}

impl<'a> Backend<'a> {
    pub(super) fn new(
        program: &'a Program,
        flat: &'a Flat,
        sources: &'a SourceMap,
        diagnostics: &'a Diagnostics,
    ) -> Self {
        Backend {
            program,
            flat,
            sources,
            diagnostics,
            json: json::Program::default(),
            out: Vec::new(),
            layout: Layout::new(&flat.vars, flat.tofino.is_some(), diagnostics),
            stage: Stage::Parser,
            node_names: Names::default(),
            action_ids: HashMap::new(),
            field_lists: HashMap::new(),
            meter_targets: HashMap::new(),
            direct_tables: HashMap::new(),
            meter_adjusts: HashMap::new(),
            profiles: HashSet::new(),
            digests: digests::digests(flat),
            learn_lists: HashMap::new(),
            kept: HashMap::new(),
            hashes: hashes::of(flat),
        }
    }
}

impl Backend<'_> {
    pub(super) fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, span, message);
    }

    pub(super) fn error_with_help(
        &self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.diagnostics.error_with_help(code, span, message, help);
    }

    pub(super) fn source_info(&self, span: Span) -> Option<json::SourceInfo> {
        let (filename, line, column) = self.sources.position(span);
        if filename.is_empty() || filename.starts_with('<') {
            return None;
        }
        let fragment = self.sources.text(span);
        let first_line = fragment.lines().next().unwrap_or("");
        let shown = if fragment.lines().count() > 1 {
            format!("{first_line} ...")
        } else {
            first_line.to_owned()
        };
        Some(json::SourceInfo {
            filename: filename.to_owned(),
            line: line as u32,
            column: column as u32,
            source_fragment: shown,
        })
    }

    /// Adds a primitive to the action or state in work.
    pub(super) fn emit(&mut self, op: &str, parameters: Vec<json::Value>, span: Span) {
        let primitive = json::Primitive {
            op: op.to_owned(),
            parameters,
            source_info: self.source_info(span),
        };
        self.out.push(primitive);
    }

    /// Result of `make` and the primitives that it emits, which are not added to the action in work.
    pub(super) fn apart<T>(
        &mut self,
        make: impl FnOnce(&mut Self) -> T,
    ) -> (T, Vec<json::Primitive>) {
        let outer = std::mem::take(&mut self.out);
        let made = make(self);
        (made, std::mem::replace(&mut self.out, outer))
    }

    pub(super) fn temp(&mut self, ty: &Type, span: Span) -> Expr {
        self.layout.temp(ty, span)
    }

    /// Place that an expression refers to; none if it is not a place.
    pub(super) fn place(&self, expr: &Expr) -> Option<Place> {
        self.layout.place(expr)
    }

    /// `<file stem><line>`, as p4c names what it generates.
    pub(super) fn generated_name(&self, span: Span) -> String {
        let (file, line, _) = self.sources.position(span);
        let stem = std::path::Path::new(file)
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or("act");
        let clean: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        format!("{clean}{line}")
    }

    /// The field that holds a value: its own, or that of a new variable, which it is assigned to.
    pub(super) fn field_with(&mut self, value: &Expr, span: Span) -> Option<json::FieldRef> {
        self.field_of(value).or_else(|| {
            let temp = self.temp(&value.ty, span);
            self.assign(&temp, value, span);
            self.field_of(&temp)
        })
    }

    /// The field an expression reads, if it is nothing but that.
    pub(super) fn field_of(&self, expr: &Expr) -> Option<json::FieldRef> {
        match self.place(expr)? {
            Place::Field(field) => Some(field),
            _ => None,
        }
    }
}

/// `name`, `name_0`, `name_1`, .. for ids from 0, as p4c names what it generates.
pub(super) fn numbered(name: &str, id: u32) -> String {
    match id.checked_sub(1) {
        None => name.to_owned(),
        Some(number) => format!("{name}_{number}"),
    }
}

/// A number in hexadecimal, padded to the bytes of `width` bits.
pub(super) fn hex(value: &BigInt, width: u32) -> json::HexStr {
    let digits = (2 * width.div_ceil(8)).max(1) as usize;
    let sign = if value.is_negative() { "-" } else { "" };
    json::HexStr(format!("{sign}0x{:0digits$x}", value.abs()))
}

pub(super) fn hex_value(value: impl Into<BigInt>, width: u32) -> json::Value {
    json::Value::Hexstr(hex(&value.into(), width))
}
