//! Walk of calls: tables, and the actions that they may run; functions and externs by their parameters.

use crate::ir::{Call, Callee, Direction, Expr, Param, Stmt, TableId};
use crate::types::Type;
use crate::warnings::places::{Place, State, Validity, find};

use super::findings;
use super::paths::{join, joined};
use super::walk::Walk;

/// How deep actions call each other before a call is only taken to set its `out` arguments.
const MOST_CALLS: usize = 100;

impl Walk<'_> {
    pub(super) fn hit_and_miss(&mut self, id: TableId) -> (Option<State>, Option<State>) {
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

    pub(super) fn switch_action(
        &mut self,
        table: TableId,
        arms: &[(Vec<Option<usize>>, Vec<Stmt>)],
    ) {
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
            self.paths.here = joined(states);
            self.statements(body);
            join(&mut after, self.paths.here.take());
        }
        self.paths.here = after;
    }

    /// States after each of the actions of a table, which is applied here.
    pub(super) fn outcomes(&mut self, id: TableId) -> Vec<Option<State>> {
        let program = self.program;
        let table = &program.tables[id];
        table.key.iter().for_each(|key| self.read(&key.expr));
        let before = self.paths.here.take();
        if table.actions.is_empty() {
            return vec![before];
        }
        let mut outcomes = Vec::new();
        for reference in &table.actions {
            self.paths.here = before.clone();
            if self.paths.here.is_some() && self.step() {
                let params = &program.actions[reference.action].params;
                let bound = params.iter().filter(|p| p.direction != Direction::None);
                let arguments: Vec<_> = bound.zip(&reference.args).collect();
                self.action(reference.action, &arguments);
            }
            outcomes.push(self.paths.here.take());
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
            let Some(state) = &mut self.paths.here else {
                return;
            };
            state.declare_params(&action.params);
            for (param, argument) in arguments
                .iter()
                .filter(|(p, _)| p.direction != Direction::Out)
            {
                state.assign_validity(&Place::of(param.var), &param.ty, argument);
            }
            let caller = self.paths.enter_call();
            self.calls += 1;
            self.statements(&action.body);
            self.calls -= 1;
            self.paths.leave_call(caller);
            self.check_out(&action.params, &action.name);
        }
        for (param, argument) in arguments.iter().filter(|(p, _)| p.direction.writes()) {
            self.write(argument);
            if let (Some(state), Some(found)) = (&mut self.paths.here, find(argument))
                && found.is_exact
            {
                state.copy_validity(&Place::of(param.var), &found.place);
            }
        }
    }

    pub(super) fn call(&mut self, call: &Call) {
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
                self.paths.here = joined(outcomes);
            }
            Callee::Action(id) => {
                let params = program.actions[*id].params.iter();
                let arguments: Vec<_> = params.zip(&call.args).collect();
                self.report(findings::written_twice(&arguments));
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
        self.report(findings::written_twice(&arguments));
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
}
