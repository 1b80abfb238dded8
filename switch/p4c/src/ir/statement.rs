//! Statements.

use super::expression::{Call, Expr};
use super::ids::{TableId, VarId};
use crate::ast::BinaryOp;
use crate::source::Span;

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its form and its parts.
    pub kind: StmtKind,
    /// The whole statement.
    pub span: Span,
}

/// Forms of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `target = value`.
    Assign(Expr, Expr),
    /// `target op= value`. The target is evaluated once.
    Update(Expr, BinaryOp, Expr),
    /// A call whose result, if any, is discarded.
    Call(Call),
    /// `if`, with the statements of both branches.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Statements in braces.
    Block {
        /// Whether no other packet may come between (annotation `@atomic`).
        atomic: bool,
        /// Statements in order.
        body: Vec<Stmt>,
    },
    /// `switch` on a value. None among the labels is `default`.
    Switch(Expr, Vec<(Vec<Option<Expr>>, Vec<Stmt>)>),
    /// `switch (t.apply().action_run)`. Labels are indices in [`Table::actions`](super::Table::actions); none is
    /// `default`.
    SwitchAction(TableId, Vec<(Vec<Option<usize>>, Vec<Stmt>)>),
    /// Declaration of a local variable, with its initial value.
    Declare(VarId, Option<Expr>),
    /// `for (init; condition; update) body`; `init` stands before it as statements of its own.
    For {
        /// Tested before each iteration.
        condition: Expr,
        /// Statements after each iteration, `continue` included.
        update: Vec<Stmt>,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `for (var in low .. high)`, both ends included.
    ForRange {
        /// Variable of the loop.
        var: VarId,
        /// First value.
        low: Expr,
        /// Last value. Below `low` nothing is executed.
        high: Expr,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `for (var in collection)`.
    ForEach {
        /// Variable of the loop.
        var: VarId,
        /// A header stack, or a list whose items have the type of the variable.
        collection: Expr,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// Leaves the innermost loop.
    Break,
    /// Ends an iteration of the innermost loop.
    Continue,
    /// Leaves the function, action or control, with the result of a function.
    Return(Option<Expr>),
    /// Ends the control that the package calls, with all that called this one.
    Exit,
}
