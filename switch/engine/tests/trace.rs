//! Events for those who watch packets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ebb_engine::simulation::Simulation;
use ebb_engine::trace::{Cause, Event, Visit, Watch};
use ebb_engine::{NodeId, Switch};
use ebb_units::{BitRate, Instant};

use crate::outside::*;
use crate::switches::*;

type Seen = Arc<Mutex<Vec<Visit>>>;

/// Notes visits until it has had `most`.
fn watch(switch: &mut Switch, ports: &[u16], packets: u64, most: usize) -> Seen {
    let seen = Seen::default();
    let notes = seen.clone();
    let watch = Watch {
        ports: ports.iter().copied().collect(),
        packets,
        sink: Box::new(move |visit| {
            let mut notes = notes.lock().unwrap();
            notes.push(visit.clone());
            notes.len() < most
        }),
    };
    assert!(switch.watch(watch));
    seen
}

/// A switch with a rate of 1 Mbit/s; frames of 125 bytes take 1 ms each.
fn network(set_up: impl FnOnce(&mut Switch)) -> (Simulation<Outside>, NodeId) {
    let mut switch = switch("s", deflecting_profile(BitRate::from_mbps(1), 0));
    set_up(&mut switch);
    let mut network = Simulation::new();
    let switch = network.add_switch(switch);
    for port in 1..=3 {
        attach(&mut network, at(switch, port));
    }
    (network, switch)
}

fn send(network: &mut Simulation<Outside>, switch: NodeId, port: u16, to: u8) {
    let now = Instant::from_micros(1000);
    inject(network, now, at(switch, port), frame(to, 125));
}

/// Everything but the pipeline's own events.
fn outline(visit: &Visit) -> Vec<String> {
    let own = visit
        .events
        .iter()
        .filter(|e| !matches!(e, Event::Pipeline(_)));
    let text = own.map(|e| {
        let text = e.to_string();
        text.split(" 0200").next().unwrap().to_owned()
    });
    text.collect()
}

#[test]
fn a_packet_is_seen_from_port_to_port() {
    let mut seen = Seen::default();
    let (mut network, switch) = network(|switch| {
        forward(switch, 9, 2);
        seen = watch(switch, &[1], 10, usize::MAX);
    });
    send(&mut network, switch, 1, 9);
    send(&mut network, switch, 3, 9);
    run(&mut network);
    let seen = seen.lock().unwrap();
    let outlines: Vec<_> = seen.iter().map(outline).collect();
    assert_eq!(
        outlines,
        [
            [
                "in at port 1: 125 bytes",
                "into queue 0 of port 2: 125 bytes, behind 0 packets (0 bytes)",
            ],
            [
                "out of queue 0 of port 2 after 0.000 us, 0 packets (0 bytes) stay",
                "out at port 2: 125 bytes",
            ],
        ]
    );
    let text = seen[0].to_string();
    assert!(text.starts_with("s packet 1, 1000.000 us\n"), "{text}");
    for line in [
        "  state start\n",
        "  table IngressImpl.dmac: ",
        "    hit -> IngressImpl.forward(port 2)\n",
        "    standard_metadata.egress_spec: 0 -> 2\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn copies_and_deflections_are_followed() {
    let mut seen = Seen::default();
    let (mut network, switch) = network(|switch| {
        multicast(switch, 9, 5, &[2, 3]);
        seen = watch(switch, &[], u64::MAX, usize::MAX);
    });
    // One packet is sent at once, two wait, and the fourth does not fit.
    for _ in 0..4 {
        send(&mut network, switch, 1, 9);
    }
    run(&mut network);
    let seen = seen.lock().unwrap();
    let last: Vec<&Visit> = seen.iter().filter(|v| v.packet_id == 4).collect();
    let entered: Vec<Cause> = last
        .iter()
        .filter_map(|v| match v.events[0] {
            Event::Enters { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(
        entered,
        [Cause::Arrived, Cause::Deflected, Cause::Deflected]
    );
    let deflected = outline(last[0]);
    assert_eq!(
        deflected[1..],
        [
            "multicast group 5: port 2 (instance 1), port 3 (instance 2)",
            "deflected by queue 0 of port 2, in which are 2 packets (250 bytes)",
            "deflected by queue 0 of port 3, in which are 2 packets (250 bytes)",
        ]
    );
    let sent: BTreeSet<_> = last
        .iter()
        .flat_map(|v| &v.events)
        .filter_map(|e| match e {
            Event::Sent { port, .. } => Some(*port),
            _ => None,
        })
        .collect();
    assert_eq!(sent, BTreeSet::from([2, 3]));
}

/// The sink is dropped when the last packet has left, or at once if it wants no more.
#[test]
fn a_watch_ends() {
    let (mut few, mut enough) = (Seen::default(), Seen::default());
    let (mut network, switch) = network(|switch| {
        forward(switch, 9, 2);
        few = watch(switch, &[], 2, usize::MAX);
        enough = watch(switch, &[], u64::MAX, 3);
    });
    for _ in 0..3 {
        send(&mut network, switch, 1, 9);
    }
    run(&mut network);
    assert_eq!(few.lock().unwrap().len(), 4);
    assert_eq!(enough.lock().unwrap().len(), 3);
    assert_eq!(Arc::strong_count(&few), 1);
    assert_eq!(Arc::strong_count(&enough), 1);
    // The places of watches that have ended are free again.
    network.with_switch(switch, |switch| {
        for _ in 0..8 {
            watch(switch, &[], 1, 1);
        }
    });
}

#[test]
fn a_watch_whose_owner_has_gone_makes_room_though_no_packet_comes() {
    let owner = Arc::new(());
    let (mut network, switch) = network(|_| {});
    network.with_switch(switch, |switch| {
        let mut another = || {
            let owner = Arc::downgrade(&owner);
            let sink = move |_: &Visit| owner.strong_count() > 0;
            switch.watch(Watch {
                ports: BTreeSet::new(),
                packets: u64::MAX,
                sink: Box::new(sink),
            })
        };
        let begun: Vec<bool> = (0..9).map(|_| another()).collect();
        assert_eq!(begun.iter().filter(|begun| **begun).count(), 8);
        assert!(!begun[8]);
    });
    drop(owner);
    network.with_switch(switch, |switch| {
        let seen = watch(switch, &[], 1, usize::MAX);
        assert!(seen.lock().unwrap().is_empty());
    });
}

#[test]
fn a_drop_has_its_reason() {
    let mut seen = Seen::default();
    let (mut network, switch) = network(|switch| seen = watch(switch, &[], 1, usize::MAX));
    send(&mut network, switch, 1, 7);
    run(&mut network);
    let seen = seen.lock().unwrap();
    assert_eq!(outline(&seen[0])[1..], ["dropped: ingress-mark-to-drop"]);
    let miss = "    miss -> IngressImpl.drop()\n";
    assert!(seen[0].to_string().contains(miss), "{}", seen[0]);
}
