//! Which declarations are used, which hide others, and uses of what is deprecated: warnings about names.
//!
//! A name is used when it is looked up. Top-level declarations of included files need not be, since headers are shared
//! by programs that need different parts of them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::{Checker, Entity, Scope};
use crate::ast;
use crate::diagnostics::Diagnostic;
use crate::lex::Tok;
use crate::source::{PROGRAM, Span};

#[derive(Debug, Default)]
pub(super) struct Uses {
    /// Where names are declared that were looked up.
    used: RefCell<HashSet<Span>>,
    /// A declaration that gets a warning if nothing uses it: place of its name, and kind.
    expected: Vec<Expected>,
    /// Texts of `@deprecated`, by the places of the declared names.
    deprecated: HashMap<Span, String>,
}

#[derive(Debug)]
struct Expected {
    name: String,
    span: Span,
    what: &'static str,
}

impl Uses {
    pub fn mark(&self, declared: Span) {
        self.used.borrow_mut().insert(declared);
    }
}

impl Scope {
    /// The declaration of this name in the scope, or the one whose scope it is.
    fn named(&self, name: &ast::Ident) -> Option<(&'static str, Span)> {
        let found = self.names.get(&name.text);
        let found = found.map(|(entity, span)| (entity.kind(), *span));
        found.or_else(|| self.owned(name))
    }

    fn owned(&self, name: &ast::Ident) -> Option<(&'static str, Span)> {
        let (owner, kind) = self.owner.as_ref()?;
        (owner.text == name.text).then_some((*kind, owner.span))
    }
}

impl Checker<'_> {
    /// From here on, a warning is due if nothing uses this declaration of the current scope.
    pub(super) fn expect_use(&mut self, name: &ast::Ident, what: &'static str) {
        let is_shared = self.scopes.len() == 1 && name.span.file != PROGRAM;
        // Two underscores begin names for the compiler, such as `__v1model_version`.
        if !is_shared && !name.text.starts_with("__") {
            self.uses.expected.push(Expected {
                name: name.text.clone(),
                span: name.span,
                what,
            });
        }
    }

    pub(super) fn expect_params(&mut self, params: &[ast::Param]) {
        for param in params {
            self.expect_use(&param.name, "parameter");
        }
    }

    pub(super) fn report_unused(&self) {
        let used = self.uses.used.borrow();
        let mut unused: Vec<&Expected> = (self.uses.expected.iter())
            .filter(|e| !used.contains(&e.span))
            .collect();
        unused.sort_by_key(|e| (e.span.file, e.span.start));
        for expected in unused {
            let message = format!("{} `{}` is never used", expected.what, expected.name);
            self.report(Diagnostic::warning("unused", expected.span, message));
        }
    }

    /// Reports a declaration that hides another one around it.
    pub(super) fn check_hidden(&self, name: &ast::Ident) {
        let Some((kind, span)) = self.hidden_by(name) else {
            return;
        };
        let message = format!("`{}` hides {kind} of the same name", name.text);
        let warning = Diagnostic::warning("shadow", name.span, message).label("declared again");
        self.report(warning.note(span, "hidden from here on"));
    }

    /// The declaration that one in the current scope hides, with its place: the innermost of its name.
    fn hidden_by(&self, name: &ast::Ident) -> Option<(&'static str, Span)> {
        let mut scopes = self.scopes.iter().rev();
        let own = scopes.next()?;
        own.owned(name)
            .or_else(|| scopes.find_map(|scope| scope.named(name)))
    }

    /// Remembers a declaration that is annotated with `@deprecated`.
    pub(super) fn note_deprecated(&mut self, name: &ast::Ident, annotations: &[ast::Annotation]) {
        let Some(annotation) = annotations.iter().find(|a| a.name.text == "deprecated") else {
            return;
        };
        let texts = annotation.body.iter().filter_map(|token| match &token.tok {
            Tok::Str(text) => Some(text.as_str()),
            _ => None,
        });
        let advice = texts.collect();
        self.uses.deprecated.insert(name.span, advice);
    }

    /// Reports the use of a declaration, whose name stands at `declared`, if it is deprecated.
    pub(super) fn check_deprecated(&self, declared: Span, name: &str, span: Span) {
        let Some(advice) = self.uses.deprecated.get(&declared) else {
            return;
        };
        let message = format!("`{name}` is deprecated");
        let warning = Diagnostic::warning("deprecated", span, message);
        self.report(match advice.is_empty() {
            true => warning,
            false => warning.help(advice.as_str()),
        });
    }

    /// Whether the name stands for functions, of which the arguments of a call choose one.
    pub(super) fn is_overloaded(entity: &Entity) -> bool {
        matches!(entity, Entity::Functions(_) | Entity::ExternFunctions(_))
    }
}
