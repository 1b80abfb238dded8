//! Objects of the peer: one arrives, others wait for the application to confirm them.

use std::collections::BTreeMap;

use ebb_units::Instant;

use super::super::state::Statistics;
use crate::transport::{FlowId, Progress};

/// Unconfirmed objects at most; the next is not parsed before one is confirmed.
pub(super) const MAX_UNCONFIRMED: usize = 64;

/// An object that is arriving.
pub(super) struct Incoming {
    /// Name of the object for the application.
    pub(super) flow: FlowId,
    /// The peer's number of it.
    pub(super) number: u32,
    /// Port that it is for.
    pub(super) port: u16,
    /// Sequence number of its first byte.
    pub(super) session: u32,
    /// Bytes delivered.
    pub(super) received: u64,
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Arrival of its frame.
    pub(super) started: Instant,
    /// Counters of the connection when its frame arrived.
    pub(super) before: Statistics,
    /// The application takes no more bytes of it for now.
    pub(super) paused: bool,
}

/// Objects that have begun to arrive and have no answer yet.
#[derive(Default)]
pub(super) struct Arrivals {
    /// Number of the peer's next object.
    next_number: u32,
    /// The object that is arriving.
    pub(super) arriving: Option<Incoming>,
    /// Complete objects with their numbers.
    unconfirmed: BTreeMap<FlowId, u32>,
}

impl Arrivals {
    /// Objects without an answer.
    pub(super) fn load(&self) -> usize {
        usize::from(self.arriving.is_some()) + self.unconfirmed.len()
    }

    /// Whether an object is complete and not confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Whether the application takes nothing for now.
    pub(super) fn is_blocked(&self) -> bool {
        self.arriving.as_ref().is_some_and(|object| object.paused)
            || self.unconfirmed.len() >= MAX_UNCONFIRMED
    }

    /// Checks the number of an object that begins.
    pub(super) fn begins(&mut self, number: u32) -> Result<(), String> {
        let expected = self.next_number;
        if number != expected {
            return Err(format!("object {number} where {expected} is the next"));
        }
        self.next_number = number.wrapping_add(1);
        Ok(())
    }

    /// Pauses or resumes the object, if it is the one that is arriving.
    pub(super) fn set_paused(&mut self, id: FlowId, paused: bool) {
        if let Some(object) = self.arriving.as_mut().filter(|object| object.flow == id) {
            object.paused = paused;
        }
    }

    /// Notes that an object is complete.
    pub(super) fn complete(&mut self, object: &Incoming) {
        self.unconfirmed.insert(object.flow, object.number);
    }

    /// Removes a complete object, whose number is the result.
    pub(super) fn take_unconfirmed(&mut self, id: FlowId) -> Option<u32> {
        self.unconfirmed.remove(&id)
    }

    /// Removes all complete objects.
    pub(super) fn take_all_unconfirmed(&mut self) -> impl Iterator<Item = FlowId> + use<> {
        std::mem::take(&mut self.unconfirmed).into_keys()
    }

    /// Bytes of the object that is arriving; none if it is another.
    pub(super) fn progress(&self, id: FlowId) -> Option<Progress> {
        let object = self.arriving.as_ref().filter(|object| object.flow == id)?;
        Some(Progress {
            done_bytes: object.received,
            arrived_bytes: object.received,
            total_bytes: Some(object.bytes),
        })
    }
}
