//! Declarations at the top level, and those that also stand in parsers and controls.

use super::places::Place;
use super::rules::{
    action_parameters, distinct_names, function_overloads, function_returns, parameters,
};
use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind as Kind};
use crate::ir::{
    self, AbstractMethod, Action, ActionId, BlockKind, Constructed, Expr, ExternType, Function,
    Instance, InstanceId, Param, Signature,
};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn top_level(&mut self, d: &ast::Declaration) {
        self.note_deprecated(&d.name, &d.annotations);
        match &d.kind {
            Kind::Const { .. } => self.constant(d),
            Kind::Variable { .. } => {
                let message = "variables cannot be declared at the top level";
                let help = "make it a `const`, or declare it inside a control";
                self.error_with_help("misplaced-declaration", d.span, message, help);
                self.declare(&d.name, Entity::Const(Expr::poison(d.span)));
            }
            Kind::Instance { .. } => self.instance(d, None),
            Kind::ExternObject {
                type_params,
                methods,
            } => self.extern_object(d, type_params, methods),
            Kind::ExternFunction(prototype) => {
                self.annotations(&prototype.annotations);
                let signature = self.scoped(|c| c.signature(prototype));
                if let Some((Entity::ExternFunctions(others), _)) = self.find(&signature.name, true)
                {
                    let all = &self.program.extern_functions;
                    let before = others.iter().map(|id| &all[*id]);
                    function_overloads::check_extern(&signature, before, self.diagnostics);
                }
                let id = ir::add(&mut self.program.extern_functions, signature);
                self.declare(&d.name, Entity::ExternFunctions(vec![id]));
            }
            Kind::Function { prototype, body } => self.function(d, prototype, body),
            Kind::Action { params, body } => {
                self.action(d, params, body);
            }
            Kind::Parser { ty, body } => self.parser(d, ty, body.as_ref()),
            Kind::Control { ty, body } => self.control(d, ty, body.as_ref()),
            Kind::Package(ty) => self.package(d, ty),
            Kind::Table(_) | Kind::ValueSet { .. } => {
                let message = "this can only be declared in a parser or control";
                self.error("misplaced-declaration", d.span, message);
            }
            _ => self.type_declaration(d),
        }
    }

    fn constant(&mut self, d: &ast::Declaration) {
        self.annotations(&d.annotations);
        let Kind::Const { ty, value } = &d.kind else {
            return;
        };
        let ty = self.ty(ty);
        let value = self.expr_of(value, &ty);
        let value = self.constant_value(
            value,
            "operators compute constants, from literals and other constants",
        );
        self.declare(&d.name, Entity::Const(value));
        self.expect_constant(d);
    }

    /// A constant that only holds the result of `static_assert` is there for its own sake.
    pub(super) fn expect_constant(&mut self, d: &ast::Declaration) {
        let is_assertion = matches!(&d.kind, Kind::Const { value, .. } if asserts(value));
        if !is_assertion {
            self.expect_use(&d.name, "constant");
        }
    }

    /// `within`: the parser or control that it is declared in, if any.
    pub(super) fn instance(&mut self, d: &ast::Declaration, within: Option<BlockKind>) {
        let Kind::Instance {
            ty,
            args,
            initializer,
        } = &d.kind
        else {
            return;
        };
        let ast::TypeKind::Name {
            name,
            args: type_args,
            global,
        } = &ty.kind
        else {
            self.error("not-constructible", ty.span, "this type has no constructor");
            return;
        };
        let type_args: Vec<Type> = type_args.iter().map(|t| self.ty(t)).collect();
        let built = self
            .resolve(name, *global, "type")
            .and_then(|entity| self.construct(&entity, type_args, args, d.span));
        let Some((construct, ty)) = built else {
            self.declare(&d.name, Entity::Const(Expr::poison(d.span)));
            return;
        };
        self.check_instantiated(construct.what, within, d.span);
        let is_package = matches!(construct.what, Constructed::Package(_));
        let annotations = self.annotations(&d.annotations);
        let id = self.add_instance(Instance {
            name: d.name.text.clone(),
            annotations,
            construct,
            ty,
            methods: Vec::new(),
            span: d.name.span,
        });
        self.implement_methods(id, &d.name, initializer.as_deref().unwrap_or_default());
        if is_package && d.name.text == "main" {
            self.program.main = Some(id);
        }
        self.declare(&d.name, Entity::Instance(id));
        if !is_package {
            self.expect_use(&d.name, "instance");
        }
    }

    /// An instance of the parser or control being checked, or of the program.
    pub(super) fn add_instance(&mut self, instance: Instance) -> InstanceId {
        let id = ir::add(&mut self.program.instances, instance);
        self.instances.push(id);
        id
    }

    pub(super) fn params(&mut self, params: &[ast::Param]) -> Vec<Param> {
        distinct_names::check(params.iter().map(|p| &p.name), self.diagnostics);
        params
            .iter()
            .map(|p| {
                let ty = self.ty(&p.ty);
                let default = p.default.as_ref().map(|d| self.expr_of(d, &ty));
                let var = self.new_var(&p.name, ty.clone(), p.direction.writes());
                let param = Param {
                    var,
                    name: p.name.text.clone(),
                    ty,
                    direction: p.direction,
                    default,
                    annotations: self.annotations(&p.annotations),
                    span: p.name.span,
                };
                parameters::check(&param, &self.program, self.diagnostics);
                param
            })
            .collect()
    }

    /// Makes parameters visible in the current scope.
    pub(super) fn declare_params(&mut self, written: &[ast::Param], params: &[Param]) {
        for (p, param) in written.iter().zip(params) {
            self.declare(&p.name, Entity::Var(param.var));
        }
    }

    pub(super) fn signature(&mut self, prototype: &ast::Prototype) -> Signature {
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
        let empty = ExternType {
            name: d.name.text.clone(),
            type_params: Vec::new(),
            constructors: Vec::new(),
            methods: Vec::new(),
            abstract_methods: Vec::new(),
            span: d.name.span,
        };
        let id = ir::add(&mut self.program.externs, empty);
        self.declare(&d.name, Entity::Extern(id));
        self.scoped(|c| {
            c.program.externs[id].type_params = c.type_params(type_params);
            for method in methods {
                c.annotations(&method.annotations);
                let signature = c.scoped(|c| c.signature(method));
                let extern_type = &mut c.program.externs[id];
                match method {
                    m if m.is_constructor => extern_type.constructors.push(signature),
                    m if m.is_abstract => {
                        let optional = m.annotations.iter().any(|a| a.name.text == "optional");
                        extern_type.abstract_methods.push(AbstractMethod {
                            signature,
                            optional,
                        });
                    }
                    _ => extern_type.methods.push(signature),
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
        let function = self.scoped_of(&d.name, "a function", |c| {
            let signature = c.signature(prototype);
            c.declare_params(&prototype.params, &signature.params);
            c.expect_params(&prototype.params);
            let return_type = signature.return_type.clone();
            let body = c.in_body(Place::Function, return_type, |c| c.block(body));
            Function { signature, body }
        });
        function_returns::check(&function, self.diagnostics);
        let mut is_overload = false;
        if let Some((Entity::Functions(others), _)) = self.find(&function.signature.name, true) {
            is_overload = true;
            let new = &function.signature;
            let before = others
                .iter()
                .map(|id| &self.program.functions[*id].signature);
            function_overloads::check(new, before, self.diagnostics);
        }
        let id = ir::add(&mut self.program.functions, function);
        self.declare(&d.name, Entity::Functions(vec![id]));
        // Names are looked up, not overloads.
        if !is_overload {
            self.expect_use(&d.name, "function");
        }
    }

    pub(super) fn action(
        &mut self,
        d: &ast::Declaration,
        written: &[ast::Param],
        body: &[ast::Statement],
    ) -> ActionId {
        let (params, body) = self.scoped_of(&d.name, "an action", |c| {
            let params = c.params(written);
            c.declare_params(written, &params);
            c.expect_params(written);
            let body = c.in_body(Place::Action, Type::Void, |c| c.block(body));
            (params, body)
        });
        action_parameters::check(&params, &self.program, self.diagnostics);
        let annotations = self.annotations(&d.annotations);
        let action = Action {
            name: d.name.text.clone(),
            annotations,
            params,
            body,
            span: d.name.span,
        };
        let id = ir::add(&mut self.program.actions, action);
        self.declare(&d.name, Entity::Action(id));
        self.expect_use(&d.name, "action");
        id
    }
}

/// Whether a value is that of a call of `static_assert`.
fn asserts(value: &ast::Expr) -> bool {
    matches!(&value.kind, ast::ExprKind::Call { callee, .. }
        if matches!(&callee.kind, ast::ExprKind::Name { name, .. } if name.text == "static_assert"))
}
