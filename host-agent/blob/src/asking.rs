//! One question at a time to the locator, repeated until it is answered.

use ebb_units::{Duration, Instant};

use crate::message::{Reply, Request};

/// How long an answer may take before the question is asked again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most times that a question is sent.
const MAX_ATTEMPTS: u32 = 10;

/// A question to be sent to the locator. The answer has the same number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Number of the question.
    pub id: u64,
    /// The question.
    pub request: Request,
}

struct Open {
    request: Request,
    attempts: u32,
    /// Time at which it is to be sent (again).
    due: Instant,
}

#[derive(Default)]
pub(crate) struct Asking {
    /// The number of the last question.
    id: u64,
    open: Option<Open>,
    /// Most times that a question is sent; 0: there is no limit.
    limit: u32,
}

impl Asking {
    pub fn limited() -> Self {
        Asking {
            limit: MAX_ATTEMPTS,
            ..Asking::default()
        }
    }

    /// Asks; a question that is open is forgotten.
    pub fn ask(&mut self, now: Instant, request: Request) {
        self.id += 1;
        self.open = Some(Open {
            request,
            attempts: 0,
            due: now,
        });
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the open question has been sent as often as it may be, and the last answer is overdue.
    pub fn is_hopeless(&self, now: Instant) -> bool {
        let limit = self.limit;
        self.open
            .as_ref()
            .is_some_and(|open| limit > 0 && open.attempts >= limit && open.due <= now)
    }

    /// The question, if it is due.
    pub fn poll(&mut self, now: Instant) -> Option<Ask> {
        let (id, limit) = (self.id, self.limit);
        let open = self.open.as_mut()?;
        if open.due > now || (limit > 0 && open.attempts >= limit) {
            return None;
        }
        open.attempts += 1;
        open.due = now + PATIENCE;
        Some(Ask {
            id,
            request: open.request.clone(),
        })
    }

    /// Takes an answer. `None`: its question is no longer open. Else the number of times that the
    /// question was sent, and the answer.
    pub fn answered(&mut self, id: u64, reply: Reply) -> Option<(u32, Reply)> {
        if id != self.id {
            return None;
        }
        let open = self.open.take()?;
        Some((open.attempts, reply))
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.open.as_ref()?.due)
    }
}
