//! Multicast of programs for Tofino: group 0, and exclusion by level 1.

use std::collections::HashMap;

use ebb_engine::NodeId;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::Replica;

use crate::outside::{Outside, inject, run};
use crate::switches::at;
use crate::tofino;

/// A switch with hosts at ports 1 to 3.
fn fabric(is_interpreted: bool) -> (Simulation<Outside>, NodeId) {
    let text = include_str!("programs/groups.p4");
    tofino::fabric(
        tofino::pipeline("groups.p4", text, is_interpreted),
        1,
        1..=3,
    )
}

fn with<R>(fabric: &mut Simulation<Outside>, id: NodeId, f: impl FnOnce(&mut Pipeline) -> R) -> R {
    fabric
        .with_switch(id, |switch| f(switch.pipeline_mut().expect("a program")))
        .expect("a switch")
}

/// The ports by which a packet leaves that asks for this.
fn left(fabric: &mut Simulation<Outside>, id: NodeId, request: [u8; 6]) -> Vec<u16> {
    let now = fabric.now();
    inject(fabric, now, at(id, 3), request.to_vec());
    let mut ports: Vec<u16> = run(fabric).into_iter().map(|of| of.from.port).collect();
    ports.sort_unstable();
    ports
}

fn replicas(ports: [u16; 2]) -> [Replica; 2] {
    ports.map(|port| Replica { port, instance: 7 })
}

#[test]
fn group_0_is_that_of_packets_that_have_written_0() {
    for is_interpreted in [false, true] {
        let (mut fabric, id) = fabric(is_interpreted);
        let none = [0, 0, 0, 0, 0, 0];
        let to_1 = [1, 1, 0, 0, 0, 0];
        let to_group_0 = [2, 0, 0, 0, 0, 0];
        let to_both = [3, 3, 0, 0, 0, 0];
        let all = [none, to_1, to_group_0, to_both];
        let seen = |fabric: &mut _| all.map(|request| left(fabric, id, request));
        let without = [vec![], vec![1], vec![], vec![3]];
        assert_eq!(seen(&mut fabric), without);
        let created = with(&mut fabric, id, |pipeline| {
            pipeline.insert_multicast_group(0, replicas([1, 2]).to_vec())
        });
        created.unwrap();
        let expected = [vec![], vec![1], vec![1, 2], vec![1, 2, 3]];
        assert_eq!(seen(&mut fabric), expected);
        with(&mut fabric, id, |pipeline| {
            pipeline.delete_multicast_group(0)
        })
        .unwrap();
        assert_eq!(seen(&mut fabric), without);
    }
}

#[test]
fn level_1_excludes_the_copies_of_nodes_with_that_id() {
    let (mut fabric, id) = fabric(false);
    let [first, second] = replicas([1, 2]);
    let third = Replica {
        port: 3,
        instance: 7,
    };
    with(&mut fabric, id, |pipeline| {
        let all = vec![first, second, third];
        pipeline.insert_multicast_group(5, all.clone()).unwrap();
        pipeline.insert_multicast_group(6, all).unwrap();
        pipeline.set_exclusions(5, HashMap::from([(first, 0), (second, 0x8002)]));
    });
    let mut copies = |group, excluded: [u8; 2]| {
        left(&mut fabric, id, [2, 0, 0, group, excluded[0], excluded[1]])
    };
    assert_eq!(copies(5, [0x80, 2]), [1, 3]);
    // An id that nothing was written to is 0.
    assert_eq!(copies(5, [0, 0]), [2, 3]);
    assert_eq!(copies(5, [0xff, 0xff]), [1, 2, 3]);
    assert_eq!(copies(6, [0x80, 2]), [1, 2, 3]);
}
