//! Words that expressions and conditions read, and those that are written where a condition holds.

use super::follower::Follower;
use super::written::{Written, set_slot};
use crate::expr::{Bool, Compare, Condition, HeaderRef, Num, Number, Word};

impl Follower<'_> {
    pub(super) fn number(&mut self, number: &Number, written: &Written) {
        self.num(&number.tree, written);
    }

    pub(super) fn num(&mut self, num: &Num, written: &Written) {
        match num {
            Num::Const(_) | Num::BigConst(_) | Num::Param(_) => {}
            Num::Field(slot) => self.read_slots(&[*slot], written),
            Num::Register(_, a) | Num::Not(a) | Num::Cast(_, a, _) => self.num(a, written),
            Num::Last(..) | Num::Element(..) | Num::StackCount(..) => self.lost = true,
            Num::Binary(_, a, b) => {
                self.num(a, written);
                self.num(b, written);
            }
            Num::If(c, a, b) => {
                self.boolean(c, written);
                self.num(a, written);
                self.num(b, written);
            }
            Num::FromBool(a) => self.boolean(a, written),
        }
    }

    pub(super) fn boolean(&mut self, boolean: &Bool, written: &Written) {
        match boolean {
            // Whether a header is valid is always known.
            Bool::Const(_) | Bool::Valid(HeaderRef::Fixed(_)) => {}
            Bool::NonZero(a) | Bool::NonZeroBig(a) => self.num(a, written),
            Bool::Not(a) => self.boolean(a, written),
            Bool::And(a, b) | Bool::Or(a, b) | Bool::Same(a, b) => {
                self.boolean(a, written);
                self.boolean(b, written);
            }
            Bool::If(c, a, b) => {
                self.boolean(c, written);
                self.boolean(a, written);
                self.boolean(b, written);
            }
            Bool::Compare(_, a, b) | Bool::CompareBig(_, a, b) => {
                self.num(a, written);
                self.num(b, written);
            }
            Bool::SameHeader(a, b) => {
                self.read_header(a, written);
                self.read_header(b, written);
            }
            Bool::Valid(_) | Bool::UnionValid(_) | Bool::SameUnion(..) => self.lost = true,
        }
    }

    pub(super) fn word(&mut self, word: &Word, written: &Written) {
        match word {
            Word::Const(_) | Word::Param(_) => {}
            Word::Field(at) | Word::FieldConst(_, at, _) => self.read(*at, written),
            Word::Fields(_, a, b) => {
                self.read(*a, written);
                self.read(*b, written);
            }
            Word::SignExtend(a, _) | Word::WithConst(_, a, _) | Word::Not(a) => {
                self.word(a, written);
            }
            Word::Binary(_, a, b) => {
                self.word(a, written);
                self.word(b, written);
            }
            Word::If(c, a, b) => {
                self.condition(c, written);
                self.word(a, written);
                self.word(b, written);
            }
            Word::FromTest(a) => self.condition(a, written),
        }
    }

    /// Words that are written where a condition holds, or where it does not: among them the fields of headers that it
    /// says are valid.
    pub(super) fn behind(&self, condition: &Condition, holds: bool, written: &Written) -> Written {
        let mut written = written.clone();
        self.note_valid(condition, holds, &mut written);
        written
    }

    pub(super) fn note_valid(&self, condition: &Condition, holds: bool, written: &mut Written) {
        match condition {
            Condition::Not(a) => self.note_valid(a, !holds, written),
            Condition::And(a, b) if holds => {
                self.note_valid(a, true, written);
                self.note_valid(b, true, written);
            }
            Condition::Or(a, b) if !holds => {
                self.note_valid(a, false, written);
                self.note_valid(b, false, written);
            }
            Condition::Field(Compare::Ne, at, 0) if holds => self.note_fields(*at, written),
            Condition::Field(Compare::Eq, at, 0) if !holds => self.note_fields(*at, written),
            _ => {}
        }
    }

    /// If the word is that which says whether a header is valid, its fields are written. A variable-length field may
    /// not be.
    fn note_fields(&self, valid_at: u32, written: &mut Written) {
        let layout = &self.program.layout;
        let header = layout
            .headers
            .iter()
            .find(|header| header.valid_at == valid_at);
        if let Some(header) = header.filter(|header| layout.initial[header.valid_at as usize] == 0)
        {
            let variable = header.variable.map(|field| field as usize);
            let fields = header.fields.iter().enumerate();
            for (_, field) in fields.filter(|(number, _)| Some(*number) != variable) {
                set_slot(written, field.slot);
            }
        }
    }

    pub(super) fn condition(&mut self, condition: &Condition, written: &Written) {
        match condition {
            Condition::Const(_) => {}
            Condition::Field(_, at, _) => self.read(*at, written),
            Condition::Fields(_, a, b) => {
                self.read(*a, written);
                self.read(*b, written);
            }
            Condition::Compare(_, a, b) => {
                self.word(a, written);
                self.word(b, written);
            }
            Condition::Not(a) => self.condition(a, written),
            // Where the first part decides, it does not matter what the second one is.
            Condition::And(a, b) | Condition::Or(a, b) => {
                self.condition(a, written);
                let is_and = matches!(condition, Condition::And(..));
                let written = self.behind(a, is_and, written);
                self.condition(b, &written);
            }
            Condition::Same(a, b) => {
                self.condition(a, written);
                self.condition(b, written);
            }
            Condition::If(c, a, b) => {
                self.condition(c, written);
                self.condition(a, written);
                self.condition(b, written);
            }
            Condition::Plain(boolean) => self.boolean(boolean, written),
        }
    }
}
