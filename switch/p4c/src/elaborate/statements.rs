//! Statements.

use super::calls::is_fixed;
use super::flat::{Branches, FlatKind, FlatStmt};
use super::{Elaborator, Env};
use crate::eval::Value;
use crate::ir::{BinaryOp, Expr, ExprKind, Stmt, StmtKind, UnaryOp, VarId};
use crate::source::Span;
use crate::types::Type;

impl Elaborator<'_> {
    pub(super) fn statements(&mut self, body: &[Stmt], env: &mut Env) {
        for statement in body {
            self.statement(statement, env);
        }
    }

    pub(super) fn branch(&mut self, body: &[Stmt], env: &Env) -> Vec<FlatStmt> {
        self.block(|e| e.statements(body, &mut env.clone()))
    }

    pub(super) fn statement(&mut self, statement: &Stmt, env: &mut Env) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Assign(target, value) => {
                // The place is settled first, then the value (specification, section 12.1).
                let target = self.place(target, env);
                let value = self.expr(value, env);
                self.write(&target, value);
            }
            StmtKind::Update(target, op, value) => {
                self.update(target, *op, value, env, span);
            }
            StmtKind::Call(call) => self.call_statement(call, env, span),
            StmtKind::If(condition, then, otherwise) => {
                self.if_statement(condition, then, otherwise, env, span)
            }
            StmtKind::Block { atomic, body } => {
                let inner = self.branch(body, env);
                if *atomic && !env.in_action && is_action_body(&inner) {
                    let name = "atomic".to_owned();
                    self.push(FlatKind::Atomic { name, body: inner }, span);
                } else {
                    self.out.extend(inner);
                }
            }
            StmtKind::Switch(subject, arms) => self.switch(subject, arms, env, span),
            StmtKind::SwitchAction(table, arms) => {
                let mut cases = Vec::new();
                let mut rest = Vec::new();
                for (labels, body) in arms {
                    let body = self.branch(body, env);
                    // Labels beside `default` need no case of their own.
                    if labels.iter().any(Option::is_none) {
                        rest = body;
                    } else {
                        cases.push((labels.iter().flatten().copied().collect(), body));
                    }
                }
                self.apply_table(*table, Branches::Actions(cases, rest), env, span);
            }
            StmtKind::Declare(var, init) => {
                self.declare(*var, init.as_ref(), env, span);
            }
            StmtKind::For {
                condition,
                update,
                body,
            } => self.for_loop(condition, update, body, env, span),
            StmtKind::ForRange {
                var,
                low,
                high,
                body,
            } => self.for_range(*var, [low, high], body, env, span),
            StmtKind::ForEach {
                var,
                collection,
                body,
            } => self.for_each(*var, collection, body, env, span),
            StmtKind::Break | StmtKind::Continue => {
                if let Some(around) = env.loops {
                    let label = match statement.kind {
                        StmtKind::Break => around.on_break,
                        _ => around.on_continue,
                    };
                    self.push(FlatKind::Break(label), span);
                }
            }
            StmtKind::Return(value) => {
                let Some((label, result)) = env.returns.clone() else {
                    return;
                };
                if let (Some(value), Some(result)) = (value, result) {
                    let value = self.expr(value, env);
                    self.push(FlatKind::Assign(result, value), span);
                }
                self.push(FlatKind::Break(label), span);
            }
            StmtKind::Exit => {
                for (target, copy) in env.on_exit.iter().rev().flatten() {
                    self.write(target, copy.clone());
                }
                self.push(FlatKind::Exit, span);
            }
        }
    }

    /// `target op= value`
    fn update(&mut self, target: &Expr, op: BinaryOp, value: &Expr, env: &Env, span: Span) {
        let target = self.place(target, env);
        let old = self.read(target.clone());
        let (value, before) = self.apart(|e| e.expr(value, env));
        let old = match self.may_change(&before, &old) {
            true => self.saved(old),
            false => old,
        };
        self.out.extend(before);
        let result = self.binary(op, old, value, target.ty.clone(), span);
        self.write(&target, result);
    }

    /// A constant or variable of a body, with its value if it has one.
    fn declare(&mut self, var: VarId, init: Option<&Expr>, env: &mut Env, span: Span) {
        let declared = &self.program.vars[var];
        let init = init.map(|i| self.expr(i, env));
        // Constants that turn out to be known need no storage.
        if let Some(value) = &init
            && !declared.writable
            && is_fixed(value)
        {
            env.vars.insert(var, value.clone());
            return;
        }
        let ty = declared.ty.substitute(&env.types);
        let storage = self.storage(env.unit.as_deref(), var, ty, span);
        env.vars.insert(var, storage.clone());
        match init {
            Some(value) => self.push(FlatKind::Assign(storage, value), span),
            None => self.invalidate(&storage),
        }
    }

    fn if_statement(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
        env: &Env,
        span: Span,
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
            self.apply_table(table, branches, env, span);
            return;
        }
        let condition = self.expr(condition, env);
        match condition.as_value() {
            Some(Value::Bool(true)) => self.statements(then, &mut env.clone()),
            Some(Value::Bool(false)) => self.statements(otherwise, &mut env.clone()),
            _ => {
                let (then, otherwise) = (self.branch(then, env), self.branch(otherwise, env));
                self.push(FlatKind::If(condition, then, otherwise), span);
            }
        }
    }

    /// A switch on a value is a chain of comparisons.
    fn switch(
        &mut self,
        subject: &Expr,
        arms: &[(Vec<Option<Expr>>, Vec<Stmt>)],
        env: &Env,
        span: Span,
    ) {
        let subject = match self.expr(subject, env) {
            known if known.as_value().is_some() => known,
            value => self.saved(value),
        };
        let is_default = |labels: &[Option<Expr>]| labels.iter().any(Option::is_none);
        let mut chain: Vec<FlatStmt> = Vec::new();
        if let Some((_, body)) = arms.iter().find(|(labels, _)| is_default(labels)) {
            chain = self.branch(body, env);
        }
        for (labels, body) in arms.iter().rev().filter(|(labels, _)| !is_default(labels)) {
            let mut condition: Option<Expr> = None;
            for label in labels.iter().flatten() {
                let label = self.pure_expr(label, env);
                let at = label.span;
                let equal = self.binary(BinaryOp::Eq, subject.clone(), label, Type::Bool, at);
                condition = Some(match condition {
                    None => equal,
                    Some(before) => self.binary(BinaryOp::Or, before, equal, Type::Bool, at),
                });
            }
            let Some(condition) = condition else { continue };
            match condition.as_value() {
                Some(Value::Bool(true)) => chain = self.branch(body, env),
                Some(_) => {}
                None => {
                    let body = self.branch(body, env);
                    chain = vec![FlatKind::If(condition, body, chain).at(span)];
                }
            }
        }
        self.out.append(&mut chain);
    }
}

/// Whether the body has nothing that only a control can do: no table is applied, and it is not left by a jump.
fn is_action_body(body: &[FlatStmt]) -> bool {
    body.iter().all(|s| match &s.kind {
        FlatKind::ApplyTable(..) | FlatKind::Break(_) => false,
        kind => kind.bodies().all(is_action_body),
    })
}
