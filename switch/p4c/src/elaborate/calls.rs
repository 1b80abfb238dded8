//! Calls: binding of parameters, inlining of functions and actions.

use std::collections::HashMap;

use super::flat::{ActionParam, Branches, FlatAction, FlatKind, FlatStmt, Label, Role};
use super::{Elaborator, Env, Unit, full_name};
use crate::ir::{
    ActionId, ActionRef, Call, Callee, Constructed, Direction, Expr, ExprKind, FunctionId, Param,
    Signature, Stmt, VarId,
};
use crate::source::Span;
use crate::types::{self, Bindings, Type};

/// Parameters bound to arguments, and what has to be copied back after the call: places and the copies of them.
#[derive(Default)]
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
    /// Binds parameters to arguments: directly where the callee cannot notice, and to copies otherwise.
    pub(super) fn bind(
        &mut self,
        params: &[Param],
        args: &[Expr],
        types: &[(types::TypeVar, Type)],
        reach: Reach,
        env: &Env,
    ) -> Bound {
        let mut bound = Bound::default();
        let refs: Vec<&Expr> = args.iter().collect();
        let values = self.arguments(&refs, params, env);
        for (i, (param, value)) in params.iter().zip(&values).enumerate() {
            let ty = param.ty.substitute(types);
            let span = value.span;
            let is_out = param.direction.writes();
            // Whether another parameter gives access to the same storage, and one of the two is written to.
            let is_shared = || {
                let pairs = params.iter().zip(&values).enumerate();
                let mut others = pairs.filter(|(j, _)| *j != i);
                others.any(|(_, (p, other))| {
                    (is_out || p.direction.writes()) && overlap(value, other)
                })
            };
            let is_unnoticed =
                || reach == Reach::Parameters && is_stable_place(value) && !is_shared();
            if !is_out && is_fixed(value) || is_unnoticed() {
                bound.vars.insert(param.var, value.clone());
                if param.direction == Direction::Out {
                    self.invalidate(value);
                }
                continue;
            }
            let copy = self.add_var(&param.name, ty, Role::Local, span);
            if param.direction == Direction::Out {
                self.invalidate(&copy);
            } else {
                let initial = self.read(value.clone());
                self.push(FlatKind::Assign(copy.clone(), initial), span);
            }
            if is_out && !matches!(value.kind, ExprKind::DontCare) {
                bound.copy_back.push((value.clone(), copy.clone()));
            }
            bound.vars.insert(param.var, copy);
        }
        bound
    }

    pub(super) fn copy_back(&mut self, bound: Bound) {
        for (target, copy) in bound.copy_back {
            self.write(&target, copy);
        }
    }

    /// Headers of `out` parameters and new variables begin invalid (specification, section 6.7).
    pub(super) fn invalidate(&mut self, place: &Expr) {
        match &place.ty {
            ty if ty.is_header() => self.push(FlatKind::SetValid(place.clone(), false), place.span),
            Type::Struct(_) | Type::Stack(..) => {
                place.members().iter().for_each(|m| self.invalidate(m));
            }
            _ => {}
        }
    }

    /// Runs `body` so that `return` ends it, and puts its value into `result`, if there is one.
    fn inlined(&mut self, body: &[Stmt], mut env: Env, result: Option<Expr>, span: Span) {
        let label = self.new_label();
        env.returns = Some((label, result));
        let inner = self.block(|e| e.statements(body, &mut env));
        self.push_labeled(label, inner, span);
    }

    pub(super) fn new_label(&mut self) -> Label {
        self.next_label += 1;
        self.next_label
    }

    /// Drops the label if nothing jumps to it, or only from the end of the block.
    pub(super) fn push_labeled(&mut self, label: Label, mut body: Vec<FlatStmt>, span: Span) {
        if matches!(body.last().map(|s| &s.kind), Some(FlatKind::Break(l)) if *l == label) {
            body.pop();
        }
        if breaks_to(&body, label) {
            self.push(FlatKind::Labeled(label, body), span);
        } else {
            self.out.append(&mut body);
        }
    }

    /// What the type parameters of a signature stand for in a call.
    fn type_bindings(&self, signature: &Signature, call: &Call, env: &Env) -> Bindings {
        let args = call.type_args.iter().map(|t| t.substitute(&env.types));
        types::bind(&signature.type_params, args)
    }

    pub(super) fn inline_function(
        &mut self,
        id: FunctionId,
        call: &Call,
        env: &Env,
        span: Span,
    ) -> Expr {
        if !self.may_nest(env, "functions call each other too deeply", span) {
            return Expr::poison(span);
        }
        let function = &self.program.functions[id];
        let signature = &function.signature;
        let types = self.type_bindings(signature, call, env);
        let mut all = types.iter();
        if !all.all(|(_, ty)| self.diagnostics.afford_type(ty, span)) {
            return Expr::poison(span);
        }
        let params = &signature.params;
        let bound = self.bind(params, &call.args, &types, Reach::Parameters, env);
        let return_type = signature.return_type.substitute(&types);
        let result = match return_type {
            Type::Void => None,
            ty => Some(self.add_var("retval", ty, Role::Local, span)),
        };
        let inner = Env {
            vars: bound.vars.clone(),
            types,
            in_action: env.in_action,
            depth: env.depth + 1,
            ..Env::default()
        };
        self.inlined(&function.body, inner, result.clone(), span);
        self.copy_back(bound);
        result.unwrap_or_else(|| Expr::poison(span))
    }

    /// A call of an action from a control or another action.
    fn inline_action(&mut self, id: ActionId, call: &Call, env: &Env, span: Span) {
        if !self.may_nest(env, "actions call each other too deeply", span) {
            return;
        }
        let action = &self.program.actions[id];
        if let Some(unit) = env.unit.as_ref().filter(|_| !env.in_action) {
            let call = (unit.id, self.declares(unit, id), id);
            self.flat.called_actions.push(call);
        }
        let mut body = self.block(|e| {
            let bound = e.bind(&action.params, &call.args, &[], Reach::Surroundings, env);
            let mut inner = env.in_action_with(&bound);
            inner.loops = None;
            e.inlined(&action.body, inner, None, span);
            e.copy_back(bound);
        });
        if env.in_action {
            self.out.append(&mut body);
        } else {
            let path = env.unit.as_ref().map(|u| u.path.as_str());
            let name = full_name(path, &action.name, &action.annotations);
            self.push(FlatKind::Atomic { name, body }, span);
        }
    }

    /// An action of a table, as the control plane knows it.
    pub(super) fn table_action(&mut self, reference: &ActionRef, env: &Env) -> usize {
        let action = &self.program.actions[reference.action];
        let around = env.unit.as_ref();
        let unit = around.filter(|u| self.declares(u, reference.action));
        let unit_id = unit.map(|u| u.id);
        let key = (unit_id, reference.action);
        // Actions whose arguments the table binds are its own.
        let shared = reference.args.is_empty();
        if shared && let Some(found) = self.actions.get(&key) {
            return *found;
        }
        let path = unit.map(|u| u.path.as_str());
        let name = full_name(path, &action.name, &action.annotations);
        let all = action.params.iter().cloned();
        let (data, directional): (Vec<_>, Vec<_>) =
            all.partition(|p| p.direction == Direction::None);
        let mut params = Vec::new();
        let body = self.block(|e| {
            let bound = e.bind(&directional, &reference.args, &[], Reach::Surroundings, env);
            let mut inner = env.in_action_with(&bound);
            for param in data {
                let role = Role::ActionData(params.len());
                let var = e.add_var(&param.name, param.ty.clone(), role, param.span);
                inner.vars.insert(param.var, var);
                params.push(ActionParam {
                    name: param.name,
                    ty: param.ty,
                    annotations: param.annotations,
                });
            }
            e.inlined(&action.body, inner, None, action.span);
            e.copy_back(bound);
        });
        self.flat.actions.push(FlatAction {
            name,
            action: reference.action,
            unit: unit_id,
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

    /// Whether the action is declared in the control, and not at the top level.
    fn declares(&self, unit: &Unit, action: ActionId) -> bool {
        match unit.what {
            Constructed::Control(id) => self.program.controls[id].actions.contains(&action),
            _ => false,
        }
    }

    /// Elaborates a call that is a statement.
    pub(super) fn call_statement(&mut self, call: &Call, env: &Env, span: Span) {
        match &call.callee {
            Callee::Function(id) => {
                self.inline_function(*id, call, env, span);
            }
            Callee::Action(id) => self.inline_action(*id, call, env, span),
            Callee::ExternFunction(id) => {
                let signature = &self.program.extern_functions[*id];
                self.extern_call(None, signature, call, env, span);
            }
            Callee::Method {
                object,
                extern_type,
                method,
            } => {
                let object = self.expr(object, env);
                let ExprKind::Instance(object) = object.kind else {
                    return;
                };
                let signature = &self.program.externs[*extern_type].methods[*method];
                // Looking ahead beyond the end is an error even if nobody wants the bits.
                if signature.name == "lookahead" {
                    let types = self.type_bindings(signature, call, env);
                    let ty = signature.return_type.substitute(&types);
                    let value = Expr::new(ExprKind::Call(Box::new(call.clone())), ty, span);
                    self.expr(&value, env);
                    return;
                }
                self.extern_call(Some(object), signature, call, env, span);
            }
            Callee::Apply(object) => {
                let object = self.expr(object, env);
                self.apply_unit(&object, &call.args, env, span);
            }
            Callee::ApplyTable(table) => {
                self.apply_table(*table, Branches::None, env, span);
            }
            Callee::IsValid(_) => {}
            Callee::SetValid(header) | Callee::SetInvalid(header) => {
                let valid = matches!(call.callee, Callee::SetValid(_));
                let header = self.place(header, env);
                self.for_each_element(&header, &|fixed| FlatKind::SetValid(fixed, valid));
            }
            Callee::PushFront(stack) | Callee::PopFront(stack) => {
                let count = call.args.first().map(|count| self.pure_expr(count, env));
                let count = count.and_then(|c| c.as_number()).unwrap_or(0);
                let place = self.place(stack, env);
                let kind = match call.callee {
                    Callee::PushFront(_) => FlatKind::PushFront(place, count),
                    _ => FlatKind::PopFront(place, count),
                };
                self.push(kind, span);
            }
        }
    }

    fn extern_call(
        &mut self,
        object: Option<usize>,
        signature: &Signature,
        call: &Call,
        env: &Env,
        span: Span,
    ) {
        let refs: Vec<&Expr> = call.args.iter().collect();
        let mut args = self.arguments(&refs, &signature.params, env);
        // BMv2 writes results to fields: slices and elements chosen at run time go through a variable.
        let mut back = Vec::new();
        for (param, arg) in signature.params.iter().zip(&mut args) {
            let needs_copy =
                param.direction.writes() && arg.ty.is_scalar() && !is_stable_place(arg);
            if needs_copy {
                let copy = self.temp(&arg.ty.clone(), span);
                if param.direction == Direction::InOut {
                    let initial = self.read(arg.clone());
                    self.push(FlatKind::Assign(copy.clone(), initial), span);
                }
                let target = std::mem::replace(arg, copy.clone());
                if !matches!(target.kind, ExprKind::DontCare) {
                    back.push((target, copy));
                }
            }
        }
        let type_args = call.type_args.iter().map(|t| t.substitute(&env.types));
        let kind = FlatKind::Extern {
            object,
            name: signature.name.clone(),
            type_args: type_args.collect(),
            args,
        };
        self.push(kind, span);
        for (target, copy) in back {
            self.write(&target, copy);
        }
    }
}

/// Whether an expression is the same storage whenever it is looked at: it has no run-time index, no `next` or `last`,
/// no slice.
pub(super) fn is_stable_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Var(_) | ExprKind::Instance(_) => true,
        ExprKind::Field(base, _) => is_stable_place(base),
        ExprKind::Index(base, index) => index.as_int().is_some() && is_stable_place(base),
        _ => false,
    }
}

/// Whether the value of an expression cannot change at all.
pub(super) fn is_fixed(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Instance(_) => true,
        ExprKind::List(items) => items.iter().all(is_fixed),
        _ => false,
    }
}

/// Whether two places may share storage.
fn overlap(a: &Expr, b: &Expr) -> bool {
    let (Some(a), Some(b)) = (path(a), path(b)) else {
        return mentions_same_root(a, b);
    };
    a.0 == b.0 && a.1.iter().zip(&b.1).all(|(x, y)| x == y)
}

/// The variable of a stable place, and the names and indices that lead from there.
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

fn breaks_to(body: &[FlatStmt], label: Label) -> bool {
    body.iter().any(|s| match &s.kind {
        FlatKind::Break(l) => *l == label,
        kind => kind.bodies().any(|inner| breaks_to(inner, label)),
    })
}
