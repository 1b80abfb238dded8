//! Lossless networks: what switches ask of their neighbours, byte for byte and in time, and that no
//! lossless class loses a packet whoever sends what to whom.

use std::collections::VecDeque;

use ebb_engine::simulation::{Host, Simulation};
use ebb_engine::trace::PfcFrame;
use ebb_engine::{NodeId, SwitchReport};
use ebb_traffic_manager::{Accounting, Pfc, QueueStatistics, TrafficManagerConfig, Watchdog};
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use crate::classes::*;
use crate::outside::add_routes;
use crate::switches::*;

/// A host with a link of a gigabit: it sends frames by strict priority, as soon as they are there
/// and the link is free, and obeys PFC frames after the response time if it is told to.
struct Station {
    name: String,
    /// Frames to send, by class, each not before its time.
    to_send: [VecDeque<(Instant, Vec<u8>)>; PfcFrame::CLASSES],
    free_at: Instant,
    obeys: bool,
    /// Frames that take effect later.
    told: VecDeque<(Instant, [Option<u16>; PfcFrame::CLASSES])>,
    /// Until when each class is paused.
    paused: [Instant; PfcFrame::CLASSES],
    arrived: Vec<(Instant, Vec<u8>)>,
    /// PFC frames that arrived.
    control: Vec<(Instant, Vec<u8>)>,
}

impl Station {
    fn new(name: &str, obeys: bool) -> Self {
        Station {
            name: name.into(),
            to_send: Default::default(),
            free_at: Instant::ZERO,
            obeys,
            told: VecDeque::new(),
            paused: [Instant::ZERO; PfcFrame::CLASSES],
            arrived: Vec::new(),
            control: Vec::new(),
        }
    }

    fn send(&mut self, at: Instant, frame: Vec<u8>) {
        self.to_send[usize::from(class_of(&frame) % 8)].push_back((at, frame));
    }

    /// When a class can send next.
    fn ready(&self, class: usize) -> Option<Instant> {
        let (at, _) = self.to_send[class].front()?;
        Some(self.free_at.max(*at).max(self.paused[class]))
    }
}

impl Host for Station {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        if frame[12..14] != [0x88, 0x08] {
            return self.arrived.push((now, frame));
        }
        if self.obeys {
            let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let named = |class: usize| field(16) >> class & 1 == 1;
            let quanta = |class| named(class).then(|| field(18 + 2 * class));
            self.told
                .push_back((now + RESPONSE, std::array::from_fn(quanta)));
        }
        self.control.push((now, frame));
    }

    fn wake(&mut self, now: Instant) {
        while self.told.front().is_some_and(|(at, _)| *at <= now) {
            let (_, quanta_of) = self.told.pop_front().expect("there is one");
            for (paused, count) in self.paused.iter_mut().zip(quanta_of) {
                *paused = count.map_or(*paused, |count| now + quanta(count.into()));
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let ready = (0..PfcFrame::CLASSES).filter_map(|class| self.ready(class));
        let told = self.told.front().map(|(at, _)| *at);
        ready.chain(told).min()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.wake(now);
        let ready = |class: &usize| self.ready(*class).is_some_and(|at| at <= now);
        let class = (0..PfcFrame::CLASSES).rfind(ready)?;
        let (_, frame) = self.to_send[class].pop_front()?;
        self.free_at = now + GIGABIT.time_for(frame.len() as u64);
        Some((self.free_at, frame))
    }
}

/// Switches in a row, host i at port 3 of switch i, which is reached by address i.
fn row(length: u8, config: &TrafficManagerConfig, obeys: bool) -> Network {
    let mut network = Network::default();
    for own in 0..length {
        let mut switch = lossless_switch(&format!("s{own}"), config.clone());
        add_routes(&mut switch, own, length);
        network.add(switch, obeys);
    }
    let ports = |n: usize| (at(network.switches[n], 2), at(network.switches[n + 1], 1));
    for (a, b) in (0..usize::from(length) - 1).map(ports) {
        network.simulation.connect(a, b).expect("free ports");
    }
    network
}

/// Switches, and a host at port 3 of each.
#[derive(Default)]
struct Network {
    simulation: Simulation<Station>,
    switches: Vec<NodeId>,
    hosts: Vec<NodeId>,
}

impl Network {
    fn add(&mut self, switch: ebb_engine::Switch, obeys: bool) {
        let name = format!("h{}", self.hosts.len());
        let s = self.simulation.add_switch(switch);
        let h = self.simulation.add_host(Station::new(&name, obeys));
        self.simulation.connect(at(s, 3), at(h, 0)).expect("free");
        self.switches.push(s);
        self.hosts.push(h);
    }

    fn send(&mut self, host: usize, at: Instant, frame: Vec<u8>) {
        let station = self.hosts[host];
        self.simulation
            .with_host(station, |host| host.send(at, frame));
    }

    fn host(&self, host: usize) -> &Station {
        self.simulation.host(self.hosts[host]).expect("a host")
    }

    fn run(&mut self, until: Instant) {
        self.simulation.run_until(until, |_, _| false);
    }

    fn queue(&self, switch: usize, port: u16, class: u8) -> QueueStatistics {
        let switch = self.simulation.switch(self.switches[switch]);
        let ports = switch.expect("a switch").statistics();
        let port = ports
            .into_iter()
            .find(|p| p.port == port)
            .expect("the port");
        let mut queues = port.queues.into_iter();
        queues.find(|q| q.queue == class).expect("the queue")
    }

    /// Another host, at port 4 of the first switch, which is reached by address 1.
    fn add_second_host(&mut self, obeys: bool) -> usize {
        let h = self.simulation.add_host(Station::new("second", obeys));
        let s = self.switches[0];
        self.simulation.connect(at(s, 4), at(h, 0)).expect("free");
        self.simulation
            .with_switch(s, |switch| forward(switch, 1, 4));
        self.hosts.push(h);
        self.hosts.len() - 1
    }

    /// Most bytes that a queue held; 0 if there is no such port.
    fn depth(&self, switch: usize, port: u16, class: u8) -> u64 {
        let switch = self.simulation.switch(self.switches[switch]);
        let ports = switch.expect("a switch").statistics().into_iter();
        let queues = ports.filter(|p| p.port == port).flat_map(|p| p.queues);
        let mut depths = queues
            .filter(|q| q.queue == class)
            .map(|q| q.max_depth_bytes);
        depths.next().unwrap_or(0)
    }

    fn drops(&self) -> Vec<(String, u16, Option<u8>, String)> {
        let switches = self
            .simulation
            .switches()
            .map(|(_, switch)| SwitchReport::of(switch));
        let rows = switches.flat_map(|report| {
            let name = report.switch;
            let rows = report.drops.into_iter();
            rows.map(move |row| (name.clone(), row.port, row.queue, row.reason))
        });
        rows.collect()
    }
}

/// Both lossless classes and both others, with other thresholds.
fn thresholds(pause_bytes: u64, resume_bytes: u64) -> TrafficManagerConfig {
    let mut config = config();
    config.pfc = Some(Pfc {
        pause_bytes: Some(pause_bytes),
        resume_bytes: Some(resume_bytes),
        ..flow_control()
    });
    config
}

impl Network {
    /// A host pauses classes from the start, as often as it takes, until then.
    fn pause_from(&mut self, host: usize, named: &[(u8, u16)], until: Instant) {
        let mut now = Instant::ZERO;
        while now <= until {
            let frame = pfc(named);
            self.simulation.with_host(self.hosts[host], |host| {
                host.to_send[7].push_back((now, frame));
            });
            now += quanta(0x8000);
        }
    }

    /// When PFC frames came to a host, and which classes they name with which quanta.
    fn told(&self, host: usize) -> Vec<(Instant, Vec<(u8, u16)>)> {
        let told = self.host(host).control.iter();
        let named = told.map(|(at, frame)| {
            let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let classes = (0..8u8).filter(|class| field(16) >> class & 1 == 1);
            let named = classes.map(|class| (class, field(18 + 2 * usize::from(class))));
            (*at, named.collect())
        });
        named.collect()
    }

    /// Storms that were found: switch, port, class.
    fn storms(&self) -> Vec<(usize, u16, u8)> {
        let switches = (0..).zip(&self.switches);
        let storms = switches.flat_map(|(number, s)| {
            let ports = self.simulation.switch(*s).expect("a switch").statistics();
            let queues = ports.into_iter().flat_map(|port| {
                let number = port.port;
                port.queues.into_iter().map(move |queue| (number, queue))
            });
            let storms = queues.filter(|(_, queue)| queue.pause_storms > 0);
            storms.map(move |(port, queue)| (number, port, queue.queue))
        });
        storms.collect()
    }
}

#[test]
fn a_pause_is_asked_for_above_its_threshold_and_taken_back_at_the_other() {
    // Three frames of 1000 bytes wait behind the pause of host 1.
    for (pause_bytes, pauses) in [(2_999, true), (3_000, false)] {
        let mut network = row(1, &thresholds(pause_bytes, 1_000), true);
        let other = network.add_second_host(false);
        network.pause_from(other, &[(3, 100)], us(0));
        for _ in 0..3 {
            network.send(0, us(10), frame_of(3, 1, 1000));
        }
        network.run(us(10_000));
        assert_eq!(network.host(other).arrived.len(), 3);
        assert_eq!(network.drops(), []);
        let frames: Vec<_> = network
            .host(0)
            .control
            .iter()
            .map(|(_, f)| f.clone())
            .collect();
        if !pauses {
            assert_eq!(frames.len(), 0);
            continue;
        }
        let expected = |named| {
            let mut frame = pfc(named);
            // The address follows from the low bits of the device id and from the port.
            frame[6..12].copy_from_slice(&[2, 0xeb, 0x03, 0x04, 0, 3]);
            frame
        };
        assert_eq!(frames, [expected(&[(3, 0xffff)]), expected(&[(3, 0)])]);
        let told = network.told(0);
        // The third frame is there 24 us after the first one, which took as long as the others.
        let third = us(10) + GIGABIT.time_for(3_000) + DELAY;
        assert_eq!(told[0].0, third + GIGABIT.time_for(60) + DELAY);
        // When the second one starts to leave, 1000 bytes wait.
        let second = network.host(other).arrived[1].0 - DELAY - GIGABIT.time_for(1000);
        assert_eq!(told[1].0, second + GIGABIT.time_for(60) + DELAY);
        assert_eq!(network.queue(0, 3, 3).pauses_sent, 1);
    }
}

#[test]
fn several_classes_are_in_one_frame_and_drain_bytes_count_for_all_below() {
    let mut network = row(1, &thresholds(1_500, 500), false);
    let other = network.add_second_host(false);
    network.pause_from(other, &[(5, 200), (3, 200)], us(0));
    for _ in 0..2 {
        network.send(0, us(10), frame_of(5, 1, 1000));
    }
    network.run(us(10_000));
    let told: Vec<_> = network
        .told(0)
        .into_iter()
        .map(|(_, named)| named)
        .collect();
    assert_eq!(told, [vec![(3, 0xffff), (5, 0xffff)], vec![(3, 0), (5, 0)]]);
}

#[test]
fn a_pause_goes_out_after_the_frame_that_is_being_sent_and_before_all_that_wait() {
    let mut network = row(1, &thresholds(1_500, 0), false);
    let other = network.add_second_host(false);
    network.pause_from(other, &[(3, 0xffff)], us(0));
    // The link to host 0 is busy, and class 3 waits for host 1.
    for _ in 0..8 {
        network.send(other, us(0), frame_of(7, 0, 1250));
    }
    for _ in 0..6 {
        network.send(0, us(0), frame_of(3, 1, 1250));
    }
    network.run(us(400));
    let host = network.host(0);
    let (told_at, named) = network.told(0)[0].clone();
    assert_eq!(named, [(3, 0xffff)]);
    let mut pairs = host.arrived.windows(2);
    let around = pairs.find(|pair| pair[0].0 < told_at && told_at < pair[1].0);
    let around = around.expect("frames before and after");
    assert_eq!(told_at, around[0].0 + GIGABIT.time_for(60));
    assert_eq!(around[1].0, told_at + GIGABIT.time_for(1250));
}

#[test]
fn pauses_are_repeated_after_half_of_their_time_for_as_long_as_it_takes() {
    let mut network = row(1, &thresholds(8_192, 4_557), true);
    let other = network.add_second_host(false);
    let until = us(100_000);
    network.pause_from(other, &[(3, 0xffff)], until);
    for _ in 0..200 {
        network.send(0, us(10), frame_of(3, 1, 1500));
    }
    network.run(until);
    let told = network.told(0);
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told.iter().all(|(_, named)| *named == [(3, 0xffff)]));
    let half = GIGABIT.time_for(65_535 * 64 / 2);
    for pair in told.windows(2) {
        assert_eq!(pair[1].0, pair[0].0 + half);
    }
    // So the sender never starts again, though one pause would have been over by now.
    assert!(network.queue(0, 4, 3).max_depth_bytes < 8_192 + 1_614 + HEADROOM);
    network.run(us(1_000_000));
    assert_eq!(network.host(other).arrived.len(), 200);
    assert_eq!(
        network.told(0).last().map(|(_, n)| n.clone()),
        Some(vec![(3, 0)])
    );
}

/// Bytes that may still arrive for a class after its pause was asked for: two frames, that which
/// the PFC frame waits for and that which the sender has started, and more during delays and
/// response.
const HEADROOM: u64 = 2 * 1_530 + 253;
/// The frame that crosses the threshold, and the time of the PFC frame itself.
const CROSSING: u64 = 1_530 + 84;

#[test]
fn the_headroom_is_never_exceeded_and_nearly_used_up() {
    let pause_bytes = 7_500;
    let bound = pause_bytes + CROSSING + HEADROOM;
    let mut most = 0;
    for phase in 0..24 {
        let mut network = row(1, &thresholds(pause_bytes, 4_557), true);
        let other = network.add_second_host(false);
        network.pause_from(other, &[(3, 0xffff)], us(0));
        for _ in 0..40 {
            network.send(0, us(10), frame_of(3, 1, 1500));
            // The PFC frame has to wait for a frame on its way.
            let at = us(10) + Duration::from_nanos(500 * phase);
            network.send(other, at, frame_of(7, 0, 1500));
        }
        network.run(us(2_000));
        let depth = network.queue(0, 4, 3).max_depth_bytes;
        assert!(depth <= bound, "phase {phase}: {depth} of {bound}");
        most = most.max(depth);
    }
    assert!(most + 1_530 > bound, "{most} of {bound}");
}

#[test]
fn a_ring_of_three_switches_deadlocks_and_is_found() {
    let ring = |watchdog| {
        let mut config = thresholds(8_192, 4_557);
        if let Some(pfc) = &mut config.pfc {
            (pfc.watchdog_ns, pfc.watchdog) = (200_000_000, watchdog);
        }
        let mut network = Network::default();
        for own in 0..3u8 {
            let mut switch = lossless_switch(&format!("s{own}"), config.clone());
            for to in 0..3 {
                forward(&mut switch, to, if to == own { 3 } else { 2 });
            }
            network.add(switch, true);
        }
        for n in 0..3 {
            let ends = (network.switches[n], network.switches[(n + 1) % 3]);
            let ends = (at(ends.0, 2), at(ends.1, 1));
            network
                .simulation
                .connect(ends.0, ends.1)
                .expect("free ports");
        }
        for host in 0..3 {
            for _ in 0..200 {
                let to = (host + 2) % 3;
                network.send(host, us(0), frame_of(3, to as u8, 1500));
            }
        }
        network.run(us(1_000_000));
        network
    };
    let arrived =
        |network: &Network| -> usize { (0..3).map(|host| network.host(host).arrived.len()).sum() };
    let stuck = ring(Watchdog::Report);
    assert!(arrived(&stuck) < 600, "no deadlock");
    let mut found = stuck.storms();
    found.retain(|(_, port, _)| *port == 2);
    assert_eq!(found, [(0, 2, 3), (1, 2, 3), (2, 2, 3)]);
    assert_eq!(stuck.drops(), []);
    // Where pauses are ignored after a storm, everything goes on.
    assert_eq!(arrived(&ring(Watchdog::Ignore)), 600);
}

#[test]
fn a_host_that_never_stops_pausing_stalls_the_fabric_and_every_link_that_waits_is_named() {
    let mut config = thresholds(8_192, 4_557);
    if let Some(pfc) = &mut config.pfc {
        pfc.watchdog_ns = 500_000_000;
    }
    let mut network = row(3, &config, true);
    let until = us(1_000_000);
    network.pause_from(2, &[(3, 0xffff)], until);
    for _ in 0..200 {
        network.send(0, us(10), frame_of(3, 2, 1500));
        network.send(0, us(10), frame_of(5, 2, 500));
    }
    network.run(until);
    let arrived = &network.host(2).arrived;
    assert_eq!(arrived.len(), 200, "class 5 is not paused");
    assert!(arrived.iter().all(|(_, frame)| class_of(frame) == 5));
    assert_eq!(network.storms(), [(0, 2, 3), (1, 2, 3), (2, 3, 3)]);
    assert_eq!(network.drops(), []);
}

/// A tree of switches by the parent of each but the first, with a host at port 3 of each.
fn tree(parents: &[usize], config: &TrafficManagerConfig, obeys: bool) -> Network {
    let mut network = Network::default();
    let length = parents.len() + 1;
    // Ports 4, 5, .. lead to the neighbours, in the order in which links are made.
    let mut neighbours = vec![Vec::new(); length];
    for (child, parent) in (1..).zip(parents) {
        neighbours[child].push(*parent);
        neighbours[*parent].push(child);
    }
    for own in 0..length {
        let mut switch = lossless_switch(&format!("s{own}"), config.clone());
        forward(&mut switch, own as u8, 3);
        // Everything behind a neighbour is reached through it.
        for (port, neighbour) in (4..).zip(&neighbours[own]) {
            let mut behind = vec![(own, *neighbour)];
            while let Some((from, node)) = behind.pop() {
                forward(&mut switch, node as u8, port);
                let next = neighbours[node].iter().filter(|next| **next != from);
                behind.extend(next.map(|next| (node, *next)));
            }
        }
        network.add(switch, obeys);
    }
    for (child, parent) in (1..).zip(parents) {
        let port = |own: usize, other: usize| {
            let index = neighbours[own].iter().position(|n| *n == other);
            at(
                network.switches[own],
                4 + index.expect("a neighbour") as u16,
            )
        };
        let ends = (port(child, *parent), port(*parent, child));
        network
            .simulation
            .connect(ends.0, ends.1)
            .expect("free ports");
    }
    network
}

/// A burst: from and to which host, class, length of a frame, how many, when in microseconds.
type Burst = (usize, usize, u8, usize, usize, u64);

/// Sends bursts, and returns the drops, and how many frames were sent and arrived in lossless
/// classes.
fn send_all(network: &mut Network, bursts: &[Burst]) -> [usize; 2] {
    let hosts = network.hosts.len();
    let mut sent = 0;
    for (from, to, class, len, count, at_us) in bursts {
        let (from, to) = (from % hosts, to % hosts);
        for _ in 0..*count {
            network.send(from, us(*at_us), frame_of(*class, to as u8, *len));
            sent += usize::from(LOSSLESS.contains(class));
        }
    }
    network.run(us(200_000));
    let hosts = (0..hosts).map(|host| network.host(host));
    let arrived = hosts.flat_map(|host| &host.arrived);
    let lossless = arrived.filter(|(_, frame)| LOSSLESS.contains(&class_of(frame)));
    [sent, lossless.count()]
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let to = prop_oneof![3 => Just(0usize), 1 => 0usize..6];
    let class = prop::sample::select(vec![0u8, 3, 3, 5, 5, 7]);
    let len = prop_oneof![Just(64usize), Just(1500), 64usize..1500];
    let burst = (0usize..6, to, class, len, 1usize..60, 0u64..500);
    prop::collection::vec(burst, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn lossless_classes_lose_nothing_whatever_the_traffic_topology_and_thresholds(
        shape in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        bursts in bursts(),
        pause_bytes in 1_500u64..20_000,
        resume in 0.0..=1.0f64,
        egress_bytes in prop::option::of(1_500u64..20_000),
        pipeline_delay_ns in prop::sample::select(vec![0u64, 3_000]),
        accounting in prop::sample::select(vec![Accounting::Drain, Accounting::Class]),
    ) {
        let parents: Vec<usize> = (1..).zip(&shape).map(|(n, parent)| parent.index(n)).collect();
        let mut config = thresholds(pause_bytes, (pause_bytes as f64 * resume) as u64);
        if let Some(pfc) = &mut config.pfc {
            pfc.accounting = accounting;
        }
        let profile = &mut config.profile[0];
        profile.pipeline_delay_ns = pipeline_delay_ns;
        let in_pipeline = pipeline_delay_ns.div_ceil(8);
        let each = pause_bytes + CROSSING + HEADROOM + in_pipeline;
        let need = each * LOSSLESS.len() as u64;
        // Just as many bytes as validation asks for, and one frame for the others.
        profile.egress_bytes = egress_bytes;
        profile.ingress_bytes = egress_bytes.map(|_| need + 1_530);
        let mut network = tree(&parents, &config, true);
        let [sent, arrived] = send_all(&mut network, &bursts);
        prop_assert_eq!(arrived, sent);
        let lossless = |queue: &Option<u8>| queue.is_some_and(|q| LOSSLESS.contains(&q));
        let lost: Vec<_> = network.drops().into_iter().filter(|row| lossless(&row.2)).collect();
        prop_assert_eq!(lost, []);
        // Without ingress buffers, what came in on a port takes no more room than it would there.
        if egress_bytes.is_none() {
            for switch in 0..network.switches.len() {
                for port in 3..8u16.min(4 + parents.len() as u16) {
                    let depths = LOSSLESS.map(|class| network.depth(switch, port, class));
                    let inputs = parents.len() as u64 + 1;
                    prop_assert!(depths.iter().sum::<u64>() <= inputs * need);
                }
            }
        }
    }
}

/// The buffers are of use: without pauses the same traffic loses packets.
#[test]
fn hosts_that_do_not_obey_lose_packets_and_only_at_their_own_ports() {
    let mut config = thresholds(8_192, 4_557);
    let need = LOSSLESS.len() as u64 * (8_192 + CROSSING + HEADROOM);
    let profile = &mut config.profile[0];
    (profile.ingress_bytes, profile.egress_bytes) = (Some(need + 1_530), Some(8_192));
    let incast: Vec<Burst> = (1..4).map(|from| (from, 0, 3, 1500, 100, 0)).collect();
    let mut network = tree(&[0, 0, 0], &config, false);
    let [sent, arrived] = send_all(&mut network, &incast);
    assert!(arrived < sent, "{arrived} of {sent}");
    let drops = network.drops();
    assert!(
        drops
            .iter()
            .all(|(_, _, queue, reason)| *queue == Some(3) && reason == "ingress-full")
    );
    let mut network = tree(&[0, 0, 0], &config, true);
    let [sent, arrived] = send_all(&mut network, &incast);
    assert_eq!(arrived, sent);
    assert_eq!(network.drops(), []);
}
