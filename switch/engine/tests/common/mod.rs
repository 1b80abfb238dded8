//! Networks of switches that run `programs/trim.json`, under a virtual clock.

#![allow(dead_code)] // not every test file uses every helper

use std::collections::{BTreeMap, VecDeque};

use ebb_bmv2_json::Program;
use ebb_engine::simulation::Simulation;
use ebb_engine::{Host, NetworkError, NodeId, NodePort, Switch, SwitchOptions};
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{ActionCall, MatchKey, Replica, TableAction, TableEntry};
use ebb_traffic_manager::{OnFull, Profile, QueueConfig, TrafficManagerConfig};
use ebb_units::{BitRate, Duration, Instant};

pub const CPU_PORT: u16 = 510;

pub fn trim_program() -> Pipeline {
    let program = Program::from_json(include_bytes!("../programs/trim.json")).expect("readable");
    Pipeline::load(&program).expect("loadable")
}

/// Queue 0 of two packets that deflects, queue 7 without limit.
pub fn deflecting_profile(rate: BitRate, delay_ns: u64) -> Profile {
    let queue = |id, capacity_packets, on_full| QueueConfig {
        id,
        capacity_packets,
        on_full,
        ..QueueConfig::default()
    };
    Profile {
        name: "p".into(),
        rate_bps: rate,
        delay_ns,
        queue: vec![
            queue(0, Some(2), OnFull::Deflect),
            queue(7, None, OnFull::TailDrop),
        ],
        ..Profile::default()
    }
}

pub fn switch(name: &str, profile: Profile) -> Switch {
    let config = TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    };
    let options = SwitchOptions {
        name: name.into(),
        device_id: 0,
        cpu_port: Some(CPU_PORT),
        drop_port: 511,
    };
    let mut switch = Switch::new(options, config).expect("valid configuration");
    switch.install(trim_program());
    switch
}

/// A destination address that ends in `last`.
pub fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

pub fn frame(to: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&mac(to));
    frame[6..12].copy_from_slice(&mac(0xff));
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    for (i, byte) in frame[14..].iter_mut().enumerate() {
        *byte = i as u8;
    }
    frame
}

fn add_entry(switch: &mut Switch, to: u8, action: &str, parameter: u16) {
    let pipeline = switch.pipeline_mut().expect("a program");
    let table = pipeline.table("IngressImpl.dmac").expect("a table");
    let action = pipeline.table_action(table, action).expect("an action");
    let entry = TableEntry {
        key: vec![MatchKey::Exact(mac(to).to_vec())],
        priority: 0,
        action: TableAction::Direct(ActionCall {
            action,
            params: vec![parameter.to_be_bytes().to_vec()],
        }),
        idle_timeout: None,
        metadata: Vec::new(),
    };
    pipeline
        .insert_entry(Instant::ZERO, table, entry)
        .expect("room");
}

pub fn forward(switch: &mut Switch, to: u8, port: u16) {
    add_entry(switch, to, "IngressImpl.forward", port);
}

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

pub fn at(node: NodeId, port: u16) -> NodePort {
    NodePort { node, port }
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
