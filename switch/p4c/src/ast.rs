//! The syntax tree: P4_16 as it was written, names not yet resolved.

use num_bigint::BigInt;

use crate::lex::{LiteralWidth, Token};
use crate::source::Span;

#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub declarations: Vec<Declaration>,
}

/// `@name(...)` or `@name[...]`. The body is kept as tokens, since its grammar depends on the name.
#[derive(Clone, Debug)]
pub struct Annotation {
    pub name: Ident,
    pub body: Vec<Token>,
    /// The body is in brackets: `@name[...]`.
    pub structured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    InOut,
    /// Written without a direction: a compile-time argument, or action data that the control plane gives.
    None,
}

impl Direction {
    /// Whether the callee writes to the argument.
    pub fn writes(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }
}

#[derive(Clone, Debug)]
pub struct Param {
    pub annotations: Vec<Annotation>,
    pub direction: Direction,
    pub ty: Type,
    pub name: Ident,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    Void,
    Bool,
    /// `int`: an integer of any size, which exists at compile time only.
    Int,
    Bits {
        signed: bool,
        width: Box<Expr>,
    },
    Varbit(Box<Expr>),
    Error,
    MatchKind,
    String,
    /// `_`
    DontCare,
    Name {
        name: Ident,
        args: Vec<Type>,
        /// Written with a leading dot, so it is looked up at the top level only.
        global: bool,
    },
    Stack {
        element: Box<Type>,
        size: Box<Expr>,
    },
    Tuple(Vec<Type>),
    List(Box<Type>),
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Number {
        value: BigInt,
        width: Option<LiteralWidth>,
        /// The base it was written in: 2, 8, 10 or 16.
        radix: u32,
    },
    Bool(bool),
    Str(String),
    Name {
        name: Ident,
        global: bool,
    },
    /// A type where an expression is written: `bit<8>.minSizeInBits()`, `Pair<bit<8>>(...)`.
    Type(Box<Type>),
    Member(Box<Expr>, Ident),
    Index(Box<Expr>, Box<Expr>),
    Slice {
        base: Box<Expr>,
        high: Box<Expr>,
        low: Box<Expr>,
    },
    /// `base[low +: width]`
    SliceFrom {
        base: Box<Expr>,
        low: Box<Expr>,
        width: Box<Expr>,
    },
    Call {
        callee: Box<Expr>,
        type_args: Vec<Type>,
        args: Vec<Arg>,
    },
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Box<Type>, Box<Expr>),
    /// `{ a, b }`; `rest` says that it ends with `...`.
    List {
        items: Vec<Expr>,
        rest: bool,
    },
    /// `{ a = 1, b = 2 }`
    Record {
        fields: Vec<(Ident, Expr)>,
        rest: bool,
    },
    /// `{#}`
    InvalidHeader,
    /// `_`
    DontCare,
    /// `default`, in keysets and switches
    Default,
    /// `...` as a value
    Dots,
    Mask(Box<Expr>, Box<Expr>),
    Range(Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub struct Arg {
    pub name: Option<Ident>,
    pub value: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Not,
    Complement,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Mul,
    Div,
    Mod,
    Add,
    Sub,
    SatAdd,
    SatSub,
    Shl,
    Shr,
    Le,
    Ge,
    Lt,
    Gt,
    Eq,
    Ne,
    BitAnd,
    BitXor,
    BitOr,
    Concat,
    And,
    Or,
}

impl BinaryOp {
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
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Not => "!",
            UnaryOp::Complement => "~",
            UnaryOp::Minus => "-",
            UnaryOp::Plus => "+",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StatementKind {
    Empty,
    /// `target = value`, or `target op= value` if there is an operator.
    Assign {
        target: Expr,
        op: Option<BinaryOp>,
        value: Expr,
    },
    Call(Expr),
    If {
        condition: Expr,
        then: Box<Statement>,
        otherwise: Option<Box<Statement>>,
    },
    Block {
        annotations: Vec<Annotation>,
        body: Vec<Statement>,
    },
    Switch {
        subject: Expr,
        cases: Vec<SwitchCase>,
    },
    For {
        init: Vec<Statement>,
        condition: Expr,
        update: Vec<Statement>,
        body: Box<Statement>,
    },
    ForIn {
        ty: Type,
        name: Ident,
        collection: Expr,
        body: Box<Statement>,
    },
    Return(Option<Expr>),
    Exit,
    Break,
    Continue,
    Declaration(Box<Declaration>),
}

#[derive(Clone, Debug)]
pub struct SwitchCase {
    pub label: Expr,
    /// None if the label shares the body of the next case.
    pub body: Option<Statement>,
}

#[derive(Clone, Debug)]
pub struct Declaration {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub kind: DeclarationKind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    Struct,
    Header,
    Union,
}

impl StructKind {
    pub fn keyword(self) -> &'static str {
        match self {
            StructKind::Struct => "struct",
            StructKind::Header => "header",
            StructKind::Union => "header_union",
        }
    }
}

#[derive(Clone, Debug)]
pub enum DeclarationKind {
    Const {
        ty: Type,
        value: Expr,
    },
    Variable {
        ty: Type,
        init: Option<Expr>,
    },
    /// `Type(args) name;`. The initializer holds the abstract methods that the instance implements.
    Instance {
        ty: Type,
        args: Vec<Arg>,
        initializer: Option<Vec<Declaration>>,
    },
    Struct {
        kind: StructKind,
        type_params: Vec<Ident>,
        fields: Vec<Field>,
    },
    Enum {
        members: Vec<Ident>,
    },
    SerializableEnum {
        underlying: Type,
        members: Vec<(Ident, Expr)>,
    },
    Error {
        members: Vec<Ident>,
    },
    MatchKind {
        members: Vec<Ident>,
    },
    Typedef(Type),
    NewType(Type),
    ExternObject {
        type_params: Vec<Ident>,
        methods: Vec<Prototype>,
    },
    ExternFunction(Prototype),
    Function {
        prototype: Prototype,
        body: Vec<Statement>,
    },
    Action {
        params: Vec<Param>,
        body: Vec<Statement>,
    },
    Table(Vec<TableProperty>),
    /// A parser, or a parser type, which has no body.
    Parser {
        ty: BlockType,
        body: Option<Block<Vec<State>>>,
    },
    /// A control, or a control type, which has no body.
    Control {
        ty: BlockType,
        body: Option<Block<Vec<Statement>>>,
    },
    Package(BlockType),
    ValueSet {
        ty: Type,
        size: Expr,
    },
}

#[derive(Clone, Debug)]
pub struct Field {
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub name: Ident,
}

/// The head of a method, an extern function or a function. The return type of a constructor is `Void`.
#[derive(Clone, Debug)]
pub struct Prototype {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub type_params: Vec<Ident>,
    pub return_type: Type,
    pub params: Vec<Param>,
    pub is_constructor: bool,
    pub is_abstract: bool,
}

/// What can be called of a parser, control or package.
#[derive(Clone, Debug)]
pub struct BlockType {
    pub type_params: Vec<Ident>,
    pub params: Vec<Param>,
}

/// The body of a parser or control.
#[derive(Clone, Debug)]
pub struct Block<C> {
    pub constructor_params: Vec<Param>,
    pub locals: Vec<Declaration>,
    /// The states of a parser, the `apply` block of a control.
    pub code: C,
}

#[derive(Clone, Debug)]
pub struct State {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub body: Vec<Statement>,
    pub transition: Option<Transition>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Transition {
    Direct(Ident),
    Select {
        keys: Vec<Expr>,
        cases: Vec<SelectCase>,
        span: Span,
    },
}

#[derive(Clone, Debug)]
pub struct SelectCase {
    pub keyset: Vec<Expr>,
    pub state: Ident,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct TableProperty {
    pub annotations: Vec<Annotation>,
    pub is_const: bool,
    pub name: Ident,
    pub value: TablePropertyValue,
}

#[derive(Clone, Debug)]
pub enum TablePropertyValue {
    Key(Vec<KeyElement>),
    Actions(Vec<ActionReference>),
    Entries(Vec<Entry>),
    Expression(Expr),
}

#[derive(Clone, Debug)]
pub struct KeyElement {
    pub annotations: Vec<Annotation>,
    pub expr: Expr,
    pub match_kind: Ident,
}

/// `a` or `a(hdr.x)` in the list of actions of a table.
#[derive(Clone, Debug)]
pub struct ActionReference {
    pub annotations: Vec<Annotation>,
    pub expr: Expr,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub annotations: Vec<Annotation>,
    pub is_const: bool,
    pub priority: Option<Expr>,
    pub keyset: Vec<Expr>,
    pub action: Expr,
    pub span: Span,
}
