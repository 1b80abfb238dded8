//! `type` makes a new type of a number, a bool or another `type`.

use crate::diagnostics::Diagnostics;
use crate::ir::Program;
use crate::source::Span;
use crate::types::Type;

pub fn check(underlying: &Type, span: Span, program: &Program, diagnostics: &Diagnostics) {
    let fits = match underlying {
        Type::Poison | Type::Bits { .. } | Type::Bool | Type::New(_) => true,
        Type::Enum(e) => e.underlying.is_some(),
        _ => false,
    };
    if !fits {
        let message = format!("`type` cannot rename a `{}`", program.type_name(underlying));
        let help = "it makes a type of its own of bit<W>, int<W>, bool; use `typedef`";
        diagnostics.error_with_help("bad-new-type", span, message, help);
    }
}
