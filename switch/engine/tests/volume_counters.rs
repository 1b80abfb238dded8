//! `volume_counters.p4` in a switch under random traffic: what it has counted of a slot when the next begins is, to the
//! byte, what left in that slot by the clock of the simulation, and what is read too late says so.

use std::collections::{BTreeMap, VecDeque};

use ebb_engine::Switch;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::control::TableAction;
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use crate::classes::GIGABIT;
use crate::full::{Outside, PORTS, QUEUES, call, frame_to, full_switch};
use crate::switches::at;

const SLOTS: u64 = 8;

/// A switch that counts in slots.
fn counting_switch(slot_us: u64) -> Switch {
    let mut switch = full_switch();
    let pipeline = switch.pipeline_mut().expect("a program");
    let (inverse, shift) = reciprocal(slot_us);
    let (table, action) = (
        "FabricEgress.volume_counters.volume",
        "FabricEgress.volume_counters.count_in_slot",
    );
    let action = call(pipeline, table, action, &[inverse, shift]);
    let table = pipeline.table(table).expect("a table");
    let set = pipeline.set_default_entry(table, Some(TableAction::Direct(action)));
    set.expect("an action of the table");
    switch
}

/// Factor and shift by which 48 bits are divided exactly.
fn reciprocal(divisor: u64) -> (u64, u64) {
    let shift = 48 + u64::from(divisor.next_power_of_two().trailing_zeros());
    let inverse = (1u128 << shift).div_ceil(u128::from(divisor));
    (inverse.try_into().expect("49 bits"), shift)
}

#[derive(Clone, Debug)]
struct Frame {
    gap_ns: u64,
    port: u16,
    queue: u8,
    bytes: usize,
}

impl Frame {
    fn any() -> impl Strategy<Value = Frame> {
        // Mostly close together, so that queues build up; sometimes whole slots apart.
        let gap_ns = prop_oneof![8 => 0..8_000u64, 1 => 0..600_000u64];
        let (port, queue) = (prop::sample::select(&PORTS), prop::sample::select(&QUEUES));
        let all = (gap_ns, port, queue, 60..1_515usize);
        all.prop_map(|(gap_ns, port, queue, bytes)| Frame {
            gap_ns,
            port,
            queue,
            bytes,
        })
    }
}

/// Slot, port and queue.
type Bin = (u64, u16, u8);

/// Value that a reader finds of a slot that is over; none: it has come too late.
fn read(switch: &Switch, (slot, port, queue): Bin) -> Option<(u64, u64)> {
    let pipeline = switch.pipeline().expect("a program");
    let cell = ((slot & 1) * 512 + u64::from(port)) * 8 + u64::from(queue);
    let value = |name: &str| {
        let name = format!("FabricEgress.volume_counters.volume_{name}");
        let register = pipeline.register(&name).expect("a register");
        let bytes = pipeline.register_value(register, cell).expect("a cell");
        bytes
            .iter()
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    };
    match value("slot") {
        named if named > slot => None,
        named if named < slot => Some((0, 0)),
        _ => Some((value("bytes"), value("packets"))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn slots_hold_what_left_in_them_by_the_clock(
        frames in prop::collection::vec(Frame::any(), 1..300),
        slot_us in prop_oneof![1..20u64, 20..2_000u64],
        late_by in 1..4u64,
    ) {
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(counting_switch(slot_us));
        let source = simulation.add_host(Outside::default());
        simulation.connect(at(switch, 1), at(source, 0)).unwrap();
        let sinks = PORTS.map(|port| {
            let sink = simulation.add_host(Outside::default());
            simulation.connect(at(switch, port), at(sink, 0)).unwrap();
            sink
        });
        let mut now = Instant::ZERO;
        let to_send: VecDeque<_> = frames
            .iter()
            .map(|frame| {
                now += Duration::from_nanos(frame.gap_ns);
                (now, frame_to(frame.port, frame.queue, frame.bytes))
            })
            .collect();
        simulation.with_host(source, |host| host.to_send = to_send);

        let bins = |slot| PORTS.into_iter().flat_map(move |port| QUEUES.map(|q| (slot, port, q)));
        let (mut counted, mut late) = (BTreeMap::<Bin, (u64, u64)>::new(), BTreeMap::new());
        for slot in 0..SLOTS + late_by {
            simulation.run_until(Instant::from_micros((slot + 1) * slot_us), |_, _| false);
            let switch = simulation.switch(switch).unwrap();
            for bin in bins(slot) {
                counted.insert(bin, read(switch, bin).expect("read in time"));
            }
            // Nothing can be said of a slot whose bank another one has taken.
            if let Some(missed) = slot.checked_sub(late_by) {
                late.extend(bins(missed).map(|bin| (bin, read(switch, bin))));
            }
        }
        simulation.run_until(Instant::FAR_FUTURE, |_, _| false);

        let mut left = BTreeMap::<Bin, (u64, u64)>::new();
        for (port, sink) in PORTS.into_iter().zip(sinks) {
            for (arrived, frame) in &simulation.host(sink).unwrap().arrived {
                let (queue, bytes) = (frame[15] >> 2, frame.len() as u64);
                let on_the_link = GIGABIT.time_for(bytes).as_picos();
                let begun_us = (arrived.as_picos() - on_the_link) / 1_000_000;
                let bin = left.entry((begun_us / slot_us, port, queue)).or_default();
                *bin = (bin.0 + bytes, bin.1 + 1);
            }
        }
        for (bin, counts) in &counted {
            prop_assert_eq!(*counts, left.get(bin).copied().unwrap_or_default(), "{:?}", bin);
        }
        // Either what it was, or nothing: never the bytes of another slot.
        for (bin, counts) in &late {
            prop_assert!(counts.is_none() || *counts == counted.get(bin).copied(), "{:?}", bin);
        }
        let (all, in_time) = (frames.len() as u64, counted.values().map(|(_, packets)| packets));
        prop_assert!(in_time.sum::<u64>() <= all);
    }

    #[test]
    fn a_reciprocal_divides_all_of_48_bits(divisor in 1..1u64 << 32, n in 0..1u64 << 48) {
        let (inverse, shift) = reciprocal(divisor);
        let product = |n: u64| ((u128::from(n) * u128::from(inverse)) >> shift) as u64;
        prop_assert_eq!(product(n), n / divisor);
        let edge = n / divisor * divisor;
        prop_assert_eq!(product(edge), edge / divisor);
        prop_assert_eq!(product(edge.saturating_sub(1)), edge.saturating_sub(1) / divisor);
    }
}
