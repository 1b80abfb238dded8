//! Warnings: what is allowed, and hardly meant.
//!
//! Names of p4c's warnings are ours where the cause is the same, so that `--Wdisable=unused` means the same to both. A
//! program with errors has no warnings of this module. What only names tell (`unused`, `shadow`, `deprecated`) is
//! reported by the checker, which looks names up.

mod flow;
mod parsers;
mod places;
mod settings;
mod tables;

use crate::ast;
use crate::diagnostics::Diagnostics;
use crate::ir::Program;

/// Reads the program's own settings of warnings, before any is reported.
pub fn read_settings(tree: &ast::Program, diagnostics: &Diagnostics) {
    settings::read(tree, diagnostics);
}

/// Reports what the checked program, which has no errors, should not have.
pub fn report(program: &Program, diagnostics: &Diagnostics) {
    for table in &program.tables {
        tables::check(table, program.architecture, diagnostics);
    }
    for parser in &program.parsers {
        parsers::check(parser, diagnostics);
    }
    flow::check(program, diagnostics);
}
