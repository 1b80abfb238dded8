//! Assignments, header validity and stack operations as primitives.

use ebb_bmv2_json as json;
use num_bigint::BigInt;

use super::backend::{Backend, hex_value};
use super::layout::Place;
use crate::elaborate::flat::{FlatKind, FlatStmt};
use crate::eval;
use crate::ir::{BinaryOp, Expr, ExprKind, same};
use crate::source::Span;
use crate::types::{StructKind, Type};

impl Backend<'_> {
    /// Converts a statement without control flow.
    pub(super) fn simple_statement(&mut self, statement: &FlatStmt) {
        let span = statement.span;
        match &statement.kind {
            FlatKind::Assign(target, value) => self.assign(target, value, span),
            FlatKind::SetValid(header, valid) => self.set_valid(header, *valid, span),
            FlatKind::PushFront(stack, count) | FlatKind::PopFront(stack, count) => {
                let op = match statement.kind {
                    FlatKind::PushFront(..) => "push",
                    _ => "pop",
                };
                let parameters = vec![self.argument(stack), hex_value(*count, 8)];
                self.emit(op, parameters, span);
            }
            FlatKind::Extern {
                object,
                name,
                type_args,
                args,
                result,
            } => match (&self.flat.tofino, &self.flat.psa) {
                (Some(_), _) => self.tofino_call(*object, name, args, result.as_ref(), span),
                (None, Some(_)) => {
                    self.psa_call(*object, (name, type_args), args, result.as_ref(), span);
                }
                (None, None) => self.extern_call(*object, name, type_args, args, span),
            },
            _ => self.error(
                "unsupported-statement",
                span,
                "this statement cannot be used here",
            ),
        }
    }

    /// `setValid` or `setInvalid`. The latter makes the whole union invalid that the header is a member of, whichever
    /// member is valid (specification, section 8.20); BMv2 does so only if it is this one.
    pub(super) fn set_valid(&mut self, header: &Expr, valid: bool, span: Span) {
        match header.union_around().filter(|_| !valid) {
            Some(union) => self.invalidate_members(union, None, span),
            None => self.mark(header, valid, span),
        }
    }

    /// Makes all members of a union invalid, but for one.
    fn invalidate_members(&mut self, union: &Expr, but: Option<&Expr>, span: Span) {
        for member in union.members() {
            if but.is_none_or(|but| !same(but, &member)) {
                self.mark(&member, false, span);
            }
        }
    }

    fn mark(&mut self, header: &Expr, valid: bool, span: Span) {
        let op = if valid { "add_header" } else { "remove_header" };
        match self.place(header) {
            Some(Place::Header(name)) => {
                self.emit(op, vec![json::Value::Header(name)], span);
            }
            _ => self.error(
                "unsupported-header",
                span,
                "BMv2 cannot change the validity of this header here",
            ),
        }
    }

    pub(super) fn assign(&mut self, target: &Expr, value: &Expr, span: Span) {
        if matches!(target.kind, ExprKind::Poison | ExprKind::DontCare) {
            return;
        }
        match target.ty.clone() {
            Type::Struct(s) if s.kind == StructKind::Header => {
                self.assign_header(target, value, span)
            }
            Type::Struct(s) if s.kind == StructKind::Union => match &value.kind {
                ExprKind::InvalidHeader => self.invalidate_members(target, None, span),
                _ => self.copy("assign_union", target, value, span),
            },
            Type::Stack(element, _) => match &value.kind {
                ExprKind::List(_) => self.assign_members(target, value, span),
                _ if element.is_union() => {
                    self.copy("assign_union_stack", target, value, span);
                }
                _ => self.copy("assign_header_stack", target, value, span),
            },
            Type::Struct(_) | Type::Tuple(_) => match &value.kind {
                ExprKind::Conditional(..) => {
                    let message = "BMv2 cannot choose between structs";
                    self.error("unsupported-expression", value.span, message);
                }
                _ => self.assign_members(target, value, span),
            },
            Type::Varbit(_) => self.copy("assign_VL", target, value, span),
            _ => self.assign_scalar(target, value, span),
        }
    }

    fn copy(&mut self, op: &str, target: &Expr, value: &Expr, span: Span) {
        let parameters = vec![self.argument(target), self.argument(value)];
        self.emit(op, parameters, span);
    }

    fn assign_header(&mut self, target: &Expr, value: &Expr, span: Span) {
        match &value.kind {
            ExprKind::InvalidHeader => self.set_valid(target, false, span),
            ExprKind::List(_) => {
                let value = self.read_first(target, value, span);
                self.set_valid(target, true, span);
                self.assign_members(target, &value, span);
            }
            _ => {
                self.copy("assign_header", target, value, span);
                // As `setInvalid` if the value is invalid; if it is valid, they are invalid already.
                if let Some(union) = target.union_around() {
                    self.invalidate_members(union, Some(target), span);
                }
            }
        }
    }

    fn assign_members(&mut self, target: &Expr, value: &Expr, span: Span) {
        let value = self.read_first(target, value, span);
        for (part, source) in target.members().iter().zip(&value.members()) {
            self.assign(part, source, span);
        }
    }

    /// The value of an assignment, if it is a list, without parts that it reads after it has written them or made
    /// the header valid: `s = { s.b, s.a }`, `h = { h.isValid() }`.
    fn read_first(&mut self, target: &Expr, value: &Expr, span: Span) -> Expr {
        match (root(target), &value.kind) {
            (Some(var), ExprKind::List(_)) => self.set_aside(value, var, span),
            _ => value.clone(),
        }
    }

    /// `value` with a copy in the place of every part that reads the variable `var`.
    fn set_aside(&mut self, value: &Expr, var: usize, span: Span) -> Expr {
        if !value.variables().contains(&var) {
            return value.clone();
        }
        let mut aside = value.clone();
        if let ExprKind::List(items) = &mut aside.kind {
            for item in items {
                *item = self.set_aside(item, var, span);
            }
            return aside;
        }
        let temp = self.temp(&value.ty, span);
        self.assign(&temp, value, span);
        temp
    }

    fn assign_scalar(&mut self, target: &Expr, value: &Expr, span: Span) {
        if let ExprKind::Slice { base, high, low } = &target.kind {
            let merged = replace_bits(base, value, *high, *low);
            self.assign(base, &merged, span);
            return;
        }
        // The binding of parameters leaves `x = x` behind.
        if same(target, value) {
            return;
        }
        match self.place(target) {
            Some(Place::Field(_)) => {
                let parameters = vec![self.argument(target), self.argument(value)];
                self.emit("assign", parameters, span);
            }
            _ => self.error(
                "unsupported-target",
                target.span,
                "BMv2 cannot write to this place",
            ),
        }
    }

    /// Scalars that BMv2 must find in fields: inputs of hashes, digests and key fields.
    pub(super) fn fields_of(&mut self, value: &Expr, span: Span) -> Vec<json::CalculationInput> {
        self.fields_of_leaves(value.leaves(), span)
    }

    /// The same of values without parts.
    pub(super) fn fields_of_leaves(
        &mut self,
        leaves: Vec<Expr>,
        span: Span,
    ) -> Vec<json::CalculationInput> {
        let mut inputs = Vec::new();
        for leaf in leaves {
            if let Some(constant) = leaf.as_value() {
                let width = leaf.ty.width().unwrap_or(32);
                let number = self.member_number(constant, &leaf.ty);
                inputs.push(json::CalculationInput {
                    value: hex_value(number, width),
                    bitwidth: Some(width),
                });
            } else if let Some(field) = self.field_with(&leaf, span) {
                inputs.push(json::Value::Field(field).into());
            }
        }
        inputs
    }
}

/// `base` with the bits `high..low` replaced: `(base & ~mask) | (value << low)`.
fn replace_bits(base: &Expr, value: &Expr, high: u32, low: u32) -> Expr {
    let span = value.span;
    let width = base.ty.width().unwrap_or(1);
    let ty = Type::bit(width);
    let binary = |op, left, right| Expr::binary(op, left, right, ty.clone(), span);
    let constant = |v: BigInt| Expr::int(v, ty.clone(), span);
    let bits = |part: &Expr| Expr::new(ExprKind::Cast(Box::new(part.clone())), ty.clone(), span);
    let hole = eval::mask(high - low + 1) << low;
    let kept = eval::wrap(&(-(hole) - 1), width, false);
    let rest = binary(BinaryOp::BitAnd, bits(base), constant(kept));
    let moved = binary(BinaryOp::Shl, bits(value), constant(low.into()));
    binary(BinaryOp::BitOr, rest, moved).cast(base.ty.clone())
}

/// The variable that a place is in.
pub(super) fn root(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Var(id) => Some(*id),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) => root(base),
        _ => None,
    }
}
