//! Types as written to [`Type`].

use std::rc::Rc;

use num_traits::ToPrimitive;

use super::rules::field_types;
use super::{Checker, Entity};
use crate::ast::{self, TypeKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::types::{self, Type};

/// The greatest width in bits. Wider fields exist in no protocol, and would only exhaust memory.
const MAX_WIDTH: u32 = 1 << 16;
const MAX_STACK: u32 = 1 << 12;

impl Checker<'_> {
    pub(super) fn ty(&mut self, ty: &ast::Type) -> Type {
        let found = self.written_type(ty);
        match &ty.kind {
            // A name stands for a type whose size was checked where it was declared.
            TypeKind::Name { args, .. } if args.is_empty() => found,
            _ => self.affordable(found, ty.span),
        }
    }

    /// The type, or poison if it is too large.
    pub(super) fn affordable(&self, ty: Type, span: Span) -> Type {
        match self.diagnostics.check_type_size(&ty, span) {
            true => ty,
            false => Type::Poison,
        }
    }

    fn written_type(&mut self, ty: &ast::Type) -> Type {
        match &ty.kind {
            TypeKind::Void => Type::Void,
            TypeKind::Bool => Type::Bool,
            TypeKind::Int => Type::Int,
            TypeKind::Error => Type::Error,
            TypeKind::MatchKind => Type::MatchKind,
            TypeKind::String => Type::String,
            TypeKind::DontCare => Type::DontCare,
            TypeKind::Bits { signed, width } => match self.size(width, MAX_WIDTH, "width") {
                Some(0) if *signed => {
                    self.error("bad-width", ty.span, "int<0> has no sign bit");
                    Type::Poison
                }
                Some(width) => Type::Bits {
                    width,
                    signed: *signed,
                },
                None => Type::Poison,
            },
            TypeKind::Varbit(width) => self
                .size(width, MAX_WIDTH * 8, "width")
                .map_or(Type::Poison, Type::Varbit),
            TypeKind::Stack { element, size } => {
                let element = self.ty(element);
                let size = self.size(size, MAX_STACK, "size");
                let allowed = element.is_header() || element.is_union() || element.is_poison();
                if !allowed {
                    let message = format!("arrays hold headers, not `{}`", self.show(&element));
                    let diagnostic = Diagnostic::error("bad-stack", ty.span, message);
                    self.report(match (&element, size) {
                        (Type::Bits { width: 1, .. }, Some(size)) => {
                            diagnostic.help(format!("a number of {size} bits is a `bit<{size}>`"))
                        }
                        _ => diagnostic,
                    });
                    return Type::Poison;
                }
                match size {
                    Some(size) => Type::Stack(Rc::new(element), size),
                    None => Type::Poison,
                }
            }
            TypeKind::Tuple(items) => {
                Type::Tuple(Rc::new(items.iter().map(|t| self.ty(t)).collect()))
            }
            TypeKind::List(item) => Type::List(Rc::new(self.ty(item))),
            TypeKind::Name { name, args, global } => {
                let args: Vec<Type> = args.iter().map(|t| self.ty(t)).collect();
                match self.resolve(name, *global, "type") {
                    Some(entity) => self.named_type(&entity, &name.text, args, ty.span),
                    None => Type::Poison,
                }
            }
        }
    }

    pub(super) fn named_type(
        &mut self,
        entity: &Entity,
        name: &str,
        args: Vec<Type>,
        span: Span,
    ) -> Type {
        let expected = match entity {
            Entity::Generic(generic) => generic.0.len(),
            Entity::Extern(id) => self.program.externs[*id].type_params.len(),
            Entity::Block(id) => self.program.blocks[*id].signature.type_params.len(),
            _ => 0,
        };
        // Leaving the arguments out asks for inference, which instances of externs and packages have.
        let inferred = args.is_empty() && matches!(entity, Entity::Extern(_) | Entity::Block(_));
        if args.len() != expected && !inferred {
            let message = format!(
                "`{name}` takes {expected} type arguments, {} given",
                args.len()
            );
            self.error("type-argument-count", span, message);
            return Type::Poison;
        }
        match entity {
            Entity::Type(ty) => ty.clone(),
            Entity::Generic(generic) => {
                let (params, template) = &**generic;
                let map = types::bind(params, args);
                let ty = Type::Struct(template.clone()).substitute(&map);
                field_types::check(&ty, span, &self.program, self.diagnostics);
                ty
            }
            Entity::Extern(id) => Type::Extern(*id, args),
            Entity::Block(id) | Entity::Control(_, id) | Entity::Parser(_, id) => {
                Type::Block(*id, args)
            }
            other => {
                let message = format!("`{name}` is {}, not a type", other.kind());
                self.error("not-a-type", span, message);
                Type::Poison
            }
        }
    }

    /// A constant between 0 and `max` that gives a width or size.
    pub(super) fn size(&mut self, expr: &ast::Expr, max: u32, what: &str) -> Option<u32> {
        let value = self.constant_int(expr)?;
        let size = value.to_u32().filter(|v| *v <= max);
        if size.is_none() {
            let message = format!("the {what} {value} is not between 0 and {max}");
            self.error("bad-width", expr.span, message);
        }
        size
    }

    /// An integer known at compile time.
    pub(super) fn constant_int(&mut self, expr: &ast::Expr) -> Option<num_bigint::BigInt> {
        let checked = self.expr(expr);
        if checked.ty.is_poison() {
            return None;
        }
        let value = checked.as_int().cloned();
        if value.is_none() {
            let message = "an integer known at compile time is needed here";
            self.error("not-constant", expr.span, message);
        }
        value
    }
}
