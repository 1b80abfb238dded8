//! Switches and links under a virtual clock: exact times, deflection, conservation.

use std::sync::mpsc;

use ebb_engine::simulation::Simulation;
use ebb_engine::{NetworkError, Notice, SwitchReport};
use ebb_traffic_manager::{Count, OnFull, RankFields};
use ebb_units::{BitRate, Duration, Instant};

use crate::outside::*;
use crate::switches::*;

const GIGABIT: BitRate = BitRate::from_mbps(1000);

#[test]
fn latency_over_two_switches_is_exact() {
    // A rate at which a byte takes no whole number of picoseconds.
    let (fast, slow) = (GIGABIT, BitRate::from_bps(300_000_007));
    let mut fabric = Simulation::new();
    let s1 = fabric.add_switch(switch("s1", deflecting_profile(fast, 10_000)));
    let s2 = fabric.add_switch(switch("s2", deflecting_profile(slow, 3_500)));
    fabric.connect(at(s1, 2), at(s2, 1)).expect("free ports");
    attach(&mut fabric, at(s1, 1));
    attach(&mut fabric, at(s2, 2));
    for s in [s1, s2] {
        fabric.with_switch(s, |switch| forward(switch, 9, 2));
    }
    let sent = frame(9, 1500);
    let start = Instant::from_nanos(77);
    inject(&mut fabric, start, at(s1, 1), sent.clone());
    let outputs = run(&mut fabric);
    let expected = start
        + fast.time_for(1500)
        + Duration::from_nanos(10_000)
        + slow.time_for(1500)
        + Duration::from_nanos(3_500);
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0].at, expected);
    assert_eq!(outputs[0].from, at(s2, 2));
    assert_eq!(outputs[0].frame, sent);
}

#[test]
fn receive_delay_applies_to_frames_from_outside_only() {
    let mut profile = deflecting_profile(BitRate::default(), 0);
    profile.rx_delay_ns = 1_000;
    let mut fabric = Simulation::new();
    let s1 = fabric.add_switch(switch("s1", profile.clone()));
    let s2 = fabric.add_switch(switch("s2", profile));
    fabric.connect(at(s1, 2), at(s2, 1)).expect("free ports");
    attach(&mut fabric, at(s2, 2));
    for s in [s1, s2] {
        fabric.with_switch(s, |switch| forward(switch, 9, 2));
    }
    inject(&mut fabric, Instant::ZERO, at(s1, 1), frame(9, 100));
    assert_eq!(run(&mut fabric)[0].at, Instant::from_micros(1));
}

#[test]
fn what_does_not_fit_is_deflected_and_trimmed_by_the_program() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| forward(switch, 9, 2));
    // One frame is being sent, two wait, and two do not fit.
    inject_burst(&mut fabric, 5, at(s, 1), &frame(9, 1500));
    let outputs = run(&mut fabric);
    let lengths: Vec<_> = outputs.iter().map(|o| o.frame.len()).collect();
    assert_eq!(lengths, [1500, 64, 64, 1500, 1500]);
    assert_eq!(outputs[1].frame, frame(9, 1500)[..64]);
    let starts = [12_000, 12_512, 13_024, 25_024, 37_024].map(Instant::from_nanos);
    assert_eq!(outputs.iter().map(|o| o.at).collect::<Vec<_>>(), starts);
    let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
    assert_eq!(report.drops, []);
    let port = report.ports.iter().find(|p| p.port == 2).expect("port 2");
    assert_eq!(port.queues[0].deflected, count(2, 3000));
    assert_eq!(port.queues[1].transmitted, count(2, 128));
    assert_eq!(port.busy_ns, 37_024);
}

/// Ethernet types are the ranks: 9 gives way to 5, and there is nothing that would to another 9.
#[test]
fn what_is_pushed_out_is_deflected_and_trimmed_by_the_program() {
    let mut profile = deflecting_profile(GIGABIT, 0);
    profile.queue[0].rank = true;
    profile.queue[0].on_full = OnFull::PushOutDeflect;
    let ranks = RankFields {
        field: "ethernet.ether_type".into(),
        flow: "ethernet.ether_type".into(),
    };
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(ranked_switch("s", profile, Some(ranks)));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| forward(switch, 9, 2));
    let of_rank = |rank: u8| {
        let mut frame = frame(9, 1500);
        frame[12..14].copy_from_slice(&[0, rank]);
        frame
    };
    // The first is sent at once, two wait.
    for rank in [1, 9, 7, 5, 9] {
        inject(&mut fabric, Instant::ZERO, at(s, 1), of_rank(rank));
    }
    let outputs = run(&mut fabric);
    let sent: Vec<_> = outputs
        .iter()
        .map(|o| (o.frame[13], o.frame.len()))
        .collect();
    assert_eq!(sent, [(1, 1500), (9, 64), (9, 64), (5, 1500), (7, 1500)]);
    let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
    assert_eq!(report.drops, []);
    let port = report.ports.iter().find(|p| p.port == 2).expect("port 2");
    assert_eq!(port.queues[0].deflected, count(2, 3000));
}

/// Two packets wait and three more arrive: three are trimmed, not always those that came last.
#[test]
fn either_the_packet_or_the_youngest_is_deflected_and_trimmed_by_the_program() {
    let whole_of = |begin_ns: u64| {
        let mut profile = deflecting_profile(GIGABIT, 0);
        profile.queue[0].on_full = OnFull::DeflectEither;
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(switch("s", profile));
        attach(&mut fabric, at(s, 2));
        fabric.with_switch(s, |switch| forward(switch, 9, 2));
        for number in 0..6 {
            let mut frame = frame(9, 1500);
            frame[20] = number;
            inject(&mut fabric, Instant::from_nanos(begin_ns), at(s, 1), frame);
        }
        let outputs = run(&mut fabric);
        let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
        assert_eq!(report.drops, []);
        let port = report.ports.iter().find(|p| p.port == 2).expect("port 2");
        assert_eq!(port.queues[0].deflected, count(3, 4500));
        let whole = outputs.iter().filter(|o| o.frame.len() == 1500);
        let numbers: Vec<u8> = whole.map(|o| o.frame[20]).collect();
        assert_eq!(numbers[..2], [0, 1], "none but the youngest gives way");
        numbers[2]
    };
    let kept: std::collections::BTreeSet<u8> = (0..20).map(whole_of).collect();
    assert!(kept.contains(&2) && kept.len() > 1, "{kept:?}");
}

#[test]
fn one_multicast_replica_is_deflected_on_its_own() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    for port in [2, 3] {
        attach(&mut fabric, at(s, port));
    }
    fabric.with_switch(s, |switch| {
        forward(switch, 9, 2);
        multicast(switch, 10, 5, &[2, 3]);
    });
    for _ in 0..3 {
        inject(&mut fabric, Instant::ZERO, at(s, 1), frame(9, 1500));
    }
    inject(
        &mut fabric,
        Instant::from_nanos(5),
        at(s, 1),
        frame(10, 1000),
    );
    let mut seen: Vec<_> = run(&mut fabric)
        .into_iter()
        .filter(|o| o.frame[5] == 10)
        .map(|o| (o.from.port, o.frame.len()))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(2, 64), (3, 1000)]);
}

#[test]
fn a_deflected_packet_that_does_not_fit_again_is_dropped_once() {
    let mut profile = deflecting_profile(GIGABIT, 0);
    profile.queue[1].capacity_packets = Some(1);
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", profile));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| forward(switch, 9, 2));
    inject_burst(&mut fabric, 6, at(s, 1), &frame(9, 1500));
    assert_eq!(run(&mut fabric).len(), 4);
    let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
    assert_eq!(drops.len(), 1);
    assert_eq!((drops[0].port, drops[0].queue), (2, Some(7)));
    assert_eq!(drops[0].reason, "deflect-failed");
    assert_eq!(drops[0].count, count(2, 128));
}

#[test]
fn the_control_queue_may_hand_a_packet_back_a_second_time() {
    let mut profile = deflecting_profile(GIGABIT, 0);
    profile.queue[1].capacity_packets = Some(1);
    profile.queue[1].on_full = OnFull::Deflect;
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", profile));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| forward(switch, 9, 2));
    inject_burst(&mut fabric, 6, at(s, 1), &frame(9, 1500));
    // The program sends it to the same queue once more, and that was the last time.
    assert_eq!(run(&mut fabric).len(), 4);
    let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
    let port = report.ports.iter().find(|p| p.port == 2).expect("port 2");
    assert_eq!(port.queues[0].deflected, count(3, 4500));
    assert_eq!(port.queues[1].deflected, count(2, 128));
    assert_eq!(report.drops.len(), 1);
    assert_eq!(report.drops[0].reason, "deflect-failed");
    assert_eq!(report.drops[0].count, count(2, 128));
}

#[test]
fn every_packet_is_accounted_for() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| {
        forward(switch, 9, 2);
        forward(switch, 8, 77); // not connected
        forward(switch, 7, 511); // the drop port
        multicast(switch, 6, 1, &[]);
    });
    let destinations = [9, 9, 8, 7, 6, 5, 9, 9, 9, 8];
    for to in destinations {
        inject(&mut fabric, Instant::ZERO, at(s, 1), frame(to, 200));
    }
    inject(&mut fabric, Instant::ZERO, at(s, 1), vec![1, 2, 3]); // no whole Ethernet header
    let sent = run(&mut fabric).len() as u64;
    let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
    let dropped: u64 = drops.iter().map(|row| row.count.packets).sum();
    assert_eq!(sent + dropped, destinations.len() as u64 + 1);
    let of = |reason: &str| {
        let rows = drops.iter().filter(|row| row.reason == reason);
        rows.map(|row| row.count.packets).sum::<u64>()
    };
    assert_eq!((of("no-such-port"), of("no-replica")), (2, 1));
    // One frame goes to the drop port, one to an unknown address, and the stub matches no entry.
    assert_eq!(of("ingress-mark-to-drop"), 3);
}

#[test]
fn a_switch_without_a_program_counts_what_it_drops() {
    let options = ebb_engine::SwitchOptions {
        name: "s".into(),
        device_id: 1,
        cpu_port: None,
        drop_port: 511,
    };
    let config = ebb_traffic_manager::TrafficManagerConfig::like_bmv2(1);
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(ebb_engine::Switch::new(options, config).expect("valid"));
    inject(&mut fabric, Instant::ZERO, at(s, 4), frame(9, 100));
    assert_eq!(run(&mut fabric), []);
    let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
    assert_eq!((drops[0].port, drops[0].reason.as_str()), (4, "no-program"));
}

#[test]
fn packets_to_and_from_the_controller() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    attach(&mut fabric, at(s, 2));
    let (sender, receiver) = mpsc::channel();
    fabric.with_switch(s, |switch| {
        forward(switch, 1, CPU_PORT);
        forward(switch, 2, 2);
        switch.set_listener(Some(Box::new(move |notice| sender.send(notice).is_ok())));
        assert!(switch.packet_out(frame(2, 90)));
    });
    inject(&mut fabric, Instant::ZERO, at(s, 2), frame(1, 80));
    let outputs = run(&mut fabric);
    assert_eq!(outputs[0].frame, frame(2, 90));
    let notices: Vec<_> = receiver.try_iter().collect();
    assert!(matches!(&notices[..], [Notice::PacketIn(f)] if *f == frame(1, 80)));
}

#[test]
fn a_new_program_starts_with_empty_queues() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    attach(&mut fabric, at(s, 2));
    fabric.with_switch(s, |switch| forward(switch, 9, 2));
    inject_burst(&mut fabric, 3, at(s, 1), &frame(9, 1500));
    fabric.run_until(Instant::from_micros(1), |_, _| false);
    let installed = fabric.with_switch(s, |switch| switch.install(trim_program()));
    assert_eq!(installed, Some(Ok(())));
    assert_eq!(run(&mut fabric).len(), 1, "the one on the wire");
    let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
    assert_eq!(
        (drops[0].reason.as_str(), drops[0].count.packets),
        ("flushed", 2)
    );
}

#[test]
fn wiring_mistakes_are_refused() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch("s", deflecting_profile(GIGABIT, 0)));
    attach(&mut fabric, at(s, 1));
    let twice = try_attach(&mut fabric, at(s, 1)).expect_err("a refusal");
    assert!(matches!(twice, NetworkError::Taken { port: 1, .. }));
    let reserved = try_attach(&mut fabric, at(s, CPU_PORT)).expect_err("a refusal");
    assert!(
        reserved.to_string().contains("is its CPU port"),
        "{reserved}"
    );
}

fn count(packets: u64, bytes: u64) -> Count {
    Count { packets, bytes }
}
