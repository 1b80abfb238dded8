//! Lossless networks: what switches ask of their neighbours, byte for byte and in time, and that no
//! lossless class loses a packet whoever sends what to whom.

use std::collections::VecDeque;

use ebb_engine::simulation::{Host, Simulation};
use ebb_engine::trace::PfcFrame;
use ebb_engine::{NodeId, SwitchReport};
use ebb_traffic_manager::{QueueStatistics, TrafficManagerConfig};
use ebb_units::Instant;

use crate::classes::*;
use crate::outside::add_routes;
use crate::switches::*;

/// A host with a link of a gigabit: it sends frames by strict priority, as soon as they are there
/// and the link is free, and obeys PFC frames after the response time if it is told to.
struct Station {
    name: String,
    /// What it sends, by class, each frame not before its time.
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

/// Ten frames of 1000 bytes at once for a host that pauses class 3: eight of them wait at the switch
/// before it asks the sender to pause.
#[test]
fn pauses_are_asked_for_and_taken_back_at_the_thresholds_byte_for_byte() {
    let mut config = config();
    if let Some(pfc) = &mut config.pfc {
        (pfc.pause_bytes, pfc.resume_bytes) = (3_000, 1_000);
    }
    let mut network = row(2, &config, true);
    // Host 1 stops class 3 for a while.
    let stop = pfc(&[(3, 200)]);
    let mut from_host = stop.clone();
    from_host[13] = 0x08;
    network.simulation.with_host(network.hosts[1], |host| {
        host.to_send[7].push_back((Instant::ZERO, from_host));
    });
    for _ in 0..10 {
        network.send(0, us(20), frame_of(3, 1, 1000));
    }
    network.run(us(10_000));
    assert_eq!(network.host(1).arrived.len(), 10);
    assert_eq!(network.drops(), []);
    // Switch 1 asks switch 0, which asks host 0.
    let address = [2, 0xeb, 0x03, 0x04, 0, 3];
    let expected = |named: &[(u8, u16)]| {
        let mut frame = pfc(named);
        frame[6..12].copy_from_slice(&address);
        frame
    };
    let told: Vec<_> = network
        .host(0)
        .control
        .iter()
        .map(|(_, frame)| frame.clone())
        .collect();
    assert!(told.len() >= 2, "{told:?}");
    for pair in told.chunks(2) {
        assert_eq!(pair[0], expected(&[(3, 0xffff)]));
        assert_eq!(pair.get(1).cloned(), Some(expected(&[(3, 0)])));
    }
    let asked = network.queue(0, 3, 3).pauses_sent;
    assert_eq!(2 * asked as usize, told.len());
}

#[test]
fn a_pause_goes_out_after_the_frame_that_is_being_sent_and_before_all_that_wait() {
    let mut config = config();
    if let Some(pfc) = &mut config.pfc {
        (pfc.pause_bytes, pfc.resume_bytes) = (1_500, 0);
    }
    let mut network = row(2, &config, false);
    // From host 1 to host 0, so that the port to host 0 is busy.
    for _ in 0..8 {
        network.send(1, us(0), frame_of(7, 0, 1250));
    }
    // From host 0 to host 1 through the port that switch 1 leaves busy for itself: class 3 waits.
    for _ in 0..6 {
        network.send(0, us(0), frame_of(3, 1, 1250));
    }
    network.simulation.with_host(network.hosts[1], |host| {
        let mut stop = pfc(&[(3, 0xffff)]);
        stop[13] = 0x08;
        host.to_send[7].push_front((Instant::ZERO, stop));
    });
    network.run(us(400));
    let host = network.host(0);
    let (told_at, told) = host.control.first().expect("a pause");
    assert_eq!(told[14..20], [1, 1, 0, 8, 0, 0]);
    // The link to host 0 is busy with frames of 10 us each; the pause of 480 ns is between two.
    let gaps: Vec<_> = host.arrived.windows(2).collect();
    let around = gaps
        .iter()
        .find(|pair| pair[0].0 < *told_at && *told_at < pair[1].0);
    let around = around.expect("frames before and after");
    assert_eq!(*told_at, around[0].0 + GIGABIT.time_for(60));
    assert_eq!(around[1].0, *told_at + GIGABIT.time_for(1250));
}
