//! How objects come over time, and runs that end with a part of their workload.

use ebb_transport::TransportKind;
use serde_json::{Value, json};

use super::*;

const BYTES: u64 = 200_000;
const LONG_BYTES: u64 = 5 * BYTES;
const EVERY_NS: u64 = 50_000;

/// A short object beside a long one, to different hosts.
fn long_and_short() -> Value {
    json!([
        {"id": 0, "start_ns": 0, "traffic": "long", "sources": ["h1"], "destinations": ["h2"],
         "bytes": LONG_BYTES},
        {"id": 1, "start_ns": 0, "traffic": "short", "sources": ["h3"], "destinations": ["h4"],
         "bytes": BYTES},
    ])
}

fn run(transport: TransportKind, every_ns: u64, ends_with: &[&str]) -> Outcome {
    let topology = Topology::star(4);
    let network = with(
        topology.network(transport.name()),
        "transfers",
        long_and_short(),
    );
    let network = with(network, "arrivals_every_ns", json!(every_ns));
    topology.run(with(network, "ends_with", json!(ends_with)))
}

#[test]
fn arrivals_are_sampled_at_exact_instants_and_grow_with_the_rate_of_the_link() {
    for transport in TransportKind::ALL {
        let outcome = run(transport, EVERY_NS, &["short"]);
        let arrivals = &outcome.arrivals[&1];
        let received = outcome.receiver(1).record.clone();
        for (number, at) in (1..).zip(&arrivals.at_ns) {
            assert_eq!(*at, number * EVERY_NS, "{transport}");
        }
        let last = *arrivals.at_ns.last().expect("samples");
        assert!(last <= received.finished_at_ns && received.finished_at_ns - last <= EVERY_NS);
        assert!(arrivals.bytes.is_sorted(), "{transport}");
        assert!(arrivals.bytes.iter().all(|bytes| *bytes <= BYTES + 1000));
        // Half way through, half of it is there; slow start of TCP apart.
        let half = arrivals.bytes[arrivals.bytes.len() / 2];
        let around = BYTES / 2 - BYTES / 10..BYTES / 2 + BYTES / 10;
        let tcp = !matches!(transport, TransportKind::Ndp | TransportKind::Scdp);
        assert!(tcp || around.contains(&half), "{transport}: {half}");
    }
}

#[test]
fn samples_leave_a_run_as_it_is() {
    let trace = |every_ns| run(TransportKind::Scdp, every_ns, &[]).trace;
    assert_eq!(trace(0), trace(EVERY_NS));
}

#[test]
fn a_run_ends_with_a_part_of_its_workload() {
    for transport in TransportKind::ALL {
        let all = run(transport, 0, &[]);
        assert_eq!((all.unfinished, &*all.open), (0, &[][..]));
        let short = run(transport, 0, &["short"]);
        assert_eq!(short.unfinished, 1, "{transport}");
        assert!(short.at < all.at, "{transport}");
        // Nothing is known of a coded object before a block is decoded.
        if transport == TransportKind::Trevi {
            continue;
        }
        let (transfer, arrived) = short.open[0];
        assert_eq!((short.open.len(), transfer), (1, 0));
        assert!(
            (BYTES / 2..LONG_BYTES).contains(&arrived),
            "{transport}: {arrived}"
        );
    }
}

#[test]
fn a_part_that_is_not_there_is_refused() {
    let network = with(
        Topology::star(4).network("ndp"),
        "transfers",
        long_and_short(),
    );
    let network: Network = serde_json::from_value(with(network, "ends_with", json!(["none"])))
        .expect("a network file");
    let error = format!("{:#}", network.build().err().expect("refused"));
    assert!(error.contains("there are some of long, short"), "{error}");
}
