//! `for` loops (specification 1.2.5, section 12.8).

use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::ir::{Expr, ExprKind, Stmt, StmtKind};
use crate::source::Span;
use crate::types::Type;

impl Checker<'_> {
    /// `for (init; condition; update) body`. Declarations of `init` are visible in the whole loop, and nowhere else.
    pub(super) fn for_loop(
        &mut self,
        init: &[ast::Statement],
        condition: &ast::Expr,
        update: &[ast::Statement],
        body: &ast::Statement,
        span: Span,
    ) -> Option<StmtKind> {
        if !self.may_loop(span) {
            return None;
        }
        let body = self.scoped(|c| {
            let mut all = c.statements(init);
            let condition = c.condition(condition);
            let update = c.statements(update);
            let body = c.loop_body(body);
            let kind = StmtKind::For {
                condition,
                update,
                body,
            };
            all.push(Stmt { kind, span });
            all
        });
        Some(StmtKind::Block {
            atomic: false,
            body,
        })
    }

    /// `for (ty name in collection) body`.
    pub(super) fn for_in(
        &mut self,
        ty: &ast::Type,
        name: &ast::Ident,
        collection: &ast::Expr,
        body: &ast::Statement,
        span: Span,
    ) -> Option<StmtKind> {
        if !self.may_loop(span) {
            return None;
        }
        let ty = self.ty(ty);
        if let Ast::Range(low, high) = &collection.kind {
            let (low, high) = (self.expr_of(low, &ty), self.expr_of(high, &ty));
            if !matches!(ty, Type::Bits { .. } | Type::Poison) {
                let message = format!("a range cannot be counted with type `{}`", self.show(&ty));
                let help = "declare the variable as bit<W> or int<W>";
                self.error_with_help("bad-loop", collection.span, message, help);
                return None;
            }
            let (var, body) = self.body_with(name, ty, body);
            return Some(StmtKind::ForRange {
                var,
                low,
                high,
                body,
            });
        }
        let collection = self.expr(collection);
        let collection = self.collection(collection, &ty)?;
        let (var, body) = self.body_with(name, ty, body);
        Some(StmtKind::ForEach {
            var,
            collection,
            body,
        })
    }

    /// A header stack or a list, whose items convert to the type of the variable.
    fn collection(&self, collection: Expr, item: &Type) -> Option<Expr> {
        match (&collection.ty, &collection.kind) {
            (Type::Poison, _) => None,
            (Type::Stack(element, _), _) => {
                let first = Expr::element(collection.clone(), 0, (**element).clone());
                self.coerce(first, item);
                Some(collection)
            }
            (_, ExprKind::List(items)) => {
                let items = items.iter().map(|i| self.coerce(i.clone(), item));
                Some(Expr {
                    kind: ExprKind::List(items.collect()),
                    ..collection
                })
            }
            (ty, _) => {
                let message = format!("a loop cannot go through a `{}`", self.show(ty));
                let help = "it goes through a range `a..b`, a header stack or a list";
                self.error_with_help("bad-loop", collection.span, message, help);
                None
            }
        }
    }

    fn body_with(
        &mut self,
        name: &ast::Ident,
        ty: Type,
        body: &ast::Statement,
    ) -> (usize, Vec<Stmt>) {
        self.scoped(|c| {
            let var = c.new_var(name, ty, true);
            c.declare(name, Entity::Var(var));
            (var, c.loop_body(body))
        })
    }

    fn loop_body(&mut self, body: &ast::Statement) -> Vec<Stmt> {
        self.body.loop_depth += 1;
        let body = self.branch(body);
        self.body.loop_depth -= 1;
        body
    }
}
