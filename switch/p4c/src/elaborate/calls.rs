//! Calls: binding of parameters, inlining of functions and actions.

use std::collections::HashMap;

use super::changes::overlap;
use super::flat::{ActionParam, Branches, FlatAction, FlatKind, FlatStmt, Label, Role};
use super::loops::applied_table;
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

/// Arguments as the program has them: [`Call::args`] and [`Call::order`].
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    pub values: &'a [Expr],
    pub order: &'a [usize],
}

impl<'a> Arguments<'a> {
    pub fn of(call: &'a Call) -> Self {
        Self {
            values: &call.args,
            order: &call.order,
        }
    }
}

/// An argument that is evaluated.
struct Argument<'p> {
    /// The number of the parameter.
    index: usize,
    param: &'p Param,
    /// Its value, or its place if the callee writes to it.
    value: Expr,
    /// The statements that this takes.
    before: Vec<FlatStmt>,
    /// Whether the evaluation of another argument behind it may change what is at the place.
    is_changed: bool,
}

/// How far the callee sees beyond its parameters.
#[derive(Clone, Copy)]
pub(super) enum Reach<'u> {
    /// Only its parameters: functions, controls, parsers.
    Parameters,
    /// The same, which must be in the same storage at every call: a control that is shared.
    SharedParameters(&'u Unit),
    /// The variables of the control around it too: actions.
    Surroundings,
}

impl Elaborator<'_> {
    /// Binds parameters to arguments: directly where nothing can notice, and to copies otherwise.
    pub(super) fn bind(
        &mut self,
        params: &[Param],
        args: Arguments,
        types: &[(types::TypeVar, Type)],
        reach: Reach<'_>,
        env: &Env,
    ) -> Bound {
        let evaluated = self.arguments(params, args, env);
        let is_direct: Vec<bool> = (0..evaluated.len())
            .map(|i| is_direct(&evaluated, i, reach))
            .collect();
        let shared = match reach {
            Reach::SharedParameters(unit) => Some(unit),
            _ => None,
        };
        let mut bound = Bound::default();
        let mut begin_invalid = Vec::new();
        for (argument, is_direct) in evaluated.into_iter().zip(is_direct) {
            let Argument { param, value, .. } = argument;
            self.out.extend(argument.before);
            let storage = match is_direct {
                true => value,
                false => {
                    let ty = param.ty.substitute(types);
                    let copy = self.storage(shared, param.var, ty, value.span);
                    if param.direction != Direction::Out {
                        let initial = self.read(value.clone());
                        self.push(FlatKind::Assign(copy.clone(), initial), value.span);
                    }
                    if param.direction.writes() && !matches!(value.kind, ExprKind::DontCare) {
                        bound.copy_back.push((value, copy.clone()));
                    }
                    copy
                }
            };
            if param.direction == Direction::Out {
                begin_invalid.push(storage.clone());
            }
            bound.vars.insert(param.var, storage);
        }
        begin_invalid
            .iter()
            .for_each(|place| self.invalidate(place));
        bound
    }

    /// Evaluates arguments in the order in which they are written; those of `out` and `inout` parameters are places.
    fn arguments<'p>(
        &mut self,
        params: &'p [Param],
        args: Arguments,
        env: &Env,
    ) -> Vec<Argument<'p>> {
        let order = match args.order {
            [] => (0..params.len().min(args.values.len())).collect(),
            order => order.to_vec(),
        };
        let evaluate = |&i: &usize| {
            let arg = &args.values[i];
            self.apart(|e| match params[i].direction.writes() {
                true => e.place(arg, env),
                false => e.expr(arg, env),
            })
        };
        let evaluated: Vec<(Expr, Vec<FlatStmt>)> = order.iter().map(evaluate).collect();
        let changed = self.changed_later(&evaluated);
        let all = order.into_iter().zip(evaluated).zip(changed);
        all.map(|((index, (value, before)), is_changed)| Argument {
            index,
            param: &params[index],
            value,
            before,
            is_changed,
        })
        .collect()
    }

    pub(super) fn copy_back(&mut self, bound: Bound) {
        for (target, copy) in bound.copy_back {
            self.write(&target, copy);
        }
    }

    /// Headers of `out` parameters and new variables begin invalid (specification, section 6.7).
    pub(super) fn invalidate(&mut self, place: &Expr) {
        match &place.ty {
            ty if ty.is_union() => {
                let none = Expr::new(ExprKind::InvalidHeader, ty.clone(), place.span);
                self.push(FlatKind::Assign(place.clone(), none), place.span);
            }
            ty if ty.is_header() => self.push(FlatKind::SetValid(place.clone(), false), place.span),
            Type::Struct(_) | Type::Stack(..) => {
                place.members().iter().for_each(|m| self.invalidate(m));
            }
            _ => {}
        }
    }

    /// Runs `body` so that `return` ends it, and puts its value into `result`, if there is one.
    pub(super) fn inlined(
        &mut self,
        body: &[Stmt],
        mut env: Env,
        result: Option<Expr>,
        span: Span,
    ) {
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

    /// Bindings of the type parameters of a signature in a call.
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
        if !all.all(|(_, ty)| self.diagnostics.check_type_size(ty, span)) {
            return Expr::poison(span);
        }
        let params = &signature.params;
        let bound = self.bind(params, Arguments::of(call), &types, Reach::Parameters, env);
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
        let args = Arguments::of(call);
        let bind = |e: &mut Self| e.bind(&action.params, args, &[], Reach::Surroundings, env);
        if env.in_action {
            let bound = bind(self);
            return self.action_statements(&action.body, bound, env, span);
        }
        let (bound, mut body) = self.apart(bind);
        // Tables are applied outside of actions.
        if applied_table(&body).is_some() {
            self.out.append(&mut body);
        }
        body.append(&mut self.block(|e| e.action_statements(&action.body, bound, env, span)));
        let path = env.unit.as_ref().map(|u| u.path.as_str());
        let name = full_name(path, &action.name, &action.annotations);
        self.push(FlatKind::Atomic { name, body }, span);
    }

    /// Runs the body of an action and copies back what it has written.
    fn action_statements(&mut self, body: &[Stmt], bound: Bound, env: &Env, span: Span) {
        let mut inner = env.in_action_with(&bound);
        inner.loops = None;
        self.inlined(body, inner, None, span);
        self.copy_back(bound);
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
            let args = Arguments {
                values: &reference.args,
                order: &reference.order,
            };
            let bound = e.bind(&directional, args, &[], Reach::Surroundings, env);
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
                self.extern_call(None, signature, call, env, None, span);
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
                self.extern_call(Some(object), signature, call, env, None, span);
            }
            Callee::Apply(object) => {
                let object = self.expr(object, env);
                self.apply_unit(&object, Arguments::of(call), env, span);
            }
            Callee::ApplyTable(table) => {
                self.apply_table(*table, Branches::None, env, span);
            }
            Callee::IsValid(header) => {
                self.expr(header, env);
            }
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

    /// A call whose value goes to `result`, if it has one that is wanted.
    pub(super) fn extern_call(
        &mut self,
        object: Option<usize>,
        signature: &Signature,
        call: &Call,
        env: &Env,
        result: Option<Expr>,
        span: Span,
    ) {
        if let Some(action) = object.and_then(|object| self.stateful_call(object, signature)) {
            return self.execute_register_action(&action, call, env, result, span);
        }
        // BMv2 writes results to fields: slices and elements chosen at run time go through a variable.
        let mut back = Vec::new();
        let mut args = vec![Expr::poison(span); call.args.len()];
        for argument in self.arguments(&signature.params, Arguments::of(call), env) {
            let Argument { param, value, .. } = argument;
            self.out.extend(argument.before);
            let is_result = param.direction.writes() && value.ty.is_scalar();
            let needs_copy = match param.direction {
                Direction::Out => is_result && !is_stable_place(&value),
                Direction::InOut => argument.is_changed || is_result && !is_stable_place(&value),
                _ => false,
            };
            let passed = match needs_copy {
                true => {
                    let copy = self.temp(&value.ty.clone(), span);
                    if param.direction == Direction::InOut {
                        let initial = self.read(value.clone());
                        self.push(FlatKind::Assign(copy.clone(), initial), span);
                    }
                    if !matches!(value.kind, ExprKind::DontCare) {
                        back.push((value, copy.clone()));
                    }
                    copy
                }
                false if argument.is_changed && !param.direction.writes() => self.settled(value),
                false => value,
            };
            args[argument.index] = passed;
        }
        let type_args = call.type_args.iter().map(|t| t.substitute(&env.types));
        let kind = FlatKind::Extern {
            object,
            name: signature.name.clone(),
            type_args: type_args.collect(),
            args,
            result,
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

/// Whether the parameter of an argument may stand for the argument itself: nothing but the callee by this parameter
/// reads or writes the place between the copy into the parameter and the copy back.
fn is_direct(all: &[Argument], index: usize, reach: Reach<'_>) -> bool {
    let Argument {
        param,
        value,
        is_changed,
        ..
    } = &all[index];
    let is_out = param.direction.writes();
    match reach {
        Reach::SharedParameters(unit) if unit.varying[all[index].index] => {
            return matches!(value.kind, ExprKind::Instance(_));
        }
        _ if !is_out && is_fixed(value) => return true,
        Reach::Surroundings => return false,
        Reach::Parameters | Reach::SharedParameters(_) if !is_stable_place(value) => return false,
        Reach::Parameters | Reach::SharedParameters(_) => {}
    }
    // The value that an `out` parameter begins with is nobody's concern.
    if *is_changed && param.direction != Direction::Out {
        return false;
    }
    // The copy back of an invalid header makes the other members of its union invalid too.
    if is_out && value.union_around().is_some() {
        return false;
    }
    let mut others = all.iter().enumerate().filter(|(i, _)| *i != index);
    !others.any(|(_, other)| {
        (is_out || other.param.direction.writes()) && overlap(value, &other.value)
    })
}

fn breaks_to(body: &[FlatStmt], label: Label) -> bool {
    body.iter().any(|s| match &s.kind {
        FlatKind::Break(l) => *l == label,
        kind => kind.bodies().any(|inner| breaks_to(inner, label)),
    })
}
