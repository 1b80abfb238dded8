//! The walk of every path through a program, with its state, its budget and its warnings.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{Param, Program};
use crate::warnings::places::State;

use super::findings;
use super::paths::Paths;

/// How many steps are taken in a program; then the rest of it has no warnings of this kind. Actions that call actions
/// twice, and so on, would take twice as many at every level.
const MOST_STEPS: usize = 2_000_000;

/// Walk of a program, one body after the other.
pub struct Walk<'a> {
    /// Program that is walked.
    pub(super) program: &'a Program,
    diagnostics: &'a Diagnostics,
    /// Paths of the body being walked.
    pub(super) paths: Paths,
    /// False while a loop is iterated to its fixed point, so that no warning is given twice.
    pub(super) is_reporting: bool,
    steps_left: usize,
    /// Calls of actions around this place.
    pub(super) calls: usize,
}

impl<'a> Walk<'a> {
    /// A walk that has not begun.
    pub fn new(program: &'a Program, diagnostics: &'a Diagnostics) -> Walk<'a> {
        Walk {
            program,
            diagnostics,
            paths: Paths::default(),
            is_reporting: true,
            steps_left: MOST_STEPS,
            calls: 0,
        }
    }

    /// Takes a step, which costs the more the more is known here; false if there are none left.
    pub(super) fn step(&mut self) -> bool {
        let cost = 1 + self.paths.here.as_ref().map_or(0, State::size) / 16;
        match self.steps_left.checked_sub(cost) {
            Some(left) => {
                self.steps_left = left;
                true
            }
            None => {
                self.steps_left = 0;
                self.paths.here = None;
                false
            }
        }
    }

    /// Gives warnings, unless this place is walked again for them.
    pub(super) fn report(&self, warnings: impl IntoIterator<Item = Diagnostic>) {
        if self.is_reporting {
            for warning in warnings {
                self.diagnostics.report(warning);
            }
        }
    }

    /// Begins to walk a body with these parameters.
    pub(super) fn begin(&mut self, params: &[Param]) {
        let mut state = State::default();
        state.declare_params(params);
        self.paths = Paths::begin(state);
    }

    /// Ends the walk of a body.
    pub(super) fn end(&mut self, params: &[Param], name: &str) {
        self.paths.end();
        self.check_out(params, name);
    }

    /// Reports `out` parameters without a value here.
    pub(super) fn check_out(&self, params: &[Param], name: &str) {
        if let Some(state) = &self.paths.here {
            self.report(findings::unset_out(state, params, name));
        }
    }
}
