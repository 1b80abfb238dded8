//! State of queues in registers of the program: exact, or as stale as its period says.

use ebb_engine::simulation::Simulation;
use ebb_engine::{NodeId, Switch};
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{Export, QueueState, TrafficManagerConfig};
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use crate::classes::*;
use crate::outside::*;
use crate::switches::*;

const CLASSES: [u8; 4] = [0, 3, 5, 7];
/// The ports to which frames go.
const PORTS: [u16; 2] = [2, 3];

fn export(register: &str, what: QueueState, period_ns: u64) -> Export {
    Export {
        register: register.into(),
        what,
        period_ns,
    }
}

/// Both registers of the program, with this period.
fn exporting(period_ns: u64) -> TrafficManagerConfig {
    TrafficManagerConfig {
        export: vec![
            export("drain_bytes", QueueState::DrainBytes, period_ns),
            export("depth_packets", QueueState::DepthPackets, period_ns),
        ],
        ..config()
    }
}

fn cell(switch: &Switch, register: &str, index: u64) -> u64 {
    let pipeline = switch.pipeline().expect("a program");
    let register = pipeline.register(register).expect("a register");
    let bytes = pipeline.register_value(register, index).expect("a cell");
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Compares the registers with the depths of the queues.
fn check_registers(switch: &Switch) {
    for port in PORTS {
        let depth = |queue| switch.queue_depth(port, queue);
        for queue in 0..8 {
            let index = u64::from(port) * 8 + u64::from(queue);
            let drain: u64 = (queue..8).map(|queue| depth(queue).bytes).sum();
            assert_eq!(cell(switch, "drain_bytes", index), drain, "{port} {queue}");
            let packets = cell(switch, "depth_packets", index);
            assert_eq!(packets, depth(queue).packets, "{port} {queue}");
        }
    }
}

/// A frame that comes in: when in nanoseconds, class, port it goes to, length.
type Input = (u64, u8, u16, usize);

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let class = prop::sample::select(CLASSES.to_vec());
    let port = prop::sample::select(PORTS.to_vec());
    prop::collection::vec((0u64..60_000, class, port, 64usize..1500), 1..60)
}

fn set_up(pipeline: Pipeline, config: TrafficManagerConfig) -> (Simulation<Outside>, NodeId) {
    let mut switch = Switch::new(options("s"), config).expect("valid");
    switch.install(pipeline).expect("the registers are there");
    for port in PORTS {
        forward(&mut switch, port as u8, port);
    }
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(switch);
    for port in PORTS {
        attach(&mut fabric, at(s, port));
    }
    (fabric, s)
}

/// Depths that a frame which came out had seen: bytes before it, and packets in its queue.
fn seen(frame: &[u8]) -> (u64, u64) {
    let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
    (number(14).into(), number(18).into())
}

/// A frame on its way through the switch.
#[derive(Debug)]
struct Passage {
    came: Instant,
    started: Instant,
    class: u8,
    port: u16,
    bytes: u64,
    seen: (u64, u64),
}

/// Lets all frames pass, and says when each waited. They are numbered in their last bytes.
fn pass(fabric: &mut Simulation<Outside>, s: NodeId, inputs: &[Input]) -> Vec<Passage> {
    let mut inputs = inputs.to_vec();
    inputs.sort_by_key(|input| input.0);
    for (number, (at_ns, class, port, len)) in inputs.iter().enumerate() {
        let mut frame = frame_of(*class, *port as u8, *len);
        frame[*len - 1] = number as u8;
        inject(fabric, ns(*at_ns), at(s, 1), frame);
    }
    let outputs = run(fabric);
    // The switch also asks the sender to pause, who does not care.
    let packets = outputs.iter().filter(|output| output.from.port != 1);
    let mut passages: Vec<_> = packets
        .map(|output| {
            let len = output.frame.len();
            let number = usize::from(output.frame[len - 1]);
            let passage = Passage {
                came: ns(inputs[number].0) + DELAY,
                started: output.at - DELAY - GIGABIT.time_for(len as u64),
                class: class_of(&output.frame),
                port: output.from.port,
                bytes: len as u64,
                seen: seen(&output.frame),
            };
            (number, passage)
        })
        .collect();
    passages.sort_by_key(|(number, _)| *number);
    assert_eq!(passages.len(), inputs.len());
    passages.into_iter().map(|(_, passage)| passage).collect()
}

/// Frames that wait leave when their transmission starts; one that starts at the time at which it
/// comes has been in its queue for no time.
fn check_seen(passages: &[Passage]) {
    for (number, passage) in passages.iter().enumerate() {
        let waits = |p: &&Passage| p.started > p.came || p.started > passage.came;
        let earlier: Vec<_> = passages[..number].iter().filter(waits).collect();
        let there = earlier.iter().filter(|p| p.port == passage.port);
        // Arrivals come before departures of the same time.
        let there = there.filter(|p| p.started >= passage.came);
        let before = there.filter(|p| p.class >= passage.class);
        let expected = before.fold((0, 0), |(bytes, packets), p| {
            (
                bytes + p.bytes,
                packets + u64::from(p.class == passage.class),
            )
        });
        assert_eq!(passage.seen, expected, "frame {number}: {passage:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_register_without_a_period_is_exact_after_every_event(inputs in inputs()) {
        for pipeline in [classes_program(), interpreted_classes_program()] {
            let (mut fabric, s) = set_up(pipeline, exporting(0));
            check_seen(&pass(&mut fabric, s, &inputs));
            check_registers(fabric.switch(s).expect("a switch"));
        }
        let (mut fabric, s) = set_up(classes_program(), exporting(0));
        for (at_ns, class, port, len) in &inputs {
            inject(&mut fabric, ns(*at_ns), at(s, 1), frame_of(*class, *port as u8, *len));
        }
        while let Some(next) = fabric.next_event() {
            fabric.run_until(next + Duration::from_picos(1), |_, _| false);
            check_registers(fabric.switch(s).expect("a switch"));
        }
    }

    #[test]
    fn a_register_with_a_period_shows_what_was_at_its_last_multiple(
        inputs in inputs(), period_ns in 100u64..20_000,
    ) {
        let (mut fabric, s) = set_up(classes_program(), exporting(period_ns));
        let passages = pass(&mut fabric, s, &inputs);
        for passage in &passages {
            let came = passage.came.as_picos();
            let period = period_ns * 1000;
            // An update comes after all arrivals and departures of its time, so a frame that comes
            // then sees the one before.
            let update = Instant::from_picos((came - 1) / period * period);
            let there: Vec<_> = passages.iter().filter(|p| p.came <= update).collect();
            let waits = there.iter().filter(|p| p.started > update && p.started > p.came);
            let before = waits.filter(|p| p.port == passage.port && p.class >= passage.class);
            let expected = before.fold((0, 0), |(bytes, packets), p| {
                (bytes + p.bytes, packets + u64::from(p.class == passage.class))
            });
            prop_assert_eq!(passage.seen, expected, "{:?}", passage);
        }
        // Nothing changes any more, so what was last is shown.
        check_registers(fabric.switch(s).expect("a switch"));
    }
}

#[test]
fn a_register_that_does_not_do_is_refused_and_nothing_changes() {
    let refused = |register: &str, what, ports: u16| {
        let config = TrafficManagerConfig {
            export: vec![export(register, what, 0)],
            ..config()
        };
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(Switch::new(options("s"), config.clone()).expect("valid"));
        attach(&mut fabric, at(s, ports));
        let installed = fabric.with_switch(s, |switch| switch.install(classes_program()));
        let problem = installed
            .expect("a switch")
            .expect_err("a refusal")
            .to_string();
        assert!(fabric.switch(s).expect("a switch").pipeline().is_none());
        // The other way round: the program is there before the configuration.
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(lossless_switch("s", crate::classes::config()));
        attach(&mut fabric, at(s, ports));
        let set = fabric.with_switch(s, |switch| {
            let before = switch.traffic_manager_config().clone();
            let set = switch.set_traffic_manager_config(config);
            assert_eq!(*switch.traffic_manager_config(), before);
            set
        });
        let same = set.expect("a switch").expect_err("a refusal").to_string();
        assert_eq!(problem, same);
        problem
    };
    assert_eq!(
        refused("queue_drain", QueueState::DrainBytes, 1),
        "traffic manager: [[export]] register \"queue_drain\": the program has no such register; \
         it has: drain_bytes, depth_packets, narrow"
    );
    assert_eq!(
        refused("drain_bytes", QueueState::DrainBytes, 5),
        "traffic manager: [[export]] register \"drain_bytes\": it has 40 cells, and port 5 needs 48 \
         (port * 8 + queue); declare it larger"
    );
}

#[test]
fn a_register_too_narrow_for_its_values_is_refused() {
    // Four queues of this capacity in packets of 65,535 bytes; drain bytes add them up.
    let install = |capacity_packets| {
        let mut config = exporting(0);
        config.pfc = None;
        config.export[0] = export("narrow", QueueState::DrainBytes, 0);
        for queue in &mut config.profile[0].queue {
            (queue.lossless, queue.capacity_packets) = (false, capacity_packets);
        }
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(Switch::new(options("s"), config).expect("valid"));
        attach(&mut fabric, at(s, 1));
        let installed = fabric.with_switch(s, |switch| switch.install(classes_program()));
        installed
            .expect("a switch")
            .map_err(|problem| problem.to_string())
    };
    assert_eq!(install(Some(4)), Ok(()));
    for (capacity_packets, largest, bits) in [(Some(5), 1_310_700, 21), (None, u32::MAX, 32)] {
        assert_eq!(
            install(capacity_packets),
            Err(format!(
                "traffic manager: [[export]] register \"narrow\": its cells have 20 bits, and values \
                 of up to {largest} need {bits}; declare it wider"
            ))
        );
    }
}

#[test]
fn a_port_that_comes_later_must_fit_too() {
    let mut fabric = Simulation::new();
    let s = fabric.add_switch(lossless_switch("s", exporting(0)));
    attach(&mut fabric, at(s, 4));
    let problem = try_attach(&mut fabric, at(s, 5))
        .expect_err("a refusal")
        .to_string();
    assert_eq!(
        problem,
        "port 5 of switch \"s\": traffic manager: [[export]] register \"drain_bytes\": it has 40 \
         cells, and port 5 needs 48 (port * 8 + queue); declare it larger"
    );
}
