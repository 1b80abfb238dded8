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

/// Index in [`Program::vars`].
pub type VarId = usize;
/// Index in [`Program::actions`].
pub type ActionId = usize;
/// Index in [`Program::tables`].
pub type TableId = usize;
/// Index in [`Program::functions`].
pub type FunctionId = usize;
/// Index in [`Program::controls`].
pub type ControlId = usize;
/// Index in [`Program::parsers`].
pub type ParserId = usize;
/// Index in [`Program::instances`].
pub type InstanceId = usize;
/// Index in [`Program::extern_functions`].
pub type ExternFunctionId = usize;
/// Index in [`Program::value_sets`].
pub type ValueSetId = usize;

/// All declarations of a program and of the files that it includes, in the order of the text.
#[derive(Debug, Default)]
pub struct Program {
    /// The architecture whose file it includes.
    pub architecture: Architecture,
    /// Variables, constants and parameters of all scopes.
    pub vars: Vec<Var>,
    /// Functions with a body.
    pub functions: Vec<Function>,
    /// Actions of the top level and of controls.
    pub actions: Vec<Action>,
    /// Tables of all controls.
    pub tables: Vec<Table>,
    /// Controls with an `apply` block.
    pub controls: Vec<Control>,
    /// Parsers with states.
    pub parsers: Vec<Parser>,
    /// Objects that declarations make: externs, controls, parsers and packages.
    pub instances: Vec<Instance>,
    /// Extern types. [`ExternId`] is the index.
    pub externs: Vec<ExternType>,
    /// Functions of the architecture, which have no body.
    pub extern_functions: Vec<Signature>,
    /// Parser, control and package types. [`BlockId`] is the index.
    pub blocks: Vec<BlockType>,
    /// Parser value sets (P4_16, 12.14).
    pub value_sets: Vec<ValueSet>,
    /// Members of all `error` declarations. The number of an error is its index.
    pub errors: NameList,
    /// Enums without and with an underlying type.
    pub enums: Vec<std::rc::Rc<crate::types::EnumType>>,
    /// All header types: those with `@controller_header` are part of P4Info whether they are used or not.
    pub headers: Vec<std::rc::Rc<crate::types::StructType>>,
    /// The instance of a package that is called `main`.
    pub main: Option<InstanceId>,
}

/// A variable, constant or parameter.
#[derive(Clone, Debug)]
pub struct Var {
    /// Name in the program; not unique, as scopes may shadow each other.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Its name in the declaration.
    pub span: Span,
    /// Whether statements may write to it: not to constants, `in` parameters and constructor parameters.
    pub writable: bool,
}

/// A parameter of a function, action, method, constructor or block.
#[derive(Clone, Debug)]
pub struct Param {
    /// The variable by which the body reads the argument.
    pub var: VarId,
    /// Name by which callers may pass the argument.
    pub name: String,
    /// Type of the argument.
    pub ty: Type,
    /// Who writes to it: the caller, the callee or both.
    pub direction: Direction,
    /// Argument where a call leaves it out (P4_16, 6.8.2). None: calls must pass one, unless it is `@optional`.
    pub default: Option<Expr>,
    /// Annotations of the parameter.
    pub annotations: Vec<Annotation>,
    /// Its name in the declaration.
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

/// Name, parameters and result of a function, method or constructor.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name of the callable; of a constructor that of its type.
    pub name: String,
    /// Type variables that a call binds by type arguments or by inference.
    pub type_params: Vec<TypeVar>,
    /// Parameters in the order of the declaration.
    pub params: Vec<Param>,
    /// Type of the result; [`Type::Void`] without one.
    pub return_type: Type,
    /// Its name in the declaration.
    pub span: Span,
}

/// A function that the program defines.
#[derive(Debug)]
pub struct Function {
    /// Name, parameters and type of the result.
    pub signature: Signature,
    /// Statements of the body.
    pub body: Vec<Stmt>,
}

/// An extern type: objects of the architecture with methods (P4_16, 7.2.10).
#[derive(Debug)]
pub struct ExternType {
    /// Name of the type.
    pub name: String,
    /// Type variables that an instantiation binds.
    pub type_params: Vec<TypeVar>,
    /// Constructors, which differ in the number of their parameters.
    pub constructors: Vec<Signature>,
    /// Methods; several of one name differ in the number of their parameters.
    pub methods: Vec<Signature>,
    /// Methods whose bodies an instance brings.
    pub abstract_methods: Vec<AbstractMethod>,
    /// Its name in the declaration.
    pub span: Span,
}

/// A method that the architecture calls, and a program writes.
#[derive(Debug)]
pub struct AbstractMethod {
    /// Its head, in which the type parameters of the extern are not bound.
    pub signature: Signature,
    /// `@optional`: an instance may do without it.
    pub optional: bool,
}

/// The three kinds of type that an architecture declares for programmable blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// `parser P(..)`.
    Parser,
    /// `control C(..)`.
    Control,
    /// `package S(..)`: a switch, made of blocks.
    Package,
}

/// A parser, control or package type.
#[derive(Debug)]
pub struct BlockType {
    /// Which of the three it is.
    pub kind: BlockKind,
    /// Name, type variables and parameters: those of `apply`, or of the constructor of a package.
    pub signature: Signature,
}

/// An action, of a control or of the top level.
#[derive(Debug)]
pub struct Action {
    /// Name in the program, without that of its control.
    pub name: String,
    /// Annotations, of which `@name` changes the name for the control plane.
    pub annotations: Vec<Annotation>,
    /// Parameters: directional ones first, then those that the control plane gives.
    pub params: Vec<Param>,
    /// Statements of the body.
    pub body: Vec<Stmt>,
    /// Its name in the declaration.
    pub span: Span,
}

/// A table of a control, with its properties (P4_16, 14.2).
#[derive(Debug)]
pub struct Table {
    /// Name in the program, without that of its control.
    pub name: String,
    /// Annotations, of which `@name` changes the name for the control plane.
    pub annotations: Vec<Annotation>,
    /// Fields of the key, in order. Empty: every packet misses.
    pub key: Vec<Key>,
    /// The list `actions`, in order.
    pub actions: Vec<ActionRef>,
    /// Action of a miss, `NoAction` where the program states none. None: an error was reported, or `NoAction` is not
    /// declared.
    pub default_action: Option<ActionCall>,
    /// Whether the control plane may not change the default action.
    pub default_is_const: bool,
    /// Entries that the program gives, in order.
    pub entries: Vec<Entry>,
    /// Whether the control plane may neither add, change nor delete entries.
    pub entries_are_const: bool,
    /// The number of entries it has room for: a constant, or a constructor parameter of the control around it.
    pub size: Option<Expr>,
    /// Whether the entry with the largest priority wins among those that match, or that with the smallest (P4_16,
    /// 14.2.1.4).
    pub largest_priority_wins: bool,
    /// Distance of the priorities of entries that state none.
    pub priority_delta: u64,
    /// Whether entries have idle timeouts: property `support_timeout` of v1model.
    pub support_timeout: bool,
    /// The action profile or selector of property `implementation`. None: entries hold their action themselves.
    pub implementation: Option<Expr>,
    /// The direct counter of property `counters`.
    pub counters: Option<Expr>,
    /// The direct meter of property `meters`.
    pub meters: Option<Expr>,
    /// Its name in the declaration.
    pub span: Span,
}

/// A field of the key of a table.
#[derive(Debug)]
pub struct Key {
    /// Value that is looked up.
    pub expr: Expr,
    /// `exact`, `lpm`, `ternary`, `range`, `optional` or `selector`.
    pub match_kind: String,
    /// Its name for the control plane: `@name`, or the expression as it was written; none if that gives no name.
    pub name: Option<String>,
    /// Annotations of the field.
    pub annotations: Vec<Annotation>,
}

/// An action in a table's list; `args` are the directional arguments that the program binds.
#[derive(Debug)]
pub struct ActionRef {
    /// The action that the list names.
    pub action: ActionId,
    /// Arguments for its directional parameters.
    pub args: Vec<Expr>,
    /// As [`Call::order`].
    pub order: Vec<usize>,
    /// Annotations of the element, such as `@tableonly`.
    pub annotations: Vec<Annotation>,
    /// The element in the list.
    pub span: Span,
}

/// An action with its control-plane arguments.
#[derive(Debug)]
pub struct ActionCall {
    /// The index of the action in [`Table::actions`].
    pub action_ref: usize,
    /// Arguments for the parameters without a direction, in order.
    pub data: Vec<Expr>,
}

/// An entry that the program gives to a table.
#[derive(Debug)]
pub struct Entry {
    /// A set of values for each field of the key.
    pub keyset: Vec<Expr>,
    /// Action with its data.
    pub action: ActionCall,
    /// Priority, where the program states one. None: its place in the list decides.
    pub priority: Option<Priority>,
    /// Whether the control plane may not change the entry.
    pub is_const: bool,
    /// The whole entry.
    pub span: Span,
}

/// Priority of an entry, in one of two notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// `priority = n`. Whether the largest or the smallest number wins is [`Table::largest_priority_wins`].
    Table(u64),
    /// `@priority(n)`, an annotation of p4c for BMv2: the smallest number wins.
    Bmv2(u64),
}

/// A parser value set, whose members the control plane sets (P4_16, 12.14).
#[derive(Debug)]
pub struct ValueSet {
    /// Name in the program, without that of its parser.
    pub name: String,
    /// Annotations, of which `@name` changes the name for the control plane.
    pub annotations: Vec<Annotation>,
    /// Type of a member.
    pub ty: Type,
    /// Number of members that it has room for.
    pub size: Expr,
    /// Its name in the declaration.
    pub span: Span,
}

/// Parts that parsers and controls share.
#[derive(Debug)]
pub struct Block {
    /// Name of the parser or control.
    pub name: String,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Parameters of `apply`.
    pub params: Vec<Param>,
    /// Parameters of the constructor, known at compile time.
    pub constructor_params: Vec<Param>,
    /// Objects that are made with each instance of the block, in order.
    pub instances: Vec<InstanceId>,
    /// Declarations of local variables, in order.
    pub locals: Vec<Stmt>,
    /// Its name in the declaration.
    pub span: Span,
}

/// A control with its `apply` block.
#[derive(Debug)]
pub struct Control {
    /// Name, parameters and local declarations.
    pub block: Block,
    /// Actions that it declares, in order.
    pub actions: Vec<ActionId>,
    /// Tables that it declares, in order.
    pub tables: Vec<TableId>,
    /// The `apply` block.
    pub body: Vec<Stmt>,
}

/// A parser: a state machine over the bytes of a packet.
#[derive(Debug)]
pub struct Parser {
    /// Name, parameters and local declarations.
    pub block: Block,
    /// Value sets that it declares, in order.
    pub value_sets: Vec<ValueSetId>,
    /// Parsing begins in the first one.
    pub states: Vec<State>,
}

/// A state of a parser.
#[derive(Debug)]
pub struct State {
    /// Name in the program.
    pub name: String,
    /// Statements before the transition.
    pub body: Vec<Stmt>,
    /// The next state.
    pub transition: Transition,
    /// Its name in the declaration.
    pub span: Span,
}

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// State `accept`: parsing is done.
    Accept,
    /// State `reject`: parsing has failed.
    Reject,
    /// The index of the state in [`Parser::states`].
    State(usize),
}

/// The `transition` statement of a state. A state without one leads to `reject`.
#[derive(Debug)]
pub enum Transition {
    /// To one state always.
    Direct(Target),
    /// By the first case that matches, else to `reject`.
    Select {
        /// Values that are matched.
        keys: Vec<Expr>,
        /// Cases in order; the first that matches counts.
        cases: Vec<SelectCase>,
        /// The expression `select`.
        span: Span,
    },
}

/// A case of a `select`.
#[derive(Debug)]
pub struct SelectCase {
    /// One set for each key, or a single value set for all of them.
    pub keyset: Vec<Expr>,
    /// Next state if it matches.
    pub target: Target,
    /// The whole case.
    pub span: Span,
}

/// An object that a declaration makes.
#[derive(Debug)]
pub struct Instance {
    /// Name in the program, without that of the block around it.
    pub name: String,
    /// Annotations, of which `@name` changes the name for the control plane.
    pub annotations: Vec<Annotation>,
    /// The constructor call.
    pub construct: Construct,
    /// Type of the object.
    pub ty: Type,
    /// The bodies of its type's abstract methods.
    pub methods: Vec<Function>,
    /// Its name in the declaration.
    pub span: Span,
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
        /// Index in [`ExternType::methods`].
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

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its form and its parts.
    pub kind: StmtKind,
    /// The whole statement.
    pub span: Span,
}

/// Forms of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `target = value`.
    Assign(Expr, Expr),
    /// `target op= value`. The target is evaluated once.
    Update(Expr, BinaryOp, Expr),
    /// A call whose result, if any, is discarded.
    Call(Call),
    /// `if`, with the statements of both branches.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Statements in braces.
    Block {
        /// Whether no other packet may come between (annotation `@atomic`).
        atomic: bool,
        /// Statements in order.
        body: Vec<Stmt>,
    },
    /// `switch` on a value. None among the labels is `default`.
    Switch(Expr, Vec<(Vec<Option<Expr>>, Vec<Stmt>)>),
    /// `switch (t.apply().action_run)`. Labels are indices in [`Table::actions`]; none is `default`.
    SwitchAction(TableId, Vec<(Vec<Option<usize>>, Vec<Stmt>)>),
    /// Declaration of a local variable, with its initial value.
    Declare(VarId, Option<Expr>),
    /// `for (init; condition; update) body`; `init` stands before it as statements of its own.
    For {
        /// Tested before each iteration.
        condition: Expr,
        /// Statements after each iteration, `continue` included.
        update: Vec<Stmt>,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `for (var in low .. high)`, both ends included.
    ForRange {
        /// Variable of the loop.
        var: VarId,
        /// First value.
        low: Expr,
        /// Last value. Below `low` nothing is executed.
        high: Expr,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `for (var in collection)`.
    ForEach {
        /// Variable of the loop.
        var: VarId,
        /// A header stack, or a list whose items have the type of the variable.
        collection: Expr,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// Leaves the innermost loop.
    Break,
    /// Ends an iteration of the innermost loop.
    Continue,
    /// Leaves the function, action or control, with the result of a function.
    Return(Option<Expr>),
    /// Ends the control that the package calls, with all that called this one.
    Exit,
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

impl Signature {
    /// A signature without type parameters and result.
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

/// Appends an item and returns its index, which is its number.
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
