//! Parsers, value sets and deparsers.

use serde::{Deserialize, Serialize};

use crate::{HexStr, Primitive, SourceInfo, Value};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parser {
    pub name: String,
    pub id: u32,
    /// Empty if the parser does nothing.
    pub init_state: String,
    pub parse_states: Vec<ParseState>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParseState {
    pub name: String,
    pub id: u32,
    pub parser_ops: Vec<ParserOp>,
    pub transitions: Vec<Transition>,
    /// `field`, `stack_field`, `union_stack_field` or `lookahead` objects.
    pub transition_key: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParserOp {
    #[serde(default)]
    pub parameters: Vec<ParserParameter>,
    pub op: ParserOpKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParserOpKind {
    Extract,
    #[serde(rename = "extract_VL")]
    ExtractVl,
    Set,
    Verify,
    Shift,
    Advance,
    Primitive,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParserParameter {
    Value(Value),
    /// The one parameter of `primitive`.
    Primitive(Primitive),
    /// The bytes that `shift` skips, or the error of an old `verify`.
    Number(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transition {
    /// Absent in old files, where the value `"default"` marks the default transition.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<TransitionKind>,
    /// A number as wide as the byte-padded key fields together, or the name of a value set.
    pub value: Option<String>,
    pub mask: Option<HexStr>,
    /// The name of the state; none ends the parser.
    pub next_state: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    Default,
    Hexstr,
    ParseVset,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParseVset {
    pub name: String,
    pub id: u32,
    /// The bits of one value, without the padding between fields.
    pub compressed_bitwidth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deparser {
    pub name: String,
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Header instances in the order in which they are emitted.
    pub order: Vec<String>,
    pub primitives: Vec<Primitive>,
}
