//! States on the paths through a body: here, where it returns or the block exits, and where loops are left.

use crate::warnings::places::State;

/// States of the paths through the body being walked. None: no path leads there.
#[derive(Default)]
pub struct Paths {
    /// State here.
    pub here: Option<State>,
    /// State where the body returns.
    returned: Option<State>,
    /// State where the block ends by `exit`.
    exited: Option<State>,
    /// Loops around this place, the innermost last.
    loops: Vec<Loop>,
}

/// States where a loop is left by `break`, and where `continue` begins the next iteration.
#[derive(Default)]
struct Loop {
    broken: Option<State>,
    continued: Option<State>,
}

/// Paths of a body whose call is being walked, beside the state here.
pub struct Caller {
    returned: Option<State>,
    loops: Vec<Loop>,
}

impl Paths {
    /// The only path, at the beginning of a body.
    pub fn begin(state: State) -> Paths {
        Paths {
            here: Some(state),
            ..Paths::default()
        }
    }

    /// The end of the body, where all of its paths meet.
    pub fn end(&mut self) {
        let ends = [self.returned.take(), self.exited.take()];
        ends.into_iter().for_each(|end| self.meet(end));
    }

    /// Another path leads here as well.
    pub fn meet(&mut self, other: Option<State>) {
        join(&mut self.here, other);
    }

    /// The path here ends by `return`.
    pub fn leave_by_return(&mut self) {
        join(&mut self.returned, self.here.take());
    }

    /// The path here ends by `exit`.
    pub fn leave_by_exit(&mut self) {
        join(&mut self.exited, self.here.take());
    }

    /// The path here leaves the innermost loop.
    pub fn leave_by_break(&mut self) {
        if let Some(innermost) = self.loops.last_mut() {
            join(&mut innermost.broken, self.here.take());
        }
    }

    /// The path here leads to the next iteration of the innermost loop.
    pub fn leave_by_continue(&mut self) {
        if let Some(innermost) = self.loops.last_mut() {
            join(&mut innermost.continued, self.here.take());
        }
    }

    /// The place where the paths that `continue` took lead to.
    pub fn continue_here(&mut self) {
        let continued = self.loops.last_mut().and_then(|l| l.continued.take());
        self.meet(continued);
    }

    /// A loop begins in this state.
    pub fn enter_loop(&mut self, entry: Option<State>) {
        self.loops.push(Loop::default());
        self.here = entry;
    }

    /// The innermost loop ends; returns the state of the paths that left it by `break`.
    pub fn leave_loop(&mut self) -> Option<State> {
        self.loops.pop().and_then(|l| l.broken)
    }

    /// The body of a call begins.
    pub fn enter_call(&mut self) -> Caller {
        Caller {
            returned: self.returned.take(),
            loops: std::mem::take(&mut self.loops),
        }
    }

    /// The body of a call ends; an `exit` in it ends the caller's block too.
    pub fn leave_call(&mut self, caller: Caller) {
        let returned = self.returned.take();
        self.meet(returned);
        self.returned = caller.returned;
        self.loops = caller.loops;
    }
}

/// Adds the paths of another state.
pub fn join(into: &mut Option<State>, other: Option<State>) {
    match (into.as_mut(), other) {
        (Some(state), Some(other)) => state.join(other),
        (None, other) => *into = other,
        (Some(_), None) => {}
    }
}

/// State where all these paths meet.
pub fn joined(states: impl IntoIterator<Item = Option<State>>) -> Option<State> {
    let mut all = None;
    for state in states {
        join(&mut all, state);
    }
    all
}
