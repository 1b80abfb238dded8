//! Expressions.
//!
//! BMv2 computes with integers of any size, so every result that could leave its type is brought back:
//! `(a + b) & 0xff`, or `two_comp_mod(a + b, 8)` for signed types.

use ebb_bmv2_json::Value as Json;
use num_bigint::BigInt;

use super::backend::{Backend, hex_value};
use super::layout::Place;
use crate::eval::{self, Value};
use crate::ir::{BinaryOp, Callee, Expr, ExprKind, UnaryOp};
use crate::types::Type;

/// Operands of `a + b + c ..` that are nested in each other as they are written. More of them become a balanced tree,
/// since readers bound the depth of JSON: ebb-switch at 128 levels, BMv2 at 1000.
const LONGEST_CHAIN: usize = 8;

impl Backend<'_> {
    /// An argument of a primitive: numbers and fields as they are, everything else wrapped as an expression.
    pub(super) fn argument(&self, expr: &Expr) -> Json {
        match self.place(expr) {
            Some(Place::Field(field)) => Json::Field(field),
            Some(Place::ActionData(i)) => Json::RuntimeData(i),
            Some(Place::Header(name)) => Json::Header(name),
            Some(Place::Stack(name)) => Json::HeaderStack(name),
            Some(Place::Union(name)) => Json::HeaderUnion(name),
            Some(Place::UnionStack(name)) => Json::HeaderUnionStack(name),
            Some(Place::StackField(field)) => Json::StackField(field).wrapped(),
            Some(Place::StackLast(stack)) => {
                let stack = Json::HeaderStack(stack);
                let last = Json::unary("last_stack_index", stack.clone());
                Json::binary("dereference_header_stack", stack, last).wrapped()
            }
            _ if expr.as_value().is_some() => self.data(expr),
            _ => self.data(expr).wrapped(),
        }
    }

    /// A condition, as a BMv2 boolean.
    pub(super) fn condition(&self, expr: &Expr) -> Json {
        self.value(expr)
    }

    /// The value as a number: booleans become 0 and 1.
    pub(super) fn data(&self, expr: &Expr) -> Json {
        if !matches!(expr.ty.stored(), Type::Bool) {
            return self.value(expr);
        }
        match (expr.as_value(), self.scalar_place(expr)) {
            (Some(Value::Bool(value)), _) => hex_value(u8::from(*value), 1),
            (_, Some(place)) => place,
            _ => match &expr.kind {
                ExprKind::Cast(inner) if !matches!(inner.ty.stored(), Type::Bool) => {
                    self.value(inner)
                }
                _ => Json::unary("b2d", self.value(expr)),
            },
        }
    }

    fn scalar_place(&self, expr: &Expr) -> Option<Json> {
        match self.place(expr)? {
            Place::Field(field) => Some(Json::Field(field)),
            Place::ActionData(i) => Some(Json::Local(i)),
            Place::StackField(field) => Some(Json::StackField(field)),
            _ => None,
        }
    }

    /// The value inside of an expression; booleans are BMv2 booleans.
    pub(super) fn value(&self, expr: &Expr) -> Json {
        let is_bool = matches!(expr.ty.stored(), Type::Bool);
        if let Some(place) = self.scalar_place(expr) {
            return if is_bool {
                Json::unary("d2b", place)
            } else {
                place
            };
        }
        match &expr.kind {
            ExprKind::Const(value) => self.constant(value, &expr.ty),
            ExprKind::Unary(op, operand) => self.unary(*op, operand, &expr.ty),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, &expr.ty),
            ExprKind::Conditional(condition, then, otherwise) => {
                let condition = self.value(condition);
                let chosen = Json::ternary(condition, self.data(then), self.data(otherwise));
                if is_bool {
                    Json::unary("d2b", chosen)
                } else {
                    chosen
                }
            }
            ExprKind::Cast(operand) => self.cast(operand, &expr.ty),
            ExprKind::Slice { base, high, low } => {
                let shifted = match low {
                    0 => self.value(base),
                    _ => Json::binary(">>", self.value(base), hex_value(*low, 8)),
                };
                mask(shifted, high - low + 1)
            }
            ExprKind::StackLastIndex(stack) => match self.place(stack) {
                Some(Place::Stack(name)) => {
                    Json::unary("last_stack_index", Json::HeaderStack(name))
                }
                _ => self.unsupported(expr),
            },
            ExprKind::Call(call) => match &call.callee {
                Callee::IsValid(header) => self.is_valid(header),
                _ => self.unsupported(expr),
            },
            ExprKind::Poison => hex_value(0, 1),
            _ => self.unsupported(expr),
        }
    }

    fn unsupported(&self, expr: &Expr) -> Json {
        let message = format!(
            "BMv2 cannot evaluate this expression of type `{}`",
            self.program.type_name(&expr.ty)
        );
        self.error("unsupported-expression", expr.span, message);
        hex_value(0, 1)
    }

    fn constant(&self, value: &Value, ty: &Type) -> Json {
        let width = ty.width().unwrap_or(32);
        match value {
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => hex_value(value.clone(), width),
            Value::Str(text) => Json::String(text.clone()),
            Value::Error(_) | Value::Member(_) => hex_value(self.member_number(value, ty), 32),
        }
    }

    /// The number of an error or enum member in the JSON.
    pub(super) fn member_number(&self, value: &Value, ty: &Type) -> BigInt {
        let number = match (value, ty.stored()) {
            (Value::Int(value), _) => return value.clone(),
            (Value::Bool(value), _) => return u8::from(*value).into(),
            (Value::Error(name), _) => self.program.errors.place(name),
            (Value::Member(name), Type::Enum(e)) => e.member(name),
            _ => None,
        };
        number.unwrap_or(0).into()
    }

    pub(super) fn is_valid(&self, header: &Expr) -> Json {
        match self.place(header) {
            Some(Place::Header(name)) => Json::unary("d2b", Json::field(name, "$valid$")),
            Some(Place::Union(name)) => Json::unary("valid_union", Json::HeaderUnion(name)),
            _ => self.unsupported(header),
        }
    }

    fn unary(&self, op: UnaryOp, operand: &Expr, ty: &Type) -> Json {
        let value = self.value(operand);
        match op {
            UnaryOp::Not => Json::unary("not", value),
            UnaryOp::Plus => value,
            UnaryOp::Complement => fit(Json::unary("~", value), ty),
            UnaryOp::Minus => fit(Json::binary("-", hex_value(0, 8), value), ty),
        }
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, ty: &Type) -> Json {
        use BinaryOp as B;
        if matches!(op, B::Eq | B::Ne) {
            return self.equality(op, left, right);
        }
        let mut operands = Vec::new();
        for side in [left, right] {
            self.chain(op, side, &mut operands);
        }
        if operands.len() > LONGEST_CHAIN {
            let tree = self.balanced(op, &operands, ty);
            // An unsigned concatenation has just the bits of its type.
            return match ty.as_bits() {
                Some((_, true)) if op == B::Concat => fit(tree, ty),
                _ => tree,
            };
        }
        let (l, r) = (self.value(left), self.value(right));
        match op {
            B::And | B::Or | B::Add | B::Mul => joined(op, l, r, ty),
            B::Sub | B::Shl => fit(Json::binary(op.symbol(), l, r), ty),
            B::SatAdd | B::SatSub => {
                let exact = if op == B::SatAdd { "+" } else { "-" };
                let Type::Bits { width, signed } = ty.stored() else {
                    return l;
                };
                let cast = if *signed { "sat_cast" } else { "usat_cast" };
                Json::binary(cast, Json::binary(exact, l, r), hex_value(*width, 32))
            }
            B::Concat => {
                let (l, r) = (unsigned(l, &left.ty), unsigned(r, &right.ty));
                fit(concatenated(l, r, right.ty.width().unwrap_or(0)), ty)
            }
            // Bits of negative numbers above the width are all ones on both sides.
            _ => Json::binary(op.symbol(), l, r),
        }
    }

    /// Appends the operands of `expr`, from the left, if it is another application of `op`, in whatever order they are
    /// put together; else itself.
    fn chain<'e>(&self, op: BinaryOp, expr: &'e Expr, operands: &mut Vec<&'e Expr>) {
        use BinaryOp as B;
        let any_order = matches!(
            op,
            B::Add | B::Mul | B::BitAnd | B::BitOr | B::BitXor | B::And | B::Or | B::Concat
        );
        match &expr.kind {
            ExprKind::Binary(inner, left, right) if any_order && *inner == op => {
                self.chain(op, left, operands);
                self.chain(op, right, operands);
            }
            _ => operands.push(expr),
        }
    }

    /// A chain of operands as a tree; of `ty`, a concatenation as an unsigned number of as many bits as its parts have.
    fn balanced(&self, op: BinaryOp, operands: &[&Expr], ty: &Type) -> Json {
        let (left, right) = match operands {
            [one] if op == BinaryOp::Concat => return unsigned(self.value(one), &one.ty),
            [one] => return self.value(one),
            _ => operands.split_at(operands.len() / 2),
        };
        let (l, r) = (self.balanced(op, left, ty), self.balanced(op, right, ty));
        if op == BinaryOp::Concat {
            let widths = right.iter().map(|each| each.ty.width().unwrap_or(0));
            return concatenated(l, r, widths.sum());
        }
        joined(op, l, r, ty)
    }

    fn cast(&self, operand: &Expr, to: &Type) -> Json {
        match (operand.ty.stored(), to.stored()) {
            (Type::Bool, Type::Bool) => return self.value(operand),
            (Type::Bool, _) => return self.data(operand),
            (_, Type::Bool) => return Json::unary("d2b", self.value(operand)),
            _ => {}
        }
        let value = self.value(operand);
        match (operand.ty.as_bits(), to.as_bits()) {
            // Widening keeps the number, unless a negative one becomes unsigned.
            (Some((a, s)), Some((b, t))) if s != t || b < a => fit(value, to),
            _ => value,
        }
    }
}

/// Two operands of a chain, in the range of their type.
fn joined(op: BinaryOp, l: Json, r: Json, ty: &Type) -> Json {
    match op {
        BinaryOp::And => Json::binary("and", l, r),
        BinaryOp::Or => Json::binary("or", l, r),
        BinaryOp::Add | BinaryOp::Mul => fit(Json::binary(op.symbol(), l, r), ty),
        // Bits of negative numbers above the width are all ones on both sides.
        _ => Json::binary(op.symbol(), l, r),
    }
}

/// Two unsigned numbers as one; `width`: that of the lower one.
fn concatenated(high: Json, low: Json, width: u32) -> Json {
    Json::binary("|", Json::binary("<<", high, hex_value(width, 32)), low)
}

/// `value & (2^width - 1)`
pub(super) fn mask(value: Json, width: u32) -> Json {
    Json::binary("&", value, hex_value(eval::mask(width), width))
}

/// Brings a number of any size into the range of its type.
fn fit(value: Json, ty: &Type) -> Json {
    match ty.as_bits() {
        Some((width, true)) => Json::binary("two_comp_mod", value, hex_value(width, 32)),
        Some((width, false)) => mask(value, width),
        None => value,
    }
}

/// The bits of a possibly negative number as an unsigned one.
fn unsigned(value: Json, ty: &Type) -> Json {
    match ty.as_bits() {
        Some((width, true)) => mask(value, width),
        _ => value,
    }
}
