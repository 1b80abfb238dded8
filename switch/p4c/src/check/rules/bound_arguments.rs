//! Default actions and entries may repeat the arguments that the list of actions binds, but not change them (P4_16,
//! section 14.2.1.2).

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Expr, ExprKind, same};
use crate::source::Span;

/// `repeated` stands at `span` for the argument `bound`.
pub fn check(bound: &Expr, repeated: &Expr, span: Span, diagnostics: &Diagnostics) {
    // Whether two calls give the same value is not known here.
    let known = is_plain(bound) && is_plain(repeated);
    if known && !same(bound, repeated) {
        let message = "the list of actions binds another argument";
        diagnostics.report(
            Diagnostic::error("bad-bound-argument", span, message)
                .note(bound.span, "this one")
                .help("give the same one, or leave it out"),
        );
    }
}

/// Whether the expression is a constant or a place, of which it is known whether another one is the same.
fn is_plain(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Var(_) => true,
        ExprKind::Field(base, _) | ExprKind::Slice { base, .. } => is_plain(base),
        ExprKind::Index(base, index) => is_plain(base) && is_plain(index),
        _ => false,
    }
}
