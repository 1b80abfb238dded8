//! Instantiates the program from `main` and inlines it: controls, parsers, functions and action calls.
//!
//! ```text
//! control sub(inout bit<8> x) { apply { x = x + 1; } }        control ig(inout H hdr, ...) {
//! control ig(inout H hdr, ...) { sub() s;               ==>     apply { hdr.h.f = hdr.h.f + 1; }
//!                                apply { s.apply(hdr.h.f); } } }
//! ```
//!
//! Parameters are replaced by their arguments where that cannot be noticed, and copied otherwise.
//! `return` becomes a jump behind a labeled block, which every backend graph has for free.

mod calls;
mod changes;
mod controls;
mod expressions;
pub mod flat;
mod loops;
mod parsers;
mod psa;
mod register_actions;
mod run_time_indices;
mod statements;
mod tofino;

use std::collections::HashMap;
use std::rc::Rc;

use calls::Bound;
use controls::MadeTable;
use flat::{Flat, FlatControl, FlatKind, FlatStmt, FlatUnit, FlatVar, Label, Object, Role};

use crate::annotations;
use crate::architecture::Architecture;
use crate::budget::{expr_parts, type_parts};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{
    Annotation, Call, Callee, Constructed, Expr, ExprKind, InstanceId, Param, Program, Stmt,
    StmtKind, VarId, same,
};
use crate::names::Names;
use crate::source::Span;
use crate::types::{Type, TypeVar};

/// The most levels of instances and calls inside of each other; no program that is meant has more.
const MAX_DEPTH: usize = 64;
/// Cost of an instance, an inlined call or a parser state besides its statements, in parts of the budget.
const INSTANCE_PARTS: usize = 8;

/// Meaning of the names inside one body.
#[derive(Clone, Debug, Default)]
struct Env {
    vars: HashMap<VarId, Expr>,
    types: Vec<(TypeVar, Type)>,
    /// The instance of the control or parser around it; none at the top level and in functions.
    unit: Option<Rc<Unit>>,
    /// Instances declared so far in a control or parser that is being instantiated.
    siblings: HashMap<InstanceId, Instantiated>,
    /// The label behind which `return` goes on, and the variable for the value, if one is returned.
    returns: Option<(Label, Option<Expr>)>,
    /// Where `break` and `continue` go.
    loops: Option<Loop>,
    /// Copies back to `out` arguments of the calls around, outermost first: `exit` makes them too (specification,
    /// section 12.8).
    on_exit: Vec<Vec<(Expr, Expr)>>,
    /// Whether the instance that is made here may be applied at several places, and which of its parameters have other
    /// arguments at each.
    is_repeated: bool,
    varying: Vec<bool>,
    /// Whether this is inside of an action, where calls of other actions need no block of their own.
    in_action: bool,
    depth: usize,
}

impl Env {
    /// The environment of an action's body that is called from here, or run by a table.
    fn in_action_with(&self, bound: &Bound) -> Env {
        let mut inner = self.clone();
        inner.vars.extend(bound.vars.clone());
        inner.on_exit.push(bound.copy_back.clone());
        inner.in_action = true;
        inner.depth += 1;
        inner
    }
}

#[derive(Clone, Copy, Debug)]
struct Loop {
    on_break: Label,
    on_continue: Label,
}

/// One instance of a control or parser.
#[derive(Debug)]
struct Unit {
    /// Number of the instance in the program.
    id: usize,
    /// The control-plane name of the instance, which is the prefix of the names inside.
    path: String,
    what: Constructed,
    /// Whether it may be applied at several places and has tables, or instances that may have some. The tables are the
    /// same at all places, so the variables that they see must be, too.
    is_shared: bool,
    /// Which parameters have other arguments at each of these places.
    varying: Vec<bool>,
    /// The values of the constructor parameters.
    bindings: HashMap<VarId, Expr>,
    instances: HashMap<InstanceId, Instantiated>,
}

#[derive(Clone, Debug)]
enum Instantiated {
    /// Index in [`Flat::objects`].
    Object(usize),
    Unit(Rc<Unit>),
}

struct Elaborator<'a> {
    program: &'a Program,
    diagnostics: &'a Diagnostics,
    flat: Flat,
    /// Names that variables have.
    names: Names,
    /// Names that states of the parser have.
    state_names: Names,
    /// Statements so far of the body in work; [`Elaborator::block`] begins another one.
    out: Vec<FlatStmt>,
    next_label: Label,
    next_unit: usize,
    /// Instances of parsers and controls by the number that `ExprKind::Instance` has for them, from [`UNIT_BASE`] on.
    units: HashMap<usize, Rc<Unit>>,
    globals: HashMap<InstanceId, Instantiated>,
    /// First part of the names of tables and objects: the pipeline of Tofino, if there are several.
    pipe: Option<String>,
    /// Declarations of extern objects, by the index in [`Flat::objects`].
    declared: HashMap<usize, InstanceId>,
    /// Actions of tables that are made already, by the instance that declares them and the action: indices in
    /// [`Flat::actions`].
    actions: HashMap<(Option<usize>, usize), usize>,
    /// Tables that are made already, by instance and table.
    tables: HashMap<(usize, usize), MadeTable>,
    value_sets: HashMap<(usize, usize), usize>,
    /// The storage of parameters and variables of instances that are shared, by instance.
    shared: HashMap<(usize, VarId), Expr>,
}

/// Numbers of units in `ExprKind::Instance` start here.
const UNIT_BASE: usize = 1 << 32;

/// Elaborates a v1model program. The result is only usable if no error was reported.
pub fn elaborate(program: &Program, diagnostics: &Diagnostics) -> Option<Flat> {
    let main = program.main.or_else(|| {
        diagnostics.report(
            Diagnostic::global("missing-main", "the program has no package instance `main`")
                .help("end it with `V1Switch(parser(), verify(), ingress(), egress(), compute(), deparser()) main;`"),
        );
        None
    })?;
    let main = &program.instances[main];
    let Constructed::Package(package) = main.construct.what else {
        diagnostics.report(Diagnostic::error(
            "missing-main",
            main.span,
            "`main` is not a package",
        ));
        return None;
    };
    let architecture = &program.blocks[package].signature.name;
    let (package, help) = match program.architecture {
        Architecture::V1model => ("V1Switch", "include <v1model.p4> and instantiate V1Switch"),
        Architecture::Tna | Architecture::T2na => ("Switch", "instantiate Switch with a pipeline"),
        Architecture::Psa => ("PSA_Switch", "instantiate PSA_Switch with both pipelines"),
    };
    if architecture != package {
        let message = format!("`main` is a `{architecture}`, this compiler is for `{package}`");
        diagnostics.error_with_help("unsupported-architecture", main.span, message, help);
        return None;
    }
    let mut elaborator = Elaborator {
        program,
        diagnostics,
        flat: Flat::default(),
        // The backend calls the header of scalars so.
        names: Names::with("scalars"),
        state_names: Names::default(),
        out: Vec::new(),
        next_label: 0,
        next_unit: 0,
        units: HashMap::new(),
        globals: HashMap::new(),
        pipe: None,
        declared: HashMap::new(),
        actions: HashMap::new(),
        tables: HashMap::new(),
        value_sets: HashMap::new(),
        shared: HashMap::new(),
    };
    let args = &main.construct.args;
    let made = match program.architecture {
        Architecture::V1model => elaborator.main(args),
        Architecture::Tna | Architecture::T2na => elaborator.pipelines(args, main.span),
        Architecture::Psa => elaborator.psa(args, main.span),
    };
    if made.is_none() && !diagnostics.has_errors() {
        let file = program.architecture.name();
        let message = format!(
            "this `{package}` has not the blocks of {file}.p4, or these not its parameters"
        );
        let help = format!("include <{file}.p4> instead of declaring a package of the same name");
        diagnostics.error_with_help("unsupported-architecture", main.span, message, help);
        return None;
    }
    Some(elaborator.flat)
}

fn types_of(params: &[Param]) -> Vec<Type> {
    params.iter().map(|p| p.ty.clone()).collect()
}

impl Elaborator<'_> {
    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, span, message);
    }

    /// The six blocks of `V1Switch`.
    fn main(&mut self, args: &[Expr]) -> Option<()> {
        let env = Env::default();
        let mut units = Vec::new();
        for arg in args {
            units.push(self.top_unit(arg, &env)?);
        }
        let [parser, verify, ingress, egress, compute, deparser] =
            <[Rc<Unit>; 6]>::try_from(units).ok()?;
        let Constructed::Parser(parser_id) = parser.what else {
            return None;
        };
        // The parser's parameters fix the types of headers and metadata.
        let params = types_of(&self.program.parsers[parser_id].block.params);
        let [_, headers, meta, standard] = <[Type; 4]>::try_from(params).ok()?;
        let all = [&headers, &meta, &standard];
        for (control, expected) in [
            (&verify, &all[..2]),
            (&ingress, &all),
            (&egress, &all),
            (&compute, &all[..2]),
        ] {
            if !self
                .control_params(control)?
                .iter()
                .eq(expected.iter().copied())
            {
                return None;
            }
        }
        if !matches!(&self.control_params(&deparser)?[..], [_, emitted] if *emitted == headers) {
            return None;
        }
        let span = self.program.parsers[parser_id].block.span;
        let headers = self.add_var("hdr", headers, Role::Headers, span);
        let meta = self.add_var("userMetadata", meta, Role::Metadata, span);
        let standard = self.add_var("standard_metadata", standard, Role::Standard, span);
        let (packet_in, packet_out) = (
            self.packet("packet_in", span),
            self.packet("packet_out", span),
        );

        let roots = |wanted: &[&Expr]| wanted.iter().map(|e| (*e).clone()).collect::<Vec<_>>();
        let all = roots(&[&headers, &meta, &standard]);
        self.top_parser(&parser, &roots(&[&packet_in, &headers, &meta, &standard]));
        self.flat.verify_checksum = self.top_control(&verify, &all[..2]);
        self.flat.ingress = self.top_control(&ingress, &all);
        self.flat.egress = self.top_control(&egress, &all);
        self.flat.compute_checksum = self.top_control(&compute, &all[..2]);
        self.flat.deparser = self.top_control(&deparser, &roots(&[&packet_out, &headers]));
        Some(())
    }

    /// The types of the parameters of a control; none if the unit is a parser.
    fn control_params(&self, unit: &Unit) -> Option<Vec<Type>> {
        match unit.what {
            Constructed::Control(id) => Some(types_of(&self.program.controls[id].block.params)),
            _ => None,
        }
    }

    fn packet(&mut self, extern_name: &str, span: Span) -> Expr {
        self.flat.objects.push(Object {
            name: extern_name.to_owned(),
            annotations: Vec::new(),
            extern_name: extern_name.to_owned(),
            type_args: Vec::new(),
            args: Vec::new(),
            span,
            declared: false,
        });
        object_expr(self.flat.objects.len() - 1, span)
    }

    /// A block given to `main`: constructed in place, or declared before.
    fn top_unit(&mut self, arg: &Expr, env: &Env) -> Option<Rc<Unit>> {
        let construct = match &arg.kind {
            ExprKind::Construct(construct) => construct,
            ExprKind::Instance(id) => &self.program.instances[*id].construct,
            _ => return None,
        };
        // The block's own name is the first part of all names inside; p4c ignores @name here, and so do we.
        let path = self.program.block(construct.what)?.name.clone();
        self.unit(construct, path, env, arg.span)
    }

    fn unit(
        &mut self,
        construct: &crate::ir::Construct,
        path: String,
        env: &Env,
        span: Span,
    ) -> Option<Rc<Unit>> {
        if !self.may_nest(env, "controls or parsers are nested too deeply", span) {
            return None;
        }
        let block = self.program.block(construct.what)?;
        let mut bindings = HashMap::new();
        for (param, arg) in block.constructor_params.iter().zip(&construct.args) {
            let value = self.pure_expr(arg, env);
            bindings.insert(param.var, value);
        }
        let mut inner = Env {
            vars: bindings.clone(),
            depth: env.depth + 1,
            ..Env::default()
        };
        self.next_unit += 1;
        let unit_id = self.next_unit;
        if let Constructed::Control(control) = construct.what {
            self.flat.units.push(FlatUnit {
                id: unit_id,
                control,
                path: path.clone(),
            });
        }
        let body = match construct.what {
            Constructed::Control(control) => &self.program.controls[control].body[..],
            _ => &[],
        };
        for id in &block.instances {
            let mut calls = Vec::new();
            add_applications(body, *id, &mut calls);
            inner.is_repeated = env.is_repeated || calls.len() > 1;
            inner.varying = varying(&calls);
            let child = self.instantiate(*id, Some(&path), &inner);
            inner.siblings.extend(child.map(|c| (*id, c)));
        }
        let unit = Rc::new(Unit {
            id: unit_id,
            path,
            what: construct.what,
            is_shared: env.is_repeated && self.may_have_tables(construct.what),
            varying: env.varying.clone(),
            bindings,
            instances: inner.siblings,
        });
        self.units.insert(UNIT_BASE + unit.id, unit.clone());
        Some(unit)
    }

    fn instantiate(
        &mut self,
        id: InstanceId,
        path: Option<&str>,
        env: &Env,
    ) -> Option<Instantiated> {
        let instance = &self.program.instances[id];
        let name = full_name(path, &instance.name, &instance.annotations);
        match instance.construct.what {
            Constructed::Extern(extern_type) => {
                let name = self.in_pipe(name);
                let construct = &instance.construct;
                let args = construct
                    .args
                    .iter()
                    .zip(&construct.names)
                    .map(|(arg, name)| (name.clone(), self.pure_expr(arg, env)))
                    .collect();
                self.flat.objects.push(Object {
                    name,
                    annotations: instance.annotations.clone(),
                    extern_name: self.program.externs[extern_type].name.clone(),
                    type_args: construct
                        .type_args
                        .iter()
                        .map(|t| t.substitute(&env.types))
                        .collect(),
                    args,
                    span: instance.span,
                    declared: true,
                });
                let index = self.flat.objects.len() - 1;
                self.declared.insert(index, id);
                Some(Instantiated::Object(index))
            }
            Constructed::Control(_) | Constructed::Parser(_) => self
                .unit(&instance.construct, name, env, instance.span)
                .map(Instantiated::Unit),
            Constructed::Package(_) => None,
        }
    }

    /// The control-plane name of a table or object with this name in its pipeline.
    fn in_pipe(&self, name: String) -> String {
        match &self.pipe {
            Some(pipe) => format!("{pipe}.{name}"),
            None => name,
        }
    }

    /// The object that an instance name means here.
    fn resolve_instance(&mut self, id: InstanceId, env: &Env, span: Span) -> Expr {
        let sibling = env.siblings.get(&id);
        let local = || env.unit.as_ref()?.instances.get(&id);
        let known = sibling.or_else(local).or_else(|| self.globals.get(&id));
        let found = known.cloned().or_else(|| {
            let made = self.instantiate(id, None, &Env::default())?;
            self.globals.insert(id, made.clone());
            Some(made)
        });
        match found {
            Some(Instantiated::Object(index)) => object_expr(index, span),
            Some(Instantiated::Unit(unit)) => object_expr(UNIT_BASE + unit.id, span),
            None => Expr::poison(span),
        }
    }

    /// The statements that `make` pushes, which do not become part of the body in work.
    fn block(&mut self, make: impl FnOnce(&mut Self)) -> Vec<FlatStmt> {
        self.apart(make).1
    }

    /// Result of `make` and the statements that it pushes, as [`Self::block`].
    fn apart<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> (T, Vec<FlatStmt>) {
        let outer = std::mem::take(&mut self.out);
        let made = make(self);
        (made, std::mem::replace(&mut self.out, outer))
    }

    /// Whether something may be inlined into `env`: what is nested without end, or too large, is reported.
    fn may_nest(&self, env: &Env, too_deep: &str, span: Span) -> bool {
        if env.depth >= MAX_DEPTH {
            self.error("too-deep", span, too_deep);
            return false;
        }
        self.diagnostics.spend(INSTANCE_PARTS, span)
    }

    /// The instance of a control or parser that an elaborated expression is.
    fn unit_of(&self, object: &Expr) -> Option<Rc<Unit>> {
        match object.kind {
            ExprKind::Instance(index) => self.units.get(&index).cloned(),
            _ => None,
        }
    }

    /// New storage with a unique name.
    fn add_var(&mut self, name: &str, ty: Type, role: Role, span: Span) -> Expr {
        // A program beyond the budget is reported, so that it is not used.
        let _ = self.diagnostics.spend(type_parts(&ty), span);
        let unique = self.names.unique(name);
        self.flat.vars.push(FlatVar {
            name: unique,
            ty: ty.clone(),
            role,
            span,
        });
        Expr::var(self.flat.vars.len() - 1, ty, span)
    }

    /// The storage of a variable of an instance: the same one at every place where it is applied, if it is shared.
    fn storage(&mut self, unit: Option<&Unit>, var: VarId, ty: Type, span: Span) -> Expr {
        let program = self.program;
        let name = &program.vars[var].name;
        let Some(unit) = unit.filter(|u| u.is_shared) else {
            return self.add_var(name, ty, Role::Local, span);
        };
        if let Some(made) = self.shared.get(&(unit.id, var)) {
            return made.clone();
        }
        let made = self.add_var(name, ty, Role::Local, span);
        self.shared.insert((unit.id, var), made.clone());
        made
    }

    fn may_have_tables(&self, what: Constructed) -> bool {
        match what {
            Constructed::Control(id) => {
                let control = &self.program.controls[id];
                !control.tables.is_empty() || !control.block.instances.is_empty()
            }
            _ => false,
        }
    }

    fn temp(&mut self, ty: &Type, span: Span) -> Expr {
        self.add_var("tmp", ty.clone(), Role::Local, span)
    }

    fn top_control(&mut self, unit: &Rc<Unit>, args: &[Expr]) -> FlatControl {
        let Constructed::Control(id) = unit.what else {
            return FlatControl::default();
        };
        let control = &self.program.controls[id].block;
        let mut env = self.unit_env(unit, 0);
        for (param, arg) in control.params.iter().zip(args) {
            env.vars.insert(param.var, arg.clone());
        }
        FlatControl {
            name: unit.path.clone(),
            span: control.span,
            body: self.block(|e| e.control_body(unit, &mut env)),
        }
    }

    fn unit_env(&self, unit: &Rc<Unit>, depth: usize) -> Env {
        Env {
            vars: unit.bindings.clone(),
            unit: Some(unit.clone()),
            depth,
            ..Env::default()
        }
    }

    /// Adds a statement to the body in work.
    fn push(&mut self, kind: FlatKind, span: Span) {
        if self.diagnostics.spend(statement_parts(&kind), span) {
            self.out.push(FlatStmt { kind, span });
        }
    }
}

/// Cost of a statement: the parts that the backend makes of it, one for each field of a struct that is copied.
fn statement_parts(kind: &FlatKind) -> usize {
    let value = |expr: &Expr| expr_parts(expr) + type_parts(&expr.ty);
    1 + match kind {
        FlatKind::Assign(target, source) => value(target) + expr_parts(source),
        FlatKind::Extern { args, .. } => args.iter().map(value).sum(),
        FlatKind::If(condition, ..) => value(condition),
        _ => 0,
    }
}

/// Adds the calls by which statements apply an instance. Loops are left out, where tables cannot be applied.
fn add_applications<'p>(body: &'p [Stmt], id: InstanceId, calls: &mut Vec<&'p Call>) {
    for statement in body {
        match &statement.kind {
            StmtKind::Call(call) => {
                if let Callee::Apply(object) = &call.callee
                    && matches!(object.kind, ExprKind::Instance(applied) if applied == id)
                {
                    calls.push(call);
                }
            }
            StmtKind::If(_, then, otherwise) => {
                add_applications(then, id, calls);
                add_applications(otherwise, id, calls);
            }
            StmtKind::Block { body, .. } => add_applications(body, id, calls),
            StmtKind::Switch(_, arms) => {
                arms.iter()
                    .for_each(|(_, body)| add_applications(body, id, calls));
            }
            StmtKind::SwitchAction(_, arms) => {
                arms.iter()
                    .for_each(|(_, body)| add_applications(body, id, calls));
            }
            _ => {}
        }
    }
}

/// Which arguments are not the same in all calls. What the caller names is the same storage at all places where it is
/// applied itself.
fn varying(calls: &[&Call]) -> Vec<bool> {
    let Some(first) = calls.first() else {
        return Vec::new();
    };
    let differs = |i: usize| {
        calls
            .iter()
            .any(|call| !same(&call.args[i], &first.args[i]))
    };
    (0..first.args.len()).map(differs).collect()
}

fn object_expr(index: usize, span: Span) -> Expr {
    Expr::new(ExprKind::Instance(index), Type::Void, span)
}

/// The control-plane name: `@name` replaces the last part, and all of it if it begins with a dot.
fn full_name(path: Option<&str>, name: &str, annotations: &[Annotation]) -> String {
    let own = annotations::string(annotations, "name").unwrap_or_else(|| name.to_owned());
    match (own.strip_prefix('.'), path) {
        (Some(absolute), _) => absolute.to_owned(),
        (None, Some(path)) => format!("{path}.{own}"),
        (None, None) => own,
    }
}
