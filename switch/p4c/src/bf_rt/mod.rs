//! The schema of BF Runtime, `bf-rt.json`, by which clients of BF Runtime know the objects of a program.
//!
//! It is [`P4Info`] in another form: everything is a table, with key and data fields that have numbers of their own.
//! Names of tables begin with that of the pipeline, and the first byte of an id is that of the kind in BF Runtime.
//! Left out are tables that describe the chip: snapshots and the debug counter.

mod field;
mod hashes;
mod match_tables;
mod objects;
mod table;

use ebb_p4_proto::config::P4Info;
use serde_json::{Value, json};

use crate::elaborate::flat::Flat;
use table::Source;

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
