//! Small programs of calls: their parts, and how they are written in P4.
//!
//! Every value is 8 or 4 bits wide. Variables have storage of their own, however often they are declared, since nothing
//! calls itself.

use std::fmt::{Display, Formatter, Result, Write as _};

/// The number of a variable in [`Program::vars`].
pub type Var = usize;

/// Elements of the header stack, and cells of the register.
pub const ELEMENTS: usize = 4;

pub struct Variable {
    /// As statements name it.
    pub path: String,
    /// Whether it has 4 bits instead of 8.
    pub is_narrow: bool,
}

#[derive(Clone)]
pub enum Place {
    Var(Var),
    /// `hdr.stack[index & 3].x`
    Element(Box<Expr>),
    /// The upper or lower half of a place of 8 bits.
    Half(Box<Place>, bool),
}

#[derive(Clone, Copy)]
pub enum Op {
    Add,
    Sub,
    And,
    Or,
    Xor,
}

#[derive(Clone)]
pub enum Expr {
    Const(u8),
    Read(Place),
    Binary(Op, Box<Expr>, Box<Expr>),
    /// The lower halves of both.
    Join(Box<Expr>, Box<Expr>),
    If(Box<Cond>, Box<Expr>, Box<Expr>),
    Call(Call),
}

#[derive(Clone)]
pub enum Cond {
    Equal(Expr, Expr),
    Less(Expr, Expr),
    /// Two pairs of values, written as lists.
    SamePairs([Expr; 2], [Expr; 2]),
    Not(Box<Cond>),
    And(Box<Cond>, Box<Cond>),
    Or(Box<Cond>, Box<Cond>),
    /// `table.apply().hit`
    Hit(usize),
}

#[derive(Clone)]
pub enum Arg {
    Value(Expr),
    Place(Place),
}

#[derive(Clone)]
pub struct Call {
    /// The number of the callee in [`Program::callees`].
    pub callee: usize,
    /// The arguments as they are written, each with the number of its parameter.
    pub args: Vec<(usize, Arg)>,
    pub is_named: bool,
    /// The instance of a control.
    pub instance: String,
}

#[derive(Clone)]
pub enum Stmt {
    Assign(Place, Expr),
    Update(Place, Op, Expr),
    Declare(Var, Expr),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    Switch(Expr, Vec<(u8, Vec<Stmt>)>, Vec<Stmt>),
    /// `for (var in low & 3 .. high & 3)`
    Count(Var, Expr, Expr, Vec<Stmt>),
    /// `for (var in (list<bit<8>>){..})`
    Each(Var, Vec<Expr>, Vec<Stmt>),
    Call(Call),
    Apply(usize),
    /// `cells.read(place, index & 3)`
    ReadCell(Place, Expr),
    /// `cells.write(index & 3, value)`
    WriteCell(Expr, Expr),
    Return(Option<Expr>),
    Exit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    InOut,
}

pub struct Param {
    pub var: Var,
    pub direction: Direction,
    /// Value of an `in` parameter where named arguments leave it out.
    pub default: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Function,
    Action,
    Control,
}

pub struct Callee {
    pub kind: Kind,
    pub name: String,
    pub params: Vec<Param>,
    /// The variables that a control declares in front of its actions, with their values.
    pub locals: Vec<(Var, Expr)>,
    pub body: Vec<Stmt>,
    /// The instances of other controls in a control: names, and numbers of the controls.
    pub instances: Vec<(String, usize)>,
    /// The actions that a control declares, and its tables.
    pub actions: Vec<usize>,
    pub tables: Vec<usize>,
}

pub struct Table {
    pub name: String,
    /// The lowest bit of each expression is a key.
    pub keys: Vec<Expr>,
    /// Actions, with the arguments that the table binds.
    pub actions: Vec<Call>,
    /// Keys, and numbers in the list of actions.
    pub entries: Vec<(Vec<u8>, usize)>,
    pub default: usize,
}

/// The last callee is the ingress control.
pub struct Program {
    pub vars: Vec<Variable>,
    pub callees: Vec<Callee>,
    pub tables: Vec<Table>,
    /// Fields of the packet's header, which it begins with, and of the metadata, which are 0.
    pub fields: Vec<Var>,
    pub metadata: Vec<Var>,
}

/// A part of a program, as text.
struct Text<'p, T>(&'p Program, &'p T);

impl Display for Op {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::And => "&",
            Op::Or => "|",
            Op::Xor => "^",
        })
    }
}

impl Program {
    fn is_narrow(&self, place: &Place) -> bool {
        match place {
            Place::Var(var) => self.vars[*var].is_narrow,
            Place::Element(_) => false,
            Place::Half(..) => true,
        }
    }

    fn ty(&self, var: Var) -> &'static str {
        match self.vars[var].is_narrow {
            true => "bit<4>",
            false => "bit<8>",
        }
    }

    fn params(&self, callee: &Callee) -> String {
        let one = |p: &Param| {
            let direction = match p.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            let default = p.default.map_or(String::new(), |d| format!(" = {d}"));
            let name = &self.vars[p.var].path;
            format!("{direction} {} {name}{default}", self.ty(p.var))
        };
        callee.params.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// A value that fits a place or parameter.
    fn fitting(&self, value: &Expr, is_narrow: bool) -> String {
        match is_narrow {
            true => format!("({})[3:0]", Text(self, value)),
            false => Text(self, value).to_string(),
        }
    }

    fn args(&self, call: &Call) -> String {
        let params = &self.callees[call.callee].params;
        let one = |(param, arg): &(usize, Arg)| {
            let var = params[*param].var;
            let value = match arg {
                Arg::Value(value) => self.fitting(value, self.vars[var].is_narrow),
                Arg::Place(place) => Text(self, place).to_string(),
            };
            match call.is_named {
                true => format!("{} = {value}", self.vars[var].path),
                false => value,
            }
        };
        call.args.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn block(&self, body: &[Stmt]) -> String {
        let mut text = String::from("{ ");
        for statement in body {
            write!(text, "{} ", Text(self, statement)).expect("memory");
        }
        text + "}"
    }

    fn table(&self, table: &Table) -> String {
        let mut text = format!("    table {} {{\n        key = {{\n", table.name);
        for (i, key) in table.keys.iter().enumerate() {
            let key = Text(self, key);
            writeln!(text, "            ({key})[0:0] : exact @name(\"k{i}\");").expect("memory");
        }
        let name = |a: &Call| self.callees[a.callee].name.clone();
        let actions: Vec<String> = table
            .actions
            .iter()
            .map(|a| format!("{}({});", name(a), self.args(a)))
            .collect();
        let entries: Vec<String> = table
            .entries
            .iter()
            .map(|(keys, action)| {
                let keys: Vec<String> = keys.iter().map(u8::to_string).collect();
                format!(
                    "({}) : {}();",
                    keys.join(", "),
                    name(&table.actions[*action])
                )
            })
            .collect();
        let default = &table.actions[table.default];
        let (actions, entries) = (actions.join(" "), entries.join(" "));
        let default = format!("{}({})", name(default), self.args(default));
        text + &format!(
            "        }}\n        actions = {{ {actions} }}\n        const default_action = {default};\n        \
             const entries = {{ {entries} }}\n    }}\n"
        )
    }

    fn callee(&self, callee: &Callee) -> String {
        let Callee { name, body, .. } = callee;
        let (params, block) = (self.params(callee), self.block(body));
        match callee.kind {
            Kind::Function => format!("bit<8> {name}({params}) {block}\n"),
            Kind::Action => format!("    action {name}({params}) {block}\n"),
            Kind::Control => {
                let mut text = format!("control {name}({params}) {{\n");
                for (instance, control) in &callee.instances {
                    let control = &self.callees[*control].name;
                    writeln!(text, "    {control}() {instance};").expect("memory");
                }
                for (var, value) in &callee.locals {
                    let statement = Stmt::Declare(*var, value.clone());
                    writeln!(text, "    {}", Text(self, &statement)).expect("memory");
                }
                for action in &callee.actions {
                    text += &self.callee(&self.callees[*action]);
                }
                for table in &callee.tables {
                    text += &self.table(&self.tables[*table]);
                }
                text + &format!("    apply {block}\n}}\n")
            }
        }
    }
}

impl Display for Text<'_, Place> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.1 {
            Place::Var(var) => f.write_str(&self.0.vars[*var].path),
            Place::Element(index) => {
                let index = Text(self.0, &**index);
                write!(f, "hdr.stack[({index}) & {}].x", ELEMENTS - 1)
            }
            Place::Half(whole, upper) => {
                let bits = if *upper { "7:4" } else { "3:0" };
                write!(f, "{}[{bits}]", Text(self.0, &**whole))
            }
        }
    }
}

impl Display for Text<'_, Expr> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Text(program, expr) = self;
        let text = |e| Text(program, e);
        match expr {
            Expr::Const(value) => write!(f, "8w{value}"),
            Expr::Read(place) if program.is_narrow(place) => {
                write!(f, "(4w0 ++ {})", Text(program, place))
            }
            Expr::Read(place) => Text(program, place).fmt(f),
            Expr::Binary(op, a, b) => write!(f, "({} {op} {})", text(&**a), text(&**b)),
            Expr::Join(a, b) => write!(f, "(({})[3:0] ++ ({})[3:0])", text(&**a), text(&**b)),
            Expr::If(condition, a, b) => {
                let condition = Text(program, &**condition);
                write!(f, "({condition} ? {} : {})", text(&**a), text(&**b))
            }
            Expr::Call(call) => {
                let name = &program.callees[call.callee].name;
                write!(f, "{name}({})", program.args(call))
            }
        }
    }
}

impl Display for Text<'_, Cond> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Text(program, condition) = self;
        let text = |e| Text(program, e);
        let cond = |c| Text(program, c);
        match condition {
            Cond::Equal(a, b) => write!(f, "({} == {})", text(a), text(b)),
            Cond::Less(a, b) => write!(f, "({} < {})", text(a), text(b)),
            Cond::SamePairs([a, b], [c, d]) => write!(
                f,
                "((pair_t){{ p = {}, q = {} }} == (pair_t){{ q = {}, p = {} }})",
                text(a),
                text(b),
                text(c),
                text(d)
            ),
            Cond::Not(a) => write!(f, "!{}", cond(&**a)),
            Cond::And(a, b) => write!(f, "({} && {})", cond(&**a), cond(&**b)),
            Cond::Or(a, b) => write!(f, "({} || {})", cond(&**a), cond(&**b)),
            Cond::Hit(table) => write!(f, "{}.apply().hit", program.tables[*table].name),
        }
    }
}

impl Display for Text<'_, Stmt> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Text(program, statement) = self;
        let text = |e| Text(program, e);
        let cell = |e| format!("(bit<32>)(({}) & {})", Text(program, e), ELEMENTS - 1);
        match statement {
            Stmt::Assign(place, value) => {
                let value = program.fitting(value, program.is_narrow(place));
                write!(f, "{} = {value};", Text(program, place))
            }
            Stmt::Update(place, op, value) => {
                let value = program.fitting(value, program.is_narrow(place));
                write!(f, "{} {op}= {value};", Text(program, place))
            }
            Stmt::Declare(var, value) => {
                let (ty, variable) = (program.ty(*var), &program.vars[*var]);
                let value = program.fitting(value, variable.is_narrow);
                write!(f, "{ty} {} = {value};", variable.path)
            }
            Stmt::If(condition, then, otherwise) => {
                let condition = Text(program, condition);
                let (then, otherwise) = (program.block(then), program.block(otherwise));
                write!(f, "if ({condition}) {then} else {otherwise}")
            }
            Stmt::Switch(subject, cases, rest) => {
                write!(f, "switch ({}) {{ ", text(subject))?;
                for (label, body) in cases {
                    write!(f, "{label}: {} ", program.block(body))?;
                }
                write!(f, "default: {} }}", program.block(rest))
            }
            Stmt::Count(var, low, high, body) => {
                let (low, high) = (text(low), text(high));
                let (name, body) = (&program.vars[*var].path, program.block(body));
                write!(
                    f,
                    "for (bit<8> {name} in (({low}) & 3) .. (({high}) & 3)) {body}"
                )
            }
            Stmt::Each(var, items, body) => {
                let items: Vec<String> = items.iter().map(|i| text(i).to_string()).collect();
                let (name, items) = (&program.vars[*var].path, items.join(", "));
                let body = program.block(body);
                write!(f, "for (bit<8> {name} in (list<bit<8>>){{{items}}}) {body}")
            }
            Stmt::Call(call) => {
                let args = program.args(call);
                match program.callees[call.callee].kind {
                    Kind::Control => write!(f, "{}.apply({args});", call.instance),
                    _ => write!(f, "{}({args});", program.callees[call.callee].name),
                }
            }
            Stmt::Apply(table) => write!(f, "{}.apply();", program.tables[*table].name),
            Stmt::ReadCell(place, index) => {
                write!(f, "cells.read({}, {});", Text(program, place), cell(index))
            }
            Stmt::WriteCell(index, value) => {
                write!(f, "cells.write({}, {});", cell(index), text(value))
            }
            Stmt::Return(Some(value)) => write!(f, "return {};", text(value)),
            Stmt::Return(None) => f.write_str("return;"),
            Stmt::Exit => f.write_str("exit;"),
        }
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let names = |vars: &[Var]| -> String {
            let name = |v: &Var| self.vars[*v].path.rsplit('.').next().unwrap_or_default();
            let fields = vars.iter().map(|v| format!("    bit<8> {};\n", name(v)));
            fields.collect()
        };
        let (fields, metadata) = (names(&self.fields), names(&self.metadata));
        write!(
            f,
            "#include <core.p4>\n#include <v1model.p4>\n\
             header fields_t {{\n{fields}}}\nheader element_t {{ bit<8> x; }}\n\
             header left_t {{\n{metadata}    bit<8> c0; bit<8> c1; bit<8> c2; bit<8> c3;\n}}\n\
             struct pair_t {{ bit<8> p; bit<8> q; }}\n\
             struct headers_t {{ fields_t fields; element_t[{ELEMENTS}] stack; left_t left; }}\n\
             struct metadata_t {{\n{metadata}}}\n\
             register<bit<8>>({ELEMENTS}) cells;\n\
             parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,\n\
             \x20            inout standard_metadata_t standard) {{\n\
             \x20   state start {{\n        packet.extract(hdr.fields);\n"
        )?;
        for _ in 0..ELEMENTS {
            f.write_str("        packet.extract(hdr.stack.next);\n")?;
        }
        f.write_str("        transition accept;\n    }\n}\n")?;
        f.write_str("control Check(inout headers_t hdr, inout metadata_t meta) { apply {} }\n")?;
        let (ingress, others) = self.callees.split_last().expect("the ingress control");
        for callee in others.iter().filter(|c| c.kind != Kind::Action) {
            f.write_str(&self.callee(callee))?;
        }
        let ingress = self.callee(ingress).replacen(
            "Incoming()",
            "Incoming(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard)",
            1,
        );
        f.write_str(&ingress)?;
        f.write_str(
            "control Outgoing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {\n\
             \x20   apply {\n        hdr.left.setValid();\n",
        )?;
        for var in &self.metadata {
            let path = &self.vars[*var].path;
            let left = path.replace("meta.", "hdr.left.");
            writeln!(f, "        {left} = {path};")?;
        }
        for i in 0..ELEMENTS {
            writeln!(f, "        cells.read(hdr.left.c{i}, {i});")?;
        }
        f.write_str(
            "    }\n}\ncontrol Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }\n\
             V1Switch(Parse(), Check(), Incoming(), Outgoing(), Check(), Deparse()) main;\n",
        )
    }
}
