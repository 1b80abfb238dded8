//! A function that returns a value does so on every path (P4_16, section 10), and the value is one of run time.

use crate::diagnostics::Diagnostics;
use crate::ir::{Function, Stmt, StmtKind};
use crate::types::Type;

pub fn check(function: &Function, diagnostics: &Diagnostics) {
    let signature = &function.signature;
    if matches!(signature.return_type, Type::Int | Type::String) {
        let ty = &signature.return_type;
        let message = format!("function `{}` cannot return `{ty}`", signature.name);
        let help = "values of this type exist at compile time only; return one of fixed width";
        diagnostics.error_with_help("bad-return-type", signature.span, message, help);
    }
    if !matches!(signature.return_type, Type::Void) && !always_returns(&function.body) {
        let message = format!("function `{}` can end without a value", signature.name);
        let help = "add a `return` at its end";
        diagnostics.error_with_help("missing-return", signature.span, message, help);
    }
}

/// Whether every path through the statements ends with `return` or `exit`.
fn always_returns(body: &[Stmt]) -> bool {
    body.iter().any(|s| match &s.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::If(_, then, otherwise) => always_returns(then) && always_returns(otherwise),
        StmtKind::Block { body, .. } => always_returns(body),
        StmtKind::Switch(_, arms) => {
            arms.iter()
                .any(|(labels, _)| labels.iter().any(Option::is_none))
                && arms.iter().all(|(_, b)| always_returns(b))
        }
        _ => false,
    })
}
