//! Control bodies as graphs of tables and conditions.
//!
//! The statements are walked from the last to the first, so that every node knows its successor when it
//! is made. What stands between tables and conditions becomes an action of a generated table without key.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use indexmap::IndexMap;

use super::backend::Backend;
use super::successors::{Applied, Successors};
use crate::elaborate::flat::{Branches, FlatControl, FlatKind, FlatStmt, Label};
use crate::ir::Expr;
use crate::source::Span;

/// How many entries a table has room for if the program does not say, as with p4c.
pub(super) const DEFAULT_SIZE: u32 = 1024;

/// A pipeline while it is built.
pub(super) struct Pipeline<'b, 'a> {
    pub backend: &'b mut Backend<'a>,
    pub tables: Vec<json::Table>,
    pub conditionals: Vec<json::Conditional>,
    pub profiles: Vec<json::ActionProfile>,
    /// The node behind each labeled block; none: the end of the pipeline.
    labels: HashMap<Label, Option<String>>,
    /// Tables of the program that are already nodes.
    pub applied: HashMap<usize, Applied>,
}

impl Backend<'_> {
    pub(super) fn pipeline(
        &mut self,
        name: &str,
        id: u32,
        control: &FlatControl,
    ) -> json::Pipeline {
        let source_info = self.source_info(control.span);
        let mut pipeline = Pipeline {
            backend: self,
            tables: Vec::new(),
            conditionals: Vec::new(),
            profiles: Vec::new(),
            labels: HashMap::new(),
            applied: HashMap::new(),
        };
        let init_table = pipeline.sequence(&control.body, None);
        // They were made from the end; ids and order follow the program again.
        pipeline.tables.reverse();
        pipeline.conditionals.reverse();
        for (id, table) in (0..).zip(&mut pipeline.tables) {
            table.id = id;
        }
        for (id, conditional) in (0..).zip(&mut pipeline.conditionals) {
            conditional.id = id;
        }
        json::Pipeline {
            name: name.to_owned(),
            id,
            source_info,
            init_table,
            tables: pipeline.tables,
            action_profiles: pipeline.profiles,
            conditionals: pipeline.conditionals,
            action_calls: Vec::new(),
        }
    }
}

impl Pipeline<'_, '_> {
    /// The node that runs `statements` and then goes to `next`.
    fn sequence(&mut self, statements: &[FlatStmt], mut next: Option<String>) -> Option<String> {
        let mut end = statements.len();
        while end > 0 {
            let statement = &statements[end - 1];
            if is_simple(statement) {
                let start = statements[..end]
                    .iter()
                    .rposition(|s| !is_simple(s))
                    .map_or(0, |i| i + 1);
                next = self.generated_table(&statements[start..end], None, next);
                end = start;
                continue;
            }
            end -= 1;
            next = self.node(statement, next);
        }
        next
    }

    fn node(&mut self, statement: &FlatStmt, next: Option<String>) -> Option<String> {
        match &statement.kind {
            FlatKind::If(condition, then, otherwise) => {
                let then = self.sequence(then, next.clone());
                let otherwise = self.sequence(otherwise, next);
                // Both ways lead to the same node, so there is nothing to decide.
                if then == otherwise {
                    return then;
                }
                Some(self.conditional(condition, then, otherwise))
            }
            FlatKind::Atomic { name, body } => self.generated_table(body, Some(name), next),
            FlatKind::ApplyTable(table, branches) => {
                self.table_node(*table, branches, next, statement.span)
            }
            FlatKind::Labeled(label, body) => {
                self.labels.insert(*label, next.clone());
                self.sequence(body, next)
            }
            FlatKind::Break(label) => self.labels.get(label).cloned().flatten(),
            FlatKind::Exit => None,
            _ => next,
        }
    }

    /// A node that decides between two others.
    pub(super) fn conditional(
        &mut self,
        condition: &Expr,
        then: Option<String>,
        otherwise: Option<String>,
    ) -> String {
        let name = self.backend.node_names.unique("node");
        let conditional = json::Conditional {
            name: name.clone(),
            id: 0,
            source_info: self.backend.source_info(condition.span),
            expression: self.backend.condition(condition),
            true_next: then,
            false_next: otherwise,
        };
        self.conditionals.push(conditional);
        name
    }

    /// A table without key whose only action runs the statements.
    fn generated_table(
        &mut self,
        statements: &[FlatStmt],
        action: Option<&str>,
        next: Option<String>,
    ) -> Option<String> {
        let span = statements.first().map_or_else(Span::default, |s| s.span);
        let primitives = self.backend.action_body(statements);
        if primitives.is_empty() {
            return next;
        }
        let generated = self.backend.generated_name(span);
        let base = action.map_or(generated, |name| {
            name.rsplit('.').next().unwrap_or(name).to_owned()
        });
        let action_name = match action {
            Some(name) => name.to_owned(),
            None => self.backend.node_names.unique(&base),
        };
        Some(self.keyless_table(&base, action_name, primitives, span, next))
    }

    pub(super) fn keyless_table(
        &mut self,
        base: &str,
        action_name: String,
        primitives: Vec<json::Primitive>,
        span: Span,
        next: Option<String>,
    ) -> String {
        let action_id = self
            .backend
            .add_action(action_name.clone(), Vec::new(), primitives, span);
        let name = self.backend.node_names.unique(&format!("tbl_{base}"));
        let source_info = self.backend.source_info(span);
        self.tables.push(json::Table {
            name: name.clone(),
            id: 0,
            source_info,
            max_size: Some(DEFAULT_SIZE),
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
            ..json::Table::default()
        });
        name
    }

    fn table_node(
        &mut self,
        table: usize,
        branches: &Branches,
        next: Option<String>,
        span: Span,
    ) -> Option<String> {
        let successors = self.successors(table, branches, next);
        if self.applied.contains_key(&table) {
            return self.apply_again(table, successors, span);
        }
        let entry = self.table(table, &successors);
        self.applied
            .insert(table, Applied::new(entry.clone(), successors));
        Some(entry)
    }

    fn successors(
        &mut self,
        table: usize,
        branches: &Branches,
        next: Option<String>,
    ) -> Successors {
        let names: Vec<String> = self.backend.flat.tables[table]
            .actions
            .iter()
            .map(|a| self.backend.flat.actions[*a].name.clone())
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
                let hit = self.sequence(hit, next.clone());
                let miss = self.sequence(miss, next);
                by_action.insert("__HIT__".to_owned(), hit);
                by_action.insert("__MISS__".to_owned(), miss);
                Successors {
                    base_default: None,
                    by_action,
                }
            }
            Branches::Actions(arms, rest) => {
                let default = self.sequence(rest, next.clone());
                for name in &names {
                    by_action.insert(name.clone(), default.clone());
                }
                for (labels, body) in arms {
                    let target = self.sequence(body, next.clone());
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

/// Whether a statement can run inside of a generated action together with its neighbours.
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
