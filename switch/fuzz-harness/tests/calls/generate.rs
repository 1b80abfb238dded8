//! Random programs of [`model`](super::model): a function of their seed.

use ebb_p4_generator::Dice;

use super::model::{
    Arg, Call, Callee, Cond, Direction, Expr, Kind, Op, Param, Place, Program, Stmt, Table, Var,
    Variable,
};

const FIELDS: usize = 3;
const METADATA: usize = 1;
/// How many statements and calls a callee may become when all that it calls is written out.
const FUNCTION_PARTS: usize = 40;
const ACTION_PARTS: usize = 80;
const CONTROL_PARTS: usize = 130;
const INGRESS_PARTS: usize = 260;
/// Cost of an element of the stack at run time, in variables.
const ELEMENT_PARTS: usize = 8;
/// How deep expressions are at most.
const DEPTH: usize = 3;

/// Names in scope of a body.
#[derive(Clone)]
struct Scope {
    kind: Kind,
    reads: Vec<Var>,
    writes: Vec<Var>,
    /// The variable that the statement in work is mostly about, so that its parts get in each other's way.
    hot: Option<Var>,
    /// Whether it sees the packet's headers.
    elements: bool,
    callees: Vec<usize>,
    /// The control's tables, each of which can be applied at one place.
    tables: Vec<usize>,
    instances: Vec<(String, usize)>,
    in_loop: bool,
    parts_left: usize,
}

struct Generator {
    dice: Dice,
    program: Program,
    /// Cost of each callee when it is written out.
    costs: Vec<usize>,
    names: usize,
}

pub fn program(seed: u64) -> Program {
    let program = Program {
        vars: Vec::new(),
        callees: Vec::new(),
        tables: Vec::new(),
        fields: Vec::new(),
        metadata: Vec::new(),
    };
    let mut generator = Generator {
        dice: Dice::new(seed),
        program,
        costs: Vec::new(),
        names: 0,
    };
    generator.all();
    generator.program
}

impl Generator {
    fn all(&mut self) {
        for i in 0..FIELDS {
            let var = self.var(format!("hdr.fields.f{i}"), false);
            self.program.fields.push(var);
        }
        for i in 0..METADATA {
            let var = self.var(format!("meta.m{i}"), false);
            self.program.metadata.push(var);
        }
        for _ in 0..self.dice.between(2, 4) {
            let scope = self.scope(Kind::Function, FUNCTION_PARTS);
            let name = self.name("f");
            self.callee(name, scope);
        }
        for _ in 0..self.dice.between(1, 2) {
            let scope = self.scope(Kind::Control, CONTROL_PARTS);
            let name = self.name("C");
            self.control(name, scope);
        }
        let mut scope = self.scope(Kind::Control, INGRESS_PARTS);
        let globals = [&self.program.fields[..], &self.program.metadata].concat();
        scope.reads.extend(&globals);
        scope.writes.extend(&globals);
        scope.elements = true;
        self.control("Incoming".to_owned(), scope);
    }

    /// One that sees no variables yet, and all functions and controls.
    fn scope(&self, kind: Kind, parts_left: usize) -> Scope {
        let others = self.program.callees.iter().enumerate();
        let callees = others.filter(|(_, c)| match c.kind {
            Kind::Function => true,
            Kind::Action => false,
            Kind::Control => kind == Kind::Control,
        });
        Scope {
            kind,
            reads: Vec::new(),
            writes: Vec::new(),
            hot: None,
            elements: false,
            callees: callees.map(|(i, _)| i).collect(),
            tables: Vec::new(),
            instances: Vec::new(),
            in_loop: false,
            parts_left,
        }
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn var(&mut self, path: String, is_narrow: bool) -> Var {
        self.program.vars.push(Variable { path, is_narrow });
        self.program.vars.len() - 1
    }

    fn params(&mut self, scope: &mut Scope) -> Vec<Param> {
        let mut params = Vec::new();
        for _ in 0..self.dice.between(2, 3) {
            let name = self.name("p");
            let is_narrow = self.dice.chance(25);
            let var = self.var(name, is_narrow);
            let direction = self.dice.pick(&[
                Direction::In,
                Direction::In,
                Direction::InOut,
                Direction::InOut,
                Direction::InOut,
                Direction::Out,
            ]);
            let may_default = direction == Direction::In && self.dice.chance(20);
            let default = may_default.then(|| self.dice.below(16) as u8);
            scope.reads.push(var);
            if direction != Direction::In {
                scope.writes.push(var);
            }
            params.push(Param {
                var,
                direction,
                default,
            });
        }
        params
    }

    /// Takes the `out` parameters, which have no value yet, out of a scope, and puts a variable into it that can always
    /// be written to. Returns the declaration of that.
    fn begin(&mut self, params: &[Param], scope: &mut Scope) -> (Var, Expr) {
        let is_set = |var: &Var| {
            let param = params.iter().find(|p| p.var == *var);
            param.is_none_or(|p| p.direction != Direction::Out)
        };
        scope.reads.retain(is_set);
        scope.writes.retain(is_set);
        let (name, value) = (self.name("v"), self.dice.below(256) as u8);
        let var = self.var(name, false);
        scope.reads.push(var);
        scope.writes.push(var);
        (var, Expr::Const(value))
    }

    /// Gives every `out` parameter a value, and puts it into the scope.
    fn set_out(&mut self, params: &[Param], scope: &mut Scope) -> Vec<Stmt> {
        let unset = params.iter().filter(|p| p.direction == Direction::Out);
        let mut body = Vec::new();
        for param in unset {
            let value = self.expr(scope, 1);
            body.push(Stmt::Assign(Place::Var(param.var), value));
            scope.reads.push(param.var);
            scope.writes.push(param.var);
        }
        body
    }

    fn add(&mut self, callee: Callee, cost: usize) -> usize {
        self.program.callees.push(callee);
        self.costs.push(cost);
        self.program.callees.len() - 1
    }

    /// A function or an action.
    fn callee(&mut self, name: String, mut scope: Scope) -> usize {
        let (kind, before) = (scope.kind, scope.parts_left);
        let params = self.params(&mut scope);
        let (var, value) = self.begin(&params, &mut scope);
        let mut body = vec![Stmt::Declare(var, value)];
        body.extend(self.set_out(&params, &mut scope));
        // So that hardly any call leaves everything as it is.
        for param in params.iter().filter(|p| p.direction == Direction::InOut) {
            let step = Expr::Const(self.dice.between(1, 3) as u8);
            body.push(Stmt::Update(Place::Var(param.var), Op::Add, step));
        }
        let statements = self.dice.between(1, 4);
        body.extend(self.block(&mut scope, statements));
        if self.dice.chance(35) {
            let condition = self.cond(&mut scope, 1);
            body.push(Stmt::If(
                condition,
                vec![self.leave(&mut scope)],
                Vec::new(),
            ));
        }
        if kind == Kind::Function && !matches!(body.last(), Some(Stmt::Return(_))) {
            let value = self.expr(&mut scope, 2);
            body.push(Stmt::Return(Some(value)));
        }
        let callee = Callee {
            kind,
            name,
            params,
            locals: Vec::new(),
            body,
            instances: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
        };
        self.add(callee, before - scope.parts_left + 4)
    }

    fn control(&mut self, name: String, mut scope: Scope) {
        let before = scope.parts_left;
        let params = match name == "Incoming" {
            true => Vec::new(),
            false => self.params(&mut scope),
        };
        let mut locals = vec![self.begin(&params, &mut scope)];
        for _ in 0..self.dice.below(3) {
            let name = self.name("l");
            let is_narrow = self.dice.chance(25);
            let var = self.var(name, is_narrow);
            let value = self.expr(&mut scope, 1);
            locals.push((var, value));
            scope.reads.push(var);
            scope.writes.push(var);
        }
        // The first statements of the body, before any action or table sees the parameters.
        let mut body = self.set_out(&params, &mut scope);
        let nothing = self.nothing();
        let mut actions = vec![nothing];
        for _ in 0..self.dice.between(1, 3) {
            let mut inner = scope.clone();
            inner.kind = Kind::Action;
            inner.parts_left = ACTION_PARTS;
            inner
                .callees
                .retain(|c| self.program.callees[*c].kind != Kind::Control);
            let name = self.name("a");
            let action = self.callee(name, inner);
            actions.push(action);
            scope.callees.push(action);
        }
        let mut tables = Vec::new();
        for _ in 0..self.dice.below(4) {
            tables.push(self.table(&actions, &mut scope));
        }
        scope.tables.clone_from(&tables);
        let statements = match params.is_empty() {
            true => self.dice.between(5, 9),
            false => self.dice.between(1, 4),
        };
        body.extend(self.block(&mut scope, statements));
        let callee = Callee {
            kind: Kind::Control,
            name,
            params,
            locals,
            body,
            instances: scope.instances,
            actions,
            tables,
        };
        self.add(callee, before - scope.parts_left.min(before) + 10);
    }

    /// An action that does nothing.
    fn nothing(&mut self) -> usize {
        let callee = Callee {
            kind: Kind::Action,
            name: self.name("nothing"),
            params: Vec::new(),
            locals: Vec::new(),
            body: Vec::new(),
            instances: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
        };
        self.add(callee, 1)
    }

    fn table(&mut self, actions: &[usize], scope: &mut Scope) -> usize {
        let keys: Vec<Expr> = (0..self.dice.between(1, 3))
            .map(|_| self.expr(scope, 2))
            .collect();
        let actions: Vec<Call> = actions
            .iter()
            .map(|action| self.call(*action, scope, 1, false))
            .collect();
        let mut entries: Vec<(Vec<u8>, usize)> = Vec::new();
        for _ in 0..self.dice.between(1, 4) {
            let key: Vec<u8> = keys.iter().map(|_| self.dice.below(2) as u8).collect();
            if !entries.iter().any(|(other, _)| *other == key) {
                entries.push((key, self.dice.below(actions.len())));
            }
        }
        // The arguments of the default action are those of the list; without parameters there are none to repeat.
        let name = self.name("t");
        self.program.tables.push(Table {
            name,
            keys,
            actions,
            entries,
            default: 0,
        });
        self.program.tables.len() - 1
    }

    fn block(&mut self, scope: &mut Scope, statements: usize) -> Vec<Stmt> {
        let (reads, writes) = (scope.reads.len(), scope.writes.len());
        let mut body = Vec::new();
        for _ in 0..statements {
            scope.parts_left = scope.parts_left.saturating_sub(2);
            scope.hot = Some(self.dice.pick(&scope.writes));
            let statement = self.statement(scope);
            let ends = matches!(statement, Stmt::Return(_) | Stmt::Exit);
            body.push(statement);
            if ends {
                break;
            }
        }
        scope.reads.truncate(reads);
        scope.writes.truncate(writes);
        body
    }

    fn statement(&mut self, scope: &mut Scope) -> Stmt {
        let is_short = scope.parts_left < 20;
        match self.dice.below(100) {
            0..42 if !scope.callees.is_empty() => match self.any_call(scope) {
                Some(call) => Stmt::Call(call),
                None => self.assign(scope),
            },
            42..52 if !is_short => {
                let condition = self.cond(scope, DEPTH);
                let (n, m) = (self.dice.between(1, 2), self.dice.below(2));
                let mut then = self.block(scope, n);
                if self.dice.chance(30) {
                    then.push(self.leave(scope));
                }
                let otherwise = self.block(scope, m);
                Stmt::If(condition, then, otherwise)
            }
            52..55 if !is_short => {
                let subject = self.expr(scope, DEPTH);
                let mut cases = Vec::new();
                for label in 0..self.dice.between(1, 3) {
                    cases.push((label as u8, self.block(scope, 1)));
                }
                let rest = self.block(scope, 1);
                Stmt::Switch(subject, cases, rest)
            }
            55..58 if !is_short && !scope.in_loop => self.count(scope),
            58..62 if !is_short && !scope.in_loop => self.each(scope),
            62..66 => {
                let name = self.name("v");
                let is_narrow = self.dice.chance(25);
                let value = self.expr(scope, DEPTH);
                let var = self.var(name, is_narrow);
                scope.reads.push(var);
                scope.writes.push(var);
                Stmt::Declare(var, value)
            }
            66..69 => {
                let place = self.place(scope, false, 1);
                Stmt::ReadCell(place, self.expr(scope, 1))
            }
            69..72 => {
                let index = self.expr(scope, 1);
                Stmt::WriteCell(index, self.expr(scope, 2))
            }
            72..78 => match scope.tables.pop().filter(|_| !scope.in_loop) {
                Some(table) => Stmt::Apply(table),
                None => self.assign(scope),
            },
            _ => self.assign(scope),
        }
    }

    fn assign(&mut self, scope: &mut Scope) -> Stmt {
        let is_narrow = self.dice.chance(25);
        let place = self.place(scope, is_narrow, 2);
        let value = self.expr(scope, DEPTH);
        match self.dice.chance(30) {
            true => Stmt::Update(place, self.op(), value),
            false => Stmt::Assign(place, value),
        }
    }

    /// `return` or `exit`.
    fn leave(&mut self, scope: &mut Scope) -> Stmt {
        match scope.kind {
            Kind::Function => Stmt::Return(Some(self.expr(scope, 1))),
            _ if self.dice.chance(50) => Stmt::Exit,
            _ => Stmt::Return(None),
        }
    }

    /// A body that may be repeated a few times, with a variable that it can read.
    fn repeated(&mut self, scope: &mut Scope) -> (Var, Vec<Stmt>) {
        let name = self.name("i");
        let var = self.var(name, false);
        let mut inner = scope.clone();
        inner.in_loop = true;
        inner.tables.clear();
        inner.reads.push(var);
        let controls = |c: &usize| self.program.callees[*c].kind != Kind::Control;
        inner.callees.retain(controls);
        let statements = self.dice.between(1, 2);
        let body = self.block(&mut inner, statements);
        scope.parts_left = inner.parts_left;
        (var, body)
    }

    fn count(&mut self, scope: &mut Scope) -> Stmt {
        let low = self.expr(scope, 1);
        let high = self.expr(scope, 1);
        let (var, body) = self.repeated(scope);
        Stmt::Count(var, low, high, body)
    }

    fn each(&mut self, scope: &mut Scope) -> Stmt {
        let items = self.dice.between(1, 3);
        let items = (0..items).map(|_| self.expr(scope, 2)).collect();
        let (var, body) = self.repeated(scope);
        // Every round is written out.
        scope.parts_left = scope.parts_left.saturating_sub(30);
        Stmt::Each(var, items, body)
    }

    fn op(&mut self) -> Op {
        self.dice
            .pick(&[Op::Add, Op::Add, Op::Sub, Op::And, Op::Or, Op::Xor])
    }

    fn affordable(&self, scope: &Scope, kinds: &[Kind]) -> Vec<usize> {
        let callees = scope.callees.iter().copied();
        callees
            .filter(|c| {
                kinds.contains(&self.program.callees[*c].kind) && self.costs[*c] < scope.parts_left
            })
            .collect()
    }

    fn any_call(&mut self, scope: &mut Scope) -> Option<Call> {
        let all = self.affordable(scope, &[Kind::Function, Kind::Action, Kind::Control]);
        let may_apply = scope.kind == Kind::Control && !scope.in_loop;
        (!all.is_empty()).then(|| {
            let callee = self.dice.pick(&all);
            self.call(callee, scope, 2, may_apply)
        })
    }

    /// A call, in whose arguments tables may be applied or not.
    fn call(&mut self, callee: usize, scope: &mut Scope, depth: usize, may_apply: bool) -> Call {
        scope.parts_left = scope.parts_left.saturating_sub(self.costs[callee]);
        let tables = match may_apply {
            true => Vec::new(),
            false => std::mem::take(&mut scope.tables),
        };
        let is_named = self.dice.chance(40);
        let params = self.program.callees[callee].params.iter();
        let mut wanted: Vec<_> = params
            .map(|p| (self.program.vars[p.var].is_narrow, p.direction, p.default))
            .enumerate()
            .collect();
        if is_named {
            for i in (1..wanted.len()).rev() {
                wanted.swap(i, self.dice.below(i + 1));
            }
        }
        let mut args = Vec::new();
        for (i, (is_narrow, direction, default)) in wanted {
            let is_left_out = is_named && default.is_some() && self.dice.chance(50);
            if !is_left_out {
                args.push(match direction {
                    Direction::In => (i, Arg::Value(self.expr(scope, depth))),
                    _ => (i, Arg::Place(self.place(scope, is_narrow, depth))),
                });
            }
        }
        if !may_apply {
            scope.tables = tables;
        }
        let mut instance = String::new();
        if self.program.callees[callee].kind == Kind::Control {
            instance = self.name("c");
            scope.instances.push((instance.clone(), callee));
        }
        // A call without arguments has no names either.
        let is_named = is_named && !args.is_empty();
        Call {
            callee,
            args,
            is_named,
            instance,
        }
    }

    fn place(&mut self, scope: &mut Scope, is_narrow: bool, depth: usize) -> Place {
        let of_width = |narrow: bool| {
            let fits = |v: &&Var| self.program.vars[**v].is_narrow == narrow;
            scope
                .writes
                .iter()
                .filter(fits)
                .copied()
                .collect::<Vec<Var>>()
        };
        let (narrow, wide) = (of_width(true), of_width(false));
        if is_narrow && !narrow.is_empty() && self.dice.chance(30) {
            return Place::Var(self.variable(&narrow, scope));
        }
        let may_index = scope.elements && scope.parts_left > ELEMENT_PARTS;
        let whole = match may_index && self.dice.chance(25) {
            true => {
                scope.parts_left -= ELEMENT_PARTS;
                Place::Element(Box::new(self.expr(scope, depth.saturating_sub(1))))
            }
            false => Place::Var(self.variable(&wide, scope)),
        };
        match is_narrow {
            true => Place::Half(Box::new(whole), self.dice.chance(50)),
            false => whole,
        }
    }

    /// The variable that the statement is about, mostly, or any of these.
    fn variable(&mut self, all: &[Var], scope: &Scope) -> Var {
        match scope.hot.filter(|hot| all.contains(hot)) {
            Some(hot) if self.dice.chance(70) => hot,
            _ => self.dice.pick(all),
        }
    }

    fn expr(&mut self, scope: &mut Scope, depth: usize) -> Expr {
        if depth == 0 {
            return self.leaf(scope);
        }
        match self.dice.below(100) {
            0..50 => {
                let functions = self.affordable(scope, &[Kind::Function]);
                match functions.is_empty() {
                    true => self.leaf(scope),
                    false => {
                        let callee = self.dice.pick(&functions);
                        let may_apply = scope.kind == Kind::Control;
                        Expr::Call(self.call(callee, scope, depth - 1, may_apply))
                    }
                }
            }
            50..60 => {
                let op = self.op();
                let left = Box::new(self.expr(scope, depth - 1));
                Expr::Binary(op, left, Box::new(self.expr(scope, depth - 1)))
            }
            60..66 => {
                let left = Box::new(self.expr(scope, depth - 1));
                Expr::Join(left, Box::new(self.expr(scope, depth - 1)))
            }
            66..76 => {
                let condition = Box::new(self.cond(scope, depth - 1));
                let then = Box::new(self.expr(scope, depth - 1));
                Expr::If(condition, then, Box::new(self.expr(scope, depth - 1)))
            }
            _ => self.leaf(scope),
        }
    }

    fn leaf(&mut self, scope: &mut Scope) -> Expr {
        if scope.elements && scope.parts_left > ELEMENT_PARTS && self.dice.chance(10) {
            scope.parts_left -= ELEMENT_PARTS;
            let index = Box::new(self.leaf(scope));
            return Expr::Read(Place::Element(index));
        }
        if scope.reads.is_empty() || self.dice.chance(20) {
            return Expr::Const(self.dice.below(256) as u8);
        }
        let var = self.variable(&scope.reads, scope);
        let whole = Place::Var(var);
        match !self.program.vars[var].is_narrow && self.dice.chance(10) {
            true => Expr::Read(Place::Half(Box::new(whole), self.dice.chance(50))),
            false => Expr::Read(whole),
        }
    }

    fn cond(&mut self, scope: &mut Scope, depth: usize) -> Cond {
        let below = depth.saturating_sub(1);
        if !scope.in_loop
            && scope.kind == Kind::Control
            && self.dice.chance(40)
            && let Some(table) = scope.tables.pop()
        {
            return Cond::Hit(table);
        }
        match self.dice.below(if depth == 0 { 50 } else { 100 }) {
            0..30 => {
                let left = self.expr(scope, below);
                Cond::Less(left, self.expr(scope, below))
            }
            30..50 => {
                let left = self.expr(scope, below);
                Cond::Equal(left, self.expr(scope, below))
            }
            50..60 => {
                let mut pair = || [self.expr(scope, below), self.expr(scope, below)];
                let (left, right) = (pair(), pair());
                Cond::SamePairs(left, right)
            }
            60..70 => Cond::Not(Box::new(self.cond(scope, below))),
            70..85 => {
                let left = Box::new(self.cond(scope, below));
                Cond::And(left, Box::new(self.cond(scope, below)))
            }
            _ => {
                let left = Box::new(self.cond(scope, below));
                Cond::Or(left, Box::new(self.cond(scope, below)))
            }
        }
    }
}
