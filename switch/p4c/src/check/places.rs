//! Statements that are allowed in parser states, control bodies, actions and functions.

use super::Checker;
use crate::diagnostics::Diagnostic;
use crate::ir::{BlockKind, Callee, Constructed};
use crate::source::Span;
use crate::types::Type;

/// Where the code being checked stands; some statements only make sense in some places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no body. The local declarations of parsers and controls count as such, too.
    TopLevel,
    Function,
    Action,
    /// The `apply` block of a control, and the keys of its tables.
    Control,
    ParserState,
}

/// The body being checked.
#[derive(Debug)]
pub(super) struct Body {
    pub place: Place,
    /// The return type of the function; `void` elsewhere.
    pub return_type: Type,
    /// How many loops are around the statement being checked.
    pub loop_depth: u32,
}

impl Body {
    pub fn new(place: Place, return_type: Type) -> Body {
        Body {
            place,
            return_type,
            loop_depth: 0,
        }
    }
}

impl Checker<'_> {
    /// Checks a body at a place of this kind, that returns a value of this type. The body around it, if any, goes on
    /// behind it.
    pub(super) fn in_body<T>(
        &mut self,
        place: Place,
        return_type: Type,
        check: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = std::mem::replace(&mut self.body, Body::new(place, return_type));
        let checked = check(self);
        self.body = outer;
        checked
    }

    fn is_in(&self, places: &[Place]) -> bool {
        places.contains(&self.body.place)
    }

    /// `next`, `last` and `lastIndex` follow the parser's extractions (P4_16, section 8.18).
    pub(super) fn may_follow_parser(&self, member: &str, span: Span) -> bool {
        let may = !self.is_in(&[Place::Control, Place::Action]);
        if !may {
            let message = format!("`{member}` of a header stack is only known in a parser");
            let help = "use an index: `stack[0]` is the first header";
            self.error_with_help("misplaced-member", span, message, help);
        }
        may
    }

    pub(super) fn may_loop(&self, span: Span) -> bool {
        let may = !self.is_in(&[Place::ParserState]);
        if !may {
            let message = "a parser has no `for` loops";
            let help = "a state may go back to itself or to one before it";
            self.error_with_help("bad-loop", span, message, help);
        }
        may
    }

    /// Whether `break` and `continue` are allowed.
    pub(super) fn may_leave_loop(&self, span: Span) -> bool {
        let may = self.body.loop_depth > 0;
        if !may {
            let message = "`break` and `continue` belong in loops";
            self.error("misplaced-statement", span, message);
        }
        may
    }

    pub(super) fn may_exit(&self, span: Span) -> bool {
        let may = self.is_in(&[Place::Control, Place::Action]);
        if !may {
            let message = "`exit` is only allowed in controls and actions";
            self.error("misplaced-statement", span, message);
        }
        may
    }

    pub(super) fn may_return(&self, span: Span) -> bool {
        let may = !self.is_in(&[Place::ParserState]);
        if !may {
            let message = "a parser state ends with `transition`, not `return`";
            self.error("misplaced-statement", span, message);
        }
        may
    }

    pub(super) fn check_table_applied(&self, span: Span) {
        if !self.is_in(&[Place::Control]) {
            let message = "tables can only be applied in the `apply` block of a control";
            let error = Diagnostic::error("misplaced-apply", span, message);
            self.report(error.label("not in an action, function or parser"));
        }
    }

    /// Checks a call of the function or method `name`.
    pub(super) fn check_called(&self, callee: &Callee, name: &str, span: Span) {
        match callee {
            Callee::Action(_) if !self.is_in(&[Place::Control, Place::Action]) => {
                let message = "actions can only be called from controls and actions";
                self.error("misplaced-call", span, message);
            }
            Callee::Apply(object) => {
                let is_parser = matches!(object.ty, Type::Block(id, _)
                    if self.program.blocks[id].kind == BlockKind::Parser);
                let place = match is_parser {
                    true => Place::ParserState,
                    false => Place::Control,
                };
                if !self.is_in(&[place]) {
                    let message = "parsers are applied in parser states, controls in the `apply` block of controls";
                    self.error("misplaced-apply", span, message);
                }
            }
            Callee::ExternFunction(_) if name == "verify" && !self.is_in(&[Place::ParserState]) => {
                let message = "`verify` is only allowed in parsers";
                let help = "in a control, use `if` and `exit`, or `assert`";
                self.error_with_help("misplaced-call", span, message, help);
            }
            _ => {}
        }
    }

    /// Controls and parsers are instantiated where they are used, packages at the top level (P4_16, appendix F).
    /// `within`: the parser or control around it, if any.
    pub(super) fn check_instantiated(
        &self,
        what: Constructed,
        within: Option<BlockKind>,
        span: Span,
    ) {
        let inside = "do it inside of another one, or in the arguments of the package";
        let (kind, help) = match (what, within) {
            (Constructed::Control(_), None) => ("control", inside),
            (Constructed::Parser(_), None) => ("parser", inside),
            (Constructed::Control(_), Some(BlockKind::Parser)) => {
                ("control", "a parser has instances of parsers and externs")
            }
            (Constructed::Package(_), Some(_)) => ("package", "do it at the top level"),
            _ => return,
        };
        let place = match within {
            None => "at the top level",
            Some(BlockKind::Parser) => "in a parser",
            Some(_) => "in a control",
        };
        let message = format!("a {kind} is not instantiated {place}");
        self.error_with_help("misplaced-instance", span, message, help);
    }
}
