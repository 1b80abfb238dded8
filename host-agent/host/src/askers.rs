//! Who asks for objects: whether an address is known to be that of a host that wants them, and what
//! waits to be answered.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use ebb_transport::{FetchRequest, Scheme};
use ebb_units::Instant;

use crate::limits::Limits;

/// What is known of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Unknown,
    /// It answered what was sent to it.
    Heard,
    /// An object was sent to it and it did not answer: maybe it never asked.
    Silent,
}

pub struct Asked {
    pub scheme: Scheme,
    pub request: FetchRequest,
}

pub struct Askers {
    limits: Limits,
    known: BTreeMap<Ipv4Addr, (Instant, Standing)>,
    /// Everything that was ever put into `known`, oldest first.
    by_time: VecDeque<(Instant, Ipv4Addr)>,
    waiting: BTreeMap<Ipv4Addr, VecDeque<Asked>>,
    all_waiting: usize,
}

impl Askers {
    pub fn new(limits: Limits) -> Self {
        Askers {
            limits,
            known: BTreeMap::new(),
            by_time: VecDeque::new(),
            waiting: BTreeMap::new(),
            all_waiting: 0,
        }
    }

    pub fn standing(&self, now: Instant, peer: Ipv4Addr) -> Standing {
        match self.known.get(&peer) {
            Some(&(at, standing)) if now.since(at) < self.limits.memory => standing,
            _ => Standing::Unknown,
        }
    }

    pub fn heard(&mut self, now: Instant, peer: Ipv4Addr) {
        self.remember(now, peer, Standing::Heard);
    }

    /// An object was on its way to `peer` until now and nothing was heard. Of no effect on one that
    /// was heard otherwise.
    pub fn silent(&mut self, now: Instant, peer: Ipv4Addr) {
        if self.standing(now, peer) != Standing::Heard {
            self.remember(now, peer, Standing::Silent);
        }
    }

    fn remember(&mut self, now: Instant, peer: Ipv4Addr, standing: Standing) {
        self.known.insert(peer, (now, standing));
        self.by_time.push_back((now, peer));
        while let Some(&(at, oldest)) = self.by_time.front()
            && (now.since(at) >= self.limits.memory || self.by_time.len() > self.limits.known)
        {
            self.by_time.pop_front();
            if self.known.get(&oldest).is_some_and(|known| known.0 == at) {
                self.known.remove(&oldest);
            }
        }
    }

    /// Has a request wait. Gives it back if too many wait already.
    pub fn wait(&mut self, peer: Ipv4Addr, asked: Asked) -> Result<(), Asked> {
        let of_peer = self.waiting.get(&peer).map_or(0, VecDeque::len);
        if of_peer >= self.limits.waiting_per_peer || self.all_waiting >= self.limits.waiting {
            return Err(asked);
        }
        self.waiting.entry(peer).or_default().push_back(asked);
        self.all_waiting += 1;
        Ok(())
    }

    pub fn is_waiting(&self, peer: Ipv4Addr) -> bool {
        self.waiting.contains_key(&peer)
    }

    /// The request of `peer` that has waited longest.
    pub fn next(&mut self, peer: Ipv4Addr) -> Option<Asked> {
        let of_peer = self.waiting.get_mut(&peer)?;
        let asked = of_peer.pop_front()?;
        if of_peer.is_empty() {
            self.waiting.remove(&peer);
        }
        self.all_waiting -= 1;
        Some(asked)
    }

    /// Nothing that `peer` asked for is worth sending.
    pub fn forget_waiting(&mut self, peer: Ipv4Addr) {
        let forgotten = self
            .waiting
            .remove(&peer)
            .map_or(0, |of_peer| of_peer.len());
        self.all_waiting -= forgotten;
    }
}

#[cfg(test)]
mod tests {
    use ebb_units::Duration;

    use super::*;

    const LIMITS: Limits = Limits::CAREFUL;
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn asked(number: u16) -> Asked {
        let request = FetchRequest {
            name: "x".to_owned(),
            reply_port: number,
            priority: 0,
            session: 0,
            sender: 0,
            senders: 1,
        };
        let scheme = Scheme::Ndp;
        Asked { scheme, request }
    }

    #[test]
    fn what_is_known_of_an_address_ends() {
        let mut askers = Askers::new(LIMITS);
        assert_eq!(askers.standing(at(0), PEER), Standing::Unknown);
        askers.silent(at(0), PEER);
        assert_eq!(askers.standing(at(1), PEER), Standing::Silent);
        askers.heard(at(1000), PEER);
        askers.silent(at(2000), PEER);
        assert_eq!(askers.standing(at(60_999), PEER), Standing::Heard);
        assert_eq!(askers.standing(at(61_000), PEER), Standing::Unknown);
        askers.silent(at(61_000), PEER);
        assert_eq!(askers.standing(at(61_000), PEER), Standing::Silent);
        assert_eq!((askers.known.len(), askers.by_time.len()), (1, 1));
    }

    #[test]
    fn without_a_memory_nobody_is_known() {
        let mut askers = Askers::new(Limits::NONE);
        askers.silent(at(1), PEER);
        assert_eq!(askers.standing(at(1), PEER), Standing::Unknown);
        assert!(askers.known.is_empty() && askers.by_time.is_empty());
    }

    #[test]
    fn requests_wait_in_order_and_not_too_many() {
        let mut askers = Askers::new(LIMITS);
        let most = LIMITS.waiting_per_peer as u16;
        for number in 0..most {
            assert!(askers.wait(PEER, asked(number)).is_ok());
        }
        assert!(askers.wait(PEER, asked(most)).is_err());
        for number in 0..most {
            assert_eq!(askers.next(PEER).unwrap().request.reply_port, number);
        }
        assert!(askers.next(PEER).is_none() && !askers.is_waiting(PEER));
        let mut taken = 0;
        for peer in 0..=255 {
            for number in 0..most {
                let peer = Ipv4Addr::new(10, 0, 1, peer);
                taken += usize::from(askers.wait(peer, asked(number)).is_ok());
            }
        }
        assert_eq!(taken, LIMITS.waiting);
        askers.forget_waiting(Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(askers.all_waiting, LIMITS.waiting - LIMITS.waiting_per_peer);
    }

    #[test]
    fn of_more_addresses_than_fit_the_oldest_are_forgotten() {
        let mut askers = Askers::new(LIMITS);
        let first = Ipv4Addr::new(11, 0, 0, 0);
        for number in 0..=LIMITS.known as u32 {
            askers.silent(at(1), Ipv4Addr::from(u32::from(first) + number));
        }
        assert_eq!(askers.known.len(), LIMITS.known);
        assert_eq!(askers.standing(at(1), first), Standing::Unknown);
    }
}
