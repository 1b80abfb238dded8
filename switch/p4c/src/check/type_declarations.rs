//! Declarations of types, errors and match kinds.

use std::rc::Rc;

use num_bigint::BigInt;

use super::rules::{distinct_names, field_types, new_types};
use super::{Checker, Entity};
use crate::ast::{self, DeclarationKind as Kind};
use crate::eval;
use crate::names::Places;
use crate::types::{EnumType, FieldType, Fields, NewType, StructKind, StructType, Type};

impl Checker<'_> {
    pub(super) fn type_declaration(&mut self, d: &ast::Declaration) {
        match &d.kind {
            Kind::Struct {
                kind,
                type_params,
                fields,
            } => self.structure(d, *kind, type_params, fields),
            Kind::Enum { members } => {
                let names: Vec<&ast::Ident> = members.iter().collect();
                distinct_names::check(names.iter().copied(), self.diagnostics);
                self.declare_enum(d, &names, None);
            }
            Kind::SerializableEnum {
                underlying,
                members,
            } => {
                let names: Vec<&ast::Ident> = members.iter().map(|(m, _)| m).collect();
                distinct_names::check(names.iter().copied(), self.diagnostics);
                let underlying = self.ty(underlying);
                if !matches!(underlying.stored(), Type::Bits { .. } | Type::Poison) {
                    let message = format!(
                        "an enum is stored as bit<W> or int<W>, not `{}`",
                        self.show(&underlying)
                    );
                    self.error("bad-enum-type", d.span, message);
                    return;
                }
                let values: Vec<BigInt> = members
                    .iter()
                    .map(|(_, value)| self.member_value(value, &underlying))
                    .collect();
                self.declare_enum(d, &names, Some((underlying, values)));
            }
            Kind::Error { members } => {
                self.annotations(&d.annotations);
                let known = &mut self.program.errors;
                distinct_names::add_members(known, members, "error", self.diagnostics);
            }
            Kind::MatchKind { members } => {
                self.annotations(&d.annotations);
                let known = &mut self.match_kinds;
                distinct_names::add_members(known, members, "match kind", self.diagnostics);
            }
            Kind::Typedef(ty) => {
                self.annotations(&d.annotations);
                let ty = self.ty(ty);
                self.declare(&d.name, Entity::Type(ty));
                self.expect_use(&d.name, "type");
            }
            Kind::NewType(ty) => {
                let underlying = self.ty(ty);
                new_types::check(&underlying, d.name.span, &self.program, self.diagnostics);
                let new = NewType {
                    name: d.name.text.clone(),
                    underlying,
                    annotations: self.annotations(&d.annotations),
                };
                self.declare(&d.name, Entity::Type(Type::New(Rc::new(new))));
                self.expect_use(&d.name, "type");
            }
            _ => {}
        }
    }

    fn structure(
        &mut self,
        d: &ast::Declaration,
        kind: StructKind,
        params: &[ast::Ident],
        fields: &[ast::Field],
    ) {
        distinct_names::check(fields.iter().map(|f| &f.name), self.diagnostics);
        let (vars, fields) = self.scoped(|c| {
            let vars = c.type_params(params);
            let fields: Fields = fields
                .iter()
                .map(|f| FieldType {
                    name: f.name.text.clone(),
                    ty: c.ty(&f.ty),
                    annotations: c.annotations(&f.annotations),
                })
                .collect();
            (vars, fields)
        });
        let ty = Rc::new(StructType {
            kind,
            name: d.name.text.clone(),
            args: vars.iter().cloned().map(Type::Var).collect(),
            fields,
            annotations: self.annotations(&d.annotations),
            span: d.name.span,
        });
        let whole = Type::Struct(ty.clone());
        field_types::check(&whole, d.name.span, &self.program, self.diagnostics);
        if !self.diagnostics.check_type_size(&whole, d.name.span) {
            return self.declare(&d.name, Entity::Type(Type::Poison));
        }
        if vars.is_empty() {
            if kind == StructKind::Header {
                self.program.headers.push(ty.clone());
            }
            self.declare(&d.name, Entity::Type(whole));
        } else {
            self.declare(&d.name, Entity::Generic(Rc::new((vars, ty))));
        }
    }

    /// The value of a member of a serializable enum, which its type can hold (P4_16, section 7.2.1); 0 if it has
    /// none.
    fn member_value(&mut self, value: &ast::Expr, underlying: &Type) -> BigInt {
        let value = self.expr(value);
        if let (Type::Int, Type::Bits { width, signed }) = (&value.ty, underlying.stored())
            && let Some(number) = value.as_int()
            && !eval::fits(number, *width, *signed)
        {
            let message = format!("{number} does not fit in `{}`", self.show(underlying));
            self.error("bad-enum-value", value.span, message);
            return BigInt::default();
        }
        let value = self.coerce(value, underlying);
        if value.as_int().is_none() && !value.ty.is_poison() {
            let message = "the value of a member must be known at compile time";
            self.error("not-constant", value.span, message);
        }
        value.as_int().cloned().unwrap_or_default()
    }

    /// An enum, with its type and the value of each member if it is serializable.
    fn declare_enum(
        &mut self,
        d: &ast::Declaration,
        members: &[&ast::Ident],
        underlying: Option<(Type, Vec<BigInt>)>,
    ) {
        let declared = Rc::new(EnumType {
            name: d.name.text.clone(),
            members: members.iter().map(|m| m.text.clone()).collect(),
            places: Places::default(),
            underlying,
            annotations: self.annotations(&d.annotations),
            span: d.name.span,
        });
        self.program.enums.push(declared.clone());
        self.declare(&d.name, Entity::Type(Type::Enum(declared)));
    }
}
