//! The deparser: the headers that it emits in their order, and primitives, all of which BMv2 runs before it emits the
//! first one. It runs each by itself, so that there are no branches.

use std::collections::HashSet;

use ebb_bmv2_json as json;

use super::assignments::root;
use super::backend::{Backend, Stage};
use crate::elaborate::flat::{FlatKind, FlatStmt, Label};
use crate::ir::{Expr, ExprKind};
use crate::types::{StructKind, Type};

/// Where a deparser goes on behind a statement.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    On,
    /// Behind the block with this label.
    Behind(Label),
    Ends,
}

#[derive(Default)]
struct Emitted {
    headers: Vec<String>,
    /// The variables that they are in.
    vars: HashSet<usize>,
}

impl Backend<'_> {
    pub(super) fn deparser(&mut self) {
        self.stage = Stage::Deparser;
        let flat = self.flat;
        let mut emitted = Emitted::default();
        let (_, primitives) = self.apart(|b| b.deparse(&flat.deparser.body, &mut emitted));
        let source_info = self.source_info(flat.deparser.span);
        self.json.deparsers = vec![json::Deparser {
            name: "deparser".to_owned(),
            id: 0,
            source_info,
            order: emitted.headers,
            primitives,
        }];
    }

    fn deparse(&mut self, statements: &[FlatStmt], emitted: &mut Emitted) -> Flow {
        for statement in statements {
            let flow = match &statement.kind {
                FlatKind::Labeled(label, inner) => match self.deparse(inner, emitted) {
                    Flow::Behind(left) if left == *label => Flow::On,
                    flow => flow,
                },
                FlatKind::Atomic { body, .. } => self.deparse(body, emitted),
                FlatKind::Break(label) => Flow::Behind(*label),
                FlatKind::Exit => Flow::Ends,
                _ => {
                    self.deparser_statement(statement, emitted);
                    Flow::On
                }
            };
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    fn deparser_statement(&mut self, statement: &FlatStmt, emitted: &mut Emitted) {
        let refuse = |message: &str| {
            let message = format!("{message}; move this to the egress control");
            self.error("unsupported-deparser", statement.span, message);
        };
        match &statement.kind {
            FlatKind::Extern {
                name,
                args,
                object: Some(_),
                ..
            } if name == "emit" => {
                for arg in args {
                    self.check_emitted(arg);
                    emitted.headers.extend(self.layout.header_instances(arg));
                    emitted.vars.extend(arg.variables());
                }
            }
            FlatKind::If(..) | FlatKind::Loop(_) => {
                let message = "a BMv2 deparser cannot branch; move this to the egress control";
                let help = "`emit` leaves out a header that is not valid, without an `if`";
                self.error_with_help("unsupported-deparser", statement.span, message, help);
            }
            FlatKind::ApplyTable(..) => refuse("a BMv2 deparser cannot apply tables"),
            kind if changes(kind, &emitted.vars) => {
                let message = "BMv2 runs this before the deparser emits the first header";
                let help = "write it in front of the `emit` of what it changes";
                self.error_with_help("unsupported-deparser", statement.span, message, help);
            }
            _ => self.simple_statement(statement),
        }
    }

    /// Reports what is no header, which a generic function may emit, and a header value that is made where it is
    /// emitted, since it is in no header of the packet.
    pub(super) fn check_emitted(&self, value: &Expr) {
        match (&value.kind, &value.ty) {
            (ExprKind::InvalidHeader, _) => {}
            (ExprKind::List(_), Type::Struct(s)) if s.kind != StructKind::Struct => {
                let message = "a BMv2 deparser emits headers, not values";
                let help = "assign it to a header in the egress control, and emit that";
                self.error_with_help("unsupported-deparser", value.span, message, help);
            }
            (ExprKind::List(items), _) => items.iter().for_each(|item| self.check_emitted(item)),
            (_, ty) if !ty.is_of_headers() => {
                let ty = self.program.type_name(ty);
                let message = format!("only headers are emitted, not `{ty}`");
                self.error("bad-emit", value.span, message);
            }
            _ => {}
        }
    }
}

/// Whether a statement may change one of these variables.
fn changes(kind: &FlatKind, vars: &HashSet<usize>) -> bool {
    match kind {
        FlatKind::Assign(target, _)
        | FlatKind::SetValid(target, _)
        | FlatKind::PushFront(target, _)
        | FlatKind::PopFront(target, _) => root(target).is_some_and(|var| vars.contains(&var)),
        FlatKind::Extern { name, .. } if ["log_msg", "assert", "assume"].contains(&&**name) => {
            false
        }
        FlatKind::Extern { args, .. } => {
            args.iter().filter_map(root).any(|var| vars.contains(&var))
        }
        _ => false,
    }
}
