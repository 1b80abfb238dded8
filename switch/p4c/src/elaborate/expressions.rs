//! Expressions: names replaced, constants folded, calls moved in front of the statement.

use super::flat::{Branches, FlatKind, FlatStmt};
use super::{Elaborator, Env};
use crate::eval::{self, Value};
use crate::ir::{BinaryOp, Call, Callee, Direction, Expr, ExprKind, Param};
use crate::source::Span;
use crate::types::Type;

impl Elaborator<'_> {
    /// An expression that must not need statements: constructor arguments, sizes, entries.
    pub(super) fn pure_expr(&mut self, expr: &Expr, env: &Env) -> Expr {
        let mut out = Vec::new();
        let value = self.expr(expr, env, &mut out);
        if !out.is_empty() {
            self.error(
                "not-constant",
                expr.span,
                "this must be known at compile time",
            );
            return Expr::poison(expr.span);
        }
        value
    }

    /// Elaborates; statements that have to run before go to `out`.
    pub(super) fn expr(&mut self, expr: &Expr, env: &Env, out: &mut Vec<FlatStmt>) -> Expr {
        let span = expr.span;
        let ty = expr.ty.substitute(&env.types);
        let typed = |kind| Expr {
            kind,
            ty: ty.clone(),
            span,
        };
        match &expr.kind {
            ExprKind::Var(id) => match env.vars.get(id) {
                Some(bound) => Expr {
                    span,
                    ..bound.clone()
                },
                None => {
                    let name = &self.program.vars[*id].name;
                    self.error(
                        "unbound-variable",
                        span,
                        format!("`{name}` has no value here"),
                    );
                    Expr::poison(span)
                }
            },
            ExprKind::Instance(id) => self.resolve_instance(*id, env, span),
            ExprKind::Construct(construct) => {
                // An anonymous object as argument of a constructor.
                let name = format!("anonymous_{}", self.next_unit);
                match self.unit(construct, name, env, span) {
                    Some(unit) => super::object_expr(super::UNIT_BASE + unit.id, span),
                    None => Expr::poison(span),
                }
            }
            ExprKind::Field(base, name) => {
                let base = self.place(base, env, out);
                let value = member(base, name, ty, span);
                self.read(value, out)
            }
            ExprKind::Index(base, _) if matches!(base.ty, Type::Stack(..)) => {
                let place = self.place(expr, env, out);
                self.read(place, out)
            }
            ExprKind::Index(base, index) => {
                let mut parts = self.operands(&[base, index], env, out);
                let (Some(index), Some(base)) = (parts.pop(), parts.pop()) else {
                    return Expr::poison(span);
                };
                if let (ExprKind::List(items), Some(i)) = (&base.kind, index.as_int())
                    && let Some(item) = usize::try_from(i).ok().and_then(|i| items.get(i))
                {
                    return item.clone();
                }
                typed(ExprKind::Index(Box::new(base), Box::new(index)))
            }
            ExprKind::StackNext(base) => {
                typed(ExprKind::StackNext(Box::new(self.expr(base, env, out))))
            }
            ExprKind::StackLast(base) => {
                typed(ExprKind::StackLast(Box::new(self.expr(base, env, out))))
            }
            ExprKind::StackLastIndex(base) => typed(ExprKind::StackLastIndex(Box::new(
                self.expr(base, env, out),
            ))),
            ExprKind::Slice { base, high, low } => {
                let base = self.expr(base, env, out);
                if let Some(value) = base.as_int() {
                    return Expr::int(
                        eval::wrap(&(value >> *low), high - low + 1, false),
                        ty,
                        span,
                    );
                }
                typed(ExprKind::Slice {
                    base: Box::new(base),
                    high: *high,
                    low: *low,
                })
            }
            ExprKind::Unary(op, operand) => {
                let operand = self.expr(operand, env, out);
                match operand.as_value().and_then(|v| eval::unary(*op, v, &ty)) {
                    Some(value) => Expr::constant(value, ty, span),
                    None => typed(ExprKind::Unary(*op, Box::new(operand))),
                }
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                self.short_circuit(*op, left, right, env, out, span)
            }
            ExprKind::Binary(op, left, right) => {
                let mut parts = self.operands(&[left, right], env, out);
                let (Some(right), Some(left)) = (parts.pop(), parts.pop()) else {
                    return Expr::poison(span);
                };
                self.binary(*op, left, right, ty, span)
            }
            ExprKind::Conditional(condition, then, otherwise) => {
                let condition = self.expr(condition, env, out);
                if let Some(Value::Bool(value)) = condition.as_value() {
                    return self.expr(if *value { then } else { otherwise }, env, out);
                }
                if !self.has_effects(then) && !self.has_effects(otherwise) && ty.is_scalar() {
                    let then = self.expr(then, env, out);
                    let otherwise = self.expr(otherwise, env, out);
                    return typed(ExprKind::Conditional(
                        Box::new(condition),
                        Box::new(then),
                        Box::new(otherwise),
                    ));
                }
                let result = self.temp(&ty, span);
                let then = self.assigned(then, &result, env);
                let otherwise = self.assigned(otherwise, &result, env);
                self.push(out, FlatKind::If(condition, then, otherwise), span);
                result
            }
            ExprKind::Cast(operand) => {
                let operand = self.expr(operand, env, out);
                match operand.as_value().and_then(|v| eval::cast(v, &ty)) {
                    Some(value) => Expr::constant(value, ty, span),
                    None => typed(ExprKind::Cast(Box::new(operand))),
                }
            }
            ExprKind::List(items) => {
                let items: Vec<&Expr> = items.iter().collect();
                typed(ExprKind::List(self.operands(&items, env, out)))
            }
            ExprKind::Mask(a, b) => typed(ExprKind::Mask(
                Box::new(self.expr(a, env, out)),
                Box::new(self.expr(b, env, out)),
            )),
            ExprKind::Range(a, b) => typed(ExprKind::Range(
                Box::new(self.expr(a, env, out)),
                Box::new(self.expr(b, env, out)),
            )),
            ExprKind::DefaultValue => default_value(&ty, span),
            ExprKind::Call(call) => self.call(call, &ty, env, out, span),
            ExprKind::TableHit { table, miss } => {
                let result = self.temp(&Type::Bool, span);
                let set = |value: bool| {
                    vec![FlatStmt {
                        kind: FlatKind::Assign(result.clone(), Expr::bool(value, span)),
                        span,
                    }]
                };
                let branches = Branches::HitMiss(set(!miss), set(*miss));
                self.apply_table(*table, branches, env, out, span);
                result
            }
            ExprKind::ValueSet(id) => {
                let unit = env.unit.as_ref().map_or(0, |u| u.id);
                match self.value_sets.get(&(unit, *id)) {
                    Some(index) => typed(ExprKind::ValueSet(*index)),
                    None => Expr::poison(span),
                }
            }
            ExprKind::Poison
            | ExprKind::Const(_)
            | ExprKind::Table(_)
            | ExprKind::InvalidHeader
            | ExprKind::DontCare
            | ExprKind::Default => typed(expr.kind.clone()),
        }
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        ty: Type,
        span: Span,
    ) -> Expr {
        if let (Some(a), Some(b)) = (left.as_value(), right.as_value()) {
            match eval::binary(op, a, b, &ty, right.ty.width().unwrap_or(0)) {
                Some(Ok(value)) => return Expr::constant(value, ty, span),
                Some(Err(problem)) => {
                    self.error(problem.code(), span, problem.message());
                    return Expr::poison(span);
                }
                None => {}
            }
        }
        Expr {
            kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
            ty,
            span,
        }
    }

    /// Elaborates operands from left to right. A value that a later operand could change is saved first.
    pub(super) fn operands(
        &mut self,
        exprs: &[&Expr],
        env: &Env,
        out: &mut Vec<FlatStmt>,
    ) -> Vec<Expr> {
        self.arguments(exprs, &[], env, out)
    }

    /// As [`Self::operands`]; arguments of `out` and `inout` parameters stay the places they are.
    pub(super) fn arguments(
        &mut self,
        exprs: &[&Expr],
        params: &[Param],
        env: &Env,
        out: &mut Vec<FlatStmt>,
    ) -> Vec<Expr> {
        let mut values = Vec::new();
        for (i, expr) in exprs.iter().enumerate() {
            let is_place = params
                .get(i)
                .is_some_and(|p| matches!(p.direction, Direction::Out | Direction::InOut));
            let value = if is_place {
                self.place(expr, env, out)
            } else {
                self.expr(expr, env, out)
            };
            let changes_later = exprs[i + 1..].iter().any(|e| self.has_effects(e));
            let fixed = value.as_value().is_some()
                || matches!(value.kind, ExprKind::Instance(_) | ExprKind::List(_));
            if changes_later && !fixed && !is_place {
                values.push(self.saved(value, out));
            } else {
                values.push(value);
            }
        }
        values
    }

    /// A copy of a value in a new variable.
    pub(super) fn saved(&mut self, value: Expr, out: &mut Vec<FlatStmt>) -> Expr {
        let span = value.span;
        let temp = self.temp(&value.ty, span);
        self.push(out, FlatKind::Assign(temp.clone(), value), span);
        temp
    }

    /// The statements that put `expr` into `target`.
    fn assigned(&mut self, expr: &Expr, target: &Expr, env: &Env) -> Vec<FlatStmt> {
        let mut out = Vec::new();
        let value = self.expr(expr, env, &mut out);
        self.push(&mut out, FlatKind::Assign(target.clone(), value), expr.span);
        out
    }

    fn short_circuit(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) -> Expr {
        let first = self.expr(left, env, out);
        let decides = op == BinaryOp::Or;
        if let Some(Value::Bool(value)) = first.as_value() {
            return if *value == decides {
                first
            } else {
                self.expr(right, env, out)
            };
        }
        if !self.has_effects(right) {
            let second = self.expr(right, env, out);
            return match second.as_value() {
                Some(Value::Bool(value)) if *value != decides => first,
                _ => Expr {
                    kind: ExprKind::Binary(op, Box::new(first), Box::new(second)),
                    ty: Type::Bool,
                    span,
                },
            };
        }
        // The right side only runs if the left one does not decide.
        let result = self.saved(first, out);
        let second = self.assigned(right, &result, env);
        let (then, otherwise) = if decides {
            (Vec::new(), second)
        } else {
            (second, Vec::new())
        };
        self.push(out, FlatKind::If(result.clone(), then, otherwise), span);
        result
    }

    /// Evaluating the expression runs statements.
    pub(super) fn has_effects(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call(call) => !matches!(call.callee, Callee::IsValid(_)),
            ExprKind::TableHit { .. } => true,
            ExprKind::Field(base, _)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::StackLastIndex(base)
            | ExprKind::Slice { base, .. }
            | ExprKind::Unary(_, base)
            | ExprKind::Cast(base) => self.has_effects(base),
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => self.has_effects(a) || self.has_effects(b),
            ExprKind::Conditional(a, b, c) => {
                self.has_effects(a) || self.has_effects(b) || self.has_effects(c)
            }
            ExprKind::List(items) => items.iter().any(|i| self.has_effects(i)),
            _ => false,
        }
    }

    /// A call as a value.
    fn call(
        &mut self,
        call: &Call,
        ty: &Type,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) -> Expr {
        match &call.callee {
            Callee::IsValid(header) => {
                let header = self.expr(header, env, out);
                // Literals know it.
                match header.kind {
                    ExprKind::InvalidHeader => return Expr::bool(false, span),
                    ExprKind::List(_) => return Expr::bool(true, span),
                    _ => {}
                }
                Expr {
                    kind: ExprKind::Call(Box::new(Call {
                        callee: Callee::IsValid(header),
                        type_args: Vec::new(),
                        args: Vec::new(),
                    })),
                    ty: Type::Bool,
                    span,
                }
            }
            Callee::Function(id) => self.inline_function(*id, call, env, out, span),
            Callee::Method {
                object,
                extern_type,
                method,
            } => {
                let signature = &self.program.externs[*extern_type].methods[*method];
                let name = signature.name.clone();
                if name == "lookahead" {
                    let object = self.expr(object, env, out);
                    let value = Expr {
                        kind: ExprKind::Call(Box::new(Call {
                            callee: Callee::Method {
                                object,
                                extern_type: *extern_type,
                                method: *method,
                            },
                            type_args: Vec::new(),
                            args: Vec::new(),
                        })),
                        ty: ty.clone(),
                        span,
                    };
                    return self.saved(value, out);
                }
                if matches!(ty, Type::Void) {
                    self.call_statement(call, env, out, span);
                } else {
                    let message = format!("BMv2 cannot evaluate `{name}`");
                    self.error("unsupported-extern", span, message);
                }
                Expr::poison(span)
            }
            _ => {
                if !matches!(ty, Type::Void) {
                    self.error(
                        "unsupported-extern",
                        span,
                        "BMv2 cannot evaluate this call in an expression",
                    );
                    return Expr::poison(span);
                }
                self.call_statement(call, env, out, span);
                Expr::poison(span)
            }
        }
    }
}

/// A member of a value; members of lists are taken out at once.
pub(super) fn member(base: Expr, name: &str, ty: Type, span: Span) -> Expr {
    if let (ExprKind::List(items), Type::Struct(s)) = (&base.kind, &base.ty)
        && let Some((i, _)) = s.field(name)
        && let Some(item) = items.get(i)
    {
        return item.clone();
    }
    // Any value would do.
    if matches!(base.kind, ExprKind::InvalidHeader) {
        return default_value(&ty, span);
    }
    Expr {
        kind: ExprKind::Field(Box::new(base), name.to_owned()),
        ty,
        span,
    }
}

/// The default value of a type (specification, section 7.3).
pub(super) fn default_value(ty: &Type, span: Span) -> Expr {
    let kind = match ty.stored() {
        Type::Bool => ExprKind::Const(Value::Bool(false)),
        Type::Bits { .. } | Type::Int => ExprKind::Const(Value::Int(0.into())),
        Type::Error => ExprKind::Const(Value::Error("NoError".into())),
        Type::Enum(e) => ExprKind::Const(Value::Member(
            e.members.first().cloned().unwrap_or_default(),
        )),
        Type::String => ExprKind::Const(Value::Str(String::new())),
        Type::Struct(s) if s.kind == crate::types::StructKind::Struct => ExprKind::List(
            s.fields
                .iter()
                .map(|f| default_value(&f.ty, span))
                .collect(),
        ),
        Type::Struct(_) => ExprKind::InvalidHeader,
        Type::Tuple(items) => {
            ExprKind::List(items.iter().map(|t| default_value(t, span)).collect())
        }
        Type::Stack(element, size) => {
            ExprKind::List((0..*size).map(|_| default_value(element, span)).collect())
        }
        _ => ExprKind::Poison,
    };
    Expr {
        kind,
        ty: ty.clone(),
        span,
    }
}
