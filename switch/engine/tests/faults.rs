//! Links that lose, corrupt and slow down, restarts, captures and samples under a virtual clock:
//! what they do, and that it is the same on any number of threads.

use std::io;
use std::sync::{Arc, Mutex};

use ebb_engine::simulation::Simulation;
use ebb_engine::{
    Direction, FrameSink, LinkState, NetworkError, NodeId, OpenSink, QueueSample, SwitchReport,
};
use ebb_traffic_manager::Depth;
use ebb_units::{BitRate, Duration, Instant};
use proptest::prelude::*;

use crate::outside::*;
use crate::switches::*;

const RATE: BitRate = BitRate::from_mbps(1000);
const DELAY_NS: u64 = 10_000;

fn up() -> LinkState {
    LinkState::default()
}

fn down() -> LinkState {
    LinkState { up: false, ..up() }
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// A chain with the routes of [`add_routes`].
fn chain(length: u8) -> (Simulation<Outside>, Vec<NodeId>) {
    let mut fabric = Simulation::new();
    let switches: Vec<NodeId> = (0..length)
        .map(|i| {
            let mut profile = deflecting_profile(RATE, DELAY_NS);
            profile.rx_delay_ns = DELAY_NS;
            fabric.add_switch(switch(&format!("s{i}"), profile))
        })
        .collect();
    for (i, id) in switches.iter().enumerate() {
        fabric.with_switch(*id, |s| add_routes(s, i as u8, length));
        attach(&mut fabric, at(*id, 3));
    }
    for pair in switches.windows(2) {
        fabric
            .connect(at(pair[0], 2), at(pair[1], 1))
            .expect("free ports");
    }
    (fabric, switches)
}

/// Packets that a switch counts by port and reason.
fn drops(fabric: &Simulation<Outside>, id: NodeId) -> Vec<(u16, String, u64)> {
    let report = SwitchReport::of(fabric.switch(id).expect("a switch"));
    let rows = report.drops.into_iter();
    rows.map(|row| (row.port, row.reason, row.count.packets))
        .collect()
}

#[test]
fn a_link_that_is_down_loses_what_is_sent_from_then_on() {
    let (mut fabric, s) = chain(2);
    for n in 0..4 {
        inject(&mut fabric, us(100 * n), at(s[0], 3), frame(1, 500));
    }
    fabric.run_until(us(150), |_, _| false);
    fabric.set_link(at(s[0], 2), down()).expect("a link");
    fabric.run_until(us(250), |_, _| false);
    fabric.set_link(at(s[0], 2), up()).expect("a link");
    assert_eq!(run(&mut fabric).len(), 3);
    assert_eq!(drops(&fabric, s[0]), [(2, "link-down".into(), 1)]);
    assert_eq!(drops(&fabric, s[1]), []);
}

#[test]
fn what_a_link_from_a_host_loses_is_counted_where_it_ends() {
    let (mut fabric, s) = chain(2);
    let states = fabric.link_states();
    let host = states
        .iter()
        .find(|info| info.to == at(s[0], 3))
        .expect("a host");
    fabric
        .set_link(host.from, LinkState { loss: 1.0, ..up() })
        .expect("a link");
    for n in 0..3 {
        inject(&mut fabric, us(n), at(s[0], 3), frame(1, 500));
    }
    assert_eq!(run(&mut fabric), []);
    assert_eq!(drops(&fabric, s[0]), [(3, "link-loss".into(), 3)]);
}

#[test]
fn a_corrupted_frame_goes_on_with_one_bit_flipped() {
    let (mut fabric, s) = chain(2);
    fabric
        .set_link(
            at(s[1], 3),
            LinkState {
                corrupt: 1.0,
                ..up()
            },
        )
        .expect("a link");
    let sent = frame(1, 500);
    inject(&mut fabric, us(0), at(s[0], 3), sent.clone());
    let outputs = run(&mut fabric);
    let differing = outputs[0]
        .frame
        .iter()
        .zip(&sent)
        .map(|(a, b)| (a ^ b).count_ones());
    assert_eq!(differing.sum::<u32>(), 1);
    assert_eq!(drops(&fabric, s[1]), [(3, "link-corrupt".into(), 1)]);
}

#[test]
fn a_slow_link_is_as_slow_as_it_says_and_queues_build_before_it() {
    let (mut fabric, s) = chain(2);
    let slow = LinkState {
        rate_bps: Some(100_000_000),
        ..up()
    };
    fabric.set_link(at(s[0], 2), slow).expect("a link");
    inject_burst(&mut fabric, 5, at(s[0], 3), &frame(1, 1500));
    let outputs = run(&mut fabric);
    // One is being sent and two wait; the others are trimmed and go first.
    let lengths: Vec<_> = outputs.iter().map(|output| output.frame.len()).collect();
    assert_eq!(lengths, [1500, 64, 64, 1500, 1500]);
    let slow = BitRate::from_mbps(100);
    let way = Duration::from_nanos(3 * DELAY_NS);
    assert_eq!(
        outputs[0].at,
        us(0) + slow.time_for(1500) + RATE.time_for(1500) + way
    );
    fabric.set_link(at(s[0], 2), up()).expect("a link");
    let again = fabric.now();
    inject(&mut fabric, again, at(s[0], 3), frame(1, 1500));
    assert_eq!(
        run(&mut fabric)[0].at,
        again + RATE.time_for(1500) * 2 + way
    );
}

#[test]
fn a_restarted_switch_has_nothing_left_and_keeps_its_links() {
    let (mut fabric, s) = chain(2);
    fabric
        .set_link(
            at(s[0], 2),
            LinkState {
                rate_bps: Some(500_000_000),
                ..up()
            },
        )
        .expect("a link");
    inject_burst(&mut fabric, 3, at(s[0], 3), &frame(1, 1500));
    fabric.run_until(us(15), |_, _| false);
    fabric.restart_switch(s[0]).expect("a switch");
    assert!(fabric.switch(s[0]).expect("a switch").pipeline().is_none());
    inject(&mut fabric, us(16), at(s[0], 3), frame(1, 1500));
    // The frame that was being sent is on its way and arrives.
    assert_eq!(run(&mut fabric).len(), 1);
    let report = SwitchReport::of(fabric.switch(s[0]).expect("a switch"));
    assert_eq!(
        report
            .ports
            .iter()
            .map(|port| port.transmitted.packets)
            .sum::<u64>(),
        0
    );
    assert_eq!(drops(&fabric, s[0]), [(3, "no-program".into(), 1)]);
    fabric.with_switch(s[0], |switch| {
        switch.install(trim_program()).expect("nothing is exported");
        add_routes(switch, 0, 2);
    });
    let again = fabric.now();
    inject(&mut fabric, again, at(s[0], 3), frame(1, 1500));
    let slow = BitRate::from_mbps(500).time_for(1500) + RATE.time_for(1500);
    assert_eq!(
        run(&mut fabric)[0].at,
        again + slow + Duration::from_nanos(3 * DELAY_NS)
    );
    let host = fabric.hosts().next().expect("a host").0;
    assert!(matches!(
        fabric.restart_switch(host),
        Err(NetworkError::NotASwitch { .. })
    ));
}

#[test]
fn queues_are_sampled_at_exact_instants() {
    let (mut fabric, s) = chain(2);
    fabric.sample_queues(s[0], &[(2, 0), (2, 7)], Duration::from_micros(12));
    inject_burst(&mut fabric, 4, at(s[0], 3), &frame(1, 1500));
    fabric.run_until(us(48), |_, _| false);
    let samples = fabric.take_queue_samples();
    let depth = |at, queue| -> Vec<Depth> {
        let wanted = |s: &&QueueSample| s.at == at && s.queue == queue;
        samples.iter().filter(wanted).map(|s| s.depth).collect()
    };
    let waiting = |packets| Depth {
        packets,
        bytes: packets * 1500,
    };
    // The frames are there from 10 us on; each takes 12 us, the trimmed one 0.512 us.
    for (time, packets) in [(0, 0), (12, 2), (24, 1), (36, 0), (48, 0)] {
        assert_eq!(depth(us(time), 0), [waiting(packets)], "{time} us");
    }
    assert_eq!(
        depth(us(12), 7),
        [Depth {
            packets: 1,
            bytes: 64
        }]
    );
    assert_eq!(samples.len(), 10);
    assert!(fabric.take_queue_samples().is_empty());
}

/// Captured frames.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Frames>>);

#[derive(Clone, Default)]
struct Frames {
    /// Direction, length in bytes and time in nanoseconds of every frame.
    recorded: Vec<(Direction, usize, u64)>,
    /// How many of them had been recorded at the last flush.
    flushed: usize,
}

impl Captured {
    fn open(&self) -> OpenSink {
        let sink = self.clone();
        Box::new(|| Ok(Box::new(sink)))
    }
}

impl FrameSink for Captured {
    fn record(&mut self, direction: Direction, at: Instant, frame: &[u8]) -> io::Result<()> {
        let recorded = &mut self.0.lock().expect("no panic").recorded;
        recorded.push((direction, frame.len(), at.as_nanos()));
        match recorded.len() {
            3 => Err(io::Error::other("full")),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut frames = self.0.lock().expect("no panic");
        frames.flushed = frames.recorded.len();
        Ok(())
    }
}

#[test]
fn a_capture_has_both_directions_of_a_port_with_their_times() {
    let (mut fabric, s) = chain(2);
    let captured = Captured::default();
    let here = at(s[0], 2);
    fabric
        .start_capture(here, captured.open())
        .expect("a capture");
    inject(&mut fabric, us(0), at(s[0], 3), frame(1, 1500));
    inject(&mut fabric, us(500), at(s[1], 3), frame(0, 100));
    run(&mut fabric);
    let Frames { recorded, flushed } = captured.0.lock().expect("no panic").clone();
    let expected = [
        (Direction::Out, 1500, 22_000),
        (Direction::In, 100, 520_800),
    ];
    assert_eq!(recorded, expected);
    assert_eq!(flushed, 2, "whoever looks between two runs sees all");
    fabric.stop_capture(here).expect("it runs");
    let stopped = fabric.stop_capture(here);
    assert!(matches!(
        stopped,
        Err(NetworkError::NoCapture { port: 2, .. })
    ));
}

#[test]
fn a_capture_that_fails_ends_and_the_switch_goes_on() {
    let (mut fabric, s) = chain(2);
    let captured = Captured::default();
    let here = at(s[0], 2);
    fabric
        .start_capture(here, captured.open())
        .expect("a capture");
    for n in 0..5 {
        inject(&mut fabric, us(100 * n), at(s[0], 3), frame(1, 100));
    }
    assert_eq!(run(&mut fabric).len(), 5);
    assert_eq!(captured.0.lock().expect("no panic").recorded.len(), 3);
    let stopped = fabric.stop_capture(here);
    assert!(matches!(stopped, Err(NetworkError::NoCapture { .. })));
}

#[test]
fn a_capture_that_cannot_begin_is_refused() {
    let (mut fabric, s) = chain(2);
    let refused = fabric.start_capture(at(s[0], 2), Box::new(|| Err(io::Error::other("why"))));
    let message = refused.expect_err("no sink").to_string();
    assert_eq!(message, "why");
    // Where there is no port, nothing is opened.
    let none = fabric.start_capture(at(s[0], 9), Box::new(|| unreachable!()));
    assert!(matches!(none, Err(NetworkError::NoLink { .. })));
}

/// Something that is done to the network.
#[derive(Clone, Debug)]
enum Fault {
    Link { link: usize, state: LinkState },
    Restart { switch: usize },
}

fn faults() -> impl Strategy<Value = Vec<(u64, Fault)>> {
    let state = (
        any::<bool>(),
        0.0..0.5f64,
        0.0..0.5f64,
        prop::option::of(50..900u64),
    );
    let state = state.prop_map(|(up, loss, corrupt, mbps)| LinkState {
        up,
        loss,
        corrupt,
        rate_bps: mbps.map(|mbps| mbps * 1_000_000),
    });
    let fault = prop_oneof![
        4 => (0..100usize, state).prop_map(|(link, state)| Fault::Link { link, state }),
        1 => (0..100usize).prop_map(|switch| Fault::Restart { switch }),
    ];
    prop::collection::vec((1..80u64, fault), 1..10)
}

/// Everything that can be seen of a run.
type Seen = (u64, Vec<Output>, Vec<SwitchReport>, Vec<QueueSample>);

fn run_with(faults: &[(u64, Fault)], parts: usize) -> Seen {
    const LENGTH: u8 = 5;
    let (mut fabric, s) = chain(LENGTH);
    fabric.spread(parts);
    for id in &s {
        fabric.sample_queues(*id, &[(1, 0), (2, 0), (3, 7)], Duration::from_micros(7));
    }
    for n in 0..150usize {
        let to = ((n * 7) % usize::from(LENGTH)) as u8;
        let sent = frame(to, 100 + (n * 131) % 1400);
        inject(&mut fabric, us(2 * n as u64), at(s[n % s.len()], 3), sent);
    }
    let links = fabric.link_states();
    let mut time = 0;
    for (after, fault) in faults {
        time += after;
        fabric.run_until(us(time), |_, _| false);
        match fault {
            Fault::Link { link, state } => {
                let from = links[link % links.len()].from;
                fabric.set_link(from, *state).expect("a link");
            }
            Fault::Restart { switch } => {
                let switch = switch % s.len();
                fabric.restart_switch(s[switch]).expect("a switch");
                fabric.with_switch(s[switch], |restarted| {
                    restarted
                        .install(trim_program())
                        .expect("nothing is exported");
                    add_routes(restarted, switch as u8, LENGTH);
                });
            }
        }
    }
    fabric.run_until(us(5_000), |_, _| false);
    let outputs = run(&mut fabric);
    let reports = fabric
        .switches()
        .map(|(_, switch)| SwitchReport::of(switch));
    let reports = reports.collect();
    (
        fabric.trace_hash(),
        outputs,
        reports,
        fabric.take_queue_samples(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ebb_testkit::cases(5))
    })]

    #[test]
    fn faults_do_the_same_on_any_number_of_threads(faults in faults()) {
        let expected = run_with(&faults, 1);
        prop_assert!(!expected.1.is_empty());
        for parts in [2, 3] {
            let seen = run_with(&faults, parts);
            prop_assert_eq!(seen.0, expected.0, "{} parts", parts);
            prop_assert!(seen == expected, "{} parts: the same trace, other outputs", parts);
        }
    }
}
