use std::net::Ipv4Addr;

use ebb_units::{BitRate, Duration};
use ebb_wire::{Ecn, TcpFlags};
use proptest::prelude::*;

use super::super::congestion::{DCTCP, RENO, RENO_ECN};
use super::*;
use crate::nic::NicParams;
use crate::object::{GeneratedSource, ObjectSource};
use crate::receiver_driven::{DscpParams, EPHEMERAL_PORTS};
use crate::record::{FlowRecord, Status};

const PORT: u16 = 7000;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + host as u8)
}

/// Hosts with a 1 Gbit/s NIC each behind one switch: a packet occupies its sender's NIC, then the
/// port of its destination, whose queue marks above `mark_above` and drops above `capacity`.
struct Rack {
    now: Instant,
    hosts: Vec<TcpEndpoint>,
    nic_free: Vec<Instant>,
    port_free: Vec<Instant>,
    /// By time, and by order of sending where that is the same.
    arrivals: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    forwarded: u64,
    mark_above: u64,
    capacity: u64,
    dead: Vec<bool>,
    max_queue: u64,
    drops: u64,
    events: Vec<(usize, Event)>,
    /// Full packets in the order in which they left: from which host, to which address.
    left: Vec<(usize, Ipv4Addr)>,
    /// Each host refuses objects as soon as they are complete.
    refuse: bool,
}

const RATE: BitRate = BitRate::from_mbps(1000);

impl Rack {
    fn new(hosts: usize, algorithm: Algorithm, pacer: bool) -> Self {
        Self::with(TcpParams::default(), hosts, algorithm, pacer)
    }

    fn with(params: TcpParams, hosts: usize, algorithm: Algorithm, pacer: bool) -> Self {
        let endpoint = |host| {
            let pacer = pacer.then(PacerParams::default);
            let params = params.clone();
            let config = HostConfig {
                address: address(host),
                nic: NicParams::default(),
                dscp: DscpParams::default(),
                source_ports: EPHEMERAL_PORTS,
                seed: host as u64,
            };
            TcpEndpoint::new(config, "test", algorithm.clone(), params, pacer.as_ref()).unwrap()
        };
        Rack {
            now: Instant::from_micros(1_000_000),
            hosts: (0..hosts).map(endpoint).collect(),
            nic_free: vec![Instant::ZERO; hosts],
            port_free: vec![Instant::ZERO; hosts],
            arrivals: BTreeMap::new(),
            forwarded: 0,
            mark_above: u64::MAX,
            capacity: u64::MAX,
            dead: vec![false; hosts],
            max_queue: 0,
            drops: 0,
            events: Vec::new(),
            left: Vec::new(),
            refuse: false,
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: u64) -> FlowId {
        let to = SocketAddrV4::new(address(to), PORT);
        let source = Arc::new(GeneratedSource {
            seed: from as u64,
            bytes,
        });
        let request = SendRequest {
            to,
            source_port: None,
            source,
            priority: 0,
            part: None,
            via: crate::Via::Any,
        };
        self.hosts[from].send(self.now, request).unwrap()
    }

    fn forward(&mut self, mut packet: Vec<u8>) {
        let header = Ipv4Header::parse(&packet).unwrap().header;
        let Some(port) = (0..self.hosts.len()).find(|&host| address(host) == header.dst) else {
            return;
        };
        let queue = RATE.bytes_in(self.port_free[port].since(self.now));
        self.max_queue = self.max_queue.max(queue);
        if queue > self.capacity {
            self.drops += 1;
            return;
        }
        if queue > self.mark_above && header.ecn != Ecn::NotEct {
            let payload = packet.split_off(Ipv4Header::BYTES);
            packet.clear();
            Ipv4Header {
                ecn: Ecn::Ce,
                ..header
            }
            .emit(payload.len(), &mut packet);
            packet.extend(payload);
        }
        let departure = self.port_free[port].max(self.now) + RATE.time_for(packet.len() as u64);
        self.port_free[port] = departure;
        self.forwarded += 1;
        let arrival = departure + Duration::from_micros(20);
        self.arrivals
            .insert((arrival, self.forwarded), (port, packet));
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(entry) = self.arrivals.first_entry().filter(|e| e.key().0 <= now) {
            let (host, packet) = entry.remove();
            if !self.dead[host] {
                self.hosts[host].handle_packet(now, &packet);
            }
        }
        for host in 0..self.hosts.len() {
            if self.dead[host] {
                continue;
            }
            self.hosts[host].handle_timeout(now);
            let deadline = self.hosts[host].next_deadline();
            assert!(
                deadline.is_none_or(|at| at > now),
                "a driver would spin at {now:?}"
            );
            while let Some(event) = self.hosts[host].poll_event() {
                if let (Event::Finished { flow, record }, true) = (&event, self.refuse)
                    && record.role == Role::Receiver
                {
                    self.hosts[host].abort(now, *flow, "wrong hash");
                }
                self.events.push((host, event));
            }
            let mut packet = Vec::new();
            while self.nic_free[host] <= now
                && self.hosts[host].poll_transmit(now, &mut packet).is_some()
            {
                self.nic_free[host] = now + RATE.time_for(packet.len() as u64);
                let to = Ipv4Header::parse(&packet).unwrap().header.dst;
                if packet.len() == 1500 {
                    self.left.push((host, to));
                }
                self.forward(packet.clone());
            }
        }
    }

    fn run_until(&mut self, limit: Instant) {
        for _ in 0..1_000_000 {
            self.step();
            let nics = self.nic_free.iter().copied().filter(|&at| at > self.now);
            let hosts = self
                .hosts
                .iter()
                .zip(&self.dead)
                .filter(|(_, dead)| !**dead);
            let next = hosts
                .filter_map(|(host, _)| host.next_deadline())
                .filter(|&at| at > self.now)
                .chain(nics)
                .chain(self.arrivals.first_key_value().map(|(&(at, _), _)| at))
                .min();
            match next {
                Some(at) if at <= limit => self.now = at,
                _ => return,
            }
        }
        panic!("livelock at {:?}", self.now);
    }

    fn run(&mut self) {
        self.run_until(Instant::FAR_FUTURE - Duration::from_secs(1));
    }

    fn records(&self, role: Role) -> Vec<&FlowRecord> {
        self.events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Finished { record, .. } | Event::Failed { record, .. } => Some(record),
                _ => None,
            })
            .filter(|record| record.role == role)
            .collect()
    }

    fn failure(&self, role: Role) -> String {
        match &self.records(role)[..] {
            [
                FlowRecord {
                    status: Status::Failed(reason),
                    ..
                },
            ] => reason.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_object_is_delivered_with_its_events_and_records() {
    let mut rack = Rack::new(2, DCTCP, false);
    rack.hosts[1].listen(PORT).unwrap();
    rack.send(0, 1, 500_000);
    rack.run();
    let mut expected = vec![0; 500_000];
    GeneratedSource {
        seed: 0,
        bytes: 500_000,
    }
    .read_at(0, &mut expected)
    .unwrap();
    let mut received = Vec::new();
    let mut kinds = Vec::new();
    for (host, event) in &rack.events {
        match event {
            Event::Opened { local, .. } => kinds.push((*host, "opened", local.port() == PORT)),
            Event::Delivered { bytes, .. } => received.extend_from_slice(bytes),
            Event::Finished { .. } => kinds.push((*host, "finished", true)),
            Event::Failed { .. } => kinds.push((*host, "failed", true)),
            Event::Detached { .. } => kinds.push((*host, "detached", true)),
            Event::Heard { peer, .. } => {
                kinds.push((*host, "heard", *peer == address(1 - *host)));
            }
        }
    }
    assert!(received == expected);
    assert_eq!(
        kinds,
        [
            (0, "heard", true),
            (1, "opened", true),
            (1, "heard", true),
            (1, "finished", true),
            (0, "finished", true)
        ]
    );
    let sender = rack.records(Role::Sender)[0];
    assert_eq!(sender.stream_bytes, 500_000);
    assert_eq!(sender.counters.packets_sent, 343);
    assert_eq!(sender.counters.payload_bytes_sent, 500_000);
    assert_eq!(sender.counters.retransmitted, 0);
    // 500 kB with headers take 4.11 ms at 1 Gbit/s.
    assert!(
        sender.duration_ns > 4_110_000 && sender.duration_ns < 4_700_000,
        "{sender:?}"
    );
    let summary = sender.tcp.unwrap();
    assert!(
        summary.srtt_ns.is_some_and(|rtt| rtt > 40_000),
        "{summary:?}"
    );
    assert!(summary.marked_fraction.is_some_and(|share| share < 1.0));
    assert_eq!(summary.dctcp_alpha, summary.marked_fraction);
    let receiver = rack.records(Role::Receiver)[0];
    assert_eq!(
        (receiver.stream_bytes, receiver.session),
        (500_000, sender.session)
    );
    assert_eq!(receiver.counters.packets_received, 343);
    assert!(
        rack.hosts.iter().all(|host| !host.is_active()),
        "nothing is left behind"
    );
}

#[test]
fn a_port_nobody_listens_on_refuses() {
    let mut rack = Rack::new(2, RENO, false);
    rack.send(0, 1, 1000);
    rack.run();
    assert!(rack.failure(Role::Sender).starts_with("connection refused"));
    assert_eq!(rack.hosts[1].counters().resets_sent, 1);
    assert!(!rack.hosts[0].is_active());
}

#[test]
fn a_host_that_is_not_there_is_given_up() {
    let mut rack = Rack::new(2, RENO, false);
    rack.dead[1] = true;
    rack.send(0, 1, 1000);
    rack.run();
    assert_eq!(rack.failure(Role::Sender), "no answer to 29 SYNs");
}

#[test]
fn a_receiver_that_vanishes_fails_the_sender() {
    let mut rack = Rack::new(2, DCTCP, false);
    rack.hosts[1].listen(PORT).unwrap();
    rack.send(0, 1, 10_000_000);
    rack.run_until(rack.now + Duration::from_millis(5));
    rack.dead[1] = true;
    rack.run();
    assert_eq!(
        rack.failure(Role::Sender),
        "no acknowledgment after 28 retransmissions"
    );
    assert!(!rack.hosts[0].is_active());
}

#[test]
fn a_sender_that_vanishes_fails_the_receiver() {
    let mut rack = Rack::new(2, DCTCP, false);
    rack.hosts[1].listen(PORT).unwrap();
    rack.send(0, 1, 10_000_000);
    rack.run_until(rack.now + Duration::from_millis(5));
    rack.dead[0] = true;
    rack.run();
    assert!(
        rack.failure(Role::Receiver)
            .starts_with("nothing heard from the peer for 4")
    );
    assert!(!rack.hosts[1].is_active());
}

#[test]
fn an_abort_tells_the_peer() {
    let mut rack = Rack::new(2, RENO, false);
    rack.hosts[1].listen(PORT).unwrap();
    let flow = rack.send(0, 1, 10_000_000);
    rack.run_until(rack.now + Duration::from_millis(5));
    rack.hosts[0].abort(rack.now, flow, "interrupted");
    rack.run();
    assert_eq!(rack.failure(Role::Sender), "interrupted");
    assert_eq!(rack.failure(Role::Receiver), "connection reset by the peer");
}

#[test]
fn a_receiver_that_refuses_the_object_fails_the_sender() {
    let mut rack = Rack::new(2, RENO, false);
    rack.hosts[1].listen(PORT).unwrap();
    rack.refuse = true;
    rack.send(0, 1, 100_000);
    rack.run();
    assert_eq!(rack.failure(Role::Sender), "connection reset by the peer");
}

#[test]
fn an_object_that_cannot_be_read_fails_both() {
    struct Broken;
    impl ObjectSource for Broken {
        fn len(&self) -> u64 {
            100_000
        }
        fn read_at(&self, offset: u64, _: &mut [u8]) -> std::io::Result<()> {
            if offset < 5_000 {
                Ok(())
            } else {
                Err(std::io::ErrorKind::NotFound.into())
            }
        }
    }
    let mut rack = Rack::new(2, RENO, false);
    rack.hosts[1].listen(PORT).unwrap();
    let to = SocketAddrV4::new(address(1), PORT);
    let request = SendRequest {
        to,
        source_port: Some(9),
        source: Arc::new(Broken),
        priority: 0,
        part: None,
        via: crate::Via::Any,
    };
    rack.hosts[0].send(rack.now, request).unwrap();
    rack.run();
    assert_eq!(
        rack.failure(Role::Sender),
        "cannot read the object at byte 5840: entity not found"
    );
    assert_eq!(rack.failure(Role::Receiver), "connection reset by the peer");
}

#[test]
fn what_cannot_be_sent_is_refused_with_a_reason() {
    let mut rack = Rack::new(2, RENO, false);
    let source: Arc<dyn ObjectSource> = Arc::new(Vec::new());
    let request = |to: &str, source_port| SendRequest {
        to: to.parse().unwrap(),
        source_port,
        source: source.clone(),
        priority: 0,
        part: None,
        via: crate::Via::Any,
    };
    let host = &mut rack.hosts[0];
    host.send(rack.now, request("10.0.0.3:80", Some(5)))
        .unwrap();
    for (to, port, expected) in [
        ("10.0.0.3:80", Some(5), "source port 5 is in use"),
        ("10.0.0.3:0", None, "port 0"),
        ("10.0.0.2:80", None, "10.0.0.2 is not a host"),
        ("224.0.0.1:80", None, "224.0.0.1 is not a host"),
    ] {
        let error = host
            .send(rack.now, request(to, port))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(host.listen(0).is_err());
}

/// The packets are TCP as others know it: what ECN and handshake look like on the wire.
#[test]
fn the_wire_shows_rfc_3168_negotiation() {
    // RFC 8257 3.6 wants ECT on SYN and SYN-ACK too; RFC 3168 does not.
    for (algorithm, ecn) in [(RENO, false), (DCTCP, true)] {
        let mut rack = Rack::new(2, algorithm.clone(), false);
        rack.hosts[1].listen(PORT).unwrap();
        rack.send(0, 1, 1000);
        let mut seen = Vec::new();
        let (mut from, mut packet) = (0, Vec::new());
        for _ in 0..4 {
            assert!(
                rack.hosts[from]
                    .poll_transmit(rack.now, &mut packet)
                    .is_some()
            );
            let ip = Ipv4Header::parse(&packet).unwrap();
            let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
            seen.push((tcp.header.flags, ip.header.ecn, tcp.header.options.mss));
            from = 1 - from;
            rack.hosts[from].handle_packet(rack.now, &packet);
        }
        let on = |flags: TcpFlags| flags.when(ecn);
        let data_ecn = if ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let (ack, fin) = (TcpFlags::ACK, TcpFlags::FIN);
        let expected = [
            (
                TcpFlags::SYN | on(TcpFlags::ECE | TcpFlags::CWR),
                data_ecn,
                Some(1460),
            ),
            (
                TcpFlags::SYN | ack | on(TcpFlags::ECE),
                data_ecn,
                Some(1460),
            ),
            // The ACK of the handshake rides on the data, the FIN on the last of it.
            (TcpFlags::PSH | ack | fin, data_ecn, None),
            // The receiver confirms with its FIN.
            (ack | fin, Ecn::NotEct, None),
        ];
        assert_eq!(seen, expected, "{algorithm:?}");
    }
}

/// HULL with a marking threshold as small as a phantom queue's: the pacer works and nothing hurts.
#[test]
fn hull_paces_long_flows() {
    let mut rack = Rack::new(3, DCTCP, true);
    rack.hosts[2].listen(PORT).unwrap();
    rack.mark_above = 3_000;
    for host in 0..2 {
        rack.send(host, 2, 3_000_000);
    }
    rack.run();
    assert!(
        rack.records(Role::Sender)
            .iter()
            .all(|r| r.status == Status::Finished)
    );
    for host in 0..2 {
        let counters = rack.hosts[host].pacer_counters().unwrap();
        assert!(counters.paced_packets > 1000, "{counters:?}");
        assert!(
            counters.passed_packets >= 10,
            "the flow begins unpaced: {counters:?}"
        );
        assert_eq!(counters.refused_packets, 0, "{counters:?}");
    }
    let record = rack.records(Role::Sender)[0];
    assert_eq!(
        (record.counters.timeouts, record.counters.retransmitted),
        (0, 0)
    );
}

/// The second flow knows from the first how much the path holds, and does not overshoot.
#[test]
fn a_shared_threshold_ends_slow_start() {
    let queue_of_the_second = |share_threshold| {
        let mut rack = Rack::new(3, RENO_ECN, false);
        rack.mark_above = 30_000;
        rack.hosts[2].listen(PORT).unwrap();
        let send = |rack: &mut Rack, bytes| {
            rack.max_queue = 0;
            for host in 0..2 {
                rack.send(host, 2, bytes);
            }
            rack.run();
        };
        for host in &mut rack.hosts {
            host.params = Arc::new(TcpParams {
                share_threshold,
                ..(*host.params).clone()
            });
        }
        send(&mut rack, 3_000_000);
        send(&mut rack, 300_000);
        assert_eq!(rack.records(Role::Sender).len(), 4);
        rack.max_queue
    };
    let (shared, alone) = (queue_of_the_second(true), queue_of_the_second(false));
    assert!(shared < 40_000 && alone > 50_000, "{shared} {alone}");
}

/// Eight hosts answer one at once through a queue of 30 kB: (drops, timeouts, longest transfer).
fn incast(algorithm: Algorithm) -> (u64, u64, u64) {
    let mut rack = Rack::new(9, algorithm, false);
    rack.hosts[0].listen(PORT).unwrap();
    rack.capacity = 30_000;
    rack.mark_above = 15_000;
    for host in 1..9 {
        rack.send(host, 0, 100_000);
    }
    rack.run();
    let records = rack.records(Role::Sender);
    assert_eq!(records.len(), 8);
    assert!(
        records.iter().all(|r| r.status == Status::Finished),
        "{records:#?}"
    );
    assert!(rack.max_queue <= 30_000 + 1500);
    let longest = records.iter().map(|r| r.duration_ns).max().unwrap_or(0);
    (
        rack.drops,
        records.iter().map(|r| r.counters.timeouts).sum(),
        longest,
    )
}

/// An incast as in the papers: without ECN whole windows are lost and wait for the timer.
#[test]
fn an_incast_costs_reno_timeouts() {
    let (drops, timeouts, longest) = incast(RENO);
    assert!(
        drops > 0 && timeouts > 0,
        "{drops} drops, {timeouts} timeouts"
    );
    // 800 kB take 6.6 ms; a timeout is 10 ms.
    assert!(longest > 10_000_000, "{longest}");
    let (dctcp_drops, dctcp_timeouts, _) = incast(DCTCP);
    assert!(dctcp_drops < drops, "{dctcp_drops} < {drops}");
    assert!(dctcp_timeouts <= timeouts, "{dctcp_timeouts} <= {timeouts}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(64)))]

    /// Random bytes, and valid headers with random contents aimed at a live connection: no panic,
    /// no livelock, and a RST outside the window never ends it.
    #[test]
    fn garbage_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..100),
        segments in prop::collection::vec(
            (any::<u8>(), any::<u32>(), -5000i64..5000, any::<u32>(), any::<bool>(), 0usize..200),
            1..30,
        ),
    ) {
        let mut rack = Rack::new(2, DCTCP, true);
        rack.hosts[1].listen(PORT).unwrap();
        rack.send(0, 1, 200_000);
        rack.run_until(rack.now + Duration::from_micros(300));
        let own_port = rack.hosts[0].flows.ports().next().unwrap();
        for host in 0..2 {
            rack.hosts[host].handle_packet(rack.now, &noise);
        }
        for (flags, seq, near, ack, to_receiver, length) in segments {
            let (src, dst) = if to_receiver { (0, 1) } else { (1, 0) };
            let (source_port, destination_port) =
                if to_receiver { (own_port, PORT) } else { (PORT, own_port) };
            let host = &rack.hosts[dst];
            let now = rack.now;
            // Half of the segments lie near the window.
            let base = host.flows.iter().next().map_or(seq, |(_, flow)| flow.session);
            let seq = if seq % 2 == 0 { base.wrapping_add(near as u32) } else { seq };
            let header = TcpHeader {
                source_port,
                destination_port,
                seq,
                ack: if ack % 2 == 0 { base.wrapping_add(near as u32) } else { ack },
                flags: TcpFlags(flags),
                window: ack as u16,
                options: ebb_wire::TcpOptions {
                    sack_blocks: [(seq, ack), (base, base.wrapping_add(9000))]
                        .into_iter()
                        .collect(),
                    timestamps: (flags > 128).then_some((seq, ack)),
                    ..Default::default()
                },
            };
            let payload = vec![flags; length];
            let mut packet = Vec::new();
            let ip = Ipv4Header::new(address(src), address(dst), Protocol::TCP, 0, Ecn::Ce);
            ip.emit(header.emitted_bytes() + length, &mut packet);
            header.emit(address(src), address(dst), &payload, &mut packet);
            rack.hosts[dst].handle_packet(now, &packet);
            rack.run_until(now + Duration::from_micros(20));
        }
        rack.run();
        for host in &rack.hosts {
            prop_assert!(!host.is_active());
        }
    }
}

#[path = "endpoint_pressure_tests.rs"]
mod pressure;

#[test]
fn a_reset_or_silence_is_nothing_heard() {
    // Nobody listens; or nobody is there.
    for dead in [false, true] {
        let mut rack = Rack::new(2, RENO, false);
        rack.dead[1] = dead;
        rack.send(0, 1, 5000);
        rack.run();
        let is_heard = |(_, event): &(usize, Event)| matches!(event, Event::Heard { .. });
        assert!(!rack.events.iter().any(is_heard));
        assert!(matches!(rack.events[..], [(0, Event::Failed { .. })]));
    }
}

#[test]
fn a_port_can_be_given_up() {
    let mut rack = Rack::new(2, RENO, false);
    rack.hosts[1].listen(PORT).unwrap();
    rack.send(0, 1, 5000);
    rack.run();
    let now = rack.now;
    rack.hosts[1].unlisten(PORT);
    assert!(!rack.hosts[1].uses_port(PORT));
    rack.send(0, 1, 5000);
    // Nobody answers but with a reset, which is on its way for some time.
    rack.run();
    assert!(rack.now > now && !rack.hosts[1].uses_port(PORT));
    let failed = |(_, event): &&(usize, Event)| matches!(event, Event::Failed { .. });
    assert_eq!(rack.events.iter().filter(failed).count(), 1);

    // A connection that is open uses it.
    rack.hosts[1].listen(PORT).unwrap();
    rack.send(0, 1, 5_000_000);
    rack.run_until(rack.now + Duration::from_millis(1));
    rack.hosts[1].unlisten(PORT);
    assert!(rack.hosts[1].uses_port(PORT));
    rack.run();
    let finished = |(_, event): &&(usize, Event)| matches!(event, Event::Finished { .. });
    assert_eq!(rack.events.iter().filter(finished).count(), 4);
}

/// The DSCP of the next packet of the classes that are wanted. None: there is none.
fn next_dscp(endpoint: &mut TcpEndpoint, now: Instant, wanted: DscpSet) -> Option<u8> {
    let mut packet = Vec::new();
    endpoint.poll_transmit_of(now, wanted, &mut packet)?;
    Some(packet[1] >> 2)
}

#[test]
fn a_flow_whose_class_is_not_wanted_keeps_its_packets_and_hinders_nobody() {
    for pacer in [false, true] {
        let mut rack = Rack::new(3, DCTCP, pacer);
        let source = || {
            Arc::new(GeneratedSource {
                seed: 1,
                bytes: 1_000,
            })
        };
        for (to, priority) in [(1, 0), (2, 1)] {
            let request = SendRequest {
                to: SocketAddrV4::new(address(to), PORT),
                source_port: None,
                source: source(),
                priority,
                part: None,
                via: crate::Via::Any,
            };
            rack.hosts[0].send(rack.now, request).unwrap();
        }
        let (now, host) = (rack.now, &mut rack.hosts[0]);
        let urgent = DscpSet::NONE.with(DscpParams::default().priority.of(1));
        assert_eq!(next_dscp(host, now, DscpSet::NONE), None);
        assert_eq!(next_dscp(host, now, urgent), Some(34));
        assert_eq!(next_dscp(host, now, urgent), None);
        assert_eq!(next_dscp(host, now, DscpSet::ALL), Some(0));
        assert_eq!(next_dscp(host, now, DscpSet::ALL), None);
    }
}

/// A pacer is one FIFO: what it has let go waits for its class, and what is behind waits with it.
#[test]
fn a_paced_packet_waits_for_its_class_and_is_not_lost() {
    let mut rack = Rack::new(2, DCTCP, true);
    let (mut now, flow) = (rack.now, FlowId(7));
    let host = &mut rack.hosts[0];
    let pacer = host.paced.pacer();
    // Enough for the flow to be paced.
    (0..100).for_each(|_| pacer.on_ecn_echo(now, flow));
    for dscp in [34, 0] {
        let packet = vec![0x45, dscp << 2];
        let admission = pacer.enqueue(now, (flow, packet), 1_000, flow);
        assert_eq!(admission, crate::pacer::Admission::Queued);
    }
    now += Duration::from_millis(5);
    let normal = DscpSet::NONE.with(0);
    assert_eq!(next_dscp(host, now, normal), None);
    assert_eq!(next_dscp(host, now, DscpSet::NONE), None);
    assert_eq!(next_dscp(host, now, normal.with(34)), Some(34));
    assert_eq!(next_dscp(host, now, normal), Some(0));
    assert_eq!(next_dscp(host, now, DscpSet::ALL), None);
}

/// Packets of one flow that leave one after the other, on average, while another has as many.
fn run_length(offload_bytes: u32) -> f64 {
    let params = TcpParams {
        offload_bytes,
        ..TcpParams::default()
    };
    let mut rack = Rack::with(params, 3, RENO, false);
    for to in [1, 2] {
        rack.hosts[to].listen(PORT).unwrap();
        rack.send(0, to, 6_000_000);
    }
    rack.run();
    let finished = |(_, event): &&(usize, Event)| matches!(event, Event::Finished { .. });
    assert_eq!(rack.events.iter().filter(finished).count(), 4);
    let runs = rack.left.chunk_by(|a, b| a == b).count();
    rack.left.len() as f64 / runs as f64
}

#[test]
fn with_offload_a_flow_keeps_its_turn_for_a_burst() {
    let (without, with) = (run_length(0), run_length(65_536));
    assert!(without < 3.0, "{without}");
    // A third of windows of 10 to 130 segments, and 44 segments at most.
    assert!(with > 8.0, "{with}");
}

#[test]
fn the_flow_of_which_the_least_is_left_has_the_link_where_that_goes_first() {
    let suite = crate::transports::Suite::default();
    let params = super::super::congestion::pfabric::params_of(&suite);
    let mut rack = Rack::with(params, 3, suite.pfabric.algorithm(), false);
    for to in [1, 2] {
        rack.hosts[to].listen(PORT).unwrap();
    }
    rack.send(0, 1, 1_000_000);
    rack.run_until(rack.now + Duration::from_millis(2));
    rack.send(0, 2, 60 * 1_460);
    rack.run();
    let runs: Vec<_> = rack.left.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    // Once the shorter flow is open it has every packet, and the longer one the rest.
    assert!(matches!(runs[..], [_, 60, _]), "{runs:?}");
}
