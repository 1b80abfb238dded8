//! The compiler as its users see it. One executable: linking takes longer than most of the tests.

mod action_names;
mod bf_rt;
mod command_line;
mod conversions;
mod direct_meters;
mod golden;
mod lengths;
mod limits;
mod mutated_programs;
mod printed;
mod read_back;
mod tofino;

use ebb_p4c::Compiled;

/// Compiles a right program.
fn compiled(text: &str) -> Compiled {
    ebb_p4c::compile_text("t.p4", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}
