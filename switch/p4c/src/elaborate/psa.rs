//! The Portable Switch Architecture: two parsers, controls and deparsers, and metadata that deparsers send to parsers.

use super::flat::{FlatControl, Pipe, Psa, Role};
use super::{Elaborator, Env};
use crate::ir::{Construct, Expr, ExprKind, Param, Program};
use crate::source::Span;
use crate::types::Type;

/// Storage of parameters of blocks, in their order. Those whose type is of the architecture are known by the type.
const INGRESS_PARSER: &[&str] = &[
    "",
    "hdr",
    "user_meta",
    "",
    "resubmit_meta",
    "recirculate_meta",
];
const INGRESS: &[&str] = &["hdr", "user_meta", "", ""];
const INGRESS_DEPARSER: &[&str] = &[
    "",
    "clone_i2e_meta",
    "resubmit_meta",
    "normal_meta",
    "hdr",
    "user_meta",
    "",
];
const EGRESS_PARSER: &[&str] = &[
    "",
    "egress_hdr",
    "egress_user_meta",
    "",
    "normal_meta",
    "clone_i2e_meta",
    "clone_e2e_meta",
];
const EGRESS: &[&str] = &["egress_hdr", "egress_user_meta", "", ""];
const EGRESS_DEPARSER: &[&str] = &[
    "",
    "clone_e2e_meta",
    "recirculate_meta",
    "egress_hdr",
    "egress_user_meta",
    "",
    "",
];
/// Storage that outlives the pass of a packet.
const CARRIED: &[&str] = &[
    "normal_meta",
    "clone_i2e_meta",
    "clone_e2e_meta",
    "resubmit_meta",
    "recirculate_meta",
];

impl Elaborator<'_> {
    /// The blocks of both pipelines of `PSA_Switch`.
    pub(super) fn psa(&mut self, args: &[Expr], span: Span) -> Option<()> {
        let program = self.program;
        let [ingress, _, egress, _] = args else {
            return None;
        };
        let [ingress_parser, ingress, ingress_deparser] =
            &Self::package(program, ingress)?.args[..]
        else {
            return None;
        };
        let [egress_parser, egress, egress_deparser] = &Self::package(program, egress)?.args[..]
        else {
            return None;
        };
        self.flat.psa = Some(Psa::default());
        let mut storage = Vec::new();
        let pipe = Pipe {
            name: String::new(),
            ingress_parser: {
                self.psa_parser(ingress_parser, INGRESS_PARSER, &mut storage, span)?;
                std::mem::take(&mut self.flat.parser)
            },
            ingress: self.psa_control(ingress, INGRESS, &mut storage, span)?,
            ingress_deparser: self.psa_control(
                ingress_deparser,
                INGRESS_DEPARSER,
                &mut storage,
                span,
            )?,
            egress_parser: {
                self.psa_parser(egress_parser, EGRESS_PARSER, &mut storage, span)?;
                std::mem::take(&mut self.flat.parser)
            },
            egress: self.psa_control(egress, EGRESS, &mut storage, span)?,
            egress_deparser: self.psa_control(
                egress_deparser,
                EGRESS_DEPARSER,
                &mut storage,
                span,
            )?,
            ghost: None,
        };
        let carried = storage.iter().filter(|(name, _)| CARRIED.contains(name));
        let carried = carried.filter_map(|(name, place)| match place.kind {
            ExprKind::Var(var) => Some((*name, var)),
            _ => None,
        });
        let psa = self.flat.psa.get_or_insert_default();
        psa.carried = carried.collect();
        psa.pipe = pipe;
        Some(())
    }

    /// The package that an argument of `main` is.
    fn package<'p>(program: &'p Program, arg: &'p Expr) -> Option<&'p Construct> {
        match &arg.kind {
            ExprKind::Construct(made) => Some(made),
            ExprKind::Instance(id) => Some(&program.instances[*id].construct),
            _ => None,
        }
    }

    fn psa_parser(
        &mut self,
        arg: &Expr,
        names: &[&'static str],
        storage: &mut Storage,
        span: Span,
    ) -> Option<()> {
        let unit = self.top_unit(arg, &Env::default())?;
        let params = &self.program.block(unit.what)?.params;
        let args = self.psa_arguments(params, names, storage, span)?;
        self.top_parser(&unit, &args);
        Some(())
    }

    fn psa_control(
        &mut self,
        arg: &Expr,
        names: &[&'static str],
        storage: &mut Storage,
        span: Span,
    ) -> Option<FlatControl> {
        let unit = self.top_unit(arg, &Env::default())?;
        let params = &self.program.block(unit.what)?.params;
        let args = self.psa_arguments(params, names, storage, span)?;
        Some(self.top_control(&unit, &args))
    }

    /// Storage for the parameters of a block.
    fn psa_arguments(
        &mut self,
        params: &[Param],
        names: &[&'static str],
        storage: &mut Storage,
        span: Span,
    ) -> Option<Vec<Expr>> {
        if params.len() != names.len() {
            return None;
        }
        let mut args = Vec::new();
        for (param, name) in params.iter().zip(names) {
            args.push(match (&param.ty, *name) {
                (Type::Extern(id, _), "") => {
                    let name = self.program.externs[*id].name.clone();
                    self.packet(&name, span)
                }
                (Type::Struct(of), "") => self.standard(&of.name.clone(), param),
                (_, "") => return None,
                (ty, name) => match storage.iter().find(|(of, _)| *of == name) {
                    Some((_, place)) => place.clone(),
                    None => {
                        let role = if name == "hdr" {
                            Role::Headers
                        } else {
                            Role::Local
                        };
                        let made = self.add_var(name, ty.clone(), role, param.span);
                        storage.push((name, made.clone()));
                        made
                    }
                },
            });
        }
        Some(args)
    }

    /// The variable of the architecture's metadata of this type.
    fn standard(&mut self, name: &str, param: &Param) -> Expr {
        let known = self.flat.psa.get_or_insert_default().standard.get(name);
        if let Some(var) = known {
            return Expr::var(*var, param.ty.clone(), param.span);
        }
        let made = self.add_var(name, param.ty.clone(), Role::Local, param.span);
        if let ExprKind::Var(var) = made.kind {
            let psa = self.flat.psa.get_or_insert_default();
            psa.standard.insert(name.to_owned(), var);
        }
        made
    }
}

/// The places of parameters so far, by name.
type Storage = Vec<(&'static str, Expr)>;
