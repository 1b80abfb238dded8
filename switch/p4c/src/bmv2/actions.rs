//! Action bodies.
//!
//! BMv2 runs one action without another packet in between, so `if` inside of an action must stay inside:
//!
//! ```text
//! if (c) { a; } else { b; }      0: _jump_if_zero c, 3
//! d;                        ==>  1: a
//!                                2: _jump 4
//!                                3: b
//!                                4: d
//! ```

use std::collections::HashMap;

use ebb_bmv2_json as json;

use super::{Backend, hex_value};
use crate::elaborate::flat::{FlatKind, FlatStmt, Label};
use crate::source::Span;

#[derive(Default)]
struct Body {
    primitives: Vec<json::Primitive>,
    /// Jumps whose target is not known yet.
    pending: HashMap<Label, Vec<usize>>,
    to_end: Vec<usize>,
}

impl Backend<'_> {
    pub(super) fn action_body(&mut self, statements: &[FlatStmt]) -> Vec<json::Primitive> {
        let mut body = Body::default();
        self.action_statements(statements, &mut body);
        let end = body.primitives.len();
        for jump in std::mem::take(&mut body.to_end) {
            body.patch(jump, end);
        }
        body.primitives
    }

    fn action_statements(&mut self, statements: &[FlatStmt], body: &mut Body) {
        for statement in statements {
            let span = statement.span;
            match &statement.kind {
                FlatKind::If(condition, then, otherwise) => {
                    let zero_jump = body.primitives.len();
                    let condition = self.data(condition).wrapped();
                    let parameters = vec![condition, hex_value(0, 1)];
                    body.primitives
                        .push(self.primitive("_jump_if_zero", parameters, span));
                    self.action_statements(then, body);
                    if otherwise.is_empty() {
                        let end = body.primitives.len();
                        body.patch(zero_jump, end);
                        continue;
                    }
                    let skip = self.jump(body, span);
                    let start = body.primitives.len();
                    body.patch(zero_jump, start);
                    self.action_statements(otherwise, body);
                    let end = body.primitives.len();
                    body.patch(skip, end);
                }
                FlatKind::Labeled(label, inner) => {
                    self.action_statements(inner, body);
                    let end = body.primitives.len();
                    for jump in body.pending.remove(label).unwrap_or_default() {
                        body.patch(jump, end);
                    }
                }
                FlatKind::Break(label) => {
                    let jump = self.jump(body, span);
                    body.pending.entry(*label).or_default().push(jump);
                }
                FlatKind::Loop(inner) => {
                    let start = body.primitives.len();
                    self.action_statements(inner, body);
                    let back = self.jump(body, span);
                    body.patch(back, start);
                }
                FlatKind::Exit => {
                    // `exit` only marks the packet; the rest of the action must be skipped as well.
                    body.primitives
                        .push(self.primitive("exit", Vec::new(), span));
                    let jump = self.jump(body, span);
                    body.to_end.push(jump);
                }
                FlatKind::Atomic { body: inner, .. } => self.action_statements(inner, body),
                _ => self.simple_statement(statement, &mut body.primitives),
            }
        }
    }

    fn jump(&self, body: &mut Body, span: Span) -> usize {
        body.primitives
            .push(self.primitive("_jump", vec![hex_value(0, 1)], span));
        body.primitives.len() - 1
    }

    /// Adds an action and returns its id.
    pub(super) fn add_action(
        &mut self,
        name: String,
        runtime_data: Vec<json::ActionParameter>,
        primitives: Vec<json::Primitive>,
        span: Span,
    ) -> u32 {
        let id = self.json.actions.len() as u32;
        let source_info = self.source_info(span);
        self.json.actions.push(json::Action {
            name,
            id,
            source_info,
            runtime_data,
            primitives,
        });
        id
    }

    /// The JSON action of a table's action. It is converted when the first table needs it, since what
    /// an action may do depends on the pipeline.
    pub(super) fn action_id(&mut self, index: usize) -> u32 {
        if let Some(id) = self.action_ids.get(&index) {
            return *id;
        }
        let flat = self.flat;
        let action = &flat.actions[index];
        let runtime_data = action
            .params
            .iter()
            .map(|p| json::ActionParameter {
                name: p.own_name(),
                bitwidth: p.ty.width().unwrap_or(32),
            })
            .collect();
        let primitives = self.action_body(&action.body);
        let id = self.add_action(action.name.clone(), runtime_data, primitives, action.span);
        self.action_ids.insert(index, id);
        id
    }
}

impl Body {
    /// The target is the last parameter of both kinds of jump.
    fn patch(&mut self, jump: usize, target: usize) {
        if let Some(parameter) = self.primitives[jump].parameters.last_mut() {
            *parameter = hex_value(target, 1);
        }
    }
}
