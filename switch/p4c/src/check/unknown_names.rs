//! Names that are unknown where they are used: why, and what to do.

use std::cmp::Ordering;

use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind as Kind};
use crate::diagnostics::Diagnostic;
use crate::ir::BlockKind;
use crate::preprocess;
use crate::source::Span;

/// Where a name that is unknown here is declared after all.
enum Elsewhere<'a> {
    /// The name is used inside of its own declaration.
    Around(Span),
    Later(Span),
    /// It is declared in this parser or control, and used outside of it.
    Inside(&'a str, Span),
}

impl Checker<'_> {
    /// Looks a name up and reports it if it does not exist.
    pub(super) fn resolve(&self, name: &ast::Ident, global: bool, what: &str) -> Option<Entity> {
        let found = self.lookup(&name.text, global);
        match self.find(&name.text, global) {
            Some((entity, _)) if Self::is_overloaded(entity) => {}
            Some((_, declared)) => self.check_deprecated(*declared, &name.text, name.span),
            None => self.report(self.unknown_name(name, what)),
        }
        found
    }

    /// Whether the program includes an architecture: each declares packages.
    fn has_architecture(&self) -> bool {
        let blocks = self.scopes[0]
            .names
            .values()
            .filter_map(|(entity, _)| match entity {
                Entity::Block(id) => Some(&self.program.blocks[*id]),
                _ => None,
            });
        blocks.into_iter().any(|b| b.kind == BlockKind::Package)
    }

    fn unknown_name(&self, name: &ast::Ident, what: &str) -> Diagnostic {
        let text = &name.text;
        let error = |message: String| Diagnostic::error("unknown-name", name.span, message);
        match elsewhere(self.declarations, name) {
            Some(Elsewhere::Around(span)) => {
                error(format!("`{text}` is not known inside of itself"))
                    .label("used here")
                    .note(span, "this is still being declared")
                    .help("P4 has neither recursion nor loops of declarations")
            }
            Some(Elsewhere::Later(span)) => {
                error(format!("`{text}` is used before its declaration"))
                    .label("not declared here or above")
                    .note(span, "declared here, later")
                    .help("move the declaration up: P4 knows a name only from its declaration on")
            }
            Some(Elsewhere::Inside(owner, span)) => error(format!(
                "`{text}` is declared inside of `{owner}`, and unknown here"
            ))
            .label("not declared here or above")
            .note(span, "declared here")
            .help("give it to the other block as a parameter, or declare it before both"),
            None => {
                let diagnostic = error(format!("there is no {what} `{text}`"))
                    .label("not declared here or above");
                if let Some(library) = preprocess::library_with(text)
                    && !self.has_architecture()
                {
                    let library = match library {
                        "core.p4" => "v1model.p4",
                        "ebb_tofino.p4" => "tna.p4",
                        other => other,
                    };
                    return diagnostic
                        .help(format!("begin the program with `#include <{library}>`"));
                }
                if is_state(self.declarations, name) {
                    let help = format!("it is a state: go there by `transition {text};`");
                    return diagnostic.help(help);
                }
                if let Some(help) = elsewhere_known(text) {
                    return diagnostic.help(help);
                }
                let names = self.scopes.iter().flat_map(|s| &s.names);
                let fits = names.filter(|(_, (entity, _))| entity.may_be(what));
                diagnostic.suggest(text, fits.map(|(name, _)| name.as_str()))
            }
        }
    }
}

impl Entity {
    /// Whether it can stand where `what` is looked for. A table and an action begin calls, so they count as values.
    fn may_be(&self, what: &str) -> bool {
        let is_type = match self {
            Entity::Type(_) | Entity::Generic(_) | Entity::Extern(_) | Entity::Block(_) => true,
            Entity::Control(..) | Entity::Parser(..) => return what != "action",
            _ => false,
        };
        match what {
            "type" => is_type,
            "action" => matches!(self, Entity::Action(_)),
            _ => true,
        }
    }
}

fn elsewhere<'a>(all: &'a [ast::Declaration], name: &ast::Ident) -> Option<Elsewhere<'a>> {
    let here = all.iter().position(|d| d.span.contains(name.span))?;
    let near = locals(&all[here]);
    let use_of_near = near.iter().position(|d| d.span.contains(name.span));
    if let Some(found) = among(near, use_of_near.unwrap_or(near.len()), name) {
        return Some(found);
    }
    if let Some(found) = among(all, here, name) {
        return Some(found);
    }
    let others = all.iter().enumerate().filter(|(i, _)| *i != here);
    others.into_iter().find_map(|(_, outer)| {
        let local = locals(outer).iter().find(|d| d.name.text == name.text)?;
        Some(Elsewhere::Inside(&outer.name.text, local.name.span))
    })
}

/// Where the name stands among declarations, of which the one with the index `here` contains its use. One that stands
/// above would be known, had it been right.
fn among<'a>(
    declarations: &[ast::Declaration],
    here: usize,
    name: &ast::Ident,
) -> Option<Elsewhere<'a>> {
    let found = (declarations.iter()).position(|d| d.name.text == name.text)?;
    let span = declarations[found].name.span;
    match found.cmp(&here) {
        Ordering::Less => None,
        Ordering::Equal => Some(Elsewhere::Around(span)),
        Ordering::Greater => Some(Elsewhere::Later(span)),
    }
}

/// Declarations of a parser or control.
fn locals(d: &ast::Declaration) -> &[ast::Declaration] {
    match &d.kind {
        Kind::Control { body: Some(b), .. } => &b.locals,
        Kind::Parser { body: Some(b), .. } => &b.locals,
        _ => &[],
    }
}

/// Whether the name is that of a state of the parser around it.
fn is_state(all: &[ast::Declaration], name: &ast::Ident) -> bool {
    let around = all.iter().find(|d| d.span.contains(name.span));
    match around.map(|d| &d.kind) {
        Some(Kind::Parser { body: Some(b), .. }) => b.code.iter().any(|s| s.name.text == name.text),
        _ => false,
    }
}

/// Counterpart in P4 of a name of other languages or of P4_14.
fn elsewhere_known(name: &str) -> Option<&'static str> {
    Some(match name {
        "printf" | "print" => "`log_msg(\"text {}\", { value })` writes to the switch's log",
        "drop" => "a packet is dropped by `mark_to_drop(standard_metadata)`",
        "int8_t" | "int16_t" | "int32_t" | "int64_t" => "numbers have a width: int<8>, int<32>",
        "uint8_t" | "uint16_t" | "uint32_t" | "uint64_t" | "byte" | "char" | "short" | "long"
        | "unsigned" => "numbers have a width: bit<8>, bit<32>",
        _ => return None,
    })
}
