//! Hosts that request objects: whether each is known to answer at its address, and its requests that wait.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_transport::{FetchRequest, TransportKind};
use ebb_units::Instant;

use crate::limits::Limits;

/// Whether an address answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    Unknown,
    /// It answered what was sent to it.
    Heard,
    /// It did not answer when an object was sent to it: the request may have been forged.
    Silent,
}

/// A request that has not been answered.
pub struct WaitingRequest {
    /// Transport by which it came.
    pub transport: TransportKind,
    /// Requested object, and address of the answer.
    pub request: FetchRequest,
    /// Address it came from.
    pub from: SocketAddrV4,
}

impl WaitingRequest {
    /// Address of the answer.
    pub fn asker(&self) -> Asker {
        Asker {
            to: SocketAddrV4::new(*self.from.ip(), self.request.reply_port),
            over: self.from,
        }
    }
}

/// Address to which a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The port where the other host waits for it.
    pub to: SocketAddrV4,
    /// Address that the request came from: a persistent connection carries the answer back.
    pub over: SocketAddrV4,
}

/// Hosts that request objects, and whether they answer.
pub struct Requesters {
    limits: Limits,
    /// State of an address, and since when.
    known: BTreeMap<Ipv4Addr, (Instant, PeerState)>,
    /// All insertions into `known`, oldest first.
    by_time: VecDeque<(Instant, Ipv4Addr)>,
    /// Requests that wait, by address, oldest first. No queue is empty.
    waiting: BTreeMap<Ipv4Addr, VecDeque<WaitingRequest>>,
    /// Number of requests of all addresses.
    all_waiting: usize,
}

impl Requesters {
    /// No requests, with these limits.
    pub fn new(limits: Limits) -> Self {
        Requesters {
            limits,
            known: BTreeMap::new(),
            by_time: VecDeque::new(),
            waiting: BTreeMap::new(),
            all_waiting: 0,
        }
    }

    /// State of `peer` at `now`.
    pub fn state(&self, now: Instant, peer: Ipv4Addr) -> PeerState {
        match self.known.get(&peer) {
            Some(&(at, state)) if now.since(at) < self.limits.memory => state,
            _ => PeerState::Unknown,
        }
    }

    /// `peer` has answered something.
    pub fn heard(&mut self, now: Instant, peer: Ipv4Addr) {
        self.remember(now, peer, PeerState::Heard);
    }

    /// Nothing was received from `peer` while an object was sent to it. Changes nothing if it answered
    /// something else.
    pub fn silent(&mut self, now: Instant, peer: Ipv4Addr) {
        if self.state(now, peer) != PeerState::Heard {
            self.remember(now, peer, PeerState::Silent);
        }
    }

    fn remember(&mut self, now: Instant, peer: Ipv4Addr, state: PeerState) {
        self.known.insert(peer, (now, state));
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
    pub fn wait(&mut self, peer: Ipv4Addr, asked: WaitingRequest) -> Result<(), WaitingRequest> {
        let of_peer = self.waiting.get(&peer).map_or(0, VecDeque::len);
        if of_peer >= self.limits.waiting_per_peer || self.all_waiting >= self.limits.waiting {
            return Err(asked);
        }
        self.waiting.entry(peer).or_default().push_back(asked);
        self.all_waiting += 1;
        Ok(())
    }

    /// Whether a request of this address waits for its answer.
    pub fn is_waiting(&self, peer: Ipv4Addr) -> bool {
        self.waiting.contains_key(&peer)
    }

    /// The request of `peer` that has waited longest.
    pub fn next(&mut self, peer: Ipv4Addr) -> Option<WaitingRequest> {
        let of_peer = self.waiting.get_mut(&peer)?;
        let asked = of_peer.pop_front()?;
        if of_peer.is_empty() {
            self.waiting.remove(&peer);
        }
        self.all_waiting -= 1;
        Some(asked)
    }

    /// Forgets the requests of `peer`, which are not worth an answer.
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

    fn asked(number: u16) -> WaitingRequest {
        let request = FetchRequest {
            name: "x".to_owned(),
            reply_port: number,
            priority: 0,
            session: 0,
            sender: 0,
            senders: 1,
        };
        let transport = TransportKind::Ndp;
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        WaitingRequest {
            transport,
            request,
            from,
        }
    }

    #[test]
    fn what_is_known_of_an_address_ends() {
        let mut requesters = Requesters::new(LIMITS);
        assert_eq!(requesters.state(at(0), PEER), PeerState::Unknown);
        requesters.silent(at(0), PEER);
        assert_eq!(requesters.state(at(1), PEER), PeerState::Silent);
        requesters.heard(at(1000), PEER);
        requesters.silent(at(2000), PEER);
        assert_eq!(requesters.state(at(60_999), PEER), PeerState::Heard);
        assert_eq!(requesters.state(at(61_000), PEER), PeerState::Unknown);
        requesters.silent(at(61_000), PEER);
        assert_eq!(requesters.state(at(61_000), PEER), PeerState::Silent);
        assert_eq!((requesters.known.len(), requesters.by_time.len()), (1, 1));
    }

    #[test]
    fn without_a_memory_nobody_is_known() {
        let mut requesters = Requesters::new(Limits::NONE);
        requesters.silent(at(1), PEER);
        assert_eq!(requesters.state(at(1), PEER), PeerState::Unknown);
        assert!(requesters.known.is_empty() && requesters.by_time.is_empty());
    }

    #[test]
    fn requests_wait_in_order_and_not_too_many() {
        let mut requesters = Requesters::new(LIMITS);
        let most = LIMITS.waiting_per_peer as u16;
        for number in 0..most {
            assert!(requesters.wait(PEER, asked(number)).is_ok());
        }
        assert!(requesters.wait(PEER, asked(most)).is_err());
        for number in 0..most {
            assert_eq!(requesters.next(PEER).unwrap().request.reply_port, number);
        }
        assert!(requesters.next(PEER).is_none() && !requesters.is_waiting(PEER));
        let mut taken = 0;
        for peer in 0..=255 {
            for number in 0..most {
                let peer = Ipv4Addr::new(10, 0, 1, peer);
                taken += usize::from(requesters.wait(peer, asked(number)).is_ok());
            }
        }
        assert_eq!(taken, LIMITS.waiting);
        requesters.forget_waiting(Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(
            requesters.all_waiting,
            LIMITS.waiting - LIMITS.waiting_per_peer
        );
    }

    #[test]
    fn of_more_addresses_than_fit_the_oldest_are_forgotten() {
        let mut requesters = Requesters::new(LIMITS);
        let first = Ipv4Addr::new(11, 0, 0, 0);
        for number in 0..=LIMITS.known as u32 {
            requesters.silent(at(1), Ipv4Addr::from(u32::from(first) + number));
        }
        assert_eq!(requesters.known.len(), LIMITS.known);
        assert_eq!(requesters.state(at(1), first), PeerState::Unknown);
    }
}
