//! Transitions of parsers: cases that are never reached, and parsers that accept nothing.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Expr, ExprKind, Parser, SelectCase, State, Target, Transition};

pub fn check(parser: &Parser, diagnostics: &Diagnostics) {
    for state in &parser.states {
        if let Transition::Select { cases, .. } = &state.transition {
            check_cases(cases, diagnostics);
        }
    }
    if !accepts(parser) {
        let message = format!("parser `{}` never accepts a packet", parser.block.name);
        let help = "no `transition accept;` is reached from its first state";
        let warning = Diagnostic::warning("unreachable", parser.block.span, message);
        diagnostics.report(warning.help(help));
    }
}

/// Warns of cases behind one that takes every value, and of a `select` whose cases all lead to one state.
fn check_cases(cases: &[SelectCase], diagnostics: &Diagnostics) {
    let Some(last) = cases.iter().position(takes_all) else {
        return;
    };
    if let Some(unreached) = cases.get(last + 1) {
        let message = "this case is never reached";
        let warning = Diagnostic::warning("parser-transition", unreached.span, message);
        diagnostics.report(warning.note(cases[last].span, "this one takes every value"));
    }
    // A `default` that is the only case gives no warning: programs have it as a place for later cases.
    if last > 0
        && cases[..last]
            .iter()
            .all(|case| case.target == cases[last].target)
    {
        let message = "the transition does not depend on the value that it selects by";
        let span = cases[0].span.to(cases[last].span);
        let warning = Diagnostic::warning("parser-transition", span, message);
        diagnostics.report(warning.label("all cases lead to one state"));
    }
}

fn takes_all(case: &SelectCase) -> bool {
    let is_default = |e: &Expr| matches!(e.kind, ExprKind::Default);
    case.keyset.iter().all(is_default)
}

fn accepts(parser: &Parser) -> bool {
    let mut seen = vec![false; parser.states.len()];
    let mut waiting = vec![0];
    while let Some(at) = waiting.pop() {
        let Some(state) = parser.states.get(at) else {
            continue;
        };
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        for target in targets(state) {
            match target {
                Target::Accept => return true,
                Target::Reject => {}
                Target::State(next) => waiting.push(next),
            }
        }
    }
    false
}

/// The states that may follow a state.
pub(super) fn targets(state: &State) -> Vec<Target> {
    match &state.transition {
        Transition::Direct(target) => vec![*target],
        Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
    }
}
