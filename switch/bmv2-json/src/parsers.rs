//! Parsers, value sets and deparsers.

use serde::{Deserialize, Serialize};

use crate::{HexStr, Primitive, SourceInfo, Value};

/// A parser: its states.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parser {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name of the first state. Empty: the parser does nothing.
    pub init_state: String,
    /// States, in any order.
    pub parse_states: Vec<ParseState>,
}

/// A state of a parser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParseState {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Operations in order.
    pub parser_ops: Vec<ParserOp>,
    /// Cases in order; the first that matches counts.
    pub transitions: Vec<Transition>,
    /// Values that are matched: `field`, `stack_field`, `union_stack_field` or `lookahead` objects.
    pub transition_key: Vec<Value>,
}

/// An operation of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParserOp {
    /// Arguments in order.
    #[serde(default)]
    pub parameters: Vec<ParserParameter>,
    /// Kind of operation.
    pub op: ParserOpKind,
}

/// Kinds of operations of parser states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParserOpKind {
    /// Reads a header of fixed length.
    Extract,
    /// Reads a header with a variable-length field, whose width is the second argument.
    #[serde(rename = "extract_VL")]
    ExtractVl,
    /// Assigns a value to a field.
    Set,
    /// Ends parsing with an error if a condition does not hold.
    Verify,
    /// Skips bytes.
    Shift,
    /// Skips bits.
    Advance,
    /// Executes an operation of actions.
    Primitive,
}

/// An argument of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParserParameter {
    /// A field, value or expression.
    Value(Value),
    /// The one parameter of `primitive`.
    Primitive(Primitive),
    /// The bytes that `shift` skips, or the error of an old `verify`.
    Number(u32),
}

/// A case of a transition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transition {
    /// Absent in old files, where the value `"default"` marks the default transition.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<TransitionKind>,
    /// A number as wide as the byte-padded key fields together, or the name of a value set.
    pub value: Option<String>,
    /// Bits of the value that count. None: all.
    pub mask: Option<HexStr>,
    /// The name of the state; none ends the parser.
    pub next_state: Option<String>,
}

/// Kinds of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    /// Matches always.
    Default,
    /// Matches one value under a mask.
    Hexstr,
    /// Matches the members of a value set.
    ParseVset,
}

/// A value set of a parser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParseVset {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// The bits of one value, without the padding between fields.
    pub compressed_bitwidth: u32,
    /// Number of members that it has room for. None: no limit is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
}

/// The deparser: headers that are emitted if they are valid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deparser {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Header instances in the order in which they are emitted.
    pub order: Vec<String>,
    /// Operations before the first header is emitted.
    pub primitives: Vec<Primitive>,
}
