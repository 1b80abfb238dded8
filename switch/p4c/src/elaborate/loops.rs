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
use crate::diagnostics::Diagnostic;
use crate::ir::{BinaryOp, Expr, ExprKind, Stmt, VarId};
use crate::source::Span;
use crate::types::Type;

impl Elaborator<'_> {
    pub(super) fn for_loop(
        &mut self,
        condition: &Expr,
        update: &[Stmt],
        body: &[Stmt],
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let (mut inner, around) = self.loop_env(env);
        let mut round = Vec::new();
        let condition = self.expr(condition, &inner, &mut round);
        self.leave_unless(condition, around, &mut round, span);
        self.round_body(body, &inner, around, &mut round, span);
        self.statements(update, &mut inner, &mut round);
        self.push_loop(round, around, env, out, span);
    }

    /// Counts up to the last value and not past it, where it would start from 0 again.
    pub(super) fn for_range(
        &mut self,
        var: VarId,
        [low, high]: [&Expr; 2],
        body: &[Stmt],
        env: &mut Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let (low, high) = (self.expr(low, env, out), self.expr(high, env, out));
        let high = self.saved(high, out);
        let (mut inner, around) = self.loop_env(env);
        let ty = low.ty.clone();
        let name = self.program.vars[var].name.clone();
        // The body may change its variable; that changes nothing for the next round.
        let item = self.add_var(&name, ty.clone(), Role::Local, span);
        let count = self.add_var(&name, ty.clone(), Role::Local, span);
        inner.vars.insert(var, item.clone());
        self.push(out, FlatKind::Assign(count.clone(), low), span);
        let compare = |op, ty: &Type| Expr {
            kind: ExprKind::Binary(op, Box::new(count.clone()), Box::new(high.clone())),
            ty: ty.clone(),
            span,
        };
        let mut round = Vec::new();
        self.push(&mut round, FlatKind::Assign(item, count.clone()), span);
        self.round_body(body, &inner, around, &mut round, span);
        self.leave_unless(compare(BinaryOp::Ne, &Type::Bool), around, &mut round, span);
        let one = Expr::int(1, ty.clone(), span);
        let next = Expr {
            kind: ExprKind::Binary(BinaryOp::Add, Box::new(count.clone()), Box::new(one)),
            ty,
            span,
        };
        self.push(&mut round, FlatKind::Assign(count.clone(), next), span);
        let mut rounds = Vec::new();
        self.push_loop(round, around, env, &mut rounds, span);
        let any = compare(BinaryOp::Le, &Type::Bool);
        self.push(out, FlatKind::If(any, rounds, Vec::new()), span);
    }

    /// One round is written out for every item.
    pub(super) fn for_each(
        &mut self,
        var: VarId,
        items: &[Expr],
        body: &[Stmt],
        env: &mut Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let declared = &self.program.vars[var];
        let (name, ty) = (declared.name.clone(), declared.ty.substitute(&env.types));
        let item = self.add_var(&name, ty, Role::Local, span);
        let on_break = self.new_label();
        let mut rounds = Vec::new();
        for value in items {
            if !self.diagnostics.spend(1, span) {
                break;
            }
            let around = Loop {
                on_break,
                on_continue: self.new_label(),
            };
            let mut inner = env.clone();
            inner.loops = Some(around);
            let value = self.expr(value, &inner, &mut rounds);
            self.push(&mut rounds, FlatKind::Assign(item.clone(), value), span);
            inner.vars.insert(var, item.clone());
            self.round_body(body, &inner, around, &mut rounds, span);
        }
        self.push_labeled(on_break, rounds, out, span);
    }

    fn loop_env(&mut self, env: &Env) -> (Env, Loop) {
        let around = Loop {
            on_break: self.new_label(),
            on_continue: self.new_label(),
        };
        let mut inner = env.clone();
        inner.loops = Some(around);
        (inner, around)
    }

    fn leave_unless(
        &mut self,
        condition: Expr,
        around: Loop,
        round: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let leave = FlatStmt {
            kind: FlatKind::Break(around.on_break),
            span,
        };
        self.push(
            round,
            FlatKind::If(condition, Vec::new(), vec![leave]),
            span,
        );
    }

    fn round_body(
        &mut self,
        body: &[Stmt],
        env: &Env,
        around: Loop,
        round: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let body = self.branch(body, env);
        self.push_labeled(around.on_continue, body, round, span);
    }

    fn push_loop(
        &mut self,
        round: Vec<FlatStmt>,
        around: Loop,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let again = FlatStmt {
            kind: FlatKind::Loop(round),
            span,
        };
        let mut all = vec![FlatStmt {
            kind: FlatKind::Labeled(around.on_break, vec![again]),
            span,
        }];
        if env.in_action {
            out.append(&mut all);
            return;
        }
        if let Some(table) = applied_table(&all) {
            let name = &self.flat.tables[table].name;
            self.diagnostics.report(
                Diagnostic::error(
                    "table-in-loop",
                    span,
                    format!("table `{name}` is applied in a loop"),
                )
                .help("BMv2 applies a table at most once; look everything up before the loop"),
            );
            return;
        }
        let mut outer = Vec::new();
        targets(&all, &mut Vec::new(), &mut outer);
        if outer.is_empty() {
            self.push(out, atomic(all), span);
            return;
        }
        let way = self.add_var("way_out", Type::bit(8), Role::Local, span);
        let number = |i: usize| Expr::int(i as u32, Type::bit(8), span);
        let end = self.new_label();
        redirect(&mut all, &outer, &way, end);
        let start = FlatStmt {
            kind: FlatKind::Assign(way.clone(), number(0)),
            span,
        };
        all.insert(0, start);
        let labeled = FlatStmt {
            kind: FlatKind::Labeled(end, all),
            span,
        };
        self.push(out, atomic(vec![labeled]), span);
        for (i, label) in outer.into_iter().enumerate() {
            let taken = Expr {
                kind: ExprKind::Binary(
                    BinaryOp::Eq,
                    Box::new(way.clone()),
                    Box::new(number(i + 1)),
                ),
                ty: Type::Bool,
                span,
            };
            let go = FlatStmt {
                kind: FlatKind::Break(label),
                span,
            };
            self.push(out, FlatKind::If(taken, vec![go], Vec::new()), span);
        }
    }
}

fn atomic(body: Vec<FlatStmt>) -> FlatKind {
    FlatKind::Atomic {
        name: "loop".to_owned(),
        body,
    }
}

/// A table among the statements.
fn applied_table(body: &[FlatStmt]) -> Option<usize> {
    body.iter().find_map(|s| match &s.kind {
        FlatKind::ApplyTable(table, _) => Some(*table),
        FlatKind::If(_, a, b) => applied_table(a).or_else(|| applied_table(b)),
        FlatKind::Labeled(_, body) | FlatKind::Atomic { body, .. } | FlatKind::Loop(body) => {
            applied_table(body)
        }
        _ => None,
    })
}

/// Labels that are jumped to and are not inside.
fn targets(body: &[FlatStmt], inside: &mut Vec<Label>, outer: &mut Vec<Label>) {
    for statement in body {
        match &statement.kind {
            FlatKind::Break(label) if !inside.contains(label) && !outer.contains(label) => {
                outer.push(*label);
            }
            FlatKind::If(_, a, b) => {
                targets(a, inside, outer);
                targets(b, inside, outer);
            }
            FlatKind::Labeled(label, body) => {
                inside.push(*label);
                targets(body, inside, outer);
                inside.pop();
            }
            FlatKind::Atomic { body, .. } | FlatKind::Loop(body) => targets(body, inside, outer),
            _ => {}
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
                    let kind = FlatKind::Assign(way.clone(), value);
                    body.insert(i, FlatStmt { kind, span });
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
