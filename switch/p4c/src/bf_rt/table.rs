//! The tables of the schema, their ids and the names in them.

use ebb_p4_proto::config::P4Info;
use serde_json::{Value, json};

use crate::elaborate::flat::Flat;

/// First byte of an id, by kind of object.
#[derive(Clone, Copy)]
pub(super) enum Prefix {
    ActionProfile = 0x81,
    ActionSelector = 0x82,
    Counter = 0x83,
    Meter = 0x85,
    Wred = 0x87,
    Lpf = 0x89,
    Register = 0x8B,
    RegisterParam = 0x8D,
    Digest = 0x8E,
    PortMetadata = 0x90,
    HashConfigure = 0x95,
    HashCompute = 0x96,
    HashAlgorithm = 0x97,
    SelectorGetMember = 0x9A,
    ValueSet = 0xFE,
}

impl Prefix {
    /// The id of an object that has this number, or this id in P4Info.
    pub(super) fn of(self, id: u32) -> u32 {
        (self as u32) << 24 | id & 0x00ff_ffff
    }

    /// The id of an object that P4Info does not list.
    pub(super) fn hash(self, name: &str) -> u32 {
        self.of(crate::p4info::hash(name))
    }
}

/// Input of the tables.
pub(super) struct Source<'a> {
    pub info: &'a P4Info,
    pub flat: &'a Flat,
    /// Name of the pipeline; none: the names of P4Info begin with theirs.
    pub pipe: Option<&'a str>,
}

impl Source<'_> {
    /// A name as BF Runtime has it.
    pub(super) fn name(&self, name: &str) -> String {
        match self.pipe {
            Some(pipe) => format!("{pipe}.{name}"),
            None => name.to_owned(),
        }
    }
}

/// A table of BF Runtime: an object with these properties, in the order of the file.
pub(super) struct Table {
    pub name: String,
    pub id: u32,
    pub kind: &'static str,
    pub size: i64,
    pub annotations: Vec<Value>,
    pub depends_on: Vec<u32>,
    pub key: Vec<Value>,
    pub data: Vec<Value>,
    pub operations: Vec<&'static str>,
    pub attributes: Vec<&'static str>,
}

impl Table {
    pub(super) fn new(name: String, id: u32, kind: &'static str, size: i64) -> Self {
        Table {
            name,
            id,
            kind,
            size,
            annotations: Vec::new(),
            depends_on: Vec::new(),
            key: Vec::new(),
            data: Vec::new(),
            operations: Vec::new(),
            attributes: Vec::new(),
        }
    }

    pub(super) fn into_json(self) -> Value {
        json!({
            "name": self.name,
            "id": self.id,
            "table_type": self.kind,
            "size": self.size,
            "annotations": self.annotations,
            "depends_on": self.depends_on,
            "key": self.key,
            "data": self.data,
            "supported_operations": self.operations,
            "attributes": self.attributes,
        })
    }
}

/// Annotations of P4Info, which are text.
pub(super) fn annotations(list: &[String]) -> Vec<Value> {
    list.iter().map(|text| json!({ "name": text })).collect()
}
