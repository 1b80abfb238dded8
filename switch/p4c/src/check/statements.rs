//! Statements.

use super::places::Place;
use super::rules::switch_labels;
use super::slices::starts_at_run_time;
use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind, ExprKind as Ast, StatementKind};
use crate::diagnostics::Diagnostic;
use crate::ir::{Expr, ExprKind, Stmt, StmtKind};
use crate::source::Span;
use crate::types::Type;

impl Checker<'_> {
    /// A list of statements in a scope of its own.
    pub(super) fn block(&mut self, statements: &[ast::Statement]) -> Vec<Stmt> {
        self.scoped(|c| c.statements(statements))
    }

    pub(super) fn statements(&mut self, statements: &[ast::Statement]) -> Vec<Stmt> {
        statements
            .iter()
            .filter_map(|s| self.statement(s))
            .collect()
    }

    pub(super) fn branch(&mut self, statement: &ast::Statement) -> Vec<Stmt> {
        self.block(std::slice::from_ref(statement))
    }

    pub(super) fn statement(&mut self, statement: &ast::Statement) -> Option<Stmt> {
        let span = statement.span;
        let kind = match &statement.kind {
            StatementKind::Empty => return None,
            StatementKind::Assign { target, op, value } => {
                self.assignment(target, *op, value, span)?
            }
            StatementKind::Call(call) => self.call_statement(call)?,
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.condition(condition);
                let then = self.branch(then);
                let otherwise = otherwise.as_ref().map_or_else(Vec::new, |s| self.branch(s));
                StmtKind::If(condition, then, otherwise)
            }
            StatementKind::Block { annotations, body } => StmtKind::Block {
                atomic: crate::annotations::has(&self.annotations(annotations), "atomic"),
                body: self.block(body),
            },
            StatementKind::Switch { subject, cases } => self.switch(subject, cases)?,
            StatementKind::For {
                init,
                condition,
                update,
                body,
            } => self.for_loop(init, condition, update, body, span)?,
            StatementKind::ForIn {
                ty,
                name,
                collection,
                body,
            } => self.for_in(ty, name, collection, body, span)?,
            StatementKind::Break | StatementKind::Continue => {
                let kind = match statement.kind {
                    StatementKind::Break => StmtKind::Break,
                    _ => StmtKind::Continue,
                };
                self.may_leave_loop(span).then_some(kind)?
            }
            StatementKind::Return(value) => self.return_statement(value.as_ref(), span)?,
            StatementKind::Exit => self.may_exit(span).then_some(StmtKind::Exit)?,
            StatementKind::Declaration(declaration) => return self.local(declaration),
        };
        Some(Stmt { kind, span })
    }

    /// A constant or variable inside of a block, parser or control.
    pub(super) fn local(&mut self, declaration: &ast::Declaration) -> Option<Stmt> {
        self.annotations(&declaration.annotations);
        let (ty, init, is_const) = match &declaration.kind {
            DeclarationKind::Const { ty, value } => (ty, Some(value), true),
            DeclarationKind::Variable { ty, init } => (ty, init.as_ref(), false),
            _ => {
                let message = "only constants and variables can be declared here";
                self.error("misplaced-declaration", declaration.span, message);
                return None;
            }
        };
        let ty = self.ty(ty);
        if matches!(
            ty,
            Type::Void | Type::MatchKind | Type::Extern(..) | Type::Block(..)
        ) || !is_const && matches!(ty, Type::Int | Type::String)
        {
            let message = format!("a variable cannot have type `{}`", self.show(&ty));
            let diagnostic = Diagnostic::error("bad-variable-type", declaration.span, message);
            self.report(match ty {
                Type::Int => diagnostic
                    .help("`int` is for constants; give the variable a width, such as bit<32>"),
                _ => diagnostic,
            });
            self.declare(
                &declaration.name,
                Entity::Const(Expr::poison(declaration.span)),
            );
            return None;
        }
        let init = init.map(|i| self.expr_of(i, &ty));
        if is_const
            && let Some(value) = &init
            && (is_constant(value) || !self.is_of_constructor(value))
        {
            let help = "leave out `const`, and it is a variable";
            let value = self.constant_value(value.clone(), help);
            self.declare(&declaration.name, Entity::Const(value));
            self.expect_constant(declaration);
            return None;
        }
        let var = self.new_var(&declaration.name, ty, !is_const);
        if is_const {
            self.constructor_vars.insert(var);
        }
        self.declare(&declaration.name, Entity::Var(var));
        self.expect_use(
            &declaration.name,
            if is_const { "constant" } else { "variable" },
        );
        Some(Stmt {
            kind: StmtKind::Declare(var, init),
            span: declaration.span,
        })
    }

    /// The value of a constant; one that the compiler does not know is reported.
    pub(super) fn constant_value(&self, value: Expr, help: &str) -> Expr {
        if is_constant(&value) {
            return value;
        }
        let message = "the value of a constant must be known at compile time";
        self.error_with_help("not-constant", value.span, message, help);
        Expr::poison(value.span)
    }

    /// Whether a value depends on nothing but constants and constructor parameters.
    fn is_of_constructor(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Var(var) => self.constructor_vars.contains(var),
            ExprKind::Field(..)
            | ExprKind::Cast(_)
            | ExprKind::Slice { .. }
            | ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Conditional(..)
            | ExprKind::List(_) => !expr.any_operand(|operand| !self.is_of_constructor(operand)),
            _ => is_constant(expr),
        }
    }

    fn assignment(
        &mut self,
        target: &ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let written = target;
        let target = self.expr(written);
        let value = self.expr(value);
        if starts_at_run_time(written, &target) {
            return self.assign_run_time_slice(target, op, value, span);
        }
        if let Some(op) = op {
            return self.update(target, op, value, span);
        }
        if target.ty.is_poison() || !self.check_lvalue(&target) {
            return None;
        }
        let value = self.coerce(value, &target.ty);
        if matches!(value.ty, Type::Void) {
            self.error("type-mismatch", value.span, "this has no value to assign");
            return None;
        }
        Some(StmtKind::Assign(target, value))
    }

    fn update(
        &mut self,
        target: Expr,
        op: ast::BinaryOp,
        value: Expr,
        span: Span,
    ) -> Option<StmtKind> {
        if target.ty.is_poison() || !self.check_lvalue(&target) {
            return None;
        }
        let result = self.binary(op, target.clone(), value, span);
        let ty = target.ty.clone();
        // The operation has converted its right side.
        match result.kind {
            ExprKind::Binary(op, _, right) if result.ty == ty => {
                Some(StmtKind::Update(target, op, *right))
            }
            _ => {
                self.coerce(result, &ty);
                None
            }
        }
    }

    fn call_statement(&mut self, call: &ast::Expr) -> Option<StmtKind> {
        let checked = self.expr(call);
        match checked.kind {
            ExprKind::Call(call) => Some(StmtKind::Call(*call)),
            ExprKind::Construct(_) => {
                let message = "an instance needs a name";
                let help = "declare it: `Type(arguments) name;`";
                self.error_with_help("useless-expression", call.span, message, help);
                None
            }
            _ => None,
        }
    }

    fn return_statement(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        if !self.may_return(span) {
            return None;
        }
        let expected = self.body.return_type.clone();
        match (value, &expected) {
            (None, Type::Void) => Some(StmtKind::Return(None)),
            (None, _) => {
                let message = format!(
                    "a value of type `{}` must be returned",
                    self.show(&expected)
                );
                self.error("missing-return", span, message);
                None
            }
            (Some(value), Type::Void) => {
                let diagnostic =
                    Diagnostic::error("type-mismatch", value.span, "nothing can be returned here");
                self.report(match self.body.place {
                    Place::Action => diagnostic.help("give the action an `out` parameter"),
                    _ => diagnostic,
                });
                None
            }
            (Some(value), _) => {
                let value = self.expr_of(value, &expected);
                Some(StmtKind::Return(Some(value)))
            }
        }
    }

    fn switch(&mut self, subject: &ast::Expr, cases: &[ast::SwitchCase]) -> Option<StmtKind> {
        if let Some(last) = cases.last()
            && last.body.is_none()
        {
            let message = "the last label has no statements to fall through to";
            let warning = Diagnostic::warning("missing", last.label.span, message);
            self.report(warning.help("write `{}` behind it if nothing is to be done"));
        }
        if let Ast::Member(base, name) = &subject.kind
            && name.text == "action_run"
            && let Some(result) = self.apply_result(base, name)
        {
            return Some(self.switch_action(result.table, cases));
        }
        let subject = self.expr(subject);
        if subject.ty == Type::Void {
            let message = "switch needs a value, and this has none";
            let help = "the action that a table ran is `t.apply().action_run`";
            self.error_with_help("type-mismatch", subject.span, message, help);
            return None;
        }
        let mut arms = Vec::new();
        let mut labels = Vec::new();
        let mut given = Vec::new();
        for case in cases {
            labels.push(match &case.label.kind {
                Ast::Default | Ast::DontCare => None,
                _ => {
                    let label = self.expr(&case.label);
                    let label = self.coerce_compared(label, &subject.ty);
                    if !is_known(&label) {
                        self.error("not-constant", label.span, "labels of switch are constants");
                    }
                    Some(label)
                }
            });
            let label = labels.last().and_then(Option::as_ref);
            if label.is_none_or(|l| l.as_value().is_some()) {
                given.push((label.and_then(Expr::as_value).cloned(), case.label.span));
            }
            if let Some(body) = &case.body {
                arms.push((std::mem::take(&mut labels), self.branch(body)));
            }
        }
        switch_labels::check(&given, self.diagnostics);
        Some(StmtKind::Switch(subject, arms))
    }

    fn switch_action(&mut self, table: usize, cases: &[ast::SwitchCase]) -> StmtKind {
        let mut arms = Vec::new();
        let mut labels = Vec::new();
        let mut given = Vec::new();
        for case in cases {
            match &case.label.kind {
                Ast::Default => labels.push(None),
                Ast::Name { name, .. } => {
                    let refs = &self.program.tables[table].actions;
                    let found = refs
                        .iter()
                        .position(|r| self.program.actions[r.action].name == name.text);
                    if found.is_none() {
                        let message = format!(
                            "table `{}` has no action `{}`",
                            self.program.tables[table].name, name.text
                        );
                        let names: Vec<&str> = refs
                            .iter()
                            .map(|r| self.program.actions[r.action].name.as_str())
                            .collect();
                        self.report(
                            Diagnostic::error("unknown-action", case.label.span, message)
                                .suggest_among(&name.text, &names, "its actions are"),
                        );
                        continue;
                    }
                    labels.push(found);
                }
                _ => self.error(
                    "unknown-action",
                    case.label.span,
                    "an action name or `default` is expected here",
                ),
            }
            given.extend(labels.last().map(|label| (*label, case.label.span)));
            if let Some(body) = &case.body {
                arms.push((std::mem::take(&mut labels), self.branch(body)));
            }
        }
        switch_labels::check(&given, self.diagnostics);
        StmtKind::SwitchAction(table, arms)
    }
}

/// Whether a number is known at compile time, if only once the parameters have values that it depends on: those of
/// constructors, and those without a direction.
pub(super) fn is_known(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Poison | ExprKind::Var(_) => true,
        ExprKind::Cast(_)
        | ExprKind::Slice { .. }
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Conditional(..) => !expr.any_operand(|operand| !is_known(operand)),
        _ => false,
    }
}

/// Whether the value is known completely at compile time.
pub(super) fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_)
        | ExprKind::InvalidHeader
        | ExprKind::DefaultValue
        | ExprKind::Poison => true,
        ExprKind::List(items) => items.iter().all(is_constant),
        _ => false,
    }
}
