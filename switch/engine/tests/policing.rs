//! `policing.p4` in a switch under random traffic: the packets that conform, and the colours of the others, are those
//! of the token buckets of RFC 2698.

use std::collections::VecDeque;

use ebb_engine::Switch;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::control::{MatchKey, MeterConfig, TableAction};
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use crate::full::{Outside, SENDER, add, call, frame_to, full_switch};
use crate::switches::at;

/// Time that a rate of [`UNIT`] takes for a byte: with multiples of both, buckets hold whole bytes.
const TICK_NS: u64 = 8;
/// Bytes/s.
const UNIT: u64 = 125_000_000;
const DROPS: u64 = 1;

/// A switch that drops what does not conform.
fn policing_switch(contract: MeterConfig) -> Switch {
    let mut switch = full_switch();
    let pipeline = switch.pipeline_mut().expect("a program");
    let (table, action) = (
        "FabricIngress.policing.policing",
        "FabricIngress.policing.police",
    );
    let action = TableAction::Direct(call(pipeline, table, action, &[DROPS, 0, 0]));
    let key = vec![
        MatchKey::Exact(1u16.to_be_bytes().to_vec()),
        MatchKey::Exact(SENDER.octets().to_vec()),
    ];
    let entry = add(pipeline, table, key, action);
    let table = pipeline.table(table).expect("a table");
    let set = pipeline.set_entry_meter(Instant::ZERO, table, Some(entry), Some(contract));
    set.expect("a direct meter");
    switch
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Colour {
    Green,
    Yellow,
    Red,
}

/// The marker of RFC 2698, section 3, colour-blind. Tokens are bytes.
struct Marker {
    contract: MeterConfig,
    committed: u64,
    peak: u64,
}

impl Marker {
    fn colour(&mut self, ticks: u64, bytes: u64) -> Colour {
        let MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            ..
        } = self.contract;
        self.committed = cburst.min(self.committed + ticks * cir / UNIT);
        self.peak = pburst.min(self.peak + ticks * pir / UNIT);
        if self.peak < bytes {
            return Colour::Red;
        }
        self.peak -= bytes;
        if self.committed < bytes {
            return Colour::Yellow;
        }
        self.committed -= bytes;
        Colour::Green
    }
}

fn contracts() -> impl Strategy<Value = MeterConfig> {
    let bursts = (1_514..40_000u64, 1_514..6_000u64);
    (1..6u64, 0..10u64, bursts).prop_map(|(committed, more, (cburst, pburst))| MeterConfig {
        cir: committed * UNIT,
        cburst,
        pir: (committed + more) * UNIT,
        pburst,
        eburst: None,
    })
}

fn counted(switch: &Switch, name: &str) -> u64 {
    let pipeline = switch.pipeline().expect("a program");
    let counter = pipeline
        .counter(&format!("FabricIngress.policing.{name}"))
        .expect("a counter");
    pipeline.counter_value(counter, 1).expect("a cell").packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn colours_are_those_of_the_token_buckets(
        contract in contracts(),
        frames in prop::collection::vec((0..1_500u64, 60..1_515usize), 1..300),
    ) {
        let mut marker = Marker { contract, committed: contract.cburst, peak: contract.pburst };
        let (mut now, mut to_send, mut colours) = (Instant::ZERO, VecDeque::new(), Vec::new());
        for (ticks, bytes) in &frames {
            now += Duration::from_nanos(ticks * TICK_NS);
            to_send.push_back((now, frame_to(2, 0, *bytes)));
            colours.push(marker.colour(*ticks, *bytes as u64));
        }
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(policing_switch(contract));
        let [source, sink] = [0; 2].map(|_| simulation.add_host(Outside::default()));
        simulation.connect(at(switch, 1), at(source, 0)).unwrap();
        simulation.connect(at(switch, 2), at(sink, 0)).unwrap();
        simulation.with_host(source, |host| host.to_send = to_send);
        simulation.run_until(Instant::FAR_FUTURE, |_, _| false);

        let arrived = &simulation.host(sink).unwrap().arrived;
        let passed: Vec<_> = arrived.iter().map(|(_, frame)| frame.len()).collect();
        let green = frames.iter().zip(&colours).filter(|(_, colour)| **colour == Colour::Green);
        let green: Vec<_> = green.map(|((_, bytes), _)| *bytes).collect();
        prop_assert_eq!(passed, green);
        let switch = simulation.switch(switch).unwrap();
        for (name, of) in [("policed_yellow", Colour::Yellow), ("policed_red", Colour::Red)] {
            let expected = colours.iter().filter(|colour| **colour == of).count();
            prop_assert_eq!(counted(switch, name), expected as u64, "{}", name);
        }
    }
}
