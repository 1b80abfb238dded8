//! The schema of BF Runtime, `bf-rt.json`: what a client of BF Runtime knows of a program.
//!
//! It is [`P4Info`] in another form: everything is a table, with key and data fields that have numbers of their own.
//! Names of tables begin with that of the pipeline, and the first byte of an id is that of the kind in BF Runtime.
//! Left out are tables that describe the chip: snapshots and the debug counter.

mod field;
mod hashes;
mod match_tables;
mod objects;

use ebb_p4_proto::config::P4Info;
use serde_json::{Value, json};

use crate::elaborate::flat::Flat;

/// First byte of an id, by kind of object.
#[derive(Clone, Copy)]
enum Prefix {
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
    fn of(self, id: u32) -> u32 {
        (self as u32) << 24 | id & 0x00ff_ffff
    }

    /// The id of an object that P4Info does not list.
    fn hash(self, name: &str) -> u32 {
        self.of(crate::p4info::hash(name))
    }
}

/// Input of the tables.
struct Source<'a> {
    info: &'a P4Info,
    flat: &'a Flat,
    /// Name of the pipeline; none: the names of P4Info begin with theirs.
    pipe: Option<&'a str>,
}

/// The pipeline of programs for v1model, which have no name for it.
const ONLY_PIPE: &str = "pipe";

/// The schema of a program.
pub fn schema(flat: &Flat, info: &P4Info) -> Value {
    let pipe = match &flat.tofino {
        Some(tofino) => tofino.only_pipe(),
        None => Some(ONLY_PIPE),
    };
    let source = Source { info, flat, pipe };
    let mut tables = source.match_tables();
    tables.extend(source.objects());
    tables.extend(source.port_metadata());
    tables.extend(source.hashes());
    json!({
        "schema_version": "1.0.0",
        "tables": tables,
        "learn_filters": source.learn_filters(),
    })
}

impl Source<'_> {
    /// A name as BF Runtime has it.
    fn name(&self, name: &str) -> String {
        match self.pipe {
            Some(pipe) => format!("{pipe}.{name}"),
            None => name.to_owned(),
        }
    }
}

/// A table of BF Runtime: an object with these properties, in the order of the file.
struct Table {
    name: String,
    id: u32,
    kind: &'static str,
    size: i64,
    annotations: Vec<Value>,
    depends_on: Vec<u32>,
    key: Vec<Value>,
    data: Vec<Value>,
    operations: Vec<&'static str>,
    attributes: Vec<&'static str>,
}

impl Table {
    fn new(name: String, id: u32, kind: &'static str, size: i64) -> Self {
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

    fn into_json(self) -> Value {
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
fn annotations(list: &[String]) -> Vec<Value> {
    list.iter().map(|text| json!({ "name": text })).collect()
}
