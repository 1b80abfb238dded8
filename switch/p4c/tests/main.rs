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
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;

/// Compiles a right program.
fn compiled(text: &str) -> Compiled {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let options = Options::default();
    let compiled = ebb_p4c::compile("t.p4", text, &options, &mut sources, &diagnostics);
    compiled.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&sources, false)))
}
