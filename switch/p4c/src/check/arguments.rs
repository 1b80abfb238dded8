//! Arguments: matching with parameters, inference of type arguments, conversion.

use std::rc::Rc;

use super::Checker;
use super::infer::Inference;
use crate::ast::{self, Direction};
use crate::budget::expr_parts;
use crate::diagnostics::Diagnostic;
use crate::ir::{self, Expr, ExprKind, Param, Signature};
use crate::source::Span;
use crate::types::{self, Bindings, Type};

/// Which parameters of a signature get arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentRule {
    All,
    /// Only those with a direction, as in a table's list of actions. The control plane gives the others.
    Directional,
}

impl Checker<'_> {
    /// Brings arguments into the order of the parameters, infers type arguments and converts the arguments to the types
    /// of the parameters. Returns the arguments, and what the type parameters stand for.
    pub(super) fn arguments(
        &mut self,
        signature: &Signature,
        type_args: &[Type],
        args: &[ast::Arg],
        rule: ArgumentRule,
        span: Span,
    ) -> Option<(Vec<Expr>, Bindings)> {
        let params: Vec<&Param> = signature
            .params
            .iter()
            .filter(|p| rule == ArgumentRule::All || p.direction != Direction::None)
            .collect();
        let given = self.match_arguments(&signature.name, &params, args, span)?;

        let (renaming, mut inference) = self.unknowns(signature, type_args, span)?;
        let written = inference.found.len();
        let mut values = Vec::new();
        for (param, arg) in params.iter().zip(&given) {
            if arg.is_none() && param.is_optional() {
                inference.leave_open(&param.ty.substitute(&renaming));
                values.push(Expr::new(ExprKind::DontCare, Type::DontCare, span));
                continue;
            }
            let value = self.argument_value(param, *arg, span);
            let pattern = param.ty.substitute(&renaming);
            if !self.unify(&pattern, &value.ty, &mut inference) {
                let expected = pattern.substitute(&inference.found);
                self.argument_mismatch(param, &signature.name, &value, &expected);
                return None;
            }
            values.push(value);
        }
        inference.close();
        if let Some(unknown) = inference.unresolved() {
            if values.iter().any(|v| v.ty.is_poison()) {
                return None;
            }
            let message = format!(
                "the type `{}` of `{}` cannot be inferred",
                unknown.name, signature.name
            );
            let help = format!("write it: `{}<...>(...)`", signature.name);
            self.error_with_help("cannot-infer", span, message, help);
            return None;
        }
        // An integer without width that met no width is 32 bits wide in the target's fields.
        for (_, ty) in inference.found.iter_mut().skip(written) {
            *ty = closed(std::mem::replace(ty, Type::Poison));
        }

        let mut checked = Vec::new();
        for ((param, arg), value) in params.iter().zip(&given).zip(values) {
            let ty = param.ty.substitute(&renaming).substitute(&inference.found);
            checked.push(match arg {
                None if param.is_optional() => Expr { ty, ..value },
                _ => self.pass(&signature.name, param, value, &ty),
            });
        }
        let unknowns = inference.unknowns.into_iter();
        let inferred = unknowns.map(|unknown| Type::Var(unknown).substitute(&inference.found));
        Some((checked, types::bind(&signature.type_params, inferred)))
    }

    /// An unknown for each type parameter, and those of them that are written. Each call has unknowns of its own, also
    /// when a function calls itself generically.
    fn unknowns(
        &mut self,
        signature: &Signature,
        type_args: &[Type],
        span: Span,
    ) -> Option<(Bindings, Inference)> {
        let params = &signature.type_params;
        let unknowns: Vec<_> = params.iter().map(|p| self.new_type_var(&p.name)).collect();
        if !type_args.is_empty() && type_args.len() != unknowns.len() {
            let message = format!(
                "`{}` takes {} type arguments, {} given",
                signature.name,
                unknowns.len(),
                type_args.len()
            );
            self.error("type-argument-count", span, message);
            return None;
        }
        if type_args.iter().any(Type::is_poison) {
            return None;
        }
        let renaming = types::bind(params, unknowns.iter().cloned().map(Type::Var));
        let given = types::bind(&unknowns, type_args.iter().cloned());
        let (open, found): (Bindings, Bindings) = given
            .into_iter()
            .partition(|(_, ty)| matches!(ty, Type::DontCare));
        let open = open.into_iter().map(|(var, _)| var).collect();
        Some((
            renaming,
            Inference {
                unknowns,
                found,
                open,
            },
        ))
    }

    /// The argument that is given for a parameter, or its default value.
    fn argument_value(&mut self, param: &Param, arg: Option<&ast::Arg>, span: Span) -> Expr {
        match (arg, &param.default) {
            (Some(arg), _) => self.expr(&arg.value),
            (None, Some(default)) if self.diagnostics.spend(expr_parts(default), span) => {
                default.clone()
            }
            _ => Expr::poison(span),
        }
    }

    fn argument_mismatch(&self, param: &Param, callee: &str, value: &Expr, expected: &Type) {
        let (have, want) = (self.show(&value.ty), self.show(expected));
        let message = format!(
            "argument `{}` of `{callee}` has type `{have}`, expected `{want}`",
            param.name
        );
        let error = Diagnostic::error("type-mismatch", value.span, message)
            .label(format!("this is `{have}`"))
            .note(param.span, "the parameter");
        self.report(match (&value.ty, expected) {
            (Type::Block(given, _), Type::Block(wanted, _)) => {
                let (given, wanted) = (self.shown_params(*given), self.shown_params(*wanted));
                error.help(format!("its parameters are {given}; needed are {wanted}"))
            }
            _ => error,
        });
    }

    /// The parameters of a parser or control, in parentheses.
    fn shown_params(&self, block: ir::BlockId) -> String {
        let params = &self.program.blocks[block].signature.params;
        let list: Vec<String> = params.iter().map(|p| self.shown_param(p)).collect();
        format!("({})", list.join(", "))
    }

    /// Checks one argument of `callee` against the direction of its parameter.
    fn pass(&self, callee: &str, param: &Param, value: Expr, ty: &Type) -> Expr {
        // Unification has matched the type arguments already, of which some may be `_`.
        if matches!(
            (&value.ty, ty),
            (Type::Block(..), Type::Block(..)) | (Type::Extern(..), Type::Extern(..))
        ) {
            return value;
        }
        if matches!(value.ty, Type::DontCare) {
            if matches!(param.direction, Direction::In | Direction::InOut) {
                let message = format!("parameter `{}` is read, so it needs a value", param.name);
                let help = "`_` is for `out` arguments that nobody wants";
                self.error_with_help("not-a-value", value.span, message, help);
                return Expr::poison(value.span);
            }
            return Expr {
                ty: ty.clone(),
                ..value
            };
        }
        if !param.direction.writes() {
            return self.coerce(value, ty);
        }
        if !self.check_lvalue(&value) {
            return Expr::poison(value.span);
        }
        // No conversion leads back to the argument (P4_16, section 8.11.2).
        if value.ty != *ty && !value.ty.is_poison() && !ty.is_poison() {
            self.argument_mismatch(param, callee, &value, ty);
            return Expr::poison(value.span);
        }
        value
    }

    /// For each parameter its argument, by position or name; none where the default value is used.
    fn match_arguments<'b>(
        &self,
        name: &str,
        params: &[&Param],
        args: &'b [ast::Arg],
        span: Span,
    ) -> Option<Vec<Option<&'b ast::Arg>>> {
        if let Some(other) = mixed(args) {
            let message = "some arguments have names, and some have none";
            let help = "name all of them, or none";
            self.error_with_help("mixed-arguments", other.value.span, message, help);
            return None;
        }
        let mut given: Vec<Option<&ast::Arg>> = vec![None; params.len()];
        for (i, arg) in args.iter().enumerate() {
            let position = match &arg.name {
                None => i,
                Some(arg_name) => {
                    let found = params.iter().position(|p| p.name == arg_name.text);
                    let Some(found) = found else {
                        let message = format!("`{name}` has no parameter `{}`", arg_name.text);
                        self.unknown(
                            "unknown-parameter",
                            arg_name,
                            message,
                            params.iter().map(|p| p.name.as_str()),
                        );
                        return None;
                    };
                    found
                }
            };
            let slot = given.get_mut(position).filter(|slot| slot.is_none());
            let Some(slot) = slot else {
                if let Some(arg_name) = &arg.name {
                    let message = format!("argument `{}` is given twice", arg_name.text);
                    self.error("duplicate-name", arg_name.span, message);
                    return None;
                }
                let message = format!(
                    "`{name}` takes {} arguments, {} given",
                    params.len(),
                    args.len()
                );
                self.report(self.argument_count(span, message, params));
                return None;
            };
            *slot = Some(arg);
        }
        let missing = params
            .iter()
            .zip(&given)
            .find(|(p, g)| g.is_none() && p.is_required());
        if let Some((param, _)) = missing {
            let message = format!("argument `{}` of `{name}` is missing", param.name);
            self.report(self.argument_count(span, message, params));
            return None;
        }
        Some(given)
    }

    fn argument_count(&self, span: Span, message: String, params: &[&Param]) -> Diagnostic {
        let list: Vec<String> = params.iter().map(|p| self.shown_param(p)).collect();
        Diagnostic::error("argument-count", span, message)
            .help(format!("the parameters are ({})", list.join(", ")))
    }
}

/// The first argument with a name behind one without, or the converse (P4_16, section 8.21).
fn mixed(args: &[ast::Arg]) -> Option<&ast::Arg> {
    let named = args.first()?.name.is_some();
    args.iter().find(|arg| arg.name.is_some() != named)
}

/// The order in which arguments with names are written, as indices of the parameters; those that have their default
/// values come last. Empty if the arguments have no names.
pub(super) fn written_order<'p>(
    params: impl IntoIterator<Item = &'p Param>,
    args: &[ast::Arg],
) -> Vec<usize> {
    if args.iter().all(|arg| arg.name.is_none()) {
        return Vec::new();
    }
    let names: Vec<&str> = params.into_iter().map(|p| p.name.as_str()).collect();
    let written = args.iter().filter_map(|arg| arg.name.as_ref());
    let mut order: Vec<usize> = written
        .filter_map(|name| names.iter().position(|n| *n == name.text))
        .collect();
    let rest: Vec<usize> = (0..names.len()).filter(|i| !order.contains(i)).collect();
    order.extend(rest);
    order
}

/// The type with 32 bits for the literals inside, as p4c gives them.
pub(super) fn closed(ty: Type) -> Type {
    match ty {
        Type::Int => Type::bit(32),
        Type::Tuple(items) => Type::Tuple(Rc::new(items.iter().cloned().map(closed).collect())),
        other => other,
    }
}
