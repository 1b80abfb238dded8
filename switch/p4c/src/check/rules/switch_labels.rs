//! No label stands twice in a `switch`, and `default` comes last (P4_16, section 12.7).

use std::collections::HashMap;
use std::hash::Hash;

use super::distinct_names::first_of;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::source::Span;

/// The labels in their order, with their places; none stands for `default`.
pub fn check<T: Eq + Hash>(labels: &[(Option<T>, Span)], diagnostics: &Diagnostics) {
    let mut seen: HashMap<&Option<T>, Span> = HashMap::new();
    for (i, (label, span)) in labels.iter().enumerate() {
        if let Some(first) = first_of(&mut seen, label, *span) {
            diagnostics.report(
                Diagnostic::error("bad-label", *span, "this label was given before")
                    .note(first, "here"),
            );
        } else if label.is_none() && i + 1 < labels.len() {
            diagnostics.error("bad-label", *span, "`default` must be the last label");
        }
    }
}
