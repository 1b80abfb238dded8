//! `base.name`, outside of calls.

use num_bigint::BigInt;

use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostics::Diagnostic;
use crate::eval::Value;
use crate::ir::{Expr, ExprKind, TableId};
use crate::source::Span;
use crate::types::{EnumType, Type};

/// An expression `table.apply().what`.
pub(super) struct ApplyResult {
    pub table: TableId,
    pub what: String,
}

impl Checker<'_> {
    pub(super) fn member_expr(&mut self, base: &ast::Expr, name: &ast::Ident, span: Span) -> Expr {
        if let Some(ty) = self.as_type(base) {
            return self.type_member(&ty, name, span);
        }
        if let Some(result) = self.apply_result(base, name) {
            return match result.what.as_str() {
                "hit" | "miss" => Expr::new(
                    ExprKind::TableHit {
                        table: result.table,
                        miss: result.what == "miss",
                    },
                    Type::Bool,
                    span,
                ),
                "action_run" => {
                    let message = "`action_run` is only allowed in `switch`";
                    let help = "write `switch (t.apply().action_run) { ... }`";
                    self.error_with_help("bad-action-run", span, message, help);
                    Expr::poison(span)
                }
                _ => {
                    let message = format!("the result of `apply()` has no member `{}`", name.text);
                    let help = "it has `hit`, `miss` and `action_run`";
                    self.error_with_help("unknown-member", name.span, message, help);
                    Expr::poison(span)
                }
            };
        }
        let base = self.expr(base);
        self.value_member(base, name, span)
    }

    /// The type that an expression names, if it names one.
    pub(super) fn as_type(&mut self, expr: &ast::Expr) -> Option<Type> {
        match &expr.kind {
            Ast::Name { name, .. } if name.text == "error" => Some(Type::Error),
            Ast::Name { name, global } => match self.lookup(&name.text, *global)? {
                Entity::Type(ty) => Some(ty),
                _ => None,
            },
            Ast::Type(ty) => Some(self.ty(ty)),
            _ => None,
        }
    }

    /// The parts of `base.name`, if `base` is `table.apply()`.
    pub(super) fn apply_result(
        &mut self,
        base: &ast::Expr,
        name: &ast::Ident,
    ) -> Option<ApplyResult> {
        let Ast::Call { callee, args, .. } = &base.kind else {
            return None;
        };
        let Ast::Member(object, method) = &callee.kind else {
            return None;
        };
        let Ast::Name {
            name: table,
            global,
        } = &object.kind
        else {
            return None;
        };
        if method.text != "apply" || !args.is_empty() {
            return None;
        }
        let Some(Entity::Table(table)) = self.lookup(&table.text, *global) else {
            return None;
        };
        self.check_table_applied(base.span);
        Some(ApplyResult {
            table,
            what: name.text.clone(),
        })
    }

    fn type_member(&mut self, ty: &Type, name: &ast::Ident, span: Span) -> Expr {
        let unknown = |kind: &str, owner: &str, members: &[String]| {
            let message = format!("{kind} `{owner}` has no member `{}`", name.text);
            Diagnostic::error("unknown-member", name.span, message)
                .suggest(&name.text, members.iter().map(String::as_str))
        };
        match ty {
            Type::Error => {
                if self.program.errors.place(&name.text).is_some() {
                    return Expr::constant(Value::Error(name.text.clone()), Type::Error, span);
                }
                self.report(unknown("type", "error", &self.program.errors));
                Expr::poison(span)
            }
            Type::Enum(e) => match enum_value(e, &name.text) {
                Some(value) => Expr::constant(value, ty.clone(), span),
                None => {
                    self.report(unknown("enum", &e.name, &e.members));
                    Expr::poison(span)
                }
            },
            Type::Poison => Expr::poison(span),
            other => {
                let message = format!("type `{}` has no member `{}`", self.show(other), name.text);
                self.error("unknown-member", name.span, message);
                Expr::poison(span)
            }
        }
    }

    fn value_member(&mut self, base: Expr, name: &ast::Ident, span: Span) -> Expr {
        let typed = |kind, ty| Expr::new(kind, ty, span);
        match base.ty.clone() {
            Type::Poison => Expr::poison(span),
            Type::Struct(s) => match s.field(&name.text) {
                Some((i, field)) => {
                    if let ExprKind::List(items) = &base.kind
                        && !base.has_effects()
                    {
                        return items[i].clone();
                    }
                    typed(
                        ExprKind::Field(Box::new(base), name.text.clone()),
                        field.ty.clone(),
                    )
                }
                None => {
                    let message = format!("`{}` has no field `{}`", self.show(&base.ty), name.text);
                    let diagnostic = Diagnostic::error("unknown-field", name.span, message);
                    let is_method = s.kind != crate::types::StructKind::Struct
                        && matches!(name.text.as_str(), "isValid" | "setValid" | "setInvalid");
                    let is_header = s.kind != crate::types::StructKind::Struct;
                    self.report(match is_method {
                        _ if is_header && name.text == "valid" => {
                            diagnostic.help("call `isValid()`, `setValid()` or `setInvalid()`")
                        }
                        true => diagnostic.help(format!("call it: `{}()`", name.text)),
                        false => {
                            let fields: Vec<&str> =
                                s.fields.iter().map(|f| f.name.as_str()).collect();
                            diagnostic.suggest_among(&name.text, &fields, "its fields are")
                        }
                    });
                    Expr::poison(span)
                }
            },
            Type::Stack(element, size) => match name.text.as_str() {
                "next" | "last" | "lastIndex" if !self.may_follow_parser(&name.text, name.span) => {
                    Expr::poison(span)
                }
                "next" => typed(ExprKind::StackNext(Box::new(base)), (*element).clone()),
                "last" => typed(ExprKind::StackLast(Box::new(base)), (*element).clone()),
                "lastIndex" => typed(ExprKind::StackLastIndex(Box::new(base)), Type::bit(32)),
                "size" => Expr::int(BigInt::from(size), Type::bit(32), span),
                other => {
                    let message = format!("a header stack has no member `{other}`");
                    self.report(
                        Diagnostic::error("unknown-member", name.span, message)
                            .suggest(other, ["next", "last", "lastIndex", "size"]),
                    );
                    Expr::poison(span)
                }
            },
            other => {
                let message = format!("`{}` has no member `{}`", self.show(&other), name.text);
                self.error("unknown-member", name.span, message);
                Expr::poison(span)
            }
        }
    }
}

/// The value of an enum member: a number if the enum is serializable.
pub(super) fn enum_value(e: &EnumType, name: &str) -> Option<Value> {
    let index = e.member(name)?;
    Some(match &e.underlying {
        Some((_, values)) => Value::Int(values.get(index)?.clone()),
        None => Value::Member(name.to_owned()),
    })
}
