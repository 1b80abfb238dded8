//! Switches that run `programs/trim.json`, and frames for them. The tests of the driver use them too.

use std::collections::BTreeMap;

use ebb_bmv2_json::Program;
use ebb_engine::{NodeId, NodePort, Switch, SwitchOptions};
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{ActionCall, MatchKey, TableAction, TableEntry};
use ebb_traffic_manager::{OnFull, Profile, QueueConfig, RankFields, TrafficManagerConfig};
use ebb_units::{BitRate, Instant};

pub const CPU_PORT: u16 = 510;

pub fn trim_program() -> Pipeline {
    let program = Program::from_json(include_bytes!("programs/trim.json")).expect("readable");
    Pipeline::load(&program).expect("loadable")
}

/// A profile in which queue 0 holds two packets and deflects, and queue 7 has no limit.
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
    ranked_switch(name, profile, None)
}

/// One whose queues may serve by these fields.
pub fn ranked_switch(name: &str, profile: Profile, rank: Option<RankFields>) -> Switch {
    let config = TrafficManagerConfig {
        rank,
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
    switch.install(trim_program()).expect("nothing is exported");
    switch
}

/// The destination address that ends in `last`.
pub fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// An IPv4 frame of `len` bytes for a destination, without an IPv4 header in it.
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

/// A port of a switch or host.
pub fn at(node: NodeId, port: u16) -> NodePort {
    NodePort { node, port }
}

/// Adds an entry to the table of destinations.
pub fn add_entry(switch: &mut Switch, to: u8, action: &str, parameter: u16) {
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

/// Has frames for a destination leave by a port.
pub fn forward(switch: &mut Switch, to: u8, port: u16) {
    add_entry(switch, to, "IngressImpl.forward", port);
}
