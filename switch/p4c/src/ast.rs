//! The syntax tree: P4_16 as it was written, names not yet resolved.

use num_bigint::BigInt;

use crate::lex::{LiteralWidth, Token};
use crate::source::Span;

/// A name as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    /// The name, without the quotes of a string.
    pub text: String,
    /// Its place in the source.
    pub span: Span,
}

/// A whole program after preprocessing.
#[derive(Clone, Debug)]
pub struct Program {
    /// Declarations of the top level, in order.
    pub declarations: Vec<Declaration>,
}

/// `@name(...)` or `@name[...]`. The body is kept as tokens, since its grammar depends on the name.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The word after `@`.
    pub name: Ident,
    /// Tokens between the brackets; empty if there are none.
    pub body: Vec<Token>,
    /// Whether the body is in square brackets.
    pub structured: bool,
}

/// Direction of a parameter (P4_16, 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `in`: read by the callee.
    In,
    /// `out`: written by the callee.
    Out,
    /// `inout`: read and written by the callee.
    InOut,
    /// No direction: a compile-time argument, or action data that the control plane gives.
    None,
}

impl Direction {
    /// Whether the callee writes to the argument.
    pub fn writes(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }
}

/// A parameter of a declaration.
#[derive(Clone, Debug)]
pub struct Param {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its direction.
    pub direction: Direction,
    /// Type of the argument.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// Value after `=`. None: there is no default.
    pub default: Option<Expr>,
}

/// A type as it is written.
#[derive(Clone, Debug)]
pub struct Type {
    /// Its form and its parts.
    pub kind: TypeKind,
    /// Its place in the source.
    pub span: Span,
}

/// Forms of types.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `void`.
    Void,
    /// `bool`.
    Bool,
    /// `int`: an integer of arbitrary precision, which exists at compile time only.
    Int,
    /// `bit<width>` or `int<width>`.
    Bits {
        /// Whether it is `int<width>`.
        signed: bool,
        /// Bits; a compile-time expression.
        width: Box<Expr>,
    },
    /// `varbit<width>`, with the largest width in bits.
    Varbit(Box<Expr>),
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// `string`.
    String,
    /// `_`: a type argument that is inferred.
    DontCare,
    /// A declared type, or a type variable.
    Name {
        /// Its name.
        name: Ident,
        /// Type arguments; empty if none are written.
        args: Vec<Type>,
        /// Written with a leading dot: looked up at the top level only.
        global: bool,
    },
    /// A header stack, `element[size]`.
    Stack {
        /// Type of the headers.
        element: Box<Type>,
        /// Number of the headers; a compile-time expression.
        size: Box<Expr>,
    },
    /// `tuple<..>`, with the types of its members.
    Tuple(Vec<Type>),
    /// `list<..>`, with the type of its items.
    List(Box<Type>),
}

/// An expression as it is written.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its form and its parts.
    pub kind: ExprKind,
    /// Its place in the source.
    pub span: Span,
}

/// Forms of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An integer literal.
    Number {
        /// Its value, without a sign.
        value: BigInt,
        /// Width and sign of a literal such as `8w255`. None: a literal of type `int`.
        width: Option<LiteralWidth>,
        /// Base that it is written in: 2, 8, 10 or 16.
        radix: u32,
    },
    /// `true` or `false`.
    Bool(bool),
    /// A string literal without its quotes.
    Str(String),
    /// The name of a constant, variable, instance, type or function.
    Name {
        /// The name.
        name: Ident,
        /// Written with a leading dot: looked up at the top level only.
        global: bool,
    },
    /// A type where an expression is written: `bit<8>.minSizeInBits()`, `Pair<bit<8>>(...)`.
    Type(Box<Type>),
    /// `base.member`.
    Member(Box<Expr>, Ident),
    /// `base[index]`.
    Index(Box<Expr>, Box<Expr>),
    /// `base[high:low]`.
    Slice {
        /// Value that bits are taken of.
        base: Box<Expr>,
        /// Number of the highest bit.
        high: Box<Expr>,
        /// Number of the lowest bit.
        low: Box<Expr>,
    },
    /// `base[low +: width]`.
    SliceFrom {
        /// Value that bits are taken of.
        base: Box<Expr>,
        /// Number of the lowest bit.
        low: Box<Expr>,
        /// Number of bits.
        width: Box<Expr>,
    },
    /// `callee<type_args>(args)`; also a constructor call.
    Call {
        /// Function, method, action, table method or type.
        callee: Box<Expr>,
        /// Type arguments; empty if none are written.
        type_args: Vec<Type>,
        /// Arguments in the order of the text.
        args: Vec<Arg>,
    },
    /// `op operand`.
    Unary(UnaryOp, Box<Expr>),
    /// `left op right`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? then : otherwise`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(type) operand`.
    Cast(Box<Type>, Box<Expr>),
    /// `{ a, b }`.
    List {
        /// Its items.
        items: Vec<Expr>,
        /// Whether it ends with `...`: the other members have their default values.
        rest: bool,
    },
    /// `{ a = 1, b = 2 }`.
    Record {
        /// Members with their values, in the order of the text.
        fields: Vec<(Ident, Expr)>,
        /// Whether it ends with `...`: the other members have their default values.
        rest: bool,
    },
    /// `{#}`: an invalid header or header union.
    InvalidHeader,
    /// `_`: any value in a keyset, or an argument whose result is discarded.
    DontCare,
    /// `default`, in keysets and labels of `switch`.
    Default,
    /// `...` as a value: the default value of its type.
    Dots,
    /// `value &&& mask`, in keysets.
    Mask(Box<Expr>, Box<Expr>),
    /// `low .. high`, in keysets and `for`.
    Range(Box<Expr>, Box<Expr>),
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Parameter that it is for. None: its position decides.
    pub name: Option<Ident>,
    /// Its value; `_` for an `out` argument that is discarded.
    pub value: Expr,
}

/// Operators before an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `-`
    Minus,
    /// `+`
    Plus,
}

/// Operators between two operands (P4_16, 8.5 to 8.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `*`
    Mul,
    /// `/`: compile-time integers only.
    Div,
    /// `%`: compile-time integers only.
    Mod,
    /// `+`: modulo 2^width.
    Add,
    /// `-`: modulo 2^width.
    Sub,
    /// `|+|`: saturating.
    SatAdd,
    /// `|-|`: saturating.
    SatSub,
    /// `<<`
    Shl,
    /// `>>`: arithmetic for signed values.
    Shr,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `>`
    Gt,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `&`
    BitAnd,
    /// `^`
    BitXor,
    /// `|`
    BitOr,
    /// `++`: the left operand becomes the high bits.
    Concat,
    /// `&&`: the right operand is evaluated only if the left one is true.
    And,
    /// `||`: the right operand is evaluated only if the left one is false.
    Or,
}

impl BinaryOp {
    /// The operator as P4 writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::SatAdd => "|+|",
            BinaryOp::SatSub => "|-|",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Le => "<=",
            BinaryOp::Ge => ">=",
            BinaryOp::Lt => "<",
            BinaryOp::Gt => ">",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitXor => "^",
            BinaryOp::BitOr => "|",
            BinaryOp::Concat => "++",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }
}

impl UnaryOp {
    /// The operator as P4 writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Not => "!",
            UnaryOp::Complement => "~",
            UnaryOp::Minus => "-",
            UnaryOp::Plus => "+",
        }
    }
}

/// A statement as it is written.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its form and its parts.
    pub kind: StatementKind,
    /// Its place in the source.
    pub span: Span,
}

/// Forms of statements.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// `;`
    Empty,
    /// `target = value`, or `target op= value`.
    Assign {
        /// Place that is written.
        target: Expr,
        /// Operator before `=`. None: a plain assignment.
        op: Option<BinaryOp>,
        /// Value that is assigned, or the right operand.
        value: Expr,
    },
    /// A call whose result is discarded.
    Call(Expr),
    /// `if (condition) then else otherwise`.
    If {
        /// Selects the branch that is executed.
        condition: Expr,
        /// Branch for true.
        then: Box<Statement>,
        /// Branch for false. None: there is no `else`.
        otherwise: Option<Box<Statement>>,
    },
    /// Statements in braces.
    Block {
        /// Annotations before the brace, such as `@atomic`.
        annotations: Vec<Annotation>,
        /// Statements in order.
        body: Vec<Statement>,
    },
    /// `switch (subject) { .. }`.
    Switch {
        /// Value that selects a case, or `t.apply().action_run`.
        subject: Expr,
        /// Cases in order.
        cases: Vec<SwitchCase>,
    },
    /// `for (init; condition; update) body`.
    For {
        /// Statements and declarations before the first iteration.
        init: Vec<Statement>,
        /// Tested before each iteration.
        condition: Expr,
        /// Statements after each iteration.
        update: Vec<Statement>,
        /// Statement of an iteration.
        body: Box<Statement>,
    },
    /// `for (ty name in collection) body`.
    ForIn {
        /// Type of the variable.
        ty: Type,
        /// Variable of the loop.
        name: Ident,
        /// A range, list or header stack.
        collection: Expr,
        /// Statement of an iteration.
        body: Box<Statement>,
    },
    /// `return`, with the result of a function.
    Return(Option<Expr>),
    /// `exit;`
    Exit,
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// A local constant, variable or instance.
    Declaration(Box<Declaration>),
}

/// A label of a `switch` with its body.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// Value, action name or `default`.
    pub label: Expr,
    /// None if the label shares the body of the next case.
    pub body: Option<Statement>,
}

/// A declaration of the top level, of a block or of a method.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Name that it declares; that of an `error` or `match_kind` declaration is the keyword.
    pub name: Ident,
    /// Its form and its parts.
    pub kind: DeclarationKind,
    /// Its place in the source.
    pub span: Span,
}

/// The three kinds of types with named fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    /// `struct`: fields of any type.
    Struct,
    /// `header`: fields of the wire, and whether it is valid.
    Header,
    /// `header_union`: at most one of its headers is valid.
    Union,
}

impl StructKind {
    /// The keyword that declares it.
    pub fn keyword(self) -> &'static str {
        match self {
            StructKind::Struct => "struct",
            StructKind::Header => "header",
            StructKind::Union => "header_union",
        }
    }
}

/// Forms of declarations.
#[derive(Clone, Debug)]
pub enum DeclarationKind {
    /// `const ty NAME = value;`
    Const {
        /// Type of the constant.
        ty: Type,
        /// A compile-time expression.
        value: Expr,
    },
    /// `ty name = init;`
    Variable {
        /// Type of the variable.
        ty: Type,
        /// Value at first. None: undefined, or invalid headers.
        init: Option<Expr>,
    },
    /// `ty(args) name = { .. };`
    Instance {
        /// Type of the object.
        ty: Type,
        /// Constructor arguments.
        args: Vec<Arg>,
        /// Abstract methods that the instance implements (P4_16, 11.3.1). None: there are no braces.
        initializer: Option<Vec<Declaration>>,
    },
    /// A struct, header or header union.
    Struct {
        /// One of these three kinds.
        kind: StructKind,
        /// Type variables.
        type_params: Vec<Ident>,
        /// Fields in order.
        fields: Vec<Field>,
    },
    /// `enum NAME { .. }`.
    Enum {
        /// Members in order.
        members: Vec<Ident>,
    },
    /// `enum ty NAME { .. }`, whose members have values.
    SerializableEnum {
        /// Type of the values.
        underlying: Type,
        /// Members with their values, in order.
        members: Vec<(Ident, Expr)>,
    },
    /// `error { .. }`, which adds to the errors of the program.
    Error {
        /// Errors that it adds.
        members: Vec<Ident>,
    },
    /// `match_kind { .. }`, which adds to the kinds of match.
    MatchKind {
        /// Kinds that it adds.
        members: Vec<Ident>,
    },
    /// `typedef`: another name for a type.
    Typedef(Type),
    /// `type`: a new type with the values of another one.
    NewType(Type),
    /// `extern NAME { .. }`.
    ExternObject {
        /// Type variables.
        type_params: Vec<Ident>,
        /// Constructors and methods.
        methods: Vec<Prototype>,
    },
    /// `extern` function of the architecture.
    ExternFunction(Prototype),
    /// A function with a body.
    Function {
        /// Name, parameters and type of the result.
        prototype: Prototype,
        /// Statements in order.
        body: Vec<Statement>,
    },
    /// An action.
    Action {
        /// Its parameters.
        params: Vec<Param>,
        /// Statements in order.
        body: Vec<Statement>,
    },
    /// A table with its properties, in order.
    Table(Vec<TableProperty>),
    /// A parser, or a parser type.
    Parser {
        /// Type variables and parameters.
        ty: BlockType,
        /// Declarations and states. None: a type.
        body: Option<Block<Vec<State>>>,
    },
    /// A control, or a control type.
    Control {
        /// Type variables and parameters.
        ty: BlockType,
        /// Declarations and the `apply` block. None: a type.
        body: Option<Block<Vec<Statement>>>,
    },
    /// A package type.
    Package(BlockType),
    /// `value_set<ty>(size) name;`
    ValueSet {
        /// Type of a member.
        ty: Type,
        /// Number of members that it has room for.
        size: Expr,
    },
}

/// A field of a struct, header or header union.
#[derive(Clone, Debug)]
pub struct Field {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
}

/// The head of a method, an extern function or a function. The return type of a constructor is `Void`.
#[derive(Clone, Debug)]
pub struct Prototype {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name; of a constructor that of the type.
    pub name: Ident,
    /// Type variables.
    pub type_params: Vec<Ident>,
    /// Type of the result.
    pub return_type: Type,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Whether it is a constructor of an extern type.
    pub is_constructor: bool,
    /// Whether instances must implement it (`abstract`).
    pub is_abstract: bool,
}

/// Type variables and parameters of a parser, control or package.
#[derive(Clone, Debug)]
pub struct BlockType {
    /// Type variables.
    pub type_params: Vec<Ident>,
    /// Parameters of `apply`, or of the constructor of a package.
    pub params: Vec<Param>,
}

/// The body of a parser or control.
#[derive(Clone, Debug)]
pub struct Block<C> {
    /// Parameters of the constructor, known at compile time.
    pub constructor_params: Vec<Param>,
    /// Declarations before the code, in order.
    pub locals: Vec<Declaration>,
    /// States of a parser, or the `apply` block of a control.
    pub code: C,
}

/// A state of a parser.
#[derive(Clone, Debug)]
pub struct State {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Ident,
    /// Statements before the transition.
    pub body: Vec<Statement>,
    /// The next state. None: none is written, which leads to `reject`.
    pub transition: Option<Transition>,
    /// Its place in the source.
    pub span: Span,
}

/// The `transition` statement of a state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// To the state of this name.
    Direct(Ident),
    /// `select (keys) { cases }`.
    Select {
        /// Values that are matched.
        keys: Vec<Expr>,
        /// Cases in order.
        cases: Vec<SelectCase>,
        /// Its place in the source.
        span: Span,
    },
}

/// A case of a `select`.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// A set of values for each key, or one of all together.
    pub keyset: Vec<Expr>,
    /// Name of the next state.
    pub state: Ident,
    /// Its place in the source.
    pub span: Span,
}

/// A property of a table.
#[derive(Clone, Debug)]
pub struct TableProperty {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Whether it is `const`: the control plane may not change it.
    pub is_const: bool,
    /// Its name: `key`, `actions`, `size` and others.
    pub name: Ident,
    /// Its value.
    pub value: TablePropertyValue,
}

/// Forms of the value of a property.
#[derive(Clone, Debug)]
pub enum TablePropertyValue {
    /// `key = { .. }`.
    Key(Vec<KeyElement>),
    /// `actions = { .. }`.
    Actions(Vec<ActionReference>),
    /// `entries = { .. }`.
    Entries(Vec<Entry>),
    /// Any other property.
    Expression(Expr),
}

/// A field of the key of a table.
#[derive(Clone, Debug)]
pub struct KeyElement {
    /// Annotations after it, such as `@name`.
    pub annotations: Vec<Annotation>,
    /// Value that is looked up.
    pub expr: Expr,
    /// How it matches.
    pub match_kind: Ident,
}

/// `a` or `a(hdr.x)` in the list of actions of a table.
#[derive(Clone, Debug)]
pub struct ActionReference {
    /// Annotations before it, such as `@defaultonly`.
    pub annotations: Vec<Annotation>,
    /// Name of the action, or a call with its directional arguments.
    pub expr: Expr,
}

/// An entry that the program gives to a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Annotations after it, such as `@priority`.
    pub annotations: Vec<Annotation>,
    /// Whether the control plane may not change it.
    pub is_const: bool,
    /// Expression after `priority =`. None: the place in the list decides.
    pub priority: Option<Expr>,
    /// A set of values for each field of the key.
    pub keyset: Vec<Expr>,
    /// Call of the action with its data.
    pub action: Expr,
    /// Its place in the source.
    pub span: Span,
}
