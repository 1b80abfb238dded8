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

use super::backend::{Backend, hex_value};
use crate::elaborate::flat::{FlatKind, FlatStmt, Label};
use crate::source::Span;

/// Jumps of the action in work whose target is not known yet: their numbers in [`Backend::out`].
#[derive(Default)]
struct Jumps {
    /// Jumps to what stands behind the block of a label.
    behind: HashMap<Label, Vec<usize>>,
    to_end: Vec<usize>,
}

impl Backend<'_> {
    pub(super) fn action_body(&mut self, statements: &[FlatStmt]) -> Vec<json::Primitive> {
        let ((), primitives) = self.apart(|b| {
            let mut jumps = Jumps::default();
            b.action_statements(statements, &mut jumps);
            b.land_here(jumps.to_end);
        });
        primitives
    }

    fn action_statements(&mut self, statements: &[FlatStmt], jumps: &mut Jumps) {
        for statement in statements {
            let span = statement.span;
            match &statement.kind {
                FlatKind::If(condition, then, otherwise) => {
                    let condition = self.data(condition).wrapped();
                    let to_else = self.jump("_jump_if_zero", vec![condition], span);
                    self.action_statements(then, jumps);
                    if otherwise.is_empty() {
                        self.land_here([to_else]);
                        continue;
                    }
                    let skip = self.jump("_jump", Vec::new(), span);
                    self.land_here([to_else]);
                    self.action_statements(otherwise, jumps);
                    self.land_here([skip]);
                }
                FlatKind::Labeled(label, inner) => {
                    self.action_statements(inner, jumps);
                    self.land_here(jumps.behind.remove(label).unwrap_or_default());
                }
                FlatKind::Break(label) => {
                    let jump = self.jump("_jump", Vec::new(), span);
                    jumps.behind.entry(*label).or_default().push(jump);
                }
                FlatKind::Loop(inner) => {
                    let start = self.out.len();
                    self.action_statements(inner, jumps);
                    let back = self.jump("_jump", Vec::new(), span);
                    self.land(back, start);
                }
                FlatKind::Exit => {
                    // `exit` only marks the packet; the rest of the action must be skipped as well.
                    self.emit("exit", Vec::new(), span);
                    jumps.to_end.push(self.jump("_jump", Vec::new(), span));
                }
                FlatKind::Atomic { body: inner, .. } => self.action_statements(inner, jumps),
                _ => self.simple_statement(statement),
            }
        }
    }

    /// Emits a jump, whose target is its last parameter, and returns its number.
    pub(super) fn jump(&mut self, op: &str, mut parameters: Vec<json::Value>, span: Span) -> usize {
        parameters.push(hex_value(0, 1));
        self.emit(op, parameters, span);
        self.out.len() - 1
    }

    pub(super) fn land_here(&mut self, jumps: impl IntoIterator<Item = usize>) {
        let here = self.out.len();
        jumps.into_iter().for_each(|jump| self.land(jump, here));
    }

    fn land(&mut self, jump: usize, target: usize) {
        if let Some(parameter) = self.out[jump].parameters.last_mut() {
            *parameter = hex_value(target, 1);
        }
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
