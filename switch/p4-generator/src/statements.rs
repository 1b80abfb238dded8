//! Statements of functions, actions, controls and parser states.

use super::{Array, Block, Generator, Place, STACK_SIZE, Scope, Table, Ty};

impl Generator {
    /// Writes `count` statements; variables that they declare are in scope after them.
    pub(super) fn statements(&mut self, scope: &mut Scope, count: usize, depth: u32) {
        for _ in 0..count {
            self.statement(scope, depth);
        }
    }

    fn block(&mut self, scope: &Scope, depth: u32) {
        let mut inner = scope.clone();
        let count = self.dice.between(1, 3);
        self.statements(&mut inner, count, depth);
    }

    fn statement(&mut self, scope: &mut Scope, depth: u32) {
        // Parser states of BMv2 have no conditions.
        if scope.block == Block::Parser {
            return self.assignment(scope);
        }
        let nested = depth > 0;
        match self.dice.below(24) {
            0..=5 => self.assignment(scope),
            6 => self.slice_assignment(scope),
            7 | 8 => self.variable(scope),
            9 | 10 if nested => self.conditional(scope, depth - 1),
            11 | 12 if nested => self.guarded(scope, depth - 1),
            13 => self.function_call(scope),
            // p4c knows `switch` on values in controls only.
            14 if nested && scope.block != Block::Action && scope.block != Block::Function => {
                self.value_switch(scope, depth - 1)
            }
            15 if scope.block != Block::Function => self.validity(scope),
            16 if scope.block != Block::Function => self.structure(scope),
            17 | 18 if self.has_arrays(scope) => self.array_access(scope),
            19 => self.hash(scope),
            20 | 21 => self.control_only(scope, depth),
            22 if nested && self.dice.chance(30) => self.loop_over(scope),
            22 if self.stack.is_some() && scope.block != Block::Function => {
                self.stack_operation(scope)
            }
            23 if self.dice.chance(20) => self.leave(scope),
            _ => self.assignment(scope),
        }
    }

    fn writable(&mut self, scope: &Scope) -> Option<Place> {
        let found: Vec<&Place> = scope.places.iter().filter(|place| place.writable).collect();
        (!found.is_empty()).then(|| (*self.dice.pick(&found)).clone())
    }

    fn assignment(&mut self, scope: &Scope) {
        let Some(place) = self.writable(scope) else {
            return;
        };
        // The expressions of a parser are evaluated by BMv2 in another way, and compilers do not split them.
        let depth = if scope.block == Block::Parser { 1 } else { 3 };
        let value = self.value(scope, &place.ty, depth);
        self.line(&format!("{} = {value};", place.path));
    }

    fn slice_assignment(&mut self, scope: &Scope) {
        let Some(place) = self.writable(scope) else {
            return;
        };
        let Ty::Bits(width) = place.ty else {
            return self.assignment(scope);
        };
        let part = self.dice.between(1, width as usize) as u32;
        let low = self.dice.below((width - part + 1) as usize) as u32;
        let value = self.value(scope, &Ty::Bits(part), 2);
        self.line(&format!(
            "{}[{}:{low}] = {value};",
            place.path,
            low + part - 1
        ));
    }

    fn variable(&mut self, scope: &mut Scope) {
        let ty = match self.dice.below(6) {
            0 => Ty::Bool,
            1 => Ty::Signed(self.dice.pick(&[4, 8, 16, 32])),
            2 => Ty::Enum(0),
            3 => Ty::Code(0),
            _ => Ty::Bits(self.dice.pick(&[1, 5, 8, 9, 16, 32, 48])),
        };
        let path = self.fresh("x");
        let value = self.value(scope, &ty, 2);
        let name = self.type_name(&ty);
        self.line(&format!("{name} {path} = {value};"));
        scope.places.push(Place {
            path,
            ty,
            writable: true,
        });
    }

    fn conditional(&mut self, scope: &Scope, depth: u32) {
        let condition = self.value(scope, &Ty::Bool, 2);
        self.open(&format!("if ({condition})"));
        self.block(scope, depth);
        if self.dice.chance(40) {
            self.indent -= 1;
            self.open("} else");
            self.block(scope, depth);
        }
        self.close("");
    }

    /// A block in which a header is known to be valid.
    fn guarded(&mut self, scope: &Scope, depth: u32) {
        let open = scope.doubtful_headers();
        if open.is_empty() {
            return self.conditional(scope, depth);
        }
        let header = self.dice.pick(&open);
        let mut inner = scope.clone();
        let ty = self.instances[header];
        inner
            .places
            .extend(self.header_places(&format!("hdr.h{header}x"), ty));
        inner.valid.push(header);
        self.open(&format!("if (hdr.h{header}x.isValid())"));
        let count = self.dice.between(1, 4);
        self.statements(&mut inner, count, depth);
        self.close("");
    }

    fn function_call(&mut self, scope: &Scope) {
        let found: Vec<_> = self
            .functions
            .iter()
            .filter(|f| f.returns.is_none())
            .cloned()
            .collect();
        if found.is_empty() {
            return self.assignment(scope);
        }
        let function = self.dice.pick(&found);
        match self.arguments(scope, &function.params) {
            Some(arguments) => self.line(&format!("{}({arguments});", function.name)),
            None => self.assignment(scope),
        }
    }

    fn value_switch(&mut self, scope: &Scope, depth: u32) {
        let width = self.dice.pick(&[2u32, 3, 8]);
        let subject = self.value(scope, &Ty::Bits(width), 2);
        self.open(&format!("switch ({subject})"));
        let first = self.dice.below(2);
        for value in first..first + self.dice.between(1, 2) {
            if self.dice.chance(20) {
                self.line(&format!("{width}w{value}:"));
                continue;
            }
            self.open(&format!("{width}w{value}:"));
            self.block(scope, depth);
            self.close("");
        }
        self.open("default:");
        self.block(scope, depth);
        self.close("");
        self.close("");
    }

    /// Makes a header invalid, or valid with a value in every field; not one that the code around relies on.
    fn validity(&mut self, scope: &mut Scope) {
        let open = scope.doubtful_headers();
        if open.is_empty() {
            return self.assignment(scope);
        }
        let header = self.dice.pick(&open);
        if self.dice.chance(30) {
            return self.line(&format!("hdr.h{header}x.setInvalid();"));
        }
        let ty = self.instances[header];
        let fields = self.header_places(&format!("hdr.h{header}x"), ty);
        let same: Vec<usize> = scope
            .valid
            .iter()
            .filter(|h| self.instances[**h] == ty)
            .copied()
            .collect();
        if !same.is_empty() && self.dice.chance(50) {
            let from = self.dice.pick(&same);
            return self.line(&format!("hdr.h{header}x = hdr.h{from}x;"));
        }
        if self.dice.chance(30) {
            let values: Vec<String> = fields.iter().map(|f| self.value(scope, &f.ty, 1)).collect();
            let list = values.join(", ");
            // A list that reads the header itself leaves it invalid in p4c's JSON.
            if !list.contains(&format!("hdr.h{header}x.")) {
                return self.line(&format!("hdr.h{header}x = {{ {list} }};"));
            }
        }
        self.line(&format!("hdr.h{header}x.setValid();"));
        for field in fields {
            let value = self.value(scope, &field.ty, 1);
            self.line(&format!("{} = {value};", field.path));
        }
    }

    /// Assigns to a whole struct of the metadata.
    fn structure(&mut self, scope: &Scope) {
        let index = self.dice.below(self.structs.len());
        let fields: Vec<(String, Ty)> = self.structs[index]
            .fields
            .iter()
            .map(|f| (f.name.clone(), f.ty.clone()))
            .collect();
        let values: Vec<String> = fields
            .iter()
            .map(|(_, ty)| self.value(scope, ty, 1))
            .collect();
        let list = match self.dice.chance(50) {
            true => values.join(", "),
            false => {
                let named = fields.iter().zip(&values);
                let named: Vec<String> = named
                    .map(|((name, _), value)| format!("{name} = {value}"))
                    .collect();
                named.join(", ")
            }
        };
        self.line(&format!("meta.r{index}x = {{ {list} }};"));
    }

    fn has_arrays(&self, scope: &Scope) -> bool {
        !self.arrays.is_empty()
            && matches!(scope.block, Block::Ingress | Block::Egress | Block::Action)
    }

    fn array_access(&mut self, scope: &Scope) {
        let Array {
            name,
            kind,
            ty,
            size,
        } = self.dice.pick(&self.arrays.clone());
        let index = match self.dice.chance(40) {
            true => format!("32w{}", self.dice.below(size as usize)),
            false => {
                let value = self.value(scope, &Ty::Bits(32), 1);
                format!("({value} & 32w{})", size - 1)
            }
        };
        match kind {
            "counter" => self.line(&format!("{name}.count({index});")),
            "meter" => self.line(&format!("{name}.execute_meter({index}, meta.color);")),
            _ => {
                let variable = self.fresh("cell");
                let cell = self.type_name(&ty);
                self.open("");
                self.line(&format!("{cell} {variable};"));
                self.line(&format!("{name}.read({variable}, {index});"));
                let mut inner = scope.clone();
                inner.places.push(Place {
                    path: variable,
                    ty: ty.clone(),
                    writable: true,
                });
                self.assignment(&inner);
                let value = self.value(&inner, &ty, 2);
                self.line(&format!("{name}.write({index}, {value});"));
                self.close("");
            }
        }
    }

    fn hash(&mut self, scope: &Scope) {
        let targets: Vec<Place> = scope
            .places
            .iter()
            .filter(|p| p.writable && matches!(p.ty, Ty::Bits(16 | 32)))
            .cloned()
            .collect();
        if targets.is_empty() || scope.block == Block::Function {
            return self.assignment(scope);
        }
        let target = self.dice.pick(&targets);
        let width = self.width(&target.ty);
        let algorithm = self
            .dice
            .pick(&["crc16", "crc32", "csum16", "xor16", "identity"]);
        // Whole bytes, since algorithms differ in how they fill the last one.
        let input: Vec<String> = (0..self.dice.between(1, 3))
            .map(|_| {
                let width = self.dice.pick(&[8, 16, 32]);
                self.value(scope, &Ty::Bits(width), 1)
            })
            .collect();
        let (base, range) = (self.dice.below(4), 1 << self.dice.below(15));
        self.line(&format!(
            "hash({}, HashAlgorithm.{algorithm}, {width}w{base}, {{ {} }}, {width}w{range});",
            target.path,
            input.join(", "),
        ));
    }

    /// A statement that only the `apply` of ingress and egress may have.
    fn control_only(&mut self, scope: &Scope, depth: u32) {
        if !matches!(scope.block, Block::Ingress | Block::Egress) {
            return self.assignment(scope);
        }
        match self.dice.below(4) {
            0 => self.action_call(scope),
            1 => self.control_call(scope),
            _ => self.table_apply(scope, depth),
        }
    }

    fn action_call(&mut self, scope: &Scope) {
        if self.actions.is_empty() {
            return self.assignment(scope);
        }
        let action = self.dice.pick(&self.actions.clone());
        match self.arguments(scope, &action.params) {
            Some(arguments) => self.line(&format!("{}({arguments});", action.name)),
            None => self.assignment(scope),
        }
    }

    fn control_call(&mut self, scope: &Scope) {
        if self.controls.is_empty() {
            return self.assignment(scope);
        }
        let at = self.dice.below(self.controls.len());
        let control = self.controls[at].clone();
        // A table cannot be applied at two places with different statements behind them.
        if control.name.starts_with("Tabled") {
            self.controls.remove(at);
        }
        match self.arguments(scope, &control.params) {
            Some(arguments) if arguments.is_empty() => {
                self.line(&format!("{}_i.apply(hdr, meta);", control.name))
            }
            Some(arguments) => self.line(&format!(
                "{}_i.apply(hdr, meta, {arguments});",
                control.name
            )),
            None => self.assignment(scope),
        }
    }

    /// Applies a table that was not applied yet.
    pub(super) fn table_apply(&mut self, scope: &Scope, depth: u32) {
        let Some(Table {
            name: table,
            actions,
            indirect,
        }) = self.tables.pop()
        else {
            return self.assignment(scope);
        };
        match self.dice.below(4) {
            0 if depth > 0 => {
                let what = self.dice.pick(&["hit", "miss"]);
                self.open(&format!("if ({table}.apply().{what})"));
                self.block(scope, depth - 1);
                if self.dice.chance(50) {
                    self.indent -= 1;
                    self.open("} else");
                    self.block(scope, depth - 1);
                }
                self.close("");
            }
            // After a miss in a table of members p4c's JSON leaves the `default` out.
            1 if depth > 0 && !indirect => {
                self.open(&format!("switch ({table}.apply().action_run)"));
                for action in actions.iter().take(2) {
                    if self.dice.chance(25) {
                        self.line(&format!("{action}:"));
                    } else {
                        self.open(&format!("{action}:"));
                        self.block(scope, depth - 1);
                        self.close("");
                    }
                }
                self.open("default:");
                self.block(scope, depth - 1);
                self.close("");
                self.close("");
            }
            _ => self.line(&format!("{table}.apply();")),
        }
    }

    fn loop_over(&mut self, scope: &Scope) {
        if scope.block != Block::Action {
            return self.assignment(scope);
        }
        let name = self.fresh("i");
        let end = self.dice.between(1, 4);
        self.open(&format!(
            "for (bit<8> {name} = 0; {name} < {end}; {name} = {name} + 1)"
        ));
        let mut inner = scope.clone();
        inner.places.push(Place {
            path: name,
            ty: Ty::Bits(8),
            writable: false,
        });
        self.assignment(&inner);
        self.close("");
    }

    fn stack_operation(&mut self, scope: &Scope) {
        let Some(ty) = self.stack else { return };
        match self.dice.below(4) {
            0 => {
                let count = self.dice.between(1, 2);
                let what = self.dice.pick(&["push_front", "pop_front"]);
                self.line(&format!("hdr.stack.{what}({count});"));
            }
            1 => {
                let index = self.dice.below(STACK_SIZE);
                self.line(&format!("hdr.stack[{index}].setInvalid();"));
            }
            _ => {
                let index = self.dice.below(STACK_SIZE);
                let path = format!("hdr.stack[{index}]");
                let mut inner = scope.clone();
                inner.places.extend(self.header_places(&path, ty));
                self.open(&format!("if ({path}.isValid())"));
                self.assignment(&inner);
                self.assignment(&inner);
                self.close("");
            }
        }
    }

    /// Leaves the body early; statements may follow nevertheless.
    fn leave(&mut self, scope: &Scope) {
        let word = match scope.block {
            Block::Function | Block::Parser => return self.assignment(scope),
            Block::Action | Block::Control => "return",
            Block::Ingress | Block::Egress => self.dice.pick(&["return", "exit"]),
        };
        let condition = self.value(scope, &Ty::Bool, 2);
        self.line(&format!("if ({condition}) {{ {word}; }}"));
    }
}
