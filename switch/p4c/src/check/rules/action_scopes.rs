//! `@tableonly` and `@defaultonly` say whether an action of a table is for its entries or for misses (P4_16,
//! section 14.2.1.2).

use crate::annotations;
use crate::diagnostics::Diagnostics;
use crate::ir::Table;

pub fn check(table: &Table, diagnostics: &Diagnostics) {
    let has = |index: usize, name| annotations::has(&table.actions[index].annotations, name);
    if let Some(call) = &table.default_action
        && has(call.action_ref, "tableonly")
    {
        let span = table.actions[call.action_ref].span;
        let message = "an action that is @tableonly is no default action";
        diagnostics.error("bad-action-scope", span, message);
    }
    for entry in &table.entries {
        if has(entry.action.action_ref, "defaultonly") {
            let message = "an action that is @defaultonly is in no entry";
            diagnostics.error("bad-action-scope", entry.span, message);
        }
    }
}
