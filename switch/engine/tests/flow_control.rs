//! Priority-based flow control as a switch obeys it: what neighbours ask for, when it takes effect
//! and ends, and what happens to frames that ask for nothing.

use std::sync::mpsc;

use ebb_engine::simulation::Simulation;
use ebb_engine::trace::{Event, Visit, Watch};
use ebb_engine::{NodeId, SwitchReport, drop_table};
use ebb_traffic_manager::{QueueStatistics, Watchdog};
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use crate::classes::*;
use crate::outside::*;
use crate::switches::*;

/// A switch that sends frames for address 9 by port 2.
fn one_switch(watchdog: Option<(Duration, Watchdog)>) -> (Simulation<Outside>, NodeId) {
    let mut config = config();
    if let (Some((after, what)), Some(pfc)) = (watchdog, &mut config.pfc) {
        (pfc.watchdog_ns, pfc.watchdog) = (after.as_nanos(), what);
    }
    let mut switch = lossless_switch("s", config);
    forward(&mut switch, 9, 2);
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch);
    for port in [1, 2] {
        attach(&mut fabric, at(s, port));
    }
    (fabric, s)
}

/// Arrivals at the far end of port 2: when, and of which class.
fn arrivals(outputs: &[Output]) -> Vec<(Instant, u8)> {
    let port_2 = outputs.iter().filter(|output| output.from.port == 2);
    port_2.map(|o| (o.at, class_of(&o.frame))).collect()
}

fn queue(fabric: &Simulation<Outside>, s: NodeId, class: u8) -> QueueStatistics {
    let ports = fabric.switch(s).expect("a switch").statistics();
    let port = ports.into_iter().find(|port| port.port == 2);
    let mut queues = port.expect("port 2").queues.into_iter();
    queues.find(|q| q.queue == class).expect("the queue")
}

/// When a frame of 1000 bytes is at the far end that starts to leave then.
fn through(start: Instant) -> Instant {
    start + GIGABIT.time_for(1000) + DELAY
}

/// When a frame that is injected then is at the switch.
fn arrives(injected: Instant) -> Instant {
    injected + DELAY
}

#[test]
fn a_pause_stops_its_class_and_only_it_until_it_expires() {
    let (mut fabric, s) = one_switch(None);
    inject(&mut fabric, us(10), at(s, 2), pfc(&[(3, 100)]));
    for class in [3, 5, 0, 7] {
        inject(&mut fabric, us(20), at(s, 1), frame_of(class, 9, 1000));
    }
    let outputs = run(&mut fabric);
    // Class 3 comes first, but must wait; the others leave by priority, whichever was first.
    let others = [5, 7, 0].into_iter().zip(0..);
    let start = arrives(us(20));
    let mut expected: Vec<_> = others
        .map(|(class, n)| (through(start + GIGABIT.time_for(1000) * n), class))
        .collect();
    expected.push((through(arrives(us(10)) + RESPONSE + quanta(100)), 3));
    assert_eq!(arrivals(&outputs), expected);
    let statistics = queue(&fabric, s, 3);
    let counted = (statistics.pauses_received, statistics.pauses_expired);
    assert_eq!(counted, (1, 1));
    assert_eq!(statistics.paused_ns, quanta(100).as_nanos());
    assert_eq!(queue(&fabric, s, 5).pauses_received, 0);
}

#[test]
fn a_pause_takes_effect_after_the_response_and_spares_the_frame_that_is_being_sent() {
    let (mut fabric, s) = one_switch(None);
    let pause_at = us(50);
    let effect = arrives(pause_at) + RESPONSE;
    inject(&mut fabric, pause_at, at(s, 2), pfc(&[(3, 1000)]));
    // Starts 1 ns before the pause takes effect; the one behind it would start during the pause.
    let just_before = effect - Duration::from_nanos(1) - DELAY;
    for _ in 0..2 {
        inject(&mut fabric, just_before, at(s, 1), frame_of(3, 9, 1000));
    }
    let arrived = arrivals(&run(&mut fabric));
    assert_eq!(arrived[0].0, through(effect - Duration::from_nanos(1)));
    assert_eq!(arrived[1].0, through(effect + quanta(1000)));
}

#[test]
fn a_frame_that_would_start_with_the_pause_waits() {
    let (mut fabric, s) = one_switch(None);
    inject(&mut fabric, us(50), at(s, 2), pfc(&[(3, 1000)]));
    let effect = arrives(us(50)) + RESPONSE;
    inject(&mut fabric, effect - DELAY, at(s, 1), frame_of(3, 9, 1000));
    // It arrives first and starts at once: arrivals come before all else at the same time.
    assert_eq!(arrivals(&run(&mut fabric))[0].0, through(effect));
    // One that the frame before has held up until then does not start.
    let (mut fabric, s) = one_switch(None);
    inject(&mut fabric, us(50), at(s, 2), pfc(&[(3, 1000)]));
    let before = effect - GIGABIT.time_for(1000) - DELAY;
    for _ in 0..2 {
        inject(&mut fabric, before, at(s, 1), frame_of(3, 9, 1000));
    }
    let arrived = arrivals(&run(&mut fabric));
    assert_eq!(arrived[0].0, through(effect - GIGABIT.time_for(1000)));
    assert_eq!(arrived[1].0, through(effect + quanta(1000)));
}

#[test]
fn a_resume_ends_a_pause_and_a_renewal_prolongs_it() {
    let (mut fabric, s) = one_switch(None);
    inject(&mut fabric, us(0), at(s, 2), pfc(&[(3, 200), (5, 200)]));
    inject(&mut fabric, us(30), at(s, 2), pfc(&[(3, 0)]));
    inject(&mut fabric, us(80), at(s, 2), pfc(&[(5, 200)]));
    for class in [3, 5] {
        inject(&mut fabric, us(10), at(s, 1), frame_of(class, 9, 1000));
    }
    let arrived = arrivals(&run(&mut fabric));
    let resumed = through(arrives(us(30)) + RESPONSE);
    let renewed = through(arrives(us(80)) + RESPONSE + quanta(200));
    assert_eq!(arrived, [(resumed, 3), (renewed, 5)]);
    assert_eq!(queue(&fabric, s, 3).pauses_expired, 0);
    assert_eq!(queue(&fabric, s, 5).pauses_expired, 1);
    // A renewed pause is one pause.
    assert_eq!(queue(&fabric, s, 5).pauses_received, 1);
}

#[test]
fn what_is_no_pfc_frame_of_a_lossless_port_is_counted_and_changes_nothing() {
    let (mut fabric, s) = one_switch(None);
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = pfc(&[(3, 0xffff)]);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    // IEEE 802.3, annex 31B: opcode 1 and one time for all classes.
    let plain_pause = changed(14, &[0x00, 0x01, 0xff, 0xff]);
    let other_address = changed(0, &mac(2));
    let no_class = changed(16, &[0xff, 0x00]);
    let lossy_class = pfc(&[(0, 0xffff), (7, 0xffff)]);
    let short = pfc(&[(3, 0xffff)])[..59].to_vec();
    let header_only = pfc(&[(3, 0xffff)])[..14].to_vec();
    let long = [pfc(&[(3, 0xffff)]), vec![0; 4]].concat();
    let frames = [
        plain_pause,
        changed(14, &[0x12, 0x34]),
        other_address,
        no_class,
        short,
        header_only,
        long,
        lossy_class,
    ];
    for (number, frame) in (0..).zip(frames) {
        inject(&mut fabric, us(number), at(s, 2), frame);
    }
    for class in [0, 3, 5, 7] {
        inject(&mut fabric, us(10), at(s, 1), frame_of(class, 9, 1000));
    }
    let start = arrives(us(10));
    let arrived = arrivals(&run(&mut fabric));
    assert_eq!(arrived.len(), 4);
    assert_eq!(arrived[3].0, through(start + GIGABIT.time_for(3000)));
    let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
    let drops = report.drops.iter();
    let drops: Vec<_> = drops
        .map(|row| (row.port, row.queue, row.reason.as_str(), row.count.packets))
        .collect();
    let expected = [
        (2, None, "mac-control-ignored", 3),
        (2, None, "mac-control-malformed", 4),
    ];
    assert_eq!(drops, expected);
    let port = report.ports.iter().find(|p| p.port == 2).expect("port 2");
    assert_eq!(
        port.control_received.packets, 1,
        "the one for lossy classes"
    );
    assert_eq!(fabric.work().packet_hops, 4, "none of them is a packet");
}

#[test]
fn a_port_without_lossless_queues_ignores_pauses() {
    let mut lossy = config();
    lossy.pfc = None;
    for queue in &mut lossy.profile[0].queue {
        queue.lossless = false;
    }
    let mut switch = lossless_switch("s", lossy);
    forward(&mut switch, 9, 2);
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch);
    attach(&mut fabric, at(s, 2));
    inject(&mut fabric, us(0), at(s, 2), pfc(&[(3, 0xffff)]));
    inject(&mut fabric, us(10), at(s, 1), frame_of(3, 9, 1000));
    assert_eq!(arrivals(&run(&mut fabric)), [(through(arrives(us(10))), 3)]);
    let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
    assert_eq!(drops[0].reason, "mac-control-ignored");
}

/// The neighbour at port 2 pauses class 3 from 0 on, again and again, until then.
fn never_stops(fabric: &mut Simulation<Outside>, s: NodeId, until: Instant) {
    let mut now = Instant::ZERO;
    while now < until {
        inject(fabric, now, at(s, 2), pfc(&[(3, 0xffff)]));
        now += quanta(0x8000);
    }
}

/// Events at the links from now on.
fn watch_links(fabric: &mut Simulation<Outside>, s: NodeId) -> mpsc::Receiver<Visit> {
    let (sender, visits) = mpsc::channel();
    let watch = Watch {
        ports: [2].into(),
        packets: u64::MAX,
        sink: Box::new(move |visit| visit.packet_id != 0 || sender.send(visit.clone()).is_ok()),
    };
    assert_eq!(
        fabric.with_switch(s, |switch| switch.watch(watch)),
        Some(true)
    );
    visits
}

const STORM: Duration = Duration::from_micros(200_000);

#[test]
fn a_neighbour_that_never_stops_pausing_is_found_in_time() {
    let (mut fabric, s) = one_switch(Some((STORM, Watchdog::Report)));
    let visits = watch_links(&mut fabric, s);
    never_stops(&mut fabric, s, us(1_000_000));
    inject(&mut fabric, us(10), at(s, 1), frame_of(3, 9, 1000));
    let end = run(&mut fabric).pop().expect("the frame after all").at;
    assert!(end > us(1_000_000), "{end:?}");
    let statistics = queue(&fabric, s, 3);
    assert_eq!(statistics.pause_storms, 1);
    assert_eq!(
        (statistics.pauses_received, statistics.pauses_expired),
        (1, 1)
    );
    let storms: Vec<_> = visits
        .try_iter()
        .filter(|visit| matches!(visit.events[0], Event::PauseStorm { .. }))
        .collect();
    assert_eq!(storms.len(), 1);
    assert_eq!(storms[0].at, arrives(us(0)) + RESPONSE + STORM);
    let expected = Event::PauseStorm {
        port: 2,
        class: 3,
        lasted: STORM,
        ignored: false,
    };
    assert_eq!(storms[0].events, [expected]);
    assert_eq!(
        storms[0].to_string(),
        "s link, 200001.524 us\n  pause storm: class 3 of port 2 paused for 200.000 ms\n"
    );
    let report = SwitchReport::of(fabric.switch(s).expect("a switch"));
    let table = drop_table(&[report]);
    assert!(table.contains("s: pauses\n"), "{table}");
}

#[test]
fn after_a_storm_the_port_may_be_ignored_until_it_is_quiet() {
    let (mut fabric, s) = one_switch(Some((STORM, Watchdog::Ignore)));
    let visits = watch_links(&mut fabric, s);
    never_stops(&mut fabric, s, us(1_000_000));
    for at_us in [10, 900_000] {
        inject(&mut fabric, us(at_us), at(s, 1), frame_of(3, 9, 1000));
    }
    // Quiet for 200 ms after the last pause, and so obeyed again.
    inject(&mut fabric, us(1_300_000), at(s, 2), pfc(&[(3, 100)]));
    inject(&mut fabric, us(1_300_010), at(s, 1), frame_of(3, 9, 1000));
    let times: Vec<_> = arrivals(&run(&mut fabric))
        .into_iter()
        .map(|(at, _)| at)
        .collect();
    let expected = [
        through(arrives(us(0)) + RESPONSE + STORM),
        through(arrives(us(900_000))),
        through(arrives(us(1_300_000)) + RESPONSE + quanta(100)),
    ];
    assert_eq!(times, expected);
    let told: Vec<_> = visits
        .try_iter()
        .map(|visit| visit.events[0].clone())
        .collect();
    let again = Event::PausesObeyedAgain { port: 2 };
    assert_eq!(told.iter().filter(|event| **event == again).count(), 1);
}

#[test]
fn what_happens_at_a_link_is_traced() {
    let (mut fabric, s) = one_switch(None);
    let visits = watch_links(&mut fabric, s);
    inject(&mut fabric, us(0), at(s, 2), pfc(&[(3, 10), (5, 0)]));
    inject(&mut fabric, us(0), at(s, 1), pfc(&[(3, 10)]));
    run(&mut fabric);
    let told: Vec<_> = visits.try_iter().map(|visit| visit.to_string()).collect();
    let expected = [
        "s link, 0.500 us\n  port 2 is told: class 3 stops for 10 quanta, class 5 goes on\n",
        "s link, 6.644 us\n  the pause of port 2 expires: class 3\n",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_new_configuration_ends_pauses_of_classes_that_are_lossless_no_more() {
    let (mut fabric, s) = one_switch(None);
    inject(
        &mut fabric,
        us(0),
        at(s, 2),
        pfc(&[(3, 0xffff), (5, 0xffff)]),
    );
    for class in [3, 5] {
        inject(&mut fabric, us(10), at(s, 1), frame_of(class, 9, 1000));
    }
    fabric.run_until(us(100), |_, _| false);
    let mut less = config();
    less.profile[0].queue[1].lossless = false;
    let set = fabric.with_switch(s, |switch| switch.set_traffic_manager_config(less));
    assert_eq!(set, Some(Ok(())));
    let arrived = arrivals(&run(&mut fabric));
    let expires = through(arrives(us(0)) + RESPONSE + quanta(0xffff));
    assert_eq!(arrived, [(through(us(100)), 3), (expires, 5)]);
}

#[test]
fn packets_take_the_delay_of_the_pipeline_and_control_frames_do_not() {
    let mut delayed = config();
    delayed.profile[0].pipeline_delay_ns = 7_284;
    let mut switch = lossless_switch("s", delayed);
    forward(&mut switch, 9, 2);
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch);
    attach(&mut fabric, at(s, 2));
    let delay = Duration::from_nanos(7_284);
    // The pause comes after the packet, and takes effect before it is through.
    inject(&mut fabric, us(10), at(s, 1), frame_of(3, 9, 1000));
    inject(&mut fabric, us(11), at(s, 2), pfc(&[(3, 100)]));
    inject(&mut fabric, us(100), at(s, 1), frame_of(5, 9, 1000));
    let arrived = arrivals(&run(&mut fabric));
    let paused = through(arrives(us(11)) + RESPONSE + quanta(100));
    assert_eq!(
        arrived,
        [(paused, 3), (through(arrives(us(100)) + delay), 5)]
    );
}

/// Frames and pauses at random times, through a chain of switches with a delay of the pipeline, on
/// this many threads. Returns the hash of the trace and what came out.
fn chain(parts: usize, events: &[(u64, u8, u8, usize)]) -> (u64, Vec<Output>) {
    const LENGTH: u8 = 4;
    let mut fabric = Simulation::new();
    let mut switches = Vec::new();
    for own in 0..LENGTH {
        let mut delayed = config();
        delayed.profile[0].pipeline_delay_ns = 1_300;
        let mut switch = lossless_switch(&format!("s{own}"), delayed);
        add_routes(&mut switch, own, LENGTH);
        switches.push(fabric.add_switch(switch));
    }
    for pair in switches.windows(2) {
        fabric
            .connect(at(pair[0], 2), at(pair[1], 1))
            .expect("free ports");
    }
    for s in &switches {
        attach(&mut fabric, at(*s, 3));
    }
    for (number, (at_us, class, to, len)) in events.iter().enumerate() {
        let from = at(switches[number % switches.len()], 3);
        let frame = match *to {
            to if to < LENGTH => frame_of(*class, to, *len),
            _ => pfc(&[(*class, *len as u16)]),
        };
        inject(&mut fabric, us(*at_us), from, frame);
    }
    fabric.spread(parts);
    fabric.run_until(us(10_000), |_, _| false);
    let mut outputs = run(&mut fabric);
    outputs.sort_by_key(|output| (output.at, output.from, output.frame.clone()));
    (fabric.trace_hash(), outputs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(6)))]
    #[test]
    fn the_result_is_the_same_on_any_number_of_threads(
        events in prop::collection::vec(
            (0u64..300, prop::sample::select(vec![0u8, 3, 5, 7]), 0u8..6, 64usize..1500), 1..80)
    ) {
        prop_assert_eq!(chain(3, &events), chain(1, &events));
    }
}
