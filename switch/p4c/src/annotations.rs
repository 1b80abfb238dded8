//! What annotations say. Their bodies are constants already (`check/annotations.rs`).

use num_bigint::BigInt;

use crate::eval::Value;
use crate::ir::Annotation;
use crate::lex::{Tok, Token};

pub fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.name.text == name)
}

pub fn has(annotations: &[Annotation], name: &str) -> bool {
    find(annotations, name).is_some()
}

/// The string of `@annotation("...")`.
pub fn string(annotations: &[Annotation], name: &str) -> Option<String> {
    match &find(annotations, name)?.values.first()?.value {
        Value::Str(text) => Some(text.clone()),
        _ => None,
    }
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
    let values = find(annotations, name).map_or(&[][..], |a| &a.values[..]);
    let number = |value: &Value| match value {
        Value::Int(number) => Some(number.clone()),
        _ => None,
    };
    values.iter().filter_map(|v| number(&v.value)).collect()
}

/// The number of `@annotation(1)`.
pub fn number(annotations: &[Annotation], name: &str) -> Option<u64> {
    u64::try_from(numbers(annotations, name).first()?).ok()
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
