//! Expressions, by precedence climbing.

use super::types::TYPE_WORDS;
use super::{Failed, Parsed, Parser};
use crate::ast::{Arg, BinaryOp, Expr, ExprKind, Ident, Type, UnaryOp};
use crate::diagnostics::Diagnostic;
use crate::lex::Tok;
use crate::source::Span;

/// Binary operators and how tightly they bind. Unlike in C, the bit operators bind tighter than
/// comparisons. `>>` is two tokens and handled apart.
const BINARY: &[(&str, BinaryOp, u8)] = &[
    ("||", BinaryOp::Or, 1),
    ("&&", BinaryOp::And, 2),
    ("==", BinaryOp::Eq, 3),
    ("!=", BinaryOp::Ne, 3),
    ("<=", BinaryOp::Le, 4),
    (">=", BinaryOp::Ge, 4),
    ("<", BinaryOp::Lt, 4),
    (">", BinaryOp::Gt, 4),
    ("|", BinaryOp::BitOr, 5),
    ("^", BinaryOp::BitXor, 6),
    ("&", BinaryOp::BitAnd, 7),
    ("<<", BinaryOp::Shl, 8),
    ("++", BinaryOp::Concat, 9),
    ("+", BinaryOp::Add, 9),
    ("-", BinaryOp::Sub, 9),
    ("|+|", BinaryOp::SatAdd, 9),
    ("|-|", BinaryOp::SatSub, 9),
    ("*", BinaryOp::Mul, 10),
    ("/", BinaryOp::Div, 10),
    ("%", BinaryOp::Mod, 10),
];

const SHIFT_LEVEL: u8 = 8;

/// The most operators or suffixes in a row: a chain of them is a loop here, but recursion in later passes.
const MAX_CHAIN: usize = 500;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let condition = self.binary(1)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let then = self.expr()?;
        self.expect(":")?;
        let otherwise = self.expr()?;
        let span = condition.span.to(otherwise.span);
        let kind = ExprKind::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise));
        Ok(Expr { kind, span })
    }

    /// The operator at the current position, its level, and how many tokens it takes.
    fn binary_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let token = self.peek();
        if token.is(">") && token.joint && self.peek_at(1).is(">") {
            return Some((BinaryOp::Shr, SHIFT_LEVEL, 2));
        }
        // `+:` belongs to a slice.
        if token.is("+") && self.peek_at(1).is(":") {
            return None;
        }
        let (_, op, level) = BINARY.iter().find(|(text, ..)| token.is(text))?;
        Some((*op, *level, 1))
    }

    fn binary(&mut self, lowest: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        let mut links = 0;
        while let Some((op, level, tokens)) = self.binary_operator().filter(|o| o.1 >= lowest) {
            links += 1;
            if links > MAX_CHAIN {
                return self.expected("a shorter expression");
            }
            for _ in 0..tokens {
                self.next();
            }
            let right = self.nested(|p| p.binary(level + 1))?;
            let span = left.span.to(right.span);
            left = Expr {
                kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
                span,
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.peek().span;
        let op = match &self.peek().tok {
            Tok::Punct("!") => UnaryOp::Not,
            Tok::Punct("~") => UnaryOp::Complement,
            Tok::Punct("-") => UnaryOp::Minus,
            Tok::Punct("+") => UnaryOp::Plus,
            Tok::Punct("(") if self.starts_cast() => {
                self.next();
                let ty = self.ty()?;
                self.expect(")")?;
                let operand = self.nested(Self::unary)?;
                return Ok(Expr {
                    span: start.to(operand.span),
                    kind: ExprKind::Cast(Box::new(ty), Box::new(operand)),
                });
            }
            _ => return self.operand(),
        };
        self.next();
        let operand = self.nested(Self::unary)?;
        Ok(Expr {
            span: start.to(operand.span),
            kind: ExprKind::Unary(op, Box::new(operand)),
        })
    }

    /// `(type) ...`: a type word or a known type name right after the parenthesis.
    fn starts_cast(&mut self) -> bool {
        let Tok::Ident(word) = &self.peek_at(1).tok else {
            return false;
        };
        let is_type = TYPE_WORDS.contains(&word.as_str()) || self.type_names.contains(word);
        if !is_type {
            return false;
        }
        // `(error.NoError)` and `(Enum.member)` begin like a cast.
        self.comes(|p| {
            p.next();
            p.ty()?;
            p.expect(")")
        })
    }

    /// A primary expression and its suffixes.
    pub(super) fn operand(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        let mut links = 0;
        loop {
            links += 1;
            if links > MAX_CHAIN {
                return self.expected("a shorter expression");
            }
            let start = expr.span;
            let kind = if self.eat(".") {
                ExprKind::Member(Box::new(expr), self.member_name()?)
            } else if self.eat("[") {
                self.index(expr)?
            } else if self.at("(") {
                let args = self.args()?;
                ExprKind::Call {
                    callee: Box::new(expr),
                    type_args: Vec::new(),
                    args,
                }
            } else if self.at("<")
                && matches!(expr.kind, ExprKind::Name { .. } | ExprKind::Member(..))
                && let Some(type_args) = self.generic_call()
            {
                let args = self.args()?;
                ExprKind::Call {
                    callee: Box::new(expr),
                    type_args,
                    args,
                }
            } else {
                return Ok(expr);
            };
            expr = Expr {
                kind,
                span: start.to(self.last_span()),
            };
        }
    }

    /// `<T, U>` if a `(` follows, otherwise nothing is read: then `<` is a comparison.
    fn generic_call(&mut self) -> Option<Vec<Type>> {
        self.attempt(|p| {
            let args = p.type_args()?;
            match p.at("(") {
                true => Ok(args),
                false => p.expected("`(`"),
            }
        })
    }

    fn index(&mut self, base: Expr) -> Parsed<ExprKind> {
        let first = Box::new(self.expr()?);
        let base = Box::new(base);
        let kind = if self.at("+") && self.peek_at(1).is(":") {
            self.next();
            self.next();
            let width = Box::new(self.expr()?);
            ExprKind::SliceFrom {
                base,
                low: first,
                width,
            }
        } else if self.eat(":") {
            let low = Box::new(self.expr()?);
            ExprKind::Slice {
                base,
                high: first,
                low,
            }
        } else {
            ExprKind::Index(base, first)
        };
        self.expect("]")?;
        Ok(kind)
    }

    /// `(a, name = b, _)`
    pub(super) fn args(&mut self) -> Parsed<Vec<Arg>> {
        self.expect("(")?;
        self.list(")", |p| {
            let named = matches!(p.peek().tok, Tok::Ident(_)) && p.peek_at(1).is("=");
            let name = if named {
                let name = p.ident("an argument name")?;
                p.expect("=")?;
                Some(name)
            } else {
                None
            };
            let value = p.expr()?;
            Ok(Arg { name, value })
        })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek();
        let span = token.span;
        let simple = |kind| Ok(Expr { kind, span });
        match &token.tok {
            Tok::Number {
                value,
                width,
                radix,
            } => {
                self.next();
                simple(ExprKind::Number {
                    value: value.clone(),
                    width: *width,
                    radix: *radix,
                })
            }
            Tok::Str(text) => {
                self.next();
                simple(ExprKind::Str(text.clone()))
            }
            Tok::Punct("(") => {
                self.next();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(Expr {
                    span: span.to(self.last_span()),
                    ..inner
                })
            }
            Tok::Punct("{#") => {
                self.next();
                self.expect("}")?;
                simple(ExprKind::InvalidHeader)
            }
            Tok::Punct("{") => self.braces(),
            Tok::Punct("...") => {
                self.next();
                simple(ExprKind::Dots)
            }
            Tok::Punct(".") => {
                self.next();
                let name = self.ident("a name")?;
                Ok(Expr {
                    span: span.to(name.span),
                    kind: ExprKind::Name { name, global: true },
                })
            }
            Tok::Ident(word) => self.word(word, span),
            _ => self.expected("an expression"),
        }
    }

    fn word(&mut self, word: &str, span: Span) -> Parsed<Expr> {
        let kind = match word {
            "true" | "false" => ExprKind::Bool(word == "true"),
            "_" => ExprKind::DontCare,
            "default" => ExprKind::Default,
            "this" | "error" => ExprKind::Name {
                name: Ident {
                    text: word.to_owned(),
                    span,
                },
                global: false,
            },
            _ if TYPE_WORDS.contains(&word) && (word != "list" || self.peek_at(1).is("<")) => {
                let ty = self.ty()?;
                return Ok(Expr {
                    span: ty.span,
                    kind: ExprKind::Type(Box::new(ty)),
                });
            }
            _ => {
                let name = self.ident("an expression")?;
                return Ok(Expr {
                    kind: ExprKind::Name {
                        name,
                        global: false,
                    },
                    span,
                });
            }
        };
        self.next();
        Ok(Expr { kind, span })
    }

    /// `{ a, b }`, `{ x = a, y = b }`, with an optional `...` at the end.
    fn braces(&mut self) -> Parsed<Expr> {
        let start = self.expect("{")?;
        let mut items = Vec::new();
        let mut fields = Vec::new();
        let mut rest = false;
        while !self.at("}") {
            if rest {
                let message = "`...` stands for the rest, so it comes last";
                self.report(Diagnostic::error("syntax", self.peek().span, message));
            }
            if self.at("...") && (self.peek_at(1).is("}") || self.peek_at(1).is(",")) {
                self.next();
                rest = true;
            } else if matches!(self.peek().tok, Tok::Ident(_)) && self.peek_at(1).is("=") {
                let name = self.ident("a field name")?;
                self.next();
                let value = self.expr()?;
                fields.push((name, value));
            } else {
                items.push(self.expr()?);
            }
            if !self.eat(",") {
                break;
            }
        }
        if !self.at("}") {
            return self.expected("`,` or `}`");
        }
        let span = start.to(self.next().span);
        if !items.is_empty() && !fields.is_empty() {
            let message = "a list either names all its fields or none";
            self.report(Diagnostic::error("syntax", span, message));
            return Err(Failed);
        }
        let kind = if fields.is_empty() {
            ExprKind::List { items, rest }
        } else {
            ExprKind::Record { fields, rest }
        };
        Ok(Expr { kind, span })
    }

    /// One element of a keyset: `1`, `1 &&& 3`, `1 .. 3`, `_`, `default`.
    pub(super) fn key_set(&mut self) -> Parsed<Expr> {
        let low = self.expr()?;
        let wrap: fn(Box<Expr>, Box<Expr>) -> ExprKind = if self.eat("&&&") {
            ExprKind::Mask
        } else if self.eat("..") {
            ExprKind::Range
        } else {
            return Ok(low);
        };
        let high = self.expr()?;
        Ok(Expr {
            span: low.span.to(high.span),
            kind: wrap(Box::new(low), Box::new(high)),
        })
    }

    /// `set` or `(set, set)`
    pub(super) fn key_sets(&mut self) -> Parsed<Vec<Expr>> {
        // `(a, b)` is a tuple of sets; `(a + b)` or `(bit<8>) x` is one expression.
        if self.at("(")
            && let Some(sets) = self.attempt(|p| {
                p.expect("(")?;
                let sets = p.list(")", Self::key_set)?;
                let ends = p.at(":") || p.at(";") || p.at("=");
                if ends { Ok(sets) } else { p.expected("`:`") }
            })
        {
            return Ok(sets);
        }
        Ok(vec![self.key_set()?])
    }
}
