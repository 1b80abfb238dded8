//! Places that statements may change, and values that depend on them.
//!
//! Operands and arguments are evaluated from left to right, and each has its value before the next one is evaluated
//! (specification, sections 6.8 and 8.2). A place need not be copied for that if nothing changes it before it is read:
//!
//! ```text
//! a + f(b)   ==>   f: { .. }  a + retval             // f writes b only
//! a + f(a)   ==>   tmp = a;  f: { .. }  tmp + retval
//! ```

use std::collections::{HashMap, HashSet};

use num_bigint::BigInt;

use super::Elaborator;
use super::flat::{FlatKind, FlatStmt, FlatVar, Role};
use crate::ir::{Callee, Expr, ExprKind, VarId};

/// A step from a variable to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'e> {
    Field(&'e str),
    Index(&'e BigInt),
}

/// A part of a variable, as far as it is known: all elements of a stack, if the index is only known at run time, and
/// all members of a header union, which are valid one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part<'e> {
    var: VarId,
    steps: Vec<Step<'e>>,
    /// Whether more steps lead to smaller parts.
    is_exact: bool,
}

impl<'e> Part<'e> {
    /// The part that an expression is; none if it is no place.
    fn of(place: &'e Expr) -> Option<Self> {
        match &place.kind {
            ExprKind::Var(var) => Some(Self {
                var: *var,
                steps: Vec::new(),
                is_exact: true,
            }),
            ExprKind::Field(base, name) => {
                let step = (!base.ty.is_union()).then_some(Step::Field(name));
                Some(Self::of(base)?.then(step))
            }
            ExprKind::Index(base, index) => {
                Some(Self::of(base)?.then(index.as_int().map(Step::Index)))
            }
            ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::StackLastIndex(base)
            | ExprKind::Slice { base, .. } => Some(Self::of(base)?.then(None)),
            _ => None,
        }
    }

    fn then(mut self, step: Option<Step<'e>>) -> Self {
        self.is_exact &= step.is_some();
        if self.is_exact {
            self.steps.extend(step);
        }
        self
    }

    /// Whether one of the two contains the other.
    fn overlaps(&self, other: &Self) -> bool {
        self.var == other.var && self.steps.iter().zip(&other.steps).all(|(a, b)| a == b)
    }

    /// Adds the parts whose values an expression reads.
    fn add_read(expr: &'e Expr, parts: &mut Vec<Self>) {
        parts.extend(Self::of(expr));
        match &expr.kind {
            ExprKind::Call(call) => {
                if let Callee::IsValid(header) = &call.callee {
                    Self::add_read(header, parts);
                }
            }
            // The base of a place is not read as a whole.
            ExprKind::Field(base, _) if Self::of(base).is_some() => Self::add_indices(base, parts),
            ExprKind::Index(base, _) if Self::of(base).is_some() => Self::add_indices(expr, parts),
            _ => {
                expr.any_operand(|operand| {
                    Self::add_read(operand, parts);
                    false
                });
            }
        }
    }

    /// Adds what the indices of a place read.
    fn add_indices(place: &'e Expr, parts: &mut Vec<Self>) {
        if let ExprKind::Index(_, index) = &place.kind {
            Self::add_read(index, parts);
        }
        place.any_operand(|base| {
            Self::add_indices(base, parts);
            false
        });
    }
}

fn parts_read(expr: &Expr) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    Part::add_read(expr, &mut parts);
    parts
}

/// Whether two expressions may have storage in common.
pub(super) fn overlap(a: &Expr, b: &Expr) -> bool {
    let of_b = parts_read(b);
    parts_read(a)
        .iter()
        .any(|a| of_b.iter().any(|b| a.overlaps(b)))
}

/// The parts of variables that statements may write.
#[derive(Debug, Default)]
pub(super) struct Changes<'e> {
    parts: HashMap<VarId, Vec<Part<'e>>>,
    /// The tables whose actions are among the statements.
    tables: HashSet<usize>,
}

impl<'e> Changes<'e> {
    /// Whether the value of an expression may be another one behind the statements.
    pub fn may_change(&self, value: &Expr) -> bool {
        if self.parts.is_empty() {
            return false;
        }
        let changed = |part: &Part| {
            let written = self.parts.get(&part.var);
            written.is_some_and(|all| all.iter().any(|w| w.overlaps(part)))
        };
        parts_read(value).iter().any(changed)
    }

    fn add(&mut self, part: Part<'e>) {
        let written = self.parts.entry(part.var).or_default();
        if !written.contains(&part) {
            written.push(part);
        }
    }
}

impl Elaborator<'_> {
    /// Adds what statements may write, the actions of tables that they apply included.
    pub(super) fn add_changes<'e>(&'e self, statements: &'e [FlatStmt], changes: &mut Changes<'e>) {
        for statement in statements {
            match &statement.kind {
                FlatKind::Assign(place, _)
                | FlatKind::SetValid(place, _)
                | FlatKind::PushFront(place, _)
                | FlatKind::PopFront(place, _) => {
                    if let Some(part) = Part::of(place) {
                        changes.add(part);
                    }
                }
                // Which of its arguments it writes matters little here.
                FlatKind::Extern { args, .. } => {
                    args.iter()
                        .filter_map(Part::of)
                        .for_each(|part| changes.add(part));
                    if args.is_empty() {
                        self.add_standard(changes);
                    }
                }
                FlatKind::ApplyTable(table, _) if changes.tables.insert(*table) => {
                    for action in &self.flat.tables[*table].actions {
                        self.add_changes(&self.flat.actions[*action].body, changes);
                    }
                }
                _ => {}
            }
            for body in statement.kind.bodies() {
                self.add_changes(body, changes);
            }
        }
    }

    /// Adds the standard metadata, which `mark_to_drop` of old versions of v1model writes without an argument.
    fn add_standard<'e>(&self, changes: &mut Changes<'e>) {
        let standard = |v: &FlatVar| v.role == Role::Standard;
        if let Some(var) = self.flat.vars.iter().position(standard) {
            changes.add(Part {
                var,
                steps: Vec::new(),
                is_exact: true,
            });
        }
    }

    /// For each of these values, which are evaluated one after the other, whether the statements of those that follow
    /// may change it.
    pub(super) fn changed_later(&self, evaluated: &[(Expr, Vec<FlatStmt>)]) -> Vec<bool> {
        let mut changes = Changes::default();
        let mut changed = vec![false; evaluated.len()];
        for i in (1..evaluated.len()).rev() {
            self.add_changes(&evaluated[i].1, &mut changes);
            changed[i - 1] = changes.may_change(&evaluated[i - 1].0);
        }
        changed
    }

    /// Whether statements may change each of these values.
    pub(super) fn changed_by(&self, statements: &[FlatStmt], values: &[Expr]) -> Vec<bool> {
        let mut changes = Changes::default();
        self.add_changes(statements, &mut changes);
        values.iter().map(|v| changes.may_change(v)).collect()
    }

    /// As [`Self::changed_by`], of one value.
    pub(super) fn may_change(&self, statements: &[FlatStmt], value: &Expr) -> bool {
        let mut changes = Changes::default();
        self.add_changes(statements, &mut changes);
        changes.may_change(value)
    }
}
