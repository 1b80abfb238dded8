//! Keys, sizes and entries of tables that are probably mistakes.

use std::collections::HashMap;

use crate::architecture::Architecture;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Entry, Expr, ExprKind, Priority, Table, same};
use crate::source::Span;

pub fn check(table: &Table, architecture: Architecture, diagnostics: &Diagnostics) {
    for key in &table.key {
        if key.expr.as_value().is_some() {
            let message = "the key is always the same value";
            diagnostics.report(Diagnostic::warning("constant-key", key.expr.span, message));
        }
    }
    // On Tofino, the size decides how much memory the table takes.
    if architecture == Architecture::V1model {
        check_size(table, diagnostics);
    }
    for entry in &table.entries {
        check_masks(entry, diagnostics);
        check_ranges(entry, diagnostics);
    }
    check_priorities(table, diagnostics);
    check_covered(table, diagnostics);
}

fn check_size(table: &Table, diagnostics: &Diagnostics) {
    let Some(size) = &table.size else {
        return;
    };
    let why = if table.key.is_empty() && size.as_number::<u32>().is_some_and(|n| n != 1) {
        "it has no key, so it has no entries"
    } else if table.entries_are_const && !table.entries.is_empty() {
        "its entries are constant"
    } else {
        return;
    };
    let message = format!("the size of table `{}` means nothing: {why}", table.name);
    let warning = Diagnostic::warning("mismatch", table.span, message).label("this table");
    diagnostics.report(warning.note(size.span, "its size"));
}

/// Bits outside of a mask, which P4Runtime wants to be 0.
fn check_masks(entry: &Entry, diagnostics: &Diagnostics) {
    for set in &entry.keyset {
        if let ExprKind::Mask(value, mask) = &set.kind
            && let (Some(value), Some(mask)) = (value.as_int(), mask.as_int())
            && &(value & mask) != value
        {
            let message = format!("bits of {value:#x} outside of its mask {mask:#x} mean nothing");
            diagnostics.report(Diagnostic::warning("mismatch", set.span, message));
        }
    }
}

/// Ranges that hold no value.
fn check_ranges(entry: &Entry, diagnostics: &Diagnostics) {
    if let Some(set) = entry.keyset.iter().find(|set| set.is_empty_range()) {
        let message = "this entry never matches: the range ends before it begins";
        diagnostics.report(Diagnostic::warning("keys", set.span, message));
    }
}

/// Entries that are given priorities: equal ones leave it open which entry wins, and an order other than that of the
/// priorities misleads readers.
fn check_priorities(table: &Table, diagnostics: &Diagnostics) {
    let of_bmv2 = |e: &&Entry| matches!(e.priority, Some(Priority::Bmv2(_)));
    if let Some(entry) = table.entries.iter().find(of_bmv2) {
        let message = "`@priority` is an annotation of p4c for BMv2 only";
        let warning = Diagnostic::warning("deprecated", entry.span, message);
        diagnostics.report(warning.help("write `priority = N : (..) : action(..);`"));
    }
    let given = |e: &Entry| matches!(e.priority, Some(Priority::Table(_)));
    if !table.entries.iter().any(given) {
        return;
    }
    let mut seen: HashMap<u64, Vec<Span>> = HashMap::new();
    let mut before: Option<(u64, Span)> = None;
    let mut is_in_order = true;
    for entry in &table.entries {
        let priority = match (entry.priority, before) {
            (Some(Priority::Table(number)), _) => number,
            (None, Some((number, _))) if table.largest_priority_wins => {
                number.saturating_sub(table.priority_delta)
            }
            (None, Some((number, _))) => number.saturating_add(table.priority_delta),
            _ => return,
        };
        let equal = seen.entry(priority).or_default();
        equal.push(entry.span);
        // One warning for each priority.
        if let [first, second] = equal[..] {
            let message = format!("more than one entry has priority {priority}");
            let warning = Diagnostic::warning("duplicate-priorities", second, message);
            diagnostics.report(warning.note(first, "the first one"));
        }
        if let Some((number, span)) = before
            && is_in_order
            && (priority > number) == table.largest_priority_wins
            && priority != number
        {
            is_in_order = false;
            let message = format!(
                "an entry of priority {priority} stands behind one of {number}, before which it counts"
            );
            let warning = Diagnostic::warning("entries-out-of-priority-order", entry.span, message);
            diagnostics.report(warning.note(span, "which it goes before"));
        }
        before = Some((priority, entry.span));
    }
}

/// Entries are compared in pairs up to this many; p4c compares all, however long that takes.
const MOST_COMPARED: usize = 500;

/// Entries that an entry before them hides, where their order is their priority.
fn check_covered(table: &Table, diagnostics: &Diagnostics) {
    let entries = &table.entries;
    let has_priorities = entries.iter().any(|e| e.priority.is_some());
    let kinds: Vec<bool> = (table.key.iter())
        .map(|key| matches!(key.match_kind.as_str(), "ternary" | "optional"))
        .collect();
    if has_priorities || entries.len() > MOST_COMPARED {
        return;
    }
    for (at, entry) in entries.iter().enumerate() {
        let hides = |before: &&Entry| {
            let sets = before.keyset.iter().zip(&entry.keyset);
            before.keyset.len() == kinds.len()
                && sets
                    .zip(&kinds)
                    .all(|((a, b), ternary)| same_set(a, b) || *ternary && covers(a, b))
        };
        if let Some(before) = entries[..at].iter().find(hides) {
            let message = "this entry never matches";
            let warning = Diagnostic::warning("keys", entry.span, message);
            diagnostics.report(warning.note(before.span, "this one matches all of its values"));
        }
    }
}

fn same_set(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Default, ExprKind::Default) => true,
        (ExprKind::Mask(a, m), ExprKind::Mask(b, n))
        | (ExprKind::Range(a, m), ExprKind::Range(b, n)) => same(a, b) && same(m, n),
        _ => same(a, b),
    }
}

/// Whether every value that is in the ternary set `b` is in `a`.
fn covers(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Default, _) => true,
        (ExprKind::Mask(value, mask), ExprKind::Mask(other, narrower)) => {
            let numbers = (
                value.as_int(),
                mask.as_int(),
                other.as_int(),
                narrower.as_int(),
            );
            let (Some(value), Some(mask), Some(other), Some(narrower)) = numbers else {
                return false;
            };
            &(mask & narrower) == mask && value & mask == other & mask
        }
        (ExprKind::Mask(value, mask), ExprKind::Const(_)) => {
            let numbers = (value.as_int(), mask.as_int(), b.as_int());
            let (Some(value), Some(mask), Some(other)) = numbers else {
                return false;
            };
            value & mask == other & mask
        }
        _ => false,
    }
}
