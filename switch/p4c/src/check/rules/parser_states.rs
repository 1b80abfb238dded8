//! The states of a parser: their names, a first one, and a way from there to an end (P4_16, section 13).

use crate::ast;
use crate::diagnostics::Diagnostics;
use crate::ir::{Expr, ExprKind, State, Target, Transition};

/// `accept` and `reject` are states that every parser has.
pub fn check_name(name: &ast::Ident, diagnostics: &Diagnostics) {
    if matches!(name.text.as_str(), "accept" | "reject") {
        let message = format!("state `{}` is there already", name.text);
        let help = "give this one another name; `accept` and `reject` end the parser";
        diagnostics.error_with_help("duplicate-name", name.span, message, help);
    }
}

/// There has to be a state `start`, in which parsing begins.
pub fn check_start(parser: &ast::Ident, states: &[State], diagnostics: &Diagnostics) {
    if !states.iter().any(|s| s.name == "start") {
        let message = format!("parser `{}` has no state `start`", parser.text);
        let help = "parsing begins in the state named `start`";
        diagnostics.error_with_help("missing-start", parser.span, message, help);
    }
}

/// From the first state, which is `start`, there has to be a way to `accept` or `reject`.
pub fn check_ends(parser: &ast::Ident, states: &[State], diagnostics: &Diagnostics) {
    let mut seen = vec![false; states.len()];
    let mut waiting = vec![0];
    while let Some(at) = waiting.pop() {
        let Some(state) = states.get(at) else {
            continue;
        };
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let targets: Vec<Target> = match &state.transition {
            Transition::Direct(target) => vec![*target],
            // A value that no case covers is rejected, which is an end too.
            Transition::Select { cases, .. } => {
                let all = |e: &Expr| matches!(e.kind, ExprKind::Default);
                if !cases.iter().any(|c| c.keyset.iter().all(all)) {
                    return;
                }
                cases.iter().map(|c| c.target).collect()
            }
        };
        for target in targets {
            match target {
                Target::Accept | Target::Reject => return,
                Target::State(next) => waiting.push(next),
            }
        }
    }
    let message = format!("parser `{}` never ends", parser.text);
    let help = "some state has to go to `accept` or `reject`";
    diagnostics.error_with_help("endless-parser", parser.span, message, help);
}
