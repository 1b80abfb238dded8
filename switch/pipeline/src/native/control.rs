//! Ingress and egress: the graph of tables, conditions and calls.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::action::Exit;
use super::calls;
use super::calls::offset;
use super::code::{Code, Data};
use super::rows::{self, Access, Choices, MEMO_FACTOR, Memo, Row, View, WordKey};
use crate::action::Target;
use crate::program::{Emit, Next, Node, TableNode};
use crate::table::TableSpec;

impl Code<'_, '_> {
    /// A pipeline from `start`. The result is 0.
    pub fn pipeline(&mut self, start: Next) -> Value {
        let program = self.program;
        let next = |node: u32| successors(&program.nodes[node as usize]);
        let blocks: Vec<Option<Block>> = reachable(program.nodes.len(), start, next)
            .into_iter()
            .map(|used| used.then(|| self.block()))
            .collect();
        let end = self.block();
        let to = |next: Next| next.and_then(|n| blocks[n as usize]).unwrap_or(end);
        self.jump(to(start));
        for (node, block) in program.nodes.iter().zip(&blocks) {
            let Some(block) = *block else { continue };
            self.go_on_in(block);
            match node {
                Node::Condition {
                    condition,
                    then,
                    otherwise,
                    ..
                } => {
                    let data = self.no_data();
                    self.branch_on(condition, data, to(*then), to(*otherwise));
                }
                Node::Call { action, next } => {
                    let data = self.no_data();
                    let body = &program.actions[*action as usize].body;
                    self.body(body, data, &Exit { block: end });
                    self.jump(to(*next));
                }
                Node::Table(table) => self.table(table, &to, end),
            }
        }
        self.go_on_in(end);
        self.constant(0)
    }

    fn table(&mut self, node: &TableNode, to: &dyn Fn(Next) -> Block, end: Block) {
        let program = self.program;
        // The low half of the outcome is the action's number, or -1; the high half says whether an
        // entry was hit.
        let (outcome, pointer) = self.lookup(node.table);
        let meter = program.blueprint.tables[node.table as usize].spec.meter;
        if meter.is_some_and(|meter| program.sets_headers(&Target::Field(meter.target))) {
            self.headers_changed();
        }
        let hit = self.b.ins().ushr_imm(outcome, 32);
        let action = self.b.ins().ireduce(I32, outcome);
        let after = |code: &mut Self, action: Option<u32>| match node.by_hit {
            Some((on_hit, on_miss)) => {
                code.b.ins().brif(hit, to(on_hit), &[], to(on_miss), &[]);
            }
            None => code.jump(to(node.next(false, action))),
        };
        for number in &program.blueprint.tables[node.table as usize].spec.actions {
            let (run, on) = (self.block(), self.block());
            let this = self.is_action(action, number.0);
            self.branch(this, run, on);
            self.go_on_in(run);
            let compiled = &program.actions[number.index()];
            let data = Data {
                pointer,
                words: compiled.data_words,
            };
            self.body(&compiled.body, data, &Exit { block: end });
            after(self, Some(number.0));
            self.go_on_in(on);
        }
        // Members of a shared action profile may have actions that this table does not list.
        let (foreign, none) = (self.block(), self.block());
        let is_none = self.is_action(action, calls::NO_ACTION);
        self.b.set_cold_block(foreign);
        self.branch(is_none, none, foreign);
        self.go_on_in(foreign);
        let action = self.b.ins().uextend(I64, action);
        let left = self.call(calls::address::run_action(), &[action, pointer]);
        self.branch(left, end, none);
        self.go_on_in(none);
        after(self, None);
    }

    /// Whether the low half of an outcome is this action.
    fn is_action(&mut self, action: Value, number: u32) -> Value {
        let number = self.b.ins().iconst(I32, i64::from(number));
        self.b.ins().icmp(IntCC::Equal, action, number)
    }

    /// Applies a table: the outcome, and the data of the action.
    fn lookup(&mut self, table: u32) -> (Value, Value) {
        let of_program = &self.program.blueprint.tables[table as usize];
        let spec = &of_program.spec;
        let (ask, done) = (self.block(), self.block());
        let outcome = self.b.append_block_param(done, I64);
        let data = self.b.append_block_param(done, I64);
        let (access, noted) = (rows::access(spec), self.program.notes_entry(spec));
        if !noted && !matches!(access, Access::Rows(_)) && self.try_constants(of_program, done) {
            self.go_on_in(done);
            return (outcome, data);
        }
        let number = self.constant(u64::from(table));
        let selector = self.selector_of(spec);
        let row = match access {
            // The interpreter notes the entry.
            _ if noted => None,
            Access::Rows(key) => Some(self.row_of_key(table, &key, ask)),
            Access::Memos(key) if selector.is_some() || spec.profile.is_none() => {
                Some(self.row_of_memo(table, &key, selector, ask))
            }
            _ => None,
        };
        match row {
            Some(row) => {
                self.b.set_cold_block(ask);
                let first = self.load_changing(row, offset_of!(Row, outcome));
                let second = self.load_changing(row, offset_of!(Row, data));
                self.b.ins().jump(done, &[first.into(), second.into()]);
            }
            None => self.jump(ask),
        }
        self.go_on_in(ask);
        let (first, second) = match selector {
            Some(selector) => {
                let hash = self.calculate(selector);
                self.call_for_two(calls::address::select_member(), &[number, hash])
            }
            None => self.call_for_two(calls::address::apply(), &[number]),
        };
        self.b.ins().jump(done, &[first.into(), second.into()]);
        self.go_on_in(done);
        (outcome, data)
    }

    /// An array of the table's view; goes to `ask` if there is none.
    fn view(&mut self, table: u32, field: usize, ask: Block) -> Value {
        let array = self.view_field(table, field);
        self.go_on_if(array, ask);
        array
    }

    fn view_field(&mut self, table: u32, field: usize) -> Value {
        let views = self.load_context(offset::VIEWS);
        self.load_changing(views, table as usize * size_of::<View>() + field)
    }

    fn go_on_if(&mut self, condition: Value, otherwise: Block) {
        let on = self.block();
        self.branch(condition, on, otherwise);
        self.go_on_in(on);
    }

    /// The address of an element of an array.
    fn element<T>(&mut self, array: Value, index: Value) -> Value {
        const { assert!(size_of::<T>().is_power_of_two()) };
        let shift = size_of::<T>().ilog2();
        let distance = self.b.ins().ishl_imm(index, i64::from(shift));
        self.add(array, distance)
    }

    fn row_of_key(&mut self, table: u32, key: &WordKey, ask: Block) -> Value {
        let rows = self.view(table, offset_of!(View, rows), ask);
        if key.bits == 0 {
            return rows;
        }
        let field = self.key(key);
        self.element::<Row>(rows, field)
    }

    /// The key of the packet in one word.
    fn key(&mut self, key: &WordKey) -> Value {
        let mut all = None;
        for part in &key.parts {
            let field = self.word(part.at);
            let field = self.b.ins().band_imm(field, part.mask as i64);
            let field = match part.shift {
                0 => field,
                shift => self.b.ins().ishl_imm(field, i64::from(shift)),
            };
            all = Some(match all {
                None => field,
                Some(all) => self.b.ins().bor(all, field),
            });
        }
        all.unwrap_or_else(|| self.constant(0))
    }

    fn row_of_memo(
        &mut self,
        table: u32,
        key: &WordKey,
        selector: Option<u32>,
        ask: Block,
    ) -> Value {
        let memos = self.view(table, offset_of!(View, memos), ask);
        let field = self.key(key);
        let factor = self.constant(MEMO_FACTOR);
        let product = self.b.ins().imul(field, factor);
        let shift = self.view_field(table, offset_of!(View, memo_shift));
        let place = self.b.ins().ushr(product, shift);
        let (beside, found) = (self.block(), self.block());
        let memo = self.b.append_block_param(found, I64);
        let first = self.element::<Memo>(memos, place);
        let known = self.load_changing(first, offset_of!(Memo, key));
        let same = self.b.ins().icmp(IntCC::Equal, known, field);
        self.b.ins().brif(same, found, &[first.into()], beside, &[]);
        self.go_on_in(beside);
        let place = self.b.ins().bxor_imm(place, 1);
        let second = self.element::<Memo>(memos, place);
        let known = self.load_changing(second, offset_of!(Memo, key));
        let same = self.b.ins().icmp(IntCC::Equal, known, field);
        self.b.ins().brif(same, found, &[second.into()], ask, &[]);
        self.go_on_in(found);
        let choices = self.load_changing(memo, offset_of!(Memo, choices));
        let rows = self.load_changing(choices, offset_of!(Choices, rows));
        let Some(selector) = selector else {
            return rows;
        };
        let choices = self.load_changing(choices, offset_of!(Choices, count));
        let (several, divide, chosen) = (self.block(), self.block(), self.block());
        let choice = self.b.append_block_param(chosen, I64);
        let (alone, first) = (self.is(IntCC::Equal, choices, 1), self.constant(0));
        self.b
            .ins()
            .brif(alone, chosen, &[first.into()], several, &[]);
        self.go_on_in(several);
        let hash = self.calculate(selector);
        // As in `bucket` of the interpreter, division is slow and mostly the count is a power of
        // two.
        let below = self.add_const(choices, u64::MAX);
        let others = self.b.ins().band(choices, below);
        let masked = self.b.ins().band(hash, below);
        self.b
            .ins()
            .brif(others, divide, &[], chosen, &[masked.into()]);
        self.go_on_in(divide);
        let rest = self.b.ins().urem(hash, choices);
        self.jump_with(chosen, rest);
        self.go_on_in(chosen);
        self.element::<Row>(rows, choice)
    }

    /// The calculation that chooses among members, if it can be made before it is known to be
    /// needed.
    fn selector_of(&self, spec: &TableSpec) -> Option<u32> {
        let program = self.program;
        let selector = program.blueprint.profiles[spec.profile?.index()].selector?;
        self.is_generated(selector).then_some(selector)
    }

    /// Length in bytes of those of these headers that are valid.
    pub fn measure(&mut self, emits: &[Emit]) -> Value {
        let mut sum = self.constant(0);
        for emit in emits {
            let valid = self.word(emit.valid_at);
            let bytes = match emit.length_at {
                None => self.constant(u64::from(emit.fixed_bits / 8)),
                Some(at) => {
                    let variable = self.word(at);
                    let bits = self.add_const(variable, u64::from(emit.fixed_bits));
                    self.b.ins().ushr_imm(bits, 3)
                }
            };
            let zero = self.constant(0);
            let bytes = self.b.ins().select(valid, bytes, zero);
            sum = self.add(sum, bytes);
        }
        sum
    }
}

/// Which nodes of a graph can be reached from `start`.
pub(super) fn reachable(
    nodes: usize,
    start: Next,
    successors: impl Fn(u32) -> Vec<u32>,
) -> Vec<bool> {
    let mut reached = vec![false; nodes];
    let mut open: Vec<u32> = start.into_iter().collect();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reached[node as usize], true) {
            open.extend(successors(node));
        }
    }
    reached
}

/// Whether the graph has a cycle. No compiler writes one, and only the interpreter counts steps.
pub(super) fn is_cyclic(nodes: &[Node], start: Next) -> bool {
    has_circle(nodes.len(), start, |node| successors(&nodes[node as usize]))
}

/// Whether a graph has a cycle that can be reached from `start`.
pub(super) fn has_circle(nodes: usize, start: Next, successors: impl Fn(u32) -> Vec<u32>) -> bool {
    /// Not seen, on the path from the start, or done with.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; nodes];
    // The flag says that all successors are done with.
    let mut open: Vec<(u32, bool)> = start.map(|s| (s, false)).into_iter().collect();
    while let Some((node, leave)) = open.pop() {
        if leave {
            marks[node as usize] = Mark::Done;
        } else if marks[node as usize] == Mark::New {
            marks[node as usize] = Mark::Open;
            open.push((node, true));
            for next in successors(node) {
                match marks[next as usize] {
                    Mark::Open => return true,
                    Mark::Done => {}
                    Mark::New => open.push((next, false)),
                }
            }
        }
    }
    false
}

fn successors(node: &Node) -> Vec<u32> {
    let all: Vec<Next> = match node {
        Node::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        Node::Call { next, .. } => vec![*next],
        Node::Table(t) => {
            let by_hit = t.by_hit.map(|(hit, miss)| [hit, miss]);
            t.by_action
                .iter()
                .map(|(_, next)| *next)
                .chain(by_hit.into_iter().flatten())
                .chain([t.base])
                .collect()
        }
    };
    all.into_iter().flatten().collect()
}
