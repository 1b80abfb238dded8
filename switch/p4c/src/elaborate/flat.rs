//! The elaborated program: everything instantiated and inlined.
//!
//! Expressions are those of [`crate::ir`], with three restrictions: variables are numbers of
//! [`Flat::vars`], instances are numbers of [`Flat::objects`], and the only calls left inside of
//! expressions are `isValid` and `lookahead` (the latter only as the whole right side of an assignment).

use std::collections::BTreeMap;

use crate::annotations;
use crate::ir::{ActionId, Annotation, ControlId, Expr, ExprKind, Priority, TableId};
use crate::source::Span;
use crate::types::Type;

/// A program without scopes, calls of blocks, functions or methods: input of the back ends.
#[derive(Debug, Default)]
pub struct Flat {
    /// Variables of all instances, parameters of the blocks and of actions included.
    pub vars: Vec<FlatVar>,
    /// Extern objects of all instances.
    pub objects: Vec<Object>,
    /// Actions, once for each instance of their control.
    pub actions: Vec<FlatAction>,
    /// Tables, once for each instance of their control.
    pub tables: Vec<FlatTable>,
    /// Parser value sets of all instances.
    pub value_sets: Vec<FlatValueSet>,
    /// Instances of controls, in the order of instantiation, in which P4Info lists what is in them.
    pub units: Vec<FlatUnit>,
    /// Actions that controls call directly: the number of the calling instance, whether that control declares the
    /// action, and the action.
    pub called_actions: Vec<(usize, bool, ActionId)>,
    /// Parser of the package, with its sub-parsers inlined. This and the controls below are v1model's; those of Tofino
    /// are in [`Flat::tofino`].
    pub parser: FlatParser,
    /// First control of the package, after the parser.
    pub verify_checksum: FlatControl,
    /// Ingress control.
    pub ingress: FlatControl,
    /// Egress control.
    pub egress: FlatControl,
    /// Control between egress and deparser.
    pub compute_checksum: FlatControl,
    /// Deparser, whose statements are `emit` calls.
    pub deparser: FlatControl,
    /// The pipelines of a program for Tofino; none for others.
    pub tofino: Option<Tofino>,
    /// The blocks of a program for PSA; none for others.
    pub psa: Option<Psa>,
}

/// A program for PSA.
#[derive(Debug, Default)]
pub struct Psa {
    /// Its blocks.
    pub pipe: Pipe,
    /// Variables of the architecture's metadata, as numbers of [`Flat::vars`], by the name of their type.
    pub standard: BTreeMap<String, usize>,
    /// Variables that a deparser fills and the parser of another pass reads, by name and number.
    pub carried: Vec<(&'static str, usize)>,
}

/// A program for Tofino.
#[derive(Debug, Default)]
pub struct Tofino {
    /// Its pipelines, in the order of `Switch`, which has each once.
    pub pipes: Vec<Pipe>,
    /// Variables of intrinsic metadata, as numbers of [`Flat::vars`], by the name of their type. No packet is in two
    /// pipelines at a time, so that these share them.
    pub intrinsic: BTreeMap<String, usize>,
}

impl Tofino {
    /// The name of the pipeline if there is only one, in whose names it does not stand.
    pub fn only_pipe(&self) -> Option<&str> {
        match &self.pipes[..] {
            [pipe] => Some(&pipe.name),
            _ => None,
        }
    }
}

/// Blocks of a pipeline of Tofino, or of PSA.
#[derive(Debug, Default)]
pub struct Pipe {
    /// Its name.
    pub name: String,
    /// Parser of ingress.
    pub ingress_parser: FlatParser,
    /// Control of ingress.
    pub ingress: FlatControl,
    /// Deparser of ingress.
    pub ingress_deparser: FlatControl,
    /// Parser of egress.
    pub egress_parser: FlatParser,
    /// Control of egress.
    pub egress: FlatControl,
    /// Deparser of egress.
    pub egress_deparser: FlatControl,
    /// Control of the ghost thread (Tofino 2). None: the program has no ghost thread.
    pub ghost: Option<FlatControl>,
}

/// A variable of one instance.
#[derive(Clone, Debug)]
pub struct FlatVar {
    /// Unique in the program.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where its value comes from.
    pub role: Role,
    /// Its name in the declaration.
    pub span: Span,
}

/// Where the value of a variable comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The packet's headers.
    Headers,
    /// The program's metadata.
    Metadata,
    /// `standard_metadata`
    Standard,
    /// A local variable, or a parameter of an inlined block or action.
    Local,
    /// The parameter of this index of an action, which the control plane fills.
    ActionData(usize),
}

/// An instance of a control.
#[derive(Clone, Debug)]
pub struct FlatUnit {
    /// Number of the instance, in the order of instantiation.
    pub id: usize,
    /// Control of the program that it is an instance of.
    pub control: ControlId,
    /// Its name for the control plane.
    pub path: String,
}

/// An instance of an extern type.
#[derive(Clone, Debug)]
pub struct Object {
    /// Name for the control plane.
    pub name: String,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Name of the extern type.
    pub extern_name: String,
    /// Type arguments.
    pub type_args: Vec<Type>,
    /// Constructor arguments with the names of their parameters.
    pub args: Vec<(String, Expr)>,
    /// Its name in the declaration.
    pub span: Span,
    /// Whether the program declares it; `packet_in` and `packet_out` are made by the architecture.
    pub declared: bool,
}

impl Object {
    /// A constructor argument by the name of its parameter. None: it is not given.
    pub fn arg(&self, parameter: &str) -> Option<&Expr> {
        let found = self.args.iter().find(|(name, _)| name == parameter);
        found.map(|(_, value)| value)
    }
}

/// An action of one instance of its control.
#[derive(Debug)]
pub struct FlatAction {
    /// Name for the control plane.
    pub name: String,
    /// The action of the program.
    pub action: ActionId,
    /// The number of the instance of the control that declares it; none for actions at the top level.
    pub unit: Option<usize>,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Parameters that the control plane gives, in order.
    pub params: Vec<ActionParam>,
    /// Statements, with directional arguments substituted.
    pub body: Vec<FlatStmt>,
    /// Its name in the declaration.
    pub span: Span,
}

/// A parameter of an action that the control plane gives.
#[derive(Clone, Debug)]
pub struct ActionParam {
    /// Name in the program.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Annotations of the parameter.
    pub annotations: Vec<Annotation>,
}

impl Flat {
    /// The action profile of what a table has as its implementation: of TNA's selectors, the one that they are made of.
    pub fn profile(&self, implementation: usize) -> usize {
        let profile = self.objects[implementation].arg("action_profile");
        match profile.map(|arg| &arg.kind) {
            Some(ExprKind::Instance(index)) => *index,
            _ => implementation,
        }
    }

    /// The tables with an action that calls an object.
    pub fn users(&self, object: usize) -> impl Iterator<Item = &FlatTable> {
        let calls = move |action: &usize| calls_object(&self.actions[*action].body, object);
        self.tables
            .iter()
            .filter(move |t| t.actions.iter().any(calls))
    }
}

/// Whether a statement calls a method of an object.
fn calls_object(body: &[FlatStmt], object: usize) -> bool {
    body.iter().any(|statement| {
        matches!(statement.kind, FlatKind::Extern { object: Some(o), .. } if o == object)
            || statement
                .kind
                .bodies()
                .any(|inner| calls_object(inner, object))
    })
}

impl ActionParam {
    /// Name for the control plane: annotation `@name`, or that of the program.
    pub fn own_name(&self) -> String {
        annotations::string(&self.annotations, "name").unwrap_or_else(|| self.name.clone())
    }
}

/// A table of one instance of its control.
#[derive(Debug)]
pub struct FlatTable {
    /// Name for the control plane.
    pub name: String,
    /// The table of the program, where the rest of the properties is.
    pub table: TableId,
    /// The number of the instance of the control around it.
    pub unit: usize,
    /// Values that are looked up, in the order of the key.
    pub key: Vec<Expr>,
    /// Indices in [`Flat::actions`], in the order of the table's list.
    pub actions: Vec<usize>,
    /// Action data of the default action.
    pub default_data: Vec<Expr>,
    /// Entries that the program gives, in order.
    pub entries: Vec<FlatEntry>,
    /// Number of entries that it has room for. None: the program does not say.
    pub size: Option<u64>,
    /// Action profile or selector, as index in [`Flat::objects`]. None: entries hold their action themselves.
    pub implementation: Option<usize>,
    /// Direct counter, as index in [`Flat::objects`].
    pub counters: Option<usize>,
    /// Direct meter, as index in [`Flat::objects`].
    pub meters: Option<usize>,
}

/// An entry that the program gives to a table.
#[derive(Debug)]
pub struct FlatEntry {
    /// A set of values for each field of the key.
    pub keyset: Vec<Expr>,
    /// Index in the table's list of actions.
    pub action: usize,
    /// Action data, in the order of the parameters.
    pub data: Vec<Expr>,
    /// Priority, where the program states one. None: its place in the list decides.
    pub priority: Option<Priority>,
    /// Whether the control plane may not change the entry.
    pub is_const: bool,
    /// The whole entry.
    pub span: Span,
}

/// A parser value set of one instance of its parser.
#[derive(Debug)]
pub struct FlatValueSet {
    /// Name for the control plane.
    pub name: String,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Type of a member.
    pub ty: Type,
    /// Number of members that it has room for.
    pub size: u32,
    /// Its name in the declaration.
    pub span: Span,
}

/// A control of the package with everything that it calls.
#[derive(Debug, Default)]
pub struct FlatControl {
    /// Name of the control in the program.
    pub name: String,
    /// Its name in the declaration.
    pub span: Span,
    /// Statements of `apply`, in order.
    pub body: Vec<FlatStmt>,
}

/// The parser of the package with everything that it calls.
#[derive(Debug, Default)]
pub struct FlatParser {
    /// Name of the parser in the program.
    pub name: String,
    /// Its name in the declaration.
    pub span: Span,
    /// Index in `states` of the one that parsing begins in.
    pub start: usize,
    /// States of the parser and of inlined sub-parsers.
    pub states: Vec<FlatState>,
}

/// A state of the parser.
#[derive(Debug)]
pub struct FlatState {
    /// Unique in the parser.
    pub name: String,
    /// Statements before the transition.
    pub body: Vec<FlatStmt>,
    /// The next state.
    pub transition: FlatTransition,
    /// Its name in the declaration.
    pub span: Span,
}

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatTarget {
    /// Parsing is done.
    Accept,
    /// Parsing has failed.
    Reject,
    /// Index in [`FlatParser::states`].
    State(usize),
}

/// The transition of a state.
#[derive(Debug)]
pub enum FlatTransition {
    /// To one state always.
    Direct(FlatTarget),
    /// By the first case that matches, else parsing fails with `NoMatch`.
    Select {
        /// Values that are matched.
        keys: Vec<Expr>,
        /// A set of values for each key, and the next state.
        cases: Vec<(Vec<Expr>, FlatTarget)>,
    },
}

/// Name of a [`FlatKind::Labeled`] block, unique in the program.
pub type Label = usize;

/// A statement.
#[derive(Clone, Debug)]
pub struct FlatStmt {
    /// Its form and its parts.
    pub kind: FlatKind,
    /// The statement of the program that it is made of.
    pub span: Span,
}

/// Forms of statements.
#[derive(Clone, Debug)]
pub enum FlatKind {
    /// `target = value`.
    Assign(Expr, Expr),
    /// Makes a header valid (true) or invalid (false).
    SetValid(Expr, bool),
    /// Shifts the elements of a header stack up by this count; the first ones become invalid.
    PushFront(Expr, u32),
    /// Shifts the elements of a header stack down by this count; the last ones become invalid.
    PopFront(Expr, u32),
    /// A call of an extern function, or of a method if there is an object, by its index in [`Flat::objects`].
    Extern {
        /// Receiver of the method. None: an extern function.
        object: Option<usize>,
        /// Name of the method or function.
        name: String,
        /// Type arguments, inferred ones included.
        type_args: Vec<Type>,
        /// Arguments in the order of the parameters.
        args: Vec<Expr>,
        /// Where the value that it returns is put; none if it returns none, as all of v1model's.
        result: Option<Expr>,
    },
    /// Condition, and the statements of both branches.
    If(Expr, Vec<FlatStmt>, Vec<FlatStmt>),
    /// Statements that run as one BMv2 action, so that no other packet comes between.
    Atomic {
        /// Name of the action.
        name: String,
        /// Statements in order.
        body: Vec<FlatStmt>,
    },
    /// Looks a table up, by its index in [`Flat::tables`], and executes the action that is found.
    ApplyTable(usize, Branches),
    /// A block with a label. `Break` with the same label continues behind it.
    Labeled(Label, Vec<FlatStmt>),
    /// Leaves the block with this label.
    Break(Label),
    /// A block that is repeated until a `Break` leaves it.
    Loop(Vec<FlatStmt>),
    /// Ends the control.
    Exit,
}

impl FlatKind {
    /// The statement of this kind, made of the one at `span`.
    pub fn at(self, span: Span) -> FlatStmt {
        FlatStmt { kind: self, span }
    }

    /// Blocks inside of a statement, in their order.
    pub fn bodies(&self) -> impl Iterator<Item = &[FlatStmt]> {
        let (arms, two): (&[_], [&[FlatStmt]; 2]) = match self {
            FlatKind::If(_, a, b) | FlatKind::ApplyTable(_, Branches::HitMiss(a, b)) => {
                (&[], [a, b])
            }
            FlatKind::Atomic { body, .. } | FlatKind::Labeled(_, body) | FlatKind::Loop(body) => {
                (&[], [body, &[]])
            }
            FlatKind::ApplyTable(_, Branches::Actions(arms, rest)) => (arms, [rest, &[]]),
            _ => (&[], [&[], &[]]),
        };
        arms.iter().map(|(_, body)| &body[..]).chain(two)
    }
}

/// Statements after a table, by its result.
#[derive(Clone, Debug)]
pub enum Branches {
    /// The result is not used.
    None,
    /// After a hit, and after a miss.
    HitMiss(Vec<FlatStmt>, Vec<FlatStmt>),
    /// After each action, by its index in the table's list of actions; the last part is for all others.
    Actions(Vec<(Vec<usize>, Vec<FlatStmt>)>, Vec<FlatStmt>),
}
