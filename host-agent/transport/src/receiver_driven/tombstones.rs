//! Sessions that have ended, for as long as late packets of theirs may arrive. Without them the
//! last acknowledgment, once lost, could not be repeated, and a late packet would open the session
//! a second time.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use ebb_wire::EbbHeader;

use super::ResetReason;
use super::host::Path;
use crate::FlowId;

/// Names a session at its receiver: the sender's address and session id.
pub(super) type SessionKey = (Ipv4Addr, u32);

#[derive(Clone, Debug)]
pub(super) enum Epitaph {
    /// Everything was received; the header repeats the confirmation.
    Finished(EbbHeader),
    Reset(ResetReason),
}

#[derive(Clone, Debug)]
pub(super) struct Tombstone {
    pub flow: FlowId,
    pub path: Path,
    pub epitaph: Epitaph,
}

#[derive(Debug)]
pub(super) struct Tombstones {
    linger: Duration,
    capacity: usize,
    stones: BTreeMap<SessionKey, Tombstone>,
    /// In order of expiry.
    expiries: VecDeque<(Instant, SessionKey)>,
}

impl Tombstones {
    pub fn new(linger: Duration, capacity: usize) -> Self {
        Tombstones {
            linger,
            capacity,
            stones: BTreeMap::new(),
            expiries: VecDeque::new(),
        }
    }

    /// The oldest gives way when there are too many.
    pub fn insert(&mut self, now: Instant, key: SessionKey, stone: Tombstone) {
        if self.stones.len() >= self.capacity {
            self.remove_first();
        }
        if self.stones.insert(key, stone).is_none() {
            self.expiries.push_back((now + self.linger, key));
        }
    }

    pub fn get(&self, key: &SessionKey) -> Option<&Tombstone> {
        self.stones.get(key)
    }

    pub fn by_flow(&mut self, flow: FlowId) -> Option<&mut Tombstone> {
        self.stones.values_mut().find(|stone| stone.flow == flow)
    }

    pub fn expire(&mut self, now: Instant) {
        while self.expiries.front().is_some_and(|(at, _)| *at <= now) {
            self.remove_first();
        }
    }

    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.front().map(|(at, _)| *at)
    }

    fn remove_first(&mut self) {
        if let Some((_, key)) = self.expiries.pop_front() {
            self.stones.remove(&key);
        }
    }
}
