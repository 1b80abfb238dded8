//! Runs that skip rounds, beside the same runs in full.

use ebb_engine::simulation::NodePort;
use ebb_units::Duration;
use rand::prelude::*;
use rand::rngs::SmallRng;

use super::*;
use crate::skipping::Skips;

const LIMIT_NS: u64 = 60_000_000_000;

/// A ring of hosts, each of which sends to the next in every round once it has got what the one before sent.
struct Ring {
    hosts: u64,
    rounds: u64,
    bytes: u64,
    /// Time from what has come to what is sent on.
    delay_ns: u64,
}

impl Ring {
    fn transfers(&self) -> Vec<Value> {
        let ids = 0..self.hosts * self.rounds;
        let transfer = |id: u64| {
            let (round, at) = (id / self.hosts, id % self.hosts);
            let mut transfer = json!({
                "id": id, "traffic": "ring", "start_ns": 1000, "bytes": self.bytes,
                "sources": [format!("h{}", at + 1)],
                "destinations": [format!("h{}", (at + 1) % self.hosts + 1)],
            });
            if let Some(before) = round.checked_sub(1) {
                let cause = before * self.hosts + (at + self.hosts - 1) % self.hosts;
                transfer["after"] = json!(
                    {"transfer": cause, "moment": "finished", "delay_ns": self.delay_ns, "serial": false}
                );
            }
            transfer
        };
        ids.map(transfer).collect()
    }
}

/// A send of 100 KB beside the ring.
fn beside(id: u64, start_ns: u64) -> Value {
    json!({
        "id": id, "traffic": "beside", "start_ns": start_ns, "bytes": 100_000,
        "sources": ["h1"], "destinations": ["h3"],
    })
}

/// A run as it is reported.
#[derive(Default)]
struct Tale {
    /// Request, end and whether it was skipped, in ns, by transfer.
    transfers: BTreeMap<u64, (u64, u64, bool)>,
    skips: BTreeMap<String, Skips>,
    lines: Vec<String>,
    trace: u64,
    events: u64,
}

/// An action and its time, in ns.
type Event = (u64, fn(&mut Run));

/// Runs a network until all transfers have ended.
fn run(topology: &Topology, network: Value, threads: usize, event: Option<Event>) -> Tale {
    let mut built = topology.build(network);
    built.simulation.spread(threads);
    let (mut run, _) = Run::new(built).unwrap();
    let mut tale = Tale::default();
    let mut offered = BTreeMap::new();
    for (until_ns, then) in event
        .into_iter()
        .map(|(at, what)| (at, Some(what)))
        .chain([(LIMIT_NS, None)])
    {
        let until = Instant::from_nanos(until_ns);
        while run.now() < until && !run.is_over() {
            run.advance(until, |_, _| false);
            let told = run.report(|host, notice| -> Result<(), ()> {
                let Notice::Flow(ended) = notice else {
                    panic!("{host}: a transfer failed");
                };
                tale.lines.push(format!(
                    "{host} {:?} {:?} {}",
                    ended.open, ended.record, ended.skipped
                ));
                let open = ended.open.as_ref().expect("a flow of a transfer");
                let id = open.transfer.id;
                let record = &ended.record;
                assert_eq!(
                    record.finished_at_ns - record.started_at_ns,
                    record.duration_ns
                );
                if record.role == Role::Sender {
                    let before = offered.insert(id, open.offered_at_ns.expect("it started it"));
                    assert_eq!(before, None, "transfer {id} is told twice");
                } else {
                    let name = &ended.header.as_ref().expect("it arrived").name;
                    assert!(name.ends_with(&format!("-{id}")), "{id} is called {name}");
                    tale.transfers
                        .insert(id, (0, record.finished_at_ns, ended.skipped));
                }
                Ok(())
            });
            told.unwrap();
        }
        if let Some(then) = then {
            then(&mut run);
        }
    }
    assert_eq!(run.take_held().len(), 0);
    assert_eq!(run.done().unfinished, 0);
    for (id, (start, ..)) in &mut tale.transfers {
        *start = offered[id];
    }
    assert_eq!(tale.transfers.len(), offered.len());
    tale.skips = run
        .skips()
        .map(|(name, skips)| (name.to_owned(), skips.clone()))
        .collect();
    tale.trace = run.simulation.trace_hash();
    tale.events = run.simulation.work().events;
    tale
}

fn skipping(network: &Value) -> Value {
    with(network.clone(), "skip", json!(true))
}

impl Tale {
    fn skipped_rounds(&self) -> u64 {
        self.skips["ring"].rounds
    }

    /// Every transfer takes as long as in the full run within 1 %, ends at the same time within 1 %, and those end in
    /// the same order that are further apart than a quarter of what one takes.
    fn assert_like(&self, full: &Tale, what: &str) {
        assert_eq!(self.transfers.len(), full.transfers.len(), "{what}");
        let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) as f64 <= 0.01 * theirs as f64;
        for (id, (start, end, _)) in &full.transfers {
            let (our_start, our_end, skipped) = &self.transfers[id];
            let [took, ours] = [end - start, our_end - our_start];
            assert!(
                near(ours, took),
                "{what}: {id} takes {took}, skipping {ours} (skipped: {skipped})"
            );
            assert!(
                near(*our_end, *end),
                "{what}: {id} ends at {end}, skipping {our_end}"
            );
        }
        for (one, (_, end, _)) in &full.transfers {
            for (other, (start, later, _)) in &full.transfers {
                if *later > end + (later - start) / 4 {
                    let [end, later] = [one, other].map(|id| self.transfers[id].1);
                    assert!(end < later, "{what}: {one} does not end before {other}");
                }
            }
        }
        let skipped = self
            .transfers
            .values()
            .filter(|(.., skipped)| *skipped)
            .count();
        let said: u64 = self.skips.values().map(|skips| skips.transfers).sum();
        assert_eq!(skipped as u64, said, "{what}");
    }
}

/// A scenario that a seed stands for.
fn random(seed: u64) -> (Topology, Value, String) {
    let mut random = SmallRng::seed_from_u64(seed);
    let topology = match random.random_range(0..5) {
        0 => Topology::racks(2, 2),
        1 => Topology::racks(3, 2),
        _ => Topology::star(random.random_range(3..6)),
    };
    let hosts = topology.places().len() as u64;
    let transport = *["ndp", "scdp", "dctcp", "reno", "hull", "trevi"]
        .choose(&mut random)
        .unwrap();
    let ring = Ring {
        hosts,
        rounds: random.random_range(8..30),
        bytes: random.random_range(40_000..120_000),
        delay_ns: *[0, 100_000, 100_000].choose(&mut random).unwrap(),
    };
    let mut transfers = ring.transfers();
    let first = transfers.len() as u64;
    if random.random_ratio(1, 3) {
        for id in first..first + random.random_range(1..3) {
            transfers.push(beside(id, random.random_range(0..40_000_000)));
        }
    }
    let mut network = with(topology.network(transport), "transfers", json!(transfers));
    network["seed"] = json!(seed);
    network["content"] = json!("zeros");
    let beside = transfers.len() as u64 - first;
    let what = format!(
        "seed {seed}: {transport}, {hosts} hosts, {} rounds of {} bytes, {} ns between, {beside} beside",
        ring.rounds, ring.bytes, ring.delay_ns
    );
    (topology, network, what)
}

#[test]
fn random_scenarios_are_skipped_as_they_run_in_full_or_not_at_all() {
    let (mut jumped, mut rounds, mut skipped) = (0, 0, 0);
    let seeds = match std::env::var_os("EBB_LONG") {
        Some(_) => 200,
        None => 12,
    };
    for seed in 0..seeds {
        let (topology, network, what) = random(seed);
        let full = run(&topology, network.clone(), 1, None);
        let ours = run(&topology, skipping(&network), 1, None);
        ours.assert_like(&full, &what);
        let of_ring = &ours.skips["ring"];
        match of_ring.jumps {
            0 => {
                assert!(of_ring.refused.is_some(), "{what}");
                assert_eq!(ours.trace, full.trace, "{what}");
            }
            _ => assert!(ours.events < full.events, "{what}"),
        }
        jumped += u64::from(of_ring.jumps > 0);
        rounds += (full.transfers.len() / topology.places().len()) as u64;
        skipped += of_ring.rounds;
    }
    eprintln!("{jumped} of {seeds} jumped over {skipped} of {rounds} rounds");
    assert!(jumped >= seeds / 3, "{jumped} of {seeds}");
}

fn star(transport: &str, others: &[Value]) -> (Topology, Value) {
    let topology = Topology::star(4);
    let ring = Ring {
        hosts: 4,
        rounds: 30,
        bytes: 300_000,
        delay_ns: 100_000,
    };
    let mut transfers = ring.transfers();
    transfers.extend_from_slice(others);
    let network = with(topology.network(transport), "transfers", json!(transfers));
    (topology, network)
}

#[test]
fn a_flow_that_starts_in_the_middle_of_what_would_be_skipped_is_met_in_full() {
    // A round takes 2.6 ms.
    let (topology, network) = star("ndp", &[beside(240, 45_000_000)]);
    let full = run(&topology, network.clone(), 1, None);
    let ours = run(&topology, skipping(&network), 1, None);
    ours.assert_like(&full, "a flow in the middle");
    assert!(ours.skips["ring"].jumps >= 1, "{:?}", ours.skips);
    assert_eq!(ours.transfers[&240].0, 45_000_000);
    // It meets rounds that are simulated, and they it.
    let meets = |tale: &Tale| {
        let (start, end, _) = tale.transfers[&240];
        let met = tale
            .transfers
            .values()
            .filter(|(begun, ended, _)| *begun < end && *ended > start);
        met.filter(|(.., skipped)| !skipped).count()
    };
    assert!(meets(&ours) >= 4 && meets(&ours) == meets(&full));
}

#[test]
fn a_fault_that_is_due_is_met_in_full() {
    let slow: fn(&mut Run) = |run| {
        let (h1, _) = run.simulation.hosts().next().expect("there are hosts");
        let link = run
            .simulation
            .link_states()
            .into_iter()
            .find(|link| link.from.node == h1);
        let link = link.expect("it has a link");
        for end in [link.from, link.to] {
            let state = ebb_engine::LinkState {
                rate_bps: Some(RATE_BPS / 2),
                ..link.state
            };
            run.simulation
                .set_link(NodePort { ..end }, state)
                .expect("it is there");
        }
    };
    let at_ns = 40_000_000;
    let (topology, network) = star("ndp", &[]);
    let full = run(&topology, network.clone(), 1, Some((at_ns, slow)));
    let ours = run(&topology, skipping(&network), 1, Some((at_ns, slow)));
    ours.assert_like(&full, "a slower link");
    assert!(ours.skips["ring"].jumps >= 1, "{:?}", ours.skips);
    // The rate of the link shows from then on, and not before.
    let longest = |before: bool| {
        let of = ours
            .transfers
            .values()
            .filter(|(_, end, _)| (*end < at_ns) == before);
        of.map(|(start, end, _)| end - start).max().unwrap()
    };
    assert!(longest(false) > longest(true) * 3 / 2);
}

#[test]
fn a_link_that_loses_at_random_is_no_steady_state() {
    let (topology, network) = star("ndp", &[]);
    let lossy: fn(&mut Run) = |run| {
        let link = run.simulation.link_states().remove(0);
        let state = ebb_engine::LinkState {
            loss: 1e-9,
            ..link.state
        };
        run.simulation
            .set_link(link.from, state)
            .expect("it is there");
    };
    let ours = run(&topology, skipping(&network), 1, Some((1, lossy)));
    assert_eq!(ours.skipped_rounds(), 0);
    let why = ours.skips["ring"].refused.as_deref();
    assert!(
        why.is_some_and(|why| why.contains("last rounds") || why.contains("at random")),
        "{why:?}"
    );
}

#[test]
fn threads_skip_alike() {
    let (topology, network) = star("dctcp", &[beside(240, 45_000_000)]);
    let network = skipping(&network);
    let one = run(&topology, network.clone(), 1, None);
    assert!(one.skipped_rounds() > 0);
    let two = run(&topology, network, 2, None);
    assert_eq!((one.trace, one.lines), (two.trace, two.lines));
}

#[test]
fn what_is_told_of_rounds_has_their_names_and_times() {
    let (topology, network) = star("ndp", &[]);
    let ours = run(&topology, skipping(&network), 1, None);
    let skips = &ours.skips["ring"];
    assert_eq!(skips.transfers, skips.rounds * 4);
    assert_eq!(skips.bytes, skips.transfers * 300_000);
    assert!(
        skips.time > Duration::from_millis(20) && skips.rounds >= 20,
        "{skips:?}"
    );
    // Each host begins a round when the one before has sent it what it has to pass on.
    for (id, (start, ..)) in ours.transfers.range(4..) {
        let cause = (id / 4 - 1) * 4 + (id + 3) % 4;
        assert!(
            start.abs_diff(ours.transfers[&cause].1 + 100_000) < 1_000,
            "{id}"
        );
    }
}

#[test]
fn what_cannot_be_skipped_beside_is_refused() {
    let (_, network) = star("ndp", &[]);
    let network = with(skipping(&network), "arrivals_every_ns", json!(1000));
    let network: Network = serde_json::from_value(network).expect("a network");
    let error = network.build().err().expect("both are refused").to_string();
    assert!(error.contains("arrivals_every_ns"), "{error}");
}
