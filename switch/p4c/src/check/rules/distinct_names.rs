//! Names that are declared, given or listed in one place are distinct.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::ast;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{ActionId, Program, Table};
use crate::names::NameList;
use crate::source::Span;

/// The names of the fields of a struct, of parameters, states or the members of an enum.
pub fn check<'a>(names: impl Iterator<Item = &'a ast::Ident>, diagnostics: &Diagnostics) {
    check_all(names, "declared", "first declaration", diagnostics);
}

/// The names of the fields that a value of a struct gives.
pub fn check_given<'a>(names: impl Iterator<Item = &'a ast::Ident>, diagnostics: &Diagnostics) {
    check_all(names, "given", "first here", diagnostics);
}

fn check_all<'a>(
    names: impl Iterator<Item = &'a ast::Ident>,
    what: &str,
    note: &str,
    diagnostics: &Diagnostics,
) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for name in names {
        if let Some(first) = first_of(&mut seen, &name.text[..], name.span) {
            let message = format!("`{}` is {what} twice", name.text);
            diagnostics
                .report(Diagnostic::error("duplicate-name", name.span, message).note(first, note));
        }
    }
}

/// Adds members to the errors or match kinds, which is what `what` says; declarations of them may stand anywhere.
pub fn add_members(
    known: &mut NameList,
    members: &[ast::Ident],
    what: &str,
    diagnostics: &Diagnostics,
) {
    for member in members {
        if !known.add(&member.text) {
            let message = format!("{what} `{}` is declared twice", member.text);
            diagnostics.error("duplicate-name", member.span, message);
        }
    }
}

/// The actions that a table lists.
pub fn check_actions(table: &Table, program: &Program, diagnostics: &Diagnostics) {
    let mut seen: HashMap<ActionId, Span> = HashMap::new();
    for reference in &table.actions {
        if let Some(first) = first_of(&mut seen, reference.action, reference.span) {
            let name = &program.actions[reference.action].name;
            let message = format!("action `{name}` is listed twice");
            diagnostics.report(
                Diagnostic::error("duplicate-name", reference.span, message)
                    .note(first, "first here"),
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

/// Where the same stood before; none if this is the first one.
pub fn first_of<T: Eq + Hash>(seen: &mut HashMap<T, Span>, what: T, span: Span) -> Option<Span> {
    match seen.entry(what) {
        Entry::Occupied(first) => Some(*first.get()),
        Entry::Vacant(free) => {
            free.insert(span);
            None
        }
    }
}
