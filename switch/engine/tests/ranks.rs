//! Queues with ranks, by fields of the program.

use std::collections::BTreeMap;

use ebb_engine::Switch;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{Profile, QueueConfig, RankFields, TrafficManagerConfig};

use crate::classes::*;
use crate::outside::*;
use crate::switches::*;

/// One queue with ranks at port 2.
fn ranked(field: &str, flow: &str) -> TrafficManagerConfig {
    let profile = Profile {
        name: "p".into(),
        rate_bps: GIGABIT,
        queue: vec![QueueConfig {
            rank: true,
            capacity_packets: Some(10),
            ..QueueConfig::default()
        }],
        ..Profile::default()
    };
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), "p".into())]),
        profile: vec![profile],
        rank: Some(RankFields {
            field: field.into(),
            flow: flow.into(),
        }),
        ..TrafficManagerConfig::default()
    }
}

fn install(pipeline: Pipeline, field: &str, flow: &str) -> Result<Switch, String> {
    let mut switch = Switch::new(options("s"), ranked(field, flow)).expect("valid");
    let installed = switch.install(pipeline);
    installed.map(|()| switch).map_err(|e| e.to_string())
}

#[test]
fn the_packet_of_the_least_rank_leaves_first_and_flows_keep_their_order() {
    for pipeline in [classes_program(), interpreted_classes_program()] {
        let mut switch = install(pipeline, "rank", "flow").expect("both fields");
        forward(&mut switch, 9, 2);
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(switch);
        attach(&mut fabric, at(s, 2));
        // The first is sent at once. Then the rank 5 of flow 2 is the least, and the oldest of that
        // flow leaves.
        let sent = [(1, 9, 1), (1, 7, 2), (2, 300, 3), (3, 6, 4), (2, 5, 5)];
        for (number, (flow, rank, mark)) in (0..).zip(sent) {
            let mut frame = frame_of(0, 9, 1000);
            frame[9] = flow;
            frame[10..12].copy_from_slice(&u16::to_be_bytes(rank));
            frame[999] = mark;
            inject(&mut fabric, ns(number), at(s, 1), frame);
        }
        let marks: Vec<_> = run(&mut fabric).iter().map(|o| o.frame[999]).collect();
        assert_eq!(marks, [1, 3, 5, 4, 2]);
    }
}

#[test]
fn fields_that_do_not_do_are_refused() {
    let refused = |field: &str, flow: &str| match install(classes_program(), field, flow) {
        Ok(_) => panic!("{field} and {flow} were taken"),
        Err(problem) => problem,
    };
    assert_eq!(
        refused("ranks", "flow"),
        "traffic manager: [rank] field = \"ranks\": the program has no such field; give one of its \
         metadata (\"rank\") or of a header (\"ipv4.identification\")"
    );
    assert_eq!(
        refused("rank", "wide"),
        "traffic manager: [rank] flow = \"wide\": it has 48 bits; a field of at most 32 bits will do"
    );
    assert!(
        install(
            classes_program(),
            "ethernet.ether_type",
            "standard_metadata.ingress_port"
        )
        .is_ok()
    );
}
