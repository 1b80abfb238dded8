//! Values that are read before they are set, `out` parameters that are left unset, and fields of headers that are not
//! valid: found by walking every path through functions, actions, controls and parsers.
//!
//! A path is possible if the statements allow it; what conditions say is not looked at, but for `isValid()`, after
//! which nothing more is said of a header, and for hit, miss and the action of a table. Actions are walked where they
//! are called or applied, since they read and write variables of their control; functions, parsers and controls once,
//! for themselves.

mod calls;
mod findings;
mod paths;
mod statements;
mod values;
mod walk;

use crate::diagnostics::Diagnostics;
use crate::ir::Program;

use walk::Walk;

/// Reports what paths through a program read unset or leave unset.
pub fn check(program: &Program, diagnostics: &Diagnostics) {
    let mut walk = Walk::new(program, diagnostics);
    for function in &program.functions {
        let signature = &function.signature;
        walk.begin(&signature.params);
        walk.statements(&function.body);
        walk.end(&signature.params, &signature.name);
    }
    for parser in &program.parsers {
        walk.parser(parser);
    }
    for control in &program.controls {
        walk.begin(&control.block.params);
        walk.statements(&control.block.locals);
        walk.statements(&control.body);
        walk.end(&control.block.params, &control.block.name);
    }
}
