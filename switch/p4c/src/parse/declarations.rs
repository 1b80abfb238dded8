//! Declarations at the top level and in parsers and controls.

use super::{Failed, Parsed, Parser};
use crate::ast::{
    Annotation, Block, BlockType, Declaration, DeclarationKind, Field, Ident, Prototype,
    SelectCase, State, Statement, StructKind, Transition, Type, TypeKind,
};
use crate::diagnostics::Diagnostic;
use crate::lex::Tok;
use crate::source::Span;

impl Parser<'_> {
    /// Any declaration. Which ones are allowed at a place is checked there.
    pub(super) fn declaration(&mut self) -> Parsed<Declaration> {
        let mut start = self.peek().span;
        let annotations = self.annotations()?;
        let word = match &self.peek().tok {
            Tok::Ident(word) => word.as_str(),
            _ => "",
        };
        let (name, kind) = match word {
            "const" => return self.constant(annotations),
            "struct" => self.structure(StructKind::Struct)?,
            "header" => self.structure(StructKind::Header)?,
            "header_union" => self.structure(StructKind::Union)?,
            "enum" => self.enumeration()?,
            // `error f()` would be a function; `error {` declares members.
            "error" | "match_kind" if self.peek_at(1).is("{") => self.open_enumeration()?,
            "typedef" | "type" => self.alias()?,
            "extern" => self.extern_declaration()?,
            "action" => self.action()?,
            "table" => {
                self.next();
                let name = self.ident("a table name")?;
                (name, DeclarationKind::Table(self.table_properties()?))
            }
            "parser" => self.parser_declaration()?,
            "control" => self.control_declaration()?,
            "package" => self.package()?,
            "value_set" => self.value_set()?,
            _ => {
                start = self.peek().span;
                self.typed_declaration()?
            }
        };
        Ok(Declaration {
            annotations,
            name,
            kind,
            span: start.to(self.last_span()),
        })
    }

    pub(super) fn constant(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        let start = self.expect_word("const")?;
        let (ty, name) = self.typed_name("a constant name")?;
        self.expect("=")?;
        let value = self.expr()?;
        self.expect(";")?;
        Ok(Declaration {
            annotations,
            name,
            kind: DeclarationKind::Const { ty, value },
            span: start.to(self.last_span()),
        })
    }

    /// `type name [= init]` without the `;`.
    pub(super) fn variable(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        let (ty, name) = self.typed_name("a variable name")?;
        let init = self.behind("=", Self::expr)?;
        Ok(Declaration {
            annotations,
            span: ty.span.to(self.last_span()),
            name,
            kind: DeclarationKind::Variable { ty, init },
        })
    }

    /// A declaration that begins with a type: function, instance or variable.
    fn typed_declaration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        if !matches!(self.peek().tok, Tok::Ident(_) | Tok::Punct(".")) {
            return self.expected("a declaration");
        }
        let ty = self.ty()?;
        if self.at("(") {
            let args = self.args()?;
            let name = self.ident("an instance name")?;
            let initializer = self.behind("=", |p| {
                p.expect("{")?;
                let mut members = Vec::new();
                while !p.eat("}") {
                    members.push(p.declaration()?);
                }
                Ok(members)
            })?;
            self.expect(";")?;
            let kind = DeclarationKind::Instance {
                ty,
                args,
                initializer,
            };
            return Ok((name, kind));
        }
        let is_function = matches!(self.peek().tok, Tok::Ident(_))
            && (self.peek_at(1).is("(") || self.peek_at(1).is("<"));
        if is_function {
            let prototype = self.prototype_returning(ty, Vec::new())?;
            let body = self.block()?;
            let name = prototype.name.clone();
            return Ok((name, DeclarationKind::Function { prototype, body }));
        }
        // A misspelt keyword looks like a type name here.
        if let TypeKind::Name { name, .. } = &ty.kind
            && !matches!(self.peek().tok, Tok::Ident(_))
        {
            let message = format!("`{}` does not begin a declaration", name.text);
            let words = [
                "action", "const", "control", "enum", "extern", "header", "package", "parser",
                "struct", "table", "typedef", "apply",
            ];
            self.report(
                Diagnostic::error("syntax", name.span, message)
                    .label("expected a declaration")
                    .suggest(&name.text, words),
            );
            return Err(Failed);
        }
        let name = self.ident("a name")?;
        let ty = self.stacks_of(ty)?;
        let init = self.behind("=", Self::expr)?;
        self.expect(";")?;
        Ok((name, DeclarationKind::Variable { ty, init }))
    }

    fn type_name(&mut self, what: &str) -> Parsed<Ident> {
        let name = self.ident(what)?;
        self.type_names.insert(name.text.clone());
        Ok(name)
    }

    fn structure(&mut self, kind: StructKind) -> Parsed<(Ident, DeclarationKind)> {
        self.next();
        let name = self.type_name("a type name")?;
        let type_params = self.type_params()?;
        self.expect("{")?;
        let fields = self.until_brace(|p| {
            let annotations = p.annotations()?;
            let (ty, name) = p.typed_name("a field name")?;
            p.expect(";")?;
            Ok(Field {
                annotations,
                ty,
                name,
            })
        })?;
        let kind = DeclarationKind::Struct {
            kind,
            type_params,
            fields,
        };
        Ok((name, kind))
    }

    fn enumeration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        self.next();
        // `enum bit<8> Name { A = 1 }` or `enum Name { A }`
        let underlying = if self.peek_at(1).is("{") {
            None
        } else {
            Some(self.ty()?)
        };
        let name = self.type_name("an enum name")?;
        self.expect("{")?;
        let kind = match underlying {
            None => DeclarationKind::Enum {
                members: self.list("}", |p| p.ident("an enum member"))?,
            },
            Some(underlying) => DeclarationKind::SerializableEnum {
                underlying,
                members: self.list("}", |p| {
                    let name = p.ident("an enum member")?;
                    p.expect("=")?;
                    Ok((name, p.expr()?))
                })?,
            },
        };
        Ok((name, kind))
    }

    /// `error { ... }` and `match_kind { ... }` add members wherever they stand.
    fn open_enumeration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        let token = self.next();
        let is_error = token.is_word("error");
        let name = Ident {
            text: if is_error { "error" } else { "match_kind" }.into(),
            span: token.span,
        };
        self.expect("{")?;
        let members = self.list("}", |p| p.ident("a member name"))?;
        let kind = if is_error {
            DeclarationKind::Error { members }
        } else {
            DeclarationKind::MatchKind { members }
        };
        Ok((name, kind))
    }

    fn alias(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        let is_typedef = self.next().is_word("typedef");
        let ty = self.ty()?;
        let name = self.type_name("a type name")?;
        let ty = self.stacks_of(ty)?;
        self.expect(";")?;
        let kind = if is_typedef {
            DeclarationKind::Typedef(ty)
        } else {
            DeclarationKind::NewType(ty)
        };
        Ok((name, kind))
    }

    fn extern_declaration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        self.next();
        let is_object = matches!(self.peek().tok, Tok::Ident(_))
            && (self.peek_at(1).is("{") || self.is_generic_object());
        if !is_object {
            let prototype = self.prototype(Vec::new())?;
            self.expect(";")?;
            return Ok((
                prototype.name.clone(),
                DeclarationKind::ExternFunction(prototype),
            ));
        }
        let name = self.type_name("an extern name")?;
        let type_params = self.type_params()?;
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.eat("}") {
            let annotations = self.annotations()?;
            methods.push(self.method(&name, annotations)?);
        }
        let kind = DeclarationKind::ExternObject {
            type_params,
            methods,
        };
        Ok((name, kind))
    }

    /// `Name<T> {` follows, as against `T<U> name(...)`.
    fn is_generic_object(&mut self) -> bool {
        self.comes(|p| {
            p.ident("a name")?;
            p.type_args()?;
            p.expect("{")
        })
    }

    fn method(&mut self, object: &Ident, annotations: Vec<Annotation>) -> Parsed<Prototype> {
        let is_abstract = self.eat_word("abstract");
        if self.at_word(&object.text) && self.peek_at(1).is("(") {
            let name = self.ident("a constructor")?;
            let params = self.params()?;
            self.expect(";")?;
            let return_type = Type {
                kind: TypeKind::Void,
                span: name.span,
            };
            return Ok(Prototype {
                annotations,
                name,
                type_params: Vec::new(),
                return_type,
                params,
                is_constructor: true,
                is_abstract: false,
            });
        }
        let prototype = self.prototype(annotations)?;
        self.expect(";")?;
        Ok(Prototype {
            is_abstract,
            ..prototype
        })
    }

    fn prototype(&mut self, annotations: Vec<Annotation>) -> Parsed<Prototype> {
        let return_type = self.ty()?;
        self.prototype_returning(return_type, annotations)
    }

    /// The rest of a prototype, after its return type.
    fn prototype_returning(
        &mut self,
        return_type: Type,
        annotations: Vec<Annotation>,
    ) -> Parsed<Prototype> {
        let name = self.ident("a function name")?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(Prototype {
            annotations,
            name,
            type_params,
            return_type,
            params,
            is_constructor: false,
            is_abstract: false,
        })
    }

    fn action(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        self.next();
        let name = self.ident("an action name")?;
        let params = self.params()?;
        let body = self.block()?;
        Ok((name, DeclarationKind::Action { params, body }))
    }

    fn package(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        let (name, ty) = self.block_type("a package name")?;
        self.expect(";")?;
        Ok((name, DeclarationKind::Package(ty)))
    }

    /// `parser Name<T>(params)`, and the same for controls and packages.
    fn block_type(&mut self, what: &str) -> Parsed<(Ident, BlockType)> {
        self.next();
        let name = self.type_name(what)?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        let ty = BlockType {
            type_params,
            params,
        };
        Ok((name, ty))
    }

    /// The body of a parser or control, or the `;` of one that has none.
    fn block_body<C>(
        &mut self,
        code: impl FnOnce(&mut Self, &mut Vec<Declaration>) -> Parsed<C>,
    ) -> Parsed<Option<Block<C>>> {
        if self.eat(";") {
            return Ok(None);
        }
        let constructor_params = match self.at("(") {
            true => self.params()?,
            false => Vec::new(),
        };
        let mut locals = Vec::new();
        let code = code(self, &mut locals)?;
        Ok(Some(Block {
            constructor_params,
            locals,
            code,
        }))
    }

    fn value_set(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        self.next();
        let Some(ty) = self.type_args()?.pop() else {
            return self.expected("an element type");
        };
        self.expect("(")?;
        let size = self.expr()?;
        self.expect(")")?;
        let name = self.ident("a value set name")?;
        self.expect(";")?;
        Ok((name, DeclarationKind::ValueSet { ty, size }))
    }

    fn parser_declaration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        let (name, ty) = self.block_type("a parser name")?;
        let body = self.block_body(Self::parser_states)?;
        Ok((name, DeclarationKind::Parser { ty, body }))
    }

    /// `{ local .. state .. }`
    fn parser_states(&mut self, locals: &mut Vec<Declaration>) -> Parsed<Vec<State>> {
        self.expect("{")?;
        let mut states = Vec::new();
        while !self.at("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            let start = self.pos;
            let parsed = match self.starts_state() {
                true => self.state().map(|s| states.push(s)),
                false => self.declaration().map(|l| locals.push(l)),
            };
            if parsed.is_err() {
                self.skip(start);
            }
        }
        self.next();
        Ok(states)
    }

    fn starts_state(&mut self) -> bool {
        self.comes(|p| {
            p.annotations()?;
            p.expect_word("state")?;
            p.ident("a state")?;
            p.expect("{")
        })
    }

    fn state(&mut self) -> Parsed<State> {
        let annotations = self.annotations()?;
        let start = self.expect_word("state")?;
        let name = self.ident("a state name")?;
        self.expect("{")?;
        let mut body = Vec::new();
        let mut transition = None;
        while !self.at("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            let start = self.pos;
            let parsed = if self.at_word("transition") {
                self.transition().map(|t| transition = Some(t))
            } else {
                self.statement().map(|s| body.push(s))
            };
            if parsed.is_err() {
                self.skip(start);
            }
        }
        self.next();
        Ok(State {
            annotations,
            name,
            body,
            transition,
            span: start.to(self.last_span()),
        })
    }

    fn transition(&mut self) -> Parsed<Transition> {
        let start = self.next().span;
        if !self.at_word("select") {
            let target = self.ident("a state or `select`")?;
            self.expect(";")?;
            return Ok(Transition::Direct(target));
        }
        self.next();
        self.expect("(")?;
        let keys = self.list(")", Self::expr)?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.eat("}") {
            let case_start = self.peek().span;
            let keyset = self.key_sets()?;
            self.expect(":")?;
            let state = self.ident("a state name")?;
            self.expect(";")?;
            cases.push(SelectCase {
                keyset,
                span: case_start.to(state.span),
                state,
            });
        }
        self.eat(";");
        let span: Span = start.to(self.last_span());
        Ok(Transition::Select { keys, cases, span })
    }

    fn control_declaration(&mut self) -> Parsed<(Ident, DeclarationKind)> {
        let (name, ty) = self.block_type("a control name")?;
        let body = self.block_body(Self::control_code)?;
        Ok((name, DeclarationKind::Control { ty, body }))
    }

    /// `{ local .. apply { .. } }`
    fn control_code(&mut self, locals: &mut Vec<Declaration>) -> Parsed<Vec<Statement>> {
        let open = self.expect("{")?;
        let mut apply = None;
        while !self.at("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            if self.at_word("apply") && (self.peek_at(1).is("{") || self.peek_at(1).is("@")) {
                self.next();
                self.annotations()?;
                apply = Some(self.block()?);
                continue;
            }
            let start = self.pos;
            match self.declaration() {
                Ok(local) => locals.push(local),
                Err(Failed) => self.skip(start),
            }
        }
        let close = self.next().span;
        apply.ok_or_else(|| {
            let message = "a control needs an `apply` block";
            let error = Diagnostic::error("missing-apply", open.to(close), message);
            self.report(error.label("no `apply { ... }` in here"));
            Failed
        })
    }
}
