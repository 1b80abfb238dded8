//! Counters, meters, registers, calculations, checksums and extern instances.

use serde::{Deserialize, Serialize};

use crate::{FieldRef, SourceInfo, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub is_direct: bool,
    #[serde(default)]
    pub size: u32,
    #[serde(default)]
    pub rate_count: u32,
    #[serde(rename = "type")]
    pub unit: MeterUnit,
    /// The table of a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The field into which a direct meter writes its colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_target: Option<FieldRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeterUnit {
    Bytes,
    Packets,
}

/// Counters always count both packets and bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterArray {
    pub name: String,
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The number of cells; none for direct counters, which are as many as their table has entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    pub is_direct: bool,
    /// The table of a direct counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterArray {
    pub name: String,
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub size: u32,
    pub bitwidth: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Name of the hash algorithm: `crc16`, `crc32`, `csum16`, `xor16`, `identity`, ...
    pub algo: String,
    #[serde(default)]
    pub input: Vec<CalculationInput>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalculationInput {
    #[serde(flatten)]
    pub value: Value,
    /// The width in bits of a constant, which its digits do not tell; none for what is no constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitwidth: Option<u32>,
}

impl From<Value> for CalculationInput {
    fn from(value: Value) -> Self {
        CalculationInput {
            value,
            bitwidth: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub target: FieldRef,
    #[serde(rename = "type", default)]
    pub kind: ChecksumKind,
    /// The name of a calculation; empty if the kind needs none.
    #[serde(default)]
    pub calculation: String,
    #[serde(default = "yes")]
    pub verify: bool,
    #[serde(default = "yes")]
    pub update: bool,
    #[serde(default)]
    pub if_cond: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumKind {
    #[default]
    Generic,
    /// In older files: of the IPv4 header that the target is in. [`Program::from_json`](crate::Program::from_json)
    /// gives it a calculation.
    Ipv4,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub id: u32,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub attribute_values: Vec<ExternAttribute>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternAttribute {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub value: serde_json::Value,
}
