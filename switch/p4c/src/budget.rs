//! How large a program may become while it is compiled.
//!
//! Few lines can ask for a lot: in a chain of types, calls, instances, constants or macros each may
//! double what the one before it made. Whoever makes something whose number the length of the
//! program does not bound pays for it here, before it goes on, and stops where nothing is left. So
//! there is one error, at the place where it became too much, and the work up to there is bounded.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::eval::Value;
use crate::ir::{Expr, ExprKind};
use crate::limits::{MAX_ENTRIES, MAX_TYPE_DEPTH, take};
pub use crate::limits::{
    MAX_INT_BITS, MAX_PARTS, MAX_STRING_BYTES, MAX_TEXT_TOKENS, MAX_TYPE_PARTS,
};
use crate::source::Span;
use crate::types::Type;

/// Bits of a constant that count as one part.
const BITS_A_PART: u64 = 1 << 10;

impl Diagnostics {
    /// Pays for `parts`; `false` if that is more than there is, which has then been reported.
    #[must_use]
    pub fn spend(&self, parts: usize, span: Span) -> bool {
        let (before, after) = take(&self.budget().parts, parts);
        if before.is_some() && after.is_none() {
            self.report(too_large(
                span,
                "the program becomes too large here when its calls, instances and constants are written out",
            ));
        }
        after.is_some()
    }

    /// Pays for tokens that the preprocessor makes; `false` if that is more than there is, which has then been
    /// reported.
    #[must_use]
    pub fn spend_text(&self, tokens: usize, span: Span) -> bool {
        let (before, after) = take(&self.budget().text, tokens);
        if before.is_some() && after.is_none() {
            self.report(too_large(
                span,
                "the program becomes too large here when its macros are replaced and its files included",
            ));
        }
        after.is_some()
    }

    /// Pays for the entries of an instance of a table; `false` if that is more than there is, which has then been
    /// reported.
    #[must_use]
    pub fn spend_entries(&self, entries: usize, span: Span) -> bool {
        let (before, after) = take(&self.budget().entries, entries);
        if before.is_some() && after.is_none() {
            self.report(too_many_entries(span));
        }
        after.is_some()
    }

    /// Whether a table, however many instances it has, may have this many entries; `false` has been reported.
    #[must_use]
    pub fn check_entry_count(&self, entries: usize, span: Span) -> bool {
        let few = entries <= MAX_ENTRIES;
        if !few {
            self.report(too_many_entries(span));
        }
        few
    }

    /// Whether a type is small enough; `false` has been reported.
    #[must_use]
    pub fn check_type_size(&self, ty: &Type, span: Span) -> bool {
        let mut left = MAX_TYPE_PARTS;
        let small = take_type(ty, &mut left, MAX_TYPE_DEPTH);
        if !small {
            let message = format!(
                "this type is too large: more than {MAX_TYPE_PARTS} fields and elements, or {MAX_TYPE_DEPTH} levels"
            );
            self.report(too_large(span, message));
        }
        small
    }
}

/// The error of a program that grows beyond a limit of [`crate::limits`].
pub fn too_large(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error("too-large", span, message)
        .help("does each level make two of the one below? that doubles the program at every level")
}

fn too_many_entries(span: Span) -> Diagnostic {
    let message = format!("with this table the program has more than {MAX_ENTRIES} entries");
    Diagnostic::error("too-large", span, message)
        .help("let the control plane insert them: P4Runtime takes any number")
}

/// How many parts a type has, counted up to [`MAX_TYPE_PARTS`].
pub fn type_parts(ty: &Type) -> usize {
    let mut left = MAX_TYPE_PARTS;
    take_type(ty, &mut left, MAX_TYPE_DEPTH);
    MAX_TYPE_PARTS - left
}

/// Takes the type's parts from `left`; `false`, and nothing left, if there are more or it is too deep.
fn take_type(ty: &Type, left: &mut usize, depth: usize) -> bool {
    let (rest, depth) = match (left.checked_sub(1), depth.checked_sub(1)) {
        (Some(rest), Some(depth)) => (rest, depth),
        _ => {
            *left = 0;
            return false;
        }
    };
    *left = rest;
    let mut all = |types: &mut dyn Iterator<Item = &Type>| {
        let mut fits = true;
        for ty in types {
            fits = fits && take_type(ty, left, depth);
        }
        fits
    };
    match ty {
        Type::Struct(s) => all(&mut s.fields.iter().map(|f| &f.ty)) && all(&mut s.args.iter()),
        Type::Tuple(items) => all(&mut items.iter()),
        Type::Extern(_, args) | Type::Block(_, args) => all(&mut args.iter()),
        Type::List(item) => all(&mut std::iter::once(&**item)),
        Type::New(new) => all(&mut std::iter::once(&new.underlying)),
        Type::Stack(element, size) => {
            let before = *left;
            let fits = take_type(element, left, depth);
            let one = before - *left;
            let others = one.saturating_mul((*size as usize).saturating_sub(1));
            let rest = left.checked_sub(others);
            *left = rest.unwrap_or(0);
            fits && rest.is_some()
        }
        _ => true,
    }
}

/// How many parts it takes to copy an expression, counted up to [`MAX_PARTS`].
pub fn expr_parts(expr: &Expr) -> usize {
    let mut count = 0;
    count_parts(expr, &mut count);
    count
}

fn count_parts(expr: &Expr, count: &mut usize) {
    if *count >= MAX_PARTS {
        return;
    }
    *count += 1;
    match &expr.kind {
        ExprKind::Const(Value::Int(value)) => *count += (value.bits() / BITS_A_PART) as usize,
        ExprKind::Const(Value::Str(text)) => *count += text.len() / (BITS_A_PART / 8) as usize,
        ExprKind::Construct(construct) => {
            construct
                .args
                .iter()
                .for_each(|arg| count_parts(arg, count));
        }
        ExprKind::Call(call) => {
            let parts = call.callee.object().into_iter().chain(&call.args);
            parts.for_each(|part| count_parts(part, count));
        }
        _ => {
            expr.any_operand(|operand| {
                count_parts(operand, count);
                false
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn doubled(levels: usize) -> Type {
        (0..levels).fold(Type::Bool, |ty, _| {
            Type::Tuple(Rc::new(vec![ty.clone(), ty]))
        })
    }

    #[test]
    fn parts_are_counted_up_to_the_limit() {
        assert_eq!(type_parts(&doubled(3)), 15);
        assert_eq!(type_parts(&Type::Stack(Rc::new(doubled(1)), 10)), 31);
        assert_eq!(type_parts(&doubled(60)), MAX_TYPE_PARTS);
        let deep = (0..1000).fold(Type::Bool, |ty, _| Type::Tuple(Rc::new(vec![ty])));
        assert_eq!(type_parts(&deep), MAX_TYPE_PARTS);
    }

    #[test]
    fn what_is_spent_is_reported_once() {
        let diagnostics = Diagnostics::default();
        let span = Span::default();
        assert!(diagnostics.spend(MAX_PARTS, span));
        for _ in 0..3 {
            assert!(!diagnostics.spend(1, span));
        }
        assert_eq!(diagnostics.list().len(), 1);
    }
}
