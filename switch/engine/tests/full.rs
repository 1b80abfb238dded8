//! A switch with all mechanisms of the fabric, `fabric_full.p4`, which sends 10.0.P.x to port P in the queue that the
//! DSCP names, and who is outside of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use ebb_engine::Switch;
use ebb_engine::simulation::Host;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::control::{ActionCall, MatchKey, TableAction, TableEntry, WeightedAction};
use ebb_pipeline::{EntryId, Pipeline};
use ebb_traffic_manager::{Profile, QueueConfig, TrafficManagerConfig};
use ebb_units::Instant;
use ebb_wire::{Ecn, Ipv4Header, Protocol};

use crate::classes::{GIGABIT, options};
use crate::switches::*;

/// Ports to which frames go; they come in at port 1.
pub const PORTS: [u16; 2] = [2, 3];
/// Queues, and the DSCP of their class.
pub const QUEUES: [u8; 3] = [0, 3, 7];
/// Who sends.
pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

static PROGRAM: LazyLock<ebb_bmv2_json::Program> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/fabric_full.p4");
    let text = std::fs::read_to_string(path).expect("the program of the repository");
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let compiled = ebb_p4c::compile(path, &text, &Default::default(), &mut sources, &diagnostics);
    compiled.expect("a right program").json
});

pub fn call(pipeline: &Pipeline, table: &str, action: &str, params: &[u64]) -> ActionCall {
    let table = pipeline.table(table).expect("a table");
    let action = pipeline.table_action(table, action).expect("an action");
    let params = params.iter().map(|n| n.to_be_bytes().to_vec()).collect();
    ActionCall { action, params }
}

pub fn add(
    pipeline: &mut Pipeline,
    table: &str,
    key: Vec<MatchKey>,
    action: TableAction,
) -> EntryId {
    let table = pipeline.table(table).expect("a table");
    let entry = TableEntry {
        key,
        priority: 0,
        action,
        idle_timeout: None,
        metadata: Vec::new(),
    };
    let inserted = pipeline.insert_entry(Instant::ZERO, table, entry);
    inserted.expect("room")
}

/// The switch, whose ports send at a gigabit.
pub fn full_switch() -> Switch {
    let queue = |id| QueueConfig {
        id,
        ..QueueConfig::default()
    };
    let profile = Profile {
        name: "p".into(),
        rate_bps: GIGABIT,
        queue: QUEUES.map(queue).to_vec(),
        ..Profile::default()
    };
    let config = TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), "p".into())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    };
    let mut switch = Switch::new(options("s"), config).expect("valid configuration");
    let pipeline = Pipeline::load(&PROGRAM).expect("loadable");
    switch.install(pipeline).expect("nothing is exported");
    let pipeline = switch.pipeline_mut().expect("a program");
    for port in PORTS {
        let (table, action) = (
            "FabricIngress.route.ipv4_route",
            "FabricIngress.route.set_next_hop",
        );
        let to_port = WeightedAction {
            call: call(pipeline, table, action, &[u64::from(port), 1, 2]),
            weight: 1,
            watch_port: None,
        };
        let there = MatchKey::Lpm {
            value: vec![10, 0, port as u8, 0],
            prefix_len: 24,
        };
        add(
            pipeline,
            table,
            vec![there],
            TableAction::Set(vec![to_port]),
        );
    }
    for queue in QUEUES {
        let (table, action) = (
            "FabricIngress.traffic_class.traffic_class",
            "FabricIngress.traffic_class.set_traffic_class",
        );
        let action = call(pipeline, table, action, &[u64::from(queue), 0, 0, 0]);
        let dscp = MatchKey::Exact(vec![queue]);
        add(pipeline, table, vec![dscp], TableAction::Direct(action));
    }
    switch
}

/// A frame of this many bytes to a port, of the class of a queue.
pub fn frame_to(port: u16, queue: u8, bytes: usize) -> Vec<u8> {
    let mut packet = frame(0, 14);
    let to = Ipv4Addr::new(10, 0, port as u8, 2);
    Ipv4Header::new(SENDER, to, Protocol(200), queue, Ecn::NotEct).emit(bytes - 34, &mut packet);
    packet.resize(bytes, 0);
    packet
}

/// A host outside of a port: frames come from it at given times, and it notes those that arrive.
#[derive(Default)]
pub struct Outside {
    pub to_send: VecDeque<(Instant, Vec<u8>)>,
    pub arrived: Vec<(Instant, Vec<u8>)>,
}

impl Host for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.arrived.push((now, frame));
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.next_wake().filter(|at| *at <= now)?;
        self.to_send.pop_front()
    }
}
