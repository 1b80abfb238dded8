//! Header types and instances, stacks, unions, field lists, errors and enums.

use serde::{Deserialize, Serialize};

use crate::{SourceInfo, Value};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderType {
    pub name: String,
    pub id: u32,
    pub fields: Vec<FieldDecl>,
    /// The width in bits of the variable-length field, as an expression of the fields before it, for `extract`; none
    /// for `extract_VL`, which is given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_exp: Option<Value>,
    /// The most bytes that the header can have; none without a variable-length field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
}

/// `["name", width, signed]`, or `["name", "*"]` for a variable-length field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<serde_json::Value>", into = "FieldTuple")]
pub struct FieldDecl {
    pub name: String,
    pub width: FieldWidth,
    pub signed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWidth {
    Bits(u32),
    Variable,
}

impl FieldDecl {
    pub fn bits(name: impl Into<String>, bits: u32, signed: bool) -> Self {
        FieldDecl {
            name: name.into(),
            width: FieldWidth::Bits(bits),
            signed,
        }
    }

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub name: String,
    pub id: u32,
    pub header_type: String,
    pub metadata: bool,
    pub pi_omit: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderStack {
    pub name: String,
    pub id: u32,
    pub header_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// `id`s of the header instances, in order.
    pub header_ids: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnionType {
    pub name: String,
    pub id: u32,
    /// Member name and header type.
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnion {
    pub name: String,
    pub id: u32,
    pub union_type: String,
    pub header_ids: Vec<u32>,
    pub pi_omit: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderUnionStack {
    pub name: String,
    pub id: u32,
    pub union_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    pub header_union_ids: Vec<u32>,
}

/// Fields named together: what a clone, resubmit or recirculate preserves (`field_lists`), or what a
/// digest carries (`learn_lists`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldList {
    pub id: u32,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub elements: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Enum {
    pub name: String,
    pub entries: Vec<(String, u32)>,
}
