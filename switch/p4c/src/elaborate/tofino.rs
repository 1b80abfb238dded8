//! A pipeline of Tofino: its six blocks and the ghost thread, which share intrinsic metadata by type.

use std::rc::Rc;

use super::flat::{Role, Tofino};
use super::{Elaborator, Env, Unit};
use crate::ir::{Constructed, Expr, ExprKind, Param};
use crate::source::Span;
use crate::types::Type;

/// Names of the headers and metadata of a gress, in the order of the parameters.
type Names = [&'static str; 2];
const INGRESS: Names = ["hdr", "ingress_metadata"];
const EGRESS: Names = ["egress_hdr", "egress_metadata"];

impl Elaborator<'_> {
    /// The blocks of the pipeline that `Switch` has, in their order.
    pub(super) fn pipeline(&mut self, pipes: &[Expr], span: Span) -> Option<()> {
        let (first, others) = pipes.split_first()?;
        if let Some(second) = others.iter().find(|pipe| is_given(pipe)) {
            let message = "several pipelines are checked, but nothing is written for them";
            let help = "instantiate `Switch` with one of them";
            self.error_with_help("unsupported-architecture", second.span, message, help);
            return None;
        }
        let (name, pipe) = match &first.kind {
            ExprKind::Construct(pipe) => ("pipe", &**pipe),
            ExprKind::Instance(id) => {
                let instance = &self.program.instances[*id];
                (&instance.name[..], &instance.construct)
            }
            _ => return None,
        };
        self.flat.pipe = Some(name.to_owned());
        self.flat.tofino = Some(Tofino::default());
        let mut shared = [Vec::new(), Vec::new()];
        for (index, block) in pipe.args.iter().enumerate().filter(|(_, b)| is_given(b)) {
            let unit = self.top_unit(block, &Env::default())?;
            let gress = usize::from(index >= 3);
            self.block_of_pipeline(index, &unit, &mut shared[gress], span);
        }
        Some(())
    }

    /// Elaborates the block with this index among the arguments of the pipeline. `shared` is the storage of headers and
    /// metadata of its gress, so far.
    fn block_of_pipeline(
        &mut self,
        index: usize,
        unit: &Rc<Unit>,
        shared: &mut Vec<Expr>,
        span: Span,
    ) {
        let Some(block) = self.program.block(unit.what) else {
            return;
        };
        let names = if index < 3 { INGRESS } else { EGRESS };
        let args = self.arguments_of_block(&block.params, names, shared, span);
        if matches!(unit.what, Constructed::Parser(_)) {
            let before = std::mem::take(&mut self.flat.parser);
            self.top_parser(unit, &args);
            if index == 3 {
                let made = std::mem::replace(&mut self.flat.parser, before);
                self.tofino().egress_parser = made;
            }
            return;
        }
        let control = self.top_control(unit, &args);
        match index {
            1 => self.flat.ingress = control,
            2 => self.tofino().ingress_deparser = control,
            4 => self.flat.egress = control,
            5 => self.flat.deparser = control,
            _ => self.tofino().ghost = Some(control),
        }
    }

    /// Storage for the parameters of a block: intrinsic metadata is one variable for each type, the first two others
    /// are headers and metadata.
    fn arguments_of_block(
        &mut self,
        params: &[Param],
        names: Names,
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
                            "hdr" => Role::Headers,
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
