//! No label stands twice in a `switch`, and `default` comes last (P4_16, section 12.7).

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::source::Span;

/// The labels in their order, with their places; none stands for `default`.
pub fn check<T: PartialEq>(labels: &[(Option<T>, Span)], diagnostics: &Diagnostics) {
    for (i, (label, span)) in labels.iter().enumerate() {
        let before = labels[..i].iter().find(|(l, _)| l == label);
        if let Some((_, first)) = before {
            diagnostics.report(
                Diagnostic::error("bad-label", *span, "this label was given before")
                    .note(*first, "here"),
            );
        } else if label.is_none() && i + 1 < labels.len() {
            diagnostics.error("bad-label", *span, "`default` must be the last label");
        }
    }
}
