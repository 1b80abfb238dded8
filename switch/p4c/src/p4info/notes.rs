//! Annotations of an object in P4Info: documentation, structured ones, and the rest as written.

use ebb_p4_proto::config::expression::Value as Scalar;
use ebb_p4_proto::config::structured_annotation::Body;
use ebb_p4_proto::config::{
    Documentation, Expression, ExpressionList, KeyValuePair, KeyValuePairList, StructuredAnnotation,
};
use num_traits::ToPrimitive;

use crate::annotations;
use crate::eval::Value;
use crate::ir::{Annotation, AnnotationValue};

/// Annotations that have fields of their own in every message.
const TOLD: &[&str] = &["name", "id", "brief", "description"];
/// Objects with this one are not in P4Info at all, but for match fields.
pub const HIDDEN: &[&str] = &["hidden"];

/// Each message of P4Info has fields of these names, but not all have all of them.
pub struct Notes {
    pub annotations: Vec<String>,
    pub structured_annotations: Vec<StructuredAnnotation>,
    pub doc: Option<Documentation>,
}

impl Notes {
    /// Annotations and documentation of an object, without the annotations `elsewhere`, for which the caller has
    /// other fields.
    pub fn of(list: &[Annotation], elsewhere: &[&str]) -> Notes {
        let shown = |a: &&Annotation| {
            let name = a.name.text.as_str();
            !TOLD.contains(&name) && !elsewhere.contains(&name)
        };
        let (structured, plain): (Vec<&Annotation>, Vec<&Annotation>) =
            list.iter().filter(shown).partition(|a| a.structured);
        Notes {
            annotations: plain.into_iter().map(as_written).collect(),
            structured_annotations: structured.into_iter().map(structure).collect(),
            doc: documentation(list),
        }
    }
}

fn as_written(annotation: &Annotation) -> String {
    let (name, body) = (&annotation.name.text, annotations::text(&annotation.body));
    match body.is_empty() {
        true => format!("@{name}"),
        false => format!("@{name}({body})"),
    }
}

/// `@brief("...")` and `@description("...")`
fn documentation(list: &[Annotation]) -> Option<Documentation> {
    let brief = annotations::string(list, "brief");
    let description = annotations::string(list, "description");
    (brief.is_some() || description.is_some()).then(|| Documentation {
        brief: brief.unwrap_or_default(),
        description: description.unwrap_or_default(),
    })
}

/// `@name[1, true]` or `@name[key = "value"]`
fn structure(annotation: &Annotation) -> StructuredAnnotation {
    let pair = |v: &AnnotationValue| {
        Some(KeyValuePair {
            key: v.key.clone()?,
            value: Some(scalar(&v.value)),
        })
    };
    let values = &annotation.values;
    let pairs: Vec<KeyValuePair> = values.iter().filter_map(pair).collect();
    let body = match (values.is_empty(), pairs.is_empty()) {
        (true, _) => None,
        (false, false) => Some(Body::KvPairList(KeyValuePairList { kv_pairs: pairs })),
        (false, true) => Some(Body::ExpressionList(ExpressionList {
            expressions: values.iter().map(|v| scalar(&v.value)).collect(),
        })),
    };
    StructuredAnnotation {
        name: annotation.name.text.clone(),
        source_location: None,
        body,
    }
}

fn scalar(value: &Value) -> Expression {
    Expression {
        value: Some(match value {
            Value::Int(number) => Scalar::Int64Value(number.to_i64().unwrap_or(0)),
            Value::Bool(value) => Scalar::BoolValue(*value),
            Value::Str(text) | Value::Error(text) | Value::Member(text) => {
                Scalar::StringValue(text.clone())
            }
        }),
    }
}
