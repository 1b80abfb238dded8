//! Constant entries of a table as a chain of comparisons: the first entry that matches is hit.

#[cfg(test)]
mod tests;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::calls::HIT;
use super::code::Code;
use crate::profile::{BoundAction, Resolved};
use crate::table::{Entry, KeyField, Table, TableSpec};

/// Most comparisons of all entries of a table together. Beyond them, entries are looked up as in any other table.
const MAX_COMPARISONS: usize = 24;

/// An entry that never changes.
struct Constant<'p> {
    tests: Vec<Test>,
    bound: &'p BoundAction,
}

/// A comparison of a word of the packet.
enum Test {
    /// The word, bits of it that count (`None`: all of the field) and their value.
    Equal(u32, Option<u64>, u64),
    AtLeast(u32, u64),
    AtMost(u32, u64),
}

impl Test {
    /// The comparisons by which an entry matches a field of one word.
    fn of(field: &KeyField, entry: &Entry) -> Vec<Test> {
        let (at, all) = (field.slot.at, crate::bits::low_mask(field.slot.bits));
        let range = entry.key.ranges.iter().find(|r| r.first == field.first);
        if let Some(range) = range {
            let mut ends = Vec::new();
            if range.low[0] > 0 {
                ends.push(Test::AtLeast(at, range.low[0]));
            }
            if range.high[0] < all {
                ends.push(Test::AtMost(at, range.high[0]));
            }
            return ends;
        }
        let (value, mask) = (entry.key.value[field.first], entry.key.mask[field.first]);
        match mask {
            0 => Vec::new(),
            _ if mask == all => vec![Test::Equal(at, None, value)],
            _ => vec![Test::Equal(at, Some(mask), value)],
        }
    }
}

/// The entries of a table in the order in which they are tried. `None`: they may change, a lookup is faster, or a hit
/// changes state.
fn constants(table: &Table) -> Option<Vec<Constant<'_>>> {
    let spec: &TableSpec = &table.spec;
    let is_word = |field: &KeyField| field.slot.words == 1 && field.mask.is_none();
    if !spec.is_const || spec.notes_hits() || !spec.key.iter().all(is_word) {
        return None;
    }
    let mut entries: Vec<(&Entry, &Resolved)> = (table.entries.iter().zip(&table.hot))
        .filter_map(|(entry, hot)| Some((entry.as_ref()?, &hot.action)))
        .collect();
    let rank = |entry: &Entry| (entry.priority, entry.key.prefix_len);
    entries.sort_by_key(|(entry, _)| std::cmp::Reverse(rank(entry)));
    let is_tied = entries
        .windows(2)
        .any(|pair| pair[0].0.priority == pair[1].0.priority);
    if spec.needs_priority && is_tied {
        return None;
    }
    let mut all = Vec::new();
    for (entry, action) in entries {
        let Resolved::Action(bound) = action else {
            return None;
        };
        let tests = spec.key.iter().flat_map(|field| Test::of(field, entry));
        all.push(Constant {
            tests: tests.collect(),
            bound,
        });
    }
    let comparisons: usize = all.iter().map(|entry| entry.tests.len()).sum();
    (comparisons <= MAX_COMPARISONS).then_some(all)
}

impl Code<'_, '_> {
    /// Tries the constant entries of a table. A packet that hits one goes to `done` with the outcome and the data of
    /// the action, as does one that hits none if the default action is constant too: then the result is true.
    /// Otherwise the code after this call handles those that hit none.
    pub fn try_constants(&mut self, table: &Table, done: Block) -> bool {
        let Some(entries) = constants(table) else {
            return false;
        };
        for entry in &entries {
            let miss = self.block();
            for test in &entry.tests {
                let holds = self.holds(test);
                let on = self.block();
                self.branch(holds, on, miss);
                self.go_on_in(on);
            }
            self.jump_with_action(done, entry.bound, HIT);
            self.go_on_in(miss);
        }
        match table.default.as_ref().map(|default| &default.resolved) {
            Some(Resolved::Action(bound)) if table.spec.const_default_entry => {
                self.jump_with_action(done, bound, 0);
                true
            }
            _ => false,
        }
    }

    fn holds(&mut self, test: &Test) -> Value {
        match *test {
            Test::Equal(at, mask, value) => {
                let word = self.word(at);
                let bits = match mask {
                    Some(mask) => self.b.ins().band_imm(word, mask as i64),
                    None => word,
                };
                self.is(IntCC::Equal, bits, value)
            }
            Test::AtLeast(at, low) => {
                let word = self.word(at);
                self.is(IntCC::UnsignedGreaterThanOrEqual, word, low)
            }
            Test::AtMost(at, high) => {
                let word = self.word(at);
                self.is(IntCC::UnsignedLessThanOrEqual, word, high)
            }
        }
    }

    /// Jumps to a block with an outcome and the address of the data of an action, which the program never moves.
    fn jump_with_action(&mut self, to: Block, bound: &BoundAction, hit: u64) {
        let outcome = self.constant(u64::from(bound.action) | hit);
        let data = self.constant(bound.data.as_ptr() as u64);
        self.b.ins().jump(to, &[outcome.into(), data.into()]);
    }
}
