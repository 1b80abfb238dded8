//! A host that sends made-up notifications of drops (FastLane, `docs/drop-notification.md`): to hosts
//! whose flows it does not know, how much of the class of notifications others lose to it; to hosts whose
//! packets it sees, what they believe.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{Ecn, Ipv4Header, Protocol, TcpFlags, TcpHeader, TcpOptions};

use super::overheard::{Overheard, Seen};

/// Content of the packet that is claimed to have been dropped, with its TCP header.
const CLAIMED_BYTES: usize = 1480;

/// Messages that a host forges.
#[derive(Clone, Debug)]
pub struct Forgery {
    /// To whom, in turn, and what is known of the packets of each; `None`: nothing, and what is claimed
    /// names flows that do not exist.
    pub targets: Vec<(Ipv4Addr, Option<Arc<Overheard>>)>,
    /// How often; above 0.
    pub every: Duration,
    /// From when on.
    pub start: Instant,
    /// Until when.
    pub stop: Instant,
    /// DSCP of notifications.
    pub dscp: u8,
}

/// The forging host.
pub struct Forger {
    forgery: Forgery,
    from: Ipv4Addr,
    /// The numbers that it makes up: a linear congruential generator, whose upper half is used.
    state: u64,
    /// When the next one is due.
    due: Instant,
    sent: usize,
    packet: Vec<u8>,
}

impl Forger {
    /// A forger at this address.
    pub fn new(from: Ipv4Addr, forgery: Forgery, seed: u64) -> Self {
        Forger {
            due: forgery.start,
            forgery,
            from,
            state: seed,
            sent: 0,
            packet: Vec::new(),
        }
    }

    /// When the next one is due. None: there is none to come.
    pub fn due(&self) -> Option<Instant> {
        (self.due < self.forgery.stop).then_some(self.due)
    }

    fn number(&mut self) -> u32 {
        // Constants of Knuth, The Art of Computer Programming, 3.3.4.
        let product = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = product.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 32) as u32
    }

    /// The forgery that is due by `now`. A target that has not sent lately misses its turn.
    pub fn poll(&mut self, now: Instant) -> Option<&mut Vec<u8>> {
        loop {
            self.due().filter(|due| *due <= now)?;
            self.due += self.forgery.every;
            let turn = self.sent % self.forgery.targets.len();
            self.sent += 1;
            let (to, overheard) = &self.forgery.targets[turn];
            match overheard {
                None => self.invent(*to),
                Some(overheard) => match overheard.latest(now) {
                    Some(seen) => self.repeat(&seen),
                    None => continue,
                },
            }
            return Some(&mut self.packet);
        }
    }

    /// Claims that a packet was dropped which has been sent.
    fn repeat(&mut self, seen: &Seen) {
        self.packet.clear();
        let dscp = self.forgery.dscp;
        Ipv4Header::new(seen.to, seen.from, Protocol::TCP, dscp, Ecn::NotEct)
            .emit(seen.bytes, &mut self.packet);
        self.packet.extend_from_slice(&seen.header);
    }

    /// Claims that a packet was dropped which there was not.
    fn invent(&mut self, to: Ipv4Addr) {
        self.packet.clear();
        let (ports, seq, ack) = (self.number(), self.number(), self.number());
        let dscp = self.forgery.dscp;
        Ipv4Header::new(self.from, to, Protocol::TCP, dscp, Ecn::NotEct)
            .emit(CLAIMED_BYTES, &mut self.packet);
        let header = TcpHeader {
            source_port: (ports >> 16) as u16,
            destination_port: ports as u16,
            seq,
            ack,
            flags: TcpFlags::ACK,
            window: 0,
            options: TcpOptions::default(),
        };
        header.emit(to, self.from, &[], &mut self.packet);
    }
}
