//! `extract` fills headers, its form with two arguments those with a varbit; `lookahead` reads anything of fixed size
//! (P4_16, sections 13.8.1 to 13.8.3). `emit` takes headers and what is made of them (section 16.1).

use crate::diagnostics::Diagnostics;
use crate::ir::{Call, Callee, Expr, Program};
use crate::source::Span;
use crate::types::{StructKind, Type};

/// `name` is that of the function or method that is called.
pub fn check(call: &Call, name: &str, span: Span, program: &Program, diagnostics: &Diagnostics) {
    let Callee::Method { extern_type, .. } = &call.callee else {
        return;
    };
    let packet = program.externs[*extern_type].name.as_str();
    match (packet, name, &call.args[..]) {
        ("packet_out", "emit", [headers]) if !headers.ty.is_of_headers() => {
            let message = format!(
                "only headers are emitted, and stacks, unions, structs and lists of them, not `{}`",
                program.type_name(&headers.ty)
            );
            let help = "put the value into a field of a header, and emit that";
            diagnostics.error_with_help("bad-emit", headers.span, message, help);
        }
        ("packet_in", "extract", [header, ..]) => {
            check_extract(header, call.args.len() > 1, program, diagnostics)
        }
        ("packet_in", "lookahead", _) => {
            let wanted = call.type_args.first();
            if let Some(ty) = wanted.filter(|ty| !has_fixed_size(ty)) {
                let message = format!(
                    "`{}` has no fixed size to look ahead for",
                    program.type_name(ty)
                );
                diagnostics.error("bad-extract", span, message);
            }
        }
        _ => {}
    }
}

fn check_extract(header: &Expr, with_size: bool, program: &Program, diagnostics: &Diagnostics) {
    let Type::Struct(ty) = header.ty.stored() else {
        if !matches!(header.ty, Type::Poison | Type::DontCare | Type::Var(_)) {
            let message = format!(
                "only headers are extracted, not `{}`",
                program.type_name(&header.ty)
            );
            diagnostics.error("bad-extract", header.span, message);
        }
        return;
    };
    if ty.kind != StructKind::Header {
        let message = format!(
            "only headers are extracted, not `{}`",
            program.type_name(&header.ty)
        );
        let help = "extract its headers one by one";
        diagnostics.error_with_help("bad-extract", header.span, message, help);
        return;
    }
    let varbits = ty.fields.iter().filter(|f| is_varbit(&f.ty)).count();
    if varbits > 1 {
        let message = format!("header `{}` has {varbits} varbit fields", ty.name);
        let help = "one length is given, so there may be one such field";
        diagnostics.error_with_help("bad-extract", header.span, message, help);
        return;
    }
    let has_varbit = varbits > 0;
    if has_varbit != with_size {
        let (problem, help) = match with_size {
            true => ("has no varbit field", "leave the second argument out"),
            false => (
                "has a varbit field",
                "give its length in bits as a second argument",
            ),
        };
        let message = format!("header `{}` {problem}", ty.name);
        diagnostics.error_with_help("bad-extract", header.span, message, help);
    }
}

/// Whether values of a type always have the same size in a packet. A type parameter is taken to have one here, and
/// checked where its type is known.
fn has_fixed_size(ty: &Type) -> bool {
    match ty.stored() {
        Type::Poison | Type::Var(_) => true,
        Type::Struct(s) if s.kind == StructKind::Union => false,
        Type::Struct(s) => s.fields.iter().all(|f| has_fixed_size(&f.ty)),
        Type::Tuple(items) => items.iter().all(has_fixed_size),
        Type::Stack(element, _) => has_fixed_size(element),
        // Enums and errors without representation have no bits that a packet could hold.
        ty => matches!(ty, Type::Bool | Type::Bits { .. }),
    }
}

fn is_varbit(ty: &Type) -> bool {
    matches!(ty.stored(), Type::Varbit(_))
}
