//! Expressions.

use std::rc::Rc;

use super::rules::distinct_names;
use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::budget::expr_parts;
use crate::diagnostics::Diagnostic;
use crate::eval::{self, Value};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::{FieldType, StructKind, StructType, Type};

impl Checker<'_> {
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Expr {
        let span = expr.span;
        let typed = |kind, ty| Expr::new(kind, ty, span);
        match &expr.kind {
            Ast::Number { value, width, .. } => match width {
                None => Expr::int(value.clone(), Type::Int, span),
                Some(w) => {
                    let ty = Type::Bits {
                        width: w.width.min(1 << 16),
                        signed: w.signed,
                    };
                    self.coerce(Expr::int(value.clone(), Type::Int, span), &ty)
                }
            },
            Ast::Bool(value) => Expr::bool(*value, span),
            Ast::Str(text) => Expr::constant(Value::Str(text.clone()), Type::String, span),
            Ast::Name { name, global } => self.name(name, *global),
            Ast::Type(ty) => {
                let ty = self.ty(ty);
                self.type_as_value(&self.show(&ty), span)
            }
            Ast::Member(base, name) => self.member_expr(base, name, span),
            Ast::Index(base, index) => self.index(base, index, span),
            Ast::Slice { base, high, low } => self.slice(base, high, low, span),
            Ast::SliceFrom { base, low, width } => self.slice_from(base, low, width, span),
            Ast::Call {
                callee,
                type_args,
                args,
            } => self.call_expr(callee, type_args, args, span),
            Ast::Unary(op, operand) => {
                let operand = self.expr(operand);
                self.unary(*op, operand, span)
            }
            Ast::Binary(op, left, right) => {
                let left = self.expr(left);
                let right = self.expr(right);
                self.binary(*op, left, right, span)
            }
            Ast::Conditional(condition, then, otherwise) => {
                self.conditional(condition, then, otherwise, span)
            }
            Ast::Cast(ty, operand) => {
                let to = self.ty(ty);
                let operand = self.expr(operand);
                self.cast(operand, &to, span)
            }
            Ast::List { items, rest } => {
                let mut items: Vec<Expr> = items.iter().map(|i| self.expr(i)).collect();
                if *rest {
                    items.push(typed(ExprKind::DefaultValue, Type::Dots));
                }
                let types = items.iter().map(|i| i.ty.clone()).collect();
                match self.affordable(Type::Tuple(Rc::new(types)), span) {
                    Type::Poison => Expr::poison(span),
                    ty => typed(ExprKind::List(items), ty),
                }
            }
            Ast::Record { fields, rest } => {
                distinct_names::check_given(fields.iter().map(|(name, _)| name), self.diagnostics);
                let mut types = Vec::new();
                let mut items = Vec::new();
                for (name, value) in fields {
                    let value = self.expr(value);
                    types.push(FieldType {
                        name: name.text.clone(),
                        ty: value.ty.clone(),
                        annotations: Vec::new(),
                    });
                    items.push(value);
                }
                if *rest {
                    types.push(FieldType {
                        name: "...".into(),
                        ty: Type::Dots,
                        annotations: Vec::new(),
                    });
                    items.push(typed(ExprKind::DefaultValue, Type::Dots));
                }
                typed(ExprKind::List(items), anonymous_struct(types, span))
            }
            Ast::InvalidHeader => typed(ExprKind::InvalidHeader, Type::InvalidHeader),
            Ast::DontCare => typed(ExprKind::DontCare, Type::DontCare),
            Ast::Dots => typed(ExprKind::DefaultValue, Type::Dots),
            Ast::Default | Ast::Mask(..) | Ast::Range(..) => {
                let message = "sets of values are only allowed in select and entries";
                self.error("misplaced-set", span, message);
                Expr::poison(span)
            }
        }
    }

    /// Condition of a statement or of `?:`.
    pub(super) fn condition(&mut self, condition: &ast::Expr) -> Expr {
        if matches!(condition.kind, Ast::Dots) {
            let message = "`...` is not a condition";
            let help = "it stands for the default values of what is initialised";
            self.error_with_help("bad-operand", condition.span, message, help);
            return Expr::poison(condition.span);
        }
        self.expr_of(condition, &Type::Bool)
    }

    /// `condition ? then : otherwise`
    fn conditional(
        &mut self,
        condition: &ast::Expr,
        then: &ast::Expr,
        otherwise: &ast::Expr,
        span: Span,
    ) -> Expr {
        let condition = self.condition(condition);
        let (then, otherwise) = (self.expr(then), self.expr(otherwise));
        let types = [then.ty.clone(), otherwise.ty.clone()];
        if let [Type::Enum(a), Type::Enum(b)] = &types
            && a != b
        {
            self.different_types(&types, "?:", span);
            return Expr::poison(span);
        }
        let Some((then, otherwise)) = self.same_type(then, otherwise, "?:", span) else {
            return Expr::poison(span);
        };
        if let Some(Value::Bool(value)) = condition.as_value() {
            return if *value { then } else { otherwise };
        }
        if matches!(then.ty, Type::Int) {
            let message = "the width of this value is not known";
            let help = "give the literals a width, such as 8w1";
            self.error_with_help("unknown-width", span, message, help);
            return Expr::poison(span);
        }
        let ty = then.ty.clone();
        let parts = [condition, then, otherwise].map(Box::new);
        let [condition, then, otherwise] = parts;
        Expr::new(ExprKind::Conditional(condition, then, otherwise), ty, span)
    }

    /// An expression that must convert to `ty`.
    pub(super) fn expr_of(&mut self, expr: &ast::Expr, ty: &Type) -> Expr {
        let checked = self.expr(expr);
        self.coerce(checked, ty)
    }

    fn name(&mut self, name: &ast::Ident, global: bool) -> Expr {
        let span = name.span;
        let Some(entity) = self.resolve(name, global, "variable, constant or parameter") else {
            return Expr::poison(span);
        };
        let typed = |kind, ty| Expr::new(kind, ty, span);
        match entity {
            Entity::Const(value) if !self.diagnostics.spend(expr_parts(&value), span) => {
                Expr::poison(span)
            }
            Entity::Const(value) => Expr { span, ..value },
            Entity::Var(id) => Expr::var(id, self.program.vars[id].ty.clone(), span),
            Entity::Instance(id) => {
                let ty = self.program.instances[id].ty.clone();
                typed(ExprKind::Instance(id), ty)
            }
            Entity::Table(id) => typed(ExprKind::Table(id), Type::Void),
            Entity::ValueSet(id) => {
                let ty = self.program.value_sets[id].ty.clone();
                typed(ExprKind::ValueSet(id), ty)
            }
            other => {
                let message = format!("`{}` is {}, not a value", name.text, other.kind());
                let diagnostic = Diagnostic::error("not-a-value", span, message);
                self.report(match other {
                    Entity::Control(..) | Entity::Parser(..) => {
                        diagnostic.help(format!("make an instance of it: `{}()`", name.text))
                    }
                    _ => diagnostic,
                });
                Expr::poison(span)
            }
        }
    }

    pub(super) fn type_as_value(&self, name: &str, span: Span) -> Expr {
        let message = format!("`{name}` is a type, not a value");
        self.error("not-a-value", span, message);
        Expr::poison(span)
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let index = self.expr(index);
        let ty = match &base.ty {
            Type::Poison => return Expr::poison(span),
            Type::Stack(element, size) => {
                if let Some(i) = index.as_int()
                    && (*i < 0.into() || *i >= (*size).into())
                {
                    let message = format!("index {i} is outside of the stack of {size} headers");
                    self.error("index-out-of-bounds", index.span, message);
                    return Expr::poison(span);
                }
                (**element).clone()
            }
            Type::Tuple(types) => {
                let found = index
                    .as_int()
                    .and_then(|i| usize::try_from(i).ok())
                    .filter(|i| *i < types.len());
                let Some(i) = found else {
                    let message = format!("a constant below {} is needed here", types.len());
                    self.error("index-out-of-bounds", index.span, message);
                    return Expr::poison(span);
                };
                if let ExprKind::List(items) = &base.kind
                    && !base.has_effects()
                {
                    return items[i].clone();
                }
                types[i].clone()
            }
            other => {
                let message = format!("`{}` has no elements to index", self.show(other));
                let diagnostic = Diagnostic::error("not-indexable", span, message);
                self.report(match other {
                    Type::Extern(id, _) => {
                        let methods = self.program.externs[*id].methods.iter();
                        let names: Vec<&str> = methods.map(|m| m.name.as_str()).collect();
                        diagnostic.help(format!("it has methods: {}", names.join(", ")))
                    }
                    _ => diagnostic,
                });
                return Expr::poison(span);
            }
        };
        // Literal indices have no width of their own.
        let index = match index.ty {
            Type::Int => self.coerce(index, &Type::bit(32)),
            _ => index,
        };
        if !matches!(index.ty.stored(), Type::Bits { .. } | Type::Poison) {
            let message = format!("an index is a number, not `{}`", self.show(&index.ty));
            self.error("type-mismatch", index.span, message);
            return Expr::poison(span);
        }
        Expr::new(ExprKind::Index(Box::new(base), Box::new(index)), ty, span)
    }

    /// Explicit casts (specification, section 8.11.1).
    pub(super) fn cast(&mut self, operand: Expr, to: &Type, span: Span) -> Expr {
        let from = operand.ty.clone();
        if from == *to {
            return Expr { span, ..operand };
        }
        if from.is_poison() || to.is_poison() {
            return Expr::poison(span);
        }
        // An explicit cast cuts a literal off without a warning.
        if let (Type::Int, Type::Bits { .. }, Some(value)) =
            (&from, to.stored(), operand.as_value())
            && let Some(value) = eval::cast(value, to)
        {
            return Expr::constant(value, to.clone(), span);
        }
        if let Some(converted) = self.try_coerce(operand.clone(), to) {
            return Expr { span, ..converted };
        }
        let folds = !matches!(to.stored(), Type::Int) || operand.as_int().is_some();
        if !folds || !may_cast(&operand, to) {
            self.bad_cast(&from, to, span);
            return Expr::poison(span);
        }
        let cast = operand.folded_cast(to);
        Expr { span, ..cast }
    }

    fn bad_cast(&self, from: &Type, to: &Type, span: Span) {
        let (have, want) = (self.show(from), self.show(to));
        let message = format!("`{have}` cannot be cast to `{want}`");
        let mut diagnostic = Diagnostic::error("bad-cast", span, message);
        if matches!(to.stored(), Type::Int) {
            diagnostic = diagnostic.label("not known at compile time").help(format!(
                "`int` is for constants; compute in `{}`, which literals adapt to",
                self.show(from.stored())
            ));
        } else if is_renaming(from, to) {
            diagnostic = diagnostic
                .help("a `type` is cast to and from what it is made of: cast in two steps");
        } else if matches!(from.stored(), Type::Bool) && to.as_bits().is_some() {
            diagnostic = diagnostic.help("`bool` is cast to `bit<1>` only: write `x ? 1 : 0`");
        } else if from.as_bits().is_some() && to.as_bits().is_some() {
            diagnostic = diagnostic.help("change the width and the sign in two casts");
        }
        self.report(diagnostic);
    }
}

/// Whether the cast is to a `type` from what it is made of, or back: it leaves the value as it is.
fn is_renaming(from: &Type, to: &Type) -> bool {
    matches!(from, Type::New(_)) || matches!(to, Type::New(_))
}

/// Whether an explicit cast is allowed (specification, section 8.11.1).
fn may_cast(operand: &Expr, to: &Type) -> bool {
    const ONE_BIT: Type = Type::bit(1);
    let (from, renamed) = (operand.ty.stored(), is_renaming(&operand.ty, to));
    if let (Some((a, s)), Some((b, t))) = (from.as_bits(), to.as_bits()) {
        return match renamed {
            true => a == b && s == t,
            false => a == b || s == t,
        };
    }
    match (from, to.stored()) {
        (Type::Bits { .. }, Type::Int) => true,
        (number, Type::Bool) | (Type::Bool, number) if *number == ONE_BIT => true,
        (Type::Int, Type::Bits { .. }) => true,
        (Type::Int, Type::Bool) => operand.as_int().is_none_or(|v| v.bits() <= 1),
        (a, b) => a == b && renamed,
    }
}

/// The struct type that `{ a = .., b = .. }` has until it meets a named one.
pub(super) fn anonymous_struct(fields: Vec<FieldType>, span: Span) -> Type {
    Type::Struct(Rc::new(StructType {
        kind: StructKind::Struct,
        name: String::new(),
        args: Vec::new(),
        fields: fields.into(),
        annotations: Vec::new(),
        span,
    }))
}
