//! Typed expressions.

use num_bigint::BigInt;

use super::ids::{
    ActionId, ControlId, ExternFunctionId, FunctionId, InstanceId, ParserId, TableId, ValueSetId,
    VarId,
};
use crate::ast::{BinaryOp, UnaryOp};
use crate::eval::Value;
use crate::source::Span;
use crate::types::{BlockId, ExternId, FieldType, Type};

/// A typed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Operator and operands.
    pub kind: ExprKind,
    /// Type of its value.
    pub ty: Type,
    /// The whole expression.
    pub span: Span,
}

/// Operators and operands of expressions. Implicit casts have become [`Cast`](Self::Cast).
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An expression with an error that has been reported; nothing more is said of it.
    Poison,
    /// A compile-time value.
    Const(Value),
    /// A variable, constant or parameter.
    Var(VarId),
    /// An object, as receiver of a method or as argument.
    Instance(InstanceId),
    /// A constructor call without a declaration, as argument.
    Construct(Box<Construct>),
    /// A table, as receiver of `apply`.
    Table(TableId),
    /// A parser value set, in a `select` case.
    ValueSet(ValueSetId),
    /// A member of a struct, header or header union.
    Field(Box<Expr>, String),
    /// An element of a header stack or tuple.
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next`: the element after the last one extracted.
    StackNext(Box<Expr>),
    /// `stack.last`: the element extracted last.
    StackLast(Box<Expr>),
    /// `stack.lastIndex`: its index, 32 bits.
    StackLastIndex(Box<Expr>),
    /// `base[high:low]`.
    Slice {
        /// Value that bits are taken of.
        base: Box<Expr>,
        /// Number of the highest bit; bit 0 is the least significant.
        high: u32,
        /// Number of the lowest bit.
        low: u32,
    },
    /// Operator before an operand.
    Unary(UnaryOp, Box<Expr>),
    /// Operator between two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a ? b : c`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Converts the operand to the type of the whole expression.
    Cast(Box<Expr>),
    /// The members of a tuple, struct, header, stack or list value.
    List(Vec<Expr>),
    /// `{#}`: an invalid header or header union (P4_16, 8.17).
    InvalidHeader,
    /// `_` as an `out` argument, or an `@optional` argument that was left out.
    DontCare,
    /// The default value of the type, written `...`.
    DefaultValue,
    /// `default` or `_` in a set of key values: any value matches.
    Default,
    /// `value &&& mask`, in a set of key values.
    Mask(Box<Expr>, Box<Expr>),
    /// `low .. high` with both ends, in a set of key values.
    Range(Box<Expr>, Box<Expr>),
    /// A call with a result.
    Call(Box<Call>),
    /// `t.apply().hit`, or `.miss`
    TableHit {
        /// The table that is applied.
        table: TableId,
        /// True for `.miss`.
        miss: bool,
    },
}

/// A call of an action, function or method.
#[derive(Clone, Debug)]
pub struct Call {
    /// Callable, with the object of a method.
    pub callee: Callee,
    /// Type arguments, inferred ones included.
    pub type_args: Vec<Type>,
    /// Arguments in the order of the parameters.
    pub args: Vec<Expr>,
    /// The order in which the program writes them, which is that of their evaluation: indices of `args`. Empty if it is
    /// the order of the parameters.
    pub order: Vec<usize>,
}

/// Callables of a program. Methods of the language itself are one variant each.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function of the program.
    Function(FunctionId),
    /// An action that a control calls directly.
    Action(ActionId),
    /// A function of the architecture.
    ExternFunction(ExternFunctionId),
    /// A method of an extern object.
    Method {
        /// The extern object.
        object: Expr,
        /// Its type.
        extern_type: ExternId,
        /// Index in [`ExternType::methods`](super::ExternType::methods).
        method: usize,
    },
    /// `.apply(...)` of a parser or control.
    Apply(Expr),
    /// `.apply()` of a table.
    ApplyTable(TableId),
    /// `.isValid()` of a header or header union.
    IsValid(Expr),
    /// `.setValid()` of a header.
    SetValid(Expr),
    /// `.setInvalid()` of a header.
    SetInvalid(Expr),
    /// `.push_front(n)` of a header stack.
    PushFront(Expr),
    /// `.pop_front(n)` of a header stack.
    PopFront(Expr),
}

/// The type of object that a constructor makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constructed {
    /// An extern object.
    Extern(ExternId),
    /// An instance of a control.
    Control(ControlId),
    /// An instance of a parser.
    Parser(ParserId),
    /// A package, such as `V1Switch`.
    Package(BlockId),
}

/// A constructor call.
#[derive(Clone, Debug)]
pub struct Construct {
    /// The type of object.
    pub what: Constructed,
    /// Type arguments, inferred ones included.
    pub type_args: Vec<Type>,
    /// Arguments, all known at compile time once blocks are instantiated.
    pub args: Vec<Expr>,
    /// Parameter names, in the order of `args`.
    pub names: Vec<String>,
}

impl Callee {
    /// Receiver of a method. None: it is not a method, or one of a table.
    pub fn object(&self) -> Option<&Expr> {
        match self {
            Callee::Method { object, .. }
            | Callee::Apply(object)
            | Callee::IsValid(object)
            | Callee::SetValid(object)
            | Callee::SetInvalid(object)
            | Callee::PushFront(object)
            | Callee::PopFront(object) => Some(object),
            Callee::Function(_)
            | Callee::Action(_)
            | Callee::ExternFunction(_)
            | Callee::ApplyTable(_) => None,
        }
    }
}

impl Expr {
    /// An expression from its parts.
    pub fn new(kind: ExprKind, ty: Type, span: Span) -> Expr {
        Expr { kind, ty, span }
    }

    /// An expression with an error that has been reported.
    pub fn poison(span: Span) -> Expr {
        Expr::new(ExprKind::Poison, Type::Poison, span)
    }

    /// A compile-time value of this type.
    pub fn constant(value: Value, ty: Type, span: Span) -> Expr {
        Expr::new(ExprKind::Const(value), ty, span)
    }

    /// An integer constant of this type.
    pub fn int(value: impl Into<BigInt>, ty: Type, span: Span) -> Expr {
        Expr::constant(Value::Int(value.into()), ty, span)
    }

    /// A Boolean constant.
    pub fn bool(value: bool, span: Span) -> Expr {
        Expr::constant(Value::Bool(value), Type::Bool, span)
    }

    /// A use of a variable.
    pub fn var(id: VarId, ty: Type, span: Span) -> Expr {
        Expr::new(ExprKind::Var(id), ty, span)
    }

    /// `left op right`, of type `ty`.
    pub fn binary(op: BinaryOp, left: Expr, right: Expr, ty: Type, span: Span) -> Expr {
        let kind = ExprKind::Binary(op, Box::new(left), Box::new(right));
        Expr::new(kind, ty, span)
    }

    /// `(to) self`, also if `self` is a constant.
    pub fn cast(self, to: Type) -> Expr {
        let span = self.span;
        Expr::new(ExprKind::Cast(Box::new(self)), to, span)
    }

    /// A call without arguments beside those in `callee`.
    pub fn call(callee: Callee, ty: Type, span: Span) -> Expr {
        let call = Call {
            callee,
            type_args: Vec::new(),
            args: Vec::new(),
            order: Vec::new(),
        };
        Expr::new(ExprKind::Call(Box::new(call)), ty, span)
    }

    /// Element `index` of a stack or tuple.
    pub fn element(base: Expr, index: u32, ty: Type) -> Expr {
        let span = base.span;
        let index = Expr::int(index, Type::bit(32), span);
        Expr::new(ExprKind::Index(Box::new(base), Box::new(index)), ty, span)
    }

    /// Member `name` of a struct, header or header union.
    pub fn field(base: Expr, name: &str, ty: Type) -> Expr {
        Expr {
            span: base.span,
            kind: ExprKind::Field(Box::new(base), name.to_owned()),
            ty,
        }
    }

    /// Its value, if it is a constant.
    pub fn as_value(&self) -> Option<&Value> {
        match &self.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

    /// Its value, if it is an integer constant.
    pub fn as_int(&self) -> Option<&BigInt> {
        match &self.kind {
            ExprKind::Const(Value::Int(value)) => Some(value),
            _ => None,
        }
    }

    /// The constant, if it is an integer in the range of `T`.
    pub fn as_number<T: for<'a> TryFrom<&'a BigInt>>(&self) -> Option<T> {
        T::try_from(self.as_int()?).ok()
    }

    /// Members of a struct, tuple, header or stack value: the items of a list, or the parts of a place.
    pub fn members(&self) -> Vec<Expr> {
        if let ExprKind::List(items) = &self.kind {
            return items.clone();
        }
        let element = |i: u32, ty: &Type| Expr::element(self.clone(), i, ty.clone());
        match &self.ty {
            Type::Struct(s) => {
                let fields = s.fields.iter();
                let member = |f: &FieldType| Expr::field(self.clone(), &f.name, f.ty.clone());
                fields.map(member).collect()
            }
            Type::Tuple(types) => {
                let types = (0..).zip(types.iter());
                types.map(|(i, t)| element(i, t)).collect()
            }
            Type::Stack(ty, size) => (0..*size).map(|i| element(i, ty)).collect(),
            _ => Vec::new(),
        }
    }

    /// All scalar parts of a value, in order.
    pub fn leaves(&self) -> Vec<Expr> {
        match &self.ty {
            Type::Struct(_) | Type::Tuple(_) | Type::Stack(..) => {
                self.members().iter().flat_map(Expr::leaves).collect()
            }
            _ => vec![self.clone()],
        }
    }

    /// Whether `test` holds for one of its direct operands; the object and the arguments of a call are not tested.
    pub fn any_operand<'e>(&'e self, mut test: impl FnMut(&'e Expr) -> bool) -> bool {
        match &self.kind {
            ExprKind::Field(base, _)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::StackLastIndex(base)
            | ExprKind::Slice { base, .. }
            | ExprKind::Unary(_, base)
            | ExprKind::Cast(base) => test(base),
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => test(a) || test(b),
            ExprKind::Conditional(a, b, c) => test(a) || test(b) || test(c),
            ExprKind::List(items) => items.iter().any(test),
            ExprKind::Poison
            | ExprKind::Const(_)
            | ExprKind::Var(_)
            | ExprKind::Instance(_)
            | ExprKind::Construct(_)
            | ExprKind::Table(_)
            | ExprKind::ValueSet(_)
            | ExprKind::InvalidHeader
            | ExprKind::DontCare
            | ExprKind::DefaultValue
            | ExprKind::Default
            | ExprKind::Call(_)
            | ExprKind::TableHit { .. } => false,
        }
    }

    /// Whether it is a range of constants whose end is below its beginning.
    pub fn is_empty_range(&self) -> bool {
        match &self.kind {
            ExprKind::Range(low, high) => low
                .as_int()
                .zip(high.as_int())
                .is_some_and(|(low, high)| high < low),
            _ => false,
        }
    }

    /// Whether evaluating it executes statements: a call, or an applied table.
    pub fn has_effects(&self) -> bool {
        match &self.kind {
            ExprKind::Call(call) => match &call.callee {
                Callee::IsValid(header) => header.has_effects(),
                _ => true,
            },
            ExprKind::TableHit { .. } => true,
            _ => self.any_operand(Expr::has_effects),
        }
    }

    /// The header union that it is a member of.
    pub fn union_around(&self) -> Option<&Expr> {
        match &self.kind {
            ExprKind::Field(base, _) if base.ty.is_union() => Some(base),
            _ => None,
        }
    }

    /// The variables that its value, or the validity of its headers, depends on.
    pub fn variables(&self) -> Vec<VarId> {
        let mut found = Vec::new();
        self.add_variables(&mut found);
        found
    }

    fn add_variables(&self, found: &mut Vec<VarId>) {
        match &self.kind {
            ExprKind::Var(id) => found.push(*id),
            ExprKind::Call(call) => {
                if let Callee::IsValid(header) = &call.callee {
                    header.add_variables(found);
                }
            }
            _ => {
                self.any_operand(|operand| {
                    operand.add_variables(found);
                    false
                });
            }
        }
    }
}

/// Whether two expressions are the same, wherever they stand. Calls are not, except of `isValid()`.
pub fn same(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Const(a), ExprKind::Const(b)) => a == b,
        (ExprKind::Field(a, x), ExprKind::Field(b, y)) => x == y && same(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => same(a, b) && same(i, j),
        (ExprKind::Cast(a), ExprKind::Cast(b)) => same(a, b),
        (ExprKind::Unary(o, a), ExprKind::Unary(p, b)) => o == p && same(a, b),
        (ExprKind::Binary(o, a, c), ExprKind::Binary(p, b, d)) => {
            o == p && same(a, b) && same(c, d)
        }
        (
            ExprKind::Slice { base, high, low },
            ExprKind::Slice {
                base: other,
                high: h,
                low: l,
            },
        ) => high == h && low == l && same(base, other),
        (ExprKind::Call(a), ExprKind::Call(b)) => match (&a.callee, &b.callee) {
            (Callee::IsValid(a), Callee::IsValid(b)) => same(a, b),
            _ => false,
        },
        (ExprKind::List(a), ExprKind::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}
