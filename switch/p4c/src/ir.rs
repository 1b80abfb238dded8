//! The checked program: names resolved, every expression typed, casts explicit, arguments in order.
//!
//! Variables, actions, tables and instances are numbered through the whole program, so that later
//! stages never look at scopes.

mod expression;
mod ids;
mod statement;

pub use crate::annotations::{Annotation, AnnotationValue};
use crate::architecture::Architecture;
pub use crate::ast::{BinaryOp, Direction, UnaryOp};
use crate::names::NameList;
use crate::source::Span;
pub use crate::types::{BlockId, ExternId};
use crate::types::{Type, TypeVar};
pub use expression::{Call, Callee, Construct, Constructed, Expr, ExprKind, same};
pub use ids::{
    ActionId, ControlId, ExternFunctionId, FunctionId, InstanceId, ParserId, TableId, ValueSetId,
    VarId,
};
pub use statement::{Stmt, StmtKind};

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
