//! The types of an action's parameters, and their order: those that the control plane fills come last (P4_16,
//! section 14.1).

use crate::ast::Direction;
use crate::diagnostics::Diagnostics;
use crate::ir::{Param, Program};
use crate::types::Type;

pub fn check(params: &[Param], program: &Program, diagnostics: &Diagnostics) {
    let mut seen_data = false;
    for param in params {
        check_type(param, program, diagnostics);
        if seen_data && param.direction != Direction::None {
            let message = format!(
                "parameter `{}` with a direction follows one without",
                param.name
            );
            let help = "parameters filled by the control plane come last";
            diagnostics.error_with_help("parameter-order", param.span, message, help);
        }
        seen_data |= param.direction == Direction::None;
    }
}

fn check_type(param: &Param, program: &Program, diagnostics: &Diagnostics) {
    if matches!(
        param.ty,
        Type::Int | Type::String | Type::Extern(..) | Type::Block(..) | Type::MatchKind
    ) {
        let message = format!(
            "an action has no parameter of type `{}`",
            program.type_name(&param.ty)
        );
        diagnostics.error("bad-parameter-type", param.span, message);
    }
}
