//! Tables that are applied at several places.
//!
//! A table of the JSON has one successor for each of its actions. Where places go on differently, each but the first
//! writes its number to a variable before it applies the table, and behind the table conditions look at that. No packet
//! may come by two of the places, as the successors of one would lead back to the table.

use std::collections::HashSet;

use super::controls::Pipeline;
use super::successors::{Place, Successors};
use crate::ast::BinaryOp;
use crate::diagnostics::Diagnostic;
use crate::ir::Expr;
use crate::source::Span;
use crate::types::Type;

/// Numbers of places are 16 bits wide.
const NUMBER: Type = Type::Bits {
    width: 16,
    signed: false,
};

/// The successor for the place at hand, and that for the others.
type Way = (Option<String>, Option<String>);

impl Pipeline<'_, '_> {
    /// The node to enter at another place of a table.
    pub(super) fn apply_again(
        &mut self,
        table: usize,
        successors: Successors,
        span: Span,
    ) -> Option<String> {
        let applied = self.applied.get(&table)?;
        let same = |place: &&Place| place.successors == successors;
        if let Some(known) = applied.places.iter().find(same) {
            return Some(known.entry.clone());
        }
        let (first, number) = (&applied.places[0], applied.places.len());
        let (enter, node) = (
            first.entry.clone(),
            self.backend.flat.tables[table].name.clone(),
        );
        let successors = like(successors, &first.successors);
        let Some(successors) = successors.filter(|of| !self.leads_to(of, &enter)) else {
            return self.refuse(table, span);
        };
        let variable = match &applied.number {
            Some(variable) => variable.clone(),
            None => self.backend.temp(&NUMBER, span),
        };
        let value = Expr::int(number, NUMBER, span);
        let is_here = Expr::binary(
            BinaryOp::Eq,
            variable.clone(),
            value.clone(),
            Type::Bool,
            span,
        );
        self.branch(&node, &successors, &is_here);
        let ((), primitives) = self.backend.apart(|b| b.assign(&variable, &value, span));
        let base = self.backend.generated_name(span);
        let action = self.backend.node_names.unique(&base);
        let entry = self.keyless_table(&base, action, primitives, span, Some(enter));
        let applied = self.applied.get_mut(&table)?;
        applied.number = Some(variable);
        applied.places.push(Place {
            entry: entry.clone(),
            successors,
        });
        Some(entry)
    }

    /// Has the table go on to these successors where the condition holds.
    fn branch(&mut self, node: &str, to: &Successors, condition: &Expr) {
        let Some(at) = self.tables.iter().position(|table| table.name == node) else {
            return;
        };
        let mut made: Vec<(Way, Option<String>)> = Vec::new();
        let mut next = std::mem::take(&mut self.tables[at].next_tables);
        let mut base = self.tables[at].base_default_next.take();
        let ways = next
            .iter_mut()
            .map(|(action, old)| (old, to.by_action.get(action)));
        let ways = ways.map(|(old, new)| (old, new.cloned().flatten()));
        for (old, new) in ways.chain([(&mut base, to.base_default.clone())]) {
            let way = (new, old.clone());
            if way.0 == way.1 {
                continue;
            }
            let known = made.iter().find(|(of, _)| *of == way);
            *old = match known {
                Some((_, node)) => node.clone(),
                None => {
                    let node = Some(self.conditional(condition, way.0.clone(), way.1.clone()));
                    made.push((way, node.clone()));
                    node
                }
            };
        }
        self.tables[at].next_tables = next;
        self.tables[at].base_default_next = base;
    }

    /// Whether one of the successors is a node, or leads to it.
    fn leads_to(&self, successors: &Successors, node: &str) -> bool {
        let mut open: Vec<&str> = ways(&successors.by_action, &successors.base_default).collect();
        let mut seen = HashSet::new();
        while let Some(name) = open.pop() {
            if name == node {
                return true;
            }
            if !seen.insert(name) {
                continue;
            }
            let tables = self.tables.iter().filter(|table| table.name == name);
            open.extend(tables.flat_map(|of| ways(&of.next_tables, &of.base_default_next)));
            let conditionals = self.conditionals.iter().filter(|of| of.name == name);
            open.extend(conditionals.flat_map(|of| {
                let both = [&of.true_next, &of.false_next];
                both.into_iter().filter_map(|next| next.as_deref())
            }));
        }
        false
    }

    fn refuse(&mut self, table: usize, span: Span) -> Option<String> {
        let flat = &self.backend.flat.tables[table];
        let declared = self.backend.program.tables[flat.table].span;
        let name = &flat.name;
        let message = format!("table `{name}` is applied at two places that go on differently");
        self.backend.diagnostics.report(
            Diagnostic::error("table-applied-twice", span, message)
                .note(declared, "the table")
                .help("a packet may come by one of them only; declare a second table"),
        );
        None
    }
}

/// The nodes that follow a table.
fn ways<'n>(
    next: &'n indexmap::IndexMap<String, Option<String>>,
    base: &'n Option<String>,
) -> impl Iterator<Item = &'n str> {
    next.values()
        .chain([base])
        .filter_map(|next| next.as_deref())
}

/// Successors by hit and miss, or by action, as those of another place are. None: they cannot be told so.
fn like(successors: Successors, other: &Successors) -> Option<Successors> {
    let is_same = |of: &Successors| of.by_action.keys().eq(other.by_action.keys());
    if is_same(&successors) {
        return Some(successors);
    }
    let next = successors.by_action.values().next()?.clone();
    let all_same = successors.by_action.values().all(|of| *of == next);
    all_same.then(|| Successors {
        by_action: other
            .by_action
            .keys()
            .map(|of| (of.clone(), next.clone()))
            .collect(),
        base_default: next,
    })
}
