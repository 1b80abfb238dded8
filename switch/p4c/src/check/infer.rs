//! Type inference by unification: what the type parameters of a call stand for.

use super::Checker;
use super::conversions::convertible;
use crate::ir::Param;
use crate::types::{self, Bindings, Type, TypeVar};

/// Bindings that inference has found for the type parameters of one call.
#[derive(Debug, Default)]
pub(super) struct Inference {
    pub unknowns: Vec<TypeVar>,
    pub found: Bindings,
    /// Those that may stay without a type: written `_`, or of arguments that are left out.
    pub open: Vec<TypeVar>,
}

impl Inference {
    fn binding(&mut self, var: &TypeVar) -> Option<&mut Type> {
        self.found
            .iter_mut()
            .find(|(v, _)| v == var)
            .map(|(_, t)| t)
    }

    /// The type of an argument that is left out.
    pub fn leave_open(&mut self, ty: &Type) {
        match ty {
            Type::Var(var) => self.open.push(var.clone()),
            Type::Block(_, args) | Type::Extern(_, args) => {
                args.iter().for_each(|arg| self.leave_open(arg));
            }
            _ => {}
        }
    }

    /// Gives `_` to what may stay open and was not found.
    pub fn close(&mut self) {
        for var in std::mem::take(&mut self.open) {
            if self.binding(&var).is_none() {
                self.found.push((var, Type::DontCare));
            }
        }
    }

    pub fn unresolved(&self) -> Option<&TypeVar> {
        self.unknowns
            .iter()
            .find(|u| !self.found.iter().any(|(v, _)| v == *u))
    }
}

impl Checker<'_> {
    /// Matches the type of a parameter with that of its argument.
    pub(super) fn unify(&self, pattern: &Type, actual: &Type, inference: &mut Inference) -> bool {
        match (pattern, actual) {
            (Type::Poison | Type::DontCare, _) | (_, Type::Poison | Type::DontCare) => true,
            (Type::Var(var), _) if inference.unknowns.contains(var) => {
                let Some(known) = inference.binding(var).cloned() else {
                    inference.found.push((var.clone(), actual.clone()));
                    return true;
                };
                if known == *actual || convertible(actual, &known) {
                    return true;
                }
                // The type known so far may be that of a literal, which adapts to this type.
                let adapts = convertible(&known, actual);
                if adapts && let Some(slot) = inference.binding(var) {
                    *slot = actual.clone();
                }
                adapts
            }
            (Type::Tuple(a), Type::Tuple(b)) => {
                a.len() == b.len() && self.unify_all(a.iter(), b.iter(), inference)
            }
            (Type::List(a), Type::List(b)) => self.unify(a, b, inference),
            (Type::List(a), Type::Tuple(items)) => {
                items.iter().all(|b| self.unify(a, b, inference))
            }
            (Type::Stack(a, n), Type::Stack(b, m)) => n == m && self.unify(a, b, inference),
            (Type::Struct(a), Type::Struct(b)) if a.name == b.name && !a.name.is_empty() => {
                self.unify_all(a.args.iter(), b.args.iter(), inference)
            }
            // Values of list syntax give their members to the fields in order, or by name.
            (Type::Struct(a), Type::Tuple(b)) => {
                let fields = a.fields.iter().map(|f| &f.ty);
                a.fields.len() == b.len() && self.unify_all(fields, b.iter(), inference)
            }
            (Type::Struct(a), Type::Struct(b)) if b.name.is_empty() => b.fields.iter().all(|f| {
                a.field(&f.name)
                    .is_some_and(|(_, g)| self.unify(&g.ty, &f.ty, inference))
            }),
            (Type::Extern(a, args_a), Type::Extern(b, args_b)) => {
                a == b && self.unify_all(args_a.iter(), args_b.iter(), inference)
            }
            (Type::Block(a, args), Type::Block(b, other)) if a == b => {
                self.unify_all(args.iter(), other.iter(), inference)
            }
            (Type::Block(a, args), Type::Block(b, other)) => {
                self.unify_blocks(*a, args, *b, other, inference)
            }
            (pattern, actual) => pattern == actual || convertible(actual, pattern),
        }
    }

    fn unify_all<'b>(
        &self,
        patterns: impl Iterator<Item = &'b Type>,
        actual: impl Iterator<Item = &'b Type>,
        inference: &mut Inference,
    ) -> bool {
        let mut pairs = patterns.zip(actual);
        pairs.all(|(pattern, actual)| self.unify(pattern, actual, inference))
    }

    /// A control implements a control type if their parameters have the same types and directions.
    fn unify_blocks(
        &self,
        pattern: usize,
        args: &[Type],
        actual: usize,
        actual_args: &[Type],
        inference: &mut Inference,
    ) -> bool {
        let (p, a) = (&self.program.blocks[pattern], &self.program.blocks[actual]);
        let (wanted, given) = (&p.signature.params, &a.signature.params);
        // Optional parameters of the type may be missing at the end of the parameters, and the reverse.
        let shared = wanted.len().min(given.len());
        let rest = wanted[shared..].iter().chain(&given[shared..]);
        if p.kind != a.kind || rest.into_iter().any(Param::is_required) {
            return false;
        }
        let map_p = types::bind(&p.signature.type_params, args.iter().cloned());
        let map_a = types::bind(&a.signature.type_params, actual_args.iter().cloned());
        p.signature
            .params
            .iter()
            .zip(&a.signature.params)
            .all(|(p, a)| {
                p.direction == a.direction
                    && self.unify(
                        &p.ty.substitute(&map_p),
                        &a.ty.substitute(&map_a),
                        inference,
                    )
            })
    }
}
