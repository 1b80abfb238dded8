//! The names and sizes of all blobs at one moment, page by page.

use ebb_units::Instant;

use super::action::Action;
use crate::asking::Asking;
use crate::message::{Listed, Reply, Request};
use crate::name::Stamp;

/// How often the list is begun because it has changed between two pages.
const ROUNDS: u32 = 10;

/// The end of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListOutcome {
    /// All blobs of one moment, by name.
    Blobs(Vec<Listed>),
    /// There is no list, for this reason.
    Failed(String),
}

/// A list of all blobs.
pub struct List {
    asking: Asking,
    /// Pages of this revision; `None`: no page has arrived.
    revision: Option<Stamp>,
    blobs: Vec<Listed>,
    rounds: u32,
    outcome: Option<ListOutcome>,
}

impl List {
    /// Begins a list.
    pub fn new(now: Instant) -> Self {
        let mut asking = Asking::limited();
        asking.ask(now, Request::List { after: None });
        List {
            asking,
            revision: None,
            blobs: Vec::new(),
            rounds: 0,
            outcome: None,
        }
    }

    /// The end of it; `None`: it goes on.
    pub fn outcome(&self) -> Option<&ListOutcome> {
        self.outcome.as_ref()
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.asking.next_deadline()
    }

    /// The next thing that is to be done.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if self.asking.is_hopeless(now) {
            self.fail("the locator does not answer");
        }
        if self.outcome.is_some() {
            return None;
        }
        self.asking.poll(now).map(Action::Ask)
    }

    /// Takes the answer to the question with this number.
    pub fn handle_reply(&mut self, now: Instant, id: u64, reply: Reply) {
        let Some((_, reply)) = self.asking.answered(id, reply) else {
            return;
        };
        match reply {
            Reply::Page {
                revision,
                blobs,
                more,
            } => {
                if self.revision.is_some_and(|known| known != revision) {
                    self.begin_again(now);
                    return;
                }
                self.revision = Some(revision);
                self.blobs.extend(blobs);
                if more {
                    let after = self.blobs.last().map(|listed| listed.name.clone());
                    self.asking.ask(now, Request::List { after });
                } else {
                    self.outcome = Some(ListOutcome::Blobs(std::mem::take(&mut self.blobs)));
                }
            }
            Reply::Refused { reason } => self.outcome = Some(ListOutcome::Failed(reason)),
            _ => self.fail("the locator answers another question"),
        }
    }

    fn begin_again(&mut self, now: Instant) {
        self.rounds += 1;
        if self.rounds == ROUNDS {
            self.fail("blobs are written so often that no list is of one moment");
            return;
        }
        self.revision = None;
        self.blobs.clear();
        self.asking.ask(now, Request::List { after: None });
    }

    fn fail(&mut self, reason: &str) {
        self.outcome = Some(ListOutcome::Failed(reason.to_owned()));
    }
}
