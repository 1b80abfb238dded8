//! The transports of a host. Most hosts have one, which gets every packet and every turn; of several each
//! has ports of its own.

use std::net::Ipv4Addr;

use ebb_host::{Engine, Ports, TrafficTransports};
use ebb_transport::nic::DscpSet;
use ebb_transport::{
    EPHEMERAL_PORTS, Event, FlowId, Job, JobResult, Progress, Selector, Suite, Transport,
    TransportKind, TxInfo,
};
use ebb_units::Instant;

/// Ports for answers to requests. They lie below the ports that flows leave from, so that none is
/// used twice.
const REPLY_PORTS: (u16, u16) = (32_768, EPHEMERAL_PORTS.0 - 1);

/// The transports of a host.
pub struct Transports {
    slots: Vec<Slot>,
    /// Whose turn it is to send, an index into `slots`.
    turn: usize,
    /// DSCP of packets that leave only when no other packet is there.
    scavenger: u8,
}

/// A transport and its ports.
struct Slot {
    kind: TransportKind,
    transport: Box<dyn Transport + Send>,
    /// [`Transport::selectors`].
    selectors: Vec<Selector>,
    /// Where its flows leave from.
    sources: (u16, u16),
    /// Where the answers to its requests come to.
    replies: (u16, u16),
    /// The packet that leaves in its next turn, if there are several transports; `None` if it has not
    /// been asked for yet, or there is none.
    head: Option<TxInfo>,
    /// The bytes of that packet.
    packet: Vec<u8>,
}

/// The part `index` of `count` about equal parts of a range of ports.
fn part(range: (u16, u16), index: usize, count: usize) -> (u16, u16) {
    let ports = usize::from(range.1 - range.0) + 1;
    let before = |index: usize| usize::from(range.0) + ports * index / count;
    (before(index) as u16, (before(index + 1) - 1) as u16)
}

impl Transports {
    /// The transports that a workload needs, on the host with this address.
    pub fn new(
        transports: &TrafficTransports,
        address: Ipv4Addr,
        suite: &Suite,
        seed: u64,
    ) -> Result<Self, String> {
        let count = transports.all().count();
        let slot = |(index, kind): (usize, TransportKind)| {
            let sources = part(EPHEMERAL_PORTS, index, count);
            // The first one draws the numbers that it would draw if it were the only one.
            let seed = seed.wrapping_add(match index {
                0 => 0,
                _ => kind.entry().seed() << 32,
            });
            let transport = kind.transport(address, suite, sources, seed)?;
            Ok(Slot {
                kind,
                selectors: transport.selectors(),
                transport,
                sources,
                replies: part(REPLY_PORTS, index, count),
                head: None,
                packet: Vec::new(),
            })
        };
        Ok(Transports {
            slots: transports
                .all()
                .enumerate()
                .map(slot)
                .collect::<Result<_, String>>()?,
            turn: 0,
            scavenger: suite.dscp.scavenger,
        })
    }

    /// A complete IPv4 packet arrived.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let owner = match &mut *self.slots {
            [only] => Some(only),
            slots => slots.iter_mut().find(|slot| slot.owns(packet)),
        };
        if let Some(slot) = owner {
            slot.transport.handle_packet(now, packet);
        }
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for slot in &mut self.slots {
            slot.transport.handle_timeout(now);
        }
    }

    /// When a transport has something to do although nothing arrived; `None` if none has.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        if let [only] = &*self.slots {
            return only.transport.next_deadline();
        }
        let slots = self.slots.iter();
        slots
            .filter_map(|slot| slot.transport.next_deadline())
            .min()
    }

    /// The next packet to leave, of the classes in `wanted`, written over `packet`: in the order of
    /// [`Urgency`](ebb_transport::Urgency), transports in turn.
    pub fn poll_transmit_of(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        if let [only] = &mut *self.slots {
            return only.transport.poll_transmit_of(now, wanted, packet);
        }
        for slot in &mut self.slots {
            if slot.head.is_none() {
                let transport = &mut slot.transport;
                slot.head = transport.poll_transmit_of(now, wanted, &mut slot.packet);
            }
        }
        let count = self.slots.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let heads = in_turn.filter_map(|index| {
            let slot = &self.slots[index];
            Some((slot.head?.urgency(&slot.packet, self.scavenger), index))
        });
        // Among equals, the first one in turn.
        let (_, index) = heads.min_by_key(|(urgency, _)| *urgency)?;
        self.turn = index + 1;
        let slot = &mut self.slots[index];
        std::mem::swap(packet, &mut slot.packet);
        slot.head.take()
    }

    /// Events of the flows of any transport.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(TransportKind, Event)> {
        if let [only] = &mut *self.slots {
            return Some((only.kind, only.transport.poll_event()?));
        }
        let mut slots = self.slots.iter_mut();
        slots.find_map(|slot| Some((slot.kind, slot.transport.poll_event()?)))
    }

    /// Work that a transport hands out.
    #[inline]
    pub fn poll_job(&mut self) -> Option<(TransportKind, Job)> {
        if let [only] = &mut *self.slots {
            return Some((only.kind, only.transport.poll_job()?));
        }
        let mut slots = self.slots.iter_mut();
        slots.find_map(|slot| Some((slot.kind, slot.transport.poll_job()?)))
    }

    /// The result of a job of a transport.
    pub fn handle_job(&mut self, now: Instant, kind: TransportKind, result: JobResult) {
        if let Some(transport) = self.transport(kind) {
            transport.handle_job(now, result);
        }
    }

    /// How far a flow of a transport is; `None` if there is no such flow.
    pub fn progress(&self, kind: TransportKind, flow: FlowId) -> Option<Progress> {
        let slot = self.slots.iter().find(|slot| slot.kind == kind);
        slot?.transport.progress(flow)
    }
}

impl Slot {
    /// Whether a packet is for this one of several transports.
    fn owns(&self, packet: &[u8]) -> bool {
        let selector = self.selectors.iter().find(|s| s.matches(packet));
        let port = selector.and_then(|selector| selector.port(packet));
        port.is_some_and(|port| {
            let within = |(first, last): (u16, u16)| (first..=last).contains(&port);
            port == self.kind.service_port() || within(self.sources) || within(self.replies)
        })
    }
}

impl Engine for Transports {
    fn transport(&mut self, kind: TransportKind) -> Option<&mut dyn Transport> {
        let slot = self.slots.iter_mut().find(|slot| slot.kind == kind)?;
        Some(&mut *slot.transport)
    }

    fn open(&mut self, kind: TransportKind) -> Result<(), String> {
        match self.transport(kind) {
            Some(_) => Ok(()),
            None => Err(format!("{kind} does not run here")),
        }
    }

    fn listen(&mut self, kind: TransportKind, port: u16) -> Result<(), String> {
        self.open(kind)?;
        let transport = self.transport(kind);
        transport.map_or(Ok(()), |transport| {
            transport.listen(port).map_err(|e| e.to_string())
        })
    }

    fn unlisten(&mut self, _: Instant, kind: TransportKind, port: u16) {
        if let Some(transport) = self.transport(kind) {
            transport.unlisten(port);
        }
    }

    fn ports(&self, kind: TransportKind) -> Option<Ports> {
        let slot = self.slots.iter().find(|slot| slot.kind == kind)?;
        Some(Ports {
            sources: None,
            replies: slot.replies,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_range_are_all_of_it() {
        assert_eq!(part(EPHEMERAL_PORTS, 0, 1), EPHEMERAL_PORTS);
        for count in 1..=12 {
            let mut next = u32::from(REPLY_PORTS.0);
            for index in 0..count {
                let (first, last) = part(REPLY_PORTS, index, count);
                assert_eq!(u32::from(first), next);
                assert!(first < last);
                next = u32::from(last) + 1;
            }
            assert_eq!(next, u32::from(REPLY_PORTS.1) + 1);
        }
    }
}
