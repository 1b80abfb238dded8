//! A connection together with the objects that it carries, if it stays open.

use ebb_units::Instant;

use super::super::flow;
use super::PersistentConnection;
use crate::record::Role;

pub(crate) type Flow = flow::Flow<PersistentConnection>;

impl Flow {
    /// When [`handle_deadline`](Self::handle_deadline) must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let persistent = self.persistent.as_ref();
        let idle = persistent.and_then(|objects| objects.next_deadline());
        Instant::earliest([self.connection.next_deadline(), idle])
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        self.connection.handle_deadline(now);
        if let Some(mut objects) = self.persistent.take() {
            objects.handle_deadline(now, self);
            self.persistent = Some(objects);
        }
    }

    /// Whether its packets go with those of senders. The others' acknowledgments go first.
    pub(crate) fn sends_data(&self) -> bool {
        match &self.persistent {
            Some(objects) => objects.has_data(self),
            None => self.role == Role::Sender,
        }
    }
}
