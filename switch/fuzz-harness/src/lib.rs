//! What no input may do to compiler and switch, as functions of arbitrary bytes.
//!
//! The same functions are called by the fuzz targets (`switch/fuzz`) and, with fewer inputs, by `cargo test` (`tests/`). Each
//! panics when an invariant breaks:
//!
//! | function | bytes become | invariants |
//! |---|---|---|
//! | [`p4`] | a P4 program, or changes of one | the compiler answers with a program or with errors; what it makes is loaded |
//! | [`bmv2_json`] | a BMv2 JSON file, or changes of one | it is loaded or refused; what is loaded takes packets, native code and interpreter alike |
//! | [`p4runtime`] | P4Runtime requests | a refused one changes nothing, a batch is whole or not at all, what is read can be written |
//! | [`controllers`] | what several controllers say on their streams, write and push | one primary for each role, the one of the specification; it alone may write; everybody knows |
//! | [`packets`] | table entries, other state and packets, for one of [`PROGRAMS`] | native code, interpreter and plain interpreter do the same |

mod bytes;
mod controllers;
mod p4runtime;
mod programs;
mod state;
mod world;

pub use controllers::controllers;
pub use p4runtime::{Target, p4runtime};
pub use programs::{Loaded, PROGRAMS, bmv2_json, p4};

use arbitrary::Unstructured;
use state::Operation;
use world::World;

/// Operations of one input.
const MOST_OPERATIONS: usize = 60;

/// Changes state and sends packets as the bytes say, in three switches that must not differ.
pub fn packets(program: &Loaded, bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let mut worlds = program.worlds();
    for _ in 0..MOST_OPERATIONS {
        if input.is_empty() {
            break;
        }
        let Ok(operation) = Operation::arbitrary(&mut input, program) else {
            break;
        };
        let [native, interpreted, plain] = worlds.each_mut().map(|w| operation.perform(w));
        assert_eq!(
            native, interpreted,
            "native code and interpreter: {operation:?}"
        );
        assert_eq!(
            interpreted, plain,
            "interpreter and its plain form: {operation:?}"
        );
    }
    let [native, interpreted, plain] = worlds.each_ref().map(World::memory);
    assert_eq!(native, interpreted, "native code and interpreter");
    assert_eq!(interpreted, plain, "interpreter and its plain form");
}
