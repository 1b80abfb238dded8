//! Warnings about a state: what an expression reads that has no value there, and what a body leaves unset.

use crate::diagnostics::Diagnostic;
use crate::ir::{Direction, Expr, ExprKind, Param, Program};
use crate::source::Span;
use crate::warnings::places::{self, Place, State, Validity, find};

/// `out` parameters without a value at the end of a body. Headers may be invalid, and then they have none.
pub fn unset_out(state: &State, params: &[Param], name: &str) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for param in params.iter().filter(|p| p.direction == Direction::Out) {
        let place = Place::of(param.var);
        let headers = places::headers(&place, &param.ty);
        let mut unset = state.unset_in(&place);
        let Some(leaf) = unset.find(|leaf| !headers.iter().any(|h| h.holds(leaf))) else {
            continue;
        };
        let message = format!(
            "`{}` may have no value at the end of `{name}`",
            leaf.text(&param.name)
        );
        let warning = Diagnostic::warning("uninitialized-out-param", param.span, message);
        warnings.push(warning.help("set it on every path"));
    }
    warnings
}

/// Arguments of a call that are written and have parts in common: the last one wins, which is easily missed.
pub fn written_twice(arguments: &[(&Param, &Expr)]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let written = arguments.iter().filter(|(p, _)| p.direction.writes());
    let places: Vec<_> = written
        .filter_map(|(_, e)| Some((find(e).filter(|f| f.is_exact)?.place, is_part(e), e.span)))
        .collect();
    for (at, (place, is_slice, written)) in places.iter().enumerate() {
        let twice = |(other, other_is_slice, _): &&(Place, bool, Span)| {
            other.overlaps(place) && !(*is_slice && *other_is_slice)
        };
        if let Some((_, _, first)) = places[..at].iter().find(twice) {
            let message = "two arguments that are written have parts in common";
            let warning = Diagnostic::warning("ordering", *written, message);
            warnings.push(warning.note(*first, "written before"));
        }
    }
    warnings
}

/// A read of `next`, which has no value yet, or of a part that may have none.
pub fn unset_read(state: Option<&State>, program: &Program, expr: &Expr) -> Option<Diagnostic> {
    if let Some(next) = next_element(expr) {
        let message = "`next` is the element that is not extracted yet, so it has no value";
        return Some(Diagnostic::warning("uninitialized", next.span, message));
    }
    let state = state?;
    let found = find(expr).filter(|found| found.is_exact)?;
    let headers = places::headers(&found.place, &expr.ty);
    // A header that is not valid has no fields that could be missing.
    let is_missing = |leaf: &&Place| {
        let mut around = headers.iter().filter(|header| header.holds(leaf));
        around.all(|header| state.validity(header) == Some(Validity::Valid))
    };
    let leaf = state.unset_in(&found.place).find(is_missing)?;
    let variable = &program.vars[leaf.var];
    let name = leaf.text(&variable.name);
    let message = format!("`{name}` may be read before it has a value");
    let warning = Diagnostic::warning("uninitialized-use", expr.span, message);
    Some(warning.note(variable.span, "declared without a value"))
}

/// A field of a header that is not, or may not be, valid.
pub fn invalid_header(state: &State, program: &Program, header: &Expr) -> Option<Diagnostic> {
    let found = find(header).filter(|found| found.is_exact)?;
    let how = match state.validity(&found.place) {
        Some(Validity::Invalid) => "is not",
        Some(Validity::Either) => "may not be",
        Some(Validity::Valid) | None => return None,
    };
    let name = found.place.text(&program.vars[found.place.var].name);
    let message = format!("a field of `{name}`, which {how} valid here");
    let warning = Diagnostic::warning("invalid-header", header.span, message);
    Some(warning.help("ask `isValid()`, or extract it or call `setValid()` before"))
}

/// `stack.next`, if the place is in one.
fn next_element(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::StackNext(_) => Some(expr),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) | ExprKind::Slice { base, .. } => {
            next_element(base)
        }
        _ => None,
    }
}

/// Whether only some bits of a place are meant.
fn is_part(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Slice { .. })
}
