//! The packet generator of Tofino in a switch: timers, ports that go down, packets that come round again; and copies to
//! the CPU.

use ebb_engine::NodeId;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::Pipeline;
use ebb_pipeline::generator::{Application, PortRole, Trigger};
use ebb_units::{Duration, Instant};

use crate::outside::{Outside, inject, run};
use crate::switches::at;
use crate::tofino;

/// The port at which the pipe generates, and by which packets come round.
const GENERATES: u16 = 68;
const BYTES: [u8; 4] = [0xa, 0xb, 0xc, 0xd];

/// A switch with hosts at ports 1 to 3 whose generator sends [`BYTES`] twice for each trigger.
fn fabric(trigger: Trigger) -> (Simulation<Outside>, NodeId) {
    let text = include_str!("programs/generated.p4");
    let pipeline = tofino::pipeline("generated.p4", text, false);
    let (mut fabric, id) = tofino::fabric(pipeline, 8, 1..=3);
    fabric.with_switch(id, |switch| {
        let now = switch.now();
        let generator = switch.pipeline_mut().expect("a program").generator();
        let generator = generator.expect("a program for Tofino");
        let role = PortRole {
            generates: true,
            looks_for_patterns: true,
        };
        generator.set_port(GENERATES, role);
        assert!(generator.write_buffer(16, &BYTES));
        let application = Application {
            trigger: Some(trigger),
            is_enabled: true,
            length: BYTES.len(),
            offset: 16,
            more_packets: 1,
            packet_gap: Duration::from_nanos(100),
            ..Application::default()
        };
        assert!(generator.set_application(now, 1, application));
        generator.rearm(2);
    });
    (fabric, id)
}

/// The frames that left: when in ns, by which port, and the bytes.
fn left(fabric: &mut Simulation<Outside>) -> Vec<(u64, u16, Vec<u8>)> {
    let all = run(fabric).into_iter();
    all.map(|of| (of.at.as_nanos(), of.from.port, of.frame))
        .collect()
}

fn generated(head: [u8; 6]) -> Vec<u8> {
    [&head[..], &BYTES].concat()
}

#[test]
fn a_timer_sends_packets_at_their_times() {
    let (mut fabric, id) = fabric(Trigger::Once(Duration::from_micros(5)));
    let expected = vec![
        (5000, 2, generated([1, 0, 0, 0, 0, 0])),
        (5100, 2, generated([1, 0, 0, 0, 0, 1])),
    ];
    assert_eq!(left(&mut fabric), expected);
    let counts = fabric.with_switch(id, |switch| {
        let generator = switch.pipeline_mut().and_then(Pipeline::generator);
        generator.map(|generator| generator.applications()[1].counts)
    });
    assert_eq!(counts.flatten(), Some([1, 1, 2]));
}

#[test]
fn a_period_goes_on() {
    let (mut fabric, _) = fabric(Trigger::Every(Duration::from_micros(10)));
    fabric.run_until(Instant::from_micros(35), |_, _| false);
    let hosts: Vec<_> = fabric.hosts().map(|(id, _)| id).collect();
    let came: usize = hosts
        .into_iter()
        .filter_map(|id| fabric.with_host(id, |host| host.frames().len()))
        .sum();
    assert_eq!(came, 6);
}

#[test]
fn a_port_that_goes_down_is_told_of_once() {
    let (mut fabric, id) = fabric(Trigger::PortDown { mask: 0 });
    for up in [false, true, false] {
        fabric.with_switch(id, |switch| switch.set_port_up(2, up));
    }
    fabric.with_switch(id, |switch| switch.set_port_up(2, true));
    let all = left(&mut fabric);
    let frames: Vec<_> = all.into_iter().map(|(_, _, frame)| frame).collect();
    assert_eq!(frames, [0, 1].map(|n| generated([1, 0, 0, 2, 0, n])));
}

#[test]
fn a_packet_that_comes_round_sets_off_by_its_first_bytes() {
    let (mut fabric, id) = fabric(Trigger::Pattern {
        value: 0xfe00_0000,
        mask: 0xff00_0000,
    });
    let sent = |first| vec![first, 1, 2, 3, 4];
    inject(&mut fabric, Instant::from_micros(1), at(id, 1), sent(0xfd));
    inject(&mut fabric, Instant::from_micros(2), at(id, 1), sent(0xfe));
    let expected = vec![
        (1000, 2, sent(0xfd)),
        (2000, 2, generated([1, 1, 2, 3, 0, 0])),
        (2000, 3, sent(0xfe)),
        (2100, 2, generated([1, 1, 2, 3, 0, 1])),
    ];
    assert_eq!(left(&mut fabric), expected);
}

#[test]
fn a_copy_for_the_cpu_goes_to_its_port_unless_it_is_dropped() {
    let (mut fabric, id) = fabric(Trigger::PortDown { mask: 0 });
    let sent = |last| vec![0xfc, 0, 0, last];
    let ports = |fabric: &mut Simulation<Outside>, drop| {
        let now = fabric.now();
        inject(fabric, now, at(id, 3), sent(drop));
        let mut ports: Vec<u16> = left(fabric).into_iter().map(|(_, port, _)| port).collect();
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(&mut fabric, 0), [2]);
    fabric.with_switch(id, |switch| {
        switch
            .pipeline_mut()
            .expect("a program")
            .set_cpu_port(Some(1));
    });
    // Bit 0 drops the packet, bit 1 the copy.
    let seen = [0, 1, 2, 3].map(|drop| ports(&mut fabric, drop));
    assert_eq!(seen, [vec![1, 2], vec![1], vec![2], vec![]]);
}
