//! Elements of header stacks that are chosen at run time.
//!
//! BMv2 aborts on an index that is out of bounds, where P4 only leaves the result undefined
//! (specification, section 8.18). So a run-time index becomes comparisons:
//!
//! ```text
//! x = h.s[i].f;   ==>   if (i == 0) { x = h.s[0].f; }  if (i == 1) { x = h.s[1].f; }
//! ```

use super::flat::{FlatKind, FlatStmt};
use super::{Elaborator, Env};
use crate::eval;
use crate::ir::{BinaryOp, Expr, ExprKind};
use crate::types::Type;

impl Elaborator<'_> {
    /// Elaborates an expression that is written to or passed on as a place. Indices are evaluated once,
    /// here; those only known at run time stay in the place.
    pub(super) fn place(&mut self, expr: &Expr, env: &Env, out: &mut Vec<FlatStmt>) -> Expr {
        let rebuilt = |kind| Expr {
            kind,
            ty: expr.ty.substitute(&env.types),
            span: expr.span,
        };
        match &expr.kind {
            ExprKind::Field(base, name) => {
                let base = self.place(base, env, out);
                let ty = expr.ty.substitute(&env.types);
                super::expressions::member(base, name, ty, expr.span)
            }
            ExprKind::Index(base, index) if matches!(base.ty, Type::Stack(..)) => {
                let base = self.place(base, env, out);
                let mut index = self.expr(index, env, out);
                if index.as_int().is_none() {
                    index = self.saved(index, out);
                }
                rebuilt(ExprKind::Index(Box::new(base), Box::new(index)))
            }
            ExprKind::Slice { base, high, low } => {
                let base = Box::new(self.place(base, env, out));
                rebuilt(ExprKind::Slice {
                    base,
                    high: *high,
                    low: *low,
                })
            }
            _ => self.expr(expr, env, out),
        }
    }

    /// The value at a place.
    pub(super) fn read(&mut self, place: Expr, out: &mut Vec<FlatStmt>) -> Expr {
        if run_time_index(&place).is_none() {
            return place;
        }
        let result = self.temp(&place.ty, place.span);
        self.invalidate(&result, out);
        let statements =
            self.for_each_element(&place, &|fixed| FlatKind::Assign(result.clone(), fixed));
        out.extend(statements);
        result
    }

    /// `place = value`
    pub(super) fn write(&mut self, place: &Expr, value: Expr, out: &mut Vec<FlatStmt>) {
        if run_time_index(place).is_none() {
            return self.push(out, FlatKind::Assign(place.clone(), value), place.span);
        }
        // The value is computed before any element changes.
        let value = match value.kind {
            ExprKind::Const(_) | ExprKind::Var(_) | ExprKind::InvalidHeader => value,
            _ => self.saved(value, out),
        };
        let statements =
            self.for_each_element(place, &|fixed| FlatKind::Assign(fixed, value.clone()));
        out.extend(statements);
    }

    /// The statement for every element that the place may mean, each under the condition that it does.
    pub(super) fn for_each_element(
        &mut self,
        place: &Expr,
        build: &dyn Fn(Expr) -> FlatKind,
    ) -> Vec<FlatStmt> {
        let span = place.span;
        let Some((index, size)) = run_time_index(place) else {
            let mut single = Vec::new();
            self.push(&mut single, build(place.clone()), span);
            return single;
        };
        let index = index.clone();
        let mut statements = Vec::new();
        for i in 0..size {
            let fits = match index.ty.stored() {
                Type::Bits { width, signed } => eval::fits(&i.into(), *width, *signed),
                _ => true,
            };
            if !fits {
                break;
            }
            if !self.diagnostics.spend(1, span) {
                break;
            }
            let number = Expr::int(i, index.ty.clone(), span);
            let body = self.for_each_element(&with_index(place, &number), build);
            let condition = Expr {
                kind: ExprKind::Binary(BinaryOp::Eq, Box::new(index.clone()), Box::new(number)),
                ty: Type::Bool,
                span,
            };
            self.push(
                &mut statements,
                FlatKind::If(condition, body, Vec::new()),
                span,
            );
        }
        statements
    }
}

/// The innermost index of a place that is not a constant, and the size of its stack.
pub(super) fn run_time_index(place: &Expr) -> Option<(&Expr, u32)> {
    match &place.kind {
        ExprKind::Index(base, index) => run_time_index(base).or(match base.ty {
            Type::Stack(_, size) if index.as_int().is_none() => Some((index, size)),
            _ => None,
        }),
        ExprKind::Field(base, _) | ExprKind::Slice { base, .. } => run_time_index(base),
        _ => None,
    }
}

/// The place with its innermost run-time index replaced.
fn with_index(place: &Expr, number: &Expr) -> Expr {
    let kind = match &place.kind {
        ExprKind::Index(base, index) => {
            if run_time_index(base).is_some() {
                ExprKind::Index(Box::new(with_index(base, number)), index.clone())
            } else {
                ExprKind::Index(base.clone(), Box::new(number.clone()))
            }
        }
        ExprKind::Field(base, name) => {
            ExprKind::Field(Box::new(with_index(base, number)), name.clone())
        }
        ExprKind::Slice { base, high, low } => ExprKind::Slice {
            base: Box::new(with_index(base, number)),
            high: *high,
            low: *low,
        },
        other => other.clone(),
    };
    Expr {
        kind,
        ..place.clone()
    }
}
