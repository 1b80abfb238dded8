//! The elaborated program: everything instantiated and inlined.
//!
//! Expressions are those of [`crate::ir`], with three restrictions: variables are numbers of
//! [`Flat::vars`], instances are numbers of [`Flat::objects`], and the only calls left inside of
//! expressions are `isValid` and `lookahead` (the latter only as the whole right side of an assignment).

use crate::annotations;
use crate::ir::{ActionId, Annotation, ControlId, Expr, Priority, TableId};
use crate::source::Span;
use crate::types::Type;

#[derive(Debug, Default)]
pub struct Flat {
    pub vars: Vec<FlatVar>,
    pub objects: Vec<Object>,
    pub actions: Vec<FlatAction>,
    pub tables: Vec<FlatTable>,
    pub value_sets: Vec<FlatValueSet>,
    /// Instances of controls, in the order of instantiation, in which P4Info lists what is in them.
    pub units: Vec<FlatUnit>,
    /// Actions that controls call directly: the number of the calling instance, whether that control declares the
    /// action, and the action.
    pub called_actions: Vec<(usize, bool, ActionId)>,
    pub parser: FlatParser,
    pub verify_checksum: FlatControl,
    pub ingress: FlatControl,
    pub egress: FlatControl,
    pub compute_checksum: FlatControl,
    pub deparser: FlatControl,
}

#[derive(Clone, Debug)]
pub struct FlatVar {
    /// Unique in the program.
    pub name: String,
    pub ty: Type,
    pub role: Role,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The packet's headers.
    Headers,
    /// The program's metadata.
    Metadata,
    /// `standard_metadata`
    Standard,
    Local,
    /// The parameter of this index of an action, which the control plane fills.
    ActionData(usize),
}

/// An instance of a control.
#[derive(Clone, Debug)]
pub struct FlatUnit {
    pub id: usize,
    pub control: ControlId,
    /// Its name for the control plane.
    pub path: String,
}

/// An instance of an extern type.
#[derive(Clone, Debug)]
pub struct Object {
    /// Name for the control plane.
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub extern_name: String,
    pub type_args: Vec<Type>,
    pub args: Vec<(String, Expr)>,
    pub span: Span,
    /// Whether the program declares it; `packet_in` and `packet_out` are made by the architecture.
    pub declared: bool,
}

#[derive(Debug)]
pub struct FlatAction {
    pub name: String,
    pub action: ActionId,
    /// The number of the instance of the control that declares it; none for actions at the top level.
    pub unit: Option<usize>,
    pub annotations: Vec<Annotation>,
    pub params: Vec<ActionParam>,
    pub body: Vec<FlatStmt>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct ActionParam {
    pub name: String,
    pub ty: Type,
    pub annotations: Vec<Annotation>,
}

impl ActionParam {
    /// How the control plane knows it.
    pub fn own_name(&self) -> String {
        annotations::string(&self.annotations, "name").unwrap_or_else(|| self.name.clone())
    }
}

#[derive(Debug)]
pub struct FlatTable {
    pub name: String,
    /// The table of the program, where the rest of the properties is.
    pub table: TableId,
    /// The number of the instance of the control around it.
    pub unit: usize,
    pub key: Vec<Expr>,
    /// Indices in [`Flat::actions`], in the order of the table's list.
    pub actions: Vec<usize>,
    pub default_data: Vec<Expr>,
    pub entries: Vec<FlatEntry>,
    /// How many entries it has room for; none if the program does not say.
    pub size: Option<u64>,
    /// The objects of these properties, as indices in [`Flat::objects`].
    pub implementation: Option<usize>,
    pub counters: Option<usize>,
    pub meters: Option<usize>,
}

#[derive(Debug)]
pub struct FlatEntry {
    pub keyset: Vec<Expr>,
    /// Index in the table's list of actions.
    pub action: usize,
    pub data: Vec<Expr>,
    pub priority: Option<Priority>,
    pub is_const: bool,
    pub span: Span,
}

#[derive(Debug)]
pub struct FlatValueSet {
    pub name: String,
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub size: u32,
    pub span: Span,
}

#[derive(Debug, Default)]
pub struct FlatControl {
    /// The name of the control.
    pub name: String,
    pub span: Span,
    pub body: Vec<FlatStmt>,
}

#[derive(Debug, Default)]
pub struct FlatParser {
    pub name: String,
    pub span: Span,
    pub start: usize,
    pub states: Vec<FlatState>,
}

#[derive(Debug)]
pub struct FlatState {
    /// Unique in the parser.
    pub name: String,
    pub body: Vec<FlatStmt>,
    pub transition: FlatTransition,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatTarget {
    Accept,
    Reject,
    State(usize),
}

#[derive(Debug)]
pub enum FlatTransition {
    Direct(FlatTarget),
    Select {
        keys: Vec<Expr>,
        cases: Vec<(Vec<Expr>, FlatTarget)>,
    },
}

pub type Label = usize;

#[derive(Clone, Debug)]
pub struct FlatStmt {
    pub kind: FlatKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum FlatKind {
    Assign(Expr, Expr),
    SetValid(Expr, bool),
    PushFront(Expr, u32),
    PopFront(Expr, u32),
    /// A call of an extern function, or of a method if there is an object, by its index in [`Flat::objects`].
    Extern {
        object: Option<usize>,
        name: String,
        type_args: Vec<Type>,
        args: Vec<Expr>,
    },
    If(Expr, Vec<FlatStmt>, Vec<FlatStmt>),
    /// Statements that run as one BMv2 action, so that no other packet comes between.
    Atomic {
        name: String,
        body: Vec<FlatStmt>,
    },
    ApplyTable(usize, Branches),
    /// A block with a label; `Break` with the same label goes on behind it.
    Labeled(Label, Vec<FlatStmt>),
    Break(Label),
    /// A block that starts again when it comes to its end; only a `Break` leaves it.
    Loop(Vec<FlatStmt>),
    Exit,
}

impl FlatKind {
    pub fn at(self, span: Span) -> FlatStmt {
        FlatStmt { kind: self, span }
    }

    /// The statements inside of a statement, in their order.
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

#[derive(Clone, Debug)]
pub enum Branches {
    None,
    HitMiss(Vec<FlatStmt>, Vec<FlatStmt>),
    /// What follows each action, by its index in the table's list of actions; the last part is for all others.
    Actions(Vec<(Vec<usize>, Vec<FlatStmt>)>, Vec<FlatStmt>),
}
