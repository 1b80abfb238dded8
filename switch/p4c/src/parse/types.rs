//! Types and parameters.

use super::{Parsed, Parser};
use crate::ast::{Direction, Expr, ExprKind, Ident, Param, Type, TypeKind};
use crate::lex::Tok;

/// Words that can only begin a type.
pub(super) const TYPE_WORDS: &[&str] = &[
    "bit",
    "bool",
    "int",
    "varbit",
    "error",
    "match_kind",
    "string",
    "tuple",
    "void",
    "list",
];

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        self.nested(Self::ty_inner)
    }

    fn ty_inner(&mut self) -> Parsed<Type> {
        let start = self.peek().span;
        let word = match &self.peek().tok {
            Tok::Ident(word) => word.as_str(),
            Tok::Punct(".") => "",
            _ => return self.expected("a type"),
        };
        let kind = match word {
            "bool" | "error" | "match_kind" | "string" | "void" | "_" => {
                self.next();
                match word {
                    "bool" => TypeKind::Bool,
                    "error" => TypeKind::Error,
                    "match_kind" => TypeKind::MatchKind,
                    "string" => TypeKind::String,
                    "void" => TypeKind::Void,
                    _ => TypeKind::DontCare,
                }
            }
            "bit" | "int" => {
                self.next();
                let signed = word == "int";
                match (self.at("<"), signed) {
                    (true, _) => TypeKind::Bits {
                        signed,
                        width: Box::new(self.width()?),
                    },
                    (false, true) => TypeKind::Int,
                    (false, false) => TypeKind::Bits {
                        signed,
                        width: Box::new(Expr {
                            kind: ExprKind::Number {
                                value: 1.into(),
                                width: None,
                                radix: 10,
                            },
                            span: start,
                        }),
                    },
                }
            }
            "varbit" => {
                self.next();
                TypeKind::Varbit(Box::new(self.width()?))
            }
            "tuple" => {
                self.next();
                TypeKind::Tuple(self.type_args()?)
            }
            "list" if self.peek_at(1).is("<") => {
                self.next();
                match self.type_args()?.pop() {
                    Some(element) => TypeKind::List(Box::new(element)),
                    None => return self.expected("an element type"),
                }
            }
            _ => {
                let global = self.eat(".");
                let name = self.ident("a type")?;
                let args = match self.at("<") {
                    true => self.type_args()?,
                    false => Vec::new(),
                };
                TypeKind::Name { name, args, global }
            }
        };
        let span = start.to(self.last_span());
        self.stacks_of(Type { kind, span })
    }

    /// `[size]` as often as it follows: a stack of `element`.
    pub(super) fn stacks_of(&mut self, element: Type) -> Parsed<Type> {
        let mut ty = element;
        while self.eat("[") {
            let size = Box::new(self.expr()?);
            self.expect("]")?;
            ty = Type {
                span: ty.span.to(self.last_span()),
                kind: TypeKind::Stack {
                    element: Box::new(ty),
                    size,
                },
            };
        }
        Ok(ty)
    }

    /// `T name`. p4c's extension `T name[4]` is `T[4] name`.
    pub(super) fn typed_name(&mut self, what: &str) -> Parsed<(Type, Ident)> {
        let ty = self.ty()?;
        let name = self.ident(what)?;
        Ok((self.stacks_of(ty)?, name))
    }

    /// `<8>` or `<(A + 1)>`
    fn width(&mut self) -> Parsed<Expr> {
        self.expect("<")?;
        let width = if self.eat("(") {
            let inner = self.expr()?;
            self.expect(")")?;
            inner
        } else {
            self.operand()?
        };
        self.expect(">")?;
        Ok(width)
    }

    /// `<T, U>`, also the empty list.
    pub(super) fn type_args(&mut self) -> Parsed<Vec<Type>> {
        self.expect("<")?;
        self.list(">", Self::ty)
    }

    /// `<T, U>` of a declaration, if it is there. The names are types from here on.
    pub(super) fn type_params(&mut self) -> Parsed<Vec<Ident>> {
        if !self.eat("<") {
            return Ok(Vec::new());
        }
        let params = self.list(">", |p| p.ident("a type parameter"))?;
        self.type_names
            .extend(params.iter().map(|p| p.text.clone()));
        Ok(params)
    }

    /// `(params)`
    pub(super) fn params(&mut self) -> Parsed<Vec<Param>> {
        self.expect("(")?;
        self.list(")", Self::param)
    }

    fn param(&mut self) -> Parsed<Param> {
        let annotations = self.annotations()?;
        let direction = if self.eat_word("in") {
            Direction::In
        } else if self.eat_word("out") {
            Direction::Out
        } else if self.eat_word("inout") {
            Direction::InOut
        } else {
            Direction::None
        };
        let (ty, name) = self.typed_name("a parameter name")?;
        let default = self.behind("=", Self::expr)?;
        Ok(Param {
            annotations,
            direction,
            ty,
            name,
            default,
        })
    }
}
