//! The checksum controls.

use ebb_bmv2_json as json;

use super::backend::{Backend, numbered};
use crate::elaborate::flat::{FlatKind, FlatStmt};
use crate::ir::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::Type;

impl Backend<'_> {
    pub(super) fn checksums(&mut self) {
        let flat = self.flat;
        self.checksum_statements(&flat.compute_checksum.body, None, "update_checksum");
        self.checksum_statements(&flat.verify_checksum.body, None, "verify_checksum");
    }

    /// Converts calls of the functions whose names begin with `wanted`. `under` is the condition of all `if` around
    /// them; none if there is no `if`.
    fn checksum_statements(&mut self, statements: &[FlatStmt], under: Option<&Expr>, wanted: &str) {
        for statement in statements {
            match &statement.kind {
                FlatKind::If(condition, then, otherwise) => {
                    let both = and(under, condition.clone());
                    self.checksum_statements(then, Some(&both), wanted);
                    let not = ExprKind::Unary(UnaryOp::Not, Box::new(condition.clone()));
                    let negated = Expr::new(not, Type::Bool, condition.span);
                    let neither = and(under, negated);
                    self.checksum_statements(otherwise, Some(&neither), wanted);
                }
                FlatKind::Extern {
                    name,
                    args,
                    object: None,
                    ..
                } if name.starts_with(wanted) => {
                    if let [condition, data, target, algorithm] = &args[..] {
                        let condition = and(under, condition.clone());
                        self.checksum(name, &condition, data, target, algorithm, statement);
                    }
                }
                _ => self.error_with_help(
                    "unsupported-checksum",
                    statement.span,
                    format!("only calls of `{wanted}` are possible here"),
                    "compute values in the ingress or egress control",
                ),
            }
        }
    }

    fn checksum(
        &mut self,
        name: &str,
        condition: &Expr,
        data: &Expr,
        target: &Expr,
        algorithm: &Expr,
        statement: &FlatStmt,
    ) {
        let span = statement.span;
        if !self.are_numbers(name, [target]) || !self.is_data(name, data) {
            return;
        }
        let Some(field) = self.field_of(target) else {
            let message = "a checksum is stored in a header field";
            self.error("unsupported-target", target.span, message);
            return;
        };
        for leaf in data.leaves() {
            if self.field_of(&leaf).is_none() && leaf.as_value().is_none() {
                let message = "checksums are computed over fields and constants";
                let help = "put the value into a metadata field before";
                self.error_with_help("unsupported-checksum", leaf.span, message, help);
                return;
            }
        }
        let mut input = self.fields_of(data, span);
        if name.ends_with("_with_payload") {
            input.push(json::Value::Payload(json::Nothing).into());
        }
        let Some(calculation) = self.calculation(algorithm, input, span) else {
            return;
        };
        let id = self.json.checksums.len() as u32;
        let update = name.starts_with("update");
        let checksum = json::Checksum {
            name: numbered("cksum", id),
            id,
            source_info: self.source_info(span),
            target: field,
            kind: json::ChecksumKind::Generic,
            calculation,
            verify: !update,
            update,
            if_cond: Some(self.condition(condition)),
        };
        self.json.checksums.push(checksum);
    }
}

fn and(a: Option<&Expr>, b: Expr) -> Expr {
    match a {
        None => b,
        Some(a) => {
            let span = b.span;
            Expr::binary(BinaryOp::And, a.clone(), b, Type::Bool, span)
        }
    }
}
