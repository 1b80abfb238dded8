//! Work that a transport gives away, because it takes long enough to be done on another thread.

use std::any::Any;
use std::fmt;

use ebb_units::Duration;

use crate::{FlowId, Role};

/// A computation for a transport, with all its input, so that any thread can do it.
pub(crate) trait Work: fmt::Debug + Send {
    /// Its result.
    type Output: Send + 'static;

    /// How many bytes are to be coded.
    fn bytes(&self) -> usize;

    fn run(self) -> Self::Output;
}

/// [`Work`] whose kind only the transport knows that wants it.
trait AnyWork: fmt::Debug + Send {
    fn bytes(&self) -> usize;
    fn run(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<W: Work> AnyWork for W {
    fn bytes(&self) -> usize {
        Work::bytes(self)
    }

    fn run(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(Work::run(*self))
    }
}

/// Work for a processor rather than for the protocol.
#[derive(Debug)]
pub struct Job {
    flow: FlowId,
    role: Role,
    work: Box<dyn AnyWork>,
}

/// Result of a [`Job`].
pub struct JobResult {
    flow: FlowId,
    role: Role,
    /// Processor time of the job, measured by whoever ran it (zero until then); it goes into the
    /// flow's record.
    pub cpu_time: Duration,
    output: Box<dyn Any + Send>,
}

impl Job {
    pub(crate) fn new(flow: FlowId, role: Role, work: impl Work + 'static) -> Self {
        Job {
            flow,
            role,
            work: Box::new(work),
        }
    }

    /// The flow that waits for it.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Whether the flow waits to send or to receive.
    pub fn role(&self) -> Role {
        self.role
    }

    /// How many bytes are to be coded.
    pub fn bytes(&self) -> usize {
        self.work.bytes()
    }

    /// Does it, on this thread.
    pub fn run(self) -> JobResult {
        JobResult {
            flow: self.flow,
            role: self.role,
            cpu_time: Duration::ZERO,
            output: self.work.run(),
        }
    }
}

impl JobResult {
    /// The flow that waits for it.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// As [`Job::role`].
    pub fn role(&self) -> Role {
        self.role
    }

    /// Output of the work. None if it is of another kind: the result belongs to another
    /// transport.
    pub(crate) fn output<T: 'static>(self) -> Option<T> {
        self.output.downcast().ok().map(|output| *output)
    }
}

impl fmt::Debug for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobResult({}, {:?})", self.flow, self.role)
    }
}
