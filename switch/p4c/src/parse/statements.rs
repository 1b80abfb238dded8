//! Statements.

use super::{Failed, Parsed, Parser};
use crate::ast::{
    Annotation, BinaryOp, Declaration, Expr, ExprKind, Statement, StatementKind, SwitchCase,
};
use crate::diagnostics::Diagnostic;
use crate::lex::Tok;
use crate::source::Span;

/// The most `else if` of one `if`, since the stages behind the parser recurse into each `else`.
const MAX_ELSE_IFS: usize = 1000;

const ASSIGNMENTS: &[(&str, BinaryOp)] = &[
    ("+=", BinaryOp::Add),
    ("-=", BinaryOp::Sub),
    ("*=", BinaryOp::Mul),
    ("/=", BinaryOp::Div),
    ("%=", BinaryOp::Mod),
    ("&=", BinaryOp::BitAnd),
    ("|=", BinaryOp::BitOr),
    ("^=", BinaryOp::BitXor),
    ("<<=", BinaryOp::Shl),
    ("|+|=", BinaryOp::SatAdd),
    ("|-|=", BinaryOp::SatSub),
];

impl Parser<'_> {
    /// `{ ... }`; an error inside costs one statement, not the block.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect("{")?;
        self.until_brace(Self::statement)
    }

    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        self.nested(Self::statement_inner)
    }

    fn statement_inner(&mut self) -> Parsed<Statement> {
        let start = self.peek().span;
        let annotations = self.annotations()?;
        let kind = if self.at("{") {
            let body = self.block()?;
            StatementKind::Block { annotations, body }
        } else if self.eat(";") {
            StatementKind::Empty
        } else {
            let word = match &self.peek().tok {
                Tok::Ident(word) => word.as_str(),
                _ => "",
            };
            match word {
                "if" => self.if_statement()?,
                "switch" => self.switch_statement()?,
                "for" => self.for_statement()?,
                "return" => {
                    self.next();
                    if self.eat(";") {
                        return Ok(self.statement_from(start, StatementKind::Return(None)));
                    }
                    let value = self.expr()?;
                    self.expect(";")?;
                    StatementKind::Return(Some(value))
                }
                "exit" | "break" | "continue" => {
                    self.next();
                    self.expect(";")?;
                    match word {
                        "exit" => StatementKind::Exit,
                        "break" => StatementKind::Break,
                        _ => StatementKind::Continue,
                    }
                }
                _ if word == "const" || self.starts_variable() => {
                    let declaration = self.local_declaration(annotations)?;
                    StatementKind::Declaration(Box::new(declaration))
                }
                _ => {
                    let kind = self.simple_statement()?;
                    self.expect(";")?;
                    kind
                }
            }
        };
        Ok(self.statement_from(start, kind))
    }

    /// A statement that begins at `start` and ends here.
    fn statement_from(&self, start: Span, kind: StatementKind) -> Statement {
        let span = start.to(self.last_span());
        Statement { kind, span }
    }

    /// `type name` comes next.
    fn starts_variable(&mut self) -> bool {
        self.comes(|p| {
            p.ty()?;
            p.ident("a name")
        })
    }

    /// An assignment or a call, without its `;`.
    fn simple_statement(&mut self) -> Parsed<StatementKind> {
        let target = self.operand()?;
        if self.eat("=") {
            let value = self.expr()?;
            return Ok(StatementKind::Assign {
                target,
                op: None,
                value,
            });
        }
        let op = match ASSIGNMENTS.iter().find(|(text, _)| self.at(text)) {
            Some((_, op)) => {
                self.next();
                Some(*op)
            }
            None if self.at(">") && self.peek_at(1).is(">=") => {
                self.next();
                self.next();
                Some(BinaryOp::Shr)
            }
            None => None,
        };
        if op.is_some() {
            let value = self.expr()?;
            return Ok(StatementKind::Assign { target, op, value });
        }
        if !matches!(target.kind, ExprKind::Call { .. }) {
            if self.at(";") {
                self.report(
                    Diagnostic::error("useless-expression", target.span, "this does nothing")
                        .label("neither an assignment nor a call")
                        .help("a table is applied with `.apply()`, an action called with `()`"),
                );
                return Err(Failed);
            }
            return self.expected("`=` or `(`");
        }
        Ok(StatementKind::Call(target))
    }

    /// An `if` with all `else if` that follow. They do not count as nesting, which they are in the tree.
    fn if_statement(&mut self) -> Parsed<StatementKind> {
        let first = self.peek().span;
        let (_, condition, then) = self.if_branch()?;
        let mut branches = Vec::new();
        let mut otherwise = None;
        while self.eat_word("else") {
            if !self.at_word("if") {
                otherwise = Some(Box::new(self.statement()?));
                break;
            }
            let branch = self.if_branch()?;
            if branches.len() < MAX_ELSE_IFS {
                branches.push(branch);
            } else {
                let message = format!("this `if` has more than {MAX_ELSE_IFS} `else if`");
                let help = "a `switch` or a table with `const entries` decides between more";
                self.report(Diagnostic::error("too-deep", first, message).help(help));
            }
        }
        let end = self.last_span();
        while let Some((start, condition, then)) = branches.pop() {
            let kind = StatementKind::If {
                condition,
                then,
                otherwise,
            };
            let span = start.to(end);
            otherwise = Some(Box::new(Statement { kind, span }));
        }
        Ok(StatementKind::If {
            condition,
            then,
            otherwise,
        })
    }

    /// `if (condition) statement`, with the place of the `if`.
    fn if_branch(&mut self) -> Parsed<(Span, Expr, Box<Statement>)> {
        let start = self.next().span;
        self.expect("(")?;
        let condition = self.expr()?;
        self.expect(")")?;
        let then = Box::new(self.statement()?);
        Ok((start, condition, then))
    }

    fn switch_statement(&mut self) -> Parsed<StatementKind> {
        self.next();
        self.expect("(")?;
        let subject = self.expr()?;
        self.expect(")")?;
        self.expect("{")?;
        let cases = self.until_brace(|p| {
            let label = p.expr()?;
            p.expect(":")?;
            let body = match p.at("{") {
                true => Some(p.statement()?),
                false => None,
            };
            Ok(SwitchCase { label, body })
        })?;
        Ok(StatementKind::Switch { subject, cases })
    }

    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.next();
        self.expect("(")?;
        let annotations = self.annotations()?;
        let for_in = self.attempt(|p| {
            let ty = p.ty()?;
            let name = p.ident("a name")?;
            p.expect_word("in")?;
            Ok((ty, name))
        });
        if let Some((ty, name)) = for_in {
            let low = self.expr()?;
            let collection = match self.behind("..", Self::expr)? {
                Some(high) => Expr {
                    span: low.span.to(high.span),
                    kind: ExprKind::Range(Box::new(low), Box::new(high)),
                },
                None => low,
            };
            self.expect(")")?;
            let body = Box::new(self.statement()?);
            return Ok(StatementKind::ForIn {
                ty,
                name,
                collection,
                body,
            });
        }
        let mut init = Vec::new();
        while !self.at(";") {
            let start = self.peek().span;
            let kind = if self.starts_variable() {
                let declaration = self.variable(annotations.clone())?;
                StatementKind::Declaration(Box::new(declaration))
            } else {
                self.simple_statement()?
            };
            init.push(self.statement_from(start, kind));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";")?;
        let condition = self.expr()?;
        self.expect(";")?;
        let update = self.list(")", |p| {
            let start = p.peek().span;
            let kind = p.simple_statement()?;
            Ok(p.statement_from(start, kind))
        })?;
        let body = Box::new(self.statement()?);
        Ok(StatementKind::For {
            init,
            condition,
            update,
            body,
        })
    }

    /// A constant or a variable inside of a block.
    fn local_declaration(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        if self.at_word("const") {
            return self.constant(annotations);
        }
        let declaration = self.variable(annotations)?;
        self.expect(";")?;
        Ok(declaration)
    }
}
