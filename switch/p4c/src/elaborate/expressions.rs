//! Expressions: names replaced, constants folded, calls moved in front of the statement.

use super::flat::{Branches, FlatKind, FlatStmt};
use super::{Elaborator, Env};
use crate::architecture::Architecture;
use crate::eval::Value;
use crate::ir::{BinaryOp, Call, Callee, Expr, ExprKind, Signature};
use crate::source::Span;
use crate::types::{FieldType, StructKind, Type};

impl Elaborator<'_> {
    /// Elaborates an expression that must not need statements: constructor arguments, sizes, entries.
    pub(super) fn pure_expr(&mut self, expr: &Expr, env: &Env) -> Expr {
        let (value, before) = self.apart(|e| e.expr(expr, env));
        if before.is_empty() {
            return value;
        }
        let message = "this must be known at compile time";
        self.error("not-constant", expr.span, message);
        Expr::poison(expr.span)
    }

    /// Elaborates a set of a select case or entry, whose numbers are part of the program.
    pub(super) fn known_set(&mut self, set: &Expr, env: &Env) -> Expr {
        let set = self.pure_expr(set, env);
        let unknown = match &set.kind {
            ExprKind::Mask(a, b) | ExprKind::Range(a, b) => {
                let mut ends = [a, b].into_iter();
                ends.find(|end| end.as_value().is_none())
                    .map(|end| end.span)
            }
            ExprKind::Const(_) | ExprKind::Default | ExprKind::ValueSet(_) | ExprKind::Poison => {
                None
            }
            _ => Some(set.span),
        };
        let Some(span) = unknown else { return set };
        let message = "this must be known at compile time";
        let help =
            "to compare two values of a packet, make `a == b` the key, and `true` the value here";
        self.diagnostics
            .error_with_help("not-constant", span, message, help);
        Expr::poison(span)
    }

    /// The elaborated expression; statements that have to run before it are pushed.
    pub(super) fn expr(&mut self, expr: &Expr, env: &Env) -> Expr {
        let span = expr.span;
        let ty = expr.ty.substitute(&env.types);
        let typed = |kind| Expr::new(kind, ty.clone(), span);
        match &expr.kind {
            ExprKind::Var(id) => match env.vars.get(id) {
                Some(bound) => Expr {
                    span,
                    ..bound.clone()
                },
                None => {
                    let name = &self.program.vars[*id].name;
                    let message = format!("`{name}` has no value here");
                    self.error("unbound-variable", span, message);
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
                let base = self.place(base, env);
                let value = member(base, name, ty, span);
                self.read(value)
            }
            ExprKind::Index(base, _) if matches!(base.ty, Type::Stack(..)) => {
                let place = self.place(expr, env);
                self.read(place)
            }
            ExprKind::Index(base, index) => {
                let [base, index] = self.pair(base, index, env);
                if let (ExprKind::List(items), Some(i)) = (&base.kind, index.as_number::<usize>())
                    && let Some(item) = items.get(i)
                {
                    return item.clone();
                }
                typed(ExprKind::Index(Box::new(base), Box::new(index)))
            }
            ExprKind::StackNext(base) => typed(ExprKind::StackNext(self.boxed(base, env))),
            ExprKind::StackLast(base) => typed(ExprKind::StackLast(self.boxed(base, env))),
            ExprKind::StackLastIndex(base) => {
                typed(ExprKind::StackLastIndex(self.boxed(base, env)))
            }
            ExprKind::Slice { base, high, low } => {
                let base = self.expr(base, env);
                base.folded_slice(*high, *low, span)
            }
            ExprKind::Unary(op, operand) => {
                let operand = self.expr(operand, env);
                Expr::folded_unary(*op, operand, ty, span)
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                self.short_circuit(*op, left, right, env, span)
            }
            ExprKind::Binary(op, left, right) => {
                let [left, right] = self.pair(left, right, env);
                self.binary(*op, left, right, ty, span)
            }
            ExprKind::Conditional(condition, then, otherwise) => {
                let condition = self.expr(condition, env);
                if let Some(Value::Bool(value)) = condition.as_value() {
                    return self.expr(if *value { then } else { otherwise }, env);
                }
                if !then.has_effects() && !otherwise.has_effects() && ty.is_scalar() {
                    let [then, otherwise] = [then, otherwise].map(|e| self.boxed(e, env));
                    return typed(ExprKind::Conditional(Box::new(condition), then, otherwise));
                }
                let result = self.temp(&ty, span);
                let then = self.assigned(then, &result, env);
                let otherwise = self.assigned(otherwise, &result, env);
                self.push(FlatKind::If(condition, then, otherwise), span);
                result
            }
            ExprKind::Cast(record) if record.ty.is_record() => {
                let value = self.expr(record, env);
                typed(ExprKind::List(fields_in_order(&value, &ty)))
            }
            ExprKind::Cast(operand) => {
                let cast = self.expr(operand, env).folded_cast(&ty);
                Expr { span, ..cast }
            }
            ExprKind::List(items) => {
                let items: Vec<&Expr> = items.iter().collect();
                typed(ExprKind::List(self.operands(&items, env)))
            }
            ExprKind::Mask(value, mask) => typed(ExprKind::Mask(
                self.boxed(value, env),
                self.boxed(mask, env),
            )),
            ExprKind::Range(low, high) => {
                typed(ExprKind::Range(self.boxed(low, env), self.boxed(high, env)))
            }
            ExprKind::DefaultValue => default_value(&ty, span),
            ExprKind::Call(call) => self.call(call, &ty, env, span),
            ExprKind::TableHit { table, miss } => {
                let result = self.temp(&Type::Bool, span);
                let set = |value: bool| {
                    let assign = FlatKind::Assign(result.clone(), Expr::bool(value, span));
                    vec![assign.at(span)]
                };
                let branches = Branches::HitMiss(set(!miss), set(*miss));
                self.apply_table(*table, branches, env, span);
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
        let result = Expr::folded_binary(op, left, right, ty, span);
        result.unwrap_or_else(|problem| {
            self.error(problem.code(), span, problem.message());
            Expr::poison(span)
        })
    }

    fn boxed(&mut self, expr: &Expr, env: &Env) -> Box<Expr> {
        Box::new(self.expr(expr, env))
    }

    /// Elaborates operands from left to right. A value that a later operand changes is saved before that.
    pub(super) fn operands(&mut self, exprs: &[&Expr], env: &Env) -> Vec<Expr> {
        let evaluate = |expr: &&Expr| self.apart(|e| e.expr(expr, env));
        let evaluated: Vec<(Expr, Vec<FlatStmt>)> = exprs.iter().map(evaluate).collect();
        let changed = self.changed_later(&evaluated);
        let mut values = Vec::new();
        for ((value, before), is_changed) in evaluated.into_iter().zip(changed) {
            self.out.extend(before);
            values.push(match is_changed {
                true => self.settled(value),
                false => value,
            });
        }
        values
    }

    /// Two operands, as [`Self::operands`].
    pub(super) fn pair(&mut self, left: &Expr, right: &Expr, env: &Env) -> [Expr; 2] {
        let left = self.expr(left, env);
        let (right, before) = self.apart(|e| e.expr(right, env));
        let left = match self.may_change(&before, &left) {
            true => self.settled(left),
            false => left,
        };
        self.out.extend(before);
        [left, right]
    }

    /// A copy of a value, of every item if it is a list.
    pub(super) fn settled(&mut self, value: Expr) -> Expr {
        match value.kind {
            ExprKind::List(items) => {
                let items = items.into_iter().map(|item| self.settled(item)).collect();
                Expr {
                    kind: ExprKind::List(items),
                    ..value
                }
            }
            ExprKind::Const(_) | ExprKind::InvalidHeader => value,
            _ => self.saved(value),
        }
    }

    /// A copy of a value in a new variable.
    pub(super) fn saved(&mut self, value: Expr) -> Expr {
        let span = value.span;
        let temp = self.temp(&value.ty, span);
        self.push(FlatKind::Assign(temp.clone(), value), span);
        temp
    }

    /// The statements that put `expr` into `target`.
    fn assigned(&mut self, expr: &Expr, target: &Expr, env: &Env) -> Vec<FlatStmt> {
        self.block(|e| {
            let value = e.expr(expr, env);
            e.push(FlatKind::Assign(target.clone(), value), expr.span);
        })
    }

    fn short_circuit(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        env: &Env,
        span: Span,
    ) -> Expr {
        let first = self.expr(left, env);
        let decides = op == BinaryOp::Or;
        if let Some(Value::Bool(value)) = first.as_value() {
            return if *value == decides {
                first
            } else {
                self.expr(right, env)
            };
        }
        if !right.has_effects() {
            let second = self.expr(right, env);
            return match second.as_value() {
                Some(Value::Bool(value)) if *value != decides => first,
                _ => Expr::binary(op, first, second, Type::Bool, span),
            };
        }
        // The right side only runs if the left one does not decide.
        let result = self.saved(first);
        let second = self.assigned(right, &result, env);
        let (then, otherwise) = if decides {
            (Vec::new(), second)
        } else {
            (second, Vec::new())
        };
        self.push(FlatKind::If(result.clone(), then, otherwise), span);
        result
    }

    /// Elaborates a call that is part of an expression.
    fn call(&mut self, call: &Call, ty: &Type, env: &Env, span: Span) -> Expr {
        match &call.callee {
            Callee::IsValid(header) => {
                let header = self.expr(header, env);
                // The validity of literals is known.
                match header.kind {
                    ExprKind::InvalidHeader => return Expr::bool(false, span),
                    ExprKind::List(_) => return Expr::bool(true, span),
                    _ => {}
                }
                Expr::call(Callee::IsValid(header), Type::Bool, span)
            }
            Callee::Function(id) => self.inline_function(*id, call, env, span),
            Callee::Method {
                object,
                extern_type,
                method,
            } => {
                let signature = &self.program.externs[*extern_type].methods[*method];
                let name = signature.name.clone();
                if name == "lookahead" {
                    let object = self.expr(object, env);
                    let callee = Callee::Method {
                        object,
                        extern_type: *extern_type,
                        method: *method,
                    };
                    return self.saved(Expr::call(callee, ty.clone(), span));
                }
                if matches!(ty, Type::Void) {
                    self.call_statement(call, env, span);
                    return Expr::poison(span);
                }
                if self.program.architecture == Architecture::V1model {
                    let message = format!("BMv2 cannot evaluate `{name}`");
                    self.error("unsupported-extern", span, message);
                    return Expr::poison(span);
                }
                let object = self.expr(object, env);
                let ExprKind::Instance(object) = object.kind else {
                    return Expr::poison(span);
                };
                self.extern_value(Some(object), signature, call, ty, env, span)
            }
            Callee::ExternFunction(id) if self.has_values(ty) => {
                let signature = &self.program.extern_functions[*id];
                self.extern_value(None, signature, call, ty, env, span)
            }
            _ => {
                if matches!(ty, Type::Void) {
                    self.call_statement(call, env, span);
                } else {
                    let message = "BMv2 cannot evaluate this call in an expression";
                    self.error("unsupported-extern", span, message);
                }
                Expr::poison(span)
            }
        }
    }
}

impl Elaborator<'_> {
    /// Whether externs of the architecture return values, and a result of this type is one.
    fn has_values(&self, ty: &Type) -> bool {
        self.program.architecture != Architecture::V1model && !matches!(ty, Type::Void)
    }

    /// Result of a call of an extern, in a variable of its own.
    fn extern_value(
        &mut self,
        object: Option<usize>,
        signature: &Signature,
        call: &Call,
        ty: &Type,
        env: &Env,
        span: Span,
    ) -> Expr {
        let result = self.temp(&ty.substitute(&env.types), span);
        self.extern_call(object, signature, call, env, Some(result.clone()), span);
        result
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
    // The fields of an invalid header have no defined value, so any will do.
    if matches!(base.kind, ExprKind::InvalidHeader) {
        return default_value(&ty, span);
    }
    Expr::new(ExprKind::Field(Box::new(base), name.to_owned()), ty, span)
}

/// The values of the fields of struct type `ty` from a record that has them in the order in which they are written.
fn fields_in_order(record: &Expr, ty: &Type) -> Vec<Expr> {
    let (Some(from), Some(to)) = (record.ty.as_struct(), ty.as_struct()) else {
        return Vec::new();
    };
    let values = record.members();
    let value = |f: &FieldType| match from.field(&f.name) {
        Some((i, _)) => values[i].clone(),
        None => default_value(&f.ty, record.span),
    };
    to.fields.iter().map(value).collect()
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
        Type::Struct(s) if s.kind == StructKind::Struct => {
            let fields = s.fields.iter();
            ExprKind::List(fields.map(|f| default_value(&f.ty, span)).collect())
        }
        Type::Struct(_) => ExprKind::InvalidHeader,
        Type::Tuple(items) => {
            ExprKind::List(items.iter().map(|t| default_value(t, span)).collect())
        }
        Type::Stack(element, size) => {
            ExprKind::List((0..*size).map(|_| default_value(element, span)).collect())
        }
        _ => ExprKind::Poison,
    };
    Expr::new(kind, ty.clone(), span)
}
