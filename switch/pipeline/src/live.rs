//! What is read of a packet after its queue: by egress, checksum updates, the deparser, and field lists.
//!
//! Everything that is read anywhere counts, but for what the same action has surely written before: local variables.
//! Too much is only slower.

use crate::action::{Primitive, StackRef, Target};
use crate::calculation::Input;
use crate::expr::{Bool, Condition, HeaderRef, Num, Number, UnionRef, Word};
use crate::ids::ActionId;
use crate::layout::Slot;
use crate::native::successors;
use crate::program::{Node, Program, TableNode};

/// What is read of headers and metadata.
pub(crate) struct Live<'p> {
    program: &'p Program,
    /// By word: whether or not its header is valid.
    words: Vec<bool>,
    /// By header: as long as it is valid.
    headers: Vec<bool>,
    /// Words that the action at hand has written by now.
    own: Vec<u32>,
}

impl<'p> Live<'p> {
    pub fn after_the_queue(program: &'p Program) -> Live<'p> {
        let mut live = Live {
            program,
            words: vec![false; program.layout.initial.len()],
            headers: vec![false; program.layout.headers.len()],
            own: Vec::new(),
        };
        live.egress();
        for checksum in &program.update {
            checksum.condition.iter().for_each(|c| live.test(c));
            live.calculation(checksum.calculation);
        }
        live.primitives(&program.deparser_calls);
        for emit in &program.emit {
            live.header(emit.header);
        }
        // Of what is cloned or recirculated.
        for list in program.field_lists.values() {
            for (at, words) in &list.ranges {
                live.words[*at as usize..(*at + *words) as usize].fill(true);
            }
        }
        // What the queue itself writes.
        let standard = &program.standard;
        let always = [
            standard.egress_port,
            standard.egress_spec,
            standard.packet_length,
        ];
        let known = [
            standard.egress_rid,
            standard.egress_global_timestamp,
            standard.enq_timestamp,
            standard.enq_qdepth,
            standard.deq_timedelta,
            standard.deq_qdepth,
            standard.qid,
        ];
        for place in always.into_iter().chain(known.into_iter().flatten()) {
            live.words[place.at as usize] = false;
        }
        live
    }

    /// Whether one of the field's words is read even if its header is not valid.
    pub fn field(&self, slot: Slot) -> bool {
        let words = slot.at as usize..(slot.at + slot.words) as usize;
        self.words[words].contains(&true)
    }

    /// Whether anything of the header is read.
    pub fn is_header(&self, header: u32) -> bool {
        let h = self.program.layout.header_at(header);
        let words = h.first as usize..(h.first + h.words) as usize;
        self.headers[header as usize] || self.words[words].contains(&true)
    }

    fn egress(&mut self) {
        let program = self.program;
        let mut seen = vec![false; program.nodes.len()];
        let mut open: Vec<u32> = program.egress.into_iter().collect();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node as usize], true) {
                continue;
            }
            let node = &program.nodes[node as usize];
            match node {
                Node::Table(table) => self.table(table),
                Node::Condition { condition, .. } => self.test(condition),
                Node::Call { action, .. } => self.action(*action),
            }
            open.extend(successors(node));
        }
    }

    fn table(&mut self, node: &TableNode) {
        let blueprint = &self.program.blueprint;
        let spec = &blueprint.tables[node.table as usize].spec;
        spec.key.iter().for_each(|field| self.slot(field.slot));
        let actions = |live: &mut Self, actions: &[ActionId]| {
            actions.iter().for_each(|action| live.action(action.0));
        };
        actions(self, &spec.actions);
        if let Some(profile) = spec.profile {
            let profile = &blueprint.profiles[profile.index()];
            // Its members may have actions that this table does not announce.
            actions(self, &profile.actions);
            profile.selector.iter().for_each(|s| self.calculation(*s));
        }
    }

    fn action(&mut self, action: u32) {
        self.primitives(&self.program.actions[action as usize].body);
    }

    fn slot(&mut self, slot: Slot) {
        (slot.at..slot.at + slot.words).for_each(|at| self.word_at(at));
    }

    fn word_at(&mut self, at: u32) {
        if !self.own.contains(&at) {
            self.words[at as usize] = true;
        }
    }

    fn header(&mut self, header: u32) {
        self.headers[header as usize] = true;
    }

    fn union(&mut self, union: u32) {
        let headers = &self.program.layout.unions[union as usize].headers;
        headers.iter().for_each(|h| self.header(*h));
    }

    fn stack(&mut self, stack: &StackRef) {
        for element in &stack.elements {
            match stack.of_unions {
                true => self.union(*element),
                false => self.header(*element),
            }
        }
    }

    fn primitives(&mut self, body: &[Primitive]) {
        let mut always = true;
        for primitive in body {
            self.primitive(primitive);
            match primitive {
                // Over what comes behind it, too.
                Primitive::Jump(_) | Primitive::JumpUnless(..) => always = false,
                Primitive::AssignWord(to, ..) if always => self.own.push(*to),
                Primitive::Assign(Target::Field(to), _)
                | Primitive::Hash {
                    to: Target::Field(to),
                    ..
                } if always => self.own.extend(to.at..to.at + to.words),
                _ => {}
            }
        }
        self.own.clear();
    }

    fn primitive(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::NoOp | Primitive::Exit | Primitive::MarkToDrop => {}
            Primitive::Assign(to, value) => {
                self.target(to);
                self.number(value);
            }
            Primitive::AssignWord(to, _, value) => {
                self.written(*to);
                self.word(value);
            }
            Primitive::AssignVariable { from, .. } => {
                self.slot(from.0);
                self.word_at(from.1);
            }
            Primitive::AssignHeader(to, from) => {
                self.chosen(to);
                self.whole(from);
            }
            Primitive::AssignUnion(to, from) => {
                self.whole_union(to);
                self.whole_union(from);
            }
            Primitive::AssignStack { from, .. } => self.stack(from),
            Primitive::Push(stack, n) | Primitive::Pop(stack, n) => {
                self.stack(stack);
                self.number(n);
            }
            Primitive::JumpUnless(condition, to) => {
                self.test(condition);
                self.number(to);
            }
            Primitive::Assert(condition) | Primitive::Assume(condition) => self.test(condition),
            Primitive::Log(_, values) => values.iter().for_each(|value| self.number(value)),
            Primitive::SetValid(header) | Primitive::SetInvalid(header) => self.chosen(header),
            Primitive::Clone {
                session,
                field_list,
            } => {
                self.number(session);
                self.number(field_list);
            }
            Primitive::Jump(n)
            | Primitive::Resubmit(n)
            | Primitive::Recirculate(n)
            | Primitive::Digest(n)
            | Primitive::Count(_, n)
            | Primitive::Truncate(n) => self.number(n),
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => {
                self.target(to);
                self.number(base);
                self.number(size);
                self.calculation(*calculation);
            }
            Primitive::Random { to, low, high } => {
                self.target(to);
                self.number(low);
                self.number(high);
            }
            Primitive::Meter { index, to, .. } | Primitive::RegisterRead { to, index, .. } => {
                self.target(to);
                self.number(index);
            }
            Primitive::RegisterWrite { index, value, .. } => {
                self.number(index);
                self.number(value);
            }
        }
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Element(_, index) | Target::Register(_, index) => self.number(index),
            Target::Last(next, _) => self.word_at(*next),
            Target::Field(slot) => self.written(slot.at),
            Target::Nowhere => {}
        }
    }

    /// A header that is made valid by a mere assignment has the fields that it had.
    fn written(&mut self, at: u32) {
        let headers = &self.program.layout.headers;
        if let Some(header) = headers.iter().find(|h| h.valid_at == at) {
            let words = header.first as usize..(header.first + header.words) as usize;
            self.words[words].fill(true);
        }
    }

    fn calculation(&mut self, calculation: u32) {
        let program = self.program;
        for input in &program.calculations[calculation as usize].inputs {
            match input {
                // Left out if its header is not valid; that of metadata is.
                Input::Field(slot, valid_at, length_at) => {
                    let headers = &program.layout.headers;
                    match headers.iter().position(|h| h.valid_at == *valid_at) {
                        Some(header) if !headers[header].metadata => self.header(header as u32),
                        _ => self.slot(*slot),
                    }
                    length_at.iter().for_each(|at| self.word_at(*at));
                }
                Input::Header(header) => self.header(*header),
                Input::Constant(..) | Input::Payload => {}
            }
        }
    }

    fn number(&mut self, number: &Number) {
        self.num(&number.tree);
    }

    fn num(&mut self, num: &Num) {
        match num {
            Num::Const(_) | Num::BigConst(_) | Num::Param(_) => {}
            Num::Field(slot) => self.slot(*slot),
            Num::Register(_, index) => self.num(index),
            Num::Last(next, slots) => {
                self.word_at(*next);
                slots.iter().for_each(|slot| self.slot(*slot));
            }
            Num::Element(slots, index) => {
                slots.iter().for_each(|slot| self.slot(*slot));
                self.num(index);
            }
            Num::StackCount(next, _) => self.word_at(*next),
            Num::Binary(_, a, b) => {
                self.num(a);
                self.num(b);
            }
            Num::Not(a) | Num::Cast(_, a, _) => self.num(a),
            Num::If(c, a, b) => {
                self.bool(c);
                self.num(a);
                self.num(b);
            }
            Num::FromBool(b) => self.bool(b),
        }
    }

    fn bool(&mut self, condition: &Bool) {
        match condition {
            Bool::Const(_) => {}
            Bool::NonZero(n) | Bool::NonZeroBig(n) => self.num(n),
            Bool::Not(a) => self.bool(a),
            Bool::And(a, b) | Bool::Or(a, b) | Bool::Same(a, b) => {
                self.bool(a);
                self.bool(b);
            }
            Bool::If(c, a, b) => {
                self.bool(c);
                self.bool(a);
                self.bool(b);
            }
            Bool::Compare(_, a, b) | Bool::CompareBig(_, a, b) => {
                self.num(a);
                self.num(b);
            }
            Bool::Valid(header) => self.chosen(header),
            Bool::UnionValid(union) => self.whole_union(union),
            Bool::SameHeader(a, b) => {
                self.whole(a);
                self.whole(b);
            }
            Bool::SameUnion(a, b) => {
                self.whole_union(a);
                self.whole_union(b);
            }
        }
    }

    fn test(&mut self, condition: &Condition) {
        match condition {
            Condition::Const(_) => {}
            Condition::Field(_, at, _) => self.word_at(*at),
            Condition::Fields(_, a, b) => {
                self.word_at(*a);
                self.word_at(*b);
            }
            Condition::Compare(_, a, b) => {
                self.word(a);
                self.word(b);
            }
            Condition::Not(a) => self.test(a),
            Condition::And(a, b) | Condition::Or(a, b) | Condition::Same(a, b) => {
                self.test(a);
                self.test(b);
            }
            Condition::If(c, a, b) => {
                self.test(c);
                self.test(a);
                self.test(b);
            }
            Condition::Plain(condition) => self.bool(condition),
        }
    }

    fn word(&mut self, word: &Word) {
        match word {
            Word::Const(_) | Word::Param(_) => {}
            Word::Field(at) | Word::FieldConst(_, at, _) => self.word_at(*at),
            Word::Fields(_, a, b) => {
                self.word_at(*a);
                self.word_at(*b);
            }
            Word::SignExtend(a, _) | Word::WithConst(_, a, _) | Word::Not(a) => self.word(a),
            Word::Binary(_, a, b) => {
                self.word(a);
                self.word(b);
            }
            Word::If(c, a, b) => {
                self.test(c);
                self.word(a);
                self.word(b);
            }
            Word::FromTest(test) => self.test(test),
        }
    }

    /// A header of which only the validity, which is always kept, or nothing is read.
    fn chosen(&mut self, header: &HeaderRef) {
        if let HeaderRef::Element(_, index) = header {
            self.num(index);
        }
    }

    fn whole(&mut self, header: &HeaderRef) {
        self.chosen(header);
        match header {
            HeaderRef::Fixed(header) => self.header(*header),
            HeaderRef::Element(headers, _) => headers.iter().for_each(|h| self.header(*h)),
        }
    }

    fn whole_union(&mut self, union: &UnionRef) {
        match union {
            UnionRef::Fixed(union) => self.union(*union),
            UnionRef::Element(unions, index) => {
                unions.iter().for_each(|u| self.union(*u));
                self.num(index);
            }
        }
    }
}
