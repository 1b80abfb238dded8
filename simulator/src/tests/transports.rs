//! Hosts with several transports, each for a part of the workload.

use ebb_transport::Role;
use serde_json::{Value, json};

use super::*;

/// A transfer of a part of the workload.
fn transfer(id: u64, traffic: &str, from: &str, to: &str, bytes: u64, kind: &str) -> Value {
    json!({
        "id": id,
        "traffic": traffic,
        "kind": kind,
        "start_ns": 1000,
        "sources": [from],
        "destinations": [to],
        "bytes": bytes,
    })
}

fn mixed(topology: &Topology, transports: (&str, &str)) -> Value {
    let (send, fetch) = ("send-one-to-one", "fetch-one-to-one");
    let transfers = json!([
        transfer(0, "web", "h1", "h3", 60_000, send),
        transfer(1, "storage", "h1", "h3", 700_000, send),
        transfer(2, "storage", "h2", "h3", 700_000, fetch),
        transfer(3, "web", "h2", "h3", 60_000, fetch),
        transfer(4, "storage", "h3", "h1", 1, send),
    ]);
    let network = with(topology.network(transports.0), "transfers", transfers);
    with(network, "transport_of", json!({"storage": transports.1}))
}

/// Two protocols, one protocol twice, and one transport for all.
#[test]
fn each_part_of_a_workload_has_its_transport() {
    let topology = Topology::star(3);
    for (web, storage) in [
        ("reno", "ndp"),
        ("reno", "dctcp"),
        ("ndp", "scdp"),
        ("ndp", "ndp"),
    ] {
        let outcome = topology.run(mixed(&topology, (web, storage)));
        outcome.assert_good();
        for (transfer, transport) in [(0, web), (1, storage), (2, storage), (3, web), (4, storage)]
        {
            let ends = [outcome.sender(transfer), outcome.receiver(transfer)];
            for end in ends {
                assert_eq!(end.record.transport, transport, "transfer {transfer}");
            }
        }
    }
}

#[test]
fn hosts_with_several_transports_are_the_same_every_time() {
    let topology = Topology::racks(2, 3);
    let trace = |threads| {
        let network = mixed(&topology, ("reno", "ndp"));
        topology.run_on(network, threads).trace
    };
    assert_eq!(trace(1), trace(2));
}

/// Samples of arrivals are those of the flow, not of the other transport's with its number.
#[test]
fn arrivals_are_told_apart() {
    let topology = Topology::star(3);
    let network = with(
        mixed(&topology, ("reno", "ndp")),
        "arrivals_every_ns",
        json!(100_000),
    );
    let outcome = topology.run(network);
    for (transfer, bytes) in [(0, 60_000), (1, 700_000), (2, 700_000), (3, 60_000)] {
        let arrivals = &outcome.arrivals[&transfer];
        let record = &outcome.of(Role::Receiver, transfer)[0].record;
        assert!(arrivals.bytes.is_sorted(), "{transfer}");
        assert!(
            arrivals
                .bytes
                .last()
                .is_none_or(|last| *last <= bytes + 200)
        );
        assert!(arrivals.at_ns.iter().all(|at| *at <= record.finished_at_ns));
        assert!(arrivals.at_ns.len() > 2, "{transfer}");
    }
}

#[test]
fn a_part_that_the_workload_lacks_is_refused() {
    let topology = Topology::star(3);
    let network = with(
        mixed(&topology, ("reno", "ndp")),
        "transport_of",
        json!({"storrage": "ndp"}),
    );
    let network: Network = serde_json::from_value(network).unwrap();
    let error = network.build().err().unwrap().to_string();
    assert_eq!(
        error,
        "transport_of: there are no transfers of traffic storrage; there are some of storage, web"
    );
}
