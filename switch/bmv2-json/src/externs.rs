//! Counters, meters, registers, calculations, checksums and extern instances.

use serde::{Deserialize, Serialize};

use crate::{FieldRef, HexStr, SourceInfo, Value};

/// An array of meters, or the meters of a table's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Whether there is one per entry of a table.
    #[serde(default)]
    pub is_direct: bool,
    /// Number of cells; of no meaning for direct meters.
    #[serde(default)]
    pub size: u32,
    /// Number of a meter's rates: 2.
    #[serde(default)]
    pub rate_count: u32,
    /// Unit of rates and bursts.
    #[serde(rename = "type")]
    pub unit: MeterUnit,
    /// The table of a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The field into which a direct meter writes its colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_target: Option<FieldRef>,
    /// Bytes of each packet that are not metered. Tofino only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub adjust_bytes: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Unit of rates and bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeterUnit {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
}

/// An array of counters of both packets and bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterArray {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of cells. None: the counter is direct, and each entry has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Whether there is one per entry of a table.
    pub is_direct: bool,
    /// The table of a direct counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

/// An array of registers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterArray {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of cells.
    pub size: u32,
    /// Width of a cell in bits.
    pub bitwidth: u32,
    /// Initial value of every cell, for which BMv2 has no key. None: zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_value: Option<HexStr>,
    /// The table of a direct register, each of whose entries has a cell. Tofino only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

/// An array of low-pass filters, or of random early detection, or those of a table's entries. Of Tofino alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterArray {
    /// Name, unique among the objects of its kind.
    pub name: String,
    /// Number, unique among the objects of its kind.
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of cells.
    pub size: u32,
    /// Function of a cell.
    #[serde(flatten)]
    pub kind: FilterKind,
    /// The table of direct filters, whose entries have a cell each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

/// Function of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FilterKind {
    /// Gives a mean of its inputs.
    Lpf,
    /// Compares such a mean with two thresholds.
    Wred {
        /// Result for a packet that is to be dropped.
        drop_value: u32,
        /// Result for any other.
        no_drop_value: u32,
    },
}

/// A hash or checksum over fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Name of the hash algorithm: `crc16`, `crc32`, `csum16`, `xor16`, `identity`, ...
    pub algo: String,
    /// Fields and constants in order.
    #[serde(default)]
    pub input: Vec<CalculationInput>,
    /// How the control plane can set it at run time, on Tofino; a key of our own. None: it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable: Option<Configurable>,
}

/// A hash that the control plane can set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configurable {
    /// Name of the hash in the program.
    pub name: String,
    /// Bits of its result.
    pub bits: u32,
    /// Names of its inputs, in their order.
    pub fields: Vec<String>,
}

/// A field or constant of a calculation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalculationInput {
    /// Its value.
    #[serde(flatten)]
    pub value: Value,
    /// Width of a constant in bits, which its digits do not show; none for a field.
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

/// A checksum that is verified before ingress or updated before the deparser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Field of the checksum.
    pub target: FieldRef,
    /// How it is computed.
    #[serde(rename = "type", default)]
    pub kind: ChecksumKind,
    /// The name of a calculation; empty if the kind needs none.
    #[serde(default)]
    pub calculation: String,
    /// Whether it is verified; an error sets `checksum_error`.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Whether it is updated.
    #[serde(default = "yes")]
    pub update: bool,
    /// Condition on which it is verified or updated. None: always.
    #[serde(default)]
    pub if_cond: Option<Value>,
}

/// Algorithms of checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumKind {
    /// By the named calculation.
    #[default]
    Generic,
    /// In older files: that of the target's IPv4 header. [`Program::from_json`](crate::Program::from_json)
    /// gives it a calculation.
    Ipv4,
}

fn yes() -> bool {
    true
}

/// An object of an extern type that BMv2 may know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    /// Name, unique among the objects of its kind.
    #[serde(default)]
    pub name: String,
    /// Number, unique among the objects of its kind.
    #[serde(default)]
    pub id: u32,
    /// Name of the extern type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Place in the P4 source. None: the compiler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Constructor arguments.
    #[serde(default)]
    pub attribute_values: Vec<ExternAttribute>,
}

/// A constructor argument of an extern object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternAttribute {
    /// Name of the parameter.
    pub name: String,
    /// Type of the value, such as `hexstr`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value.
    pub value: serde_json::Value,
}
