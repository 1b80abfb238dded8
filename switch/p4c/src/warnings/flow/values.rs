//! Reads and writes of variables and headers, by assignments and in expressions.

use crate::ir::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::warnings::places::{Place, State, Validity, find};

use super::findings;
use super::paths::joined;
use super::walk::Walk;

impl Walk<'_> {
    pub(super) fn declare(&mut self, var: usize, init: Option<&Expr>) {
        let ty = &self.program.vars[var].ty;
        if let Some(value) = init {
            self.read(value);
        }
        let Some(state) = &mut self.paths.here else {
            return;
        };
        state.declare(var, ty);
        if let Some(value) = init {
            let place = Place::of(var);
            state.forget(&place);
            state.assign_validity(&place, ty, value);
        }
    }

    pub(super) fn assign(&mut self, target: &Expr, value: &Expr) {
        self.read(value);
        self.write(target);
        let (Some(state), Some(found)) = (&mut self.paths.here, find(target)) else {
            return;
        };
        if found.is_exact {
            state.assign_validity(&found.place, &target.ty, value);
            if state.validity(&found.place) == Some(Validity::Valid) {
                self.set_validity(target, Validity::Valid);
            }
        }
    }

    /// States if a condition is true, and if it is false.
    pub(super) fn condition(&mut self, condition: &Expr) -> (Option<State>, Option<State>) {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => {
                let (yes, no) = self.condition(inner);
                (no, yes)
            }
            ExprKind::TableHit { table, miss } => {
                let (hit, missed) = self.hit_and_miss(*table);
                if *miss { (missed, hit) } else { (hit, missed) }
            }
            _ => {
                self.read(condition);
                let state = self.paths.here.take();
                (state.clone(), state)
            }
        }
    }

    /// A header of a union that becomes valid makes the others invalid (P4_16, section 8.20).
    pub(super) fn set_validity(&mut self, header: &Expr, validity: Validity) {
        if let ExprKind::Field(base, _) = &header.kind
            && base.ty.is_union()
            && validity == Validity::Valid
        {
            self.about(base, |state, place| {
                state.set_validity(place, &base.ty, Validity::Invalid);
            });
        }
        self.about(header, |state, place| {
            state.set_validity(place, &header.ty, validity);
        });
    }

    /// Changes what is known of the place of an expression; if that is not known exactly, nothing is known of the stack
    /// that it is in.
    pub(super) fn about(&mut self, expr: &Expr, change: impl FnOnce(&mut State, &Place)) {
        let (Some(state), Some(found)) = (&mut self.paths.here, find(expr)) else {
            return;
        };
        match found.is_exact {
            true => change(state, &found.place),
            false => state.forget(&found.place),
        }
    }

    pub(super) fn write(&mut self, target: &Expr) {
        self.path(target);
        self.about(target, State::forget);
    }

    pub(super) fn read(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Call(call) => self.call(call),
            ExprKind::TableHit { table, .. } => {
                let outcomes = self.outcomes(*table);
                self.paths.here = joined(outcomes);
            }
            ExprKind::StackLastIndex(_) => {}
            // An operand that is not always evaluated sets nothing for sure.
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, left, right) => {
                self.read(left);
                self.perhaps(|walk| walk.read(right), right.has_effects());
            }
            ExprKind::Conditional(condition, yes, no) => {
                self.read(condition);
                self.perhaps(|walk| walk.read(yes), yes.has_effects());
                self.perhaps(|walk| walk.read(no), no.has_effects());
            }
            _ if find(expr).is_some() => self.read_place(expr),
            _ => {
                expr.any_operand(|operand| {
                    self.read(operand);
                    false
                });
            }
        }
    }

    fn perhaps(&mut self, evaluate: impl FnOnce(&mut Self), has_effects: bool) {
        let before = has_effects.then(|| self.paths.here.clone()).flatten();
        evaluate(self);
        self.paths.meet(before);
    }

    fn read_place(&mut self, expr: &Expr) {
        if !self.path(expr) {
            let state = self.paths.here.as_ref();
            self.report(findings::unset_read(state, self.program, expr));
        }
    }

    /// Reads on the way to a place: indices, and headers whose fields are meant. True if one of these may
    /// not be valid, which is reported.
    pub(super) fn path(&mut self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Field(base, _) => {
                let above = self.path(base);
                above || base.ty.is_header() && self.is_invalid(base)
            }
            ExprKind::Index(base, index) => {
                self.read(index);
                self.path(base)
            }
            ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::Slice { base, .. } => self.path(base),
            ExprKind::Var(_) | ExprKind::DontCare => false,
            _ => {
                self.read(expr);
                false
            }
        }
    }

    /// Whether a header may not be valid here, which is reported.
    fn is_invalid(&self, header: &Expr) -> bool {
        let state = self.paths.here.as_ref();
        let warning = state.and_then(|at| findings::invalid_header(at, self.program, header));
        let is_invalid = warning.is_some();
        self.report(warning);
        is_invalid
    }
}
