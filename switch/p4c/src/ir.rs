//! The checked program: names resolved, every expression typed, casts explicit, arguments in order.
//!
//! Variables, actions, tables and instances are numbered through the whole program, so that later
//! stages never look at scopes.

use num_bigint::BigInt;

pub use crate::annotations::{Annotation, AnnotationValue};
use crate::architecture::Architecture;
pub use crate::ast::{BinaryOp, Direction, UnaryOp};
use crate::eval::Value;
use crate::names::NameList;
use crate::source::Span;
pub use crate::types::{BlockId, ExternId};
use crate::types::{FieldType, Type, TypeVar};

pub type VarId = usize;
pub type ActionId = usize;
pub type TableId = usize;
pub type FunctionId = usize;
pub type ControlId = usize;
pub type ParserId = usize;
pub type InstanceId = usize;
pub type ExternFunctionId = usize;
pub type ValueSetId = usize;

#[derive(Debug, Default)]
pub struct Program {
    pub architecture: Architecture,
    pub vars: Vec<Var>,
    pub functions: Vec<Function>,
    pub actions: Vec<Action>,
    pub tables: Vec<Table>,
    pub controls: Vec<Control>,
    pub parsers: Vec<Parser>,
    pub instances: Vec<Instance>,
    pub externs: Vec<ExternType>,
    pub extern_functions: Vec<Signature>,
    pub blocks: Vec<BlockType>,
    pub value_sets: Vec<ValueSet>,
    pub errors: NameList,
    pub enums: Vec<std::rc::Rc<crate::types::EnumType>>,
    /// All header types: those with `@controller_header` are part of P4Info whether they are used or not.
    pub headers: Vec<std::rc::Rc<crate::types::StructType>>,
    /// The instance of a package that is called `main`.
    pub main: Option<InstanceId>,
}

#[derive(Clone, Debug)]
pub struct Var {
    pub name: String,
    pub ty: Type,
    pub span: Span,
    /// Whether statements may write to it: not to constants, `in` parameters and constructor parameters.
    pub writable: bool,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub var: VarId,
    pub name: String,
    pub ty: Type,
    pub direction: Direction,
    pub default: Option<Expr>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

impl Param {
    /// Whether its argument may be left out: `@optional`, an annotation of architecture files.
    pub fn is_optional(&self) -> bool {
        self.annotations.iter().any(|a| a.name.text == "optional")
    }

    /// Whether a call has to have an argument for it.
    pub fn is_required(&self) -> bool {
        self.default.is_none() && !self.is_optional()
    }
}

/// What a caller sees of a function, method or constructor.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: String,
    pub type_params: Vec<TypeVar>,
    pub params: Vec<Param>,
    pub return_type: Type,
    pub span: Span,
}

#[derive(Debug)]
pub struct Function {
    pub signature: Signature,
    pub body: Vec<Stmt>,
}

#[derive(Debug)]
pub struct ExternType {
    pub name: String,
    pub type_params: Vec<TypeVar>,
    pub constructors: Vec<Signature>,
    pub methods: Vec<Signature>,
    /// Methods whose bodies an instance brings.
    pub abstract_methods: Vec<AbstractMethod>,
    pub span: Span,
}

#[derive(Debug)]
pub struct AbstractMethod {
    pub signature: Signature,
    /// `@optional`: an instance may do without it.
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Parser,
    Control,
    Package,
}

/// A parser, control or package type.
#[derive(Debug)]
pub struct BlockType {
    pub kind: BlockKind,
    pub signature: Signature,
}

#[derive(Debug)]
pub struct Action {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub params: Vec<Param>,
    pub body: Vec<Stmt>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub key: Vec<Key>,
    pub actions: Vec<ActionRef>,
    pub default_action: Option<ActionCall>,
    pub default_is_const: bool,
    pub entries: Vec<Entry>,
    pub entries_are_const: bool,
    /// The number of entries it has room for: a constant, or a constructor parameter of the control around it.
    pub size: Option<Expr>,
    pub largest_priority_wins: bool,
    pub priority_delta: u64,
    pub support_timeout: bool,
    /// The extern objects that the properties `implementation`, `counters` and `meters` name.
    pub implementation: Option<Expr>,
    pub counters: Option<Expr>,
    pub meters: Option<Expr>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Key {
    pub expr: Expr,
    pub match_kind: String,
    /// Its name for the control plane: `@name`, or the expression as it was written; none if that gives no name.
    pub name: Option<String>,
    pub annotations: Vec<Annotation>,
}

/// An action in a table's list; `args` are the directional arguments that the program binds.
#[derive(Debug)]
pub struct ActionRef {
    pub action: ActionId,
    pub args: Vec<Expr>,
    /// As [`Call::order`].
    pub order: Vec<usize>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

/// An action with its control-plane arguments.
#[derive(Debug)]
pub struct ActionCall {
    /// The index of the action in [`Table::actions`].
    pub action_ref: usize,
    pub data: Vec<Expr>,
}

#[derive(Debug)]
pub struct Entry {
    pub keyset: Vec<Expr>,
    pub action: ActionCall,
    pub priority: Option<Priority>,
    pub is_const: bool,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// `priority = n`. Whether the largest or the smallest number wins is [`Table::largest_priority_wins`].
    Table(u64),
    /// `@priority(n)`, an annotation of p4c for BMv2: the smallest number wins.
    Bmv2(u64),
}

#[derive(Debug)]
pub struct ValueSet {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub size: Expr,
    pub span: Span,
}

/// What parsers and controls have in common.
#[derive(Debug)]
pub struct Block {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub params: Vec<Param>,
    pub constructor_params: Vec<Param>,
    pub instances: Vec<InstanceId>,
    /// Declarations of local variables, in order.
    pub locals: Vec<Stmt>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Control {
    pub block: Block,
    pub actions: Vec<ActionId>,
    pub tables: Vec<TableId>,
    /// The `apply` block.
    pub body: Vec<Stmt>,
}

#[derive(Debug)]
pub struct Parser {
    pub block: Block,
    pub value_sets: Vec<ValueSetId>,
    /// Parsing begins in the first one.
    pub states: Vec<State>,
}

#[derive(Debug)]
pub struct State {
    pub name: String,
    pub body: Vec<Stmt>,
    pub transition: Transition,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Accept,
    Reject,
    /// The index of the state in [`Parser::states`].
    State(usize),
}

#[derive(Debug)]
pub enum Transition {
    Direct(Target),
    Select {
        keys: Vec<Expr>,
        cases: Vec<SelectCase>,
        span: Span,
    },
}

#[derive(Debug)]
pub struct SelectCase {
    /// One set for each key, or a single value set for all of them.
    pub keyset: Vec<Expr>,
    pub target: Target,
    pub span: Span,
}

#[derive(Debug)]
pub struct Instance {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub construct: Construct,
    pub ty: Type,
    /// The bodies of its type's abstract methods.
    pub methods: Vec<Function>,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constructed {
    Extern(ExternId),
    Control(ControlId),
    Parser(ParserId),
    Package(BlockId),
}

/// A constructor call.
#[derive(Clone, Debug)]
pub struct Construct {
    pub what: Constructed,
    pub type_args: Vec<Type>,
    pub args: Vec<Expr>,
    /// Parameter names, in the order of `args`.
    pub names: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Type,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// What was wrong, and was reported as such.
    Poison,
    Const(Value),
    Var(VarId),
    Instance(InstanceId),
    Construct(Box<Construct>),
    Table(TableId),
    ValueSet(ValueSetId),
    Field(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next`, `stack.last`, `stack.lastIndex`
    StackNext(Box<Expr>),
    StackLast(Box<Expr>),
    StackLastIndex(Box<Expr>),
    Slice {
        base: Box<Expr>,
        high: u32,
        low: u32,
    },
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Converts the operand to the type of the whole expression.
    Cast(Box<Expr>),
    /// The members of a tuple, struct, header, stack or list value.
    List(Vec<Expr>),
    InvalidHeader,
    /// `_` as an `out` argument, or an `@optional` argument that was left out.
    DontCare,
    /// The default value of the type, written `...`.
    DefaultValue,
    /// `default` or `_` in a set of key values: any value matches.
    Default,
    Mask(Box<Expr>, Box<Expr>),
    Range(Box<Expr>, Box<Expr>),
    Call(Box<Call>),
    /// `t.apply().hit`, or `.miss`
    TableHit {
        table: TableId,
        miss: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Call {
    pub callee: Callee,
    pub type_args: Vec<Type>,
    /// In the order of the parameters.
    pub args: Vec<Expr>,
    /// The order in which the program writes them, which is that of their evaluation: indices of `args`. Empty if it is
    /// the order of the parameters.
    pub order: Vec<usize>,
}

#[derive(Clone, Debug)]
pub enum Callee {
    Function(FunctionId),
    Action(ActionId),
    ExternFunction(ExternFunctionId),
    Method {
        object: Expr,
        extern_type: ExternId,
        method: usize,
    },
    /// `.apply(...)` of a parser or control
    Apply(Expr),
    ApplyTable(TableId),
    IsValid(Expr),
    SetValid(Expr),
    SetInvalid(Expr),
    PushFront(Expr),
    PopFront(Expr),
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Assign(Expr, Expr),
    /// `target op= value`: the place is evaluated once.
    Update(Expr, BinaryOp, Expr),
    Call(Call),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    Block {
        atomic: bool,
        body: Vec<Stmt>,
    },
    /// `switch` on a value. A label that is none is `default`.
    Switch(Expr, Vec<(Vec<Option<Expr>>, Vec<Stmt>)>),
    /// `switch (t.apply().action_run)`. Labels are indices in [`Table::actions`]; one that is none is `default`.
    SwitchAction(TableId, Vec<(Vec<Option<usize>>, Vec<Stmt>)>),
    Declare(VarId, Option<Expr>),
    /// `for (init; condition; update) body`, without what stands before it.
    For {
        condition: Expr,
        update: Vec<Stmt>,
        body: Vec<Stmt>,
    },
    /// `for (var in range)`; both ends belong to it.
    ForRange {
        var: VarId,
        low: Expr,
        high: Expr,
        body: Vec<Stmt>,
    },
    /// `for (var in collection)`: a header stack, or a list whose items have the type of the variable.
    ForEach {
        var: VarId,
        collection: Expr,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    Exit,
}

impl Callee {
    /// What a method is called of.
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
    pub fn new(kind: ExprKind, ty: Type, span: Span) -> Expr {
        Expr { kind, ty, span }
    }

    pub fn poison(span: Span) -> Expr {
        Expr::new(ExprKind::Poison, Type::Poison, span)
    }

    pub fn constant(value: Value, ty: Type, span: Span) -> Expr {
        Expr::new(ExprKind::Const(value), ty, span)
    }

    pub fn int(value: impl Into<BigInt>, ty: Type, span: Span) -> Expr {
        Expr::constant(Value::Int(value.into()), ty, span)
    }

    pub fn bool(value: bool, span: Span) -> Expr {
        Expr::constant(Value::Bool(value), Type::Bool, span)
    }

    pub fn var(id: VarId, ty: Type, span: Span) -> Expr {
        Expr::new(ExprKind::Var(id), ty, span)
    }

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

    pub fn field(base: Expr, name: &str, ty: Type) -> Expr {
        Expr {
            span: base.span,
            kind: ExprKind::Field(Box::new(base), name.to_owned()),
            ty,
        }
    }

    pub fn as_value(&self) -> Option<&Value> {
        match &self.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

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

    /// Whether `test` holds for one of the expressions that this one is made of; the object and the arguments of a call
    /// are not asked.
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

    /// Whether its evaluation runs statements: it calls something, or applies a table.
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

impl Signature {
    /// One without type parameters, that returns nothing.
    pub fn of(name: &str, params: Vec<Param>, span: Span) -> Signature {
        Signature {
            name: name.to_owned(),
            type_params: Vec::new(),
            params,
            return_type: Type::Void,
            span,
        }
    }

    /// The signature with type parameters of its extern or block replaced by what they stand for in `map`.
    pub fn substitute(&self, map: &[(TypeVar, Type)]) -> Signature {
        let params = self.params.iter().map(|p| Param {
            ty: p.ty.substitute(map),
            ..p.clone()
        });
        Signature {
            params: params.collect(),
            return_type: self.return_type.substitute(map),
            ..self.clone()
        }
    }
}

/// Adds an item to a list whose items are known by their number, and returns that.
pub fn add<T>(list: &mut Vec<T>, item: T) -> usize {
    list.push(item);
    list.len() - 1
}

impl Program {
    /// The control or parser that a constructor makes.
    pub fn block(&self, what: Constructed) -> Option<&Block> {
        match what {
            Constructed::Control(id) => Some(&self.controls[id].block),
            Constructed::Parser(id) => Some(&self.parsers[id].block),
            Constructed::Extern(_) | Constructed::Package(_) => None,
        }
    }

    /// A type as the program writes it, with the names of externs and blocks.
    pub fn type_name(&self, ty: &Type) -> String {
        let with_args = |name: &str, args: &[Type]| {
            let args: Vec<String> = args.iter().map(|a| self.type_name(a)).collect();
            if args.is_empty() {
                name.to_owned()
            } else {
                format!("{name}<{}>", args.join(", "))
            }
        };
        match ty {
            Type::Extern(id, args) => with_args(&self.externs[*id].name, args),
            Type::Block(id, args) => with_args(&self.blocks[*id].signature.name, args),
            other => other.to_string(),
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
