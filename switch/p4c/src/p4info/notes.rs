//! Annotations, structured annotations and documentation of an object.

use num_bigint::BigInt;

use super::message::{Message, Node};
use crate::annotations;
use crate::ast::{Annotation, Expr, ExprKind};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::eval::{self, Value};
use crate::lex::{Tok, Token};
use crate::parse::Parser;
use crate::types::Type;

/// Annotations that P4Info expresses otherwise.
const CONSUMED: &[&str] = &["name", "id", "hidden", "brief", "description"];
/// Of match fields, which are there although they are hidden.
const CONSUMED_OF_FIELDS: &[&str] = &["name", "id", "brief", "description"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Object,
    MatchField,
    /// Of a controller header; P4Info has no documentation for it.
    PacketField,
}

/// Adds what the annotations say to the preamble or field of an object.
pub fn add(out: &mut Message, list: &[Annotation], owner: Owner, diagnostics: &Diagnostics) {
    add_except(out, list, owner, &[], diagnostics);
}

/// As [`add`], without some that are told elsewhere.
pub fn add_except(
    out: &mut Message,
    list: &[Annotation],
    owner: Owner,
    except: &[&str],
    diagnostics: &Diagnostics,
) {
    let consumed = match owner {
        Owner::Object | Owner::PacketField => CONSUMED,
        Owner::MatchField => CONSUMED_OF_FIELDS,
    };
    let shown = |a: &&Annotation| {
        let name = a.name.text.as_str();
        !consumed.contains(&name) && !except.contains(&name)
    };
    let (structured, plain): (Vec<&Annotation>, Vec<&Annotation>) =
        list.iter().filter(shown).partition(|a| a.structured);
    let plain = plain.into_iter().map(|a| {
        let body = annotations::text(&a.body);
        Node::Text(match body.is_empty() {
            true => format!("@{}", a.name.text),
            false => format!("@{}({body})", a.name.text),
        })
    });
    out.repeated("annotations", plain.collect());
    if let Some(doc) = documentation(list)
        && owner != Owner::PacketField
    {
        out.message("doc", doc);
    }
    let structured = structured
        .into_iter()
        .filter_map(|a| match structure(a) {
            Some(message) => Some(Node::Message(message)),
            None => {
                let message = "an annotation in brackets holds constants, or `key = constant` with different keys";
                diagnostics.report(Diagnostic::error("bad-annotation", a.name.span, message));
                None
            }
        })
        .collect();
    out.repeated("structured_annotations", structured);
}

/// `@brief("...")` and `@description("...")`
fn documentation(list: &[Annotation]) -> Option<Message> {
    let mut doc = Message::default();
    for name in ["brief", "description"] {
        if let Some(text) = annotations::string(list, name) {
            doc.text(name, text);
        }
    }
    (!doc.0.is_empty()).then_some(doc)
}

/// `@name[1, true]` or `@name[key = "value"]`; `None` if it is neither.
fn structure(annotation: &Annotation) -> Option<Message> {
    let mut out = Message::default();
    out.text("name", annotation.name.text.clone());
    let mut tokens = annotation.body.clone();
    if tokens.is_empty() {
        return Some(out);
    }
    let is_pair = matches!(tokens[0].tok, Tok::Ident(_)) && tokens.get(1)?.is("=");
    tokens.push(Token {
        tok: Tok::Eof,
        span: annotation.name.span,
        starts_line: true,
        joint: false,
    });
    // What cannot be parsed is reported once, as one annotation.
    let silent = Diagnostics::default();
    let mut parser = Parser::new(&tokens, &silent);
    let mut nodes = Vec::new();
    for (key, value) in parser.annotation_values(is_pair).ok()? {
        let value = scalar(&evaluate(&value)?)?;
        nodes.push(Node::Message(match key {
            None => value,
            Some(key) => {
                let mut pair = Message::default();
                pair.text("key", key.text).message("value", value);
                pair
            }
        }));
    }
    let mut values = Message::default();
    let keys = nodes.iter().filter_map(|node| match node {
        Node::Message(message) => message.0.first(),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    let repeated = |(i, key)| keys[..i].contains(key);
    if is_pair && keys.iter().enumerate().any(repeated) {
        return None;
    }
    if is_pair {
        values.repeated("kv_pairs", nodes);
        out.message("kv_pair_list", values);
    } else {
        values.repeated("expressions", nodes);
        out.message("expression_list", values);
    }
    Some(out)
}

fn scalar(value: &Value) -> Option<Message> {
    let mut out = Message::default();
    match value {
        Value::Int(number) => out.add("int64_value", Node::Signed(i64::try_from(number).ok()?)),
        Value::Bool(value) => out.add("bool_value", Node::Bool(*value)),
        Value::Str(text) => out.text("string_value", text.clone()),
        _ => return None,
    };
    Some(out)
}

/// Constants without names; those of the program are known as macros here.
fn evaluate(expr: &Expr) -> Option<Value> {
    match &expr.kind {
        ExprKind::Number { value, .. } => Some(Value::Int(value.clone())),
        ExprKind::Bool(value) => Some(Value::Bool(*value)),
        ExprKind::Str(text) => Some(Value::Str(text.clone())),
        ExprKind::Unary(op, operand) => eval::unary(*op, &evaluate(operand)?, &Type::Int),
        ExprKind::Binary(op, left, right) => {
            let (left, right) = (evaluate(left)?, evaluate(right)?);
            eval::binary(*op, &left, &right, &Type::Int, 0)?.ok()
        }
        _ => None,
    }
}

/// The first number of an annotation.
pub fn number(list: &[Annotation], name: &str) -> Option<u64> {
    let numbers: Vec<BigInt> = annotations::numbers(list, name);
    u64::try_from(numbers.first()?).ok()
}
