//! Hosts of one transport, a wire of 20 us between any two of them, and a clock that jumps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::{GeneratedSource, ObjectSource};
use ebb_transport::tcp::Connections;
use ebb_transport::trevi::{Mode, Stragglers};
use ebb_transport::{
    EPHEMERAL_PORTS, Event, ExpectRequest, FlowId, GroupRequest, Part, SendRequest, Status, Suite,
    Transport, TransportKind, Via,
};
use ebb_units::{Duration, Instant};
use ebb_wire::Ipv4Header;

pub const PORT: u16 = 7000;
pub const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
/// Addresses of the hosts, by number; a world of two has the first two.
pub const ADDRESSES: [Ipv4Addr; 4] = [
    VICTIM,
    PEER,
    Ipv4Addr::new(10, 0, 0, 4),
    Ipv4Addr::new(10, 0, 0, 5),
];
/// Session of an object that comes from several hosts.
const SESSION: u32 = 77;
const ONE_WAY: Duration = Duration::from_micros(20);
/// Most packets that a host may send at one instant; one that sends more would never stop.
const MAX_PACKETS_AT_ONCE: usize = 5_000;
const MAX_STEPS: usize = 200_000;
/// Time after which an application that holds its confirmations confirms an object: longer than
/// timeouts are, shorter than a sender waits.
const DECISION: Duration = Duration::from_millis(300);
/// Longest answer to a stranger, which has asked for nothing, so that it gets headers only: of IPv4, and of TCP with
/// all its options or of Ebb.
const MAX_ANSWER_BYTES: usize = 20 + 60;
/// Packets kept to be damaged and sent again.
const MAX_CAPTURED: usize = 64;

/// Outcome of one object that was sent from a host to another.
struct Transfer {
    from: usize,
    to: usize,
    flow: FlowId,
    expected: Vec<u8>,
    end: Option<Status>,
}

pub struct World {
    pub now: Instant,
    pub hosts: Vec<Box<dyn Transport + Send>>,
    /// Members of multicast groups, by their addresses.
    groups: BTreeMap<Ipv4Addr, Vec<usize>>,
    arrivals: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    packets: u64,
    transfers: Vec<Transfer>,
    /// Content that receivers got, by host, flow and sender.
    received: BTreeMap<(usize, FlowId), (SocketAddrV4, Vec<u8>)>,
    finished: Vec<(usize, FlowId)>,
    /// Flows that have been opened at the victim and not ended.
    pub open_at_victim: usize,
    /// Packets that the hosts sent to addresses that are not theirs.
    pub packets_to_strangers: u64,
    pub captured: Vec<Vec<u8>>,
    /// Number of packets that the wire will lose next.
    pub lose: u8,
    steps: usize,
    pub paused: Vec<(usize, FlowId)>,
    /// The applications confirm a received object [`DECISION`] after its arrival.
    holds: bool,
    /// Confirmations to come, by time, host and flow.
    decisions: BTreeSet<(Instant, usize, FlowId)>,
}

/// Configuration of the hosts, which each input selects.
#[derive(Clone, Copy, Default)]
pub struct Ways {
    /// The applications confirm what they received only after a while.
    pub holds: bool,
    /// Connections of TCP stay open.
    pub open: bool,
    /// SYNs of TCP carry data.
    pub early: bool,
    /// The policy of groups of Trevi for a receiver that the others wait for.
    pub stragglers: Stragglers,
}

impl Ways {
    /// Selects by the length of the input.
    pub fn of(bytes: &[u8]) -> Self {
        let length = bytes.len();
        Ways {
            holds: length % 2 == 1,
            open: length / 2 % 2 == 1,
            early: length / 4 % 2 == 1,
            stragglers: [Stragglers::Drop, Stragglers::Wait, Stragglers::Unsubscribe]
                [length / 8 % 3],
        }
    }
}

/// Parameters of all transports, with limits so small that a fuzzer reaches them.
fn suite(ways: Ways) -> Suite {
    let mut suite = Suite::default();
    suite.tcp.data_in_syn = ways.early;
    if ways.open {
        suite.tcp.connections = Connections::Open;
        suite.tcp.max_connections_per_peer = 2;
        suite.tcp.keep_open_ns = 50_000_000;
    }
    suite.tcp.max_flows = 16;
    suite.tcp.max_half_open = 4;
    suite.tcp.receive_buffer_bytes = 60_000;
    suite.ndp.max_flows = 16;
    suite.ndp.max_flows_per_peer = 8;
    suite.ndp.reorder_buffer_packets = 32;
    suite.scdp.max_flows = 16;
    suite.scdp.max_flows_per_peer = 8;
    suite.scdp.block_symbols = 8;
    suite.trevi.max_flows = 16;
    suite.trevi.max_flows_per_peer = 8;
    suite.trevi.block_symbols = 8;
    suite.trevi.progress_timeout_ns = 10_000_000_000;
    suite.trevi.stragglers = ways.stragglers;
    // Trevi has no other use for these two, which are options of TCP.
    suite.trevi.mode = match (ways.early, ways.open) {
        (false, false) => Mode::ConstantRate,
        (false, true) => Mode::Push,
        (true, false) => Mode::Pull,
        (true, true) => Mode::Hybrid,
    };
    suite
}

impl World {
    /// Two hosts, with one object on its way in each direction.
    pub fn new(kind: TransportKind, ways: Ways) -> Self {
        let mut world = World::of(kind, ways, 2);
        world.send(0, 40_000);
        world.send(1, 50_000);
        world
    }

    /// Four hosts of a transport with groups: the first writes to all others, the second reads what all
    /// others have, and the third sends to the fourth.
    pub fn together(kind: TransportKind, ways: Ways) -> Self {
        let mut world = World::of(kind, ways, 4);
        world.write(0, 40_000);
        world.read(1, 50_000);
        world.send(2, 20_000);
        world
    }

    fn of(kind: TransportKind, ways: Ways, count: usize) -> Self {
        let (suite, holds) = (suite(ways), ways.holds);
        let host = |address, seed| {
            let mut host = kind
                .transport(address, &suite, EPHEMERAL_PORTS, seed)
                .expect("valid parameters");
            host.listen(PORT).expect("a port");
            if holds {
                host.hold_confirmations();
            }
            host
        };
        World {
            now: Instant::from_micros(1_000_000),
            hosts: ADDRESSES[..count]
                .iter()
                .zip(1..)
                .map(|(a, seed)| host(*a, seed))
                .collect(),
            groups: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            packets: 0,
            transfers: Vec::new(),
            received: BTreeMap::new(),
            finished: Vec::new(),
            open_at_victim: 0,
            packets_to_strangers: 0,
            captured: Vec::new(),
            lose: 0,
            steps: 0,
            paused: Vec::new(),
            holds,
            decisions: BTreeSet::new(),
        }
    }

    /// Host `from` sends an object to the next one.
    pub fn send(&mut self, from: usize, bytes: u64) {
        let to = (from + 1) % self.hosts.len();
        let source = self.source(bytes);
        self.send_to(from, to, source, None);
    }

    /// All hosts but `to` send it the same object at once.
    fn read(&mut self, to: usize, bytes: u64) {
        let others = self.all_but(to);
        let request = ExpectRequest {
            port: PORT,
            session: SESSION,
            senders: others.iter().map(|&host| ADDRESSES[host]).collect(),
        };
        let flow = self.hosts[to]
            .expect(self.now, request)
            .expect("many to one");
        // It has several senders, so its entry has the receiver's address in place of a peer's.
        self.received.insert(
            (to, flow),
            (SocketAddrV4::new(ADDRESSES[to], 0), Vec::new()),
        );
        self.settle(to);
        let source = self.source(bytes);
        for (sender, &from) in others.iter().enumerate() {
            let part = Part {
                session: SESSION,
                sender: sender as u8,
                senders: others.len() as u8,
            };
            self.send_to(from, to, source, Some(part));
        }
    }

    /// Host `from` sends an object to a group of all others.
    fn write(&mut self, from: usize, bytes: u64) {
        let others = self.all_but(from);
        let group = Ipv4Addr::new(239, 0, 0, from as u8);
        let source = self.source(bytes);
        let request = GroupRequest {
            group: SocketAddrV4::new(group, PORT),
            receivers: others.iter().map(|&host| ADDRESSES[host]).collect(),
            source_port: None,
            source: Arc::new(source),
            priority: 0,
        };
        self.groups.insert(group, others.clone());
        let flow = self.hosts[from]
            .send_group(self.now, request)
            .expect("groups");
        for to in others {
            self.note(from, to, flow, source);
        }
        self.settle(from);
    }

    fn all_but(&self, host: usize) -> Vec<usize> {
        (0..self.hosts.len())
            .filter(|&other| other != host)
            .collect()
    }

    /// Content that no other object has.
    fn source(&self, bytes: u64) -> GeneratedSource {
        let seed = self.transfers.len() as u64;
        GeneratedSource { seed, bytes }
    }

    fn send_to(&mut self, from: usize, to: usize, source: GeneratedSource, part: Option<Part>) {
        let request = SendRequest {
            to: SocketAddrV4::new(ADDRESSES[to], PORT),
            source_port: None,
            source: Arc::new(source),
            priority: 0,
            part,
            via: Via::Any,
        };
        // An error: as many flows are open as the limits allow.
        if let Ok(flow) = self.hosts[from].send(self.now, request) {
            self.note(from, to, flow, source);
        }
        self.settle(from);
    }

    fn note(&mut self, from: usize, to: usize, flow: FlowId, source: GeneratedSource) {
        let mut expected = vec![0; source.bytes as usize];
        source.read_at(0, &mut expected).expect("generated");
        self.transfers.push(Transfer {
            from,
            to,
            flow,
            expected,
            end: None,
        });
    }

    /// Number `index` of the host's flows, modulo their count. None: it has none.
    pub fn flow(&self, host: usize, index: u8) -> Option<FlowId> {
        let sent = self
            .transfers
            .iter()
            .filter(|t| t.from == host)
            .map(|t| t.flow);
        let received = self
            .received
            .keys()
            .filter(|(h, _)| *h == host)
            .map(|(_, flow)| *flow);
        let flows: Vec<FlowId> = sent.chain(received).collect();
        (!flows.is_empty()).then(|| flows[usize::from(index) % flows.len()])
    }

    pub fn pause(&mut self, host: usize, flow: FlowId, paused: bool) {
        self.hosts[host].set_paused(self.now, flow, paused);
        self.paused.retain(|entry| *entry != (host, flow));
        if paused {
            self.paused.push((host, flow));
        }
        self.settle(host);
    }

    /// Hands a packet to a host at once, whoever it claims to be from.
    pub fn inject(&mut self, host: usize, packet: &[u8]) {
        let now = self.now;
        self.hosts[host].handle_packet(now, packet);
        self.settle(host);
    }

    /// Lets a host do all that is due now: timers, jobs, events and packets.
    pub fn settle(&mut self, host: usize) {
        let now = self.now;
        let transport = &mut self.hosts[host];
        transport.handle_timeout(now);
        let mut jobs = 0;
        while let Some(job) = transport.poll_job() {
            transport.handle_job(now, job.run());
            jobs += 1;
            assert!(jobs < 1000, "jobs without end");
        }
        while let Some(event) = transport.poll_event() {
            match event {
                Event::Opened { flow, peer, .. } => {
                    self.received.insert((host, flow), (peer, Vec::new()));
                    self.open_at_victim += usize::from(host == 0);
                }
                Event::Delivered { flow, bytes } => {
                    let (_, received) = self
                        .received
                        .get_mut(&(host, flow))
                        .expect("delivered before it was opened");
                    received.extend_from_slice(&bytes);
                    assert!(received.len() < 10_000_000, "more than anybody sent");
                    transport.recycle(bytes);
                }
                Event::Finished { flow, record } | Event::Failed { flow, record } => {
                    assert!(
                        !self.finished.contains(&(host, flow)),
                        "{flow} of host {host} ended twice"
                    );
                    self.finished.push((host, flow));
                    if self.received.contains_key(&(host, flow)) {
                        self.open_at_victim -= usize::from(host == 0);
                        if self.holds && record.status == Status::Finished {
                            self.decisions.insert((now + DECISION, host, flow));
                        }
                    }
                    let transfer = self.transfers.iter_mut();
                    for transfer in transfer.filter(|t| (t.from, t.flow) == (host, flow)) {
                        transfer.end = Some(record.status.clone());
                    }
                }
                Event::Heard { .. } | Event::Detached { .. } => {}
            }
        }
        let mut packet = Vec::new();
        for sent in 0.. {
            assert!(
                sent < MAX_PACKETS_AT_ONCE,
                "host {host} never stops sending"
            );
            if self.hosts[host].poll_transmit(now, &mut packet).is_none() {
                break;
            }
            self.forward(&packet);
        }
    }

    fn forward(&mut self, packet: &[u8]) {
        let header = Ipv4Header::parse(packet)
            .expect("hosts send valid packets")
            .header;
        let to = self.hosts_at(header.dst);
        if to.is_empty() {
            self.packets_to_strangers += 1;
            let bytes = packet.len();
            assert!(bytes <= MAX_ANSWER_BYTES, "{bytes} bytes to a stranger");
            return;
        }
        if self.captured.len() == MAX_CAPTURED {
            self.captured.remove(0);
        }
        self.captured.push(packet.to_vec());
        if self.lose > 0 {
            self.lose -= 1;
            return;
        }
        for host in to {
            self.packets += 1;
            self.arrivals
                .insert((self.now + ONE_WAY, self.packets), (host, packet.to_vec()));
        }
    }

    /// Numbers of the hosts that get packets to this address; empty: it is a stranger's.
    pub fn hosts_at(&self, address: Ipv4Addr) -> Vec<usize> {
        let group = self.groups.get(&address).cloned();
        group.unwrap_or_else(|| {
            let mut hosts = ADDRESSES[..self.hosts.len()].iter();
            hosts
                .position(|&host| host == address)
                .into_iter()
                .collect()
        })
    }

    fn next_event(&self) -> Option<Instant> {
        let deadlines = self.hosts.iter().filter_map(|host| host.next_deadline());
        let arrival = self.arrivals.first_key_value().map(|(&(at, _), _)| at);
        let decision = self.decisions.first().map(|&(at, ..)| at);
        let events = deadlines.chain(arrival).chain(decision);
        events.min().map(|at| at.max(self.now))
    }

    /// Lets time pass until `limit` at the latest, or until nothing is left to happen.
    pub fn run_until(&mut self, limit: Instant) {
        while let Some(at) = self.next_event().filter(|at| *at <= limit) {
            self.steps += 1;
            assert!(self.steps < MAX_STEPS, "no end at {:?}", self.now);
            self.now = at;
            while let Some(entry) = self.arrivals.first_entry().filter(|e| e.key().0 <= at) {
                let (host, packet) = entry.remove();
                self.hosts[host].handle_packet(at, &packet);
            }
            while let Some((_, host, flow)) = self.decisions.first().filter(|d| d.0 <= at).copied()
            {
                self.decisions.pop_first();
                self.hosts[host].confirm(at, flow);
            }
            (0..self.hosts.len()).for_each(|host| self.settle(host));
        }
        self.now = self.now.max(limit);
    }

    /// True when nothing is open and nothing lingers.
    pub fn is_quiet(&self) -> bool {
        !self.hosts.iter().any(|host| host.is_active())
    }

    /// Panics unless every object has arrived and its sender knows.
    pub fn check_that_all_arrived(&self) {
        for transfer in &self.transfers {
            assert_eq!(
                transfer.end,
                Some(Status::Finished),
                "{} of host {}",
                transfer.flow,
                transfer.from
            );
            // No two objects have the same content.
            let arrived = self
                .received
                .iter()
                .any(|((host, _), (_, bytes))| *host == transfer.to && *bytes == transfer.expected);
            assert!(arrived, "an object to host {} is damaged", transfer.to);
        }
    }
}

#[cfg(test)]
#[path = "forgery_tests.rs"]
mod forgery_tests;

#[cfg(test)]
mod tests {
    use super::*;

    /// Damage has something to damage.
    #[test]
    fn all_arrive_that_nobody_damages() {
        for kind in [TransportKind::Scdp, TransportKind::Trevi] {
            for length in 0..24 {
                let ways = Ways::of(&vec![0; length]);
                let mut world = World::together(kind, ways);
                let end = world.now + Duration::from_secs(60);
                world.run_until(end);
                world.check_that_all_arrived();
                assert!(world.is_quiet(), "{kind}, {length}");
            }
        }
    }
}
