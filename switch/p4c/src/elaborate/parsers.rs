//! Parsers: sub-parsers become states of the parser that applies them.
//!
//! ```text
//! state s { sub.apply(p, h); p.extract(h.x); transition t; }
//!     ==>  s -> sub.start -> ... -> sub.accept = s_1 { p.extract(h.x); transition t; }
//! ```

use std::rc::Rc;

use super::calls::{Arguments, Reach};
use super::flat::{FlatParser, FlatState, FlatTarget, FlatTransition, FlatValueSet};
use super::{Elaborator, Env, INSTANCE_PARTS, Unit, full_name};
use crate::ir::{
    Call, Callee, Constructed, Expr, ParserId, SelectCase, Stmt, StmtKind, Target, Transition,
};
use crate::source::Span;

impl Elaborator<'_> {
    pub(super) fn top_parser(&mut self, unit: &Rc<Unit>, args: &[Expr]) {
        let Constructed::Parser(id) = unit.what else {
            return;
        };
        let parser = &self.program.parsers[id].block;
        let mut env = self.unit_env(unit, 0);
        for (param, arg) in parser.params.iter().zip(args) {
            env.vars.insert(param.var, arg.clone());
        }
        self.flat.parser = FlatParser {
            name: parser.name.clone(),
            span: parser.span,
            ..FlatParser::default()
        };
        self.flat.parser.start = self.parser_states(id, unit, env, "", FlatTarget::Accept);
    }

    /// Adds the states of one application of a parser; returns the first.
    fn parser_states(
        &mut self,
        id: ParserId,
        unit: &Rc<Unit>,
        mut env: Env,
        prefix: &str,
        accept: FlatTarget,
    ) -> usize {
        let parser = &self.program.parsers[id];
        for value_set in &parser.value_sets {
            self.value_set(*value_set, unit, &env);
        }
        let first = self.block(|e| e.statements(&parser.block.locals, &mut env));
        let base = self.flat.parser.states.len();
        for state in &parser.states {
            self.add_state(format!("{prefix}{}", state.name), state.span);
        }
        for (i, state) in parser.states.iter().enumerate() {
            let target = |t: Target| match t {
                Target::Accept => accept,
                Target::Reject => FlatTarget::Reject,
                Target::State(s) => FlatTarget::State(base + s),
            };
            let mut env = env.clone();
            let ((last, transition), body) = self.apart(|e| {
                let last = e.state_body(&state.body, base + i, &mut env);
                let transition = match &state.transition {
                    Transition::Direct(t) => FlatTransition::Direct(target(*t)),
                    Transition::Select { keys, cases, .. } => {
                        let refs: Vec<&Expr> = keys.iter().collect();
                        let keys = e.operands(&refs, &env);
                        let mut sets = |c: &SelectCase| {
                            let sets = c.keyset.iter().map(|set| e.known_set(set, &env));
                            (sets.collect(), target(c.target))
                        };
                        let cases = cases.iter().map(&mut sets).collect();
                        FlatTransition::Select { keys, cases }
                    }
                };
                (last, transition)
            });
            let state = &mut self.flat.parser.states[last];
            state.body = body;
            state.transition = transition;
        }
        if first.is_empty() {
            return base;
        }
        // Local variables are set once, before the first state, which may be entered again.
        let locals = self.add_state(format!("{prefix}locals"), parser.block.span);
        self.flat.parser.states[locals].body = first;
        self.flat.parser.states[locals].transition =
            FlatTransition::Direct(FlatTarget::State(base));
        locals
    }

    fn add_state(&mut self, name: String, span: Span) -> usize {
        // A program beyond the budget is reported, so that it is not used.
        let _ = self.diagnostics.spend(INSTANCE_PARTS, span);
        let unique = self.state_names.unique(&name);
        self.flat.parser.states.push(FlatState {
            name: unique,
            body: Vec::new(),
            transition: FlatTransition::Direct(FlatTarget::Accept),
            span,
        });
        self.flat.parser.states.len() - 1
    }

    /// Statements of a state; at each sub-parser the state is cut in two. Returns the last piece, whose statements are
    /// left as the body in work.
    fn state_body(&mut self, statements: &[Stmt], state: usize, env: &mut Env) -> usize {
        let mut current = state;
        for statement in statements {
            let StmtKind::Call(
                call @ Call {
                    callee: Callee::Apply(object),
                    ..
                },
            ) = &statement.kind
            else {
                self.statement(statement, env);
                continue;
            };
            let object = self.expr(object, env);
            let Some(unit) = self.unit_of(&object) else {
                continue;
            };
            let Constructed::Parser(id) = unit.what else {
                continue;
            };
            if !self.may_nest(env, "parsers are nested too deeply", statement.span) {
                return current;
            }
            let params = &self.program.parsers[id].block.params;
            let bound = self.bind(params, Arguments::of(call), &[], Reach::Parameters, env);
            let mut inner = self.unit_env(&unit, env.depth + 1);
            inner.vars.extend(bound.vars.clone());
            let rest_name = format!("{}_rest", self.flat.parser.states[current].name);
            let rest = self.add_state(rest_name, statement.span);
            let prefix = format!("{}.", self.flat.parser.states[current].name);
            let start = self.parser_states(id, &unit, inner, &prefix, FlatTarget::State(rest));
            let finished = &mut self.flat.parser.states[current];
            finished.body = std::mem::take(&mut self.out);
            finished.transition = FlatTransition::Direct(FlatTarget::State(start));
            self.copy_back(bound);
            current = rest;
        }
        current
    }

    fn value_set(&mut self, id: usize, unit: &Rc<Unit>, env: &Env) {
        if self.value_sets.contains_key(&(unit.id, id)) {
            return;
        }
        let declared = &self.program.value_sets[id];
        let size = self.pure_expr(&declared.size, env);
        let Some(number) = size.as_number() else {
            return self.no_size("value set", &size, u32::MAX.into());
        };
        self.flat.value_sets.push(FlatValueSet {
            name: self.in_pipe(full_name(
                Some(&unit.path),
                &declared.name,
                &declared.annotations,
            )),
            annotations: declared.annotations.clone(),
            ty: declared.ty.clone(),
            size: number,
            span: declared.span,
        });
        let index = self.flat.value_sets.len() - 1;
        self.value_sets.insert((unit.id, id), index);
    }
}
