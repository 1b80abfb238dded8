//! No program can make more of a packet than a bounded number, however it makes copies.

use std::collections::BTreeMap;

use ebb_engine::simulation::Simulation;
use ebb_engine::{MAX_COPIES, Switch, SwitchReport};
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{CloneSession, Replica};
use ebb_traffic_manager::{Profile, QueueConfig};
use ebb_units::Instant;

use crate::outside::*;
use crate::switches::*;

fn program() -> Pipeline {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let text = include_str!("programs/storm.p4");
    let options = Default::default();
    let compiled = ebb_p4c::compile("storm.p4", text, &options, &mut sources, &diagnostics);
    Pipeline::load(&compiled.expect("a right program").json).expect("loadable")
}

fn set_up(switch: &mut Switch) {
    let mut pipeline = program();
    let replicas: Vec<_> = [1, 2]
        .map(|n| Replica {
            port: n,
            instance: n,
        })
        .into();
    pipeline
        .insert_multicast_group(1, replicas)
        .expect("a new group");
    let session = CloneSession {
        replicas: vec![Replica {
            port: 2,
            instance: 0,
        }],
        class_of_service: 0,
        packet_length_bytes: 0,
    };
    pipeline
        .insert_clone_session(1, session)
        .expect("a new session");
    switch.install(pipeline).expect("nothing is exported");
}

/// Sends a packet of that kind and tells how many came out, and what was dropped for which reason.
fn send(kind: u8) -> (usize, BTreeMap<String, u64>) {
    let profile = Profile {
        name: "unlimited".into(),
        queue: vec![QueueConfig::default()],
        ..Profile::default()
    };
    let mut switch = switch("s", profile);
    set_up(&mut switch);
    let mut network = Simulation::new();
    let s = network.add_switch(switch);
    for port in [1, 2] {
        attach(&mut network, at(s, port));
    }
    let frame = vec![kind, 0, 1, 2, 3];
    inject(&mut network, Instant::from_micros(1), at(s, 1), frame);
    let sent = run(&mut network).len();
    let mut drops = BTreeMap::new();
    for row in SwitchReport::of(network.switch(s).expect("a switch")).drops {
        *drops.entry(row.reason).or_default() += row.count.packets;
    }
    (sent, drops)
}

#[test]
fn copies_of_copies_come_to_an_end() {
    for (kind, name) in [
        (0, "multicast"),
        (1, "clones before egress"),
        (2, "clones after egress"),
        (3, "clones of resubmitted packets"),
    ] {
        let (sent, drops) = send(kind);
        assert_eq!(sent, 0, "{name}");
        let (copies, passes) = (drops["copy-limit"], drops["pass-limit"]);
        assert!(copies > 0 && passes > 0, "{name}: {drops:?}");
        // Each packet makes at most one too many in each pass.
        assert!(passes <= 2 * u64::from(MAX_COPIES + 1), "{name}: {drops:?}");
        assert!(copies <= 64 * passes, "{name}: {drops:?}");
    }
}

#[test]
fn a_packet_that_goes_round_may_make_copies() {
    let (sent, drops) = send(4);
    assert_eq!((sent, drops.len()), (60, 0), "{drops:?}");
}
