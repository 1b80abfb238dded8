//! Networks under a virtual clock, and who is outside of them.

use std::cmp::Ordering;
use std::collections::VecDeque;

use ebb_engine::simulation::Simulation;
use ebb_engine::{Host, NetworkError, NodeId, NodePort, Switch};
use ebb_pipeline::control::Replica;
use ebb_units::{Duration, Instant};

use crate::switches::{add_entry, at, forward};

/// Has frames for a destination leave by all of these ports.
pub fn multicast(switch: &mut Switch, to: u8, group: u16, ports: &[u16]) {
    add_entry(switch, to, "IngressImpl.multicast", group);
    let replica = |(instance, port): (u16, &u16)| Replica {
        port: *port,
        instance,
    };
    let replicas = (1..).zip(ports).map(replica).collect();
    let pipeline = switch.pipeline_mut().expect("a program");
    pipeline
        .insert_multicast_group(group, replicas)
        .expect("a new group");
}

/// Routes of switch `own` in a chain: destination i is behind port 3 of switch i, port 1 leads to the first switch and
/// 2 to the last.
pub fn add_routes(switch: &mut Switch, own: u8, length: u8) {
    for to in 0..length {
        let port = match to.cmp(&own) {
            Ordering::Less => 1,
            Ordering::Greater => 2,
            Ordering::Equal => 3,
        };
        forward(switch, to, port);
    }
}

/// The outside end of a switch port: puts frames there at given times, and notes what comes out.
pub struct Outside {
    from: NodePort,
    to_inject: VecDeque<(Instant, Vec<u8>)>,
    outputs: Vec<Output>,
}

/// A frame whose last bit arrived at the outside end of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub at: Instant,
    pub from: NodePort,
    pub frame: Vec<u8>,
}

impl Outside {
    /// The frames that have come out and were not taken.
    pub fn frames(&self) -> &[Output] {
        &self.outputs
    }
}

impl Host for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn receive(&mut self, at: Instant, frame: Vec<u8>) {
        let from = self.from;
        self.outputs.push(Output { at, from, frame });
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.to_inject.front().map(|(at, _)| *at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.next_wake().filter(|at| *at <= now)?;
        self.to_inject.pop_front()
    }
}

/// Makes a port external.
pub fn attach(fabric: &mut Simulation<Outside>, port: NodePort) -> NodeId {
    try_attach(fabric, port).expect("a free port")
}

pub fn try_attach(
    fabric: &mut Simulation<Outside>,
    port: NodePort,
) -> Result<NodeId, NetworkError> {
    let outside = fabric.add_host(Outside {
        from: port,
        to_inject: VecDeque::new(),
        outputs: Vec::new(),
    });
    fabric.connect(at(outside, 0), port)?;
    Ok(outside)
}

/// A frame's last bit arrives at an external port from outside.
pub fn inject(fabric: &mut Simulation<Outside>, when: Instant, port: NodePort, frame: Vec<u8>) {
    let outside = |fabric: &Simulation<Outside>| {
        let mut hosts = fabric.hosts();
        hosts.find_map(|(id, host)| (host.from == port).then_some(id))
    };
    let id = outside(fabric).unwrap_or_else(|| attach(fabric, port));
    let add = |host: &mut Outside| {
        let later = host.to_inject.partition_point(|(at, _)| *at <= when);
        host.to_inject.insert(later, (when, frame));
    };
    fabric.with_host(id, add).expect("a host");
}

/// `count` equal frames arrive 1 ns apart, the first at time 0.
pub fn inject_burst(fabric: &mut Simulation<Outside>, count: u64, port: NodePort, frame: &[u8]) {
    for number in 0..count {
        inject(fabric, Instant::from_nanos(number), port, frame.to_vec());
    }
}

/// Runs until nothing is left to happen and returns what came out.
pub fn run(fabric: &mut Simulation<Outside>) -> Vec<Output> {
    while let Some(next) = fabric.next_event() {
        fabric.run_until(next + Duration::from_micros(1), |_, _| false);
    }
    let hosts: Vec<NodeId> = fabric.hosts().map(|(id, _)| id).collect();
    let outputs = hosts
        .into_iter()
        .filter_map(|id| fabric.with_host(id, |host| std::mem::take(&mut host.outputs)));
    let mut outputs: Vec<Output> = outputs.flatten().collect();
    outputs.sort_by_key(|output| output.at);
    outputs
}
