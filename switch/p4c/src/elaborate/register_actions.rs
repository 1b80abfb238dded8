//! Register actions of Tofino. A call is replaced by its effect, which packets do not interleave with:
//!
//! ```text
//! x = count.execute(i);   ==>   value = seen.read(i);  <body of apply>;  seen.write(i, value);  x = rv;
//! ```

use super::expressions::default_value;
use super::flat::{FlatKind, Role};
use super::{Elaborator, Env};
use crate::ir::{Call, Expr, ExprKind, Function, Signature};
use crate::source::Span;

/// A register action that is executed.
pub(super) struct RegisterAction<'p> {
    /// The program's `apply` method.
    apply: &'p Function,
    /// The register, as index of the flat program's objects.
    register: usize,
    /// The parameters of the call.
    signature: &'p Signature,
}

impl<'a> Elaborator<'a> {
    /// The register action that a call executes; none if it is another call.
    pub(super) fn stateful_call<'p>(
        &self,
        object: usize,
        signature: &'p Signature,
    ) -> Option<RegisterAction<'p>>
    where
        'a: 'p,
    {
        let made = &self.flat.objects[object];
        let name = made.extern_name.trim_end_matches(char::is_numeric);
        let is_action = matches!(name, "RegisterAction" | "DirectRegisterAction");
        if !is_action || signature.name != "execute" {
            return None;
        }
        let program = self.program;
        let instance = &program.instances[*self.declared.get(&object)?];
        let apply = instance
            .methods
            .iter()
            .find(|m| m.signature.name == "apply")?;
        let register = made.args.iter().find(|(name, _)| name == "reg")?;
        let ExprKind::Instance(register) = register.1.kind else {
            return None;
        };
        Some(RegisterAction {
            apply,
            register,
            signature,
        })
    }

    /// Reads the cell, runs the method on it, writes it back, and passes on the results.
    pub(super) fn execute_register_action(
        &mut self,
        action: &RegisterAction,
        call: &Call,
        env: &Env,
        result: Option<Expr>,
        span: Span,
    ) {
        if !self.may_nest(env, "register actions are nested too deeply", span) {
            return;
        }
        let (index, places) = self.index_and_places(action, call, env);
        let mut inner = env.clone();
        let mut params = action.apply.signature.params.iter();
        let Some(value) = params.next() else { return };
        let cell = self.temp(&value.ty.substitute(&env.types), span);
        inner.vars.insert(value.var, cell.clone());
        let results: Vec<Expr> = params
            .map(|param| {
                let ty = param.ty.substitute(&env.types);
                let made = self.add_var(&param.name, ty.clone(), Role::Local, span);
                let initial = default_value(&ty, span);
                self.push(FlatKind::Assign(made.clone(), initial), span);
                inner.vars.insert(param.var, made.clone());
                made
            })
            .collect();
        let access = |name: &str, args: Vec<Expr>, result| FlatKind::Extern {
            object: Some(action.register),
            name: name.to_owned(),
            type_args: Vec::new(),
            args,
            result,
        };
        self.push(access("read", index.clone(), Some(cell.clone())), span);
        inner.loops = None;
        inner.depth += 1;
        self.inlined(&action.apply.body, inner, None, span);
        self.push(access("write", [index, vec![cell]].concat(), None), span);
        let targets = std::iter::once(result).chain(places);
        for (target, value) in targets.zip(results) {
            if let Some(target) = target {
                self.write(&target, value);
            }
        }
    }

    /// The index of the cell, which direct registers have none of, and the places of further results; none where the
    /// program leaves one out.
    fn index_and_places(
        &mut self,
        action: &RegisterAction,
        call: &Call,
        env: &Env,
    ) -> (Vec<Expr>, Vec<Option<Expr>>) {
        let (mut index, mut places) = (Vec::new(), Vec::new());
        for (param, arg) in action.signature.params.iter().zip(&call.args) {
            let left_out = matches!(arg.kind, ExprKind::DontCare);
            if param.direction.writes() {
                places.push((!left_out).then(|| self.place(arg, env)));
            } else if !left_out {
                let value = self.expr(arg, env);
                index.push(self.settled(value));
            }
        }
        (index, places)
    }
}
