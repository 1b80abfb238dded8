//! `codel.p4` in a switch under overload: it drops the packets, and sends the others at the times, that the pseudocode
//! of RFC 8289 section 5 does on a queue of its own.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use ebb_engine::Switch;
use ebb_engine::simulation::{Host, Simulation};
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{ActionCall, MatchKey, TableAction, TableEntry, WeightedAction};
use ebb_traffic_manager::{DepthUnit, Profile, QueueConfig, TrafficManagerConfig};
use ebb_units::{Duration, Instant};
use ebb_wire::{Ecn, Ipv4Header, Protocol};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::classes::{GIGABIT, options};
use crate::switches::*;

const PORT: u16 = 2;
const FRAME_BYTES: usize = 1_000;
const TARGET_US: u64 = 100;
const INTERVAL_US: u64 = 1_000;
/// The longest frame: a queue with no more than this is good.
const LEAST_BYTES: u64 = 1_514;
const FRAMES: usize = 10_000;
const SEED: u64 = 1;
/// Where the number of a frame is, behind Ethernet and IPv4.
const NUMBER_AT: usize = 34;
const MOST_COUNTS: u16 = 1_000;

/// 2^24 / sqrt(count), as the entries of `codel_law` have it.
fn inverse_root(count: u16) -> u64 {
    (f64::from(1 << 24) / f64::from(count).sqrt()).round() as u64
}

static PROGRAM: LazyLock<ebb_bmv2_json::Program> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/fabric_codel.p4");
    let text = std::fs::read_to_string(path).expect("the program of the repository");
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let compiled = ebb_p4c::compile(path, &text, &Default::default(), &mut sources, &diagnostics);
    compiled.expect("a right program").json
});

fn call(pipeline: &Pipeline, table: &str, action: &str, params: &[u64]) -> ActionCall {
    let table = pipeline.table(table).expect("a table");
    let action = pipeline.table_action(table, action).expect("an action");
    let params = params.iter().map(|n| n.to_be_bytes().to_vec()).collect();
    ActionCall { action, params }
}

fn add(pipeline: &mut Pipeline, table: &str, key: MatchKey, action: TableAction) {
    let table = pipeline.table(table).expect("a table");
    let entry = TableEntry {
        key: vec![key],
        priority: 0,
        action,
        idle_timeout: None,
        metadata: Vec::new(),
    };
    let inserted = pipeline.insert_entry(Instant::ZERO, table, entry);
    inserted.expect("room");
}

/// A switch that sends everything to [`PORT`], at a gigabit.
fn switch_with_codel() -> Switch {
    let profile = Profile {
        name: "p".into(),
        rate_bps: GIGABIT,
        queue: vec![QueueConfig::default()],
        ..Profile::default()
    };
    let config = TrafficManagerConfig {
        depth_unit: DepthUnit::Bytes,
        ports: BTreeMap::from([("default".into(), "p".into())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    };
    let mut switch = Switch::new(options("s"), config).expect("valid configuration");
    let pipeline = Pipeline::load(&PROGRAM).expect("loadable");
    switch.install(pipeline).expect("nothing is exported");
    let pipeline = switch.pipeline_mut().expect("a program");
    let (table, action) = (
        "FabricIngress.route.ipv4_route",
        "FabricIngress.route.set_next_hop",
    );
    let to_port = WeightedAction {
        call: call(pipeline, table, action, &[u64::from(PORT), 1, 2]),
        weight: 1,
        watch_port: None,
    };
    let everywhere = MatchKey::Lpm {
        value: vec![10, 0, 0, 0],
        prefix_len: 8,
    };
    add(pipeline, table, everywhere, TableAction::Set(vec![to_port]));
    let (table, action) = (
        "FabricEgress.codel.codel_law",
        "FabricEgress.codel.set_inverse_root",
    );
    for count in 1..=MOST_COUNTS {
        let action = TableAction::Direct(call(pipeline, table, action, &[inverse_root(count)]));
        let key = MatchKey::Lpm {
            value: count.to_be_bytes().to_vec(),
            prefix_len: 16,
        };
        add(pipeline, table, key, action);
    }
    let (table, action) = ("FabricEgress.codel.codel", "FabricEgress.codel.set_codel");
    let parameters = [TARGET_US, INTERVAL_US, LEAST_BYTES, 0];
    let action = TableAction::Direct(call(pipeline, table, action, &parameters));
    let port = MatchKey::Exact(PORT.to_be_bytes().to_vec());
    add(pipeline, table, port, action);
    switch
}

/// Overload and less than that in turn, each for a random time: when frames come.
fn arrivals() -> Vec<Instant> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let service_ps = GIGABIT.time_for(FRAME_BYTES as u64).as_picos() as f64;
    let (mut at, mut left, mut load) = (Instant::ZERO, 0, 0.0);
    let times = (0..FRAMES).map(|_| {
        if left == 0 {
            left = random.random_range(100..1_500);
            load = if load > 1.0 {
                0.7
            } else {
                random.random_range(1.05..1.6)
            };
        }
        left -= 1;
        let gap = random.random_range(0.0..2.0) * service_ps / load;
        at += Duration::from_picos(gap.round() as u64);
        at
    });
    times.collect()
}

fn numbered(number: usize) -> Vec<u8> {
    let mut packet = frame(0, 14);
    let (from, to) = (Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 0, 2));
    let payload_bytes = FRAME_BYTES - NUMBER_AT;
    Ipv4Header::new(from, to, Protocol(200), 0, Ecn::NotEct).emit(payload_bytes, &mut packet);
    packet.extend((number as u32).to_be_bytes());
    packet.resize(FRAME_BYTES, 0);
    packet
}

fn number_of(frame: &[u8]) -> usize {
    let bytes = frame[NUMBER_AT..].first_chunk().expect("a whole frame");
    u32::from_be_bytes(*bytes) as usize
}

/// A host outside of the switch: sends frames at given times, and notes when others leave.
#[derive(Default)]
struct Outside {
    to_send: VecDeque<(usize, Instant)>,
    arrived: Vec<(usize, Instant)>,
}

impl Host for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.arrived.push((number_of(&frame), now));
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.to_send.front().map(|(_, at)| *at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.next_wake().filter(|at| *at <= now)?;
        let (number, at) = self.to_send.pop_front()?;
        Some((at, numbered(number)))
    }
}

/// Corners of the law that a queue has seen.
#[derive(Default, Debug)]
struct Seen {
    drops: usize,
    bad_periods: usize,
    /// Those that went on where the one before had ended.
    resumed: usize,
    most_counts: u16,
}

/// The queue of the RFC, with its names. Times are in 2^-16 us; what they are read from ticks in us.
#[derive(Default)]
struct Codel {
    queue: VecDeque<(usize, Instant)>,
    first_above_time: u64,
    drop_next: u64,
    count: u16,
    lastcount: u16,
    dropping: bool,
    seen: Seen,
}

const INTERVAL: u64 = INTERVAL_US << 16;

fn control_law(t: u64, count: u16) -> u64 {
    t + ((INTERVAL_US * inverse_root(count)) >> 8)
}

impl Codel {
    /// The packet at the head, and whether it is OK to drop.
    fn dodequeue(&mut self, time: Instant) -> (Option<usize>, bool) {
        let now = time.as_micros() << 16;
        let Some((packet, came)) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        let sojourn_us = time.since(came).as_micros();
        if sojourn_us < TARGET_US || (self.queue.len() * FRAME_BYTES) as u64 <= LEAST_BYTES {
            self.first_above_time = 0;
            return (Some(packet), false);
        }
        if self.first_above_time == 0 {
            self.first_above_time = now + INTERVAL;
            return (Some(packet), false);
        }
        (Some(packet), now >= self.first_above_time)
    }

    fn deque(&mut self, time: Instant) -> Option<usize> {
        let now = time.as_micros() << 16;
        let (mut packet, mut ok_to_drop) = self.dodequeue(time);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.seen.drops += 1;
                self.count += 1;
                self.seen.most_counts = self.seen.most_counts.max(self.count);
                (packet, ok_to_drop) = self.dodequeue(time);
                if !ok_to_drop {
                    self.dropping = false;
                } else {
                    self.drop_next = control_law(self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            self.seen.drops += 1;
            self.seen.bad_periods += 1;
            (packet, _) = self.dodequeue(time);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now as i64 - self.drop_next as i64) < 16 * INTERVAL as i64 {
                self.count = delta;
                self.seen.resumed += 1;
            }
            self.drop_next = control_law(now, self.count);
            self.lastcount = self.count;
        }
        packet
    }
}

/// The frames that leave, and when their last bit has.
fn expected(arrivals: &[Instant]) -> (Vec<(usize, Instant)>, Seen) {
    let (mut codel, mut left, mut free_at) = (Codel::default(), Vec::new(), Instant::ZERO);
    let mut coming = arrivals.iter().copied().enumerate().peekable();
    loop {
        // All that has come when the link is free; the next, if the queue is empty then.
        while let Some(arrival) = coming.next_if(|(_, at)| *at <= free_at) {
            codel.queue.push_back(arrival);
        }
        if codel.queue.is_empty() {
            let Some((_, at)) = coming.peek() else {
                return (left, codel.seen);
            };
            free_at = *at;
            continue;
        }
        if let Some(packet) = codel.deque(free_at) {
            free_at += GIGABIT.time_for(FRAME_BYTES as u64);
            left.push((packet, free_at));
        }
    }
}

#[test]
fn drops_are_those_of_the_rfc_at_its_times() {
    let arrivals = arrivals();
    let (expected, seen) = expected(&arrivals);
    assert!(
        seen.drops > 100 && seen.bad_periods > 5 && seen.resumed > 2 && seen.most_counts > 30,
        "{seen:?} shows little"
    );
    assert!(seen.most_counts < MOST_COUNTS);

    let mut simulation = Simulation::new();
    let switch = simulation.add_switch(switch_with_codel());
    let source = simulation.add_host(Outside::default());
    let sink = simulation.add_host(Outside::default());
    simulation.connect(at(switch, 1), at(source, 0)).unwrap();
    simulation.connect(at(switch, PORT), at(sink, 0)).unwrap();
    // A host is asked when it wants to be woken after each call.
    let to_send = arrivals.iter().copied().enumerate().collect();
    simulation.with_host(source, |host| host.to_send = to_send);
    simulation.run_until(Instant::FAR_FUTURE, |_, _| false);
    let left = &simulation.host(sink).unwrap().arrived;
    let different = left
        .iter()
        .zip(&expected)
        .find(|(ours, theirs)| ours != theirs);
    assert_eq!(different, None, "the first that differs, of seed {SEED}");
    assert_eq!(left.len(), expected.len());
    assert_eq!(FRAMES - left.len(), seen.drops);
}
