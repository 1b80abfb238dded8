//! The entries that a program gives a table, and their priorities (P4_16, section 14.2.1.4).

use crate::diagnostics::Diagnostics;
use crate::ir::{Priority, Table};

pub fn check(table: &Table, diagnostics: &Diagnostics) {
    let Some(first) = table.entries.first() else {
        return;
    };
    if table.key.is_empty() {
        let message = format!("table `{}` has no key, so it has no entries", table.name);
        let help = "set `default_action` instead";
        diagnostics.error_with_help("bad-entries", first.span, message, help);
        return;
    }
    let given = |p: &Option<Priority>| matches!(p, Some(Priority::Table(_)));
    let Some(with) = table.entries.iter().find(|e| given(&e.priority)) else {
        return;
    };
    let ordered = |k: &str| !matches!(k, "exact" | "lpm" | "selector");
    if !table.key.iter().any(|k| ordered(&k.match_kind)) {
        let message = "entries of a table with exact and lpm keys have no priorities";
        diagnostics.error("bad-priority", with.span, message);
    } else if !given(&first.priority) && first.priority.is_none() {
        let message = "the first entry needs a priority";
        let help = "the others count on from it";
        diagnostics.error_with_help("bad-priority", first.span, message, help);
    } else if table.largest_priority_wins {
        check_countdown(table, diagnostics);
    }
}

/// Entries without priority come `priority_delta` below the one before.
fn check_countdown(table: &Table, diagnostics: &Diagnostics) {
    let mut last: Option<u64> = None;
    for entry in &table.entries {
        last = match (entry.priority, last) {
            (Some(Priority::Table(number) | Priority::Bmv2(number)), _) => Some(number),
            (None, Some(before)) => match before.checked_sub(table.priority_delta) {
                Some(number) => Some(number),
                None => {
                    let message = format!(
                        "the priority of this entry would be {before} - {}, below 0",
                        table.priority_delta
                    );
                    let help = "begin with a higher one, or lower `priority_delta`";
                    diagnostics.error_with_help("bad-priority", entry.span, message, help);
                    return;
                }
            },
            (None, None) => None,
        };
    }
}
