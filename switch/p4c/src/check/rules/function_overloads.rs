//! Functions of one name differ in number or names of their parameters (P4_16, section 6.8).

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::Signature;

/// `others` are the functions of the same name that are declared before.
pub fn check<'a>(
    new: &Signature,
    mut others: impl Iterator<Item = &'a Signature>,
    diagnostics: &Diagnostics,
) {
    let names = |s: &Signature| s.params.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    if let Some(first) = others.find(|s| names(s) == names(new)) {
        report(new, first, diagnostics);
    }
}

/// The same for functions of the architecture, of which types may differ, too.
pub fn check_extern<'a>(
    new: &Signature,
    mut others: impl Iterator<Item = &'a Signature>,
    diagnostics: &Diagnostics,
) {
    let params = |s: &Signature| {
        let all = s.params.iter().map(|p| (p.name.clone(), p.ty.clone()));
        all.collect::<Vec<_>>()
    };
    if let Some(first) = others.find(|s| params(s) == params(new)) {
        report(new, first, diagnostics);
    }
}

fn report(new: &Signature, first: &Signature, diagnostics: &Diagnostics) {
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
