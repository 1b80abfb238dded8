//! Places that can be written: left sides of assignments, and arguments of `out` and `inout` parameters (P4_16,
//! section 6.6).

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Expr, ExprKind, Program};

/// Whether the expression can be written to; what cannot has been reported.
pub fn check(expr: &Expr, program: &Program, diagnostics: &Diagnostics) -> bool {
    let writable = match &expr.kind {
        ExprKind::Poison | ExprKind::DontCare => true,
        ExprKind::Var(id) => {
            let var = &program.vars[*id];
            if !var.writable {
                let message = format!("`{}` cannot be written", var.name);
                diagnostics.report(
                    Diagnostic::error("not-writable", expr.span, message)
                        .note(var.span, "declared here as a constant or `in` parameter")
                        .help("declare the parameter `inout`, or use a local variable"),
                );
            }
            return var.writable;
        }
        ExprKind::Slice { base, .. } if matches!(base.kind, ExprKind::Binary(..)) => {
            let message = "a slice that starts at run time can only be assigned to";
            let help = "give a variable here, and assign that to the slice";
            diagnostics.error_with_help("not-writable", expr.span, message, help);
            return false;
        }
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::Slice { base, .. }
        | ExprKind::StackNext(base)
        | ExprKind::StackLast(base) => return check(base, program, diagnostics),
        _ => false,
    };
    if !writable {
        diagnostics.report(
            Diagnostic::error(
                "not-writable",
                expr.span,
                "this is a value, not a place to write to",
            )
            .label("not a variable, parameter or field"),
        );
    }
    writable
}
