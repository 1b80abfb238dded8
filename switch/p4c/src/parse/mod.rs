//! Tokens to syntax tree: a recursive-descent parser that goes on after an error.
//!
//! Two places of the P4 grammar need to know whether a name is a type: `(Name) x` is a cast if it is,
//! and `f<T>(x)` is a generic call if what stands between the angles can be types. The parser keeps the
//! set of type names seen so far for the first and tries the second.

mod declarations;
mod expressions;
mod hints;
mod statements;
mod tables;
mod types;

use std::collections::HashSet;

use crate::ast::{Annotation, Ident, Program};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::lex::{Tok, Token};
use crate::source::Span;

/// An error, which has been reported; the caller skips to a place where parsing can go on.
pub(crate) struct Failed;

pub(crate) type Parsed<T> = Result<T, Failed>;

/// Words that can never be names (specification, section 6.3.1, without the contextual ones).
const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
    "_",
];

/// The most levels of expressions, types and statements; deeper ones are refused, to save the stack.
const MAX_DEPTH: usize = 120;

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    pos: usize,
    depth: usize,
    diagnostics: &'a Diagnostics,
    type_names: HashSet<String>,
    /// Whether a construct is only tried: then errors are not reported.
    trying: bool,
}

/// `tokens` must end with `Eof`.
pub fn parse(tokens: &[Token], diagnostics: &Diagnostics) -> Program {
    let mut parser = Parser::new(tokens, diagnostics);
    let mut declarations = Vec::new();
    while !parser.at_end() && !diagnostics.too_many() {
        if parser.eat(";") {
            continue;
        }
        let start = parser.pos;
        match parser.declaration() {
            Ok(declaration) => declarations.push(declaration),
            Err(Failed) => {
                parser.skip(start);
                parser.eat("}");
            }
        }
    }
    Program { declarations }
}

impl<'a> Parser<'a> {
    pub(crate) fn new(tokens: &'a [Token], diagnostics: &'a Diagnostics) -> Self {
        Parser {
            tokens,
            pos: 0,
            depth: 0,
            diagnostics,
            type_names: HashSet::new(),
            trying: false,
        }
    }

    fn peek(&self) -> &'a Token {
        // The last token is Eof and is never passed.
        &self.tokens[self.pos.min(self.tokens.len() - 1)]
    }

    fn peek_at(&self, ahead: usize) -> &'a Token {
        &self.tokens[(self.pos + ahead).min(self.tokens.len() - 1)]
    }

    fn at_end(&self) -> bool {
        matches!(self.peek().tok, Tok::Eof)
    }

    fn next(&mut self) -> &'a Token {
        let token = self.peek();
        if !self.at_end() {
            self.pos += 1;
        }
        token
    }

    /// The span of the token before the current one.
    fn last_span(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    fn at(&self, punct: &str) -> bool {
        self.peek().is(punct)
    }

    fn at_word(&self, word: &str) -> bool {
        self.peek().is_word(word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.at(punct);
        if found {
            self.next();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.next();
        }
        found
    }

    fn report(&self, diagnostic: Diagnostic) {
        if !self.trying {
            self.diagnostics.report(diagnostic);
        }
    }

    /// Reports that something else was expected at the current token.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = self.peek();
        let message = format!("expected {what}, found {}", found.describe());
        let mut diagnostic =
            Diagnostic::error("syntax", found.span, message).label(format!("expected {what}"));
        if let Some(hint) = self.hint(what) {
            diagnostic = diagnostic.help(hint);
        }
        if let Tok::Ident(word) = &found.tok
            && RESERVED.contains(&word.as_str())
            && !found.starts_line
        {
            diagnostic = diagnostic.help(format!("`{word}` is a keyword, and no name"));
        }
        // A missing `;` or `)` belongs behind the last token, not on the next line.
        let is_closing = [";", ")", "}", ","]
            .iter()
            .any(|p| what == format!("`{p}`"));
        if is_closing && found.starts_line && self.pos > 0 {
            let last = self.last_span();
            diagnostic = diagnostic.note(last, format!("{what} is missing after this"));
        }
        self.report(diagnostic);
        Err(Failed)
    }

    fn expect(&mut self, punct: &str) -> Parsed<Span> {
        if self.at(punct) {
            return Ok(self.next().span);
        }
        let failed = self.expected(&format!("`{punct}`"));
        // A forgotten `;` at the end of a line is as good as there: the next line may have its own error.
        if punct == ";" && self.peek().starts_line && !self.trying {
            return Ok(self.last_span());
        }
        failed
    }

    fn expect_word(&mut self, word: &str) -> Parsed<Span> {
        if self.at_word(word) {
            Ok(self.next().span)
        } else {
            self.expected(&format!("`{word}`"))
        }
    }

    fn ident(&mut self, what: &str) -> Parsed<Ident> {
        match &self.peek().tok {
            Tok::Ident(name) if !RESERVED.contains(&name.as_str()) => self.member_name(),
            Tok::Ident(name) => {
                let message = format!("expected {what}, but `{name}` is a keyword of P4");
                let mut diagnostic =
                    Diagnostic::error("syntax", self.peek().span, message).label("reserved word");
                diagnostic.help = self.keyword_hint(name, what);
                self.report(diagnostic);
                Err(Failed)
            }
            _ => self.expected(what),
        }
    }

    /// Names after a dot may be any word: `error`, `apply`, `default`...
    fn member_name(&mut self) -> Parsed<Ident> {
        match &self.peek().tok {
            Tok::Ident(name) => Ok(Ident {
                text: name.clone(),
                span: self.next().span,
            }),
            _ => self.expected("a name"),
        }
    }

    /// Runs `body` one level deeper and refuses absurd nesting.
    fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("this is nested more than {MAX_DEPTH} levels deep");
            self.report(Diagnostic::error("too-deep", self.peek().span, message));
            return Err(Failed);
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    /// Tries `body` silently; on failure the position is as before.
    fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        let (pos, was_trying, depth) = (self.pos, self.trying, self.depth);
        self.trying = true;
        let result = body(self);
        self.trying = was_trying;
        self.depth = depth;
        if result.is_err() {
            self.pos = pos;
        }
        result.ok()
    }

    /// Whether `body` could be parsed here; the position stays.
    fn comes<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> bool {
        let pos = self.pos;
        let found = self.attempt(body).is_some();
        self.pos = pos;
        found
    }

    /// The item behind `punct`, if that comes next.
    fn behind<T>(
        &mut self,
        punct: &str,
        item: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<Option<T>> {
        match self.eat(punct) {
            true => item(self).map(Some),
            false => Ok(None),
        }
    }

    /// `item, item, ... close`; the opening token is already read.
    fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.at(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                break;
            }
        }
        if !self.at(close) {
            return self.expected(&format!("`,` or `{close}`"));
        }
        self.next();
        Ok(items)
    }

    /// After an error in something that began at token `start`: goes on behind its `;` or last `}`, or before the
    /// `}` of the block around it.
    fn skip(&mut self, start: usize) {
        let mut depth = 0usize;
        for token in &self.tokens[start.min(self.pos)..self.pos] {
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth = depth.saturating_sub(1);
            }
        }
        while !self.at_end() {
            if self.at("}") && depth == 0 {
                return;
            }
            let token = self.next();
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            } else if token.is(";") && depth == 0 {
                return;
            }
        }
    }

    /// `item item ... }`, the opening brace is already read; an error in an item costs no other.
    fn until_brace<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            if self.diagnostics.too_many() {
                return Err(Failed);
            }
            let start = self.pos;
            match item(self) {
                Ok(item) => items.push(item),
                Err(Failed) if self.trying => return Err(Failed),
                // The `}` is missing, and what follows has nothing to do with it.
                Err(Failed) if self.begins_declaration() => break,
                Err(Failed) => self.skip(start),
            }
        }
        Ok(items)
    }

    pub(crate) fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut list = Vec::new();
        while self.at("@") {
            self.next();
            let mut name = self.member_name()?;
            let mut body = Vec::new();
            let is_pragma = name.text == "pragma";
            let structured = self.at("[") && !is_pragma;
            if is_pragma {
                // The old form has the name next, and ends with its line.
                name = self.member_name()?;
                while !self.peek().starts_line && !self.at_end() {
                    body.push(self.next().clone());
                }
            } else if self.at("(") || self.at("[") {
                body = self.balanced()?;
            }
            list.push(Annotation {
                name,
                body,
                structured,
            });
        }
        Ok(list)
    }

    /// A type and nothing else.
    pub(crate) fn whole_type(&mut self) -> Parsed<crate::ast::Type> {
        let ty = self.ty()?;
        match self.at_end() {
            true => Ok(ty),
            false => self.expected("the end of the type"),
        }
    }

    /// The body of an annotation: `value, ..` or `key = value, ..`.
    pub(crate) fn annotation_values(
        &mut self,
        with_keys: bool,
    ) -> Parsed<Vec<(Option<Ident>, crate::ast::Expr)>> {
        let mut values = Vec::new();
        while !self.at_end() {
            let key = match with_keys {
                true => {
                    let key = self.ident("a key")?;
                    self.expect("=")?;
                    Some(key)
                }
                false => None,
            };
            values.push((key, self.expr()?));
            if !self.eat(",") && !self.at_end() {
                return self.expected("`,`");
            }
        }
        Ok(values)
    }

    /// Everything between the bracket at the current position and its partner.
    fn balanced(&mut self) -> Parsed<Vec<Token>> {
        let open = self.next().span;
        let mut depth = 1usize;
        let mut body = Vec::new();
        loop {
            if self.at_end() {
                self.report(
                    Diagnostic::error("syntax", open, "this bracket is never closed")
                        .label("opened here"),
                );
                return Err(Failed);
            }
            let token = self.next();
            if ["(", "[", "{"].iter().any(|p| token.is(p)) {
                depth += 1;
            } else if [")", "]", "}"].iter().any(|p| token.is(p)) {
                depth -= 1;
                if depth == 0 {
                    return Ok(body);
                }
            }
            body.push(token.clone());
        }
    }
}

#[cfg(test)]
mod tests;
