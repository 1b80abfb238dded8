//! Sessions that have ended, for as long as late packets of theirs may arrive. Without them the
//! last acknowledgment, once lost, could not be repeated, and a late packet would open the session
//! a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use ebb_wire::EbbHeader;

use super::ResetReason;
use super::path::Path;
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
    /// Questions to its sender, whether it knows the end, since it was heard last.
    pub asked: u32,
}

#[derive(Debug)]
pub(super) struct Tombstones {
    linger: Duration,
    capacity: usize,
    /// The sessions that are remembered, with the time at which each is forgotten.
    stones: BTreeMap<SessionKey, (Instant, Tombstone)>,
    expiries: BTreeSet<(Instant, SessionKey)>,
}

impl Tombstones {
    /// `linger`: how long after its last packet a session is remembered. A peer that has not given
    /// up by then would hear that its session is unknown, or open it a second time.
    pub fn new(linger: Duration, capacity: usize) -> Self {
        Tombstones {
            linger,
            capacity,
            stones: BTreeMap::new(),
            expiries: BTreeSet::new(),
        }
    }

    /// Remembers a session. When too many are remembered, the one that would expire first is
    /// forgotten.
    pub fn insert(&mut self, now: Instant, key: SessionKey, stone: Tombstone) {
        if self.stones.len() >= self.capacity {
            self.remove_first();
        }
        let until = now + self.linger;
        if let Some((old, _)) = self.stones.insert(key, (until, stone)) {
            self.expiries.remove(&(old, key));
        }
        self.expiries.insert((until, key));
    }

    pub fn get(&self, key: &SessionKey) -> Option<&Tombstone> {
        self.stones.get(key).map(|(_, stone)| stone)
    }

    /// A packet of the session has arrived: its sender does not know the end yet, and what answers it
    /// may be lost again.
    pub fn refresh(&mut self, now: Instant, key: &SessionKey) {
        if let Some((until, stone)) = self.stones.get_mut(key) {
            stone.asked = 0;
            self.expiries.remove(&(*until, *key));
            *until = now + self.linger;
            self.expiries.insert((*until, *key));
        }
    }

    pub fn remove(&mut self, key: &SessionKey) {
        if let Some((until, _)) = self.stones.remove(key) {
            self.expiries.remove(&(until, *key));
        }
    }

    pub fn retain(&mut self, stays: impl Fn(&Tombstone) -> bool) {
        let Tombstones {
            stones, expiries, ..
        } = self;
        stones.retain(|key, (until, stone)| {
            let stays = stays(stone);
            if !stays {
                expiries.remove(&(*until, *key));
            }
            stays
        });
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tombstone> {
        self.stones.values_mut().map(|(_, stone)| stone)
    }

    /// All sessions of a flow: one for each of its senders.
    pub fn of_flow(&mut self, flow: FlowId) -> impl Iterator<Item = &mut Tombstone> {
        self.iter_mut().filter(move |stone| stone.flow == flow)
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.stones.values().map(|(_, stone)| &stone.path)
    }

    pub fn expire(&mut self, now: Instant) {
        while self.expiries.first().is_some_and(|(at, _)| *at <= now) {
            self.remove_first();
        }
    }

    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    fn remove_first(&mut self) {
        if let Some((_, key)) = self.expiries.pop_first() {
            self.stones.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_micros(1000 * ms)
    }

    fn key(session: u32) -> SessionKey {
        (Ipv4Addr::new(10, 0, 0, 2), session)
    }

    fn stone(flow: u64) -> Tombstone {
        Tombstone {
            flow: FlowId(flow),
            path: Path {
                peer: SocketAddrV4::new(key(0).0, 9),
                local_port: 7000,
                session: 1,
            },
            epitaph: Epitaph::Reset(ResetReason::Aborted),
            asked: 0,
        }
    }

    #[test]
    fn a_stone_stands_until_it_has_lingered_since_the_last_packet() {
        let mut stones = Tombstones::new(Duration::from_millis(200), 10);
        stones.insert(at(0), key(1), stone(1));
        stones.insert(at(50), key(2), stone(2));
        stones.refresh(at(150), &key(1));
        assert_eq!(stones.next_expiry(), Some(at(250)));
        stones.expire(at(349));
        assert!(stones.get(&key(1)).is_some() && stones.get(&key(2)).is_none());
        stones.expire(at(350));
        assert!(stones.get(&key(1)).is_none());
        assert_eq!(stones.next_expiry(), None);
    }

    #[test]
    fn there_are_never_more_than_the_capacity() {
        let mut stones = Tombstones::new(Duration::from_millis(200), 3);
        for n in 0..5 {
            stones.insert(at(n), key(n as u32), stone(n));
        }
        assert_eq!((stones.stones.len(), stones.expiries.len()), (3, 3));
        assert!(stones.get(&key(1)).is_none() && stones.get(&key(2)).is_some());
    }
}
