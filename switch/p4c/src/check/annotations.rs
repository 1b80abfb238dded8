//! Annotations: what stands in them, as constants of the program.
//!
//! Every annotation of the program passes here, whether somebody reads it or not:
//!
//! ```text
//! const bit<8> KEEP = 2;  @field_list(KEEP, 1 + 2)   ==>   field_list: [2, 3]
//!                         @mine(x + )                ==>   mine: [], and its text for P4Info
//! ```

use super::Checker;
use crate::ast;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::eval::Value;
use crate::ir::{Annotation, AnnotationValue};
use crate::lex::{Tok, Token};
use crate::parse::Parser;
use crate::source::Span;
use crate::types::Type;

/// Form of the body of an annotation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nothing,
    Text,
    /// One number from 0 to this limit, which P4Info or the JSON sets.
    Number(u32),
    Numbers,
    /// `key = "text", ..`
    Texts,
    /// `key = number, ..`
    Settings,
    MatchKind,
    /// `"uri", bit<W>`, `"uri", W` or `"uri", string`
    Translation,
    /// Body of a structured annotation that only P4Info lists: `@a[1, "b"]` or `@a[key = value]`.
    Scalars,
}

/// The largest `int32`, the type that most numbers of P4Info have.
const INT32_MAX: u32 = i32::MAX as u32;

impl Shape {
    /// Form of the annotation of a name; none if the compiler does not know it, and P4Info lists it as it is
    /// written.
    fn of(name: &str) -> Option<Shape> {
        Some(match name {
            "atomic" | "defaultonly" | "hidden" | "metadata" | "optional" | "tableonly" => {
                Shape::Nothing
            }
            "alias"
            | "brief"
            | "controller_header"
            | "deprecated"
            | "description"
            | "name"
            | "noWarn"
            | "selector_size_semantics" => Shape::Text,
            "id" => Shape::Number(u32::MAX),
            "max_group_size" | "max_member_weight" | "priority" => Shape::Number(INT32_MAX),
            "field_list" => Shape::Numbers,
            "pkginfo" => Shape::Texts,
            "platform_property" => Shape::Settings,
            "match" => Shape::MatchKind,
            "p4runtime_translation" => Shape::Translation,
            _ => return None,
        })
    }

    fn has_keys(self) -> bool {
        matches!(self, Shape::Texts | Shape::Settings)
    }

    /// The part of a message that says what the annotation needs.
    fn needs(self) -> &'static str {
        match self {
            Shape::Nothing => "takes no value",
            Shape::Text => "needs a string",
            Shape::Number(u32::MAX) => "needs an integer from 0 to 4294967295",
            Shape::Number(_) => "needs an integer from 0 to 2147483647",
            Shape::Numbers => "needs integers from 0 to 255, which are numbers of field lists",
            Shape::Texts => "needs `key = \"string\"`",
            Shape::Settings => "needs `key = integer`, from 0 to 2147483647",
            Shape::MatchKind => "needs a match kind",
            Shape::Translation => "needs a URI, and `bit<W>` or `string`",
            Shape::Scalars => {
                "in brackets holds constants, or `key = constant` with different keys"
            }
        }
    }

    fn takes(self, value: &Value) -> bool {
        match self {
            Shape::Text | Shape::Texts => matches!(value, Value::Str(_)),
            Shape::Number(limit) => is_number(value, limit),
            Shape::Numbers => is_number(value, 255),
            Shape::Settings => is_number(value, INT32_MAX),
            Shape::Scalars => match value {
                // P4Info has 64 bits for a number.
                Value::Int(number) => i64::try_from(number).is_ok(),
                Value::Str(_) | Value::Bool(_) => true,
                _ => false,
            },
            Shape::Nothing | Shape::MatchKind | Shape::Translation => false,
        }
    }
}

fn is_number(value: &Value, limit: u32) -> bool {
    match value {
        Value::Int(number) => u32::try_from(number).is_ok_and(|n| n <= limit),
        _ => false,
    }
}

impl Checker<'_> {
    pub(super) fn annotations(&mut self, written: &[ast::Annotation]) -> Vec<Annotation> {
        let repeats = |i: usize, name: &str| {
            let shape = Shape::of(name);
            // Each `@noWarn` is about a warning of its own.
            shape.is_some_and(|s| s != Shape::Nothing && name != "noWarn")
                && written[..i].iter().any(|a| a.name.text == name)
        };
        let mut annotations = Vec::new();
        for (i, annotation) in written.iter().enumerate() {
            let name = &annotation.name;
            if repeats(i, &name.text) {
                let message = format!("`@{}` is here twice: the first one counts", name.text);
                self.report(Diagnostic::warning(
                    "repeated-annotation",
                    name.span,
                    message,
                ));
            }
            annotations.push(Annotation {
                name: name.clone(),
                body: annotation.body.clone(),
                structured: annotation.structured,
                values: self.annotation_values(annotation),
            });
        }
        annotations
    }

    fn annotation_values(&mut self, annotation: &ast::Annotation) -> Vec<AnnotationValue> {
        let shape = match Shape::of(&annotation.name.text) {
            Some(shape) => shape,
            None if annotation.structured => Shape::Scalars,
            None => return Vec::new(),
        };
        // Errors inside were reported there.
        let before = self.diagnostics.error_count();
        match self.values_of_shape(annotation, shape) {
            Some(values) => values,
            None => {
                if self.diagnostics.error_count() == before {
                    let name = &annotation.name.text;
                    let message = match shape {
                        Shape::Scalars => format!("an annotation {}", shape.needs()),
                        _ => format!("@{name} {}", shape.needs()),
                    };
                    self.error("bad-annotation", place(annotation), message);
                }
                Vec::new()
            }
        }
    }

    /// The constants of a body of this shape; none if it holds something else.
    fn values_of_shape(
        &mut self,
        annotation: &ast::Annotation,
        shape: Shape,
    ) -> Option<Vec<AnnotationValue>> {
        let tokens = with_joined_strings(annotation);
        let body = &tokens[..tokens.len() - 1];
        match shape {
            Shape::Nothing => return body.is_empty().then(Vec::new),
            Shape::MatchKind => return self.match_kind(body),
            Shape::Translation => return self.translation(&tokens),
            Shape::Numbers | Shape::Scalars if body.is_empty() => return Some(Vec::new()),
            _ => {}
        }
        let is_pair =
            matches!(body.first()?.tok, Tok::Ident(_)) && body.get(1).is_some_and(|t| t.is("="));
        if is_pair != shape.has_keys() && shape != Shape::Scalars {
            return None;
        }
        let values = self.constants(&tokens, is_pair)?;
        let all_fit = values.iter().all(|v| shape.takes(&v.value));
        let is_one = matches!(shape, Shape::Text | Shape::Number(_));
        let repeated = |i: usize, v: &AnnotationValue| {
            let earlier = values[..i].iter().filter_map(|w| w.key.as_deref());
            v.key.is_some() && earlier.into_iter().any(|key| v.key.as_deref() == Some(key))
        };
        let any_repeated = values.iter().enumerate().any(|(i, v)| repeated(i, v));
        (all_fit && !any_repeated && (values.len() == 1 || !is_one)).then_some(values)
    }

    /// The expressions of a body as constants.
    fn constants(&mut self, tokens: &[Token], with_keys: bool) -> Option<Vec<AnnotationValue>> {
        // An annotation that cannot be parsed is reported once, as a whole.
        let silent = Diagnostics::default();
        let parsed = Parser::new(tokens, &silent)
            .annotation_values(with_keys)
            .ok()?;
        let mut values = Vec::new();
        for (key, expr) in parsed {
            let checked = self.expr(&expr);
            values.push(AnnotationValue {
                key: key.map(|k| k.text),
                value: checked.as_value()?.clone(),
            });
        }
        Some(values)
    }

    fn match_kind(&self, body: &[Token]) -> Option<Vec<AnnotationValue>> {
        match body {
            [
                Token {
                    tok: Tok::Ident(kind),
                    ..
                },
            ] if self.match_kinds.contains(kind) => {
                Some(vec![AnnotationValue::of(Value::Member(kind.clone()))])
            }
            _ => None,
        }
    }

    /// The values of `@p4runtime_translation`: the URI, and the width in bits unless the controller sees strings.
    fn translation(&mut self, tokens: &[Token]) -> Option<Vec<AnnotationValue>> {
        let comma = tokens.iter().position(|t| t.is(","))?;
        let (uri, end) = (&tokens[..comma], tokens.last()?);
        let [
            Token {
                tok: Tok::Str(uri), ..
            },
        ] = uri
        else {
            return None;
        };
        let uri = AnnotationValue::of(Value::Str(uri.clone()));
        let silent = Diagnostics::default();
        let rest = &tokens[comma + 1..];
        match rest.first()? {
            first if first.is_word("string") && rest.len() == 2 => Some(vec![uri]),
            first if first.is_word("bit") => {
                let written = Parser::new(rest, &silent).whole_type().ok()?;
                let Type::Bits { width, .. } = self.ty(&written) else {
                    return None;
                };
                Some(vec![uri, AnnotationValue::of(Value::Int(width.into()))])
            }
            first if std::ptr::eq(first, end) => None,
            _ => match &self.constants(rest, false)?[..] {
                [width] if is_number(&width.value, INT32_MAX) => Some(vec![uri, width.clone()]),
                _ => None,
            },
        }
    }
}

/// The tokens of the body with an `Eof` behind them. Strings next to each other are one, as in C.
fn with_joined_strings(annotation: &ast::Annotation) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for token in &annotation.body {
        match (tokens.last_mut().map(|t| &mut t.tok), &token.tok) {
            (Some(Tok::Str(text)), Tok::Str(more)) => text.push_str(more),
            _ => tokens.push(token.clone()),
        }
    }
    tokens.push(Token {
        tok: Tok::Eof,
        span: annotation.name.span,
        starts_line: true,
        joint: false,
    });
    tokens
}

/// Where the body stands, or the name of an annotation without a body.
fn place(annotation: &ast::Annotation) -> Span {
    match (annotation.body.first(), annotation.body.last()) {
        (Some(first), Some(last)) if first.span.file == last.span.file => first.span.to(last.span),
        _ => annotation.name.span,
    }
}
