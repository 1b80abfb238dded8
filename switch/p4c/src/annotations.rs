//! Reading of annotation bodies.

use num_bigint::BigInt;

use crate::ast::Annotation;
use crate::lex::{Tok, Token};

pub fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.name.text == name)
}

pub fn has(annotations: &[Annotation], name: &str) -> bool {
    find(annotations, name).is_some()
}

/// The string of `@annotation("...")`; strings next to each other are joined as in C, and so are those with `++` between.
pub fn string(annotations: &[Annotation], name: &str) -> Option<String> {
    let body = &find(annotations, name)?.body;
    let strings = body.iter().map(|t| match &t.tok {
        Tok::Str(text) => Some(text.as_str()),
        Tok::Punct("++") => Some(""),
        _ => None,
    });
    strings
        .collect::<Option<String>>()
        .filter(|_| !body.is_empty())
}

/// How the controller knows a type or field: `@name`, or as the program does.
pub fn own_name(name: &str, list: &[Annotation]) -> String {
    match string(list, "name") {
        Some(own) => own.strip_prefix('.').unwrap_or(&own).to_owned(),
        None => name.to_owned(),
    }
}

/// The numbers of `@annotation(1, 2)`.
pub fn numbers(annotations: &[Annotation], name: &str) -> Vec<BigInt> {
    find(annotations, name).map_or_else(Vec::new, |a| {
        a.body
            .iter()
            .filter_map(|t| match &t.tok {
                Tok::Number { value, .. } => Some(value.clone()),
                _ => None,
            })
            .collect()
    })
}

/// The body as text, as P4Info lists unknown annotations.
pub fn text(tokens: &[Token]) -> String {
    let mut out = String::new();
    for token in tokens {
        match &token.tok {
            // Lines stay lines, as p4c has them.
            Tok::Str(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                out.push_str(&format!("\"{text}\""));
            }
            Tok::Ident(name) => out.push_str(name),
            Tok::Number { value, .. } => out.push_str(&value.to_string()),
            Tok::Punct(p) => out.push_str(p),
            Tok::Bad(_) | Tok::Eof => {}
        }
        if !token.joint {
            out.push(' ');
        }
    }
    out.trim_end().to_owned()
}
