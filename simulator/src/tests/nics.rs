//! NICs of simulated hosts, with real switches beside them.

use ebb_transport::nic::NicStatistics;
use ebb_transport::{Role, TransportKind};
use serde_json::{Value, json};

use super::*;

/// Objects of the last host's peers to it, all at once.
fn to_the_last(hosts: usize, bytes: u64) -> Value {
    let one = |id: usize| {
        json!({
            "id": id,
            "start_ns": 1000,
            "sources": [format!("h{}", id + 1)],
            "destinations": [format!("h{hosts}")],
            "bytes": bytes,
        })
    };
    Value::Array((0..hosts - 1).map(one).collect())
}

fn with_nic(mut network: Value, nic: &Value) -> Value {
    for (key, value) in nic.as_object().unwrap() {
        network["params"]["nic"][key] = value.clone();
    }
    network
}

/// Runs to the end; what neighbours did to NICs, by host.
fn run_and_ask(topology: &Topology, network: Value) -> (Outcome, BTreeMap<String, NicStatistics>) {
    let (mut run, _) = Run::new(topology.build(network.clone())).unwrap();
    while !run.is_over() && run.simulation.now() < Instant::from_nanos(10_000_000_000) {
        run.advance(Instant::from_nanos(10_000_000_000), |_, _| false);
    }
    let nics = run.nics().into_iter().collect();
    (topology.run(network), nics)
}

/// A switch with room for what PFC lets come and no more: a host that obeys loses nothing, one that
/// does not does.
#[test]
fn hosts_that_obey_pfc_lose_nothing() {
    let topology = Topology::star(4);
    let mut network = with(
        topology.network("reno"),
        "transfers",
        to_the_last(4, 500_000),
    );
    let manager = &mut network["switches"][0]["traffic_manager"];
    // Bytes that one port may bring, with those that come in until its host has stopped.
    manager["profile"][0]["ingress_bytes"] = json!(32_768);
    manager["profile"][0]["egress_bytes"] = json!(32_768);
    manager["profile"][0]["queue"] = json!([{"id": 0, "lossless": true}]);
    manager["pfc"] = json!({"pause_bytes": 8192, "resume_bytes": 4557, "response_ns": 1024});
    let nic = |pfc| json!({"pfc": pfc, "pfc_response_ns": 1024});
    let (lossless, nics) = run_and_ask(&topology, with_nic(network.clone(), &nic(true)));
    lossless.assert_good();
    assert_eq!(lossless.drops, 0);
    for sender in ["h1", "h2", "h3"] {
        let paused = &nics[sender];
        assert!(paused.pauses_received[0] > 10, "{sender}: {paused:?}");
        assert!(paused.paused[0] > ebb_units::Duration::from_micros(100));
        assert_eq!(paused.pauses_received[1..], [0; 7]);
        assert_eq!(paused.refused_frames, 0);
    }
    let (lossy, nics) = run_and_ask(&topology, with_nic(network, &nic(false)));
    assert!(nics.is_empty());
    let lost = |outcome: &Outcome| {
        let flows = outcome.flows.iter().map(|(_, ended)| &ended.record);
        flows
            .map(|record| record.counters.retransmitted)
            .sum::<u64>()
    };
    assert!(lost(&lossy) > 0);
    assert_eq!(lost(&lossless), 0);
}

#[test]
fn every_transport_works_with_every_nic() {
    let topology = Topology::star(4);
    let nics = [
        json!({"queue": "fifo"}),
        json!({"queue": "fifo", "queue_packets": 3}),
        json!({"coalesce_packets": 8, "coalesce_ns": 100_000}),
        json!({"queue": "fifo", "coalesce_packets": 32, "coalesce_ns": 20_000, "pfc": true}),
    ];
    for transport in TransportKind::ALL {
        for nic in &nics {
            let network = with(
                topology.network(transport.name()),
                "transfers",
                to_the_last(4, 150_000),
            );
            let mut network = with_nic(network, nic);
            network["params"]["tcp"] =
                json!({"offload_bytes": 65_536, "initial_receive_window_bytes": 20_000});
            let outcome = topology.run(network);
            outcome.assert_good();
            assert_eq!(outcome.of(Role::Sender, 0).len(), 1, "{transport} {nic}");
        }
    }
}

/// The time that a small object takes beside a large one of the same host, which fills its window.
fn beside_a_large_one(nic: &Value) -> u64 {
    let topology = Topology {
        queue_packets: 1000,
        ..Topology::star(3)
    };
    let transfers = json!([
        {"id": 0, "start_ns": 0, "sources": ["h1"], "destinations": ["h2"], "bytes": 3_000_000},
        {"id": 1, "start_ns": 10_000_000, "sources": ["h1"], "destinations": ["h3"], "bytes": 1_000},
    ]);
    let network = with(topology.network("reno"), "transfers", transfers);
    let outcome = topology.run(with_nic(network, nic));
    outcome.assert_good();
    let record = &outcome.receiver(1).record;
    record.finished_at_ns - 10_000_000
}

#[test]
fn a_small_object_waits_behind_a_large_one_in_a_fifo_and_not_in_turn() {
    let in_turn = beside_a_large_one(&json!({}));
    let fifo = beside_a_large_one(&json!({"queue": "fifo"}));
    let short = beside_a_large_one(&json!({"queue": "fifo", "queue_packets": 20}));
    assert!(in_turn < 100_000, "{in_turn}");
    // Twice through the queue, with its SYN and with its data.
    assert!(
        short > 2 * 19 * 12_000 && short < 2 * 25 * 12_500,
        "{short}"
    );
    assert!(fifo > 4 * short, "{fifo}");
}
