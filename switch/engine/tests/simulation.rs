//! Simulations: exact times, and the same result on any number of threads.

use std::collections::VecDeque;

use ebb_engine::simulation::{Host, NodeId, Simulation};
use ebb_engine::{NetworkError, Switch};
use ebb_units::{BitRate, Duration, Instant};

use crate::outside::add_routes;
use crate::switches::*;

const RATE: BitRate = BitRate::from_mbps(1000);

/// A host that sends frames at given times, one after the other, and notes what arrives.
struct Station {
    name: String,
    to_send: VecDeque<(Instant, Vec<u8>)>,
    free_at: Instant,
    arrived: Arrivals,
}

impl Station {
    fn new(name: &str) -> Self {
        Station {
            name: name.into(),
            to_send: VecDeque::new(),
            free_at: Instant::ZERO,
            arrived: Vec::new(),
        }
    }
}

impl Host for Station {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.arrived.push((now, frame));
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        let (at, _) = self.to_send.front()?;
        Some(self.free_at.max(*at))
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        if self.next_wake()? > now {
            return None;
        }
        let (_, frame) = self.to_send.pop_front()?;
        self.free_at = now + RATE.time_for(frame.len() as u64);
        Some((self.free_at, frame))
    }
}

fn switch_with_rx_delay(name: &str) -> Switch {
    let mut profile = deflecting_profile(RATE, 10_000);
    profile.rx_delay_ns = 7_000;
    switch(name, profile)
}

/// A chain of switches with a host on each; host i is reached by MAC i. Port 1 leads left, 2 right,
/// 3 to the host.
fn chain(length: u8) -> (Simulation<Station>, Vec<NodeId>) {
    let mut simulation = Simulation::new();
    let mut hosts = Vec::new();
    let mut switches = Vec::new();
    for i in 0..length {
        let mut s = switch_with_rx_delay(&format!("s{i}"));
        add_routes(&mut s, i, length);
        switches.push(simulation.add_switch(s));
        hosts.push(simulation.add_host(Station::new(&format!("h{i}"))));
    }
    for (s, h) in switches.iter().zip(&hosts) {
        simulation.connect(at(*s, 3), at(*h, 0)).unwrap();
    }
    for pair in switches.windows(2) {
        simulation.connect(at(pair[0], 2), at(pair[1], 1)).unwrap();
    }
    (simulation, hosts)
}

type Arrivals = Vec<(Instant, Vec<u8>)>;

/// Every host floods every other one: queues fill, packets are deflected, trimmed and dropped. Returns the hash of the
/// trace, and what arrived at each host.
fn flood(parts: usize) -> (u64, Vec<Arrivals>) {
    let (mut simulation, hosts) = chain(5);
    simulation.spread(parts);
    for (i, host) in hosts.iter().enumerate() {
        simulation.with_host(*host, |station| {
            for n in 0..40u16 {
                let to = ((i + 1 + usize::from(n) % 4) % 5) as u8;
                let at = Instant::from_micros(u64::from(n / 8) * 20);
                let len = 200 + usize::from(n) * 30;
                station.to_send.push_back((at, frame(to, len)));
            }
        });
    }
    simulation.run_until(Instant::from_micros(10_000), |_, _| false);
    assert_eq!(simulation.next_event(), None);
    assert_eq!(simulation.now(), Instant::from_micros(10_000));
    let arrived = simulation.hosts().map(|(_, s)| s.arrived.clone());
    (simulation.trace_hash(), arrived.collect())
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let (hash, arrived) = flood(1);
    assert!(arrived.iter().map(Vec::len).sum::<usize>() > 100);
    for parts in [2, 3, 10, 64] {
        let (other_hash, other) = flood(parts);
        assert!(other == arrived, "{parts} parts: other frames or times");
        assert_eq!(other_hash, hash, "{parts} parts");
    }
}

#[test]
fn a_lone_frame_takes_the_time_of_the_closed_form() {
    let (mut simulation, hosts) = chain(3);
    let start = Instant::from_nanos(123);
    simulation.with_host(hosts[0], |h| h.to_send.push_back((start, frame(2, 1500))));
    simulation.run_until(Instant::from_micros(1000), |_, _| false);
    let arrived = &simulation.host(hosts[2]).unwrap().arrived;
    let serialisation = RATE.time_for(1500) * 4; // the host and three switches
    let propagation = Duration::from_nanos(7_000 + 3 * 10_000);
    assert_eq!(arrived[0].0, start + serialisation + propagation);
    assert_eq!(simulation.work().packet_hops, 3);
}

#[test]
fn it_stops_when_asked_and_goes_on() {
    let (mut simulation, hosts) = chain(2);
    for n in 0..5000u64 {
        let sent = (Instant::from_micros(20 * n), frame(1, 100));
        simulation.with_host(hosts[0], |h| h.to_send.push_back(sent));
    }
    let end = Instant::from_micros(200_000);
    simulation.run_until(end, |now, _| now > Instant::from_micros(50_000));
    assert!(simulation.now() < end);
    simulation.run_until(end, |_, _| false);
    assert_eq!(simulation.now(), end);
    assert_eq!(simulation.host(hosts[1]).unwrap().arrived.len(), 5000);
}

#[test]
fn each_stretch_with_events_asks_however_short() {
    for parts in [1, 2] {
        let (mut simulation, hosts) = chain(2);
        simulation.spread(parts);
        for n in 0..5u64 {
            let sent = (Instant::from_micros(1_000 * n), frame(1, 100));
            simulation.with_host(hosts[0], |h| h.to_send.push_back(sent));
        }
        for n in 0..5 {
            let mut asked = 0;
            simulation.run_until(Instant::from_micros(1_000 * n + 500), |_, _| {
                asked += 1;
                false
            });
            assert!(asked > 0, "{parts} threads, stretch {n}");
        }
    }
}

#[test]
fn a_port_has_one_link() {
    let (mut simulation, hosts) = chain(2);
    let error = simulation.connect(at(hosts[0], 0), at(NodeId(0), 7));
    let node = "h0".to_owned();
    assert_eq!(error, Err(NetworkError::Taken { node, port: 0 }));
    let error = simulation.connect(at(NodeId(0), CPU_PORT), at(NodeId(2), 9));
    assert!(matches!(error, Err(NetworkError::Reserved { .. })));
}
