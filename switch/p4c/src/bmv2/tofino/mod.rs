//! Programs of Tofino: two parsers, two deparsers made of primitives, and the externs of TNA.
//!
//! The JSON is that of BMv2 with `architecture`, and with primitives that ebb-switch alone has: `emit`, `mirror`,
//! `resubmit_with`, and `count` with a third parameter. Fields of intrinsic metadata have aliases,
//! `TYPE.FIELD`, by which the switch finds them.

mod calls;
mod objects;
pub(super) mod values;

use ebb_bmv2_json as json;

use super::backend::{Backend, Stage};
use crate::architecture::Architecture;
use crate::elaborate::flat::{FlatControl, FlatKind, FlatStmt, Pipe, Tofino};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

impl Backend<'_> {
    /// Converts a program for Tofino.
    pub(super) fn tofino(&mut self, tofino: &Tofino) {
        self.json.architecture = Some(self.program.architecture.name().to_owned());
        if tofino.pipes.len() > 1 {
            self.json.pipes = tofino.pipes.iter().map(|pipe| pipe.name.clone()).collect();
        }
        self.layout.declare_own_standard();
        for (pipe, number) in tofino.pipes.iter().zip(0..) {
            self.parsers_of(pipe, number);
        }
        self.value_sets();
        for (pipe, number) in tofino.pipes.iter().zip(0..) {
            self.controls_of(pipe, number);
        }
        self.tofino_instances();
        self.alias_intrinsic(tofino);
    }

    pub(super) fn parsers_of(&mut self, pipe: &Pipe, number: u32) {
        let ingress = json::in_pipe(&pipe.name, number, "ingress");
        let egress = json::in_pipe(&pipe.name, number, "egress");
        let ingress = self.parser(&pipe.ingress_parser, &ingress, 2 * number);
        let egress = self.parser(&pipe.egress_parser, &egress, 2 * number + 1);
        self.json.parsers.extend([ingress, egress]);
    }

    pub(super) fn controls_of(&mut self, pipe: &Pipe, number: u32) {
        let name = |block| json::in_pipe(&pipe.name, number, block);
        self.stage = Stage::Ingress;
        let ingress = self.pipeline(&name("ingress"), 3 * number, &pipe.ingress);
        self.stage = Stage::Egress;
        let egress = self.pipeline(&name("egress"), 3 * number + 1, &pipe.egress);
        self.json.pipelines.extend([ingress, egress]);
        if let Some(ghost) = &pipe.ghost {
            let pipeline = self.pipeline(&name("ghost"), 3 * number + 2, ghost);
            self.json.pipelines.push(pipeline);
        }
        self.stage = Stage::Ingress;
        let ingress = self.deparser_of(&name("ingress"), 2 * number, &pipe.ingress_deparser);
        self.stage = Stage::Egress;
        let egress = self.deparser_of(&name("egress"), 2 * number + 1, &pipe.egress_deparser);
        self.json.deparsers.extend([ingress, egress]);
    }

    /// A deparser, whose statements run as one action. The headers that it emits are written when all of them have run.
    fn deparser_of(&mut self, name: &str, id: u32, control: &FlatControl) -> json::Deparser {
        self.check_deparser(&control.body);
        json::Deparser {
            name: name.to_owned(),
            id,
            source_info: self.source_info(control.span),
            order: Vec::new(),
            primitives: self.action_body(&control.body),
        }
    }

    fn check_deparser(&self, body: &[FlatStmt]) {
        for statement in body {
            if let FlatKind::ApplyTable(..) = statement.kind {
                let message = "a deparser cannot apply tables";
                self.error("unsupported-deparser", statement.span, message);
            }
            statement.kind.bodies().for_each(|b| self.check_deparser(b));
        }
    }

    /// Aliases by which the switch finds the fields of intrinsic metadata.
    fn alias_intrinsic(&mut self, tofino: &Tofino) {
        for (name, var) in &tofino.intrinsic {
            let ty = self.flat.vars[*var].ty.clone();
            let root = Expr::var(*var, ty.clone(), Span::default());
            let fields = ty.as_struct().map(|s| s.fields.iter());
            for field in fields.into_iter().flatten() {
                let member = Expr::field(root.clone(), &field.name, field.ty.clone());
                let Some(place) = self.field_of(&member) else {
                    continue;
                };
                if name == "ingress_intrinsic_metadata_from_parser_t" && field.name == "parser_err"
                {
                    self.alias_errors(tofino, *var, &place);
                    continue;
                }
                if name == "ingress_intrinsic_metadata_for_tm_t" && field.name == "qid" {
                    let alias = "intrinsic_metadata.priority".to_owned();
                    self.layout.alias(alias, place.clone());
                }
                self.layout.alias(format!("{name}.{}", field.name), place);
            }
        }
    }

    /// Aliases of `parser_err` for the pipelines that read it: without, the switch drops packets whose parser of
    /// ingress has failed.
    fn alias_errors(&mut self, tofino: &Tofino, var: usize, place: &json::FieldRef) {
        const ALIAS: &str = "ingress_intrinsic_metadata_from_parser_t.parser_err";
        for (pipe, number) in tofino.pipes.iter().zip(0..) {
            let several = tofino.pipes.len() > 1;
            if self.reads(pipe, several, var, "parser_err") {
                let alias = json::in_pipe(&pipe.name, number, ALIAS);
                self.layout.alias(alias, place.clone());
            }
        }
    }

    /// Whether a pipeline reads a field of a variable: in a statement, an action or a key.
    fn reads(&self, pipe: &Pipe, several: bool, var: usize, field: &str) -> bool {
        let flat = self.flat;
        let is_read = |e: &Expr| reads_field(e, var, field);
        let prefix = format!("{}.", pipe.name);
        let tables = || {
            let all = flat.tables.iter();
            all.filter(|table| !several || table.name.starts_with(&prefix))
        };
        let bodies = [&pipe.ingress.body[..], &pipe.ingress_deparser.body[..]];
        let actions = tables().flat_map(|table| &table.actions);
        let actions = actions.map(|action| &flat.actions[*action].body[..]);
        let mut bodies = bodies.into_iter().chain(actions);
        bodies.any(|body| any_expr(body, &is_read)) || tables().any(|t| t.key.iter().any(is_read))
    }

    /// Bits in front of the packet behind the intrinsic metadata of ingress.
    pub(super) fn port_metadata_bits(&self) -> u32 {
        match self.program.architecture {
            Architecture::T2na => 192,
            _ => 64,
        }
    }

    /// The variable that an object keeps while a packet passes, zero in the beginning.
    pub(super) fn kept(&mut self, object: usize, ty: &Type, span: Span) -> Expr {
        if let Some(kept) = self.kept.get(&object) {
            return kept.clone();
        }
        let made = self.temp(ty, span);
        self.kept.insert(object, made.clone());
        made
    }

    /// Refuses what is not there, by name and place.
    pub(super) fn missing(&self, what: &str, span: Span) {
        let message = format!("the switch has no `{what}` yet");
        let help = "the pages tofino-lab and psa list what runs";
        self.error_with_help("unsupported-extern", span, message, help);
    }
}

/// Whether an expression reads a field of a variable.
fn reads_field(expr: &Expr, var: usize, field: &str) -> bool {
    match &expr.kind {
        ExprKind::Field(base, name) if name == field => {
            matches!(base.kind, ExprKind::Var(v) if v == var)
        }
        // The whole struct is read.
        ExprKind::Var(v) => *v == var,
        // Another field is.
        ExprKind::Field(base, _) if matches!(base.kind, ExprKind::Var(_)) => false,
        _ => expr.any_operand(|operand| reads_field(operand, var, field)),
    }
}

/// Whether `test` holds for an expression of a statement.
fn any_expr(body: &[FlatStmt], test: &dyn Fn(&Expr) -> bool) -> bool {
    body.iter().any(|statement| {
        let own = match &statement.kind {
            FlatKind::Assign(target, value) => test(target) || test(value),
            FlatKind::If(condition, ..) => test(condition),
            FlatKind::Extern { args, .. } => args.iter().any(test),
            _ => false,
        };
        own || statement.kind.bodies().any(|inner| any_expr(inner, test))
    })
}
