//! Values of annotations. Their bodies are constants already (`check/annotations.rs`).

use num_bigint::BigInt;

use crate::ast::Ident;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::lex::{Tok, Token};
use crate::source::Span;
use crate::value::Value;

/// An annotation of the program, or one that the compiler adds.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The word after `@`.
    pub name: Ident,
    /// The body as it is written, since P4Info lists annotations that it has no field for.
    pub body: Vec<Token>,
    /// Whether the body is in square brackets: `@name[...]`.
    pub structured: bool,
    /// The constants of the body; none if the compiler does not know the annotation.
    pub values: Vec<AnnotationValue>,
}

/// One constant in the body of an annotation.
#[derive(Clone, Debug)]
pub struct AnnotationValue {
    /// The key of `key = value`; none if the value stands alone.
    pub key: Option<String>,
    /// The constant.
    pub value: Value,
}

impl Annotation {
    /// An annotation that the compiler adds itself.
    pub fn new(name: &str, values: Vec<AnnotationValue>, span: Span) -> Annotation {
        Annotation {
            name: Ident {
                text: name.to_owned(),
                span,
            },
            body: Vec::new(),
            structured: false,
            values,
        }
    }
}

impl AnnotationValue {
    /// A value without a key.
    pub fn of(value: Value) -> AnnotationValue {
        AnnotationValue { key: None, value }
    }
}

/// The first annotation of this name.
pub fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.name.text == name)
}

/// Whether there is an annotation of this name.
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

/// The strings in a body that the compiler leaves as it is written.
pub fn strings(body: &[Token]) -> Vec<String> {
    let strings = body.iter().filter_map(|token| match &token.tok {
        Tok::Str(text) => Some(text.to_string()),
        _ => None,
    });
    strings.collect()
}

/// Name of a type or field for the control plane: that of `@name`, or the name in the program.
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

/// The tokens without the annotations of these names (`--disable-annotations`), each of which is reported.
pub fn without(tokens: Vec<Token>, names: &[String], diagnostics: &Diagnostics) -> Vec<Token> {
    if names.is_empty() {
        return tokens;
    }
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let name = match tokens.get(at + 1).map(|t| &t.tok) {
            Some(Tok::Ident(name)) if token.is("@") && names.contains(name) => name,
            _ => {
                kept.push(token.clone());
                at += 1;
                continue;
            }
        };
        let span = token.span.to(tokens[at + 1].span);
        let message = format!("@{name} is ignored, as --disable-annotations says");
        diagnostics.report(Diagnostic::warning("annotation-disabled", span, message));
        at = body_end(&tokens, at + 2);
    }
    kept
}

/// The index behind the body of an annotation, if one begins at `start`.
fn body_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        if token.is("(") || token.is("[") {
            depth += 1;
        } else if depth == 0 {
            return at;
        } else if token.is(")") || token.is("]") {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
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
