//! Elements of header stacks that are chosen at run time.
//!
//! BMv2 aborts on an index that is out of bounds, where P4 only leaves the result undefined
//! (specification, section 8.18). So a run-time index becomes comparisons:
//!
//! ```text
//! x = h.s[i].f;   ==>   if (i == 0) { x = h.s[0].f; }  if (i == 1) { x = h.s[1].f; }
//! ```

use super::flat::FlatKind;
use super::{Elaborator, Env};
use crate::eval;
use crate::ir::{BinaryOp, Expr, ExprKind};
use crate::types::Type;

impl Elaborator<'_> {
    /// Elaborates an expression that is written to or passed on as a place. Indices are evaluated once,
    /// here; those only known at run time stay in the place.
    pub(super) fn place(&mut self, expr: &Expr, env: &Env) -> Expr {
        let rebuilt = |kind| Expr::new(kind, expr.ty.substitute(&env.types), expr.span);
        match &expr.kind {
            ExprKind::Field(base, name) => {
                let base = self.place(base, env);
                let ty = expr.ty.substitute(&env.types);
                super::expressions::member(base, name, ty, expr.span)
            }
            ExprKind::Index(base, index) if matches!(base.ty, Type::Stack(..)) => {
                let base = self.place(base, env);
                let mut index = self.expr(index, env);
                match (index.as_int(), &base.ty) {
                    (None, _) => index = self.saved(index),
                    // A parameter may have turned out to be a constant.
                    (Some(number), Type::Stack(_, size)) if *number >= (*size).into() => {
                        let message =
                            format!("index {number} is outside of the stack of {size} headers");
                        self.error("index-out-of-bounds", index.span, message);
                        return Expr::poison(expr.span);
                    }
                    _ => {}
                }
                rebuilt(ExprKind::Index(Box::new(base), Box::new(index)))
            }
            ExprKind::Slice { base, high, low } => {
                let base = Box::new(self.place(base, env));
                rebuilt(ExprKind::Slice {
                    base,
                    high: *high,
                    low: *low,
                })
            }
            _ => self.expr(expr, env),
        }
    }

    /// The value at a place.
    pub(super) fn read(&mut self, place: Expr) -> Expr {
        if run_time_index(&place).is_none() {
            return place;
        }
        let result = self.temp(&place.ty, place.span);
        self.invalidate(&result);
        self.for_each_element(&place, &|fixed| FlatKind::Assign(result.clone(), fixed));
        result
    }

    /// Pushes `place = value`.
    pub(super) fn write(&mut self, place: &Expr, value: Expr) {
        if run_time_index(place).is_none() {
            return self.push(FlatKind::Assign(place.clone(), value), place.span);
        }
        // The value is computed before any element changes.
        let value = match value.kind {
            ExprKind::Const(_) | ExprKind::Var(_) | ExprKind::InvalidHeader => value,
            _ => self.saved(value),
        };
        self.for_each_element(place, &|fixed| FlatKind::Assign(fixed, value.clone()));
    }

    /// Pushes the statement for every element that the place may mean, each under the condition that it does.
    pub(super) fn for_each_element(&mut self, place: &Expr, build: &dyn Fn(Expr) -> FlatKind) {
        let span = place.span;
        let Some((index, size)) = run_time_index(place) else {
            return self.push(build(place.clone()), span);
        };
        for i in 0..size {
            let fits = match index.ty.stored() {
                Type::Bits { width, signed } => eval::fits(&i.into(), *width, *signed),
                _ => true,
            };
            if !fits || !self.diagnostics.spend(1, span) {
                break;
            }
            let number = Expr::int(i, index.ty.clone(), span);
            let fixed = with_index(place, &number);
            let body = self.block(|e| e.for_each_element(&fixed, build));
            let condition = Expr::binary(BinaryOp::Eq, index.clone(), number, Type::Bool, span);
            self.push(FlatKind::If(condition, body, Vec::new()), span);
        }
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
