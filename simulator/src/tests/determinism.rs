//! One seed, one result, on any number of threads and in whatever pieces the clock runs.

use serde_json::json;

use super::*;

fn outcome(threads: usize, seed: u64) -> Outcome {
    let topology = Topology::racks(4, 3);
    let mut transfers = Vec::new();
    for id in 0..40u64 {
        let (from, to) = (id % 12, (id * 7 + 5) % 12);
        if from != to {
            transfers.push(json!({
                "id": id,
                "start_ns": id / 12 * 50_000,
                "sources": [format!("h{}", from + 1)],
                "destinations": [format!("h{}", to + 1)],
                "bytes": 20_000 + 1000 * id,
            }));
        }
    }
    let network = with(topology.network("scdp"), "transfers", json!(transfers));
    topology.run_on(with(network, "seed", json!(seed)), threads)
}

fn told(outcome: &Outcome) -> Vec<String> {
    let flows = outcome.flows.iter();
    flows
        .map(|(host, ended)| format!("{host} {:?} {:?}", ended.open, ended.record))
        .collect()
}

#[test]
fn threads_make_no_difference() {
    let one = outcome(1, 1);
    one.assert_good();
    for threads in [2, 3] {
        let several = outcome(threads, 1);
        assert_eq!(several.trace, one.trace, "{threads} threads");
        assert_eq!(several.at, one.at, "{threads} threads");
        assert_eq!(told(&several), told(&one), "{threads} threads");
    }
}

#[test]
fn another_seed_is_another_run() {
    assert_ne!(outcome(1, 1).trace, outcome(1, 2).trace);
}
