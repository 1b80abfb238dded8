//! Controls and the tables in them.

use std::rc::Rc;

use super::calls::{Arguments, Reach};
use super::flat::{Branches, FlatEntry, FlatKind, FlatTable};
use super::{Elaborator, Env, INSTANCE_PARTS, UNIT_BASE, Unit, full_name};
use crate::diagnostics::Diagnostic;
use crate::ir::{Constructed, Expr, ExprKind, TableId, same};
use crate::source::Span;

/// A table of an instance that has been applied.
#[derive(Clone)]
pub(super) struct MadeTable {
    /// Its number in [`super::flat::Flat::tables`].
    index: usize,
    /// For each key whether it is a variable of its own, which its value is computed into.
    own_keys: Vec<bool>,
}

impl Elaborator<'_> {
    /// Elaborates the locals and the `apply` block; parameters are already bound in `env`.
    pub(super) fn control_body(&mut self, unit: &Rc<Unit>, env: &mut Env) {
        let Constructed::Control(id) = unit.what else {
            return;
        };
        let control = &self.program.controls[id];
        let label = self.new_label();
        let inner = self.block(|e| {
            e.statements(&control.block.locals, env);
            env.returns = Some((label, None));
            e.statements(&control.body, env);
        });
        self.push_labeled(label, inner, control.block.span);
    }

    /// `.apply(...)` of a control.
    pub(super) fn apply_unit(&mut self, object: &Expr, args: Arguments, env: &Env, span: Span) {
        let Some(unit) = self.unit_of(object) else {
            return;
        };
        let Constructed::Control(id) = unit.what else {
            let message = "a parser can only be applied directly in a state, not inside of an `if`";
            self.error("misplaced-apply", span, message);
            return;
        };
        if !self.diagnostics.spend(INSTANCE_PARTS, span) {
            return;
        }
        let control = &self.program.controls[id];
        let reach = match unit.is_shared {
            true => Reach::SharedParameters(&unit),
            false => Reach::Parameters,
        };
        let bound = self.bind(&control.block.params, args, &[], reach, env);
        let mut inner = self.unit_env(&unit, env.depth + 1);
        inner.vars.extend(bound.vars.clone());
        inner.on_exit = env.on_exit.clone();
        inner.on_exit.push(bound.copy_back.clone());
        self.control_body(&unit, &mut inner);
        self.copy_back(bound);
    }

    pub(super) fn apply_table(
        &mut self,
        table: TableId,
        branches: Branches,
        env: &Env,
        span: Span,
    ) {
        let Some(unit) = env.unit.clone() else { return };
        let declared = &self.program.tables[table];
        // Keys are evaluated anew at each application; constants and fields need nothing.
        let elements: Vec<&Expr> = declared.key.iter().map(|k| &k.expr).collect();
        let first_new = self.flat.vars.len();
        let key = self.operands(&elements, env);
        let index = match self.tables.get(&(unit.id, table)).cloned() {
            Some(made) => {
                self.key_again(&made, key, span);
                made.index
            }
            None => {
                let is_own = |k: &Expr| matches!(k.kind, ExprKind::Var(var) if var >= first_new);
                let own_keys = key.iter().map(is_own).collect();
                let built = self.build_table(table, &unit, key, env);
                let index = self.flat.tables.len();
                self.flat.tables.push(built);
                let made = MadeTable { index, own_keys };
                self.tables.insert((unit.id, table), made);
                index
            }
        };
        self.push(FlatKind::ApplyTable(index, branches), span);
    }

    /// The key of a table that is applied a second time: at the same places as before, or computed into the same
    /// variables.
    fn key_again(&mut self, made: &MadeTable, key: Vec<Expr>, span: Span) {
        let before = self.flat.tables[made.index].key.clone();
        for ((before, value), is_own) in before.into_iter().zip(key).zip(&made.own_keys) {
            if *is_own {
                self.push(FlatKind::Assign(before, value), span);
            } else if !same(&before, &value) {
                let declared = &self.program.tables[self.flat.tables[made.index].table];
                let name = &declared.name;
                let message = format!("table `{name}` is applied a second time with another key");
                self.diagnostics.report(
                    Diagnostic::error("table-applied-twice", span, message)
                        .note(declared.span, "the table")
                        .help("use two instances of the control around it"),
                );
            }
        }
    }

    fn table_size(&mut self, table: &crate::ir::Table, env: &Env) -> Option<u64> {
        let size = self.pure_expr(table.size.as_ref()?, env);
        let number: Option<u64> = size.as_number();
        if number.is_none() {
            self.no_size("table", &size, u64::MAX);
        }
        number.filter(|size| *size > 0)
    }

    /// Reports a size that is not known, or that nothing can have.
    pub(super) fn no_size(&self, what: &str, size: &Expr, most: u64) {
        match size.as_int() {
            Some(number) => {
                let message = format!("the size {number} is not between 0 and {most}");
                self.error("bad-width", size.span, message);
            }
            None => {
                let message = format!("the size of a {what} must be known at compile time");
                self.error("not-constant", size.span, message);
            }
        }
    }

    fn build_table(
        &mut self,
        id: TableId,
        unit: &Rc<Unit>,
        key: Vec<Expr>,
        env: &Env,
    ) -> FlatTable {
        let table = &self.program.tables[id];
        let actions = table
            .actions
            .iter()
            .map(|a| self.table_action(a, env))
            .collect();
        let affordable = self
            .diagnostics
            .spend_entries(table.entries.len(), table.span);
        let default_data = match &table.default_action {
            Some(call) => call
                .data
                .iter()
                .map(|value| self.pure_expr(value, env))
                .collect(),
            None => Vec::new(),
        };
        let mut entries = Vec::new();
        for entry in table.entries.iter().filter(|_| affordable) {
            let data = entry.action.data.iter();
            entries.push(FlatEntry {
                keyset: entry
                    .keyset
                    .iter()
                    .map(|set| self.known_set(set, env))
                    .collect(),
                action: entry.action.action_ref,
                data: data.map(|value| self.pure_expr(value, env)).collect(),
                priority: entry.priority,
                is_const: entry.is_const,
                span: entry.span,
            });
        }
        let mut object = |expr: &Option<Expr>| {
            let expr = self.pure_expr(expr.as_ref()?, env);
            match expr.kind {
                ExprKind::Instance(index) if index < UNIT_BASE => Some(index),
                _ => None,
            }
        };
        let implementation = object(&table.implementation);
        let counters = object(&table.counters);
        let meters = object(&table.meters);
        FlatTable {
            name: self.in_pipe(full_name(Some(&unit.path), &table.name, &table.annotations)),
            table: id,
            unit: unit.id,
            key,
            actions,
            default_data,
            entries,
            size: self.table_size(table, env),
            implementation,
            counters,
            meters,
        }
    }
}
