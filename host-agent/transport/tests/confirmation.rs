//! Every transport: when the application decides what becomes of an object that arrived whole
//! ([`Transport::hold_confirmations`]), its sender hears "finished" after that and never before,
//! and "failed" if the application refuses, however long it takes and whatever is lost.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::GeneratedSource;
use ebb_transport::{
    EPHEMERAL_PORTS, Event, ExpectRequest, FlowId, GroupRequest, Part, SendRequest, Status, Suite,
    Transport, TransportKind,
};
use ebb_units::{Duration, Instant};
use ebb_wire::Ipv4Header;

const PORT: u16 = 7000;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);
const ONE_WAY: Duration = Duration::from_micros(20);
/// Longer than any transport waits for a peer that is silent.
const LONG: Duration = Duration::from_secs(60);
const MAX_STEPS: usize = 200_000;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + host as u8)
}

fn source(bytes: u64) -> Arc<GeneratedSource> {
    Arc::new(GeneratedSource { seed: 1, bytes })
}

/// Hosts that hear each other after 20 us. Packets to the group go to all hosts but the first.
struct Hosts {
    now: Instant,
    hosts: Vec<Box<dyn Transport + Send>>,
    arrivals: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    /// Packets from each host that are yet to be lost.
    lose: Vec<u32>,
    /// How flows ended, by host.
    ended: BTreeMap<(usize, FlowId), Status>,
    steps: usize,
}

impl Hosts {
    fn new(kind: TransportKind, count: usize) -> Self {
        let host = |index| {
            let seed = index as u64;
            let mut host = kind
                .transport(address(index), &Suite::default(), EPHEMERAL_PORTS, seed)
                .unwrap();
            host.listen(PORT).unwrap();
            host.hold_confirmations();
            host
        };
        Hosts {
            now: Instant::from_micros(1_000_000),
            hosts: (0..count).map(host).collect(),
            arrivals: BTreeMap::new(),
            sent: 0,
            lose: vec![0; count],
            ended: BTreeMap::new(),
            steps: 0,
        }
    }

    fn send(&mut self, bytes: u64, part: Option<(usize, usize, Part)>) -> FlowId {
        let (from, to, part) = match part {
            Some((from, to, part)) => (from, to, Some(part)),
            None => (0, 1, None),
        };
        let request = SendRequest {
            to: SocketAddrV4::new(address(to), PORT),
            source_port: None,
            source: source(bytes),
            priority: 0,
            part,
            via: ebb_transport::Via::Any,
        };
        let flow = self.hosts[from].send(self.now, request).unwrap();
        self.settle(from);
        flow
    }

    fn confirm(&mut self, host: usize, flow: FlowId) {
        self.hosts[host].confirm(self.now, flow);
        self.settle(host);
    }

    fn abort(&mut self, host: usize, flow: FlowId) {
        self.hosts[host].abort(self.now, flow, "the disk is full");
        self.settle(host);
    }

    fn settle(&mut self, host: usize) {
        let transport = &mut self.hosts[host];
        transport.handle_timeout(self.now);
        while let Some(job) = transport.poll_job() {
            transport.handle_job(self.now, job.run());
        }
        while let Some(event) = transport.poll_event() {
            if let Event::Finished { flow, record } | Event::Failed { flow, record } = event {
                let before = self.ended.insert((host, flow), record.status);
                assert_eq!(before, None, "{flow} of host {host} ended twice");
            }
        }
        let mut packet = Vec::new();
        while self.hosts[host]
            .poll_transmit(self.now, &mut packet)
            .is_some()
        {
            if self.lose[host] > 0 {
                self.lose[host] -= 1;
                continue;
            }
            let to = Ipv4Header::parse(&packet).unwrap().header.dst;
            for other in 0..self.hosts.len() {
                if to == address(other) || (to == GROUP && other > 0) {
                    self.sent += 1;
                    let at = (self.now + ONE_WAY, self.sent);
                    self.arrivals.insert(at, (other, packet.clone()));
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let limit = self.now + time;
        loop {
            let deadlines = self.hosts.iter().filter_map(|host| host.next_deadline());
            let arrival = self.arrivals.first_key_value().map(|(&(at, _), _)| at);
            let next = deadlines.chain(arrival).min().map(|at| at.max(self.now));
            let Some(at) = next.filter(|at| *at <= limit) else {
                break;
            };
            self.steps += 1;
            assert!(self.steps < MAX_STEPS, "no end at {:?}", self.now);
            self.now = at;
            while let Some(entry) = self.arrivals.first_entry().filter(|e| e.key().0 <= at) {
                let (host, packet) = entry.remove();
                self.hosts[host].handle_packet(at, &packet);
            }
            (0..self.hosts.len()).for_each(|host| self.settle(host));
        }
        self.now = limit;
    }

    /// The flow that ended at a host that has only one.
    fn only(&self, host: usize) -> FlowId {
        let mut flows = self.ended.keys().filter(|(at, _)| *at == host);
        let flow = flows.next().expect("nothing ended here").1;
        assert_eq!(flows.next(), None);
        flow
    }

    fn check_that_nothing_stays(&mut self) {
        self.run(LONG);
        assert!(self.hosts.iter().all(|host| !host.is_active()));
    }
}

const SIZES: [u64; 4] = [0, 700, 15_000, 400_000];

#[test]
fn a_sender_is_told_when_the_application_has_stored_the_object() {
    for (kind, bytes) in TransportKind::ALL
        .into_iter()
        .flat_map(|s| SIZES.map(|n| (s, n)))
    {
        let mut net = Hosts::new(kind, 2);
        let flow = net.send(bytes, None);
        net.run(LONG);
        assert_eq!(net.ended[&(1, net.only(1))], Status::Finished);
        assert!(!net.ended.contains_key(&(0, flow)), "{kind}, {bytes}");
        let before = net.now;
        net.confirm(1, net.only(1));
        net.run(ONE_WAY * 3);
        assert_eq!(
            net.ended.get(&(0, flow)),
            Some(&Status::Finished),
            "{kind}, {bytes}, {before:?}"
        );
        net.check_that_nothing_stays();
    }
}

#[test]
fn a_sender_is_told_that_its_object_was_refused() {
    for (kind, bytes) in TransportKind::ALL
        .into_iter()
        .flat_map(|s| SIZES.map(|n| (s, n)))
    {
        let mut net = Hosts::new(kind, 2);
        let flow = net.send(bytes, None);
        net.run(LONG);
        let received = net.only(1);
        net.abort(1, received);
        net.run(ONE_WAY * 3);
        assert!(
            matches!(net.ended.get(&(0, flow)), Some(Status::Failed(_))),
            "{kind}, {bytes}"
        );
        // An object that was confirmed or refused stays so.
        net.confirm(1, received);
        net.check_that_nothing_stays();
    }
}

#[test]
fn a_lost_confirmation_is_repeated() {
    for kind in TransportKind::ALL {
        for wait in [Duration::ZERO, Duration::from_millis(700)] {
            let mut net = Hosts::new(kind, 2);
            let flow = net.send(15_000, None);
            net.run(Duration::from_millis(5));
            net.run(wait);
            net.lose[1] = 2;
            net.confirm(1, net.only(1));
            net.run(LONG);
            assert_eq!(net.ended.get(&(0, flow)), Some(&Status::Finished), "{kind}");
            assert_eq!(net.lose[1], 0);
            net.check_that_nothing_stays();
        }
    }
}

#[test]
fn a_held_object_costs_a_few_packets_a_second() {
    for kind in TransportKind::ALL {
        let mut net = Hosts::new(kind, 2);
        net.send(15_000, None);
        net.run(Duration::from_secs(1));
        let before = net.sent;
        net.run(LONG);
        let packets = net.sent - before;
        // Two per `max_rto_ns`, which is 80 ms or more.
        assert!(packets <= 30 * 60, "{kind}: {packets}");
    }
}

#[test]
fn a_sender_that_dies_meanwhile_leaves_nothing_behind() {
    for kind in TransportKind::ALL {
        let mut net = Hosts::new(kind, 2);
        let flow = net.send(15_000, None);
        net.run(Duration::from_millis(5));
        net.abort(0, flow);
        net.run(Duration::from_millis(5));
        net.confirm(1, net.only(1));
        net.check_that_nothing_stays();
        assert_eq!(net.ended[&(1, net.only(1))], Status::Finished);
    }
}

#[test]
fn a_group_has_finished_when_all_have_stored_it_and_failed_when_one_has_not() {
    for refuses in [false, true] {
        let mut net = Hosts::new(TransportKind::Scdp, 4);
        let request = GroupRequest {
            group: SocketAddrV4::new(GROUP, PORT),
            receivers: (1..4).map(address).collect(),
            source_port: None,
            source: source(300_000),
            priority: 0,
        };
        let flow = net.hosts[0].send_group(net.now, request).unwrap();
        net.settle(0);
        net.run(LONG);
        for host in 1..3 {
            net.confirm(host, net.only(host));
        }
        net.run(LONG);
        // Who keeps the others waiting is served by a flow of its own.
        let open = |net: &Hosts| net.hosts[0].is_active();
        assert!(open(&net), "{:?}", net.ended);
        let last = net.only(3);
        match refuses {
            true => net.abort(3, last),
            false => net.confirm(3, last),
        }
        net.run(LONG);
        let of_sender = net.ended.iter().filter(|((host, _), _)| *host == 0);
        let ends: Vec<&Status> = of_sender.map(|(_, status)| status).collect();
        assert!(net.ended.contains_key(&(0, flow)));
        let failed = ends.iter().any(|end| matches!(end, Status::Failed(_)));
        assert_eq!(failed, refuses, "{ends:?}");
        net.check_that_nothing_stays();
    }
}

#[test]
fn several_senders_of_one_object_are_told_together() {
    for refuses in [false, true] {
        let mut net = Hosts::new(TransportKind::Scdp, 3);
        let request = ExpectRequest {
            port: PORT,
            session: 7,
            senders: vec![address(0), address(2)],
        };
        let received = net.hosts[1].expect(net.now, request).unwrap();
        let flows = [(0, 0), (2, 1)].map(|(host, sender)| {
            let part = Part {
                session: 7,
                sender,
                senders: 2,
            };
            (host, net.send(300_000, Some((host, 1, part))))
        });
        net.run(LONG);
        assert_eq!(net.ended[&(1, received)], Status::Finished);
        assert_eq!(net.ended.len(), 1, "{:?}", net.ended);
        match refuses {
            true => net.abort(1, received),
            false => net.confirm(1, received),
        }
        net.run(LONG);
        for key in flows {
            let failed = matches!(net.ended[&key], Status::Failed(_));
            assert_eq!(failed, refuses, "{:?}", net.ended);
        }
        net.check_that_nothing_stays();
    }
}
