//! Declarations.

use std::rc::Rc;

use num_bigint::BigInt;

use super::statements::is_constant;
use super::{Checker, Entity, Place};
use crate::ast::{self, DeclarationKind as Kind, Direction, Transition as Written};
use crate::diagnostics::Diagnostic;
use crate::ir::{
    Action, BlockKind, BlockType, Constructed, Control, Expr, ExternType, Function, Instance,
    Param, Parser, SelectCase, Signature, State, Stmt, Target, Transition, ValueSet,
};
use crate::types::{EnumType, FieldType, NewType, StructKind, StructType, Type};

/// Everything that the head and body of a parser or control have in common.
struct Locals {
    instances: Vec<usize>,
    actions: Vec<usize>,
    tables: Vec<usize>,
    value_sets: Vec<usize>,
    statements: Vec<Stmt>,
}

impl Checker<'_> {
    pub(super) fn top_level(&mut self, d: &ast::Declaration) {
        match &d.kind {
            Kind::Const { .. } => self.constant(d),
            Kind::Variable { .. } => {
                self.report(
                    Diagnostic::error(
                        "misplaced-declaration",
                        d.span,
                        "variables cannot be declared at the top level",
                    )
                    .help("make it a `const`, or declare it inside a control"),
                );
                self.declare(&d.name, Entity::Const(Expr::poison(d.span)));
            }
            Kind::Instance { ty, args, .. } => self.instance(d, ty, args),
            Kind::ExternObject {
                type_params,
                methods,
            } => self.extern_object(d, type_params, methods),
            Kind::ExternFunction(prototype) => {
                self.annotations(&prototype.annotations);
                let signature = self.scoped(|c| c.signature(prototype));
                let id = self.program.extern_functions.len();
                self.program.extern_functions.push(signature);
                self.declare(&d.name, Entity::ExternFunctions(vec![id]));
            }
            Kind::Function { prototype, body } => self.function(d, prototype, body),
            Kind::Action { params, body } => {
                self.action(d, params, body);
            }
            Kind::Parser {
                type_params,
                params,
                body,
            } => self.parser(d, type_params, params, body.as_ref()),
            Kind::Control {
                type_params,
                params,
                body,
            } => self.control(d, type_params, params, body.as_ref()),
            Kind::Package {
                type_params,
                params,
            } => {
                self.annotations(&d.annotations);
                let signature = self.scoped(|c| {
                    let type_params = c.type_params(type_params);
                    Signature {
                        name: d.name.text.clone(),
                        type_params,
                        params: c.params(params),
                        return_type: Type::Void,
                        span: d.name.span,
                    }
                });
                let id = self.add_block(BlockKind::Package, signature);
                self.declare(&d.name, Entity::Block(id));
            }
            Kind::Table(_) | Kind::ValueSet { .. } => {
                self.error(
                    "misplaced-declaration",
                    d.span,
                    "this can only be declared in a parser or control",
                );
            }
            _ => self.type_declaration(d),
        }
    }

    fn type_declaration(&mut self, d: &ast::Declaration) {
        let name = d.name.text.clone();
        match &d.kind {
            Kind::Struct {
                kind,
                type_params,
                fields,
            } => self.structure(d, *kind, type_params, fields),
            Kind::Enum { members } => {
                self.check_distinct(members.iter());
                let e = Rc::new(EnumType {
                    name,
                    members: members.iter().map(|m| m.text.clone()).collect(),
                    underlying: None,
                    annotations: self.annotations(&d.annotations),
                    span: d.name.span,
                });
                self.program.enums.push(e.clone());
                self.declare(&d.name, Entity::Type(Type::Enum(e)));
            }
            Kind::SerializableEnum {
                underlying,
                members,
            } => {
                self.check_distinct(members.iter().map(|(m, _)| m));
                let underlying = self.ty(underlying);
                if !matches!(underlying.stored(), Type::Bits { .. } | Type::Poison) {
                    let message = format!(
                        "an enum is stored as bit<W> or int<W>, not `{}`",
                        self.show(&underlying)
                    );
                    self.error("bad-enum-type", d.span, message);
                    return;
                }
                let values: Vec<BigInt> = members
                    .iter()
                    .map(|(_, value)| {
                        let value = self.expr_of(value, &underlying.clone());
                        value.as_int().cloned().unwrap_or_default()
                    })
                    .collect();
                let e = Rc::new(EnumType {
                    name,
                    members: members.iter().map(|(m, _)| m.text.clone()).collect(),
                    underlying: Some((underlying, values)),
                    annotations: self.annotations(&d.annotations),
                    span: d.name.span,
                });
                self.program.enums.push(e.clone());
                self.declare(&d.name, Entity::Type(Type::Enum(e)));
            }
            Kind::Error { members } => {
                self.annotations(&d.annotations);
                for member in members {
                    if self.program.errors.contains(&member.text) {
                        let message = format!("error `{}` is declared twice", member.text);
                        self.error("duplicate-name", member.span, message);
                    } else {
                        self.program.errors.push(member.text.clone());
                    }
                }
            }
            Kind::MatchKind { members } => {
                self.annotations(&d.annotations);
                for member in members {
                    if self.match_kinds.contains(&member.text) {
                        let message = format!("match kind `{}` is declared twice", member.text);
                        self.error("duplicate-name", member.span, message);
                    } else {
                        self.match_kinds.push(member.text.clone());
                    }
                }
            }
            Kind::Typedef(ty) => {
                self.annotations(&d.annotations);
                let ty = self.ty(ty);
                self.declare(&d.name, Entity::Type(ty));
            }
            Kind::NewType(ty) => {
                let underlying = self.ty(ty);
                self.check_new_type(&underlying, d.name.span);
                let new = NewType {
                    name,
                    underlying,
                    annotations: self.annotations(&d.annotations),
                };
                self.declare(&d.name, Entity::Type(Type::New(Rc::new(new))));
            }
            _ => {}
        }
    }

    fn check_distinct<'b>(&self, names: impl Iterator<Item = &'b ast::Ident>) {
        let mut seen: Vec<&ast::Ident> = Vec::new();
        for name in names {
            if let Some(first) = seen.iter().find(|s| s.text == name.text) {
                self.report(
                    Diagnostic::error(
                        "duplicate-name",
                        name.span,
                        format!("`{}` is declared twice", name.text),
                    )
                    .note(first.span, "first declaration"),
                );
            }
            seen.push(name);
        }
    }

    fn structure(
        &mut self,
        d: &ast::Declaration,
        kind: StructKind,
        params: &[ast::Ident],
        fields: &[ast::Field],
    ) {
        self.check_distinct(fields.iter().map(|f| &f.name));
        let (vars, fields) = self.scoped(|c| {
            let vars = c.type_params(params);
            let fields: Vec<FieldType> = fields
                .iter()
                .map(|f| FieldType {
                    name: f.name.text.clone(),
                    ty: c.ty(&f.ty),
                    annotations: c.annotations(&f.annotations),
                })
                .collect();
            (vars, fields)
        });
        let ty = Rc::new(StructType {
            kind,
            name: d.name.text.clone(),
            args: vars.iter().cloned().map(Type::Var).collect(),
            fields,
            annotations: self.annotations(&d.annotations),
            span: d.name.span,
        });
        self.check_fields(&Type::Struct(ty.clone()), d.name.span);
        if !self
            .diagnostics
            .afford_type(&Type::Struct(ty.clone()), d.name.span)
        {
            return self.declare(&d.name, Entity::Type(Type::Poison));
        }
        if vars.is_empty() {
            if kind == StructKind::Header {
                self.program.headers.push(ty.clone());
            }
            self.declare(&d.name, Entity::Type(Type::Struct(ty)));
        } else {
            self.declare(&d.name, Entity::Generic(Rc::new((vars, ty))));
        }
    }

    fn constant(&mut self, d: &ast::Declaration) {
        self.annotations(&d.annotations);
        let Kind::Const { ty, value } = &d.kind else {
            return;
        };
        let ty = self.ty(ty);
        let value = self.expr_of(value, &ty);
        if !is_constant(&value) {
            self.error(
                "not-constant",
                value.span,
                "the value of a constant must be known at compile time",
            );
        }
        self.declare(&d.name, Entity::Const(value));
    }

    fn instance(&mut self, d: &ast::Declaration, ty: &ast::Type, args: &[ast::Arg]) {
        let ast::TypeKind::Name {
            name,
            args: type_args,
            global,
        } = &ty.kind
        else {
            self.error("not-constructible", ty.span, "this type has no constructor");
            return;
        };
        if let Kind::Instance {
            initializer: Some(_),
            ..
        } = &d.kind
        {
            self.error(
                "unsupported-initializer",
                d.span,
                "instances with abstract methods are not supported yet",
            );
            return;
        }
        let type_args: Vec<Type> = type_args.iter().map(|t| self.ty(t)).collect();
        let built = self
            .resolve(name, *global, "type")
            .and_then(|entity| self.construct(&entity, type_args, args, d.span));
        let Some((construct, ty)) = built else {
            self.declare(&d.name, Entity::Const(Expr::poison(d.span)));
            return;
        };
        self.check_top_level(construct.what, d.span);
        let is_package = matches!(construct.what, Constructed::Package(_));
        let annotations = self.annotations(&d.annotations);
        let id = self.program.instances.len();
        self.program.instances.push(Instance {
            name: d.name.text.clone(),
            annotations,
            construct,
            ty,
            span: d.name.span,
        });
        if is_package && d.name.text == "main" {
            self.program.main = Some(id);
        }
        self.instances.push(id);
        self.declare(&d.name, Entity::Instance(id));
    }

    fn params(&mut self, params: &[ast::Param]) -> Vec<Param> {
        self.check_distinct(params.iter().map(|p| &p.name));
        params
            .iter()
            .map(|p| {
                let ty = self.ty(&p.ty);
                let default = p.default.as_ref().map(|d| self.expr_of(d, &ty));
                let writable = matches!(p.direction, Direction::Out | Direction::InOut);
                let var = self.new_var(&p.name, ty.clone(), writable);
                let param = Param {
                    var,
                    name: p.name.text.clone(),
                    ty,
                    direction: p.direction,
                    default,
                    annotations: self.annotations(&p.annotations),
                    span: p.name.span,
                };
                self.check_default(&param);
                self.check_direction(&param);
                param
            })
            .collect()
    }

    /// Makes parameters visible in the current scope.
    fn declare_params(&mut self, written: &[ast::Param], params: &[Param]) {
        for (p, param) in written.iter().zip(params) {
            self.declare(&p.name, Entity::Var(param.var));
        }
    }

    fn signature(&mut self, prototype: &ast::Prototype) -> Signature {
        let type_params = self.type_params(&prototype.type_params);
        Signature {
            name: prototype.name.text.clone(),
            type_params,
            params: self.params(&prototype.params),
            return_type: self.ty(&prototype.return_type),
            span: prototype.name.span,
        }
    }

    fn extern_object(
        &mut self,
        d: &ast::Declaration,
        type_params: &[ast::Ident],
        methods: &[ast::Prototype],
    ) {
        self.annotations(&d.annotations);
        // The name is known inside, so that methods can mention their own type.
        let id = self.program.externs.len();
        self.program.externs.push(ExternType {
            name: d.name.text.clone(),
            type_params: Vec::new(),
            constructors: Vec::new(),
            methods: Vec::new(),
            span: d.name.span,
        });
        self.declare(&d.name, Entity::Extern(id));
        self.scoped(|c| {
            c.program.externs[id].type_params = c.type_params(type_params);
            for method in methods {
                c.annotations(&method.annotations);
                let signature = c.scoped(|c| c.signature(method));
                let extern_type = &mut c.program.externs[id];
                if method.is_constructor {
                    extern_type.constructors.push(signature);
                } else {
                    extern_type.methods.push(signature);
                }
            }
        });
    }

    fn function(
        &mut self,
        d: &ast::Declaration,
        prototype: &ast::Prototype,
        body: &[ast::Statement],
    ) {
        self.annotations(&d.annotations);
        let (signature, body) = self.scoped(|c| {
            let signature = c.signature(prototype);
            c.declare_params(&prototype.params, &signature.params);
            let outer = (c.place, c.return_type.clone());
            c.place = Place::Function;
            c.return_type = signature.return_type.clone();
            let body = c.block(body);
            (c.place, c.return_type) = outer;
            (signature, body)
        });
        if !matches!(signature.return_type, Type::Void) && !always_returns(&body) {
            let message = format!("function `{}` can end without a value", signature.name);
            self.report(
                Diagnostic::error("missing-return", signature.span, message)
                    .help("add a `return` at its end"),
            );
        }
        self.check_overload(&signature);
        let id = self.program.functions.len();
        self.program.functions.push(Function { signature, body });
        self.declare(&d.name, Entity::Functions(vec![id]));
    }

    fn action(
        &mut self,
        d: &ast::Declaration,
        written: &[ast::Param],
        body: &[ast::Statement],
    ) -> usize {
        let (params, body) = self.scoped(|c| {
            let params = c.params(written);
            c.declare_params(written, &params);
            // Action data comes by value and may be overwritten locally.
            let outer = (c.place, c.return_type.clone());
            c.place = Place::Action;
            c.return_type = Type::Void;
            let body = c.block(body);
            (c.place, c.return_type) = outer;
            (params, body)
        });
        let mut seen_data = false;
        for param in &params {
            self.check_action_param(param);
            if seen_data && param.direction != Direction::None {
                let message = format!(
                    "parameter `{}` with a direction follows one without",
                    param.name
                );
                self.report(
                    Diagnostic::error("parameter-order", param.span, message)
                        .help("parameters filled by the control plane come last"),
                );
            }
            seen_data |= param.direction == Direction::None;
        }
        let annotations = self.annotations(&d.annotations);
        let id = self.program.actions.len();
        self.program.actions.push(Action {
            name: d.name.text.clone(),
            annotations,
            params,
            body,
            span: d.name.span,
        });
        self.declare(&d.name, Entity::Action(id));
        id
    }

    fn add_block(&mut self, kind: BlockKind, signature: Signature) -> usize {
        self.program.blocks.push(BlockType { kind, signature });
        self.program.blocks.len() - 1
    }

    fn block_signature(
        &mut self,
        name: &ast::Ident,
        type_params: &[ast::Ident],
        params: &[ast::Param],
    ) -> Signature {
        let type_params = self.type_params(type_params);
        Signature {
            name: name.text.clone(),
            type_params,
            params: self.params(params),
            return_type: Type::Void,
            span: name.span,
        }
    }

    fn control(
        &mut self,
        d: &ast::Declaration,
        type_params: &[ast::Ident],
        params: &[ast::Param],
        body: Option<&ast::ControlBody>,
    ) {
        self.scopes.push(super::Scope::default());
        let signature = self.block_signature(&d.name, type_params, params);
        let block = self.add_block(BlockKind::Control, signature.clone());
        let annotations = self.annotations(&d.annotations);
        let Some(body) = body else {
            self.scopes.pop();
            self.declare(&d.name, Entity::Block(block));
            return;
        };
        self.declare_params(params, &signature.params);
        let constructor_params = self.params(&body.constructor_params);
        self.declare_params(&body.constructor_params, &constructor_params);
        let outer_instances = std::mem::take(&mut self.instances);
        let mut locals = self.locals(&body.locals, false);
        self.place = Place::Control;
        self.return_type = Type::Void;
        let apply = self.block(&body.apply);
        self.place = Place::TopLevel;
        locals.instances = std::mem::replace(&mut self.instances, outer_instances);
        self.scopes.pop();
        let id = self.program.controls.len();
        self.program.controls.push(Control {
            name: d.name.text.clone(),
            annotations,
            params: signature.params,
            constructor_params,
            instances: locals.instances,
            actions: locals.actions,
            tables: locals.tables,
            locals: locals.statements,
            body: apply,
            span: d.name.span,
        });
        self.declare(&d.name, Entity::Control(id, block));
    }

    fn locals(&mut self, declarations: &[ast::Declaration], in_parser: bool) -> Locals {
        let mut locals = Locals {
            instances: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
            value_sets: Vec::new(),
            statements: Vec::new(),
        };
        for d in declarations {
            match &d.kind {
                Kind::Const { .. } | Kind::Variable { .. } => {
                    locals.statements.extend(self.local(d))
                }
                Kind::Instance { ty, args, .. } => self.instance(d, ty, args),
                Kind::Action { params, body } if !in_parser => {
                    let id = self.action(d, params, body);
                    locals.actions.push(id);
                }
                Kind::Table(properties) if !in_parser => match self.table(d, properties) {
                    Some(table) => {
                        self.program.tables.push(table);
                        let id = self.program.tables.len() - 1;
                        locals.tables.push(id);
                        self.declare(&d.name, Entity::Table(id));
                    }
                    None => self.declare(&d.name, Entity::Const(Expr::poison(d.span))),
                },
                Kind::ValueSet { ty, size } if in_parser => {
                    let ty = self.ty(ty);
                    if matches!(ty, Type::Int | Type::String | Type::Void) {
                        let message =
                            format!("a value set has no elements of type `{}`", self.show(&ty));
                        self.report(Diagnostic::error("bad-key-type", d.span, message).help(
                            "its elements are numbers of a width, or tuples and structs of them",
                        ));
                    }
                    let size = self.expr(size);
                    let annotations = self.annotations(&d.annotations);
                    self.program.value_sets.push(ValueSet {
                        name: d.name.text.clone(),
                        annotations,
                        ty,
                        size,
                        span: d.name.span,
                    });
                    let id = self.program.value_sets.len() - 1;
                    locals.value_sets.push(id);
                    self.declare(&d.name, Entity::ValueSet(id));
                }
                _ => {
                    let diagnostic = Diagnostic::error(
                        "misplaced-declaration",
                        d.span,
                        "this cannot be declared here",
                    );
                    self.report(match &d.kind {
                        Kind::Function { .. } => diagnostic
                            .help("functions are declared outside of parsers and controls"),
                        _ => diagnostic,
                    });
                    self.declare(&d.name, Entity::Const(Expr::poison(d.span)));
                }
            }
        }
        locals
    }

    fn parser(
        &mut self,
        d: &ast::Declaration,
        type_params: &[ast::Ident],
        params: &[ast::Param],
        body: Option<&ast::ParserBody>,
    ) {
        self.scopes.push(super::Scope::default());
        let signature = self.block_signature(&d.name, type_params, params);
        let block = self.add_block(BlockKind::Parser, signature.clone());
        self.annotations(&d.annotations);
        let Some(body) = body else {
            self.scopes.pop();
            self.declare(&d.name, Entity::Block(block));
            return;
        };
        self.declare_params(params, &signature.params);
        let constructor_params = self.params(&body.constructor_params);
        self.declare_params(&body.constructor_params, &constructor_params);
        let outer_instances = std::mem::take(&mut self.instances);
        let mut locals = self.locals(&body.locals, true);
        self.check_distinct(body.states.iter().map(|s| &s.name));
        body.states
            .iter()
            .for_each(|s| self.check_state_name(&s.name));
        self.place = Place::ParserState;
        let mut states: Vec<State> = body
            .states
            .iter()
            .map(|s| self.state(s, &body.states))
            .collect();
        self.place = Place::TopLevel;
        // Parsing begins at `start`; it comes first from here on.
        match states.iter().position(|s| s.name == "start") {
            Some(start) => {
                let states_len = states.len();
                states.swap(0, start);
                let renumber = |t: &mut Target| {
                    if let Target::State(i) = t {
                        *i = match *i {
                            0 => start,
                            i if i == start => 0,
                            i => i,
                        };
                        debug_assert!(*i < states_len);
                    }
                };
                for state in &mut states {
                    match &mut state.transition {
                        Transition::Direct(target) => renumber(target),
                        Transition::Select { cases, .. } => {
                            cases.iter_mut().for_each(|c| renumber(&mut c.target))
                        }
                    }
                }
            }
            None => self.report(
                Diagnostic::error(
                    "missing-start",
                    d.name.span,
                    format!("parser `{}` has no state `start`", d.name.text),
                )
                .help("parsing begins in the state named `start`"),
            ),
        }
        self.check_ends(&d.name, &states);
        locals.instances = std::mem::replace(&mut self.instances, outer_instances);
        self.scopes.pop();
        let id = self.program.parsers.len();
        self.program.parsers.push(Parser {
            name: d.name.text.clone(),
            params: signature.params,
            constructor_params,
            instances: locals.instances,
            value_sets: locals.value_sets,
            locals: locals.statements,
            states,
            span: d.name.span,
        });
        self.declare(&d.name, Entity::Parser(id, block));
    }

    fn state(&mut self, state: &ast::State, all: &[ast::State]) -> State {
        self.annotations(&state.annotations);
        self.scoped(|c| {
            let body = c.statements(&state.body);
            let transition = match &state.transition {
                // A state without transition rejects (specification, section 13.5).
                None => Transition::Direct(Target::Reject),
                Some(Written::Direct(name)) => Transition::Direct(c.target(name, all)),
                Some(Written::Select { keys, cases, span }) => {
                    let (keys, written) = c.select_keys(keys);
                    let types: Vec<Type> = keys.iter().map(|k| k.ty.clone()).collect();
                    let cases = cases
                        .iter()
                        .filter_map(|case| {
                            let sets = c.select_sets(&case.keyset, &written);
                            Some(SelectCase {
                                keyset: c.keyset(&sets, &types, case.span)?,
                                target: c.target(&case.state, all),
                                span: case.span,
                            })
                        })
                        .collect();
                    Transition::Select {
                        keys,
                        cases,
                        span: *span,
                    }
                }
            };
            State {
                name: state.name.text.clone(),
                body,
                transition,
                span: state.name.span,
            }
        })
    }

    fn target(&self, name: &ast::Ident, all: &[ast::State]) -> Target {
        match name.text.as_str() {
            "accept" => Target::Accept,
            "reject" => Target::Reject,
            text => match all.iter().position(|s| s.name.text == text) {
                Some(i) => Target::State(i),
                None => {
                    let names = all
                        .iter()
                        .map(|s| s.name.text.as_str())
                        .chain(["accept", "reject"]);
                    self.report(
                        Diagnostic::error(
                            "unknown-state",
                            name.span,
                            format!("there is no state `{text}`"),
                        )
                        .suggest(text, names),
                    );
                    Target::Reject
                }
            },
        }
    }
}

/// Every path through the statements ends with `return` or `exit`.
fn always_returns(body: &[Stmt]) -> bool {
    use crate::ir::StmtKind as S;
    body.iter().any(|s| match &s.kind {
        S::Return(_) | S::Exit => true,
        S::If(_, then, otherwise) => always_returns(then) && always_returns(otherwise),
        S::Block { body, .. } => always_returns(body),
        S::Switch(_, arms) => {
            arms.iter()
                .any(|(labels, _)| labels.iter().any(Option::is_none))
                && arms.iter().all(|(_, b)| always_returns(b))
        }
        _ => false,
    })
}
