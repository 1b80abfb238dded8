//! Parsers, controls and packages: their types, and the bodies of parsers and controls.

use std::collections::HashMap;

use super::places::Place;
use super::rules::{distinct_names, parser_states};
use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind as Kind, Transition as Written};
use crate::diagnostics::Diagnostic;
use crate::ir::{
    self, ActionId, Block, BlockId, BlockKind, BlockType, Control, Expr, Parser, SelectCase,
    Signature, State, Stmt, TableId, Target, Transition, ValueSet, ValueSetId,
};
use crate::types::Type;

/// Declarations of a parser or control.
#[derive(Default)]
struct Locals {
    actions: Vec<ActionId>,
    tables: Vec<TableId>,
    value_sets: Vec<ValueSetId>,
    statements: Vec<Stmt>,
}

/// A parser or control with its type; `code` is a parser's states or a control's `apply` block.
struct Checked<C> {
    id: BlockId,
    block: Block,
    locals: Locals,
    code: C,
}

impl Checker<'_> {
    pub(super) fn package(&mut self, d: &ast::Declaration, written: &ast::BlockType) {
        self.annotations(&d.annotations);
        let signature = self.scoped(|c| c.block_signature(&d.name, written));
        let id = self.add_block(BlockKind::Package, signature);
        self.declare(&d.name, Entity::Block(id));
    }

    pub(super) fn control(
        &mut self,
        d: &ast::Declaration,
        ty: &ast::BlockType,
        body: Option<&ast::Block<Vec<ast::Statement>>>,
    ) {
        let checked = self.block_declaration(d, BlockKind::Control, ty, body, |c, apply| {
            c.in_body(Place::Control, Type::Void, |c| c.block(apply))
        });
        if let Some(checked) = checked {
            let control = Control {
                block: checked.block,
                actions: checked.locals.actions,
                tables: checked.locals.tables,
                body: checked.code,
            };
            let id = ir::add(&mut self.program.controls, control);
            self.declare(&d.name, Entity::Control(id, checked.id));
            self.expect_use(&d.name, "control");
        }
    }

    pub(super) fn parser(
        &mut self,
        d: &ast::Declaration,
        ty: &ast::BlockType,
        body: Option<&ast::Block<Vec<ast::State>>>,
    ) {
        let checked = self.block_declaration(d, BlockKind::Parser, ty, body, |c, written| {
            distinct_names::check(written.iter().map(|s| &s.name), c.diagnostics);
            for state in written {
                parser_states::check_name(&state.name, c.diagnostics);
            }
            let mut places = HashMap::new();
            for (place, state) in written.iter().enumerate() {
                places.entry(&state.name.text[..]).or_insert(place);
            }
            let states = c.in_body(Place::ParserState, Type::Void, |c| {
                written.iter().map(|s| c.state(s, &places)).collect()
            });
            let states = start_first(states);
            parser_states::check_start(&d.name, &states, c.diagnostics);
            parser_states::check_ends(&d.name, &states, c.diagnostics);
            states
        });
        if let Some(checked) = checked {
            let parser = Parser {
                block: checked.block,
                value_sets: checked.locals.value_sets,
                states: checked.code,
            };
            let id = ir::add(&mut self.program.parsers, parser);
            self.declare(&d.name, Entity::Parser(id, checked.id));
            self.expect_use(&d.name, "parser");
        }
    }

    /// Common parts of parsers and controls: type, parameters, locals. None if there is only a type, which is then
    /// declared.
    fn block_declaration<W, C>(
        &mut self,
        d: &ast::Declaration,
        kind: BlockKind,
        ty: &ast::BlockType,
        body: Option<&ast::Block<W>>,
        check_code: impl FnOnce(&mut Self, &W) -> C,
    ) -> Option<Checked<C>> {
        let what = match kind {
            BlockKind::Parser => "a parser",
            BlockKind::Control => "a control",
            BlockKind::Package => "a package",
        };
        let (id, checked) = self.scoped_of(&d.name, what, |c| {
            let signature = c.block_signature(&d.name, ty);
            let params = signature.params.clone();
            let id = c.add_block(kind, signature);
            let annotations = c.annotations(&d.annotations);
            let checked = body.map(|body| {
                c.declare_params(&ty.params, &params);
                let constructor_params = c.params(&body.constructor_params);
                c.declare_params(&body.constructor_params, &constructor_params);
                let vars = constructor_params.iter().map(|param| param.var);
                c.constructor_vars.extend(vars);
                let outer = std::mem::take(&mut c.instances);
                let mut locals = c.locals(&body.locals, kind);
                let code = check_code(c, &body.code);
                let block = Block {
                    name: d.name.text.clone(),
                    annotations,
                    params,
                    constructor_params,
                    instances: std::mem::replace(&mut c.instances, outer),
                    locals: std::mem::take(&mut locals.statements),
                    span: d.name.span,
                };
                Checked {
                    id,
                    block,
                    locals,
                    code,
                }
            });
            (id, checked)
        });
        if checked.is_none() {
            self.declare(&d.name, Entity::Block(id));
        }
        checked
    }

    fn add_block(&mut self, kind: BlockKind, signature: Signature) -> BlockId {
        ir::add(&mut self.program.blocks, BlockType { kind, signature })
    }

    /// Declares the type parameters in the current scope.
    fn block_signature(&mut self, name: &ast::Ident, written: &ast::BlockType) -> Signature {
        let type_params = self.type_params(&written.type_params);
        let params = self.params(&written.params);
        Signature {
            type_params,
            ..Signature::of(&name.text, params, name.span)
        }
    }

    fn locals(&mut self, declarations: &[ast::Declaration], kind: BlockKind) -> Locals {
        let in_parser = kind == BlockKind::Parser;
        let mut locals = Locals::default();
        for d in declarations {
            match &d.kind {
                Kind::Const { .. } | Kind::Variable { .. } => {
                    locals.statements.extend(self.local(d))
                }
                Kind::Instance { .. } => self.instance(d, Some(kind)),
                Kind::Action { params, body } if !in_parser => {
                    let id = self.action(d, params, body);
                    locals.actions.push(id);
                }
                Kind::Table(properties) if !in_parser => match self.table(d, properties) {
                    Some(table) => {
                        let id = ir::add(&mut self.program.tables, table);
                        locals.tables.push(id);
                        self.declare(&d.name, Entity::Table(id));
                        self.expect_use(&d.name, "table");
                    }
                    None => self.declare(&d.name, Entity::Const(Expr::poison(d.span))),
                },
                Kind::ValueSet { ty, size } if in_parser => {
                    let mut ty = self.ty(ty);
                    if matches!(ty, Type::Int | Type::String | Type::Void) {
                        let message =
                            format!("a value set has no elements of type `{}`", self.show(&ty));
                        let help =
                            "its elements are numbers of a width, or tuples and structs of them";
                        self.error_with_help("bad-key-type", d.span, message, help);
                        ty = Type::Poison;
                    }
                    let size = self.expr(size);
                    let annotations = self.annotations(&d.annotations);
                    let value_set = ValueSet {
                        name: d.name.text.clone(),
                        annotations,
                        ty,
                        size,
                        span: d.name.span,
                    };
                    let id = ir::add(&mut self.program.value_sets, value_set);
                    locals.value_sets.push(id);
                    self.declare(&d.name, Entity::ValueSet(id));
                    self.expect_use(&d.name, "value set");
                }
                _ => {
                    let message = "this cannot be declared here";
                    let diagnostic = Diagnostic::error("misplaced-declaration", d.span, message);
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

    /// `all` are the names of the states of the parser, with their places.
    fn state(&mut self, state: &ast::State, all: &HashMap<&str, usize>) -> State {
        self.annotations(&state.annotations);
        self.scoped(|c| {
            let body = c.statements(&state.body);
            let transition = match &state.transition {
                // A state without transition rejects (specification, section 13.5).
                None => {
                    let name = &state.name;
                    let message = format!("state `{}` has no transition, so it rejects", name.text);
                    let help = "end it with `transition`, if only with `transition reject;`";
                    let warning = Diagnostic::warning("parser-transition", name.span, message);
                    c.report(warning.help(help));
                    Transition::Direct(Target::Reject)
                }
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

    fn target(&self, name: &ast::Ident, all: &HashMap<&str, usize>) -> Target {
        match name.text.as_str() {
            "accept" => Target::Accept,
            "reject" => Target::Reject,
            text => match all.get(text) {
                Some(place) => Target::State(*place),
                None => {
                    let names = all.keys().copied();
                    let message = format!("there is no state `{text}`");
                    self.unknown(
                        "unknown-state",
                        name,
                        message,
                        names.chain(["accept", "reject"]),
                    );
                    Target::Reject
                }
            },
        }
    }
}

/// Parsing begins in the state `start`, if there is one: it changes places with the first.
fn start_first(mut states: Vec<State>) -> Vec<State> {
    let Some(start) = states.iter().position(|s| s.name == "start") else {
        return states;
    };
    states.swap(0, start);
    let renumber = |target: &mut Target| {
        if let Target::State(i) = target {
            *i = match *i {
                0 => start,
                i if i == start => 0,
                i => i,
            };
        }
    };
    for state in &mut states {
        match &mut state.transition {
            Transition::Direct(target) => renumber(target),
            Transition::Select { cases, .. } => {
                cases.iter_mut().for_each(|c| renumber(&mut c.target));
            }
        }
    }
    states
}
