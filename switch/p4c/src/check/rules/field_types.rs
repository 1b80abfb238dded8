//! Which types headers, unions and structs may hold (P4_16, section 7.2.2).

use crate::diagnostics::Diagnostics;
use crate::ir::Program;
use crate::source::Span;
use crate::types::{StructKind, Type};

pub fn check(ty: &Type, span: Span, program: &Program, diagnostics: &Diagnostics) {
    let Type::Struct(s) = ty else { return };
    for field in &s.fields {
        let allowed = match s.kind {
            StructKind::Header => match field.ty.stored() {
                Type::Bits { .. } | Type::Bool | Type::Varbit(_) | Type::Poison | Type::Var(_) => {
                    true
                }
                Type::Struct(inner) => inner.kind == StructKind::Struct,
                _ => false,
            },
            StructKind::Union => {
                field.ty.is_header() || matches!(field.ty, Type::Poison | Type::Var(_))
            }
            StructKind::Struct => !matches!(
                field.ty,
                Type::Void | Type::MatchKind | Type::Extern(..) | Type::Block(..) | Type::DontCare
            ),
        };
        if !allowed {
            let kind = s.kind.keyword();
            let message = format!(
                "field `{}` of {kind} `{}` cannot have type `{}`",
                field.name,
                s.name,
                program.type_name(&field.ty)
            );
            diagnostics.error("bad-field-type", span, message);
        }
    }
}
