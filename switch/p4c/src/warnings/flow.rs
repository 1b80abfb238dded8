//! Values that are read before they are set, `out` parameters that are left unset, and fields of headers that are not
//! valid: found by walking every path through functions, actions, controls and parsers.
//!
//! A path is possible if the statements allow it; what conditions say is not looked at, but for `isValid()`, after
//! which nothing more is said of a header, and for hit, miss and the action of a table. Actions are walked where they
//! are called or applied, since they read and write variables of their control; functions, parsers and controls once,
//! for themselves.

use crate::architecture::Architecture;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{
    BinaryOp, Call, Callee, Direction, Expr, ExprKind, Param, Parser, Program, Stmt, StmtKind,
    TableId, Target, Transition, UnaryOp,
};
use crate::source::Span;
use crate::types::Type;

use super::parsers::targets;
use super::places::{self, Place, State, Validity, find};

/// How many steps are taken in a program; then the rest of it has no warnings of this kind. Actions that call actions
/// twice, and so on, would take twice as many at every level.
const MOST_STEPS: usize = 2_000_000;

/// How deep actions call each other before a call is only taken to set its `out` arguments.
const MOST_CALLS: usize = 100;

struct Flow<'a> {
    program: &'a Program,
    diagnostics: &'a Diagnostics,
    /// State here; none if no path leads here.
    state: Option<State>,
    /// States where the body being walked returns, and where the block ends by `exit`.
    returned: Option<State>,
    exited: Option<State>,
    loops: Vec<Loop>,
    /// False while a loop is iterated to its fixed point, so that no warning is given twice.
    is_reporting: bool,
    steps_left: usize,
    calls: usize,
}

/// States where a loop is left by `break`, and where `continue` begins the next iteration.
#[derive(Default)]
struct Loop {
    broken: Option<State>,
    continued: Option<State>,
}

pub fn check(program: &Program, diagnostics: &Diagnostics) {
    let mut flow = Flow {
        program,
        diagnostics,
        state: None,
        returned: None,
        exited: None,
        loops: Vec::new(),
        is_reporting: true,
        steps_left: MOST_STEPS,
        calls: 0,
    };
    for function in &program.functions {
        let signature = &function.signature;
        flow.begin(&signature.params);
        flow.statements(&function.body);
        flow.end(&signature.params, &signature.name);
    }
    for parser in &program.parsers {
        flow.parser(parser);
    }
    for control in &program.controls {
        flow.begin(&control.block.params);
        flow.statements(&control.block.locals);
        flow.statements(&control.body);
        flow.end(&control.block.params, &control.block.name);
    }
}

fn join(into: &mut Option<State>, other: Option<State>) {
    match (into.as_mut(), other) {
        (Some(state), Some(other)) => state.join(other),
        (None, other) => *into = other,
        (Some(_), None) => {}
    }
}

fn joined(states: impl IntoIterator<Item = Option<State>>) -> Option<State> {
    let mut all = None;
    for state in states {
        join(&mut all, state);
    }
    all
}

impl Flow<'_> {
    /// Takes a step, which costs the more the more is known here; false if there are none left.
    fn step(&mut self) -> bool {
        let cost = 1 + self.state.as_ref().map_or(0, State::size) / 16;
        match self.steps_left.checked_sub(cost) {
            Some(left) => {
                self.steps_left = left;
                true
            }
            None => {
                self.steps_left = 0;
                self.state = None;
                false
            }
        }
    }

    fn report(&self, warning: Diagnostic) {
        if self.is_reporting {
            self.diagnostics.report(warning);
        }
    }

    fn begin(&mut self, params: &[Param]) {
        let mut state = State::default();
        for param in params {
            match param.direction {
                Direction::Out => state.declare(param.var, &param.ty),
                _ => state.given(param.var, &param.ty),
            }
        }
        self.state = Some(state);
        self.returned = None;
        self.exited = None;
    }

    fn end(&mut self, params: &[Param], name: &str) {
        let (returned, exited) = (self.returned.take(), self.exited.take());
        join(&mut self.state, returned);
        join(&mut self.state, exited);
        self.check_out(params, name);
    }

    /// `out` parameters have a value at the end. Headers may be invalid, and then they have none.
    fn check_out(&self, params: &[Param], name: &str) {
        let Some(state) = &self.state else {
            return;
        };
        for param in params.iter().filter(|p| p.direction == Direction::Out) {
            let place = Place::of(param.var);
            let headers = places::headers(&place, &param.ty);
            let mut unset = state.unset_in(&place);
            let Some(leaf) = unset.find(|leaf| !headers.iter().any(|h| h.holds(leaf))) else {
                continue;
            };
            let message = format!(
                "`{}` may have no value at the end of `{name}`",
                leaf.text(&param.name)
            );
            let warning = Diagnostic::warning("uninitialized-out-param", param.span, message);
            self.report(warning.help("set it on every path"));
        }
    }

    fn parser(&mut self, parser: &Parser) {
        self.begin(&parser.block.params);
        self.statements(&parser.block.locals);
        let mut entries: Vec<Option<State>> = vec![None; parser.states.len()];
        if let Some(first) = entries.first_mut() {
            *first = self.state.take();
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
                join(&mut entries[next], self.state.clone());
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
                join(&mut accepted, self.state.take());
            }
        }
        self.state = accepted;
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
        self.state = entries[at].clone();
        self.statements(&state.body);
        if let Transition::Select { keys, .. } = &state.transition {
            keys.iter().for_each(|key| self.read(key));
        }
        self.step()
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            if self.state.is_none() || !self.step() {
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
                self.state = yes;
                self.statements(then);
                let after = std::mem::replace(&mut self.state, no);
                self.statements(otherwise);
                join(&mut self.state, after);
            }
            StmtKind::Block { body, .. } => self.statements(body),
            StmtKind::Switch(subject, arms) => {
                self.read(subject);
                let before = self.state.take();
                let has_default = arms
                    .iter()
                    .any(|(labels, _)| labels.iter().any(Option::is_none));
                let mut after = match has_default {
                    true => None,
                    false => before.clone(),
                };
                for (_, body) in arms {
                    self.state = before.clone();
                    self.statements(body);
                    join(&mut after, self.state.take());
                }
                self.state = after;
            }
            StmtKind::SwitchAction(table, arms) => self.switch_action(*table, arms),
            StmtKind::Declare(var, init) => self.declare(*var, init.as_ref()),
            StmtKind::For {
                condition,
                update,
                body,
            } => self.repeat(|flow| {
                flow.read(condition);
                let end = flow.state.clone();
                flow.statements(body);
                flow.continue_here();
                flow.statements(update);
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
            StmtKind::Break => {
                if let Some(innermost) = self.loops.last_mut() {
                    join(&mut innermost.broken, self.state.take());
                }
            }
            StmtKind::Continue => {
                if let Some(innermost) = self.loops.last_mut() {
                    join(&mut innermost.continued, self.state.take());
                }
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value);
                }
                join(&mut self.returned, self.state.take());
            }
            StmtKind::Exit => join(&mut self.exited, self.state.take()),
        }
    }

    fn for_each(&mut self, var: usize, body: &[Stmt]) {
        self.repeat(|flow| {
            let end = flow.state.clone();
            if let Some(state) = &mut flow.state {
                state.forget(&Place::of(var));
            }
            flow.statements(body);
            flow.continue_here();
            end
        });
    }

    /// The state at `continue` holds here too.
    fn continue_here(&mut self) {
        let continued = self.loops.last_mut().and_then(|l| l.continued.take());
        join(&mut self.state, continued);
    }

    /// Walks a loop; `round` walks it once, and gives what holds where it ends by itself.
    fn repeat(&mut self, round: impl Fn(&mut Self) -> Option<State>) {
        let was_reporting = std::mem::replace(&mut self.is_reporting, false);
        let mut entry = self.state.take();
        loop {
            self.loops.push(Loop::default());
            self.state = entry.clone();
            round(self);
            self.loops.pop();
            let before = entry.clone();
            join(&mut entry, self.state.take());
            self.state = entry.clone();
            if entry == before || !self.step() {
                break;
            }
        }
        self.is_reporting = was_reporting;
        self.loops.push(Loop::default());
        self.state = entry;
        let end = round(self);
        let broken = self.loops.pop().and_then(|l| l.broken);
        self.state = joined([end, broken]);
    }

    fn declare(&mut self, var: usize, init: Option<&Expr>) {
        let ty = &self.program.vars[var].ty;
        if let Some(value) = init {
            self.read(value);
        }
        let Some(state) = &mut self.state else {
            return;
        };
        state.declare(var, ty);
        if let Some(value) = init {
            let place = Place::of(var);
            state.forget(&place);
            assign_validity(state, &place, ty, value);
        }
    }

    fn assign(&mut self, target: &Expr, value: &Expr) {
        self.read(value);
        self.write(target);
        let (Some(state), Some(found)) = (&mut self.state, find(target)) else {
            return;
        };
        if found.is_exact {
            assign_validity(state, &found.place, &target.ty, value);
            if state.validity(&found.place) == Some(Validity::Valid) {
                self.set_validity(target, Validity::Valid);
            }
        }
    }

    /// States if a condition is true, and if it is false.
    fn condition(&mut self, condition: &Expr) -> (Option<State>, Option<State>) {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => {
                let (yes, no) = self.condition(inner);
                (no, yes)
            }
            ExprKind::TableHit { table, miss } => {
                let (hit, missed) = self.hit_and_miss(*table);
                if *miss { (missed, hit) } else { (hit, missed) }
            }
            _ => {
                self.read(condition);
                let state = self.state.take();
                (state.clone(), state)
            }
        }
    }

    fn hit_and_miss(&mut self, id: TableId) -> (Option<State>, Option<State>) {
        let program = self.program;
        let table = &program.tables[id];
        let outcomes = self.outcomes(id);
        let has = |at: usize, name| crate::annotations::has(&table.actions[at].annotations, name);
        let select = |is_possible: &dyn Fn(usize) -> bool| {
            let possible = (0..outcomes.len()).filter(|at| is_possible(*at));
            joined(possible.map(|at| outcomes[at].clone()))
        };
        let default = table.default_action.as_ref().map(|call| call.action_ref);
        let hit = select(&|at| !has(at, "defaultonly"));
        let missed = match default {
            Some(default) if table.default_is_const => outcomes.get(default).cloned().flatten(),
            _ => select(&|at| !has(at, "tableonly")),
        };
        (hit, missed)
    }

    fn switch_action(&mut self, table: TableId, arms: &[(Vec<Option<usize>>, Vec<Stmt>)]) {
        let outcomes = self.outcomes(table);
        let named: Vec<usize> = arms
            .iter()
            .flat_map(|(labels, _)| labels)
            .flatten()
            .copied()
            .collect();
        let others = || {
            let others = (0..outcomes.len()).filter(|at| !named.contains(at));
            joined(others.map(|at| outcomes[at].clone()))
        };
        let has_default = arms.iter().any(|(labels, _)| labels.contains(&None));
        let mut after = if has_default { None } else { others() };
        for (labels, body) in arms {
            let states = labels.iter().map(|label| match label {
                Some(at) => outcomes.get(*at).cloned().flatten(),
                None => others(),
            });
            self.state = joined(states);
            self.statements(body);
            join(&mut after, self.state.take());
        }
        self.state = after;
    }

    /// States after each of the actions of a table, which is applied here.
    fn outcomes(&mut self, id: TableId) -> Vec<Option<State>> {
        let program = self.program;
        let table = &program.tables[id];
        table.key.iter().for_each(|key| self.read(&key.expr));
        let before = self.state.take();
        if table.actions.is_empty() {
            return vec![before];
        }
        let mut outcomes = Vec::new();
        for reference in &table.actions {
            self.state = before.clone();
            if self.state.is_some() && self.step() {
                let params = &program.actions[reference.action].params;
                let bound = params.iter().filter(|p| p.direction != Direction::None);
                let arguments: Vec<_> = bound.zip(&reference.args).collect();
                self.action(reference.action, &arguments);
            }
            outcomes.push(self.state.take());
        }
        outcomes
    }

    /// Walks the body of an action with these arguments; its other parameters get a value from the control plane.
    fn action(&mut self, id: usize, arguments: &[(&Param, &Expr)]) {
        let program = self.program;
        let action = &program.actions[id];
        for (param, argument) in arguments {
            if param.direction != Direction::Out {
                self.read(argument);
            }
        }
        if self.calls < MOST_CALLS {
            let Some(state) = &mut self.state else {
                return;
            };
            for param in &action.params {
                match param.direction {
                    Direction::Out => state.declare(param.var, &param.ty),
                    _ => state.given(param.var, &param.ty),
                }
            }
            for (param, argument) in arguments
                .iter()
                .filter(|(p, _)| p.direction != Direction::Out)
            {
                assign_validity(state, &Place::of(param.var), &param.ty, argument);
            }
            let outer = (self.returned.take(), std::mem::take(&mut self.loops));
            self.calls += 1;
            self.statements(&action.body);
            self.calls -= 1;
            let returned = self.returned.take();
            join(&mut self.state, returned);
            (self.returned, self.loops) = outer;
            self.check_out(&action.params, &action.name);
        }
        for (param, argument) in arguments.iter().filter(|(p, _)| p.direction.writes()) {
            self.write(argument);
            if let (Some(state), Some(found)) = (&mut self.state, find(argument))
                && found.is_exact
            {
                state.copy_validity(&Place::of(param.var), &found.place);
            }
        }
    }

    fn call(&mut self, call: &Call) {
        let program = self.program;
        match &call.callee {
            Callee::IsValid(header) => {
                self.path(header);
                self.about(header, |state, place| state.forget_validity(place));
            }
            Callee::SetValid(header) => {
                self.path(header);
                self.set_validity(header, Validity::Valid);
            }
            Callee::SetInvalid(header) => {
                self.path(header);
                self.set_validity(header, Validity::Invalid);
            }
            Callee::PushFront(stack) | Callee::PopFront(stack) => {
                self.path(stack);
                self.about(stack, State::forget);
            }
            Callee::ApplyTable(table) => {
                let outcomes = self.outcomes(*table);
                self.state = joined(outcomes);
            }
            Callee::Action(id) => {
                let params = program.actions[*id].params.iter();
                let arguments: Vec<_> = params.zip(&call.args).collect();
                self.check_order(&arguments);
                self.action(*id, &arguments);
            }
            Callee::Function(id) => self.call_with(&program.functions[*id].signature.params, call),
            Callee::ExternFunction(id) => {
                self.call_with(&program.extern_functions[*id].params, call);
            }
            Callee::Method {
                object,
                extern_type,
                method,
            } => {
                self.read(object);
                self.call_with(&program.externs[*extern_type].methods[*method].params, call);
            }
            Callee::Apply(object) => {
                if let Type::Block(id, _) = &object.ty {
                    self.call_with(&program.blocks[*id].signature.params, call);
                }
            }
        }
    }

    /// A call of what is not walked here: it reads and writes its arguments as its parameters say.
    fn call_with(&mut self, params: &[Param], call: &Call) {
        let arguments: Vec<_> = params.iter().zip(&call.args).collect();
        self.check_order(&arguments);
        for (param, argument) in &arguments {
            if param.direction != Direction::Out {
                self.read(argument);
            }
        }
        let is_extern = matches!(
            call.callee,
            Callee::ExternFunction(_) | Callee::Method { .. }
        );
        for (_, argument) in arguments.iter().filter(|(p, _)| p.direction.writes()) {
            self.write(argument);
            // An extracted header is valid.
            if is_extern && argument.ty.is_header() {
                self.set_validity(argument, Validity::Valid);
            }
        }
    }

    /// Two arguments of a call that are written and have parts in common: the last one wins, which is easily missed.
    fn check_order(&self, arguments: &[(&Param, &Expr)]) {
        let written = arguments.iter().filter(|(p, _)| p.direction.writes());
        let places: Vec<_> = written
            .filter_map(|(_, e)| Some((find(e).filter(|f| f.is_exact)?.place, is_part(e), e.span)))
            .collect();
        for (at, (place, is_slice, written)) in places.iter().enumerate() {
            let twice = |(other, other_is_slice, _): &&(Place, bool, Span)| {
                other.overlaps(place) && !(*is_slice && *other_is_slice)
            };
            if let Some((_, _, first)) = places[..at].iter().find(twice) {
                let message = "two arguments that are written have parts in common";
                let warning = Diagnostic::warning("ordering", *written, message);
                self.report(warning.note(*first, "written before"));
            }
        }
    }

    /// A header of a union that becomes valid makes the others invalid (P4_16, section 8.20).
    fn set_validity(&mut self, header: &Expr, validity: Validity) {
        if let ExprKind::Field(base, _) = &header.kind
            && base.ty.is_union()
            && validity == Validity::Valid
        {
            self.about(base, |state, place| {
                state.set_validity(place, &base.ty, Validity::Invalid);
            });
        }
        self.about(header, |state, place| {
            state.set_validity(place, &header.ty, validity);
        });
    }

    /// Changes what is known of the place of an expression; if that is not known exactly, nothing is known of the stack
    /// that it is in.
    fn about(&mut self, expr: &Expr, change: impl FnOnce(&mut State, &Place)) {
        let (Some(state), Some(found)) = (&mut self.state, find(expr)) else {
            return;
        };
        match found.is_exact {
            true => change(state, &found.place),
            false => state.forget(&found.place),
        }
    }

    fn write(&mut self, target: &Expr) {
        self.path(target);
        self.about(target, State::forget);
    }

    fn read(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Call(call) => self.call(call),
            ExprKind::TableHit { table, .. } => {
                let outcomes = self.outcomes(*table);
                self.state = joined(outcomes);
            }
            ExprKind::StackLastIndex(_) => {}
            // An operand that is not always evaluated sets nothing for sure.
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, left, right) => {
                self.read(left);
                self.perhaps(|flow| flow.read(right), right.has_effects());
            }
            ExprKind::Conditional(condition, yes, no) => {
                self.read(condition);
                self.perhaps(|flow| flow.read(yes), yes.has_effects());
                self.perhaps(|flow| flow.read(no), no.has_effects());
            }
            _ if find(expr).is_some() => self.read_place(expr),
            _ => {
                expr.any_operand(|operand| {
                    self.read(operand);
                    false
                });
            }
        }
    }

    fn perhaps(&mut self, evaluate: impl FnOnce(&mut Self), has_effects: bool) {
        let before = has_effects.then(|| self.state.clone()).flatten();
        evaluate(self);
        join(&mut self.state, before);
    }

    fn read_place(&mut self, expr: &Expr) {
        if self.path(expr) {
            return;
        }
        if let Some(next) = next_element(expr) {
            let message = "`next` is the element that is not extracted yet, so it has no value";
            self.report(Diagnostic::warning("uninitialized", next.span, message));
            return;
        }
        let (Some(state), Some(found)) = (&self.state, find(expr)) else {
            return;
        };
        if !found.is_exact {
            return;
        }
        let headers = places::headers(&found.place, &expr.ty);
        // A header that is not valid has no fields that could be missing.
        let is_missing = |leaf: &&Place| {
            let mut around = headers.iter().filter(|header| header.holds(leaf));
            around.all(|header| state.validity(header) == Some(Validity::Valid))
        };
        let Some(leaf) = state.unset_in(&found.place).find(is_missing) else {
            return;
        };
        let name = leaf.text(&self.program.vars[leaf.var].name);
        let message = format!("`{name}` may be read before it has a value");
        let declared = self.program.vars[leaf.var].span;
        let warning = Diagnostic::warning("uninitialized-use", expr.span, message);
        self.report(warning.note(declared, "declared without a value"));
    }

    /// Reads on the way to a place: indices, and headers whose fields are meant. True if one of these may
    /// not be valid, which is reported.
    fn path(&mut self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Field(base, _) => {
                let above = self.path(base);
                above || base.ty.is_header() && self.is_invalid(base)
            }
            ExprKind::Index(base, index) => {
                self.read(index);
                self.path(base)
            }
            ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::Slice { base, .. } => self.path(base),
            ExprKind::Var(_) | ExprKind::DontCare => false,
            _ => {
                self.read(expr);
                false
            }
        }
    }

    fn is_invalid(&self, header: &Expr) -> bool {
        let (Some(state), Some(found)) = (&self.state, find(header)) else {
            return false;
        };
        if !found.is_exact {
            return false;
        }
        let how = match state.validity(&found.place) {
            Some(Validity::Invalid) => "is not",
            Some(Validity::Either) => "may not be",
            Some(Validity::Valid) | None => return false,
        };
        let name = found.place.text(&self.program.vars[found.place.var].name);
        let message = format!("a field of `{name}`, which {how} valid here");
        let warning = Diagnostic::warning("invalid-header", header.span, message);
        self.report(warning.help("ask `isValid()`, or extract it or call `setValid()` before"));
        true
    }
}

/// The headers of a place become as valid as those of the value that is assigned to it.
fn assign_validity(state: &mut State, place: &Place, ty: &Type, value: &Expr) {
    match &value.kind {
        // A record keeps the order in which it is written.
        ExprKind::Cast(inner) if inner.ty.is_record() && !ty.is_header() => {
            state.forget_validity(place);
        }
        ExprKind::Cast(inner) => assign_validity(state, place, ty, inner),
        ExprKind::InvalidHeader => state.set_validity(place, ty, Validity::Invalid),
        ExprKind::List(_) if ty.is_header() => state.set_validity(place, ty, Validity::Valid),
        ExprKind::List(items) => {
            for ((part, ty), item) in place.parts(ty).into_iter().zip(items) {
                assign_validity(state, &part, &ty, item);
            }
        }
        _ => match find(value) {
            Some(from) if from.is_exact && !from.place.overlaps(place) => {
                state.copy_validity(&from.place, place);
            }
            _ => state.forget_validity(place),
        },
    }
}

/// `stack.next`, if the place is in one.
fn next_element(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::StackNext(_) => Some(expr),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) | ExprKind::Slice { base, .. } => {
            next_element(base)
        }
        _ => None,
    }
}

/// Whether only some bits of a place are meant.
fn is_part(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Slice { .. })
}
