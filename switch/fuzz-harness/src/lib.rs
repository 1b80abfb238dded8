//! Invariants of compiler and switch under any input, as functions of arbitrary bytes.
//!
//! The same functions are called by the fuzz targets (`switch/fuzz`) and, with fewer inputs, by
//! `cargo test` (`tests/`). Each panics when an invariant breaks:
//!
//! | function | bytes become | invariants |
//! |---|---|---|
//! | [`p4`] | a P4 program, or changes of one | the compiler answers with a program or with errors that print; what it makes is loaded, but for limits of the switch, served by P4Runtime, and does the same in every executor |
//! | [`bmv2_json`] | a BMv2 JSON file, or changes of one | it is loaded or refused, by every executor; what is loaded takes entries, other state and packets, and does the same in every one |
//! | [`p4runtime()`] | P4Runtime requests | a refused one changes nothing, an insertion adds one entity and a deletion removes one, a batch is whole or not at all, what is read can be written |
//! | [`controllers()`] | what several controllers say on their streams, write and push | one primary for each role, the one of the specification; it alone may write and send packets, and hears what the data plane says; everybody knows |
//! | [`packets`] | table entries, other state and packets, for one of [`PROGRAMS`] | native code, interpreter and plain interpreter do the same, and leave the same counters, meters and registers |

mod bytes;
mod controllers;
mod loaded;
mod p4runtime;
mod programs;
mod state;
mod world;

pub use controllers::controllers;
pub use loaded::{Loaded, PROGRAMS};
pub use p4runtime::{Target, p4runtime};
pub use programs::{bmv2_json, p4};

use arbitrary::Unstructured;
use state::perform_all;

/// Most operations of one input.
const MOST_OPERATIONS: usize = 60;

/// Changes state and sends packets as the bytes say, in three switches that must not differ.
pub fn packets(program: &Loaded, bytes: &[u8]) {
    let mut worlds = program.worlds();
    let mut input = Unstructured::new(bytes);
    perform_all(program, &mut worlds, &mut input, MOST_OPERATIONS);
}
