//! Name resolution and type checking: syntax tree in, [`ir::Program`] out.
//!
//! Wrong parts become `Poison`, which fits everywhere, so that checking goes on and one mistake is
//! reported once.

mod abstract_methods;
mod annotations;
mod arguments;
mod blocks;
mod calls;
mod conversions;
mod declarations;
mod expressions;
mod infer;
mod key_names;
mod loops;
mod members;
mod operators;
mod places;
mod rules;
mod select;
mod slices;
mod statements;
mod tables;
mod type_declarations;
mod types;
mod unknown_names;
mod uses;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::architecture::Architecture;
use crate::ast;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{
    self, ActionId, BlockId, ControlId, ExternId, InstanceId, Program, TableId, VarId,
};
use crate::names::NameList;
use crate::source::Span;
use crate::types::{StructType, Type, TypeVar};
use places::{Body, Place};
use uses::Uses;

/// Meaning of a name.
#[derive(Clone, Debug)]
enum Entity {
    Type(Type),
    /// A struct or header with type parameters.
    Generic(Rc<(Vec<TypeVar>, Rc<StructType>)>),
    Extern(ExternId),
    /// A type of parsers or controls, which has no body, or a package.
    Block(BlockId),
    /// A control or parser with a body, and the type it has.
    Control(ControlId, BlockId),
    Parser(ir::ParserId, BlockId),
    Const(ir::Expr),
    Var(VarId),
    Functions(Vec<ir::FunctionId>),
    ExternFunctions(Vec<ir::ExternFunctionId>),
    Action(ActionId),
    Table(TableId),
    Instance(InstanceId),
    ValueSet(ir::ValueSetId),
}

impl Entity {
    fn kind(&self) -> &'static str {
        match self {
            Entity::Type(_) | Entity::Generic(_) => "a type",
            Entity::Extern(_) => "an extern type",
            Entity::Block(_) => "a parser, control or package type",
            Entity::Control(..) => "a control",
            Entity::Parser(..) => "a parser",
            Entity::Const(_) => "a constant",
            Entity::Var(_) => "a variable",
            Entity::Functions(_) | Entity::ExternFunctions(_) => "a function",
            Entity::Action(_) => "an action",
            Entity::Table(_) => "a table",
            Entity::Instance(_) => "an instance",
            Entity::ValueSet(_) => "a value set",
        }
    }

    fn is_type(&self) -> bool {
        matches!(
            self,
            Entity::Type(_)
                | Entity::Generic(_)
                | Entity::Extern(_)
                | Entity::Block(_)
                | Entity::Control(..)
                | Entity::Parser(..)
        )
    }
}

#[derive(Debug, Default)]
struct Scope {
    names: HashMap<String, (Entity, Span)>,
    /// Whose parameters and body it is, and its kind; it is declared after them. None: a block or the whole program.
    owner: Option<(ast::Ident, &'static str)>,
}

pub(crate) struct Checker<'a> {
    diagnostics: &'a Diagnostics,
    /// All declarations of the program, for hints about names that are unknown where they are used.
    declarations: &'a [ast::Declaration],
    program: Program,
    scopes: Vec<Scope>,
    next_type_var: u32,
    match_kinds: NameList,
    body: Body,
    /// Instances of the control or parser being checked.
    instances: Vec<InstanceId>,
    uses: Uses,
    /// Constructor parameters, and constants that depend on them.
    constructor_vars: HashSet<VarId>,
}

/// Checks a whole program. The result is only usable if no error was reported.
pub fn check(program: &ast::Program, diagnostics: &Diagnostics) -> Program {
    let mut checker = Checker {
        diagnostics,
        declarations: &program.declarations,
        program: Program {
            architecture: Architecture::of(program),
            ..Program::default()
        },
        scopes: vec![Scope::default()],
        next_type_var: 0,
        match_kinds: NameList::default(),
        body: Body::new(Place::TopLevel, Type::Void),
        instances: Vec::new(),
        uses: Uses::default(),
        constructor_vars: HashSet::new(),
    };
    for declaration in &program.declarations {
        if diagnostics.too_many() {
            break;
        }
        checker.top_level(declaration);
    }
    if checker.program.main.is_none()
        && let Some((entity, span)) = checker.scopes[0].names.get("main")
        && !matches!(entity, Entity::Const(value) if value.ty.is_poison())
    {
        let message = format!("`main` is {}, not an instance of a package", entity.kind());
        let help = format!(
            "end the program with `{}`",
            checker.program.architecture.main()
        );
        checker.error_with_help("bad-main", *span, message, help);
    }
    if !diagnostics.has_errors() {
        checker.report_unused();
    }
    checker.program
}

impl Checker<'_> {
    fn report(&self, diagnostic: Diagnostic) {
        self.diagnostics.report(diagnostic);
    }

    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, span, message);
    }

    fn error_with_help(
        &self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.diagnostics.error_with_help(code, span, message, help);
    }

    /// Reports a name that is none of `known`, of which one may be meant.
    fn unknown<'b>(
        &self,
        code: &'static str,
        name: &ast::Ident,
        message: String,
        known: impl IntoIterator<Item = &'b str>,
    ) {
        self.report(Diagnostic::error(code, name.span, message).suggest(&name.text, known));
    }

    /// Whether the expression can be written to; what cannot has been reported.
    fn check_lvalue(&self, expr: &ir::Expr) -> bool {
        rules::lvalues::check(expr, &self.program, self.diagnostics)
    }

    fn show(&self, ty: &Type) -> String {
        self.program.type_name(ty)
    }

    /// Runs `body` in a new innermost scope.
    fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Scope::default());
        let result = body(self);
        self.scopes.pop();
        result
    }

    /// The same for parameters and body of what has this name.
    fn scoped_of<T>(
        &mut self,
        owner: &ast::Ident,
        kind: &'static str,
        body: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.scoped(|c| {
            if let Some(scope) = c.scopes.last_mut() {
                scope.owner = Some((owner.clone(), kind));
            }
            body(c)
        })
    }

    fn declare(&mut self, name: &ast::Ident, entity: Entity) {
        self.check_hidden(name);
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        if let Some((existing, first)) = scope.names.get_mut(&name.text) {
            match (existing, &entity) {
                // Functions may be overloaded by their parameters.
                (Entity::Functions(all), Entity::Functions(new)) => all.extend(new),
                (Entity::ExternFunctions(all), Entity::ExternFunctions(new)) => all.extend(new),
                _ => {
                    let first = *first;
                    let message = format!("`{}` is declared twice", name.text);
                    self.report(
                        Diagnostic::error("duplicate-name", name.span, message)
                            .label("second declaration")
                            .note(first, "first declaration"),
                    );
                }
            }
            return;
        }
        scope.names.insert(name.text.clone(), (entity, name.span));
    }

    /// Meaning of a name, which counts as used from now on.
    fn lookup(&self, name: &str, global: bool) -> Option<Entity> {
        let (entity, span) = self.find(name, global)?;
        self.uses.mark(*span);
        Some(entity.clone())
    }

    /// Meaning of a name, with the place of its declaration.
    fn find(&self, name: &str, global: bool) -> Option<&(Entity, Span)> {
        let scopes = if global {
            &self.scopes[..1]
        } else {
            &self.scopes[..]
        };
        scopes.iter().rev().find_map(|s| s.names.get(name))
    }

    fn new_var(&mut self, name: &ast::Ident, ty: Type, writable: bool) -> VarId {
        let var = ir::Var {
            name: name.text.clone(),
            ty,
            span: name.span,
            writable,
        };
        ir::add(&mut self.program.vars, var)
    }

    fn new_type_var(&mut self, name: &str) -> TypeVar {
        self.next_type_var += 1;
        TypeVar {
            id: self.next_type_var,
            name: name.into(),
        }
    }

    /// Declares type parameters in the current scope.
    fn type_params(&mut self, params: &[ast::Ident]) -> Vec<TypeVar> {
        params
            .iter()
            .map(|param| {
                let var = self.new_type_var(&param.text);
                self.declare(param, Entity::Type(Type::Var(var.clone())));
                var
            })
            .collect()
    }
}
