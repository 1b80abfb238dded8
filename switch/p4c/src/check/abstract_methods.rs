//! Instances that bring bodies for the abstract methods of their extern (P4_16, "Instantiating objects with abstract
//! methods").

use super::places::Place;
use super::rules::function_returns;
use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind as Kind, Direction};
use crate::diagnostics::Diagnostic;
use crate::ir::{AbstractMethod, Function, InstanceId, Signature};
use crate::types::{self, Type};

/// The instance itself, in the bodies of its methods.
const THIS: &str = "this";

impl Checker<'_> {
    /// Checks the methods in the braces behind the instance `id`, which is called `name`; none are written if it has no
    /// braces.
    pub(super) fn implement_methods(
        &mut self,
        id: InstanceId,
        name: &ast::Ident,
        written: &[ast::Declaration],
    ) {
        let declared = self.abstract_methods(&self.program.instances[id].ty);
        let mut methods: Vec<Function> = Vec::new();
        for d in written {
            let Kind::Function { prototype, body } = &d.kind else {
                let message = "only methods stand in the braces of an instance";
                self.error("misplaced-declaration", d.span, message);
                continue;
            };
            self.annotations(&d.annotations);
            let Some(expected) = declared.iter().find(|m| m.signature.name == d.name.text) else {
                let message = format!("`{}` has no abstract method `{}`", name.text, d.name.text);
                let known = declared.iter().map(|m| m.signature.name.as_str());
                self.unknown("unknown-method", &d.name, message, known);
                continue;
            };
            if methods.iter().any(|m| m.signature.name == d.name.text) {
                let message = format!("the method `{}` is written twice", d.name.text);
                self.error("duplicate-name", d.name.span, message);
                continue;
            }
            methods.push(self.method(id, prototype, body));
            if let Some(method) = methods.last() {
                self.check_implements(&method.signature, &expected.signature);
            }
        }
        let is_missing = |m: &&AbstractMethod| {
            let same = |w: &Function| w.signature.name == m.signature.name;
            !m.optional && !methods.iter().any(same)
        };
        if let Some(AbstractMethod { signature, .. }) = declared.iter().find(is_missing) {
            let method = &signature.name;
            let message = format!("`{}` has no method `{method}`", name.text);
            let error = Diagnostic::error("missing-method", name.span, message);
            let help = format!("write it behind the instance: `= {{ .. {method}(..) {{ .. }} }};`");
            self.report(error.note(signature.span, "the abstract method").help(help));
        }
        self.program.instances[id].methods = methods;
    }

    /// The abstract methods of a type, with its type arguments in place.
    fn abstract_methods(&self, ty: &Type) -> Vec<AbstractMethod> {
        let Type::Extern(id, args) = ty else {
            return Vec::new();
        };
        let declared = &self.program.externs[*id];
        let map = types::bind(&declared.type_params, args.iter().cloned());
        let methods = declared.abstract_methods.iter();
        methods
            .map(|m| AbstractMethod {
                signature: m.signature.substitute(&map),
                ..*m
            })
            .collect()
    }

    /// A method, whose body sees what is declared around the instance, and the instance as `this`.
    fn method(
        &mut self,
        id: InstanceId,
        prototype: &ast::Prototype,
        body: &[ast::Statement],
    ) -> Function {
        let name = &prototype.name;
        let function = self.scoped_of(name, "a method", |c| {
            let this = ast::Ident {
                text: THIS.to_owned(),
                span: name.span,
            };
            c.declare(&this, Entity::Instance(id));
            let signature = c.signature(prototype);
            c.declare_params(&prototype.params, &signature.params);
            let return_type = signature.return_type.clone();
            let body = c.in_body(Place::Function, return_type, |c| c.block(body));
            Function { signature, body }
        });
        function_returns::check(&function, self.diagnostics);
        function
    }

    /// The types and directions of a method are those of the abstract one, whose optional parameters it may leave out.
    fn check_implements(&self, method: &Signature, expected: &Signature) {
        let required = expected.params.iter().filter(|p| p.is_required()).count();
        let fits = (required..=expected.params.len()).contains(&method.params.len());
        let same = |a: &Type, b: &Type| {
            a == b
                || [a, b]
                    .iter()
                    .any(|t| matches!(t, Type::Poison | Type::DontCare))
        };
        let same_params = method
            .params
            .iter()
            .zip(&expected.params)
            .all(|(a, b)| a.direction == b.direction && same(&a.ty, &b.ty));
        if fits && same_params && same(&method.return_type, &expected.return_type) {
            return;
        }
        let message = format!(
            "`{}` has other parameters or another result than the abstract method",
            method.name
        );
        let params: Vec<String> = expected
            .params
            .iter()
            .map(|p| self.shown_param(p))
            .collect();
        let result = self.show(&expected.return_type);
        let help = format!("it is {result} {}({})", expected.name, params.join(", "));
        self.report(
            Diagnostic::error("type-mismatch", method.span, message)
                .note(expected.span, "the abstract method")
                .help(help),
        );
    }

    /// A parameter as it is written in P4, for messages.
    pub(super) fn shown_param(&self, param: &crate::ir::Param) -> String {
        let direction = match param.direction {
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
            Direction::None => "",
        };
        format!("{direction}{} {}", self.show(&param.ty), param.name)
    }
}
