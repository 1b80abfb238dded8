//! What is declared, given or listed in one place has different names.

use crate::ast;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Program, Table};

/// The names of the fields of a struct, of parameters, states or the members of an enum.
pub fn check<'a>(names: impl Iterator<Item = &'a ast::Ident>, diagnostics: &Diagnostics) {
    let mut seen: Vec<&ast::Ident> = Vec::new();
    for name in names {
        if let Some(first) = seen.iter().find(|s| s.text == name.text) {
            let message = format!("`{}` is declared twice", name.text);
            diagnostics.report(
                Diagnostic::error("duplicate-name", name.span, message)
                    .note(first.span, "first declaration"),
            );
        }
        seen.push(name);
    }
}

/// Adds members to the errors or match kinds, which is what `what` says; declarations of them may stand anywhere.
pub fn add_members(
    known: &mut Vec<String>,
    members: &[ast::Ident],
    what: &str,
    diagnostics: &Diagnostics,
) {
    for member in members {
        if known.contains(&member.text) {
            let message = format!("{what} `{}` is declared twice", member.text);
            diagnostics.error("duplicate-name", member.span, message);
        } else {
            known.push(member.text.clone());
        }
    }
}

/// The actions that a table lists.
pub fn check_actions(table: &Table, program: &Program, diagnostics: &Diagnostics) {
    for (i, reference) in table.actions.iter().enumerate() {
        let before = &table.actions[..i];
        if let Some(first) = before.iter().find(|r| r.action == reference.action) {
            let name = &program.actions[reference.action].name;
            let message = format!("action `{name}` is listed twice");
            diagnostics.report(
                Diagnostic::error("duplicate-name", reference.span, message)
                    .note(first.span, "first here"),
            );
        }
    }
}

/// The properties of a table.
pub fn check_properties(properties: &[ast::TableProperty], diagnostics: &Diagnostics) {
    for (i, property) in properties.iter().enumerate() {
        let name = &property.name;
        let mut before = properties[..i].iter().map(|p| &p.name);
        if let Some(first) = before.find(|n| n.text == name.text) {
            let message = format!("the table has `{}` already", name.text);
            diagnostics.report(
                Diagnostic::error("duplicate-name", name.span, message)
                    .note(first.span, "first given here")
                    .help("put both into one"),
            );
        }
    }
}
