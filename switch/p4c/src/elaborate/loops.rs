//! `for` loops as jumps.
//!
//! ```text
//! for (..; c; u) { b }   ==>   done: { loop { if (!c) break done;  again: { b }  u } }
//! ```
//! `break` leaves `done`, `continue` leaves `again`. A loop is one BMv2 action, since there jumps go back,
//! and between tables they do not. So a jump out of the loop to some place further out first leaves the
//! action and is done behind it.

use super::flat::{FlatKind, FlatStmt, Label, Role};
use super::{Elaborator, Env, Loop};
use crate::ir::{BinaryOp, Expr, Stmt, VarId};
use crate::source::Span;
use crate::types::Type;

impl Elaborator<'_> {
    pub(super) fn for_loop(
        &mut self,
        condition: &Expr,
        update: &[Stmt],
        body: &[Stmt],
        env: &Env,
        span: Span,
    ) {
        let (mut inner, around) = self.loop_env(env);
        let round = self.block(|e| {
            let condition = e.expr(condition, &inner);
            e.leave_unless(condition, around, span);
            e.round_body(body, &inner, around, span);
            e.statements(update, &mut inner);
        });
        self.push_loop(round, around, env, span);
    }

    /// A loop over a range. It counts up to the last value and not past it, where it would start from 0 again.
    pub(super) fn for_range(
        &mut self,
        var: VarId,
        [low, high]: [&Expr; 2],
        body: &[Stmt],
        env: &mut Env,
        span: Span,
    ) {
        let [low, high] = self.pair(low, high, env);
        let high = self.saved(high);
        let (mut inner, around) = self.loop_env(env);
        let ty = low.ty.clone();
        let name = self.program.vars[var].name.clone();
        // The body may change its variable; that changes nothing for the next round.
        let item = self.add_var(&name, ty.clone(), Role::Local, span);
        let count = self.add_var(&name, ty.clone(), Role::Local, span);
        inner.vars.insert(var, item.clone());
        self.push(FlatKind::Assign(count.clone(), low), span);
        let compare = |op| Expr::binary(op, count.clone(), high.clone(), Type::Bool, span);
        let round = self.block(|e| {
            e.push(FlatKind::Assign(item, count.clone()), span);
            e.round_body(body, &inner, around, span);
            e.leave_unless(compare(BinaryOp::Ne), around, span);
            let one = Expr::int(1, ty.clone(), span);
            let next = Expr::binary(BinaryOp::Add, count.clone(), one, ty, span);
            e.push(FlatKind::Assign(count.clone(), next), span);
        });
        let rounds = self.block(|e| e.push_loop(round, around, env, span));
        self.push(
            FlatKind::If(compare(BinaryOp::Le), rounds, Vec::new()),
            span,
        );
    }

    /// A loop over items, which is written out: one round for every item. All items are evaluated before the first one.
    pub(super) fn for_each(
        &mut self,
        var: VarId,
        collection: &Expr,
        body: &[Stmt],
        env: &Env,
        span: Span,
    ) {
        let declared = &self.program.vars[var];
        let (name, ty) = (declared.name.clone(), declared.ty.substitute(&env.types));
        let items = self.expr(collection, env).members();
        let item = self.add_var(&name, ty, Role::Local, span);
        let on_break = self.new_label();
        let mut rounds = Vec::new();
        for _ in 0..items.len() {
            if !self.diagnostics.spend(1, span) {
                break;
            }
            let (mut inner, around) = self.loop_env(env);
            let around = Loop { on_break, ..around };
            inner.loops = Some(around);
            inner.vars.insert(var, item.clone());
            rounds.push(self.block(|e| e.round_body(body, &inner, around, span)));
        }
        // A change in one round must not reach the items of later ones.
        let changed = self.changed_by(rounds.first().map_or(&[], Vec::as_slice), &items);
        let mut values = Vec::new();
        for (i, (value, is_changed)) in items.into_iter().zip(changed).enumerate() {
            values.push(match is_changed && i > 0 {
                true => self.settled(value),
                false => value,
            });
        }
        let all = self.block(|e| {
            for (value, round) in values.into_iter().zip(rounds) {
                e.push(FlatKind::Assign(item.clone(), value), span);
                e.out.extend(round);
            }
        });
        self.push_labeled(on_break, all, span);
    }

    /// The environment of the body of a loop, and where its jumps go.
    fn loop_env(&mut self, env: &Env) -> (Env, Loop) {
        let around = Loop {
            on_break: self.new_label(),
            on_continue: self.new_label(),
        };
        let mut inner = env.clone();
        inner.loops = Some(around);
        (inner, around)
    }

    fn leave_unless(&mut self, condition: Expr, around: Loop, span: Span) {
        let leave = FlatKind::Break(around.on_break).at(span);
        self.push(FlatKind::If(condition, Vec::new(), vec![leave]), span);
    }

    fn round_body(&mut self, body: &[Stmt], env: &Env, around: Loop, span: Span) {
        let body = self.branch(body, env);
        self.push_labeled(around.on_continue, body, span);
    }

    fn push_loop(&mut self, round: Vec<FlatStmt>, around: Loop, env: &Env, span: Span) {
        let again = FlatKind::Loop(round).at(span);
        let mut all = vec![FlatKind::Labeled(around.on_break, vec![again]).at(span)];
        if env.in_action {
            self.out.append(&mut all);
            return;
        }
        if let Some(table) = applied_table(&all) {
            let name = &self.flat.tables[table].name;
            let message = format!("table `{name}` is applied in a loop");
            let help = "BMv2 applies a table at most once; look everything up before the loop";
            let diagnostics = self.diagnostics;
            diagnostics.error_with_help("table-in-loop", span, message, help);
            return;
        }
        let mut outer = Vec::new();
        targets(&all, &mut Vec::new(), &mut outer);
        if outer.is_empty() {
            self.push(atomic(all), span);
            return;
        }
        let way = self.add_var("way_out", Type::bit(8), Role::Local, span);
        let number = |i: usize| Expr::int(i as u32, Type::bit(8), span);
        let end = self.new_label();
        redirect(&mut all, &outer, &way, end);
        all.insert(0, FlatKind::Assign(way.clone(), number(0)).at(span));
        let labeled = FlatKind::Labeled(end, all).at(span);
        self.push(atomic(vec![labeled]), span);
        for (i, label) in outer.into_iter().enumerate() {
            let number = number(i + 1);
            let taken = Expr::binary(BinaryOp::Eq, way.clone(), number, Type::Bool, span);
            let go = FlatKind::Break(label).at(span);
            self.push(FlatKind::If(taken, vec![go], Vec::new()), span);
        }
    }
}

fn atomic(body: Vec<FlatStmt>) -> FlatKind {
    FlatKind::Atomic {
        name: "loop".to_owned(),
        body,
    }
}

/// A table that is applied among the statements, as an index in [`super::flat::Flat::tables`].
pub(super) fn applied_table(body: &[FlatStmt]) -> Option<usize> {
    body.iter().find_map(|s| match &s.kind {
        FlatKind::ApplyTable(table, _) => Some(*table),
        kind => kind.bodies().find_map(applied_table),
    })
}

/// Collects the labels that statements jump to and that are not inside of them.
fn targets(body: &[FlatStmt], inside: &mut Vec<Label>, outer: &mut Vec<Label>) {
    for statement in body {
        match &statement.kind {
            FlatKind::Break(label) if !inside.contains(label) && !outer.contains(label) => {
                outer.push(*label);
            }
            FlatKind::Labeled(label, body) => {
                inside.push(*label);
                targets(body, inside, outer);
                inside.pop();
            }
            kind => kind.bodies().for_each(|body| targets(body, inside, outer)),
        }
    }
}

/// Makes jumps to `outer` note which one it is, and end the action.
fn redirect(body: &mut Vec<FlatStmt>, outer: &[Label], way: &Expr, end: Label) {
    let mut i = 0;
    while i < body.len() {
        let span = body[i].span;
        match &mut body[i].kind {
            FlatKind::Break(label) => {
                if let Some(number) = outer.iter().position(|l| l == label) {
                    *label = end;
                    let value = Expr::int(number as u32 + 1, way.ty.clone(), span);
                    body.insert(i, FlatKind::Assign(way.clone(), value).at(span));
                    i += 1;
                }
            }
            FlatKind::If(_, a, b) => {
                redirect(a, outer, way, end);
                redirect(b, outer, way, end);
            }
            FlatKind::Labeled(_, inner)
            | FlatKind::Atomic { body: inner, .. }
            | FlatKind::Loop(inner) => redirect(inner, outer, way, end),
            _ => {}
        }
        i += 1;
    }
}
