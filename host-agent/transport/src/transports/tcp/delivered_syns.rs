//! SYNs whose data was delivered, of connections that have ended since: a copy of one that comes
//! late is not delivered again (RFC 7413 2.1 leaves that to applications).

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddrV4;

use ebb_units::{Duration, Instant};

/// With as many to remember, data in SYNs is not taken: then the handshake tells copies apart.
const MOST: usize = 4096;

/// Own port, peer, and sequence number of its SYN.
type Syn = (u16, SocketAddrV4, u32);

#[derive(Debug)]
pub(super) struct DeliveredSyns {
    /// How long a copy may be on its way: as long as TIME-WAIT takes it to be.
    lifetime: Duration,
    /// In the order in which they are forgotten.
    by_time: VecDeque<(Instant, Syn)>,
    known: BTreeSet<Syn>,
}

impl DeliveredSyns {
    pub(super) fn new(lifetime: Duration) -> Self {
        DeliveredSyns {
            lifetime,
            by_time: VecDeque::new(),
            known: BTreeSet::new(),
        }
    }

    /// The connection that this SYN began is gone.
    pub(super) fn remember(&mut self, now: Instant, syn: Syn) {
        self.forget(now);
        if self.known.insert(syn) {
            self.by_time.push_back((now + self.lifetime, syn));
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some((until, syn)) = self.by_time.front()
            && *until <= now
        {
            self.known.remove(syn);
            self.by_time.pop_front();
        }
    }

    pub(super) fn knows(&mut self, now: Instant, syn: Syn) -> bool {
        self.forget(now);
        self.known.contains(&syn)
    }

    /// There is no room to remember one more.
    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_in_time_and_number() {
        let peer = |port| SocketAddrV4::new([10, 0, 0, 2].into(), port);
        let mut syns = DeliveredSyns::new(Duration::from_millis(20));
        let at = Instant::from_micros(1_000);
        for port in 0..MOST as u16 {
            assert!(!syns.is_full());
            syns.remember(at, (7, peer(port), 1));
        }
        assert!(syns.is_full() && syns.knows(at, (7, peer(9), 1)));
        assert!(!syns.knows(at, (7, peer(9), 2)), "another connection");
        let later = at + Duration::from_millis(20);
        assert!(!syns.knows(later, (7, peer(9), 1)) && !syns.is_full());
    }
}
