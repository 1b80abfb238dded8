//! Calls: binding of parameters, inlining of functions and actions.

use std::collections::HashMap;

use super::flat::{ActionParam, FlatAction, FlatKind, FlatStmt, Role};
use super::{Elaborator, Env, INSTANCE_PARTS, MAX_DEPTH, full_name};
use crate::ir::{
    ActionId, ActionRef, Call, Callee, Direction, Expr, ExprKind, FunctionId, Param, VarId,
};
use crate::source::Span;
use crate::types::Type;

/// Parameters bound to arguments, and what has to be copied back after the call.
pub(super) struct Bound {
    pub vars: HashMap<VarId, Expr>,
    pub copy_back: Vec<(Expr, Expr)>,
}

/// How far the callee sees beyond its parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only its parameters: functions, controls, parsers.
    Parameters,
    /// The variables of the control around it too: actions.
    Surroundings,
}

impl Elaborator<'_> {
    pub(super) fn bind(
        &mut self,
        params: &[Param],
        args: &[Expr],
        types: &[(crate::types::TypeVar, Type)],
        reach: Reach,
        env: &Env,
        out: &mut Vec<FlatStmt>,
    ) -> Bound {
        let mut bound = Bound {
            vars: HashMap::new(),
            copy_back: Vec::new(),
        };
        let refs: Vec<&Expr> = args.iter().collect();
        let values = self.arguments(&refs, params, env, out);
        for (i, (param, value)) in params.iter().zip(&values).enumerate() {
            let ty = param.ty.substitute(types);
            let span = value.span;
            let others: Vec<(&Param, &Expr)> = params
                .iter()
                .zip(&values)
                .enumerate()
                .filter(|(j, _)| *j != i)
                .map(|(_, pair)| pair)
                .collect();
            let is_out = matches!(param.direction, Direction::Out | Direction::InOut);
            let direct = if is_out {
                reach == Reach::Parameters
                    && is_stable_place(value)
                    && !others.iter().any(|(_, other)| overlap(value, other))
            } else {
                let written = |p: &Param| matches!(p.direction, Direction::Out | Direction::InOut);
                is_fixed(value)
                    || reach == Reach::Parameters
                        && is_stable_place(value)
                        && !others
                            .iter()
                            .any(|(p, other)| written(p) && overlap(value, other))
            };
            if direct {
                bound.vars.insert(param.var, value.clone());
                if param.direction == Direction::Out {
                    self.invalidate(value, out);
                }
                continue;
            }
            let copy = self.add_var(&param.name, ty, Role::Local, span);
            if param.direction == Direction::Out {
                self.invalidate(&copy, out);
            } else {
                let initial = self.read(value.clone(), out);
                self.push(out, FlatKind::Assign(copy.clone(), initial), span);
            }
            if is_out && !matches!(value.kind, ExprKind::DontCare) {
                bound.copy_back.push((value.clone(), copy.clone()));
            }
            bound.vars.insert(param.var, copy);
        }
        bound
    }

    pub(super) fn copy_back(&mut self, bound: Bound, out: &mut Vec<FlatStmt>) {
        for (target, copy) in bound.copy_back {
            self.write(&target, copy, out);
        }
    }

    /// Headers of `out` parameters and new variables begin invalid (specification, section 6.7).
    pub(super) fn invalidate(&mut self, place: &Expr, out: &mut Vec<FlatStmt>) {
        match &place.ty {
            Type::Struct(s) if s.kind == crate::types::StructKind::Struct => {
                for field in &s.fields {
                    self.invalidate(
                        &Expr::field(place.clone(), &field.name, field.ty.clone()),
                        out,
                    );
                }
            }
            Type::Struct(s) if s.kind == crate::types::StructKind::Union => {
                for field in &s.fields {
                    self.invalidate(
                        &Expr::field(place.clone(), &field.name, field.ty.clone()),
                        out,
                    );
                }
            }
            Type::Struct(_) => self.push(out, FlatKind::SetValid(place.clone(), false), place.span),
            Type::Stack(element, size) => {
                for i in 0..*size {
                    let index = Expr::int(i, Type::bit(32), place.span);
                    let item = Expr {
                        kind: ExprKind::Index(Box::new(place.clone()), Box::new(index)),
                        ty: (**element).clone(),
                        span: place.span,
                    };
                    self.invalidate(&item, out);
                }
            }
            _ => {}
        }
    }

    /// Runs `body` so that `return` ends it. Returns the value's variable, if there is one.
    fn inlined(
        &mut self,
        body: &[crate::ir::Stmt],
        mut env: Env,
        result: Option<Expr>,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let label = self.new_label();
        env.returns = Some((label, result));
        let mut inner = Vec::new();
        self.statements(body, &mut env, &mut inner);
        self.push_labeled(label, inner, out, span);
    }

    pub(super) fn new_label(&mut self) -> usize {
        self.next_label += 1;
        self.next_label
    }

    /// Drops the label if nothing jumps to it, or only from the end of the block.
    pub(super) fn push_labeled(
        &mut self,
        label: usize,
        mut body: Vec<FlatStmt>,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        if matches!(body.last().map(|s| &s.kind), Some(FlatKind::Break(l)) if *l == label) {
            body.pop();
        }
        if breaks_to(&body, label) {
            self.push(out, FlatKind::Labeled(label, body), span);
        } else {
            out.append(&mut body);
        }
    }

    pub(super) fn inline_function(
        &mut self,
        id: FunctionId,
        call: &Call,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) -> Expr {
        if env.depth >= MAX_DEPTH {
            self.error("too-deep", span, "functions call each other too deeply");
            return Expr::poison(span);
        }
        if !self.diagnostics.spend(INSTANCE_PARTS, span) {
            return Expr::poison(span);
        }
        let function = &self.program.functions[id];
        let signature = &function.signature;
        let types: Vec<_> = signature
            .type_params
            .iter()
            .cloned()
            .zip(call.type_args.iter().map(|t| t.substitute(&env.types)))
            .collect();
        if !types
            .iter()
            .all(|(_, ty)| self.diagnostics.afford_type(ty, span))
        {
            return Expr::poison(span);
        }
        let bound = self.bind(
            &signature.params,
            &call.args,
            &types,
            Reach::Parameters,
            env,
            out,
        );
        let return_type = signature.return_type.substitute(&types);
        let result = if matches!(return_type, Type::Void) {
            None
        } else {
            Some(self.add_var("retval", return_type, Role::Local, span))
        };
        let inner = Env {
            vars: bound.vars.clone(),
            types,
            in_action: env.in_action,
            depth: env.depth + 1,
            ..Env::default()
        };
        self.inlined(&function.body, inner, result.clone(), out, span);
        self.copy_back(bound, out);
        result.unwrap_or_else(|| Expr::poison(span))
    }

    /// A call of an action from a control or another action.
    fn inline_action(
        &mut self,
        id: ActionId,
        call: &Call,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        if env.depth >= MAX_DEPTH {
            self.error("too-deep", span, "actions call each other too deeply");
            return;
        }
        if !self.diagnostics.spend(INSTANCE_PARTS, span) {
            return;
        }
        let action = &self.program.actions[id];
        if let Some(unit) = env.unit.as_ref().filter(|_| !env.in_action) {
            self.flat
                .called_actions
                .push((unit.id, self.declares(unit, id), id));
        }
        let mut block = Vec::new();
        let bound = self.bind(
            &action.params,
            &call.args,
            &[],
            Reach::Surroundings,
            env,
            &mut block,
        );
        let mut inner = env.clone();
        inner.vars.extend(bound.vars.clone());
        inner.on_exit.push(bound.copy_back.clone());
        inner.in_action = true;
        inner.loops = None;
        inner.depth += 1;
        self.inlined(&action.body, inner, None, &mut block, span);
        self.copy_back(bound, &mut block);
        if env.in_action {
            out.append(&mut block);
        } else {
            let name = full_name(
                env.unit.as_ref().map(|u| u.path.as_str()),
                &action.name,
                &action.annotations,
            );
            self.push(out, FlatKind::Atomic { name, body: block }, span);
        }
    }

    /// An action of a table, as the control plane knows it.
    pub(super) fn table_action(&mut self, reference: &ActionRef, env: &Env) -> usize {
        let action = &self.program.actions[reference.action];
        let unit = env
            .unit
            .as_ref()
            .filter(|u| self.declares(u, reference.action))
            .cloned();
        let key = (unit.as_ref().map(|u| u.id), reference.action);
        // Actions whose arguments the table binds are its own.
        let shared = reference.args.is_empty();
        if shared && let Some(found) = self.actions.get(&key) {
            return *found;
        }
        let path = unit.as_ref().map(|u| u.path.as_str());
        let name = full_name(path, &action.name, &action.annotations);
        let mut inner = env.clone();
        inner.in_action = true;
        inner.depth += 1;
        let mut body = Vec::new();
        let directional: Vec<Param> = action
            .params
            .iter()
            .filter(|p| p.direction != Direction::None)
            .cloned()
            .collect();
        let bound = self.bind(
            &directional,
            &reference.args,
            &[],
            Reach::Surroundings,
            env,
            &mut body,
        );
        inner.vars.extend(bound.vars.clone());
        inner.on_exit.push(bound.copy_back.clone());
        let mut params = Vec::new();
        for param in action
            .params
            .iter()
            .filter(|p| p.direction == Direction::None)
        {
            let role = Role::ActionData(params.len());
            let var = self.add_var(&param.name, param.ty.clone(), role, param.span);
            inner.vars.insert(param.var, var);
            params.push(ActionParam {
                name: param.name.clone(),
                ty: param.ty.clone(),
                annotations: param.annotations.clone(),
            });
        }
        self.inlined(&action.body, inner, None, &mut body, action.span);
        self.copy_back(bound, &mut body);
        self.flat.actions.push(FlatAction {
            name,
            action: reference.action,
            unit: unit.as_ref().map(|u| u.id),
            annotations: action.annotations.clone(),
            params,
            body,
            span: action.span,
        });
        let index = self.flat.actions.len() - 1;
        if shared {
            self.actions.insert(key, index);
        }
        index
    }

    fn declares(&self, unit: &super::Unit, action: ActionId) -> bool {
        match unit.what {
            crate::ir::Constructed::Control(id) => {
                self.program.controls[id].actions.contains(&action)
            }
            _ => false,
        }
    }

    /// A call as a statement.
    pub(super) fn call_statement(
        &mut self,
        call: &Call,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        match &call.callee {
            Callee::Function(id) => {
                self.inline_function(*id, call, env, out, span);
            }
            Callee::Action(id) => self.inline_action(*id, call, env, out, span),
            Callee::ExternFunction(id) => {
                let signature = &self.program.extern_functions[*id];
                self.extern_call(
                    None,
                    &signature.name,
                    &signature.params,
                    call,
                    env,
                    out,
                    span,
                );
            }
            Callee::Method {
                object,
                extern_type,
                method,
            } => {
                let object = self.expr(object, env, out);
                let ExprKind::Instance(object) = object.kind else {
                    return;
                };
                let signature = &self.program.externs[*extern_type].methods[*method];
                // Looking ahead beyond the end is an error even if nobody wants the bits.
                if signature.name == "lookahead" {
                    let types: Vec<_> = signature
                        .type_params
                        .iter()
                        .cloned()
                        .zip(call.type_args.iter().map(|t| t.substitute(&env.types)))
                        .collect();
                    let value = Expr {
                        kind: ExprKind::Call(Box::new(call.clone())),
                        ty: signature.return_type.substitute(&types),
                        span,
                    };
                    self.expr(&value, env, out);
                    return;
                }
                self.extern_call(
                    Some(object),
                    &signature.name,
                    &signature.params,
                    call,
                    env,
                    out,
                    span,
                );
            }
            Callee::Apply(object) => {
                let object = self.expr(object, env, out);
                self.apply_unit(&object, &call.args, env, out, span);
            }
            Callee::ApplyTable(table) => {
                self.apply_table(*table, super::flat::Branches::None, env, out, span);
            }
            Callee::IsValid(_) => {}
            Callee::SetValid(header) | Callee::SetInvalid(header) => {
                let valid = matches!(call.callee, Callee::SetValid(_));
                let header = self.place(header, env, out);
                let statements =
                    self.for_each_element(&header, &|fixed| FlatKind::SetValid(fixed, valid));
                out.extend(statements);
            }
            Callee::PushFront(stack) | Callee::PopFront(stack) => {
                let count = call
                    .args
                    .first()
                    .and_then(Expr::as_int)
                    .and_then(|v| u32::try_from(v).ok());
                let count = count.unwrap_or(0);
                let place = self.place(stack, env, out);
                let kind = if matches!(call.callee, Callee::PushFront(_)) {
                    FlatKind::PushFront(place, count)
                } else {
                    FlatKind::PopFront(place, count)
                };
                self.push(out, kind, span);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn extern_call(
        &mut self,
        object: Option<usize>,
        name: &str,
        params: &[Param],
        call: &Call,
        env: &Env,
        out: &mut Vec<FlatStmt>,
        span: Span,
    ) {
        let refs: Vec<&Expr> = call.args.iter().collect();
        let mut args = self.arguments(&refs, params, env, out);
        // BMv2 writes results to fields: slices and elements chosen at run time go through a variable.
        let mut back = Vec::new();
        for (param, arg) in params.iter().zip(&mut args) {
            let is_out = matches!(param.direction, Direction::Out | Direction::InOut);
            let needs_copy = is_out && arg.ty.is_scalar() && !is_stable_place(arg);
            if needs_copy {
                let copy = self.temp(&arg.ty.clone(), span);
                if param.direction == Direction::InOut {
                    let initial = self.read(arg.clone(), out);
                    self.push(out, FlatKind::Assign(copy.clone(), initial), span);
                }
                let target = std::mem::replace(arg, copy.clone());
                if !matches!(target.kind, ExprKind::DontCare) {
                    back.push((target, copy));
                }
            }
        }
        let kind = FlatKind::Extern {
            object,
            name: name.to_owned(),
            type_args: call
                .type_args
                .iter()
                .map(|t| t.substitute(&env.types))
                .collect(),
            args,
        };
        self.push(out, kind, span);
        for (target, copy) in back {
            self.write(&target, copy, out);
        }
    }
}

/// The same storage whenever it is looked at: no run-time index, no `next` or `last`, no slice.
pub(super) fn is_stable_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Var(_) | ExprKind::Instance(_) => true,
        ExprKind::Field(base, _) => is_stable_place(base),
        ExprKind::Index(base, index) => index.as_int().is_some() && is_stable_place(base),
        _ => false,
    }
}

/// Cannot change at all.
fn is_fixed(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Instance(_) => true,
        ExprKind::List(items) => items.iter().all(is_fixed),
        _ => false,
    }
}

/// The two places may share storage.
fn overlap(a: &Expr, b: &Expr) -> bool {
    let (Some(a), Some(b)) = (path(a), path(b)) else {
        return mentions_same_root(a, b);
    };
    a.0 == b.0 && a.1.iter().zip(&b.1).all(|(x, y)| x == y)
}

/// Root and steps of a stable place.
fn path(expr: &Expr) -> Option<(usize, Vec<String>)> {
    match &expr.kind {
        ExprKind::Var(id) => Some((*id, Vec::new())),
        ExprKind::Field(base, name) => {
            let mut found = path(base)?;
            found.1.push(name.clone());
            Some(found)
        }
        ExprKind::Index(base, index) => {
            let mut found = path(base)?;
            found.1.push(index.as_int()?.to_string());
            Some(found)
        }
        _ => None,
    }
}

fn mentions_same_root(a: &Expr, b: &Expr) -> bool {
    let of_b = b.variables();
    a.variables().iter().any(|v| of_b.contains(v))
}

fn breaks_to(body: &[FlatStmt], label: usize) -> bool {
    body.iter().any(|s| match &s.kind {
        FlatKind::Break(l) => *l == label,
        FlatKind::If(_, a, b) => breaks_to(a, label) || breaks_to(b, label),
        FlatKind::Atomic { body, .. } | FlatKind::Labeled(_, body) | FlatKind::Loop(body) => {
            breaks_to(body, label)
        }
        FlatKind::ApplyTable(_, branches) => match branches {
            super::flat::Branches::None => false,
            super::flat::Branches::HitMiss(a, b) => breaks_to(a, label) || breaks_to(b, label),
            super::flat::Branches::Actions(arms, rest) => {
                arms.iter().any(|(_, b)| breaks_to(b, label)) || breaks_to(rest, label)
            }
        },
        _ => false,
    })
}
