//! Header types and instances, stacks, unions, field lists, errors and enums.

use serde::{Deserialize, Serialize};

use crate::{SourceInfo, Value};

/// Fields of headers and of metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderType {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Fields in order.
    pub fields: Vec<FieldDecl>,
    /// Width in bits of the variable-length field, as an expression of the fields before it. None: `extract_VL` has it
    /// as an argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_exp: Option<Value>,
    /// Most bytes that the header can have. None: it has no variable-length field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
}

/// `["name", width, signed]`, or `["name", "*"]` for a variable-length field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<serde_json::Value>", into = "FieldTuple")]
pub struct FieldDecl {
    /// Name in the P4 program.
    pub name: String,
    /// Its width.
    pub width: FieldWidth,
    /// Whether it is `int<W>`.
    pub signed: bool,
}

/// Width of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWidth {
    /// This many bits.
    Bits(u32),
    /// A `varbit`, whose width each packet decides.
    Variable,
}

impl FieldDecl {
    /// A field of fixed width.
    pub fn bits(name: impl Into<String>, bits: u32, signed: bool) -> Self {
        FieldDecl {
            name: name.into(),
            width: FieldWidth::Bits(bits),
            signed,
        }
    }

    /// A `varbit`.
    pub fn variable(name: impl Into<String>) -> Self {
        FieldDecl {
            name: name.into(),
            width: FieldWidth::Variable,
            signed: false,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum FieldTuple {
    Fixed(String, u32, bool),
    Variable(String, &'static str),
}

impl From<FieldDecl> for FieldTuple {
    fn from(f: FieldDecl) -> Self {
        match f.width {
            FieldWidth::Bits(n) => FieldTuple::Fixed(f.name, n, f.signed),
            FieldWidth::Variable => FieldTuple::Variable(f.name, "*"),
        }
    }
}

impl TryFrom<Vec<serde_json::Value>> for FieldDecl {
    type Error = String;

    fn try_from(tuple: Vec<serde_json::Value>) -> Result<Self, String> {
        let bad = || {
            format!(
                "field {}: expected [\"name\", width, signed]",
                serde_json::Value::Array(tuple.clone())
            )
        };
        let name = tuple.first().and_then(|v| v.as_str()).ok_or_else(bad)?;
        let width = match tuple.get(1).ok_or_else(bad)? {
            serde_json::Value::String(s) if s == "*" => FieldWidth::Variable,
            n => FieldWidth::Bits(
                n.as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(bad)?,
            ),
        };
        let signed = match tuple.get(2) {
            None => false,
            // p4c writes 0 for `bool` fields.
            Some(serde_json::Value::Number(n)) => n.as_u64() != Some(0),
            Some(v) => v.as_bool().ok_or_else(bad)?,
        };
        Ok(FieldDecl {
            name: name.to_owned(),
            width,
            signed,
        })
    }
}

/// A header or metadata instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name of its type.
    pub header_type: String,
    /// Whether it is metadata, which is always valid.
    pub metadata: bool,
    /// Whether the control plane does not see it.
    pub pi_omit: bool,
}

/// A stack of headers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderStack {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name of the type of its headers.
    pub header_type: String,
    /// Number of its headers, which is also the length of `header_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// `id`s of the header instances, in order.
    pub header_ids: Vec<u32>,
}

/// Members of header unions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnionType {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Member name and header type.
    pub headers: Vec<(String, String)>,
}

/// A header union.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnion {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name of its type.
    pub union_type: String,
    /// Numbers of the headers of its members, in order.
    pub header_ids: Vec<u32>,
    /// Whether the control plane does not see it.
    pub pi_omit: bool,
}

/// A stack of header unions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnionStack {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name of the type of its unions.
    pub union_type: String,
    /// Number of its unions, which is also the length of `header_union_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Numbers of its unions, in order.
    pub header_union_ids: Vec<u32>,
}

/// Fields named together: what a clone, resubmit or recirculate preserves (`field_lists`), or what a
/// digest carries (`learn_lists`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldList {
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Fields and constants in order.
    pub elements: Vec<Value>,
}

/// An enum of the P4 program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Enum {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Members with their numbers.
    pub entries: Vec<(String, u32)>,
}
