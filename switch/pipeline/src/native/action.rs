//! Actions: assignments and the cheap externs as instructions, everything else as calls of the
//! interpreter.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::calls;
use super::code::{Code, Data};
use crate::action::{Primitive, Target};
use crate::expr::{Condition, HeaderRef, Number, Word};
use crate::layout::NO_HOME;
use crate::slot::Slot;

/// Continuation behind an action.
pub(super) struct Exit {
    /// The block for packets that are done with the pipeline.
    pub block: Block,
}

impl Code<'_, '_> {
    /// The primitives of an action. The code goes on behind them, unless the packet exits.
    pub fn body(&mut self, body: &[Primitive], data: Data, exit: &Exit) {
        let Some(targets) = jump_targets(body) else {
            return self.interpret(body, data, exit);
        };
        let blocks: Vec<Option<Block>> = targets
            .iter()
            .map(|is_target| is_target.then(|| self.block()))
            .collect();
        let end = self.block();
        // Behind a jump no code can be reached until some jump leads there.
        let mut reachable = true;
        for (at, primitive) in body.iter().enumerate() {
            if let Some(block) = blocks[at] {
                if reachable {
                    self.jump(block);
                }
                self.go_on_in(block);
                reachable = true;
            }
            if !reachable {
                continue;
            }
            let block_of = |to: usize| blocks.get(to).copied().flatten().unwrap_or(end);
            match primitive {
                Primitive::Jump(to) => {
                    self.jump(block_of(constant(to).unwrap_or(usize::MAX)));
                    reachable = false;
                }
                Primitive::JumpUnless(condition, to) => {
                    let on = self.block();
                    let to = block_of(constant(to).unwrap_or(usize::MAX));
                    self.branch_on(condition, data, on, to);
                    self.go_on_in(on);
                }
                other => {
                    let changes = self.program.changes_headers(other);
                    if changes && self.needs_fields(other) {
                        self.fetch_fields();
                    }
                    self.primitive(other, data, exit);
                    if changes {
                        self.headers_changed();
                    }
                }
            }
        }
        if reachable {
            self.jump(end);
        }
        self.go_on_in(end);
    }

    /// Has the interpreter run all primitives.
    fn interpret(&mut self, body: &[Primitive], data: Data, exit: &Exit) {
        let start = self.constant(body.as_ptr() as u64);
        let length = self.constant(body.len() as u64);
        let words = self.constant(data.words as u64);
        let left = self.call(calls::address::run(), &[start, length, data.pointer, words]);
        self.exit_if(left, exit);
    }

    /// Exits if `left` is not zero.
    fn exit_if(&mut self, left: Value, exit: &Exit) {
        let on = self.block();
        self.branch(left, exit.block, on);
        self.go_on_in(on);
    }

    /// Whether fields that the parser has left in the frame are to be read before a primitive that changes headers. The
    /// deparsers of Tofino read them themselves; a header that becomes valid there has the fields that it had, so none
    /// of them are left in the frame.
    fn needs_fields(&self, primitive: &Primitive) -> bool {
        let changes_validity = matches!(
            primitive,
            Primitive::SetValid(HeaderRef::Fixed(_))
                | Primitive::SetInvalid(HeaderRef::Fixed(_))
                | Primitive::Tofino(_)
        );
        !(changes_validity && self.program.tofino().is_some())
    }

    /// Reads the fields that the parser has left in the frame, before headers move.
    pub fn fetch_fields(&mut self) {
        if self.program.usage.left.contains(&true) {
            self.call(calls::address::fetch_fields(), &[]);
        }
    }

    /// Notes that headers may have become valid or invalid. The deparsers of Tofino measure them themselves.
    pub fn headers_changed(&mut self) {
        if self.program.other.is_none() {
            self.call(calls::address::measure(), &[]);
        }
    }

    /// One primitive that is no jump.
    fn primitive(&mut self, primitive: &Primitive, data: Data, exit: &Exit) {
        match primitive {
            Primitive::NoOp => {}
            Primitive::AssignWord(to, mask, value) => self.assign_word(*to, *mask, value, data),
            Primitive::Assign(
                Target::Field(slot),
                Number {
                    word: Some(word), ..
                },
            ) => {
                self.assign(*slot, word, data);
            }
            Primitive::MarkToDrop(to) => {
                let port = self.load_context(calls::offset::DROP_PORT);
                self.set_place(to.egress_spec, port);
                if let Some(group) = to.mcast_grp {
                    self.set_word_to(group.at, 0);
                }
            }
            Primitive::Count(counter, index) => {
                self.count(*counter, index, data);
            }
            Primitive::RegisterRead {
                to: Target::Field(slot),
                register,
                index,
            } if slot.words == 1 && register.bits <= 64 => {
                self.in_register(register.number, index, data, |code, cell| {
                    let value = code.load_cell(cell, 0);
                    code.store(*slot, value);
                });
            }
            Primitive::RegisterWrite {
                register,
                index,
                value: Number {
                    word: Some(value), ..
                },
            } if register.bits <= 64 => {
                let value = self.eval(value, data);
                let value = self.low(value, register.bits);
                self.in_register(register.number, index, data, |code, cell| {
                    code.store_cell(cell, 0, value)
                });
            }
            Primitive::Hash {
                to: Target::Field(slot),
                base,
                calculation,
                size,
            } if slot.words == 1 => self.hash(*slot, base, *calculation, size, data),
            Primitive::SetValid(HeaderRef::Fixed(h)) if self.program.tofino().is_some() => {
                // Its fields are what they were; the length of the headers is measured by the deparser.
                self.mark_valid(*h);
                if let Some(home_at) = self.program.layout.header_at(*h).home_at {
                    self.set_word_to(home_at, NO_HOME);
                }
            }
            Primitive::SetInvalid(HeaderRef::Fixed(h)) if self.program.tofino().is_some() => {
                self.set_word_to(self.program.layout.header_at(*h).valid_at, 0);
            }
            Primitive::SetValid(HeaderRef::Fixed(h)) => self.set_valid(*h),
            Primitive::Exit | Primitive::Assert(_) | Primitive::Assume(_) => {
                if let Primitive::Assert(condition) | Primitive::Assume(condition) = primitive {
                    self.unless(condition, data, |code| {
                        code.step(primitive, data);
                        code.jump(exit.block);
                    });
                } else {
                    let left = self.step(primitive, data);
                    self.exit_if(left, exit);
                }
            }
            other => {
                self.step(other, data);
            }
        }
    }

    /// Has the interpreter run one primitive. The result is not zero if the packet exits.
    fn step(&mut self, primitive: &Primitive, data: Data) -> Value {
        let primitive = self.address(primitive);
        let words = self.constant(data.words as u64);
        self.call(calls::address::step(), &[primitive, data.pointer, words])
    }

    /// Code for the rare case that a condition is false; it must end with a jump.
    fn unless(&mut self, condition: &Condition, data: Data, rare: impl FnOnce(&mut Self)) {
        let (fails, on) = (self.block(), self.block());
        self.b.set_cold_block(fails);
        self.branch_on(condition, data, on, fails);
        self.go_on_in(fails);
        rare(self);
        self.go_on_in(on);
    }

    fn assign_word(&mut self, to: u32, mask: u64, value: &Word, data: Data) {
        let value = self.eval(value, data);
        let value = match mask {
            u64::MAX => value,
            mask => self.b.ins().band_imm(value, mask as i64),
        };
        self.set_word(to, value);
    }

    /// Stores a number of one word in a field of any width.
    pub fn assign(&mut self, slot: Slot, value: &Word, data: Data) {
        let value = self.eval(value, data);
        self.store_wide(slot, value);
    }

    pub fn store_wide(&mut self, slot: Slot, value: Value) {
        if slot.words == 1 {
            return self.store(slot, value);
        }
        for at in slot.at..slot.at + slot.words - 1 {
            self.set_word_to(at, 0);
        }
        self.set_word(slot.at + slot.words - 1, value);
    }

    fn hash(&mut self, to: Slot, base: &Number, calculation: u32, size: &Number, data: Data) {
        let base = self.index(base, data);
        let size_word = self.index(size, data);
        let hash = self.calculate(calculation);
        let within = match size.word {
            Some(Word::Const(n)) if n.max(1).is_power_of_two() => {
                let mask = self.constant(n.max(1) - 1);
                self.b.ins().band(hash, mask)
            }
            _ => {
                let empty = self.is(IntCC::Equal, size_word, 0);
                let one = self.constant(1);
                let size = self.b.ins().select(empty, one, size_word);
                self.b.ins().urem(hash, size)
            }
        };
        let sum = self.add(within, base);
        self.store(to, sum);
    }

    fn set_valid(&mut self, header: u32) {
        let program = self.program;
        let h = program.layout.header_at(header);
        let (set, done) = (self.block(), self.block());
        let valid = self.word(h.valid_at);
        self.branch(valid, done, set);
        self.go_on_in(set);
        let number = self.constant(u64::from(header));
        self.call(calls::address::set_valid(), &[number]);
        self.jump(done);
        self.go_on_in(done);
    }

    /// Makes a header valid, and with it the other members of its union invalid.
    pub fn mark_valid(&mut self, header: u32) {
        let program = self.program;
        let h = program.layout.header_at(header);
        for sibling in &h.siblings {
            self.set_word_to(program.layout.header_at(*sibling).valid_at, 0);
        }
        self.set_word_to(h.valid_at, 1);
    }
}

/// The value of a constant; `None` if the number is not constant.
fn constant(number: &Number) -> Option<usize> {
    usize::try_from(number.constant()?).ok()
}

/// Which primitives are targets of jumps. `None` if the code cannot be laid out in this order: a
/// jump leads back, or its target is not constant.
fn jump_targets(body: &[Primitive]) -> Option<Vec<bool>> {
    let mut targets = vec![false; body.len()];
    for (at, primitive) in body.iter().enumerate() {
        if let Primitive::Jump(to) | Primitive::JumpUnless(_, to) = primitive {
            let to = constant(to)?;
            if to <= at {
                return None;
            }
            if let Some(target) = targets.get_mut(to) {
                *target = true;
            }
        }
    }
    Some(targets)
}
