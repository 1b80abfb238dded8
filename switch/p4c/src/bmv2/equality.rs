//! `==` and `!=`, also of headers, structs, stacks and tuples (specification, section 8.17).

use ebb_bmv2_json::Value as Json;

use super::backend::Backend;
use crate::ir::{BinaryOp, Expr, ExprKind};
use crate::types::{StructKind, Type};

impl Backend<'_> {
    pub(super) fn equality(&self, op: BinaryOp, left: &Expr, right: &Expr) -> Json {
        if !is_composite(&left.ty) {
            return Json::binary(op.symbol(), self.data(left), self.data(right));
        }
        let equal = self.composite_equal(left, right);
        if op == BinaryOp::Ne {
            Json::unary("not", equal)
        } else {
            equal
        }
    }

    fn composite_equal(&self, left: &Expr, right: &Expr) -> Json {
        let parts = |backend: &Self| {
            left.members()
                .iter()
                .zip(&right.members())
                .map(|(l, r)| backend.equality(BinaryOp::Eq, l, r))
                .reduce(|a, b| Json::binary("and", a, b))
                .unwrap_or(Json::Bool(true))
        };
        match &left.ty {
            // An invalid header or union has no members to compare.
            Type::Struct(_) if is_invalid(left) || is_invalid(right) => {
                let valid = match (is_invalid(left), is_invalid(right)) {
                    (true, true) => return Json::Bool(true),
                    (true, false) => self.validity(right),
                    _ => self.validity(left),
                };
                Json::unary("not", valid)
            }
            // Two headers are equal if both are invalid, or both valid with equal fields.
            Type::Struct(s) if s.kind == StructKind::Header => {
                let (l, r) = (self.validity(left), self.validity(right));
                let neither = Json::binary(
                    "and",
                    Json::unary("not", l.clone()),
                    Json::unary("not", r.clone()),
                );
                let same = Json::binary("and", Json::binary("and", l, r), parts(self));
                Json::binary("or", neither, same)
            }
            _ => parts(self),
        }
    }

    fn validity(&self, header: &Expr) -> Json {
        match header.kind {
            ExprKind::List(_) => Json::Bool(true),
            _ => self.is_valid(header),
        }
    }
}

fn is_invalid(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::InvalidHeader)
}

fn is_composite(ty: &Type) -> bool {
    matches!(ty, Type::Struct(_) | Type::Tuple(_) | Type::Stack(..))
}
