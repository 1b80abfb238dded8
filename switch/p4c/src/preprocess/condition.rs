//! The integer expressions of `#if`.

use num_traits::ToPrimitive;

use crate::lex::{Tok, Token};
use crate::source::Span;

pub struct Problem {
    pub span: Option<Span>,
    pub message: String,
}

/// Expressions nested deeper than this are refused rather than risking the stack.
const MAX_DEPTH: usize = 200;

pub fn evaluate(tokens: &[Token]) -> Result<bool, Problem> {
    let mut parser = Parser {
        tokens,
        pos: 0,
        depth: 0,
    };
    let value = parser.binary(0)?;
    match parser.peek() {
        None => Ok(value != 0),
        Some(token) => Err(parser.problem(format!("{} is not expected here", token.describe()))),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    pos: usize,
    depth: usize,
}

/// Binary operators by precedence, loosest first. `>>` and `>=` come as they are lexed.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.pos)
    }

    fn problem(&self, message: String) -> Problem {
        let span = self.peek().or(self.tokens.last()).map(|t| t.span);
        Problem { span, message }
    }

    fn binary(&mut self, level: usize) -> Result<i64, Problem> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(op) = self
            .peek()
            .and_then(|t| operators.iter().find(|o| t.is(o)))
            .copied()
        {
            self.pos += 1;
            let right = self.binary(level + 1)?;
            left = match op {
                "||" => i64::from(left != 0 || right != 0),
                "&&" => i64::from(left != 0 && right != 0),
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<=" => i64::from(left <= right),
                ">=" => i64::from(left >= right),
                "<" => i64::from(left < right),
                ">" => i64::from(left > right),
                "<<" => u32::try_from(right)
                    .ok()
                    .and_then(|r| left.checked_shl(r))
                    .unwrap_or(0),
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                "*" => left.wrapping_mul(right),
                _ => {
                    let result = if op == "/" {
                        left.checked_div(right)
                    } else {
                        left.checked_rem(right)
                    };
                    result.ok_or_else(|| self.problem("division by zero in `#if`".into()))?
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.problem("the `#if` expression is nested too deeply".into()));
        }
        let value = self.operand();
        self.depth -= 1;
        value
    }

    fn operand(&mut self) -> Result<i64, Problem> {
        let Some(token) = self.peek().cloned() else {
            return Err(self.problem("the `#if` expression ends too early".into()));
        };
        self.pos += 1;
        match &token.tok {
            Tok::Number { value, .. } => value
                .to_i64()
                .ok_or_else(|| self.problem(format!("{value} is too large for `#if`"))),
            // What is still a name after expansion counts as 0, as in C.
            Tok::Ident(name) => Ok(i64::from(name == "true")),
            Tok::Punct("!") => Ok(i64::from(self.unary()? == 0)),
            Tok::Punct("-") => Ok(self.unary()?.wrapping_neg()),
            Tok::Punct("+") => self.unary(),
            Tok::Punct("~") => Ok(!self.unary()?),
            Tok::Punct("(") => {
                let value = self.binary(0)?;
                if !self.peek().is_some_and(|t| t.is(")")) {
                    return Err(self.problem("`)` is missing in the `#if` expression".into()));
                }
                self.pos += 1;
                Ok(value)
            }
            _ => {
                self.pos -= 1;
                Err(self.problem(format!("{} is not expected in `#if`", token.describe())))
            }
        }
    }
}
