//! Which parameters may have a direction, and which a default value.

use crate::ast::Direction;
use crate::diagnostics::Diagnostics;
use crate::ir::{Param, Program};
use crate::types::Type;

pub fn check(param: &Param, program: &Program, diagnostics: &Diagnostics) {
    // The argument of an `out` or `inout` parameter is written to, so it has to be given.
    if param.default.is_some() && param.direction.writes() {
        let message = format!(
            "parameter `{}` is written, so it has no default value",
            param.name
        );
        diagnostics.error("bad-default", param.span, message);
    }
    // Only values of run time are passed with a direction: no objects, and nothing that exists at compile time only.
    if param.direction != Direction::None
        && matches!(
            param.ty,
            Type::Extern(..) | Type::Block(..) | Type::String | Type::Int
        )
    {
        let message = format!(
            "a parameter of type `{}` has no direction",
            program.type_name(&param.ty)
        );
        let help = "leave `in`, `out` or `inout` out";
        diagnostics.error_with_help("bad-parameter-type", param.span, message, help);
    }
}
