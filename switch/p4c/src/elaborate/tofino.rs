//! The pipelines of Tofino: six blocks each and the ghost thread, which share intrinsic metadata by type.

use std::rc::Rc;

use super::flat::{FlatKind, FlatStmt, Pipe, Role, Tofino};
use super::{Elaborator, Env, Unit};
use crate::ir::{Construct, Constructed, Expr, ExprKind, InstanceId, Param};
use crate::source::Span;
use crate::types::Type;

/// Names of the headers and metadata of a gress, in the order of the parameters.
type Names = [&'static str; 2];
const INGRESS: Names = ["hdr", "ingress_metadata"];
const EGRESS: Names = ["egress_hdr", "egress_metadata"];

impl Elaborator<'_> {
    /// The pipelines that `Switch` has, in their order. One that it has several times is one program.
    pub(super) fn pipelines(&mut self, pipes: &[Expr], span: Span) -> Option<()> {
        let program = self.program;
        let mut chosen: Vec<(Option<InstanceId>, &Construct)> = Vec::new();
        for pipe in pipes.iter().filter(|pipe| is_given(pipe)) {
            let found = match &pipe.kind {
                ExprKind::Construct(made) => (None, &**made),
                ExprKind::Instance(id) => (Some(*id), &program.instances[*id].construct),
                _ => return None,
            };
            if found.0.is_none() || chosen.iter().all(|(id, _)| *id != found.0) {
                chosen.push(found);
            }
        }
        let several = chosen.len() > 1;
        self.flat.tofino = Some(Tofino::default());
        for (number, (id, pipe)) in chosen.into_iter().enumerate() {
            let name = match id {
                Some(id) => program.instances[id].name.clone(),
                None if several => format!("pipe{number}"),
                None => "pipe".to_owned(),
            };
            if several {
                self.begin_pipeline(&name);
            }
            self.pipeline(pipe, name, span)?;
        }
        Some(())
    }

    /// Objects at the top level are those of each pipeline.
    fn begin_pipeline(&mut self, name: &str) {
        self.pipe = Some(name.to_owned());
        self.globals.clear();
        let actions = &self.flat.actions;
        self.actions
            .retain(|(unit, _), index| unit.is_some() || !calls_objects(&actions[*index].body));
    }

    /// The blocks of a pipeline, in their order.
    fn pipeline(&mut self, pipe: &Construct, name: String, span: Span) -> Option<()> {
        let is_first = self.tofino().pipes.is_empty();
        self.tofino().pipes.push(Pipe {
            name,
            ..Pipe::default()
        });
        let mut shared = [Vec::new(), Vec::new()];
        for (index, block) in pipe.args.iter().enumerate().filter(|(_, b)| is_given(b)) {
            let unit = self.top_unit(block, &Env::default())?;
            let gress = usize::from(index >= 3);
            self.block_of_pipeline(index, &unit, (&mut shared[gress], is_first), span);
        }
        Some(())
    }

    /// Elaborates the block with this index among the arguments of the pipeline. `shared` is the storage of headers and
    /// metadata of its gress, so far.
    fn block_of_pipeline(
        &mut self,
        index: usize,
        unit: &Rc<Unit>,
        (shared, is_first): (&mut Vec<Expr>, bool),
        span: Span,
    ) {
        let Some(block) = self.program.block(unit.what) else {
            return;
        };
        let names = if index < 3 { INGRESS } else { EGRESS };
        let args = self.arguments_of_block(&block.params, (names, is_first), shared, span);
        if matches!(unit.what, Constructed::Parser(_)) {
            self.top_parser(unit, &args);
            let made = std::mem::take(&mut self.flat.parser);
            match index {
                0 => self.pipe_in_work().ingress_parser = made,
                _ => self.pipe_in_work().egress_parser = made,
            }
            return;
        }
        let control = self.top_control(unit, &args);
        let pipe = self.pipe_in_work();
        match index {
            1 => pipe.ingress = control,
            2 => pipe.ingress_deparser = control,
            4 => pipe.egress = control,
            5 => pipe.egress_deparser = control,
            _ => pipe.ghost = Some(control),
        }
    }

    /// Storage for the parameters of a block: intrinsic metadata is one variable for each type, the first two others
    /// are headers and metadata.
    fn arguments_of_block(
        &mut self,
        params: &[Param],
        (names, is_first): (Names, bool),
        shared: &mut Vec<Expr>,
        span: Span,
    ) -> Vec<Expr> {
        let mut own = 0;
        let mut args = Vec::new();
        for param in params {
            args.push(match &param.ty {
                Type::Extern(id, _) => {
                    let name = self.program.externs[*id].name.clone();
                    self.packet(&name, span)
                }
                ty if intrinsic_name(ty).is_some() => self.intrinsic(param),
                ty => {
                    if own == shared.len() {
                        let role = match names[own.min(1)] {
                            "hdr" if is_first => Role::Headers,
                            _ => Role::Local,
                        };
                        let made = self.add_var(names[own.min(1)], ty.clone(), role, param.span);
                        shared.push(made);
                    }
                    own += 1;
                    shared[own - 1].clone()
                }
            });
        }
        args
    }

    /// The variable of intrinsic metadata of the type of a parameter.
    fn intrinsic(&mut self, param: &Param) -> Expr {
        let name = intrinsic_name(&param.ty).unwrap_or_default();
        if let Some(var) = self.tofino().intrinsic.get(&name) {
            return Expr::var(*var, param.ty.clone(), param.span);
        }
        let made = self.add_var(&param.name, param.ty.clone(), Role::Local, param.span);
        if let ExprKind::Var(var) = made.kind {
            self.tofino().intrinsic.insert(name, var);
        }
        made
    }

    fn tofino(&mut self) -> &mut Tofino {
        self.flat.tofino.get_or_insert_default()
    }

    /// The pipeline that was begun last.
    fn pipe_in_work(&mut self) -> &mut Pipe {
        let pipes = &mut self.tofino().pipes;
        if pipes.is_empty() {
            pipes.push(Pipe::default());
        }
        let last = pipes.len() - 1;
        &mut pipes[last]
    }
}

/// The name of a type of intrinsic metadata; none of other types.
fn intrinsic_name(ty: &Type) -> Option<String> {
    let Type::Struct(s) = ty else { return None };
    let marked = s
        .annotations
        .iter()
        .any(|a| a.name.text == "__intrinsic_metadata");
    marked.then(|| s.name.clone())
}

/// Whether an optional argument is there.
fn is_given(arg: &Expr) -> bool {
    !matches!(arg.kind, ExprKind::DontCare)
}

/// Whether a statement calls a method of an object.
fn calls_objects(body: &[FlatStmt]) -> bool {
    body.iter().any(|statement| {
        matches!(
            statement.kind,
            FlatKind::Extern {
                object: Some(_),
                ..
            }
        ) || statement.kind.bodies().any(calls_objects)
    })
}
