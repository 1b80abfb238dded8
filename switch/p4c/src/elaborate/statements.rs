//! Statements.

use super::flat::{Branches, FlatKind, FlatStmt, Role};
use super::{Elaborator, Env};
use crate::eval::Value;
use crate::ir::{BinaryOp, Expr, ExprKind, Stmt, StmtKind, UnaryOp};
use crate::types::Type;

impl Elaborator<'_> {
    pub(super) fn statements(&mut self, body: &[Stmt], env: &mut Env, out: &mut Vec<FlatStmt>) {
        for statement in body {
            self.statement(statement, env, out);
        }
    }

    pub(super) fn branch(&mut self, body: &[Stmt], env: &Env) -> Vec<FlatStmt> {
        let mut inner = env.clone();
        let mut out = Vec::new();
        self.statements(body, &mut inner, &mut out);
        out
    }

    fn statement(&mut self, statement: &Stmt, env: &mut Env, out: &mut Vec<FlatStmt>) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Assign(target, value) => {
                // The place is settled first, then the value (specification, section 12.1).
                let target = self.place(target, env, out);
                let value = self.expr(value, env, out);
                self.write(&target, value, out);
            }
            StmtKind::Update(target, op, value) => {
                let target = self.place(target, env, out);
                let mut old = self.read(target.clone(), out);
                if self.has_effects(value) {
                    old = self.saved(old, out);
                }
                let value = self.expr(value, env, out);
                let ty = target.ty.clone();
                let result = self.binary(*op, old, value, ty, span);
                self.write(&target, result, out);
            }
            StmtKind::Call(call) => self.call_statement(call, env, out, span),
            StmtKind::If(condition, then, otherwise) => {
                self.if_statement(condition, then, otherwise, env, out, span)
            }
            StmtKind::Block { atomic, body } => {
                let inner = self.branch(body, env);
                if *atomic && !env.in_action && is_action_body(&inner) {
                    let name = "atomic".to_owned();
                    self.push(out, FlatKind::Atomic { name, body: inner }, span);
                } else {
                    out.extend(inner);
                }
            }
            StmtKind::Switch(subject, arms) => self.switch(subject, arms, env, out, span),
            StmtKind::SwitchAction(table, arms) => {
                let mut cases = Vec::new();
                let mut rest = Vec::new();
                for (labels, body) in arms {
                    let body = self.branch(body, env);
                    // What falls through to `default` is what `default` is for.
                    if labels.iter().any(Option::is_none) {
                        rest = body;
                    } else {
                        cases.push((labels.iter().flatten().copied().collect(), body));
                    }
                }
                self.apply_table(*table, Branches::Actions(cases, rest), env, out, span);
            }
            StmtKind::Declare(var, init) => {
                let declared = &self.program.vars[*var];
                let ty = declared.ty.substitute(&env.types);
                let init = init.as_ref().map(|i| self.expr(i, env, out));
                let name = declared.name.clone();
                // Constants that turn out to be known need no storage.
                if let Some(value) = &init
                    && !declared.writable
                    && value.as_value().is_some()
                {
                    env.vars.insert(*var, value.clone());
                    return;
                }
                let storage = self.add_var(&name, ty, Role::Local, span);
                env.vars.insert(*var, storage.clone());
                match init {
                    Some(value) => self.push(out, FlatKind::Assign(storage, value), span),
                    None => self.invalidate(&storage, out),
                }
            }
            StmtKind::For {
                condition,
                update,
                body,
            } => self.for_loop(condition, update, body, env, out, span),
            StmtKind::ForRange {
                var,
                low,
                high,
                body,
            } => self.for_range(*var, [low, high], body, env, out, span),
            StmtKind::ForEach { var, items, body } => {
                self.for_each(*var, items, body, env, out, span);
            }
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(statement.kind, StmtKind::Break);
                if let Some(around) = env.loops {
                    let label = if is_break {
                        around.on_break
                    } else {
                        around.on_continue
                    };
                    self.push(out, FlatKind::Break(label), span);
                }
            }
            StmtKind::Return(value) => {
                let Some((label, result)) = env.returns.clone() else {
                    return;
                };
                if let (Some(value), Some(result)) = (value, result) {
                    let value = self.expr(value, env, out);
                    self.push(out, FlatKind::Assign(result, value), span);
                }
                self.push(out, FlatKind::Break(label), span);
            }
            StmtKind::Exit => {
                for (target, copy) in env.on_exit.iter().rev().flatten() {
                    self.write(target, copy.clone(), out);
                }
                self.push(out, FlatKind::Exit, span);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn if_statement(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: crate::source::Span,
    ) {
        // `if (t.apply().hit)` is a branch of the table itself.
        let (inner, negated) = match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, operand) => (&**operand, true),
            _ => (condition, false),
        };
        if let ExprKind::TableHit { table, miss } = inner.kind {
            let (then, otherwise) = (self.branch(then, env), self.branch(otherwise, env));
            let branches = if negated == miss {
                Branches::HitMiss(then, otherwise)
            } else {
                Branches::HitMiss(otherwise, then)
            };
            self.apply_table(table, branches, env, out, span);
            return;
        }
        let condition = self.expr(condition, env, out);
        match condition.as_value() {
            Some(Value::Bool(true)) => out.extend(self.branch(then, env)),
            Some(Value::Bool(false)) => out.extend(self.branch(otherwise, env)),
            _ => {
                let (then, otherwise) = (self.branch(then, env), self.branch(otherwise, env));
                self.push(out, FlatKind::If(condition, then, otherwise), span);
            }
        }
    }

    /// A switch on a value is a chain of comparisons.
    fn switch(
        &mut self,
        subject: &Expr,
        arms: &[(Vec<Option<Expr>>, Vec<Stmt>)],
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: crate::source::Span,
    ) {
        let value = self.expr(subject, env, out);
        let subject = self.saved(value, out);
        let mut chain: Vec<FlatStmt> = Vec::new();
        if let Some((_, body)) = arms
            .iter()
            .find(|(labels, _)| labels.iter().any(Option::is_none))
        {
            chain = self.branch(body, env);
        }
        for (labels, body) in arms.iter().rev() {
            if labels.iter().any(Option::is_none) {
                continue;
            }
            let mut condition: Option<Expr> = None;
            for label in labels.iter().flatten() {
                let label = self.pure_expr(label, env);
                let equal = Expr {
                    span: label.span,
                    kind: ExprKind::Binary(
                        BinaryOp::Eq,
                        Box::new(subject.clone()),
                        Box::new(label),
                    ),
                    ty: Type::Bool,
                };
                condition = Some(match condition {
                    None => equal,
                    Some(before) => Expr {
                        span: equal.span,
                        kind: ExprKind::Binary(BinaryOp::Or, Box::new(before), Box::new(equal)),
                        ty: Type::Bool,
                    },
                });
            }
            let Some(condition) = condition else { continue };
            let body = self.branch(body, env);
            chain = vec![FlatStmt {
                kind: FlatKind::If(condition, body, chain),
                span,
            }];
        }
        out.append(&mut chain);
    }
}

/// Contains nothing that only a control can do.
fn is_action_body(body: &[FlatStmt]) -> bool {
    body.iter().all(|s| match &s.kind {
        FlatKind::ApplyTable(..) | FlatKind::Break(_) => false,
        FlatKind::If(_, a, b) => is_action_body(a) && is_action_body(b),
        FlatKind::Labeled(_, body) | FlatKind::Atomic { body, .. } | FlatKind::Loop(body) => {
            is_action_body(body)
        }
        _ => true,
    })
}
