//! The BMv2 backend: elaborated program in, BMv2 JSON out.

mod actions;
mod applied;
mod assignments;
mod checksums;
mod controls;
mod deparser;
mod equality;
mod expressions;
mod externs;
mod layout;
mod parsers;
mod psa;
mod successors;
mod tables;
mod tofino;

use std::collections::{HashMap, HashSet};

use ebb_bmv2_json as json;
use num_bigint::BigInt;
use num_traits::Signed;

use crate::diagnostics::Diagnostics;
use crate::digests::{self, Digests};
use crate::elaborate::flat::Flat;
use crate::ir::{Expr, Program};
use crate::names::Names;
use crate::source::{SourceMap, Span};
use crate::types::Type;
use layout::{Layout, Place};

/// Which part of the program is being converted: some primitives only exist in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Parser,
    Ingress,
    Egress,
    Deparser,
}

struct Backend<'a> {
    program: &'a Program,
    flat: &'a Flat,
    sources: &'a SourceMap,
    diagnostics: &'a Diagnostics,
    json: json::Program,
    /// The primitives made so far of the action or state in work; [`Backend::apart`] begins another one.
    out: Vec<json::Primitive>,
    layout: Layout<'a>,
    stage: Stage,
    node_names: Names,
    /// JSON ids of the actions of the flat program.
    action_ids: HashMap<usize, u32>,
    /// JSON ids of field lists by their P4 number.
    field_lists: HashMap<BigInt, u32>,
    /// The field into which each direct meter puts its colour, by the index of the object.
    meter_targets: HashMap<usize, json::FieldRef>,
    /// The table of each direct counter and meter, by the index of the object.
    direct_tables: HashMap<usize, usize>,
    /// Bytes that each meter of Tofino leaves out of a packet, by the index of the object.
    meter_adjusts: HashMap<usize, u32>,
    profiles: HashSet<usize>,
    digests: Digests,
    /// Indices of learn lists in the JSON, by name.
    learn_lists: HashMap<String, Vec<usize>>,
    /// Variables that objects of Tofino keep while a packet passes, by the index of the object: the sum of a checksum,
    /// the value of a parser counter, the colour of a direct meter.
    kept: HashMap<usize, Expr>,
}

/// Generates the JSON. The result is only usable if no error was reported.
pub fn generate(
    program: &Program,
    flat: &Flat,
    sources: &SourceMap,
    diagnostics: &Diagnostics,
    source_name: &str,
) -> json::Program {
    let mut backend = Backend {
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
    };
    backend.run(source_name);
    let Backend {
        layout, mut json, ..
    } = backend;
    layout.finish(&mut json);
    json
}

impl Backend<'_> {
    fn run(&mut self, source_name: &str) {
        self.json.errors = self
            .program
            .errors
            .iter()
            .zip(0..)
            .map(|(name, number)| (name.clone(), number))
            .collect();
        self.enums();
        let flat = self.flat;
        match (&flat.tofino, &flat.psa) {
            (Some(tofino), _) => self.tofino(tofino),
            (None, Some(psa)) => self.psa(psa),
            (None, None) => self.v1model(),
        }
        self.json.program = Some(source_name.to_owned());
        self.json.meta = Some(json::Meta {
            compiler: Some(concat!("ebb-p4c ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..json::Meta::default()
        });
    }

    fn v1model(&mut self) {
        let flat = self.flat;
        self.field_list_annotations();
        let parser = self.parser(&flat.parser, "parser", 0);
        self.json.parsers = vec![parser];
        self.value_sets();
        self.deparser();
        self.controls();
        self.checksums();
        self.extern_instances();
    }

    fn controls(&mut self) {
        let flat = self.flat;
        self.stage = Stage::Ingress;
        let ingress = self.pipeline("ingress", 0, &flat.ingress);
        self.stage = Stage::Egress;
        let egress = self.pipeline("egress", 1, &flat.egress);
        self.json.pipelines = vec![ingress, egress];
    }

    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, span, message);
    }

    fn error_with_help(
        &self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.diagnostics.error_with_help(code, span, message, help);
    }

    /// Enums of the program without representation, whose members have numbers in the JSON only.
    fn enums(&mut self) {
        let used = self.program.enums.iter().filter(|e| {
            let library = self.sources.position(e.span).0.starts_with('<');
            e.underlying.is_none() && !library
        });
        self.json.enums = used
            .map(|e| json::Enum {
                name: e.name.clone(),
                entries: e.members.iter().cloned().zip(0..).collect(),
            })
            .collect();
    }

    fn source_info(&self, span: Span) -> Option<json::SourceInfo> {
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
    fn emit(&mut self, op: &str, parameters: Vec<json::Value>, span: Span) {
        let primitive = json::Primitive {
            op: op.to_owned(),
            parameters,
            source_info: self.source_info(span),
        };
        self.out.push(primitive);
    }

    /// Result of `make` and the primitives that it emits, which are not added to the action in work.
    fn apart<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> (T, Vec<json::Primitive>) {
        let outer = std::mem::take(&mut self.out);
        let made = make(self);
        (made, std::mem::replace(&mut self.out, outer))
    }

    fn temp(&mut self, ty: &Type, span: Span) -> Expr {
        self.layout.temp(ty, span)
    }

    /// Place that an expression refers to; none if it is not a place.
    fn place(&self, expr: &Expr) -> Option<Place> {
        self.layout.place(expr)
    }

    /// `<file stem><line>`, as p4c names what it generates.
    fn generated_name(&self, span: Span) -> String {
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
    fn field_with(&mut self, value: &Expr, span: Span) -> Option<json::FieldRef> {
        self.field_of(value).or_else(|| {
            let temp = self.temp(&value.ty, span);
            self.assign(&temp, value, span);
            self.field_of(&temp)
        })
    }

    /// The field an expression reads, if it is nothing but that.
    fn field_of(&self, expr: &Expr) -> Option<json::FieldRef> {
        match self.place(expr)? {
            Place::Field(field) => Some(field),
            _ => None,
        }
    }
}

/// `name`, `name_0`, `name_1`, .. for ids from 0, as p4c names what it generates.
fn numbered(name: &str, id: u32) -> String {
    match id.checked_sub(1) {
        None => name.to_owned(),
        Some(number) => format!("{name}_{number}"),
    }
}

/// A number in hexadecimal, padded to the bytes of `width` bits.
fn hex(value: &BigInt, width: u32) -> json::HexStr {
    let digits = (2 * width.div_ceil(8)).max(1) as usize;
    let sign = if value.is_negative() { "-" } else { "" };
    json::HexStr(format!("{sign}0x{:0digits$x}", value.abs()))
}

fn hex_value(value: impl Into<BigInt>, width: u32) -> json::Value {
    json::Value::Hexstr(hex(&value.into(), width))
}
