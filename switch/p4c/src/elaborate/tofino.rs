//! A pipeline of Tofino: what the control plane sees of its blocks. Their parsers are instantiated only.

use std::rc::Rc;

use super::flat::Role;
use super::{Elaborator, Env, Unit};
use crate::ir::{Constructed, Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

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
        for block in pipe.args.iter().filter(|block| is_given(block)) {
            let unit = self.top_unit(block, &Env::default())?;
            self.stage(&unit, span);
        }
        Some(())
    }

    /// A control, with storage of its own for each parameter.
    fn stage(&mut self, unit: &Rc<Unit>, span: Span) {
        let Constructed::Control(id) = unit.what else {
            return;
        };
        let mut args = Vec::new();
        for param in &self.program.controls[id].block.params {
            args.push(match param.ty {
                Type::Extern(..) => self.packet("packet_out", span),
                _ => self.add_var(&param.name, param.ty.clone(), Role::Local, param.span),
            });
        }
        self.top_control(unit, &args);
    }
}

/// Whether an optional argument is there.
fn is_given(arg: &Expr) -> bool {
    !matches!(arg.kind, ExprKind::DontCare)
}
