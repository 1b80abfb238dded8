//! Functions of one name differ in number or names of their parameters (P4_16, section 6.8).

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{FunctionId, Program, Signature};

/// `others` are the functions of the same name that are declared before.
pub fn check(new: &Signature, others: &[FunctionId], program: &Program, diagnostics: &Diagnostics) {
    let names = |s: &Signature| s.params.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    let mut before = others.iter().map(|id| &program.functions[*id].signature);
    if let Some(first) = before.find(|s| names(s) == names(new)) {
        let message = format!(
            "function `{}` with these parameters is declared twice",
            new.name
        );
        diagnostics.report(
            Diagnostic::error("duplicate-name", new.span, message)
                .label("second declaration")
                .note(first.span, "first declaration")
                .help("functions of one name differ in number or names of their parameters"),
        );
    }
}
