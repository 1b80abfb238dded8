//! The BMv2 JSON format, as data: what the compiler emits and the switch loads.
//!
//! Field names, their order and the spelling of values are those of behavioral-model's
//! `docs/JSON_format.md`, version 2.23, so that a [`Program`] written here is read by
//! `simple_switch_grpc` and a file written by `p4c-bm2-ss` is read here. Unknown keys are ignored.
//! An absent key counts as null, and null as 0, false, an empty text or an empty list, wherever BMv2 does
//! the same, so that older and newer files load.

mod control;
mod externs;
mod headers;
mod old;
mod parsers;
mod value;

use serde::{Deserialize, Serialize};

pub use control::*;
pub use externs::*;
pub use headers::*;
pub use parsers::*;
pub use value::*;

/// Version of the format that [`Meta::default`] announces.
pub const FORMAT_VERSION: (u32, u32) = (2, 23);

/// A compiled P4 program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Types of headers and metadata.
    pub header_types: Vec<HeaderType>,
    /// Header and metadata instances; stacks and unions refer to them.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub header_stacks: Vec<HeaderStack>,
    /// Types of header unions.
    pub header_union_types: Vec<HeaderUnionType>,
    /// Header unions.
    pub header_unions: Vec<HeaderUnion>,
    /// Stacks of header unions.
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Fields that clone, resubmit and recirculate preserve.
    pub field_lists: Vec<FieldList>,
    /// Name and number of every P4 error.
    pub errors: Vec<(String, u32)>,
    /// Enums of the P4 program.
    pub enums: Vec<Enum>,
    /// Parsers; BMv2's v1model uses the first.
    pub parsers: Vec<Parser>,
    /// Value sets.
    pub parse_vsets: Vec<ParseVset>,
    /// Deparsers; BMv2's v1model uses the first.
    pub deparsers: Vec<Deparser>,
    /// Meters, direct ones too.
    pub meter_arrays: Vec<MeterArray>,
    /// Counters, direct ones too.
    pub counter_arrays: Vec<CounterArray>,
    /// Registers.
    pub register_arrays: Vec<RegisterArray>,
    /// Low-pass filters and random early detection, of Tofino alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter_arrays: Vec<FilterArray>,
    /// Hashes and checksum algorithms with their inputs.
    pub calculations: Vec<Calculation>,
    /// Fields of digests.
    pub learn_lists: Vec<FieldList>,
    /// Actions of all pipelines.
    pub actions: Vec<Action>,
    /// Ingress and egress.
    pub pipelines: Vec<Pipeline>,
    /// Checksums that are verified or updated.
    pub checksums: Vec<Checksum>,
    /// Headers whose fields BMv2 must keep as numbers, as the switch always does.
    pub force_arith: Vec<serde_json::Value>,
    /// Objects of other extern types.
    pub extern_instances: Vec<ExternInstance>,
    /// Names by which the target knows fields, with the fields.
    pub field_aliases: Vec<(String, FieldRef)>,
    /// `tna` or `t2na`, which ebb-switch runs, BMv2 does not: there are parsers, pipelines and deparsers called
    /// `ingress` and `egress`, and deparsers consist of primitives. None: v1model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Pipelines of a program for Tofino that has several, in their order; [`in_pipe`] says how their parts are called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<String>,
    /// Path of the P4 program. None: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Version of the format. None: an older one.
    #[serde(rename = "__meta__", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The name of a parser, control or deparser of the pipeline with this name and number. Those of pipeline 0 have no
/// prefix.
pub fn in_pipe(pipe: &str, number: u32, part: &str) -> String {
    match number {
        0 => part.to_owned(),
        _ => format!("{pipe}.{part}"),
    }
}

/// Version of the format, and the compiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Name of the compiler. None: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            version: FORMAT_VERSION,
            compiler: None,
        }
    }
}

/// Where in the P4 source an object comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Path of the P4 file.
    #[serde(default)]
    pub filename: String,
    /// Line, from 1.
    #[serde(default)]
    pub line: u32,
    /// Column.
    #[serde(default)]
    pub column: u32,
    /// Text there, in one line.
    #[serde(default)]
    pub source_fragment: String,
}

/// Reasons why a file is not a program.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum FormatError {
    #[error("not a BMv2 JSON program: {0}; compile the P4 source with ebb-p4c or p4c-bm2-ss")]
    Json(#[from] serde_json::Error),
    #[error(
        "BMv2 JSON of version {0}.{1} cannot be read: major version 2 is expected; \
         compile the P4 source again with ebb-p4c or p4c-bm2-ss"
    )]
    Version(u32, u32),
}

impl Program {
    /// Reads a file. Older forms are converted; unknown keys are ignored.
    pub fn from_json(text: &[u8]) -> Result<Program, FormatError> {
        let mut program: Program = match serde_json::from_slice(text) {
            Ok(program) => program,
            // If that does not help, the first error is reported: it has the place in the file.
            Err(error) => old::without_nulls(text).ok_or(error)?,
        };
        if let Some(meta) = &program.meta
            && meta.version.0 != FORMAT_VERSION.0
        {
            return Err(FormatError::Version(meta.version.0, meta.version.1));
        }
        old::renew(&mut program);
        Ok(program)
    }

    /// Indented text, as p4c writes it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a Program has only string keys")
    }
}
