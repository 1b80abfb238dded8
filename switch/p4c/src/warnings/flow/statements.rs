//! Walk of statements, loops and parsers.

use crate::architecture::Architecture;
use crate::ir::{Expr, Parser, Stmt, StmtKind, Target, Transition};
use crate::warnings::parsers::targets;
use crate::warnings::places::{Place, State};

use super::paths::{join, joined};
use super::walk::Walk;

impl Walk<'_> {
    pub(super) fn parser(&mut self, parser: &Parser) {
        self.begin(&parser.block.params);
        self.statements(&parser.block.locals);
        let mut entries: Vec<Option<State>> = vec![None; parser.states.len()];
        if let Some(first) = entries.first_mut() {
            *first = self.paths.here.take();
        }
        self.is_reporting = false;
        let mut waiting = vec![0];
        while let Some(at) = waiting.pop() {
            if !self.parser_state(parser, at, &entries) {
                break;
            }
            for target in targets(&parser.states[at]) {
                let Target::State(next) = target else {
                    continue;
                };
                let before = entries[next].clone();
                join(&mut entries[next], self.paths.here.clone());
                if entries[next] != before && !waiting.contains(&next) {
                    waiting.push(next);
                }
            }
        }
        self.is_reporting = true;
        let mut accepted = None;
        for at in 0..parser.states.len() {
            self.parser_state(parser, at, &entries);
            if targets(&parser.states[at]).contains(&Target::Accept) {
                join(&mut accepted, self.paths.here.take());
            }
        }
        self.paths.here = accepted;
        // The metadata of a parser of Tofino begin as zero.
        if self.program.architecture == Architecture::V1model {
            self.end(&parser.block.params, &parser.block.name);
        }
    }

    /// Walks a state, from what holds at its beginning to its transition. False if no steps are left.
    fn parser_state(&mut self, parser: &Parser, at: usize, entries: &[Option<State>]) -> bool {
        let Some(state) = parser.states.get(at) else {
            return true;
        };
        self.paths.here = entries[at].clone();
        self.statements(&state.body);
        if let Transition::Select { keys, .. } = &state.transition {
            keys.iter().for_each(|key| self.read(key));
        }
        self.step()
    }

    pub(super) fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            if self.paths.here.is_none() || !self.step() {
                return;
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Assign(target, value) => self.assign(target, value),
            StmtKind::Update(target, _, value) => {
                self.read(target);
                self.read(value);
                self.write(target);
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(condition, then, otherwise) => {
                let (yes, no) = self.condition(condition);
                self.paths.here = yes;
                self.statements(then);
                let after = std::mem::replace(&mut self.paths.here, no);
                self.statements(otherwise);
                self.paths.meet(after);
            }
            StmtKind::Block { body, .. } => self.statements(body),
            StmtKind::Switch(subject, arms) => self.switch(subject, arms),
            StmtKind::SwitchAction(table, arms) => self.switch_action(*table, arms),
            StmtKind::Declare(var, init) => self.declare(*var, init.as_ref()),
            StmtKind::For {
                condition,
                update,
                body,
            } => self.repeat(|walk| {
                walk.read(condition);
                let end = walk.paths.here.clone();
                walk.statements(body);
                walk.paths.continue_here();
                walk.statements(update);
                end
            }),
            StmtKind::ForRange {
                var,
                low,
                high,
                body,
            } => {
                self.read(low);
                self.read(high);
                self.for_each(*var, body);
            }
            StmtKind::ForEach { var, body, .. } => self.for_each(*var, body),
            StmtKind::Break => self.paths.leave_by_break(),
            StmtKind::Continue => self.paths.leave_by_continue(),
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value);
                }
                self.paths.leave_by_return();
            }
            StmtKind::Exit => self.paths.leave_by_exit(),
        }
    }

    fn switch(&mut self, subject: &Expr, arms: &[(Vec<Option<Expr>>, Vec<Stmt>)]) {
        self.read(subject);
        let before = self.paths.here.take();
        let has_default = arms
            .iter()
            .any(|(labels, _)| labels.iter().any(Option::is_none));
        let mut after = match has_default {
            true => None,
            false => before.clone(),
        };
        for (_, body) in arms {
            self.paths.here = before.clone();
            self.statements(body);
            join(&mut after, self.paths.here.take());
        }
        self.paths.here = after;
    }

    fn for_each(&mut self, var: usize, body: &[Stmt]) {
        self.repeat(|walk| {
            let end = walk.paths.here.clone();
            if let Some(state) = &mut walk.paths.here {
                state.forget(&Place::of(var));
            }
            walk.statements(body);
            walk.paths.continue_here();
            end
        });
    }

    /// Walks a loop; `round` walks it once, and gives what holds where it ends by itself.
    fn repeat(&mut self, round: impl Fn(&mut Self) -> Option<State>) {
        let was_reporting = std::mem::replace(&mut self.is_reporting, false);
        let mut entry = self.paths.here.take();
        loop {
            self.paths.enter_loop(entry.clone());
            round(self);
            self.paths.leave_loop();
            let before = entry.clone();
            join(&mut entry, self.paths.here.take());
            self.paths.here = entry.clone();
            if entry == before || !self.step() {
                break;
            }
        }
        self.is_reporting = was_reporting;
        self.paths.enter_loop(entry);
        let end = round(self);
        let broken = self.paths.leave_loop();
        self.paths.here = joined([end, broken]);
    }
}
