//! Control bodies as graphs of tables and conditions.
//!
//! The statements are walked from the last to the first, so that every node knows its successor when it
//! is made. What stands between tables and conditions becomes an action of a generated table without key.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use indexmap::IndexMap;

use super::Backend;
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{Branches, FlatControl, FlatKind, FlatStmt, Label};
use crate::source::Span;

/// The nodes of one pipeline while it is built.
#[derive(Default)]
pub(super) struct Graph {
    pub tables: Vec<json::Table>,
    pub conditionals: Vec<json::Conditional>,
    pub profiles: Vec<json::ActionProfile>,
    /// What follows each labeled block.
    labels: HashMap<Label, Option<String>>,
    /// Tables of the program that are already nodes, and their successors.
    applied: HashMap<usize, Successors>,
}

/// Where a table leads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Successors {
    pub base_default: Option<String>,
    pub by_action: IndexMap<String, Option<String>>,
}

impl Backend<'_> {
    pub(super) fn pipeline(
        &mut self,
        name: &str,
        id: u32,
        control: &FlatControl,
    ) -> json::Pipeline {
        let mut graph = Graph::default();
        let init_table = self.sequence(&control.body, None, &mut graph);
        // They were made from the end; ids and order follow the program again.
        graph.tables.reverse();
        graph.conditionals.reverse();
        for (id, table) in (0..).zip(&mut graph.tables) {
            table.id = id;
        }
        for (id, conditional) in (0..).zip(&mut graph.conditionals) {
            conditional.id = id;
        }
        json::Pipeline {
            name: name.to_owned(),
            id,
            source_info: self.source_info(control.span),
            init_table,
            tables: graph.tables,
            action_profiles: graph.profiles,
            conditionals: graph.conditionals,
            action_calls: Vec::new(),
        }
    }

    /// The node that runs `statements` and then goes to `next`.
    fn sequence(
        &mut self,
        statements: &[FlatStmt],
        mut next: Option<String>,
        graph: &mut Graph,
    ) -> Option<String> {
        let mut end = statements.len();
        while end > 0 {
            let statement = &statements[end - 1];
            if is_simple(statement) {
                let start = statements[..end]
                    .iter()
                    .rposition(|s| !is_simple(s))
                    .map_or(0, |i| i + 1);
                next = self.generated_table(&statements[start..end], None, next, graph);
                end = start;
                continue;
            }
            end -= 1;
            next = self.node(statement, next, graph);
        }
        next
    }

    fn node(
        &mut self,
        statement: &FlatStmt,
        next: Option<String>,
        graph: &mut Graph,
    ) -> Option<String> {
        match &statement.kind {
            FlatKind::If(condition, then, otherwise) => {
                let then = self.sequence(then, next.clone(), graph);
                let otherwise = self.sequence(otherwise, next, graph);
                // Both ways lead to the same place: nothing to decide.
                if then == otherwise {
                    return then;
                }
                let name = self.node_name("node");
                let conditional = json::Conditional {
                    name: name.clone(),
                    id: 0,
                    source_info: self.source_info(condition.span),
                    expression: self.condition(condition),
                    true_next: then,
                    false_next: otherwise,
                };
                graph.conditionals.push(conditional);
                Some(name)
            }
            FlatKind::Atomic { name, body } => self.generated_table(body, Some(name), next, graph),
            FlatKind::ApplyTable(table, branches) => {
                self.table_node(*table, branches, next, statement.span, graph)
            }
            FlatKind::Labeled(label, body) => {
                graph.labels.insert(*label, next.clone());
                self.sequence(body, next, graph)
            }
            FlatKind::Break(label) => graph.labels.get(label).cloned().flatten(),
            FlatKind::Exit => None,
            _ => next,
        }
    }

    /// A table without key whose only action runs the statements.
    fn generated_table(
        &mut self,
        statements: &[FlatStmt],
        action: Option<&str>,
        next: Option<String>,
        graph: &mut Graph,
    ) -> Option<String> {
        let span = statements.first().map_or_else(Span::default, |s| s.span);
        let primitives = self.action_body(statements);
        if primitives.is_empty() {
            return next;
        }
        let generated = self.generated_name(span);
        let base = action.map_or(generated, |name| {
            name.rsplit('.').next().unwrap_or(name).to_owned()
        });
        let action_name = match action {
            Some(name) => name.to_owned(),
            None => self.node_name(&base),
        };
        Some(self.keyless_table(&base, action_name, primitives, span, next, graph))
    }

    pub(super) fn keyless_table(
        &mut self,
        base: &str,
        action_name: String,
        primitives: Vec<json::Primitive>,
        span: Span,
        next: Option<String>,
        graph: &mut Graph,
    ) -> String {
        let action_id = self.add_action(action_name.clone(), Vec::new(), primitives, span);
        let name = self.node_name(&format!("tbl_{base}"));
        let source_info = self.source_info(span);
        graph.tables.push(json::Table {
            name: name.clone(),
            id: 0,
            source_info,
            key: Vec::new(),
            match_type: json::MatchType::Exact,
            kind: json::TableKind::Simple,
            action_profile: None,
            max_size: Some(super::tables::DEFAULT_SIZE),
            with_counters: false,
            support_timeout: false,
            direct_meters: None,
            action_ids: vec![action_id],
            actions: vec![action_name.clone()],
            base_default_next: next.clone(),
            next_tables: IndexMap::from([(action_name, next)]),
            default_entry: Some(json::DefaultEntry {
                action_id,
                action_const: true,
                action_data: Vec::new(),
                action_entry_const: true,
            }),
            entries: None,
        });
        name
    }

    fn table_node(
        &mut self,
        table: usize,
        branches: &Branches,
        next: Option<String>,
        span: Span,
        graph: &mut Graph,
    ) -> Option<String> {
        let successors = self.successors(table, branches, next, graph);
        match graph.applied.get(&table) {
            None => {
                let first = self.table(table, &successors, graph);
                graph.applied.insert(table, successors);
                Some(first)
            }
            Some(before) if *before == successors => Some(self.flat.tables[table].name.clone()),
            Some(_) => {
                let name = &self.flat.tables[table].name;
                let declared = self.program.tables[self.flat.tables[table].table].span;
                self.diagnostics.report(
                    Diagnostic::error(
                        "table-applied-twice",
                        span,
                        format!("table `{name}` is applied at two places that go on differently"),
                    )
                    .note(declared, "the table")
                    .help("a BMv2 table has one successor; declare a second table"),
                );
                None
            }
        }
    }

    fn successors(
        &mut self,
        table: usize,
        branches: &Branches,
        next: Option<String>,
        graph: &mut Graph,
    ) -> Successors {
        let names: Vec<String> = self.flat.tables[table]
            .actions
            .iter()
            .map(|a| self.flat.actions[*a].name.clone())
            .collect();
        let mut by_action = IndexMap::new();
        match branches {
            Branches::None => {
                by_action.extend(names.into_iter().map(|name| (name, next.clone())));
                Successors {
                    base_default: next,
                    by_action,
                }
            }
            Branches::HitMiss(hit, miss) => {
                let hit = self.sequence(hit, next.clone(), graph);
                let miss = self.sequence(miss, next, graph);
                by_action.insert("__HIT__".to_owned(), hit);
                by_action.insert("__MISS__".to_owned(), miss);
                Successors {
                    base_default: None,
                    by_action,
                }
            }
            Branches::Actions(arms, rest) => {
                let default = self.sequence(rest, next.clone(), graph);
                for name in &names {
                    by_action.insert(name.clone(), default.clone());
                }
                for (labels, body) in arms {
                    let target = self.sequence(body, next.clone(), graph);
                    for label in labels {
                        if let Some(name) = names.get(*label) {
                            by_action.insert(name.clone(), target.clone());
                        }
                    }
                }
                Successors {
                    base_default: default,
                    by_action,
                }
            }
        }
    }
}

/// Can run inside of a generated action together with its neighbours.
fn is_simple(statement: &FlatStmt) -> bool {
    matches!(
        statement.kind,
        FlatKind::Assign(..)
            | FlatKind::SetValid(..)
            | FlatKind::PushFront(..)
            | FlatKind::PopFront(..)
            | FlatKind::Extern { .. }
    )
}
