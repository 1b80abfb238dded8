//! A switch with four ports under a virtual clock.

use std::collections::VecDeque;
use std::fmt::Write;

use ebb_bmv2_json::Program;
use ebb_engine::simulation::{Host, NodeId, NodePort, Simulation};
use ebb_engine::{Notice, Switch, SwitchOptions};
use ebb_pipeline::{CounterId, MeterId, Pipeline, RegisterId, ValueSetId};
use ebb_traffic_manager::{OnFull, Profile, QueueConfig, TrafficManagerConfig};
use ebb_units::{BitRate, Duration, Instant};

/// How many ports the switch has.
pub const PORTS: u16 = 4;
/// How many cells of each array are compared, counted from the first: operations use small indices.
const MOST_CELLS: u64 = 64;
/// The time between two operations.
const STEP: Duration = Duration::from_micros(7);

/// The widest member of a value set that is tried, in bits: a file may declare any width, even for
/// a set that nothing uses.
const MOST_KEY_BITS: u32 = 1024;

/// Arrays that keep numbers between packets, and the value sets of the parser.
#[derive(Default)]
pub(crate) struct Arrays {
    pub counters: Vec<CounterId>,
    pub meters: Vec<MeterId>,
    pub registers: Vec<RegisterId>,
    /// Each with the width of a member in bits, all keys together.
    pub value_sets: Vec<(ValueSetId, u32)>,
}

impl Arrays {
    /// The arrays that the pipeline knows by name; those that belong to tables have none there.
    pub fn new(source: &Program, p: &Pipeline) -> Arrays {
        let counters = source.counter_arrays.iter();
        let meters = source.meter_arrays.iter();
        let registers = source.register_arrays.iter();
        let value_sets = source.parse_vsets.iter();
        Arrays {
            counters: counters.filter_map(|c| p.counter(&c.name).ok()).collect(),
            meters: meters.filter_map(|m| p.meter(&m.name).ok()).collect(),
            registers: registers.filter_map(|r| p.register(&r.name).ok()).collect(),
            value_sets: value_sets
                .filter_map(|s| {
                    let bits = s.compressed_bitwidth.min(MOST_KEY_BITS);
                    Some((p.value_set(&s.name).ok()?, bits))
                })
                .collect(),
        }
    }
}

/// The outer end of a port.
struct Outside {
    /// Frames that it will send, and when.
    to_send: VecDeque<(Instant, Vec<u8>)>,
    /// Frames that it has received, and when.
    received: Vec<(Instant, Vec<u8>)>,
}

impl Host for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.received.push((now, frame));
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.next_wake().filter(|at| *at <= now)?;
        self.to_send.pop_front()
    }
}

/// A switch with what is at its ports.
pub struct World {
    simulation: Simulation<Outside>,
    switch: NodeId,
    ports: Vec<NodeId>,
    now: Instant,
    notices: std::sync::mpsc::Receiver<String>,
}

/// Eight queues of eight packets, which deflect, at 1 Gbit/s.
fn traffic_manager() -> TrafficManagerConfig {
    let queue = |id| QueueConfig {
        id,
        capacity_packets: Some(8),
        on_full: OnFull::Deflect,
        ..QueueConfig::default()
    };
    let profile = Profile {
        name: "p".into(),
        rate_bps: BitRate::from_mbps(1000),
        queue: (0..8).map(queue).collect(),
        ..Profile::default()
    };
    TrafficManagerConfig {
        ports: [("default".into(), profile.name.clone())].into(),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    }
}

impl World {
    pub fn new(pipeline: Pipeline) -> World {
        let options = SwitchOptions {
            name: "s".into(),
            device_id: 0,
            cpu_port: Some(510),
            drop_port: 511,
        };
        let mut switch = Switch::new(options, traffic_manager()).expect("a valid configuration");
        switch.install(pipeline).expect("nothing is exported");
        let (notes, notices) = std::sync::mpsc::channel();
        switch.set_listener(Some(Box::new(move |notice: Notice| {
            notes.send(format!("{notice:?}")).is_ok()
        })));
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(switch);
        let ports = (0..PORTS).map(|port| {
            let outside = simulation.add_host(Outside {
                to_send: VecDeque::new(),
                received: Vec::new(),
            });
            let end = |node, port| NodePort { node, port };
            simulation
                .connect(end(switch, port), end(outside, 0))
                .expect("a free port");
            outside
        });
        World {
            ports: ports.collect(),
            simulation,
            switch,
            now: Instant::ZERO,
            notices,
        }
    }

    pub fn pipeline<R>(&mut self, f: impl FnOnce(Instant, &mut Pipeline) -> R) -> R {
        let now = self.now;
        let done = self
            .simulation
            .with_switch(self.switch, |s| s.pipeline_mut().map(|p| f(now, p)));
        done.flatten().expect("it has a program")
    }

    /// Sends a frame to a port. Returns a description of messages to the controller and of what
    /// leaves soon.
    pub fn send(&mut self, port: u16, frame: &[u8]) -> String {
        let (at, frame) = (self.now, frame.to_vec());
        let outside = self.ports[usize::from(port % PORTS)];
        self.simulation
            .with_host(outside, |host| host.to_send.push_back((at, frame)));
        self.now += STEP;
        self.simulation.run_until(self.now, |_, _| false);
        let mut seen = String::new();
        for (port, outside) in self.ports.iter().enumerate() {
            let received = self
                .simulation
                .with_host(*outside, |host| std::mem::take(&mut host.received));
            for (at, frame) in received.unwrap_or_default() {
                let ns = at.as_nanos();
                writeln!(seen, "{ns} port {port}: {frame:02x?}").expect("memory");
            }
        }
        for notice in self.notices.try_iter() {
            writeln!(seen, "{notice}").expect("memory");
        }
        seen
    }

    /// State that packets have left behind: counts of switch, entries and arrays, and registers.
    pub fn memory(&self, arrays: &Arrays) -> String {
        let switch = self.simulation.switch(self.switch).expect("it is there");
        let p = switch.pipeline().expect("it has a program");
        let drops: Vec<_> = switch.drops().collect();
        let mut text = format!("{drops:?}\n{:?}\n{:?}\n", p.stats(), switch.statistics());
        let mut note = |line: std::fmt::Arguments| writeln!(text, "{line}").expect("memory");
        for table in p.tables() {
            note(format_args!(
                "{table:?} default {:?} {:?}",
                p.entry_counter(table, None),
                p.entry_meter(table, None)
            ));
            for entry in p.entries(table) {
                let meter = p.entry_meter(table, Some(entry.id));
                note(format_args!(
                    "{:?} {:?} {meter:?} {}",
                    entry.entry.key,
                    entry.counter,
                    entry.last_hit.as_nanos()
                ));
            }
        }
        for counter in &arrays.counters {
            let cells = 0..p.counter_size(*counter).min(MOST_CELLS);
            let cells: Vec<_> = cells.map(|i| p.counter_value(*counter, i)).collect();
            note(format_args!("{counter:?} {cells:?}"));
        }
        for meter in &arrays.meters {
            let cells = 0..p.meter_size(*meter).min(MOST_CELLS);
            let cells: Vec<_> = cells.map(|i| p.meter_counts(*meter, i)).collect();
            note(format_args!("{meter:?} {cells:?}"));
        }
        for register in &arrays.registers {
            let cells = 0..p.register_size(*register).min(MOST_CELLS);
            let cells: Vec<_> = cells.map(|i| p.register_value(*register, i)).collect();
            note(format_args!("{register:?} {cells:02x?}"));
        }
        text
    }
}
