//! Every transfer ends, or what is told of it says why not.

use std::collections::BTreeSet;

use ebb_engine::LinkState;
use ebb_engine::simulation::NodePort;
use ebb_transport::{Status, TransportKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::*;

/// While nothing happens the clock runs ever further at a time, and what is to start meanwhile is
/// prepared.
#[test]
fn any_number_of_transfers_may_be_prepared_ahead() {
    let one = |id: u64| {
        json!({
            "id": id, "start_ns": 11_000_000_000 + id * 200_000, "bytes": 1,
            "sources": ["h1"], "destinations": ["h2"],
        })
    };
    let transfers: Vec<Value> = (0..5000).map(one).collect();
    let topology = Topology::star(2);
    let params = json!({
        "nic": {"rate_bps": RATE_BPS, "mtu_bytes": MTU},
        "tcp": {"connections": "open"},
    });
    let network = with(topology.network("dctcp"), "transfers", json!(transfers));
    let outcome = topology.run(with(network, "params", params));
    outcome.assert_good();
    assert_eq!(outcome.done, (5000, 0));
}

/// The transfers of which a flow tells.
fn told(outcome: &Outcome) -> BTreeSet<u64> {
    let flows = outcome.flows.iter();
    flows
        .filter_map(|(_, ended)| Some(ended.open.as_ref()?.transfer.id))
        .collect()
}

/// Sends, fetches, and queries with responses, at random times between random hosts.
fn transfers(rng: &mut SmallRng, hosts: usize, count: u64, gap_ns: u64) -> Vec<Value> {
    let mut all = Vec::new();
    let mut at_ns = 0;
    while (all.len() as u64) < count {
        at_ns += rng.random_range(0..=2 * gap_ns);
        let from = rng.random_range(0..hosts);
        let to = (from + rng.random_range(1..hosts)) % hosts;
        let (a, b) = (format!("h{}", from + 1), format!("h{}", to + 1));
        let bytes: u64 = [1, 900, 20_000, 200_000][rng.random_range(0..4)];
        let id = all.len() as u64;
        let one = |id: u64, kind: &str, from: &str, to: &str, bytes: u64| {
            json!({
                "id": id, "start_ns": at_ns, "kind": kind, "bytes": bytes,
                "sources": [from], "destinations": [to],
            })
        };
        match rng.random_range(0..3) {
            0 => all.push(one(id, "send-one-to-one", &a, &b, bytes)),
            1 => all.push(one(id, "fetch-one-to-one", &a, &b, bytes)),
            _ => {
                all.push(one(id, "query", &a, &b, 100));
                let mut response = one(id + 1, "response", &b, &a, bytes);
                response["after"] = json!({
                    "transfer": id, "moment": "finished", "delay_ns": 100_000, "serial": true,
                });
                all.push(response);
            }
        }
    }
    all
}

/// Whatever the load, the loss and the connections, with every transport.
#[test]
fn every_transfer_ends() {
    for seed in 0..3 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let hosts = rng.random_range(2..5);
        let topology = Topology::star(hosts);
        let gap_ns = [1_000, 50_000, 5_000_000][rng.random_range(0..3)];
        let transfers = transfers(&mut rng, hosts, 30, gap_ns);
        let lossy = LinkState {
            loss: rng.random_range(0.0..0.05),
            ..LinkState::default()
        };
        for transport in TransportKind::ALL {
            let connections = ["open", "per-request"][rng.random_range(0..2)];
            let keep_open_ns = [1_000_000, 10_000_000_000u64][rng.random_range(0..2)];
            let tcp = json!({
                "connections": connections,
                "data_in_syn": rng.random_bool(0.3),
                "max_connections_per_peer": rng.random_range(1..4),
                "keep_open_ns": keep_open_ns,
            });
            let params = json!({"nic": {"rate_bps": RATE_BPS, "mtu_bytes": MTU}, "tcp": tcp});
            let network = with(
                topology.network(transport.name()),
                "transfers",
                json!(transfers),
            );
            let network = with(with(network, "params", params), "seed", json!(seed));
            let outcome = topology.run_with(network, 1, |run| {
                let nodes: Vec<_> = run.simulation.hosts().map(|(id, _)| id).collect();
                for node in nodes {
                    let end = NodePort { node, port: 0 };
                    run.simulation.set_link(end, lossy).unwrap();
                }
            });
            let what = format!("seed {seed}, {transport}, {tcp}, loss {}", lossy.loss);
            let count = transfers.len() as u64;
            assert_eq!(
                (outcome.done, outcome.unfinished),
                ((count, 0), 0),
                "{what}"
            );
            assert_eq!(outcome.failed, [], "{what}");
            for (host, ended) in &outcome.flows {
                assert_eq!(ended.record.status, Status::Finished, "{what}: {host}");
            }
            assert_eq!(told(&outcome), (0..count).collect(), "{what}");
        }
    }
}

/// A run that ends early says of every transfer how far it is.
#[test]
fn what_has_not_ended_is_told_with_the_reason() {
    let topology = Topology::star(3);
    let after = json!({"transfer": 1, "moment": "finished", "delay_ns": 0, "serial": false});
    let transfers = json!([
        {"id": 0, "start_ns": 0, "sources": ["h1"], "destinations": ["h2"], "bytes": 1},
        {"id": 1, "start_ns": 0, "sources": ["h1"], "destinations": ["h3"], "bytes": 1 << 30},
        {"id": 2, "start_ns": 0, "sources": ["h3"], "destinations": ["h1"], "bytes": 1, "after": after},
    ]);
    for transport in [TransportKind::Ndp, TransportKind::Dctcp] {
        let network = with(
            topology.network(transport.name()),
            "transfers",
            transfers.clone(),
        );
        let (mut run, _) = Run::new(topology.build(network)).unwrap();
        let end = Instant::from_nanos(5_000_000);
        while run.simulation.now() < end {
            run.advance(end, |_, _| false);
        }
        let told: Vec<(u64, String)> = run
            .rest()
            .map(|(_, open)| (open.transfer.id, open.unfinished()))
            .collect();
        let why = |what: &str| format!("unfinished at the end of the run: {what}");
        let expected = [
            (1, why("it is under way")),
            (2, why("transfer 1, for which it waits, has not ended here")),
        ];
        assert_eq!(told, expected, "{transport}");
        assert_eq!(run.done().ended, 1);
    }
}

/// No host waits for what failed before it came there: a query, and each link of a chain behind it.
#[test]
fn what_waits_for_a_failure_at_another_host_ends_with_it() {
    let topology = Topology::star(3);
    let after = |transfer: u64| json!({"transfer": transfer, "moment": "finished", "delay_ns": 0, "serial": false});
    let transfers = json!([
        {"id": 0, "start_ns": 0, "kind": "query", "sources": ["h1"], "destinations": ["h2"], "bytes": 100},
        {"id": 1, "start_ns": 0, "kind": "response", "sources": ["h2"], "destinations": ["h1"], "bytes": 100,
         "after": after(0)},
        {"id": 2, "start_ns": 0, "sources": ["h2"], "destinations": ["h3"], "bytes": 100, "after": after(0)},
        {"id": 3, "start_ns": 0, "sources": ["h3"], "destinations": ["h1"], "bytes": 100, "after": after(2)},
    ]);
    for transport in TransportKind::ALL {
        let network = with(
            topology.network(transport.name()),
            "transfers",
            transfers.clone(),
        );
        let outcome = topology.run_with(network, 1, |run| {
            let (node, _) = run.simulation.hosts().next().unwrap();
            let cut = LinkState {
                up: false,
                ..LinkState::default()
            };
            run.simulation
                .set_link(NodePort { node, port: 0 }, cut)
                .unwrap();
        });
        let why = |cause: u64| format!("never begun: transfer {cause}, for which it waits, failed");
        let mut told = outcome.not_started;
        told.sort_unstable();
        assert_eq!(told, [(1, why(0)), (2, why(0)), (3, why(2))], "{transport}");
        assert_eq!(
            (outcome.done, outcome.unfinished),
            ((4, 0), 0),
            "{transport}"
        );
    }
}
