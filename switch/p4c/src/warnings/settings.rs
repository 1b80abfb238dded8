//! Treatment of warnings by the program: `@noWarn("unused")` at a declaration; `@diagnostic("unused", "error")`
//! anywhere, for all of it.

use crate::ast::{
    self, Annotation, Declaration, DeclarationKind as Kind, Param, Statement, StatementKind,
    TableProperty, TablePropertyValue,
};
use crate::diagnostics::{Action, Diagnostic, Diagnostics};
use crate::lex::Tok;
use crate::source::Span;

/// Second string of `@diagnostic`.
const ACTIONS: &[(&str, Action)] = &[
    ("disable", Action::Ignore),
    ("info", Action::Info),
    ("warn", Action::Warn),
    ("error", Action::Error),
];

struct Reader<'a> {
    diagnostics: &'a Diagnostics,
}

pub fn read(tree: &ast::Program, diagnostics: &Diagnostics) {
    let reader = Reader { diagnostics };
    for declaration in &tree.declarations {
        reader.declaration(declaration);
    }
}

impl Reader<'_> {
    /// Annotations of what covers the span.
    fn annotations(&self, annotations: &[Annotation], span: Span) {
        for annotation in annotations {
            match annotation.name.text.as_str() {
                "noWarn" => {
                    for name in texts(annotation) {
                        self.diagnostics.no_warnings_in(span, name.to_owned());
                    }
                }
                "diagnostic" => self.diagnostic(annotation),
                _ => {}
            }
        }
    }

    fn diagnostic(&self, annotation: &Annotation) {
        let setting = match texts(annotation)[..] {
            [name, action] => {
                let found = ACTIONS.iter().find(|(known, _)| *known == action);
                found.map(|(_, action)| (name, *action))
            }
            _ => None,
        };
        match setting {
            Some((name, action)) => self.diagnostics.set_action(name.to_owned(), action),
            None => {
                let span = annotation.name.span;
                let message = "`@diagnostic` takes the name of a warning and what to do about it";
                let help =
                    "for example @diagnostic(\"unused\", \"disable\"); also info, warn, error";
                let warning = Diagnostic::warning("missing", span, message);
                self.diagnostics.report(warning.help(help));
            }
        }
    }

    fn declaration(&self, d: &Declaration) {
        // The name of a declaration of types or blocks stands in its span, and so does all of its body.
        self.annotations(&d.annotations, d.span);
        match &d.kind {
            Kind::Struct { fields, .. } => {
                for field in fields {
                    self.annotations(&field.annotations, field.name.span);
                }
            }
            Kind::ExternFunction(prototype) => {
                self.annotations(&prototype.annotations, d.span);
            }
            Kind::Function { prototype, body } => {
                self.annotations(&prototype.annotations, d.span);
                self.params(&prototype.params);
                self.statements(body);
            }
            Kind::Action { params, body } => {
                self.params(params);
                self.statements(body);
            }
            Kind::Table(properties) => {
                properties.iter().for_each(|p| self.property(p));
            }
            Kind::Control { ty, body } => {
                self.params(&ty.params);
                if let Some(body) = body {
                    body.locals.iter().for_each(|d| self.declaration(d));
                    self.statements(&body.code);
                }
            }
            Kind::Parser { ty, body } => {
                self.params(&ty.params);
                if let Some(body) = body {
                    body.locals.iter().for_each(|d| self.declaration(d));
                    for state in &body.code {
                        self.annotations(&state.annotations, state.span);
                        self.statements(&state.body);
                    }
                }
            }
            _ => {}
        }
    }

    fn property(&self, property: &TableProperty) {
        self.annotations(&property.annotations, property.name.span);
        let parts: Vec<(&[Annotation], Span)> = match &property.value {
            TablePropertyValue::Key(elements) => elements
                .iter()
                .map(|e| (&e.annotations[..], e.expr.span))
                .collect(),
            TablePropertyValue::Entries(entries) => entries
                .iter()
                .map(|e| (&e.annotations[..], e.span))
                .collect(),
            TablePropertyValue::Actions(_) | TablePropertyValue::Expression(_) => Vec::new(),
        };
        for (annotations, span) in parts {
            self.annotations(annotations, span);
            self.annotations(&property.annotations, span);
        }
    }

    fn params(&self, params: &[Param]) {
        for param in params {
            self.annotations(&param.annotations, param.name.span);
        }
    }

    fn statements(&self, statements: &[Statement]) {
        statements.iter().for_each(|s| self.statement(s));
    }

    fn statement(&self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Block { annotations, body } => {
                self.annotations(annotations, statement.span);
                self.statements(body);
            }
            StatementKind::If {
                then, otherwise, ..
            } => {
                self.statement(then);
                if let Some(otherwise) = otherwise {
                    self.statement(otherwise);
                }
            }
            StatementKind::Switch { cases, .. } => {
                let bodies = cases.iter().filter_map(|case| case.body.as_ref());
                bodies.for_each(|body| self.statement(body));
            }
            StatementKind::For { body, .. } | StatementKind::ForIn { body, .. } => {
                self.statement(body);
            }
            StatementKind::Declaration(d) => self.declaration(d),
            _ => {}
        }
    }
}

/// The strings in the body of an annotation.
fn texts(annotation: &Annotation) -> Vec<&str> {
    let tokens = annotation.body.iter();
    let texts = tokens.filter_map(|token| match &token.tok {
        Tok::Str(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
