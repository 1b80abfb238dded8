//! Semantics of a program of [`model`](super::model), by the P4_16 specification ("Calling convention: call by
//! copy in/copy out", "Expression evaluation order", "Exit statement", "Match-action unit execution semantics"): every
//! argument is a copy, places are found before values, and copies go back when a call is left, however that is.

use super::model::{
    Arg, Call, Cond, Direction, ELEMENTS, Expr, Kind, Op, Place, Program, Stmt, Var,
};

/// An `exit`, which nothing but copies back stops.
pub struct Exit;

/// How a statement ends.
enum Flow {
    On,
    Return(u8),
}

/// A place whose indices are evaluated.
#[derive(Clone, Copy)]
enum Found {
    Var(Var),
    Element(usize),
}

#[derive(Clone, Copy)]
struct FoundPlace {
    whole: Found,
    /// The half of it that is meant: true the upper, false the lower; none: all of it.
    half: Option<bool>,
}

pub struct Machine<'p> {
    program: &'p Program,
    vars: Vec<u8>,
    elements: [u8; ELEMENTS],
    /// The register, which outlives a packet.
    cells: [u8; ELEMENTS],
    /// How many calls have been made.
    pub calls: usize,
}

type Evaluated<T> = Result<T, Exit>;

impl<'p> Machine<'p> {
    pub fn new(program: &'p Program) -> Self {
        Self {
            program,
            vars: vec![0; program.vars.len()],
            elements: [0; ELEMENTS],
            cells: [0; ELEMENTS],
            calls: 0,
        }
    }

    /// The frame that leaves for one that comes in.
    pub fn frame(&mut self, frame: &[u8]) -> Vec<u8> {
        let program = self.program;
        let (fields, rest) = frame.split_at(program.fields.len());
        for (var, value) in program.fields.iter().zip(fields) {
            self.vars[*var] = *value;
        }
        self.elements.copy_from_slice(&rest[..ELEMENTS]);
        for var in &program.metadata {
            self.vars[*var] = 0;
        }
        let ingress = program.callees.last().expect("the ingress control");
        // An `exit` ends ingress; egress runs nevertheless.
        let _: Evaluated<Flow> = self.control_body(ingress.locals.as_slice(), &ingress.body);
        let mut out: Vec<u8> = program.fields.iter().map(|v| self.vars[*v]).collect();
        out.extend(self.elements);
        out.extend(program.metadata.iter().map(|v| self.vars[*v]));
        out.extend(self.cells);
        out.extend(&rest[ELEMENTS..]);
        out
    }

    fn control_body(&mut self, locals: &[(Var, Expr)], body: &[Stmt]) -> Evaluated<Flow> {
        for (var, value) in locals {
            let value = self.value(value)?;
            self.store_var(*var, value);
        }
        self.run(body)
    }

    fn run(&mut self, body: &[Stmt]) -> Evaluated<Flow> {
        for statement in body {
            if let Flow::Return(value) = self.statement(statement)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::On)
    }

    fn statement(&mut self, statement: &Stmt) -> Evaluated<Flow> {
        match statement {
            Stmt::Assign(place, value) => {
                let place = self.find(place)?;
                let value = self.value(value)?;
                self.store(place, value);
            }
            Stmt::Update(place, op, value) => {
                let place = self.find(place)?;
                let old = self.load(place);
                let value = self.value(value)?;
                self.store(place, apply(*op, old, value));
            }
            Stmt::Declare(var, value) => {
                let value = self.value(value)?;
                self.store_var(*var, value);
            }
            Stmt::If(condition, then, otherwise) => {
                let holds = self.holds(condition)?;
                return self.run(if holds { then } else { otherwise });
            }
            Stmt::Switch(subject, cases, rest) => {
                let subject = self.value(subject)?;
                let case = cases.iter().find(|(label, _)| *label == subject);
                return self.run(case.map_or(rest, |(_, body)| body));
            }
            Stmt::Count(var, low, high, body) => {
                let low = self.value(low)? & 3;
                let high = self.value(high)? & 3;
                for i in low..=high {
                    self.store_var(*var, i);
                    if let Flow::Return(value) = self.run(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::Each(var, items, body) => {
                let mut values = Vec::new();
                for item in items {
                    values.push(self.value(item)?);
                }
                for value in values {
                    self.store_var(*var, value);
                    if let Flow::Return(value) = self.run(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::Call(call) => {
                self.call(call)?;
            }
            Stmt::Apply(table) => {
                self.apply(*table)?;
            }
            Stmt::ReadCell(place, index) => {
                let place = self.find(place)?;
                let index = usize::from(self.value(index)?) % ELEMENTS;
                self.store(place, self.cells[index]);
            }
            Stmt::WriteCell(index, value) => {
                let index = usize::from(self.value(index)?) % ELEMENTS;
                self.cells[index] = self.value(value)?;
            }
            Stmt::Return(value) => {
                let value = value.as_ref().map_or(Ok(0), |v| self.value(v))?;
                return Ok(Flow::Return(value));
            }
            Stmt::Exit => return Err(Exit),
        }
        Ok(Flow::On)
    }

    fn call(&mut self, call: &Call) -> Evaluated<u8> {
        self.calls += 1;
        let program = self.program;
        let callee = &program.callees[call.callee];
        // Values and places, in the order in which the arguments are written.
        let mut values = Vec::new();
        let mut back = Vec::new();
        for (param, arg) in &call.args {
            let param = &callee.params[*param];
            match arg {
                Arg::Value(value) => values.push((param.var, self.value(value)?)),
                Arg::Place(place) => {
                    let place = self.find(place)?;
                    if param.direction == Direction::InOut {
                        values.push((param.var, self.load(place)));
                    }
                    back.push((place, param.var));
                }
            }
        }
        for param in &callee.params {
            let is_given = call
                .args
                .iter()
                .any(|(i, _)| callee.params[*i].var == param.var);
            match param.default {
                Some(default) if !is_given => values.push((param.var, default)),
                _ => {}
            }
        }
        for (var, value) in values {
            self.store_var(var, value);
        }
        let left = match callee.kind {
            Kind::Control => self.control_body(&callee.locals, &callee.body),
            Kind::Function | Kind::Action => self.run(&callee.body),
        };
        for (place, var) in back {
            let value = self.vars[var];
            self.store(place, value);
        }
        match left? {
            Flow::Return(value) => Ok(value),
            Flow::On => Ok(0),
        }
    }

    /// Applies a table; whether it hits.
    fn apply(&mut self, table: usize) -> Evaluated<bool> {
        let table = &self.program.tables[table];
        let mut keys = Vec::new();
        for key in &table.keys {
            keys.push(self.value(key)? & 1);
        }
        let entry = table.entries.iter().find(|(values, _)| *values == keys);
        let action = entry.map_or(table.default, |(_, action)| *action);
        self.call(&table.actions[action])?;
        Ok(entry.is_some())
    }

    fn value(&mut self, expr: &Expr) -> Evaluated<u8> {
        Ok(match expr {
            Expr::Const(value) => *value,
            Expr::Read(place) => {
                let place = self.find(place)?;
                self.load(place)
            }
            Expr::Binary(op, a, b) => {
                let a = self.value(a)?;
                apply(*op, a, self.value(b)?)
            }
            Expr::Join(a, b) => {
                let a = self.value(a)?;
                a << 4 | self.value(b)? & 0xf
            }
            Expr::If(condition, a, b) => {
                let holds = self.holds(condition)?;
                self.value(if holds { a } else { b })?
            }
            Expr::Call(call) => self.call(call)?,
        })
    }

    fn holds(&mut self, condition: &Cond) -> Evaluated<bool> {
        Ok(match condition {
            Cond::Equal(a, b) => {
                let a = self.value(a)?;
                a == self.value(b)?
            }
            Cond::Less(a, b) => {
                let a = self.value(a)?;
                a < self.value(b)?
            }
            // The second one names its fields the other way round.
            Cond::SamePairs([a, b], [c, d]) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let (c, d) = (self.value(c)?, self.value(d)?);
                a == d && b == c
            }
            Cond::Not(a) => !self.holds(a)?,
            Cond::And(a, b) => self.holds(a)? && self.holds(b)?,
            Cond::Or(a, b) => self.holds(a)? || self.holds(b)?,
            Cond::Hit(table) => self.apply(*table)?,
        })
    }

    fn find(&mut self, place: &Place) -> Evaluated<FoundPlace> {
        let whole = match place {
            Place::Var(var) => Found::Var(*var),
            Place::Element(index) => Found::Element(usize::from(self.value(index)?) % ELEMENTS),
            Place::Half(whole, upper) => {
                let FoundPlace { whole, .. } = self.find(whole)?;
                let half = Some(*upper);
                return Ok(FoundPlace { whole, half });
            }
        };
        Ok(FoundPlace { whole, half: None })
    }

    fn load(&self, place: FoundPlace) -> u8 {
        let whole = match place.whole {
            Found::Var(var) => self.vars[var],
            Found::Element(index) => self.elements[index],
        };
        match place.half {
            None => whole,
            Some(true) => whole >> 4,
            Some(false) => whole & 0xf,
        }
    }

    fn store(&mut self, place: FoundPlace, value: u8) {
        let old = self.load(FoundPlace {
            half: None,
            ..place
        });
        let value = match place.half {
            None => value,
            Some(true) => old & 0xf | value << 4,
            Some(false) => old & 0xf0 | value & 0xf,
        };
        match place.whole {
            Found::Var(var) => self.store_var(var, value),
            Found::Element(index) => self.elements[index] = value,
        }
    }

    fn store_var(&mut self, var: Var, value: u8) {
        self.vars[var] = match self.program.vars[var].is_narrow {
            true => value & 0xf,
            false => value,
        };
    }
}

fn apply(op: Op, a: u8, b: u8) -> u8 {
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
    }
}
